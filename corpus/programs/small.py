#!/usr/bin/env python3
"""Small programs for situations that no common program makes by itself.

Each is an ordinary blocking program; `small.py NAME --help` lists its options.
"""

import argparse
import socket
import struct
import sys
import threading
import time


def listen(args):
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if args.rcvbuf:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, args.rcvbuf)
    server.bind(("", args.port))
    server.listen(args.backlog)
    return server


def serve(args, handle):
    server = listen(args)
    while True:
        connection, _ = server.accept()
        if args.nodelay:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=handle, args=(args, connection), daemon=True).start()


def connect(args):
    client = socket.socket()
    if args.sndbuf:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, args.sndbuf)
    if args.nodelay:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if args.cork:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    if args.pacing:
        client.setsockopt(socket.SOL_SOCKET, 47, struct.pack("I", args.pacing))
    client.connect((args.host, args.port))
    return client


def exactly(connection, count):
    left = count
    while left:
        data = connection.recv(min(left, 1 << 18))
        if not data:
            sys.exit(0)
        left -= len(data)


# Servers.


def sink(args):
    """Read everything, at --rate bytes per second if given."""

    def handle(args, connection):
        step = args.rate // 50 or 1 if args.rate else 1 << 18
        while connection.recv(step):
            if args.rate:
                time.sleep(step / args.rate)

    serve(args, handle)


def mute(args):
    """Accept and never read."""
    server = listen(args)
    kept = []
    while True:
        kept.append(server.accept())


def deaf(args):
    """Listen and never accept."""
    server = listen(args)
    time.sleep(3600)
    server.close()


def answer(args):
    """Read --request bytes, think, write --reply bytes in --writes pieces; repeat."""

    def handle(args, connection):
        pieces = split(args.reply, args.writes)
        while True:
            exactly(connection, args.request)
            time.sleep(args.think)
            for piece in pieces:
                connection.sendall(piece)

    serve(args, handle)


# Clients.


def split(count, writes):
    first = count - count // writes * (writes - 1)
    return [b"x" * first] + [b"x" * (count // writes)] * (writes - 1)


def ask(args):
    """Write --request bytes in --writes pieces, read --reply bytes, pause; repeat."""
    client = connect(args)
    text = args.text.encode().decode("unicode_escape").encode()
    pieces = [text] if text else split(args.request, args.writes)
    while True:
        for piece in pieces:
            client.sendall(piece)
        exactly(client, args.reply)
        time.sleep(args.pause)


def source(args):
    """Write --request bytes, pause; repeat."""
    client = connect(args)
    data = b"x" * args.request
    while True:
        client.sendall(data)
        time.sleep(args.pause)


def churn(args):
    """Connect, and close at once; repeat."""
    while True:
        client = socket.socket()
        try:
            client.connect((args.host, args.port))
            client.close()
            time.sleep(args.pause)
        except OSError:
            time.sleep(0.05)


def many(args):
    """Open --writes connections at once and keep them."""
    kept = []

    def one():
        client = socket.socket()
        kept.append(client)
        try:
            client.connect((args.host, args.port))
            client.sendall(b"x" * args.request)
            client.recv(1)
        except OSError:
            pass

    for _ in range(args.writes):
        threading.Thread(target=one, daemon=True).start()
    time.sleep(3600)


SERVERS = [sink, mute, deaf, answer]
CLIENTS = [ask, source, churn, many]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    names = parser.add_subparsers(required=True)
    for program in SERVERS + CLIENTS:
        one = names.add_parser(program.__name__, help=program.__doc__)
        one.set_defaults(program=program)
        if program in CLIENTS:
            one.add_argument("host")
        one.add_argument("port", type=int)
        for name, value in [
            ("request", 100), ("reply", 100), ("writes", 1), ("rcvbuf", 0), ("sndbuf", 0),
            ("rate", 0), ("backlog", 128), ("pacing", 0), ("think", 0.0), ("pause", 0.0),
            ("text", ""),
        ]:
            one.add_argument(f"--{name}", type=type(value), default=value)
        one.add_argument("--nodelay", action="store_true")
        one.add_argument("--cork", action="store_true")
    args = parser.parse_args()
    try:
        args.program(args)
    except (KeyboardInterrupt, ConnectionError):
        pass


if __name__ == "__main__":
    main()
