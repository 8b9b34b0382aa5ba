// Express that takes an upload, HTTP/2 of Node at both ends, and fetch in a loop.

function takes(port) {
  const app = require("express")();
  app.put("/up", (asked, answer) => asked.resume().on("end", () => answer.send("ok")));
  app.listen(Number(port));
}

function serves(port) {
  const piece = Buffer.alloc(65536, "x");
  require("http2").createServer().on("stream", (stream) => {
    stream.respond({ ":status": 200 });
    const next = () => { while (stream.write(piece)); stream.once("drain", next); };
    next();
  }).listen(Number(port));
}

function gets(host, port) {
  const session = require("http2").connect(`http://${host}:${port}`);
  session.request({ ":path": "/" }).on("data", () => {}).end();
}

async function asks(url) {
  for (;;) await (await fetch(url)).text();
}

const [what, ...args] = process.argv.slice(2);
({ takes, serves, gets, asks })[what](...args);
