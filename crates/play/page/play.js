"use strict";
// The page around the engine: controls make the text of a scenario, the engine runs it, and what
// comes out is drawn. All numbers are the engine's; nothing is computed here that it could tell.

// ---- What can be set -------------------------------------------------------------------------

const RATES = ["128kbit", "512kbit", "1mbit", "2mbit", "5mbit", "10mbit", "20mbit", "50mbit", "100mbit", "250mbit", "1gbit", "2.5gbit", "10gbit"];
const TIMES = ["100us", "200us", "500us", "1ms", "2ms", "5ms", "10ms", "20ms", "40ms", "80ms", "100ms", "150ms", "200ms", "300ms", "600ms"];
const LOSSES = ["0%", "0.01%", "0.05%", "0.1%", "0.2%", "0.5%", "1%", "2%", "5%", "10%"];
const QUEUES = ["5p", "10p", "20p", "50p", "100p", "200p", "500p", "1000p", "2000p", "5000p", "1bdp", "2bdp", "10bdp"];
const SIZES = ["1B", "2B", "8B", "20B", "32B", "100B", "200B", "500B", "1000B", "1460B", "2kB", "4KiB", "8KiB", "16KiB", "64KiB", "256KiB", "1MiB"];
const COUNTS = ["1", "2", "3", "5", "10", "15", "30", "100"];
const BUFFERS = ["", "2KiB", "4KiB", "8KiB", "16KiB", "32KiB", "64KiB", "128KiB", "256KiB", "512KiB", "1MiB", "4MiB", "16MiB"];
const SECONDS = ["500ms", "1s", "2s", "3s", "5s", "10s", "20s"];
const PROFILES = ["linux_6_18", "linux_2019", "freebsd_14", "freebsd_2006", "winsock", "netburner", "textbook"];
const CONTROLS = ["", "cubic", "reno", "bbr"];
const SWITCH = ["", "on", "off"];

// Numbers without a unit.
const BARE = ["path.mtu", "workload.writes"];

const KINDS = {
  "bulk": ["workload.direction"],
  "request-response": ["workload.request", "workload.response"],
  "write-write-read": ["workload.writes", "workload.write_size", "workload.reply", "workload.method"],
  "records": ["workload.record", "workload.completion"],
  "quotes": ["workload.writes", "workload.write_size", "workload.reply", "workload.one_connection"],
  "bursts": ["workload.burst", "workload.idle"],
  "slow-reader": ["workload.read_size", "workload.every"],
};

// key, words, values, value at first; "" leaves a setting to the host's profile.
const SETTINGS = [
  { group: "Path" },
  { key: "path.rate", words: "rate of the link", values: RATES, first: "10mbit" },
  { key: "path.rtt", words: "round-trip time of empty queues", values: TIMES, first: "20ms" },
  { key: "path.loss", words: "random loss, each way", values: LOSSES, first: "0%" },
  { key: "path.queue", words: "queue before the link (p: packets)", values: QUEUES, first: "100p" },
  { key: "path.mtu", words: "MTU in bytes", values: ["576", "1280", "1500", "9000"], first: "1500" },
  { group: "Traffic" },
  { key: "workload.kind", words: "what the programs do", values: Object.keys(KINDS), first: "bulk" },
  { key: "workload.direction", words: "direction: from the client up, to it down", values: ["up", "down", "both"], first: "down" },
  { key: "workload.writes", words: "writes per message", values: COUNTS, first: "2" },
  { key: "workload.write_size", words: "size of a write", values: SIZES, first: "100B" },
  { key: "workload.reply", words: "size of the answer", values: SIZES, first: "100B" },
  { key: "workload.method", words: "how it is written", values: ["write", "writev", "msg-more", "cork"], first: "write" },
  { key: "workload.request", words: "size of a request", values: SIZES, first: "200B" },
  { key: "workload.response", words: "size of a response", values: SIZES, first: "2kB" },
  { key: "workload.record", words: "size of a record", values: SIZES, first: "100B" },
  { key: "workload.completion", words: "the next record when this one is", values: ["written", "acknowledged"], first: "written" },
  { key: "workload.one_connection", words: "answers on the same connection", values: ["off", "on"], first: "off" },
  { key: "workload.burst", words: "size of a block", values: SIZES, first: "256KiB" },
  { key: "workload.idle", words: "pause between blocks", values: ["10ms", "50ms", "100ms", "500ms", "1s"], first: "500ms" },
  { key: "workload.read_size", words: "size of a read", values: SIZES, first: "16KiB" },
  { key: "workload.every", words: "time between two reads", values: TIMES, first: "20ms" },
  { key: "workload.duration", words: "for how long", values: SECONDS, first: "2s" },
  { group: "Client" },
  { key: "client.profile", words: "whose TCP", values: PROFILES, first: "linux_6_18" },
  { key: "client.nodelay", words: "TCP_NODELAY", values: SWITCH, first: "" },
  { key: "client.delayed_ack", words: "delayed ACKs", values: SWITCH, first: "" },
  { key: "client.congestion", words: "congestion control", values: CONTROLS, first: "" },
  { key: "client.sndbuf", words: "SO_SNDBUF", values: BUFFERS, first: "" },
  { key: "client.rcvbuf", words: "SO_RCVBUF", values: BUFFERS, first: "" },
  { key: "client.cork", words: "TCP_CORK", values: SWITCH, first: "" },
  { group: "Server" },
  { key: "server.profile", words: "whose TCP", values: PROFILES, first: "linux_6_18" },
  { key: "server.nodelay", words: "TCP_NODELAY", values: SWITCH, first: "" },
  { key: "server.delayed_ack", words: "delayed ACKs", values: SWITCH, first: "" },
  { key: "server.congestion", words: "congestion control", values: CONTROLS, first: "" },
  { key: "server.sndbuf", words: "SO_SNDBUF", values: BUFFERS, first: "" },
  { key: "server.rcvbuf", words: "SO_RCVBUF", values: BUFFERS, first: "" },
  { key: "server.cork", words: "TCP_CORK", values: SWITCH, first: "" },
  { group: "Chance" },
  { key: "seed", words: "seed of all that is random", values: ["1", "2", "3", "4", "5", "6", "7", "8", "9"], first: "1" },
];
const BY_KEY = new Map(SETTINGS.filter((setting) => setting.key).map((setting) => [setting.key, setting]));

