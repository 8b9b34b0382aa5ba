// Writes each request in two pieces, with Nagle's algorithm on. Usage: client.js HOST PORT COUNT
const net = require('net');

const [host, port, count] = process.argv.slice(2);
let left = Number(count);
let got = 0;
const stream = net.connect({ host, port: Number(port), noDelay: false });
const ask = () => {
  stream.write('head');
  setImmediate(() => stream.write('b'.repeat(100)));
};
stream.on('connect', ask);
stream.on('data', (data) => {
  got += data.length;
  if (got < 100) return;
  got = 0;
  left -= 1;
  if (left > 0) return ask();
  stream.end();
  console.log('done');
});
