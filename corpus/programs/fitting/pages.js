// pages.js PORT BYTES MS: head and body in two writes, with Nagle's algorithm on.
const [port, bytes, ms] = process.argv.slice(2).map(Number);
require('http').createServer({ noDelay: false }, (request, response) => {
  setTimeout(() => {
    response.writeHead(200, { 'Content-Length': bytes });
    response.flushHeaders();
    setImmediate(() => response.end(Buffer.alloc(bytes)));
  }, ms);
}).listen(port);