const PRESETS = [
  { name: "Nagle meets delayed ACKs", about: "Two small writes and an answer: the second write waits for an ACK that the other side delays. B sets TCP_NODELAY.",
    a: { "workload.kind": "write-write-read", "path.rate": "100mbit", "path.rtt": "2ms" }, b: { "client.nodelay": "on" } },
  { name: "NetBurner: a window of five buffers", about: "A small device receives over a long path: its window is its number of buffers. Five of them are 7300 bytes; B is a host of today.",
    a: { "path.rate": "20mbit", "path.rtt": "10ms", "workload.direction": "up", "server.profile": "netburner" }, b: { "server.profile": "linux_6_18" } },
  { name: "Datacenter: window and product", about: "A link of 1 Gbit/s and a round trip of 5 ms hold 625 kB. The window of a receive buffer of 128 KiB is less; B leaves the buffer to the kernel.",
    a: { "path.rate": "1gbit", "path.rtt": "5ms", "path.queue": "1000p", "workload.direction": "down", "workload.duration": "1s", "client.rcvbuf": "128KiB" }, b: { "client.rcvbuf": "" } },
  { name: "Winsock: a record for each ACK", about: "A program that waits until each record is acknowledged, and a receiver that delays its ACKs by 200 ms: five records a second. B lets writes complete in the buffer.",
    a: { "path.rate": "5mbit", "path.rtt": "200us", "client.profile": "winsock", "server.profile": "winsock", "workload.kind": "records", "workload.completion": "acknowledged" }, b: { "workload.completion": "written" } },
  { name: "Winsock: quotes on two connections", about: "Requests go one way, quotes come back on another connection, so no ACK can ride along. B uses one connection.",
    a: { "path.rate": "100mbit", "path.rtt": "2ms", "client.profile": "winsock", "server.profile": "winsock", "workload.kind": "quotes", "workload.writes": "1", "workload.write_size": "8B", "workload.reply": "32B" }, b: { "workload.one_connection": "on" } },
  { name: "FreeBSD 2006: fixed and automatic send buffer", about: "32 KiB in flight per round trip of 80 ms, whatever the link could do. B is what came after automatic sizing.",
    a: { "path.rate": "100mbit", "path.rtt": "80ms", "path.queue": "1000p", "client.profile": "freebsd_2006", "server.profile": "freebsd_2006", "server.sndbuf": "32KiB", "workload.duration": "3s" }, b: { "server.sndbuf": "" } },
  { name: "Cork: fifteen writes, one packet", about: "A message of fifteen small writes with TCP_NODELAY is fifteen packets. B corks the socket meanwhile.",
    a: { "path.rate": "1gbit", "path.rtt": "5ms", "workload.kind": "write-write-read", "workload.writes": "15", "workload.write_size": "2B", "workload.reply": "2B", "client.nodelay": "on" }, b: { "workload.method": "cork" } },
  { name: "A queue that is too long", about: "An upload that fills a queue of 200 packets before a slow link: everything else waits behind it. B uses BBR.",
    a: { "path.rate": "2mbit", "path.rtt": "20ms", "path.queue": "200p", "workload.direction": "up", "workload.duration": "10s", "client.congestion": "cubic" }, b: { "client.congestion": "bbr" } },
  { name: "Losses on a long path", about: "Two packets in a thousand are lost by chance, over 80 ms. CUBIC takes each loss for congestion; B uses BBR.",
    a: { "path.rate": "20mbit", "path.rtt": "80ms", "path.loss": "0.2%", "path.queue": "500p", "workload.direction": "up", "workload.duration": "5s", "client.congestion": "cubic" }, b: { "client.congestion": "bbr" } },
  { name: "A reader that is slow", about: "The receiver reads 16 KiB each 20 ms: the window closes, and no setting of TCP helps. B reads twice as much.",
    a: { "workload.kind": "slow-reader", "path.rate": "100mbit", "path.rtt": "10ms" }, b: { "workload.read_size": "64KiB" } },
];

