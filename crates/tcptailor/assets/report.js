"use strict";
// Draws the time series again so that they can be read to the point and zoomed; everything else on
// the page needs no script. What is drawn is the data of this page, as it stands in #data.
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const status = document.getElementById("status");
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const drawn = new Map();

  const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const three = (v) => (v >= 99.95 ? v.toFixed(0) : v >= 9.995 ? v.toFixed(1) : v.toFixed(2));
  const scaled = (v, step, units) => {
    let unit = 0;
    while (v >= step - 0.5 && unit + 1 < units.length) { v /= step; unit += 1; }
    return (unit === 0 && v % 1 === 0 ? String(v) : three(v)) + " " + units[unit];
  };
  const show = {
    "bit/s": (v) => scaled(v, 1000, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]),
    us: (v) => scaled(v, 1000, ["us", "ms", "s"]),
    bytes: (v) => scaled(v, 1024, ["B", "KiB", "MiB", "GiB"]),
  };
  const shown = (unit, v) => (v == null ? "unknown" : show[unit](v));

  function panel(box, figure, one, sync) {
    const width = box.clientWidth;
    const axis = { stroke: ink("--muted"), grid: { stroke: ink("--line"), width: 0.6 }, ticks: { stroke: ink("--line"), width: 0.6 } };
    const scale = { range: (_, low, high) => [0, high > 0 ? high * 1.05 : 1] };
    const series = one.lines.map((line, i) => ({
      label: line.name, stroke: ink("--s" + (i % 6)), width: 1.5, spanGaps: false,
      points: { show: false },
    }));
    const references = (u) => {
      for (const reference of one.references) {
        const y = Math.round(u.valToPos(reference.value, "y", true));
        if (y < u.bbox.top || y > u.bbox.top + u.bbox.height) continue;
        u.ctx.save();
        u.ctx.strokeStyle = u.ctx.fillStyle = ink("--ink");
        u.ctx.setLineDash([6, 4]);
        u.ctx.beginPath(); u.ctx.moveTo(u.bbox.left, y); u.ctx.lineTo(u.bbox.left + u.bbox.width, y); u.ctx.stroke();
        u.ctx.textAlign = "right"; u.ctx.textBaseline = "bottom";
        u.ctx.fillText(reference.label, u.bbox.left + u.bbox.width - 4, y - 2);
        u.ctx.restore();
      }
    };
    for (const reference of one.references) {
      const inner = scale.range;
      scale.range = (u, low, high) => [0, Math.max(inner(u, low, high)[1], reference.value * 1.08)];
    }
    const options = {
      title: one.title, width, height: 150, padding: [8, 12, 0, 0], legend: { show: false },
      cursor: { sync: { key: sync }, y: false, points: { size: 6 } },
      scales: { x: { time: false }, y: scale },
      axes: [
        { ...axis, values: (_, ticks) => ticks.map((v) => v + " s"), size: 28 },
        { ...axis, values: (_, ticks) => ticks.map((v) => (v === 0 ? "0" : show[one.unit](v))), size: 74 },
      ],
      series: [{ label: "time" }, ...series],
      hooks: { draw: [references], setCursor: [(u) => read(figure, u.cursor.idx)] },
    };
    return new uPlot(options, [figure.at_s, ...one.lines.map((line) => line.values)], box);
  }

  function read(figure, index) {
    if (index == null || !figure.reading) return;
    const parts = [figure.at_s[index].toFixed(3) + " s"];
    for (const one of figure.panels)
      for (const line of one.lines) parts.push(line.name + " " + shown(one.unit, line.values[index]));
    parts.push("limit " + (data.limits[figure.limit[index]] || "unknown"));
    figure.reading.textContent = parts.join(" · ");
  }

  // The strip lies under the plots, so it begins and ends where they do.
  function strip(figure, first) {
    const box = document.createElement("div");
    box.className = "strip";
    const ratio = devicePixelRatio || 1;
    box.style.marginLeft = first.bbox.left / ratio + "px";
    box.style.width = first.bbox.width / ratio + "px";
    const low = figure.at_s[0], span = figure.at_s[figure.at_s.length - 1] - low || 1;
    for (let i = 1, begin = 0; i < figure.at_s.length; i += 1) {
      if (i + 1 < figure.at_s.length && figure.limit[i + 1] === figure.limit[i]) continue;
      const held = document.createElement("i");
      const name = data.limits[figure.limit[i]] || "unknown";
      held.className = "lim lim-" + name;
      held.title = name;
      held.style.left = (100 * (figure.at_s[begin] - low)) / span + "%";
      held.style.width = (100 * (figure.at_s[i] - figure.at_s[begin])) / span + "%";
      box.append(held);
      begin = i;
    }
    return box;
  }

  function draw(element) {
    const figure = data.figures[Number(element.dataset.series)];
    const live = element.querySelector(".live");
    for (const plot of drawn.get(element) || []) plot.destroy();
    live.replaceChildren();
    element.classList.add("is-live");
    figure.reading = null;
    const plots = figure.panels.map((one) => {
      const box = document.createElement("div");
      live.append(box);
      return panel(box, figure, one, "series" + element.dataset.series);
    });
    live.append(strip(figure, plots[0]));
    const reading = document.createElement("p");
    reading.className = "reading";
    reading.textContent = "point at the plots for numbers; drag to zoom, double-click to go back";
    live.append(reading);
    figure.reading = reading;
    drawn.set(element, plots);
  }

  function drawOpen() {
    for (const element of document.querySelectorAll("[data-series]")) {
      const fold = element.closest("details");
      if ((!fold || fold.open) && !drawn.has(element)) draw(element);
    }
    status.textContent = "interactive plots: " + drawn.size + " of " + data.figures.length;
    status.dataset.state = "ready";
  }
  const drawAgain = () => { for (const element of [...drawn.keys()]) draw(element); };

  for (const fold of document.querySelectorAll("details")) fold.addEventListener("toggle", drawOpen);
  scheme.addEventListener("change", drawAgain);
  let width = innerWidth, later;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(later);
    later = setTimeout(drawAgain, 150);
  });
  setTimeout(drawOpen, 0);
})();
