"""Programs of services for situations: services.py MODE ARGUMENTS."""

import os
import random
import socket
import ssl
import sys
import time


def accepted(port, receive_buffer=0):
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if receive_buffer:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    server.bind(("", port))
    server.listen()
    while True:
        yield server.accept()[0]


def chunks(port, size, pause):
    """Write a chunk, pause; repeat."""
    for peer in accepted(int(port)):
        while True:
            peer.sendall(bytes(int(size)))
            time.sleep(float(pause))


def rows(host):
    """Insert row by row, each its own transaction."""
    import psycopg2

    link = psycopg2.connect(host=host, user="postgres", dbname="postgres")
    link.autocommit = True
    cursor = link.cursor()
    cursor.execute("create table if not exists rows (id int, name text)")
    for number in range(10**9):
        cursor.execute("insert into rows values (%s, %s)", (number, "name" * 10))


def broker(host):
    import pika

    return pika.BlockingConnection(pika.ConnectionParameters(host)).channel()


def publish(host, confirms):
    """Publish one message after the other, each confirmed where that is asked for."""
    channel = broker(host)
    channel.queue_declare("work", arguments={"x-max-length": 1000})
    if confirms == "1":
        channel.confirm_delivery()
    while True:
        channel.basic_publish("", "work", bytes(500))


def consume(host, seconds):
    """Take one message at a time and work on it."""
    channel = broker(host)
    channel.basic_qos(prefetch_count=1)

    def work(channel, method, _, __):
        time.sleep(float(seconds))
        channel.basic_ack(method.delivery_tag)

    channel.basic_consume("work", work)
    channel.start_consuming()


def tls_server():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("tls.crt", "tls.key")
    return context


def tls_client():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def tls_sink(port, receive_buffer):
    """Read everything, from a listener with a receive buffer of that size."""
    for peer in accepted(int(port), int(receive_buffer)):
        with tls_server().wrap_socket(peer, server_side=True) as tls:
            while tls.recv(1 << 16):
                pass


def tls_source(host, port):
    with tls_client().wrap_socket(socket.create_connection((host, int(port)))) as tls:
        while True:
            tls.sendall(bytes(1 << 16))


def tls_answer(port):
    """Answer each 128 bytes by one."""
    for peer in accepted(int(port)):
        with tls_server().wrap_socket(peer, server_side=True) as tls:
            left = 128
            while data := tls.recv(left):
                left -= len(data)
                if left == 0:
                    left = 128
                    tls.sendall(b"k")


def tls_pieces(host, port):
    """Write a message in two pieces, read the answer."""
    with tls_client().wrap_socket(socket.create_connection((host, int(port)))) as tls:
        while True:
            tls.sendall(bytes(8))
            tls.sendall(bytes(120))
            tls.recv(1)


def cork_works(port, seconds):
    """Cork, write the head, work, write the body, uncork: for each question."""
    for peer in accepted(int(port)):
        while peer.recv(1000):
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
            peer.sendall(bytes(200))
            time.sleep(float(seconds))
            peer.sendall(bytes(600))
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)


def frames(host, port, each_second, least, most):
    """Frames of a video, each of another size."""
    peer = socket.create_connection((host, int(port)))
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    draw = random.Random(1)
    at = time.monotonic()
    while True:
        peer.sendall(bytes(draw.randint(int(least), int(most))))
        at += 1 / float(each_second)
        time.sleep(max(0, at - time.monotonic()))


def posts(url, size):
    """Post a body, read the answer; repeat on one connection."""
    import requests

    session, body = requests.Session(), os.urandom(int(size))
    while True:
        session.post(url, data=body)


def player(url, pause):
    """Fetch a piece of a video on the one connection, play it; repeat."""
    import requests

    session = requests.Session()
    while True:
        session.get(url)
        time.sleep(float(pause))


def pool(host, port, size):
    """A pool of connections to redis, of which one at a time asks."""
    links = [socket.create_connection((host, int(port))) for _ in range(int(size))]
    for link in links:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    draw = random.Random(1)
    while True:
        link = draw.choice(links[: max(3, len(links) // 10)])
        link.sendall(b"PING\r\n")
        link.recv(100)
        time.sleep(0.002)


def trickle(port, receive_buffer, size, pause):
    """Read little, pause; repeat."""
    for peer in accepted(int(port), int(receive_buffer)):
        while peer.recv(int(size)):
            time.sleep(float(pause))


if __name__ == "__main__":
    mode, *rest = sys.argv[1:]
    globals()[mode.replace("-", "_")](*rest)
