// fifth.js koa|hapi PORT BYTES THINK_MS [tls]: so many bytes for each GET, uploads are discarded.
const { Readable } = require("stream");
const fs = require("fs");
const [name, port, bytes, think, tls] = process.argv.slice(2);
const piece = Buffer.alloc(65536, "x");

function body() {
  let left = Number(bytes);
  return new Readable({
    read() {
      const size = Math.min(left, piece.length);
      left -= size;
      this.push(size ? piece.subarray(0, size) : null);
    },
  });
}

const wait = () => new Promise((done) => setTimeout(done, Number(think)));
const drained = (from) => new Promise((done) => from.on("end", done).resume());
const keys = tls ? { key: fs.readFileSync("key.pem"), cert: fs.readFileSync("cert.pem") } : null;

if (name === "koa") {
  const Koa = require("koa");
  const app = new Koa();
  app.use(async (asked) => {
    if (asked.method !== "GET") await drained(asked.req);
    await wait();
    asked.set("Content-Length", bytes);
    asked.body = body();
  });
  const server = keys ? require("https").createServer(keys, app.callback())
                      : require("http").createServer(app.callback());
  server.requestTimeout = 0;
  server.keepAliveTimeout = 900000;
  server.listen(Number(port));
} else {
  const Hapi = require("@hapi/hapi");
  const server = Hapi.server({ port: Number(port), host: "0.0.0.0", tls: keys || undefined });
  server.route({ method: "GET", path: "/{any*}", handler: async (_, made) => {
    await wait();
    return made.response(body()).bytes(Number(bytes));
  } });
  server.route({ method: ["PUT", "POST"], path: "/{any*}",
    options: { payload: { output: "stream", parse: false, maxBytes: 1e13, timeout: false } },
    handler: async (asked) => { await drained(asked.payload); return "x"; } });
  server.listener.requestTimeout = 0;
  server.listener.keepAliveTimeout = 900000;
  server.start();
}
