#!/usr/bin/env python3
"""Servers and clients of situations in `latest.py`, with packages that come with no Python."""

import os
import socket
import struct
import sys
import time


def exactly(wire, count):
    """So many bytes."""
    got = b""
    while len(got) < count:
        more = wire.recv(count - len(got))
        if not more:
            raise SystemExit("the other end has closed")
        got += more
    return got


def puts(host, port, bytes):
    """One job after the other for beanstalkd: the command line and the job apart."""
    wire = socket.create_connection((host, int(port)))
    while True:
        wire.sendall(f"put 1 0 60 {bytes}\r\n".encode())
        wire.sendall(b"x" * int(bytes) + b"\r\n")
        reply = b""
        while not reply.endswith(b"\r\n"):
            reply += wire.recv(100)


def viewer(host, port, pause=0):
    """A viewer of RFB 3.8 that asks for the whole screen when the one before has come, and sleeps for
    so many seconds after each 64 kB of it."""
    wire = socket.create_connection((host, int(port)))
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    exactly(wire, 12)
    wire.sendall(b"RFB 003.008\n")
    exactly(wire, exactly(wire, 1)[0])
    wire.sendall(b"\x01")
    exactly(wire, 4)
    wire.sendall(b"\x01")
    width, height = struct.unpack(">HH", exactly(wire, 4))
    bits = exactly(wire, 16)[0]
    exactly(wire, struct.unpack(">I", exactly(wire, 4))[0])
    # Raw encoding alone.
    wire.sendall(struct.pack(">BxHi", 2, 1, 0))
    while True:
        wire.sendall(struct.pack(">BBHHHH", 3, 0, 0, 0, width, height))
        kind = exactly(wire, 1)[0]
        if kind != 0:
            raise SystemExit(f"message {kind}")
        _, count = struct.unpack(">BH", exactly(wire, 3))
        for _ in range(count):
            *_, wide, high, encoding = struct.unpack(">HHHHi", exactly(wire, 12))
            assert encoding == 0
            left = wide * high * bits // 8
            while left:
                left -= len(exactly(wire, min(left, 65536)))
                time.sleep(float(pause))


def flight(port, rows):
    """Arrow Flight sends batches of so many numbers without end."""
    import itertools

    import pyarrow
    from pyarrow import flight as arrow

    batch = pyarrow.record_batch([pyarrow.array(range(int(rows)))], ["x"])

    class Server(arrow.FlightServerBase):
        def do_get(self, context, ticket):
            return arrow.GeneratorStream(batch.schema, itertools.repeat(batch))

    Server(f"grpc://0.0.0.0:{port}").serve()


def flies(host, port, pause):
    """Takes all batches, after so many seconds each."""
    from pyarrow import flight as arrow

    taken = arrow.connect(f"grpc://{host}:{port}").do_get(arrow.Ticket(b""))
    while True:
        taken.read_chunk()
        time.sleep(float(pause))


def modbus(port):
    """A device with registers."""
    import pymodbus.datastore as store
    from pymodbus.server import StartTcpServer

    block = store.ModbusSequentialDataBlock(1, [7] * 200)
    names = (("ModbusDeviceContext", "devices"), ("ModbusSlaveContext", "slaves"))
    name, key = next(each for each in names if hasattr(store, each[0]))
    device = getattr(store, name)(hr=block)
    StartTcpServer(store.ModbusServerContext(**{key: device, "single": True}),
                   address=("0.0.0.0", int(port)))


def polls(host, port, pause):
    """Reads registers one time after the other."""
    from pymodbus.client import ModbusTcpClient

    device = ModbusTcpClient(host, port=int(port))
    device.connect()
    while True:
        device.read_holding_registers(0, count=100)
        time.sleep(float(pause))


def results(address, bytes):
    """Takes one result of so many bytes after the other from a Dask cluster."""
    import distributed

    cluster = distributed.Client(address, direct_to_workers=True)
    while True:
        cluster.submit(os.urandom, int(bytes), pure=False).result()


def pyro(port, seconds, bytes):
    """Pyro5 answers each call after so many seconds."""
    import Pyro5.api

    @Pyro5.api.expose
    class Work:
        def get(self):
            time.sleep(float(seconds))
            return "x" * int(bytes)

    daemon = Pyro5.api.Daemon(host="0.0.0.0", port=int(port))
    daemon.register(Work, "work")
    daemon.requestLoop()


def calls(host, port):
    """One call of Pyro5 after the other."""
    import Pyro5.api

    work = Pyro5.api.Proxy(f"PYRO:work@{host}:{port}")
    while True:
        work.get()


def sftp(port, folder):
    """asyncssh serves files; anyone may come."""
    import asyncio

    import asyncssh

    class Server(asyncssh.SSHServer):
        def begin_auth(self, username):
            return False

    async def serve():
        await asyncssh.listen("", int(port), server_factory=Server, sftp_factory=True,
                              server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")])
        await asyncio.get_running_loop().create_future()

    os.chdir(folder)
    asyncio.run(serve())


def fetches(host, port, name):
    """asyncssh takes one file."""
    import asyncio

    import asyncssh

    async def fetch():
        async with asyncssh.connect(host, int(port), known_hosts=None, username="joe") as wire:
            async with wire.start_sftp_client() as files:
                await files.get(name, "/dev/null", sparse=False)

    asyncio.run(fetch())


def mails(host, port, bytes, kept):
    """One mail after the other; on one connection, or each on its own."""
    import smtplib

    text = "Subject: x\r\n\r\n" + ("x" * 70 + "\r\n") * (int(bytes) // 72)
    relay = smtplib.SMTP(host, int(port))
    while True:
        try:
            relay.sendmail("a@x.test", ["b@x.test"], text)
        except smtplib.SMTPDataError:
            pass
        if kept == "no":
            relay.quit()
            relay = smtplib.SMTP(host, int(port))


def chat(host, port, pause):
    """Two of IRC: the one says a line each so many seconds, the other hears it."""
    both = [socket.create_connection((host, int(port))) for _ in range(2)]
    for number, wire in enumerate(both):
        wire.sendall(f"NICK n{number}\r\nUSER n{number} 0 * :x\r\n".encode())
    time.sleep(2)
    for wire in both:
        wire.sendall(b"JOIN #room\r\n")
    while True:
        both[0].sendall(b"PRIVMSG #room :" + b"x" * 100 + b"\r\n")
        for wire in both:
            wire.setblocking(False)
            try:
                heard = wire.recv(65536)
                if b"PING" in heard:
                    wire.setblocking(True)
                    wire.sendall(b"PONG" + heard.split(b"PING")[1].split(b"\r\n")[0] + b"\r\n")
            except BlockingIOError:
                pass
            wire.setblocking(True)
        time.sleep(float(pause))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