// ---- State -----------------------------------------------------------------------------------

// What differs from the first value, and in `b` from A.
const state = { a: {}, b: {} };

const first = (key) => BY_KEY.get(key).first;
const valueOf = (variant, key) => {
  if (variant === "b" && key in state.b) return state.b[key];
  return key in state.a ? state.a[key] : first(key);
};
const differs = (key) => key in state.b && state.b[key] !== valueOf("a", key);
const uses = (variant, key) => {
  if (!key.startsWith("workload.") || key === "workload.kind" || key === "workload.duration") return true;
  return KINDS[valueOf(variant, "workload.kind")].includes(key);
};

// A link carries the state; what it does not name has its first value.
function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  state.a = {};
  state.b = {};
  for (const [name, value] of given) {
    const [variant, key] = name.startsWith("b.") ? ["b", name.slice(2)] : ["a", name];
    const setting = BY_KEY.get(key);
    if (setting && setting.values.includes(value)) state[variant][key] = value;
  }
}

function address() {
  const told = new URLSearchParams();
  for (const key of BY_KEY.keys()) if (valueOf("a", key) !== first(key)) told.set(key, valueOf("a", key));
  for (const key of BY_KEY.keys()) if (differs(key)) told.set(`b.${key}`, state.b[key]);
  return `#${told}`;
}

const writeAddress = () => history.replaceState(null, "", address());

// The situation whose settings these are, so that a link to it shows its words, too.
function presetOfState() {
  const kept = { ...state };
  const wanted = address();
  const found = PRESETS.findIndex(({ a, b }) => {
    Object.assign(state, { a, b });
    return address() === wanted;
  });
  Object.assign(state, kept);
  return found < 0 ? OWN : found;
}

// The scenario as docs/scenarios.md describes it. What A sets and B leaves to the profile cannot be
// unset in a variant, so A sets it in its own.
function scenarioText() {
  const keys = [...BY_KEY.keys()].filter((key) => key !== "seed");
  const kindDiffers = differs("workload.kind");
  const changed = keys.filter((key) => uses("b", key) && (differs(key) || (kindDiffers && key.startsWith("workload."))));
  const ofA = changed.filter((key) => valueOf("b", key) === "");
  const line = (key, value, name) => BARE.includes(key) ? `${name} = ${value}` : `${name} = "${value}"`;
  const text = ['name = "play"', 'about = "From the playground."', `seed = ${valueOf("a", "seed")}`];
  for (const table of ["path", "workload", "client", "server"]) {
    const shared = keys.filter((key) => key.startsWith(`${table}.`) && uses("a", key) && valueOf("a", key) !== "" && !ofA.includes(key));
    const lines = shared.map((key) => line(key, valueOf("a", key), key.slice(table.length + 1)));
    if (table === "path") lines.unshift('kind = "emulated"');
    if (lines.length > 0) text.push("", `[${table}]`, ...lines);
  }
  if (changed.length > 0) {
    const ofB = changed.filter((key) => valueOf("b", key) !== "");
    text.push("", "[[variant]]", 'name = "A"', ...ofA.map((key) => line(key, valueOf("a", key), key)));
    text.push("", "[[variant]]", 'name = "B"', ...ofB.map((key) => line(key, valueOf("b", key), key)));
  }
  return `${text.join("\n")}\n`;
}

// ---- Engine ----------------------------------------------------------------------------------

// What asks the engine: in a thread of its own, so that the page stays usable, or in the page where
// the browser starts no thread.
function engineCaller() {
  let engine;
  return async ({ module, scenario, wish }) => {
    try {
      if (module) engine = await WebAssembly.instantiate(module, {});
      if (scenario === undefined) return null;
      const { text_of, run, memory } = engine.exports;
      const text = new TextEncoder().encode(scenario);
      const to = text_of(text.length);
      new Uint8Array(memory.buffer).set(text, to);
      const began = performance.now();
      const at = run();
      const took = performance.now() - began;
      const bytes = new DataView(memory.buffer).getUint32(at, true);
      const answer = new TextDecoder().decode(new Uint8Array(memory.buffer, at + 4, bytes));
      return { answer, took, wish };
    } catch (error) {
      return { error: String(error), wish };
    }
  };
}
const THREAD = `"use strict"; const call = (${engineCaller})();
onmessage = async ({ data }) => { const told = await call(data); if (told) postMessage(told); };
postMessage(null);`;
// A run that takes longer than this gives way to a new wish.
const PATIENCE_MS = 700;

