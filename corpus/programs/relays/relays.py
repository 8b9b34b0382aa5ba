"""Clients and servers of Python's packages, for `tables/relays.py`: `relays.py COMMAND ...`."""

import http.client
import json
import os
import sys
import time


def pauses(host, port, pause):
    """Asks on one connection, each time after a pause."""
    connection = http.client.HTTPConnection(host, int(port))
    while True:
        connection.request("GET", "/")
        connection.getresponse().read()
        time.sleep(float(pause))


def image(folder, size):
    """An image of one layer, as `skopeo` reads it from a directory."""
    import hashlib
    os.makedirs(folder)
    blobs = []
    for data in (b'{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}', os.urandom(int(size))):
        digest = hashlib.sha256(data).hexdigest()
        with open(f"{folder}/{digest}", "wb") as file:
            file.write(data)
        blobs.append({"size": len(data), "digest": f"sha256:{digest}"})
    kind = "application/vnd.docker.distribution.manifest.v2+json"
    config = {"mediaType": "application/vnd.docker.container.image.v1+json", **blobs[0]}
    layer = {"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", **blobs[1]}
    with open(f"{folder}/manifest.json", "w") as file:
        json.dump({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": [layer]}, file)
    with open(f"{folder}/version", "w") as file:
        file.write("Directory Transport Version: 1.1\n")


def zone(names):
    """A zone of so many names."""
    print("$TTL 600\n@ SOA ns h 1 600 600 600 600\n@ NS ns\nns A 10.77.0.2")
    for number in range(int(names)):
        print(f"a-name-that-is-long-enough-{number} A 10.0.{number >> 8 & 255}.{number & 255}")


def dns(host, port):
    """Asks for one name after the other on one connection."""
    import socket
    import struct
    server = socket.create_connection((host, int(port)))
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    name = b"\x1fa-name-that-is-long-enough-12345\x03lab\x00"
    name = bytes([len(b"a-name-that-is-long-enough-12345")]) + name[1:]
    query = struct.pack(">6H", 7, 0, 1, 0, 0, 0) + name + struct.pack(">2H", 1, 1)
    answers = server.makefile("rb")
    while True:
        server.sendall(struct.pack(">H", len(query)) + query)
        answers.read(struct.unpack(">H", answers.read(2))[0])


def rpc_serves(port):
    import zerorpc

    class Counts:
        @zerorpc.stream
        def count(self):
            return (b"x" * 1000 for _ in iter(int, 1))

        def echo(self, text):
            return text

    server = zerorpc.Server(Counts())
    server.bind(f"tcp://0.0.0.0:{port}")
    server.run()


def rpc_echo(host, port):
    import zerorpc
    client = zerorpc.Client(timeout=600, heartbeat=None)
    client.connect(f"tcp://{host}:{port}")
    while True:
        client.echo("x" * 200)


def quart(port, size):
    from hypercorn.asyncio import serve
    from hypercorn.config import Config
    from quart import Quart
    import asyncio
    app = Quart(__name__)

    @app.get("/")
    async def get():
        async def body():
            for _ in range(int(size) // 16384):
                yield b"x" * 16384
        return body(), {"Content-Type": "application/octet-stream"}

    config = Config()
    config.bind = [f"[::]:{port}"]
    asyncio.run(serve(app, config))


COMMANDS = {"dns": dns, "pauses": pauses, "image": image, "zone": zone, "rpc-serves": rpc_serves,
            "rpc-echo": rpc_echo, "quart": quart}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
