#!/usr/bin/env python3
"""Django, multiprocessing.connection, librdkafka, libtorrent and NATS, from Python."""

import asyncio
import socket
import sys
import time


def django(port, bytes):
    """Django's own server: a page of so many bytes."""
    from django import setup
    from django.conf import settings
    from django.core.management import call_command
    from django.http import HttpResponse
    from django.urls import path

    def page(_):
        # Without a length Django's server closes the connection.
        return HttpResponse(b"x" * int(bytes), headers={"Content-Length": bytes})

    settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="x", MIDDLEWARE=[],
                       INSTALLED_APPS=[], DATABASES={}, USE_TZ=False)
    globals()["urlpatterns"] = [path("page", page)]
    setup()
    call_command("runserver", f"0.0.0.0:{port}", use_reloader=False, skip_checks=True)


def listens(port):
    """A `multiprocessing.connection.Listener`: an `ok` for each message."""
    from multiprocessing.connection import Listener

    with Listener(("0.0.0.0", int(port))) as listener, listener.accept() as one:
        while True:
            one.recv_bytes()
            one.send_bytes(b"ok")


def calls(host, port, bytes):
    """Its client: one message of so many bytes after the other, each with an answer."""
    from multiprocessing.connection import Client

    with Client((host, int(port))) as one:
        while True:
            one.send_bytes(b"x" * int(bytes))
            one.recv_bytes()


def produces(host, count):
    """Messages of 400 kB to a topic of Kafka, so many or all the time."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": f"{host}:9092", "linger.ms": 5, "batch.size": 1_000_000,
                         "queue.buffering.max.kbytes": 65536})
    left = int(count) or sys.maxsize
    while left:
        try:
            producer.produce("one", b"x" * 400_000)
            left -= 1
        except BufferError:
            producer.poll(0.05)
    producer.flush()


def consumes(host, topic="one"):
    """All of a topic of Kafka, as fast as it comes."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": f"{host}:9092", "group.id": "x", "enable.auto.commit": False,
                         "auto.offset.reset": "earliest", "allow.auto.create.topics": True,
                         "max.partition.fetch.bytes": 16_000_000, "fetch.max.bytes": 50_000_000})
    consumer.assign([TopicPartition(topic, 0, 0)])
    while True:
        consumer.poll(1)


def session(port):
    import libtorrent

    return libtorrent.session({
        "listen_interfaces": f"0.0.0.0:{port}", "enable_dht": False, "enable_lsd": False,
        "enable_upnp": False, "enable_natpmp": False, "enable_outgoing_utp": False,
        "enable_incoming_utp": False})


def torrent(folder):
    """A torrent of the file `folder`/seed/data."""
    import libtorrent

    files = libtorrent.file_storage()
    libtorrent.add_files(files, f"{folder}/seed/data")
    made = libtorrent.create_torrent(files)
    libtorrent.set_piece_hashes(made, f"{folder}/seed")
    with open(f"{folder}/data.torrent", "wb") as out:
        out.write(libtorrent.bencode(made.generate()))


def added(at, folder, place, flags=0):
    import libtorrent

    wanted = libtorrent.add_torrent_params()
    wanted.ti = libtorrent.torrent_info(f"{folder}/data.torrent")
    wanted.save_path = f"{folder}/{place}"
    wanted.flags = (wanted.flags | flags) & ~libtorrent.torrent_flags.auto_managed
    wanted.flags &= ~libtorrent.torrent_flags.paused
    return at.add_torrent(wanted)


def seeds(folder, port, limit):
    """A seed, of `limit` bytes a second if that is not 0."""
    import libtorrent

    at = session(port)
    handle = added(at, folder, "seed", libtorrent.torrent_flags.seed_mode)
    handle.set_upload_limit(int(limit))
    while True:
        time.sleep(1)


def leeches(folder, host, port):
    at = session(6882)
    handle = added(at, folder, "leech")
    time.sleep(1)
    handle.connect_peer((host, int(port)))
    while True:
        time.sleep(1)


def floods(host, bytes):
    """Messages of so many bytes to a NATS server, as fast as they are taken."""
    import nats

    async def run():
        one = await nats.connect(f"nats://{host}:4222")
        while True:
            await one.publish("news", b"x" * int(bytes))

    asyncio.run(run())


if __name__ == "__main__":
    socket.setdefaulttimeout(None)
    {each.__name__: each for each in (
        django, listens, calls, produces, consumes, torrent, seeds, leeches, floods,
    )}[sys.argv[1]](*sys.argv[2:])
