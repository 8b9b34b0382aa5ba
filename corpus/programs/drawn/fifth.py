#!/usr/bin/env python3
"""A server and a client of Python's websockets, for the situations of the fifth seed."""

import os
import sys
import time


def serve(port, what, size, pause, think):
    """`bulk` without end, `ticks` at its own pace, or an answer to each message of `asks`."""
    from websockets.sync.server import serve as listen

    message = os.urandom(int(size))

    def handle(held):
        if what == "asks":
            for _ in held:
                time.sleep(float(think))
                held.send(message)
        while True:
            held.send(message)
            time.sleep(float(pause))

    with listen(handle, "0.0.0.0", int(port), compression=None, max_size=None,
                ping_interval=None) as server:
        server.serve_forever()


def take(host, port, what, _size):
    from websockets.sync.client import connect

    with connect(f"ws://{host}:{port}/", compression=None, max_size=None,
                 ping_interval=None) as held:
        while True:
            if what == "asks":
                held.send("next")
            held.recv()


if __name__ == "__main__":
    {each.__name__: each for each in (serve, take)}[sys.argv[1]](*sys.argv[2:])