let module;
let thread;
let wish = 0;
let running = null;
let waiting = null;

async function loadEngine() {
  const packed = Uint8Array.from(atob(document.getElementById("engine").textContent.trim()), (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  module = await WebAssembly.compile(await new Response(unpacked).arrayBuffer());
  await startThread();
}

// Something with `postMessage` and `terminate` that has the engine.
async function startThread() {
  thread = await threadOf().catch(() => {
    const call = engineCaller();
    return { postMessage: async (data) => told(await call(data)), terminate: () => {} };
  });
  thread.postMessage({ module });
}

function threadOf() {
  return new Promise((done, failed) => {
    const worker = new Worker(URL.createObjectURL(new Blob([THREAD], { type: "text/javascript" })));
    worker.onerror = failed;
    // Its first message says that it runs.
    worker.onmessage = () => { worker.onmessage = ({ data }) => told(data); done(worker); };
  });
}

function told(answer) {
  if (answer === null) return;
  running = null;
  if (answer.wish === wish) show(answer);
  if (waiting !== null) ask(waiting);
}

async function ask(scenario) {
  if (running !== null) {
    waiting = scenario;
    if (performance.now() - running < PATIENCE_MS) return;
    thread.terminate();
    running = null;
    await startThread();
  }
  if (running !== null) return;
  waiting = null;
  wish += 1;
  running = performance.now();
  thread.postMessage({ scenario, wish });
}

// ---- Numbers in words ------------------------------------------------------------------------

function scaled(value, step, units) {
  let at = 0;
  while (value >= step && at < units.length - 1) { value /= step; at += 1; }
  return `${value >= 100 || at === 0 && Number.isInteger(value) ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)} ${units[at]}`;
}
const rate = (bps) => scaled(bps, 1000, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"]);
const time = (us) => scaled(us, 1000, ["us", "ms", "s"]);
const size = (bytes) => scaled(bytes, 1024, ["B", "KiB", "MiB", "GiB"]);
const share = (part) => `${(part * 100).toFixed(part < 0.1 ? 1 : 0)} %`;

// ---- Making elements -------------------------------------------------------------------------

function make(name, attributes = {}, ...inside) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "style") Object.assign(element.style, value);
    else if (key.startsWith("on")) element[key] = value;
    else if (value !== null) element.setAttribute(key, value);
  }
  element.append(...inside.filter((part) => part !== null && part !== undefined));
  return element;
}
function draw(name, attributes = {}, ...inside) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...inside);
  return element;
}
const label = (x, y, text, attributes = {}) => draw("text", { x, y, ...attributes }, text);

// ---- Controls --------------------------------------------------------------------------------

const cells = new Map();

function buildControls() {
  const body = make("tbody");
  for (const setting of SETTINGS) {
    if (setting.group) {
      body.append(make("tr", { class: "group" }, make("th", { colspan: 3, scope: "rowgroup" }, setting.group)));
      continue;
    }
    const row = make("tr", {}, make("th", { scope: "row", id: `of-${setting.key}` }, setting.words));
    for (const variant of ["a", "b"]) {
      if (setting.key === "seed" && variant === "b") { row.append(make("td")); continue; }
      const control = controlOf(setting, variant);
      cells.set(`${variant} ${setting.key}`, { control, row });
      row.append(make("td", {}, control.element));
    }
    body.append(row);
  }
  document.getElementById("controls").append(body);
}

// A slider where values are in order, a list where they are names.
function controlOf(setting, variant) {
  const name = `${setting.words}, ${variant.toUpperCase()}`;
  const set = (value) => {
    state[variant][setting.key] = value;
    changed(OWN);
  };
  const shownValue = (value) => value === "" ? "automatic" : value;
  const isOrdered = [RATES, TIMES, LOSSES, QUEUES, SIZES, COUNTS, SECONDS].includes(setting.values);
  if (!isOrdered) {
    const options = setting.values.map((value) => make("option", { value }, value === "" ? "as profile" : value));
    const select = make("select", { "aria-label": name, onchange: () => set(select.value) }, ...options);
    return { element: select, put: (value) => { select.value = value; } };
  }
  const slider = make("input", { type: "range", min: 0, max: setting.values.length - 1, step: 1, "aria-label": name });
  const shown = make("output", { class: "value" });
  slider.oninput = () => set(setting.values[slider.valueAsNumber]);
  return {
    element: make("span", {}, slider, shown),
    put: (value) => {
      slider.value = setting.values.indexOf(value);
      slider.setAttribute("aria-valuetext", shownValue(value));
      shown.textContent = shownValue(value);
    },
  };
}

function putControls() {
  for (const [name, { control, row }] of cells) {
    const [variant, key] = name.split(" ");
    control.put(valueOf(variant, key));
    control.element.classList.toggle("linked", variant === "b" && !differs(key));
    row.hidden = !uses("a", key) && !uses("b", key);
  }
}

