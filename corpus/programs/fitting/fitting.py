#!/usr/bin/env python3
"""Servers and clients for situations that `fit` is judged by: gRPC, ZeroMQ, S3, SFTP, WebSockets,
server-sent events, memcached, Python's own."""

import sys
import time


def grpc_server(port, seconds, size):
    from concurrent.futures import ThreadPoolExecutor

    import grpc

    def answer(request, _):
        time.sleep(float(seconds))
        return bytes(int(size))

    class All(grpc.GenericRpcHandler):
        def service(self, details):
            return grpc.unary_unary_rpc_method_handler(answer)

    server = grpc.server(ThreadPoolExecutor(20), handlers=[All()])
    server.add_insecure_port(f"0.0.0.0:{port}")
    server.start()
    server.wait_for_termination()


def grpc_client(target):
    import grpc

    call = grpc.insecure_channel(target).unary_unary("/x/y")
    while True:
        call(bytes(100))


def zmq_reply(port):
    import zmq

    socket = zmq.Context().socket(zmq.REP)
    socket.bind(f"tcp://0.0.0.0:{port}")
    while True:
        socket.recv()
        socket.send(bytes(200))


def zmq_request(address):
    import zmq

    socket = zmq.Context().socket(zmq.REQ)
    socket.connect(f"tcp://{address}")
    while True:
        socket.send(bytes(100))
        socket.recv()


def zmq_pull(port, *rcvbuf):
    import zmq

    socket = zmq.Context().socket(zmq.PULL)
    if rcvbuf:
        socket.setsockopt(zmq.RCVBUF, int(rcvbuf[0]))
    socket.bind(f"tcp://0.0.0.0:{port}")
    while True:
        socket.recv()


def zmq_push(address, size, *sndbuf):
    import zmq

    socket = zmq.Context().socket(zmq.PUSH)
    if sndbuf:
        socket.setsockopt(zmq.SNDBUF, int(sndbuf[0]))
    socket.connect(f"tcp://{address}")
    data = bytes(int(size))
    while True:
        socket.send(data)


def s3(endpoint):
    import boto3
    from botocore.config import Config

    return boto3.client("s3", endpoint_url=endpoint, aws_access_key_id="x",
                        aws_secret_access_key="x", region_name="us-east-1",
                        config=Config(retries={"max_attempts": 0}))


def s3_put(endpoint, size):
    s3(endpoint).create_bucket(Bucket="bucket")
    s3(endpoint).put_object(Bucket="bucket", Key="k", Body=bytes(int(size)))


def s3_get(endpoint, pause):
    """Gets an object, and once more, without end."""
    client = s3(endpoint)
    while True:
        body = client.get_object(Bucket="bucket", Key="k")["Body"]
        while body.read(1 << 16):
            pass
        time.sleep(float(pause))


def pages(port, size, seconds):
    """Python's own web server, as it comes: it writes head and body apart."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Page(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            time.sleep(float(seconds))
            self.send_response(200)
            self.send_header("Content-Length", size)
            self.end_headers()
            self.wfile.write(bytes(int(size)))

        def log_message(self, *_):
            pass

    ThreadingHTTPServer(("", int(port)), Page).serve_forever()


def wsgi(environ, start):
    time.sleep(0.03)
    start("200 OK", [("Content-Length", "400")])
    return [bytes(400)]


def websocket_push(port, size, seconds):
    """Sends each client a message that it did not ask for, again and again."""
    import asyncio

    from websockets.asyncio.server import serve

    async def push(socket):
        while True:
            await socket.send(bytes(int(size)))
            await asyncio.sleep(float(seconds))

    async def run():
        async with serve(push, "0.0.0.0", int(port), compression=None):
            await asyncio.Future()

    asyncio.run(run())


def websocket_take(address):
    from websockets.sync.client import connect

    with connect(address, compression=None, max_size=None) as socket:
        while True:
            socket.recv()


def events(port, size, seconds):
    """Server-sent events of aiohttp."""
    import asyncio

    from aiohttp import web

    async def stream(request):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        while True:
            await response.write(b"data: " + bytes(int(size)) + b"\n\n")
            await asyncio.sleep(float(seconds))

    app = web.Application()
    app.add_routes([web.get("/", stream)])
    web.run_app(app, port=int(port), print=None)


def memcached_get(host, port, size):
    """Stores a value, and gets it one time after the other."""
    import socket

    server = socket.create_connection((host, int(port)))
    answers = server.makefile("rb")
    server.sendall(b"set k 0 0 %d\r\n" % int(size) + bytes(int(size)) + b"\r\n")
    answers.readline()
    while True:
        server.sendall(b"get k\r\n")
        answers.readline()
        answers.read(int(size) + len(b"\r\nEND\r\n"))


def sftp_get(host, port, key, name):
    import paramiko

    transport = paramiko.Transport((host, int(port)))
    transport.connect(username="root", pkey=paramiko.Ed25519Key.from_private_key_file(key))
    sftp = paramiko.SFTPClient.from_transport(transport)
    while True:
        with sftp.open(name, "rb") as file:
            while file.read(32768):
                pass


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
