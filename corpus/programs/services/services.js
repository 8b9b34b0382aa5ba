// Node for situations: proxy PORT HOST PORT | pieces HOST PORT
const net = require("net");
const [mode, first, second, third] = process.argv.slice(2);
if (mode === "proxy") {
  net.createServer((near) => {
    const far = net.connect(Number(third), second);
    near.pipe(far);
    far.pipe(near);
    for (const end of [near, far]) end.on("error", () => { near.destroy(); far.destroy(); });
  }).listen(Number(first));
} else {
  const socket = net.connect(Number(second), first);
  const ask = () => {
    socket.write(Buffer.alloc(8));
    setImmediate(() => socket.write(Buffer.alloc(120)));
  };
  socket.on("connect", ask);
  socket.on("data", ask);
}
