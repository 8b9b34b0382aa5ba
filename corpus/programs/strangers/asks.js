// undici asks for a page on one connection, and pauses. Arguments: address of the page, milliseconds.
const { Client } = require('undici');
const url = new URL(process.argv[2]);
const client = new Client(url.origin, { keepAliveTimeout: 600000 });
async function ask() {
  for (;;) {
    const { body } = await client.request({ path: url.pathname, method: 'GET' });
    for await (const _ of body);
    await new Promise((done) => setTimeout(done, Number(process.argv[3])));
  }
}
ask();
