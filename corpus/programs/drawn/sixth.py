"""An application for WSGI and ASGI servers: `/page` of $SIZE bytes after $THINK seconds, `/big` without end."""

import asyncio
import os
import time

PAGE = os.urandom(int(os.environ.get("SIZE", "1000")))
BLOCK = bytes(262_144)
THINK = float(os.environ.get("THINK", "0"))


def forever():
    while True:
        yield BLOCK


def application(environ, start):
    if environ["PATH_INFO"] == "/big":
        start("200 OK", [("Content-Type", "application/octet-stream")])
        return forever()
    time.sleep(THINK)
    start("200 OK", [("Content-Length", str(len(PAGE)))])
    return [PAGE]


async def asgi(scope, _receive, send):
    if scope["type"] != "http":
        return
    is_big = scope["path"] == "/big"
    await asyncio.sleep(0 if is_big else THINK)
    length = [] if is_big else [(b"content-length", str(len(PAGE)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": length})
    while is_big:
        await send({"type": "http.response.body", "body": BLOCK, "more_body": True})
    await send({"type": "http.response.body", "body": PAGE})
