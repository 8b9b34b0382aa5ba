"""OPC UA by asyncua, files by Litestar, and a client of websockify."""

import asyncio
import socket
import sys


def opcua_server(port, bytes):
    from asyncua import Server, ua

    async def run():
        server = Server()
        await server.init()
        server.set_endpoint(f"opc.tcp://0.0.0.0:{port}")
        server.set_security_policy([ua.SecurityPolicyType.NoSecurity])
        space = await server.register_namespace("lab")
        await server.nodes.objects.add_variable(ua.NodeId("one", space), "one", b"x" * int(bytes))
        async with server:
            await asyncio.sleep(3600)

    asyncio.run(run())


def opcua_client(host, port, pause="0"):
    from asyncua import Client

    async def run():
        async with Client(f"opc.tcp://{host}:{port}", timeout=60) as client:
            one = client.get_node(f"ns={await client.get_namespace_index('lab')};s=one")
            while True:
                await one.read_value()
                await asyncio.sleep(float(pause))

    asyncio.run(run())


def litestar(port, bytes, host="0.0.0.0"):
    """A page of that many bytes as a stream, or an upload that is counted."""
    import uvicorn
    from litestar import Litestar, Request, get, post
    from litestar.response import Stream

    block = b"x" * 65536

    async def blocks():
        for _ in range(int(bytes) // len(block)):
            yield block
        yield block[:int(bytes) % len(block)]

    @get("/", sync_to_thread=False)
    def page() -> Stream:
        return Stream(blocks())

    @post("/")
    async def taken(request: Request) -> int:
        count = 0
        async for chunk in request.stream():
            count += len(chunk)
        return count

    uvicorn.run(Litestar([page, taken], request_max_body_size=None), host=host, port=int(port),
                log_level="error")


def looks(host, port):
    """Takes what websockify passes on (RFC 6455: frames of a server are not masked)."""
    with socket.create_connection((host, int(port))) as link:
        link.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
                     "Sec-WebSocket-Protocol: binary\r\n\r\n".encode())
        while link.recv(1 << 18):
            pass


if __name__ == "__main__":
    globals()[sys.argv[1].replace("-", "_")](*sys.argv[2:])