// What the list of situations shows where the settings are none of them.
const OWN = "own";

function changed(preset) {
  const known = PRESETS[preset];
  document.getElementById("preset").value = preset;
  document.getElementById("preset-about").textContent = known ? known.about : "";
  for (const key of Object.keys(state.b)) if (!differs(key)) delete state.b[key];
  putControls();
  writeAddress();
  const scenario = scenarioText();
  document.getElementById("scenario").textContent = scenario;
  document.getElementById("status").textContent = "running";
  document.body.dataset.state = "running";
  ask(scenario);
}

// ---- What came out ---------------------------------------------------------------------------

function show({ answer, took, error }) {
  const status = document.getElementById("status");
  const mistakes = document.getElementById("mistakes");
  mistakes.replaceChildren();
  if (error) {
    mistakes.append(make("p", { class: "note bad" }, `The engine stopped: ${error}. This is a defect; the scenario below shows it.`));
    status.textContent = "";
    document.body.dataset.state = "failed";
    thread.terminate();
    startThread();
    return;
  }
  const told = JSON.parse(answer);
  for (const { text } of told.mistakes) mistakes.append(make("p", { class: "note bad" }, text));
  drawn = told.variants;
  drawResults();
  status.textContent = `simulated in ${took.toFixed(0)} ms`;
  document.body.dataset.state = told.mistakes.length > 0 ? "mistaken" : "ready";
}

// What is shown, to be drawn again where there is another width for it.
let drawn = [];

function drawResults() {
  const results = document.getElementById("results");
  // How wide pictures are is known once the boxes are there that they are for.
  const boxes = drawn.map((variant) => make("article", { class: "block", "data-variant": variant.name || "A" }));
  results.replaceChildren(...boxes);
  wide = pictureWidth();
  const scales = scalesOf(drawn);
  boxes.forEach((box, index) => box.append(...parts(drawn[index], scales).filter((part) => part !== null)));
}

function pictureWidth() {
  const box = document.querySelector("#results article");
  if (box === null) return wide;
  const { paddingLeft, paddingRight } = getComputedStyle(box);
  const room = box.clientWidth - Number.parseFloat(paddingLeft) - Number.parseFloat(paddingRight);
  return Math.round(Math.max(280, room));
}

// Both sides are drawn to the same scale, so that they can be compared. Goodput ends a little above
// the link's rate: what waited behind a gap reaches the reader at once, in a peak.
function scalesOf(variants) {
  const most = (of) => Math.max(1, ...variants.flatMap((variant) => variant.outcome.series.map(of)));
  const link = Math.max(bitsOf(valueOf("a", "path.rate")), bitsOf(valueOf("b", "path.rate")));
  return {
    end: most((point) => point.at_us),
    goodput: Math.min(most((point) => point.goodput_bps), 1.2 * link),
    bytes: most((point) => Math.max(point.cwnd_bytes ?? 0, point.in_flight_bytes ?? 0, point.queue_bytes ?? 0)),
    rtt: most((point) => point.rtt_us ?? 0),
  };
}

function parts(variant, scales) {
  const { outcome } = variant;
  return [
    make("h3", {}, variant.name || "A"),
    ...outcome.caveats.map((caveat) => make("p", { class: "note doubt" }, caveatWords(caveat))),
    tiles(outcome),
    limits(outcome),
    doctor(variant),
    variant.packets.shown.length > 0 ? ladder(variant.packets) : null,
    variant.packets.shown.length > 0 ? sequence(variant.packets) : null,
    curves("Goodput: what reaches the reader", outcome.series, scales.end, scales.goodput, rate, [["goodput", "--s2", (point) => point.goodput_bps]], linkOf(variant)),
    curves("Congestion window, bytes in flight, queue", outcome.series, scales.end, scales.bytes, size,
      [["congestion window", "--s0", (point) => point.cwnd_bytes], ["in flight: sent and not acknowledged", "--s1", (point) => point.in_flight_bytes], ["waiting in the queue", "--s5", (point) => point.queue_bytes]]),
    curves("Smoothed round-trip time", outcome.series, scales.end, scales.rtt, time, [["RTT", "--s3", (point) => point.rtt_us]]),
  ];
}

// A rate of the controls in bit/s, such as 2.5gbit.
function bitsOf(text) {
  const factor = { kbit: 1e3, mbit: 1e6, gbit: 1e9 }[text.replace(/[0-9.]/g, "")];
  return Number.parseFloat(text) * factor;
}
const linkOf = (variant) => bitsOf(valueOf(variant.name === "B" ? "b" : "a", "path.rate"));

function caveatWords(caveat) {
  if (caveat.caveat === "ended-early") return `Ended early: ${caveat.why}.`;
  if (caveat.caveat === "setting-not-applied") return `${caveat.knob} was not set: ${caveat.why}.`;
  return caveat.caveat;
}

