"""Bottle, gevent, WsgiDAV, Thrift, nng and Pyro as servers and clients, as their documentation shows them."""

import sys
import time


def bottle(port, bytes, work="0"):
    from bottle import Bottle, run

    app = Bottle()
    page = b"x" * int(bytes)

    def answer():
        time.sleep(float(work))
        return page

    app.route("/", callback=answer)
    run(app, host="0.0.0.0", port=int(port), quiet=True)


def gevent(port, bytes):
    from gevent.pywsgi import WSGIServer

    def app(environ, start_response):
        start_response("200 OK", [("Content-Length", bytes)])
        whole, rest = divmod(int(bytes), 65536)
        block = b"x" * 65536
        yield from (block for _ in range(whole))
        yield b"x" * rest

    WSGIServer(("0.0.0.0", int(port)), app, log=None).serve_forever()


def dav(port, folder):
    from cheroot import wsgi
    from wsgidav.wsgidav_app import WsgiDAVApp

    app = WsgiDAVApp({
        "host": "0.0.0.0", "port": int(port), "provider_mapping": {"/": folder}, "verbose": 0,
        "simple_dc": {"user_mapping": {"*": True}}, "logging": {"enable": False},
    })
    wsgi.Server(("0.0.0.0", int(port)), app).start()


def thrift_server(port):
    """Frames of Thrift's binary protocol are answered by a byte's frame, by its own server."""
    from thrift.protocol.TBinaryProtocol import TBinaryProtocolFactory
    from thrift.server.TServer import TThreadedServer
    from thrift.Thrift import TMessageType
    from thrift.transport import TSocket, TTransport

    class Echo:
        def process(self, reader, writer):
            name, _, seq = reader.readMessageBegin()
            reader.readString()
            reader.readMessageEnd()
            writer.writeMessageBegin(name, TMessageType.REPLY, seq)
            writer.writeString("ok")
            writer.writeMessageEnd()
            writer.trans.flush()

        def on_message_begin(self, _):
            pass

    TThreadedServer(Echo(), TSocket.TServerSocket(port=int(port)), TTransport.TFramedTransportFactory(),
                    TBinaryProtocolFactory()).serve()


def thrift_client(host, port, bytes):
    from thrift.protocol.TBinaryProtocol import TBinaryProtocol
    from thrift.Thrift import TMessageType
    from thrift.transport import TSocket, TTransport

    transport = TTransport.TFramedTransport(TSocket.TSocket(host, int(port)))
    transport.open()
    protocol = TBinaryProtocol(transport)
    while True:
        protocol.writeMessageBegin("echo", TMessageType.CALL, 1)
        protocol.writeString("x" * int(bytes))
        protocol.writeMessageEnd()
        transport.flush()
        protocol.readMessageBegin()
        protocol.readString()
        protocol.readMessageEnd()


def nng_pulls(port):
    import pynng

    with pynng.Pull0(listen=f"tcp://0.0.0.0:{port}") as sock:
        while True:
            sock.recv()


def nng_pushes(host, port, bytes):
    import pynng

    with pynng.Push0(dial=f"tcp://{host}:{port}") as sock:
        while True:
            sock.send(b"x" * int(bytes))


def pyro_server(port):
    import Pyro5.api

    @Pyro5.api.expose
    class Echo:
        def echo(self, text):
            return len(text)

    daemon = Pyro5.api.Daemon(host="0.0.0.0", port=int(port))
    daemon.register(Echo, "echo")
    daemon.requestLoop()


def pyro_client(host, port, bytes, pause="0"):
    import Pyro5.api

    with Pyro5.api.Proxy(f"PYRO:echo@{host}:{port}") as echo:
        while True:
            echo.echo("x" * int(bytes))
            time.sleep(float(pause))


def looks(host, port):
    """A viewer of VNC (RFC 6143, raw pixels) that asks for what has changed, and asks again."""
    import socket
    import struct

    link = socket.create_connection((host, int(port)))

    def take(bytes):
        got = b""
        while len(got) < bytes:
            got += link.recv(bytes - len(got))
        return got

    take(12)
    link.sendall(b"RFB 003.008\n")
    take(take(1)[0])
    link.sendall(b"\x01")
    take(4)
    link.sendall(b"\x01")
    width, height = struct.unpack(">HH", take(4))
    pixel = take(16)[0] // 8
    take(struct.unpack(">I", take(4))[0])
    link.sendall(struct.pack(">BxHi", 2, 1, 0))
    changed = 0
    while True:
        link.sendall(struct.pack(">BBHHHH", 3, changed, 0, 0, width, height))
        changed = 1
        kind = take(1)[0]
        if kind == 0:
            for _ in range(struct.unpack(">xH", take(3))[0]):
                _, _, wide, high, _ = struct.unpack(">HHHHi", take(12))
                take(wide * high * pixel)
        elif kind == 3:
            take(struct.unpack(">xxxI", take(7))[0])


if __name__ == "__main__":
    globals()[sys.argv[1].replace("-", "_")](*sys.argv[2:])
