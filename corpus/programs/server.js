// node's HTTP server with Nagle's algorithm or without: the head and the body are written apart.
const http = require('http');
const nodelay = process.argv[2] === 'nodelay';
http.createServer((request, response) => {
  request.socket.setNoDelay(nodelay);
  response.writeHead(200, {'Content-Length': 200});
  response.flushHeaders();
  setImmediate(() => response.end('x'.repeat(200)));
}).listen(8080);