function tiles(outcome) {
  const number = (value, text) => make("data", { value }, text);
  const tile = (text, value, words) => make("li", {}, make("b", {}, number(value, text)), make("span", {}, words));
  const list = [tile(rate(outcome.goodput_bps), outcome.goodput_bps, "goodput")];
  const response = outcome.response_us;
  if (response) {
    list.push(tile(time(response.p50), response.p50, "median response"), tile(time(response.p99), response.p99, "99th percentile"));
    list.push(tile(share(response.stalled / Math.max(1, response.n)), response.stalled, "took 20 ms and more"));
  }
  const sender = outcome.sender;
  if (sender) {
    if (sender.rtt_mean_us !== null) list.push(tile(time(sender.rtt_mean_us), sender.rtt_mean_us, "mean RTT"));
    list.push(tile(String(sender.retransmitted_segments), sender.retransmitted_segments, `of ${sender.data_segments} segments retransmitted`));
  }
  return make("ul", { class: "tiles" }, ...list);
}

function limits(outcome) {
  if (outcome.limits.length === 0) return null;
  const color = (limit) => `var(--l-${limit})`;
  const words = outcome.limits.map(([limit, part]) => `${limit} ${share(part)}`).join(", ");
  return make("figure", {},
    make("figcaption", {}, "Limits of the sender"),
    make("div", { class: "bar", role: "img", "aria-label": words },
      ...outcome.limits.map(([limit, part]) => make("span", { style: { width: `${part * 100}%`, background: color(limit) } }))),
    make("ul", { class: "legend" },
      ...outcome.limits.filter(([, part]) => part >= 0.001).map(([limit, part]) =>
        make("li", {}, make("i", { style: { background: color(limit) } }), `${limit} ${share(part)}`))));
}

function doctor(variant) {
  const box = make("section", {}, make("h3", {}, "Diagnosis"));
  if (variant.not_diagnosed) box.append(make("p", { class: "muted" }, `Nothing: ${variant.not_diagnosed}.`));
  else if (variant.findings.length === 0) box.append(make("p", { class: "muted" }, "Nothing: too little was sent in the two seconds that it looks."));
  for (const [index, finding] of variant.findings.entries()) {
    const tone = finding.is_finding ? "bad" : "good";
    const said = make(index === 0 ? "div" : "details", { class: index === 0 ? `note ${tone}` : null });
    const head = `${finding.id}: ${finding.sentence}`;
    said.append(index === 0 ? make("p", {}, head) : make("summary", {}, head));
    said.append(make("p", { class: "muted" }, `${share(finding.share)} of the time, ${finding.confidence} confidence, seen at the ${finding.seen_at}. ${finding.remark}`));
    if (finding.evidence.length > 0) {
      said.append(make("details", {}, make("summary", {}, "Evidence"), make("div", { class: "scroll" }, make("table", {},
        make("thead", {}, make("tr", {}, ...["field", "seen", "the rule asks for"].map((name) => make("th", { scope: "col" }, name)))),
        make("tbody", {}, ...finding.evidence.map((row) => make("tr", {}, ...[row.field, row.observed, row.expected].map((cell) => make("td", {}, cell)))))))));
    }
    for (const change of finding.changes) said.append(changeLine(change));
    box.append(said);
  }
  return box;
}

// A change can be tried where the page has that knob and a value near the one that is proposed.
function changeLine(change) {
  const setting = BY_KEY.get(`${change.host}.${change.knob}`);
  const line = make("p", {}, `At the ${change.host}: ${change.knob} = ${change.to}. `);
  const value = setting && setting.values.find((known) => known !== "" && known === change.to.replaceAll(" ", ""));
  if (value) line.append(make("button", { type: "button", onclick: () => { state.b[setting.key] = value; changed(OWN); } }, "Try it in B"));
  return line;
}

// ---- Pictures --------------------------------------------------------------------------------

// A picture has as many units as its box has pixels, so that letters have one size in all of them.
let wide = 560;
const LEFT = 76;

// Lines at nothing, the half and the whole, with times below.
function grid(picture, high, x, y, [from, to], top, words) {
  for (const part of [0, 0.5, 1]) {
    const [value, at] = [top * part, from + (to - from) * part];
    picture.append(draw("line", { x1: LEFT, x2: wide - 8, y1: y(value), y2: y(value), stroke: "var(--line)" }));
    picture.append(label(LEFT - 4, y(value) + 4, value === 0 ? "0" : words(value), { "text-anchor": "end", class: "muted" }));
    picture.append(label(x(at), high - 6, at === 0 ? "0" : time(at), { "text-anchor": ["start", "middle", "end"][part * 2], class: "muted" }));
  }
}

