// pages.js serve PORT BYTES THINK_MS: Node's http, a page of so many bytes on any path.
// pages.js ticks PORT BYTES PAUSE_MS: an answer without an end, of which so many bytes come at a time.
const http = require('http');
const [mode, port, bytes, pause] = process.argv.slice(2);
const piece = Buffer.alloc(Math.min(Number(bytes), 1 << 20), 'x');

function serve(answer) {
  let left = Number(bytes);
  answer.setHeader('Content-Length', left);
  const more = () => {
    while (left > 0) {
      const next = left >= piece.length ? piece : piece.subarray(0, left);
      left -= next.length;
      if (left === 0) return answer.end(next);
      if (!answer.write(next)) return answer.once('drain', more);
    }
  };
  setTimeout(more, Number(pause));
}

function ticks(answer) {
  const timer = setInterval(() => answer.write(piece), Number(pause));
  answer.on('close', () => clearInterval(timer));
}

http.createServer((_, answer) => (mode === 'serve' ? serve : ticks)(answer)).listen(Number(port));
