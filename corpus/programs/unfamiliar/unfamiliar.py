#!/usr/bin/env python3
"""Servers and clients for situations: ASGI and WSGI servers, Tornado, HTTP/2 by httpx, IMAP."""

import asyncio
import os
import sys
import time
from urllib.parse import parse_qs


async def asgi(scope, receive, send):
    """?ms=: works so long before it answers; ?bytes=: of the answer; ?pause=: of each read."""
    if scope["type"] != "http":
        return
    query = parse_qs(scope["query_string"].decode())
    asked = {key: float(value[0]) for key, value in query.items()}
    while True:
        message = await receive()
        await asyncio.sleep(asked.get("pause", 0))
        if not message.get("more_body"):
            break
    await asyncio.sleep(asked.get("ms", 0) / 1000)
    size = int(asked.get("bytes", 200))
    await send({"type": "http.response.start", "status": 200,
                "headers": [(b"content-length", str(size).encode())]})
    for at in range(0, size, 1 << 16):
        block = bytes(min(1 << 16, size - at))
        await send({"type": "http.response.body", "body": block, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def uvicorn(port):
    import uvicorn as server

    server.run(asgi, host="0.0.0.0", port=int(port), log_level="warning", lifespan="off")


def hypercorn(port):
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    config = Config()
    config.bind = [f"0.0.0.0:{port}"]
    asyncio.run(serve(asgi, config))


def worker(seconds):
    def app(_, start):
        time.sleep(float(seconds))
        start("200 OK", [("Content-Length", "300")])
        return [bytes(300)]

    return app


def waitress(port, seconds):
    from waitress import serve

    serve(worker(seconds), host="0.0.0.0", port=int(port), threads=4)


def wsgiref(port, seconds):
    from wsgiref.simple_server import make_server

    make_server("", int(port), worker(seconds)).serve_forever()


def tornado(port, size, seconds):
    """Sends `size` bytes each so many seconds, for ever."""
    from tornado.ioloop import IOLoop
    from tornado.web import Application, RequestHandler

    class Push(RequestHandler):
        async def get(self):
            while True:
                self.write(os.urandom(int(size)))
                await self.flush()
                await asyncio.sleep(float(seconds))

    async def run():
        Application([("/", Push)]).listen(int(port))
        await asyncio.Event().wait()

    IOLoop.current().run_sync(run)


def httpx(url, kind, pause=0):
    """Gets the same page again: `kept`, `new` connections, or `h2`."""
    import httpx as client

    def one(session):
        with session.stream("GET", url) as response:
            for _ in response.iter_raw():
                pass
        time.sleep(float(pause))

    if kind == "new":
        while True:
            with client.Client(timeout=None) as session:
                one(session)
    with client.Client(http1=kind != "h2", http2=kind == "h2", timeout=None) as session:
        while True:
            one(session)


def imap(host, port):
    """Fetches one message after the other."""
    import imaplib

    session = imaplib.IMAP4(host, int(port))
    session.login("u", "p")
    session.select()
    while True:
        for number in range(1, 21):
            session.fetch(str(number), "(RFC822)")


def mails(folder, count, size):
    """A Maildir."""
    for name in ("cur", "new", "tmp"):
        os.makedirs(f"{folder}/{name}")
    line = b"x" * 70 + b"\r\n"
    for number in range(int(count)):
        with open(f"{folder}/new/{number}.x.y", "wb") as file:
            file.write(b"Subject: x\r\n\r\n" + line * (int(size) // len(line)))


def main():
    modes = {each.__name__: each
             for each in (uvicorn, hypercorn, waitress, wsgiref, tornado, httpx, imap, mails)}
    mode, *rest = sys.argv[1:]
    modes[mode](*rest)


if __name__ == "__main__":
    main()
