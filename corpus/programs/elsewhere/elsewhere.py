#!/usr/bin/env python3
"""Ordinary programs of Python's standard library: asyncio servers, and clients that take their time.

`elsewhere.py NAME ARGUMENT...`; each function says what its arguments are.
"""

import asyncio
import os
import pty
import socket
import sys
import time
import urllib.request


def push(port, count, pause):
    """An asyncio server that writes `count` bytes every `pause` seconds to whoever connects."""

    async def serve(_reader, writer):
        due = time.monotonic()
        while True:
            writer.write(bytes(int(count)))
            await writer.drain()
            due = max(due + float(pause), time.monotonic())
            await asyncio.sleep(due - time.monotonic())

    run_server(serve, port)


def lines(port, think):
    """An asyncio server that answers every second line after `think` seconds."""

    async def serve(reader, writer):
        while await reader.readline() and await reader.readline():
            await asyncio.sleep(float(think))
            writer.write(b"done\n")

    run_server(serve, port)


def run_server(serve, port):
    async def main():
        server = await asyncio.start_server(serve, "0.0.0.0", int(port))
        await server.serve_forever()

    asyncio.run(main())


def download(url, count, pause):
    """Reads `count` bytes at a time, with a pause after each."""
    answer = urllib.request.urlopen(url)
    while answer.read(int(count)):
        time.sleep(float(pause))


def segments(url, pause):
    """Gets the same file over and over on one connection, with pauses, as a player does."""
    import http.client

    host, path = url.removeprefix("http://").split("/", 1)
    connection = http.client.HTTPConnection(host)
    while True:
        connection.request("GET", "/" + path)
        connection.getresponse().read()
        time.sleep(float(pause))


def poll(host, port, text, pause):
    """Sends a line, reads an answer, sleeps."""
    client = socket.create_connection((host, int(port)))
    while True:
        client.sendall(text.encode().decode("unicode_escape").encode())
        client.recv(65536)
        time.sleep(float(pause))


def keys(pause, *command):
    """Types into a program on a terminal of its own."""
    child, terminal = pty.fork()
    if child == 0:
        os.execvp(command[0], command)
    os.set_blocking(terminal, False)
    while True:
        for key in b"echo hello world; ls /\n":
            os.write(terminal, bytes([key]))
            time.sleep(float(pause))
            try:
                os.read(terminal, 65536)
            except BlockingIOError:
                pass


if __name__ == "__main__":
    try:
        globals()[sys.argv[1]](*sys.argv[2:])
    except (KeyboardInterrupt, ConnectionError):
        pass