function curves(title, series, end, top, words, lines, link = null) {
  const known = lines.filter(([, , of]) => series.some((point) => (of(point) ?? null) !== null));
  if (series.length < 2 || known.length === 0) return null;
  const high = 120;
  const x = (us) => LEFT + (us / end) * (wide - LEFT - 8);
  const y = (value) => Math.max(4, high - 20 - (value / top) * (high - 32));
  const picture = draw("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": title });
  if (link !== null && link <= top) {
    picture.append(draw("line", { x1: LEFT, x2: wide - 8, y1: y(link), y2: y(link), stroke: "var(--muted)", "stroke-dasharray": "4 3" }));
    picture.append(label(wide - 10, y(link) - 3, "rate of the link", { "text-anchor": "end", class: "muted" }));
  }
  grid(picture, high, x, y, [0, end], top, words);
  for (const [, color, of] of known) {
    const path = series.map((point) => [point.at_us, of(point)]).filter(([, value]) => value !== null && value !== undefined)
      .map(([at, value], index) => `${index === 0 ? "M" : "L"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`);
    picture.append(draw("path", { d: path.join(""), fill: "none", stroke: `var(${color})`, "stroke-width": 1.5 }));
  }
  const legend = known.length > 1
    ? make("ul", { class: "legend" }, ...known.map(([name, color]) => make("li", {}, make("i", { style: { background: `var(${color})` } }), name)))
    : null;
  return make("figure", {}, make("figcaption", {}, title), picture, legend);
}

// Sequence numbers of the direction that carries more, as they were sent, and the ACKs for them as
// they came back.
function sequence(packets) {
  const sum = (fromClient) => packets.shown.reduce((all, packet) => all + (packet.from_client === fromClient ? packet.bytes : 0), 0);
  const fromClient = sum(true) >= sum(false);
  const flow = packets.shown.find((packet) => packet.bytes > 0 && packet.from_client === fromClient)?.flow ?? 0;
  const data = packets.shown.filter((packet) => packet.flow === flow && packet.from_client === fromClient && packet.bytes > 0);
  if (data.length < 2) return null;
  const acks = packets.shown.filter((packet) => packet.flow === flow && packet.from_client !== fromClient && packet.arrived_us !== null && packet.flags.includes("."));
  const high = 220;
  const from = data[0].sent_us;
  const to = Math.max(from + 1, ...data.map((packet) => packet.sent_us));
  const top = Math.max(1, ...data.map((packet) => packet.seq + packet.bytes));
  const x = (us) => LEFT + ((us - from) / (to - from)) * (wide - LEFT - 10);
  const y = (seq) => high - 20 - (seq / top) * (high - 32);
  const picture = draw("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": "Sequence numbers over time" });
  grid(picture, high, x, y, [from, to], top, size);
  const tick = (packet) => `M${x(packet.sent_us).toFixed(1)} ${y(packet.seq).toFixed(1)}V${(Math.min(y(packet.seq) - 1.2, y(packet.seq + packet.bytes))).toFixed(1)}`;
  const kinds = [["new", (packet) => !packet.is_retransmission], ["again", (packet) => packet.is_retransmission]];
  let highest = 0;
  const steps = acks.filter((packet) => packet.ack > highest && (highest = packet.ack) > 0 && packet.arrived_us >= from && packet.arrived_us <= to)
    .map((packet, index) => index === 0 ? `M${x(packet.arrived_us).toFixed(1)} ${y(packet.ack).toFixed(1)}` : `H${x(packet.arrived_us).toFixed(1)}V${y(packet.ack).toFixed(1)}`);
  if (steps.length > 0) picture.append(draw("path", { d: steps.join(""), fill: "none", class: "acks", "stroke-width": 1.2 }));
  for (const [kind, wanted] of kinds) {
    const path = data.filter(wanted).map(tick).join("");
    if (path) picture.append(draw("path", { d: path, fill: "none", class: kind, "stroke-width": 2 }));
  }
  const crosses = data.filter((packet) => packet.missing > 0).map((packet) => {
    const [cx, cy] = [x(packet.sent_us), y(packet.seq)];
    return `M${(cx - 3).toFixed(1)} ${(cy - 3).toFixed(1)}l6 6m-6 0l6 -6`;
  });
  if (crosses.length > 0) picture.append(draw("path", { d: crosses.join(""), fill: "none", stroke: "var(--bad)" }));
  const leftOut = packets.left_out > 0 ? ` The first ${packets.shown.length} packets; ${packets.left_out} came later.` : "";
  return make("figure", {},
    make("figcaption", {}, `Sequence numbers over time, from the ${fromClient ? "client" : "server"}`),
    picture,
    make("ul", { class: "legend" },
      make("li", {}, make("i", { style: { background: "var(--s0)" } }), "sent"),
      make("li", {}, make("i", { style: { background: "var(--bad)" } }), "retransmitted; × lost on the way"),
      make("li", {}, make("i", { style: { background: "var(--s2)" } }), "acknowledged")),
    leftOut ? make("p", { class: "muted" }, leftOut.trim()) : null);
}

// The packets between both hosts, time downwards: where a stall comes from can be seen in it.
const LADDER_ROWS = 28;

