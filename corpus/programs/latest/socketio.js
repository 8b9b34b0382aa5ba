// socket.io: the server sends so many bytes to each client each so many milliseconds.
// socketio.js serve PORT BYTES MILLISECONDS | socketio.js hear URL
const [what, where, bytes, pause] = process.argv.slice(2);
if (what === "serve") {
  const { Server } = require("socket.io");
  const io = new Server(Number(where), { transports: ["websocket"] });
  const page = Buffer.alloc(Number(bytes), 120);
  setInterval(() => io.emit("page", page), Number(pause));
} else {
  const { io } = require("socket.io-client");
  io(where, { transports: ["websocket"] }).on("page", () => {});
}
