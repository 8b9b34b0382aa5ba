// Node for situations: serve PORT | get URL PAUSE | busy PORT
const http = require("http");
const [mode, where, pause] = process.argv.slice(2);
if (mode === "serve" || mode === "busy") {
  http.createServer((request, answer) => {
    if (mode === "busy") for (const end = Date.now() + 5; Date.now() < end;);
    const bytes = Number(new URL(request.url, "http://x").searchParams.get("bytes") || 100);
    answer.end(Buffer.alloc(bytes));
  }).listen(Number(where));
} else {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const ask = () => http.get(where, { agent }, (answer) => {
    answer.resume();
    answer.on("end", () => setTimeout(ask, Number(pause)));
  });
  ask();
}
