#!/usr/bin/env python3
"""Servers and clients of the situations that `drawn.py` draws."""

import os
import sys
import time


def asks(host, port, path, pause):
    """One page on a kept connection, again so many seconds after it has come."""
    import http.client

    kept = http.client.HTTPConnection(host, int(port))
    while True:
        kept.request("GET", path)
        kept.getresponse().read()
        time.sleep(float(pause))


def pages(port, bytes, think, buffer):
    """aiohttp, as it comes: a page of so many bytes after so many seconds."""
    import asyncio
    import socket

    from aiohttp import web

    async def page(asked):
        if int(buffer):
            held = asked.transport.get_extra_info("socket")
            held.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, int(buffer))
        await asyncio.sleep(float(think))
        answer = web.StreamResponse(headers={"Content-Length": bytes})
        await answer.prepare(asked)
        left = int(bytes)
        while left:
            piece = b"x" * min(left, 65536)
            left -= len(piece)
            await answer.write(piece)
        await answer.write_eof()
        return answer

    app = web.Application()
    app.router.add_get("/{any:.*}", page)
    web.run_app(app, host="0.0.0.0", port=int(port), print=None)


def gets(host, port, bytes):
    """Sets a value in memcached, and gets it without end."""
    import socket

    held = socket.create_connection((host, int(port)))
    reader = held.makefile("rb")
    held.sendall(b"set k 0 0 %d\r\n%s\r\n" % (int(bytes), b"x" * int(bytes)))
    reader.readline()
    while True:
        held.sendall(b"get k\r\n")
        reader.readline()
        reader.read(int(bytes) + 2)
        reader.readline()


def redis_value(host, port, bytes):
    """Gets one value of Redis without end."""
    import socket

    held = socket.create_connection((host, int(port)))
    reader = held.makefile("rb")
    held.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%s\r\n" % (int(bytes), b"x" * int(bytes)))
    reader.readline()
    while True:
        held.sendall(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n")
        reader.read(int(reader.readline()[1:]) + 2)


def publishes(host, port, bytes, pause):
    """Publishes by redis-cli's protocol, so many bytes each so many seconds."""
    import socket

    held = socket.create_connection((host, int(port)))
    message = os.urandom(int(bytes))
    while True:
        held.sendall(b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n$%d\r\n%s\r\n" % (len(message), message))
        held.recv(100)
        time.sleep(float(pause))


if __name__ == "__main__":
    {each.__name__: each for each in (
        asks, pages, gets, redis_value, publishes)}[sys.argv[1]](*sys.argv[2:])
