#!/usr/bin/env python3
"""Servers and clients of `tables/foretold.py`, of Python's standard library alone."""

import asyncio
import http.server
import os
import socket
import socketserver
import sys
import time
import urllib.request


def pages(port, size, version):
    """Pages by `http.server`, whose handler writes head and body one after the other."""
    body = os.urandom(int(size))

    class Page(http.server.BaseHTTPRequestHandler):
        protocol_version = version

        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    http.server.ThreadingHTTPServer(("", int(port)), Page).serve_forever()


def files(port, size):
    """A file by sendfile() to each that connects."""
    with open("file", "wb") as file:
        file.write(os.urandom(int(size)))

    class Sends(socketserver.BaseRequestHandler):
        def handle(self):
            with open("file", "rb") as file:
                self.request.sendfile(file)

    socketserver.ThreadingTCPServer.allow_reuse_address = True
    socketserver.ThreadingTCPServer(("", int(port)), Sends).serve_forever()


def streams(port, size, pause, sndbuf):
    """Blocks of asyncio's streams, with a pause after each, or none."""
    block = os.urandom(int(size))

    async def send(_, writer):
        while True:
            writer.write(block)
            await writer.drain()
            if float(pause):
                await asyncio.sleep(float(pause))

    async def run():
        listener = socket.create_server(("", int(port)))
        if int(sndbuf):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, int(sndbuf))
        await (await asyncio.start_server(send, sock=listener)).serve_forever()

    asyncio.run(run())


def downloads(url):
    """Takes it by urllib, each time on a new connection."""
    while True:
        with urllib.request.urlopen(url) as answer:
            while answer.read(65536):
                pass


def takes(host, port):
    """Takes all that comes on one connection."""
    with socket.create_connection((host, int(port))) as connection:
        while connection.recv(262144):
            pass


def answers(port):
    """A short answer to each line of 300 bytes in all."""
    with socket.create_server(("", int(port))) as listener:
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as lines:
                while lines.read(300):
                    connection.sendall(b"taken\n")


def asks(host, port):
    """A question in three writes, and a wait for its answer."""
    with socket.create_connection((host, int(port))) as connection:
        while True:
            for size in (20, 120, 160):
                connection.sendall(bytes(size))
            connection.recv(100)


def spins(seconds):
    """Keeps a processor busy."""
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        pass


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
