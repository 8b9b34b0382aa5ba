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
  // Beside an axis: no zeros behind the point.
  const short = (unit, v) => (v === 0 ? "0" : show[unit](v).replace(/\.(\d*?)0+(?= )/, (_, d) => (d ? "." + d : "")));
  // Bytes are read in powers of two.
  const binary = [];
  for (let step = 1; step < 2 ** 50; step *= 2) binary.push(step);
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
        const end = u.bbox.left + u.bbox.width - 4;
        const size = u.ctx.measureText(reference.label);
        const height = size.actualBoundingBoxAscent + size.actualBoundingBoxDescent + 4;
        u.ctx.globalAlpha = 0.75;
        u.ctx.fillStyle = ink("--page");
        u.ctx.fillRect(end - size.width - 4, y - height - 2, size.width + 8, height + 1);
        u.ctx.globalAlpha = 1;
        u.ctx.fillStyle = ink("--ink");
        u.ctx.fillText(reference.label, end, y - 2);
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
      scales: { x: { time: false, range: (_, low, high) => (low === figure.at_s[0] ? [0, high] : [low, high]) }, y: scale },
      axes: [
        { ...axis, values: (_, ticks) => ticks.map((v) => +v.toPrecision(6) + " s"), size: 28 },
        {
          ...axis, values: (_, ticks) => ticks.map((v) => short(one.unit, v)), size: 84, space: 28,
          ...(one.unit === "bytes" ? { incrs: binary } : {}),
        },
      ],
      series: [{ label: "time" }, ...series],
      hooks: {
        draw: [references, (u) => strip(figure, u)],
        setCursor: [(u) => read(figure, u.cursor.idx)],
      },
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

  // The strip lies under the plots, so it shows the same time in the same place.
  function strip(figure, u) {
    const box = figure.strip;
    if (!box) return;
    const ratio = devicePixelRatio || 1;
    box.style.marginLeft = u.bbox.left / ratio + "px";
    box.style.width = u.bbox.width / ratio + "px";
    const pieces = [];
    for (let i = 0, begin = 0; i < figure.at_s.length; i += 1) {
      if (i + 1 < figure.at_s.length && figure.limit[i + 1] === figure.limit[i]) continue;
      const end = figure.at_s[i];
      const held = document.createElement("i");
      const name = data.limits[figure.limit[i]] || "unknown";
      held.className = "lim lim-" + name;
      held.title = name;
      const left = u.valToPos(begin, "x");
      held.style.left = left + "px";
      held.style.width = u.valToPos(end, "x") - left + "px";
      pieces.push(held);
      begin = end;
    }
    box.replaceChildren(...pieces);
  }

  function draw(element) {
    const figure = data.figures[Number(element.dataset.series)];
    const live = element.querySelector(".live");
    for (const plot of drawn.get(element) || []) plot.destroy();
    live.replaceChildren();
    element.classList.add("is-live");
    figure.reading = null;
    figure.strip = document.createElement("div");
    figure.strip.className = "strip";
    const plots = figure.panels.map((one) => {
      const box = document.createElement("div");
      live.append(box);
      return panel(box, figure, one, "series" + element.dataset.series);
    });
    live.append(figure.strip);
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
