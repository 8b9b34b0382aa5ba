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


def viewer(host, port):
    """A viewer of RFB 3.8 that asks for the whole screen when the one before has come."""
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
            exactly(wire, wide * high * bits // 8)


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


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
