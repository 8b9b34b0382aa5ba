// node relays.js koa PORT BYTES | hapi PORT BYTES | proxy PORT TARGET_PORT | put PORT
'use strict';
const [what, port, more] = process.argv.slice(2);
if (what === 'koa') {
  const Koa = require('koa');
  const app = new Koa();
  const body = Buffer.alloc(+more, 120);
  app.use((context) => { context.body = body; });
  const server = app.listen(+port);
  server.keepAliveTimeout = 600000;
} else if (what === 'hapi') {
  const server = require('@hapi/hapi').server({ port: +port, host: '0.0.0.0' });
  const body = Buffer.alloc(+more, 120);
  server.route({ method: 'GET', path: '/', handler: () => body });
  server.start();
} else {
  require('http-proxy').createProxyServer({ target: `http://127.0.0.1:${more}` }).listen(+port);
}
