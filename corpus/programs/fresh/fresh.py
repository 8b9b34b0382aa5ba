#!/usr/bin/env python3
"""Servers and clients for situations: asyncio, Flask, websockets, gRPC, and a slow Expect."""

import asyncio
import os
import socket
import sys
import threading
import time


def aio(port, size, pause, work):
    """/stream: `size` bytes each `pause` s; /work: an answer after `work` s; /big; POST to /."""
    from aiohttp import web

    async def stream(request):
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(bytes(int(size)))
            await asyncio.sleep(float(pause))

    async def big(request):
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(bytes(1 << 16))

    async def worked(_):
        await asyncio.sleep(float(work))
        return web.Response(body=bytes(3000))

    async def take(request):
        async for _ in request.content.iter_any():
            pass
        return web.Response(text="ok")

    app = web.Application(client_max_size=1 << 40)
    app.add_routes([web.get("/stream", stream), web.get("/big", big), web.get("/work", worked),
                    web.post("/", take), web.put("/", take)])
    web.run_app(app, port=int(port), print=None)


def aio_ask(url):
    """One request after the other on one connection."""
    import aiohttp

    async def ask():
        async with aiohttp.ClientSession() as session:
            while True:
                async with session.get(url) as response:
                    await response.read()

    asyncio.run(ask())


def flask(port, size):
    import flask

    app = flask.Flask("fresh")
    app.add_url_rule("/", view_func=lambda: os.urandom(int(size)))
    app.run("0.0.0.0", int(port))


def pushes(port, size, pause):
    """A websocket that sends `size` bytes each `pause` s."""
    from websockets.asyncio.server import serve

    async def push(connection):
        while True:
            await connection.send(os.urandom(int(size)))
            await asyncio.sleep(float(pause))

    async def run():
        async with serve(push, "", int(port), compression=None, ping_interval=None):
            await asyncio.Future()

    asyncio.run(run())


def pushed(host, port):
    from websockets.asyncio.client import connect

    async def run():
        async with connect(f"ws://{host}:{port}", max_size=None, compression=None,
                           ping_interval=None) as connection:
            while True:
                await connection.recv()

    asyncio.run(run())


def no_continue(port):
    """Takes posts, and never says `100 Continue`: the client gives up waiting for it."""
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("", int(port)))
    server.listen(50)

    def take(connection):
        file = connection.makefile("rb")
        while line := file.readline():
            length = 0
            while line.strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
                line = file.readline()
            file.read(length)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    while True:
        connection, _ = server.accept()
        threading.Thread(target=take, args=(connection,), daemon=True).start()


def work(port, seconds):
    """An HTTP server that works on one request at a time."""
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            time.sleep(float(seconds))
            self.wfile.write(b"HTTP/1.0 200 OK\r\nContent-Length: 500\r\n\r\n" + bytes(500))

    HTTPServer(("", int(port)), Page).serve_forever()


def main():
    modes = {each.__name__: each
             for each in (aio, aio_ask, flask, pushes, pushed, no_continue, work)}
    mode, *rest = sys.argv[1:]
    modes[mode](*rest)


if __name__ == "__main__":
    main()
