// A server of Deno: a page of so many bytes at port 5000.
const page = new Uint8Array(Number(Deno.args[0]));
Deno.serve({ port: 5000, hostname: "0.0.0.0", onListen: () => {} }, () => new Response(page));
