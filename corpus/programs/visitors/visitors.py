#!/usr/bin/env python3
"""Tornado, Starlette, and socketserver that forks for each connection."""

import asyncio
import sys


def reuseport(port, bytes, workers):
    """Tornado in so many processes, each with a listener of its own: a page of so many bytes."""
    import os

    import tornado.httpserver
    import tornado.netutil
    import tornado.web

    class Page(tornado.web.RequestHandler):
        def get(self):
            self.finish(b"x" * int(bytes))

    async def serve():
        server = tornado.httpserver.HTTPServer(tornado.web.Application([("/", Page)]))
        server.add_sockets(tornado.netutil.bind_sockets(int(port), "0.0.0.0", reuse_port=True))
        await asyncio.Event().wait()

    for _ in range(int(workers) - 1):
        if os.fork() == 0:
            break
    asyncio.run(serve())


def pushes(port, bytes, pause):
    """A WebSocket of Tornado: so many bytes each `pause` seconds."""
    import tornado.httpserver
    import tornado.web
    import tornado.websocket

    class Push(tornado.websocket.WebSocketHandler):
        def check_origin(self, origin):
            return True

        async def open(self):
            asyncio.get_running_loop().create_task(self.push())

        async def push(self):
            while True:
                await self.write_message(b"x" * int(bytes), binary=True)
                await asyncio.sleep(float(pause))

    async def serve():
        tornado.web.Application([("/", Push)]).listen(int(port))
        await asyncio.Event().wait()

    asyncio.run(serve())


def polls(port, seconds):
    """Starlette: an answer after so many seconds."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    async def wait(_asked):
        await asyncio.sleep(float(seconds))
        return PlainTextResponse("news")

    uvicorn.run(Starlette(routes=[Route("/", wait)]), host="0.0.0.0", port=int(port),
                log_level="error")


def forks(port, bytes):
    """A process for each connection, which sends one page."""
    import socketserver

    class Page(socketserver.StreamRequestHandler):
        def handle(self):
            while self.rfile.readline().strip():
                pass
            head = f"HTTP/1.0 200 OK\r\nContent-Length: {bytes}\r\n\r\n".encode()
            self.wfile.write(head + b"x" * int(bytes))

    class Forking(socketserver.ForkingTCPServer):
        allow_reuse_address = True
        request_queue_size = 128

    Forking(("", int(port)), Page).serve_forever()


what, *args = sys.argv[1:]
globals()[what](*args)
