// A server of Bun: a file as large as one likes.
Bun.serve({
  port: 8080,
  hostname: "0.0.0.0",
  idleTimeout: 0,
  fetch: () => new Response(Bun.file(`${process.env.W}/big`)),
});
