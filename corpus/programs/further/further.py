"""gRPC and WebSocket programs for situations: further.py MODE [HOST]."""

import asyncio
import concurrent.futures
import os
import sys
import time


def same(data):
    return data


def grpc_serve():
    import grpc

    def echo(request, _):
        return request

    def stream(_, __):
        while True:
            yield bytes(16384)

    handlers = {
        "Echo": grpc.unary_unary_rpc_method_handler(echo, same, same),
        "Stream": grpc.unary_stream_rpc_method_handler(stream, same, same),
    }
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("far", handlers),))
    server.add_insecure_port("0.0.0.0:5000")
    server.start()
    server.wait_for_termination()


def grpc_calls(host):
    import grpc

    call = grpc.insecure_channel(f"{host}:5000").unary_unary("/far/Echo", same, same)
    while True:
        call(bytes(100))


def grpc_slow_stream(host):
    import grpc

    channel = grpc.insecure_channel(f"{host}:5000")
    for _ in channel.unary_stream("/far/Stream", same, same)(b""):
        time.sleep(0.05)


async def websocket_serve(bytes_each, pause):
    import websockets

    async def handle(socket):
        while True:
            await socket.send(os.urandom(bytes_each))
            await asyncio.sleep(pause)

    async with websockets.serve(handle, "0.0.0.0", 5000, compression=None):
        await asyncio.Future()


async def websocket_listen(host):
    import websockets

    async with websockets.connect(f"ws://{host}:5000", compression=None) as socket:
        async for _ in socket:
            pass


async def many(host, port, count):
    """Connections of one process to memcached, each of which asks once a second."""

    async def one(at):
        await asyncio.sleep(at / count)
        reader, writer = await asyncio.open_connection(host, port)
        while True:
            writer.write(b"get nothing\r\n")
            await reader.readline()
            await asyncio.sleep(1)

    await asyncio.gather(*(one(at) for at in range(count)))


def batches(port):
    """Reads a megabyte, then works for two seconds."""
    import socket

    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("", port))
    server.listen()
    peer, _ = server.accept()
    left = 1 << 20
    while data := peer.recv(min(left, 1 << 16)):
        left -= len(data)
        if left == 0:
            left = 1 << 20
            time.sleep(2)


def main():
    mode, *rest = sys.argv[1:]
    if mode == "grpc-serve":
        grpc_serve()
    elif mode == "grpc-calls":
        grpc_calls(*rest)
    elif mode == "grpc-slow-stream":
        grpc_slow_stream(*rest)
    elif mode == "ws-serve":
        asyncio.run(websocket_serve(int(rest[0]), float(rest[1])))
    elif mode == "ws-listen":
        asyncio.run(websocket_listen(*rest))
    elif mode == "many":
        asyncio.run(many(rest[0], int(rest[1]), int(rest[2])))
    elif mode == "batches":
        batches(int(rest[0]))


main()
