"use strict";
// Reads the plots over time out: the numbers at the time under the pointer, or under a mark that the
// arrow keys move. Pictures and tables need no script. What is read is the data of this page, as it
// stands in #data.
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const status = document.getElementById("status");
  const SVG = "http://www.w3.org/2000/svg";
  const HINT = "Point at a plot for its numbers, or use the arrow keys.";

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
  const bare = (v) => (v % 1 === 0 ? String(v) : three(v));
  const shown = (unit, v) => (v == null ? "unknown" : (show[unit] || bare)(v));

  // What held a sender up to one point: one limit, or several with their shares.
  function held(figure, index) {
    const name = (limit) => data.limits[limit] || "unknown";
    const shares = figure.shares[index];
    if (!shares) return name(figure.limit[index]);
    const told = shares.filter(([, share]) => share >= 0.005);
    const words = ([limit, share]) => name(limit) + " " + Math.round(100 * share) + " %";
    return told.map(words).join(", ") || "unknown";
  }

  // The numbers of one point, as a line.
  function words(figure, index) {
    const [seconds, unit] = figure.time;
    const at = (figure.at_s[index] / seconds).toFixed(seconds === 1 ? 3 : 2);
    const parts = [at + " " + unit];
    for (const one of figure.panels)
      for (const line of one.lines) parts.push(line.name + " " + shown(one.unit, line.values[index]));
    parts.push("limit " + held(figure, index));
    return parts.join(" \u00b7 ");
  }

  function nearest(times, time) {
    let best = 0;
    for (let i = 1; i < times.length; i += 1)
      if (Math.abs(times[i] - time) < Math.abs(times[best] - time)) best = i;
    return best;
  }

  function follow(element) {
    const figure = data.figures[Number(element.dataset.series)];
    const picture = element.querySelector("svg.chart");
    const reading = element.querySelector(".reading");
    const [left, right] = figure.plot;
    const end = figure.at_s[figure.at_s.length - 1];
    const mark = document.createElementNS(SVG, "line");
    mark.setAttribute("class", "pointer");
    mark.setAttribute("y1", "0");
    mark.setAttribute("y2", String(picture.viewBox.baseVal.height));
    picture.append(mark);
    let index = null;
    const read = (next) => {
      index = next;
      mark.classList.toggle("is-shown", index != null);
      reading.textContent = index == null ? HINT : words(figure, index);
      if (index == null) return;
      const x = String(left + ((right - left) * figure.at_s[index]) / end);
      mark.setAttribute("x1", x);
      mark.setAttribute("x2", x);
    };
    picture.addEventListener("pointermove", (event) => {
      const box = picture.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * picture.viewBox.baseVal.width;
      read(nearest(figure.at_s, ((x - left) / (right - left)) * end));
    });
    picture.addEventListener("pointerleave", () => read(null));
    picture.setAttribute("tabindex", "0");
    picture.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const last = figure.at_s.length - 1;
      read(index == null ? (step > 0 ? 0 : last) : Math.min(last, Math.max(0, index + step)));
    });
    read(null);
  }

  const plots = document.querySelectorAll("[data-series]");
  for (const element of plots) follow(element);
  const noun = plots.length === 1 ? "plot" : "plots";
  if (plots.length > 0)
    status.textContent = plots.length + " " + noun + " over time can be explored with pointer or arrow keys.";
  status.dataset.state = "ready";
})();
