// fastify, with a page of as many bytes as the second argument says, on the port of the first.
const app = require('fastify')({ keepAliveTimeout: 600000 });
const page = 'x'.repeat(Number(process.argv[3]));
app.get('/', async () => page);
app.listen({ port: Number(process.argv[2]), host: '0.0.0.0' });
