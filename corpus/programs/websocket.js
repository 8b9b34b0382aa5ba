// A WebSocket server that pings each 2 s, and a client that only listens.
const http = require('http');
const net = require('net');
const [, , role, host] = process.argv;
if (role === 'server') {
  http.createServer().on('upgrade', (request, socket) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n' +
                 'Connection: Upgrade\r\n\r\n');
    setInterval(() => socket.write(Buffer.from([0x89, 0])), 2000);
  }).listen(8080);
} else {
  const socket = net.connect(8080, host, () => socket.write(
    'GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n'));
  socket.on('data', (data) => {
    if (data[0] === 0x89) socket.write(Buffer.from([0x8a, 0x80, 0, 0, 0, 0]));
  });
}