function ladder(packets) {
  const picture = make("div");
  const all = packets.shown;
  const slider = make("input", { type: "range", min: 0, max: Math.max(0, all.length - LADDER_ROWS), value: 0, "aria-label": "first packet of the diagram" });
  const redraw = () => picture.replaceChildren(ladderPicture(all.slice(slider.valueAsNumber, slider.valueAsNumber + LADDER_ROWS)));
  slider.oninput = redraw;
  redraw();
  return make("figure", {},
    make("figcaption", {}, "Packets, time downwards (times on the right, in gaps where nothing was sent)"),
    all.length > LADDER_ROWS ? make("label", { class: "window" }, "from packet ", slider) : null,
    picture,
    make("p", { class: "muted" }, "Flags as tcpdump writes them (S SYN, F FIN, P PUSH, . ACK); then the first sequence number and the payload, or what is acknowledged."));
}

function ladderPicture(packets) {
  // Times of all ends of lines, from top to bottom; equal room for each, so that short and long
  // times can be seen in one picture, and the time of a gap stands in it.
  const times = [...new Set(packets.flatMap((packet) => [packet.sent_us, packet.arrived_us ?? packet.sent_us]))].sort((a, b) => a - b);
  const step = 15;
  let at = 26;
  const places = new Map();
  const gaps = [];
  times.forEach((us, index) => {
    if (index > 0) {
      const pause = us - times[index - 1];
      at += pause < 50 ? 4 : step;
      if (pause >= 5000) { gaps.push([at - step / 2, pause]); at += step; }
    }
    places.set(us, at);
  });
  const high = at + 24;
  const left = Math.min(180, Math.max(112, Math.round(0.27 * wide)));
  const right = wide - left;
  const picture = draw("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": "Diagram of packets between client and server" });
  picture.append(label(left, 14, "client", { "text-anchor": "middle" }), label(right, 14, "server", { "text-anchor": "middle" }));
  for (const x of [left, right]) picture.append(draw("line", { x1: x, x2: x, y1: 18, y2: high - 6, stroke: "var(--muted)" }));
  for (const [y, pause] of gaps) {
    picture.append(draw("line", { x1: left, x2: right, y1: y + 4, y2: y + 4, stroke: "var(--line)", "stroke-dasharray": "1 4" }));
    picture.append(label(wide - 4, y + 8, `${time(pause)} pass`, { "text-anchor": "end", class: pause >= 20000 ? "" : "muted", "font-weight": pause >= 20000 ? 600 : 400 }));
  }
  const written = { client: -20, server: -20 };
  for (const packet of packets) {
    const isLost = packet.arrived_us === null;
    const [from, to] = packet.from_client ? [left, right] : [right, left];
    const y1 = places.get(packet.sent_us);
    const y2 = isLost ? y1 + 8 : places.get(packet.arrived_us);
    const end = isLost ? from + (to - from) * 0.6 : to;
    const kind = isLost ? "lost" : packet.is_retransmission ? "again" : packet.bytes > 0 ? "new" : "acks";
    picture.append(draw("line", { x1: from, y1, x2: end, y2, class: kind, "stroke-width": packet.bytes > 0 ? 1.6 : 1 }));
    if (isLost) picture.append(label(end, y2 + 4, "×", { "text-anchor": "middle" }));
    const side = packet.from_client ? "client" : "server";
    // Labels that would lie on each other are left out; the lines are all there.
    if (y1 - written[side] >= 11) {
      written[side] = y1;
      const words = packet.bytes > 0 || packet.flags.includes("S") ? `${packet.flags} ${packet.seq}:${packet.bytes} B` : `${packet.flags} ack ${packet.ack}`;
      const flow = packet.flow > 0 ? ` (${packet.flow + 1})` : "";
      picture.append(label(packet.from_client ? left - 6 : right + 6, y1 + 4, words + flow, { "text-anchor": packet.from_client ? "end" : "start" }));
    }
  }
  return picture;
}

// ---- Start -----------------------------------------------------------------------------------

function usePreset(index) {
  state.a = { ...PRESETS[index].a };
  state.b = { ...PRESETS[index].b };
  changed(index);
}

async function start() {
  const presets = document.getElementById("preset");
  presets.append(...PRESETS.map((preset, index) => make("option", { value: index }, preset.name)));
  presets.append(make("option", { value: OWN, hidden: "" }, "your own"));
  presets.onchange = () => usePreset(Number(presets.value));
  document.getElementById("reset-b").onclick = () => { state.b = {}; changed(OWN); };
  buildControls();
  try {
    await loadEngine();
  } catch (error) {
    document.getElementById("status").textContent = `The engine does not start in this browser: ${error}`;
    document.body.dataset.state = "failed";
    return;
  }
  const useAddress = () => { readAddress(); changed(presetOfState()); };
  if (location.hash.length > 1) useAddress();
  else usePreset(0);
  window.onhashchange = useAddress;
  new ResizeObserver(() => { if (pictureWidth() !== wide) drawResults(); }).observe(document.getElementById("results"));
}

start();
