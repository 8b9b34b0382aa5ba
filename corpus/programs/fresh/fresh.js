// Node for situations: h2-serve PORT | h2-get HOST PORT | busy PORT MS
const [mode, first, second] = process.argv.slice(2);
if (mode === "h2-serve") {
  require("http2").createServer().on("stream", (stream) => {
    stream.respond({ ":status": 200 });
    const block = Buffer.alloc(1 << 16);
    const more = () => { while (stream.write(block)); };
    stream.on("drain", more);
    more();
  }).listen(Number(first));
} else if (mode === "h2-get") {
  const session = require("http2").connect(`http://${first}:${second}`);
  session.request({ ":path": "/" }).on("data", () => {});
} else if (mode === "busy") {
  // Works on each request without letting the loop go on.
  require("http").createServer((request, response) => {
    const end = Date.now() + Number(second);
    while (Date.now() < end);
    response.end("done");
  }).listen(Number(first));
}
