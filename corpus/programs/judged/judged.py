#!/usr/bin/env python3
"""Clients and servers with packages of PyPI: asyncpg, CherryPy, paho-mqtt, pyftpdlib.

`judged.py NAME ARGUMENT...`; each function says what its arguments are.
"""

import asyncio
import sys
import time


def queries(host, text):
    """asyncpg: one query after the other."""
    import asyncpg

    async def main():
        db = await asyncpg.connect(host=host, user="postgres", database="postgres", ssl=False)
        while True:
            await db.fetch(text)

    asyncio.run(main())


def pages(port, count, think):
    """CherryPy: pages of `count` bytes after `think` seconds, each on its own connection."""
    import cherrypy

    class Pages:
        @cherrypy.expose
        def index(self):
            time.sleep(float(think))
            cherrypy.response.headers["Connection"] = "close"
            return bytes(int(count))

    cherrypy.config.update({"server.socket_host": "0.0.0.0", "server.socket_port": int(port),
                            "server.thread_pool": 30, "log.screen": False})
    cherrypy.quickstart(Pages())


def ftp(port, passive, folder):
    """pyftpdlib: anyone may read and write, over one passive port."""
    from pyftpdlib import authorizers, handlers, servers

    users = authorizers.DummyAuthorizer()
    users.add_anonymous(folder, perm="elrw")
    handlers.FTPHandler.authorizer = users
    handlers.FTPHandler.passive_ports = [int(passive)]
    servers.FTPServer(("0.0.0.0", int(port)), handlers.FTPHandler).serve_forever()


def publish(host, count, pause, qos):
    """paho-mqtt: a message of `count` bytes every `pause` seconds."""
    import paho.mqtt.client as mqtt

    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    client.connect(host, 1883)
    client.loop_start()
    due = time.monotonic()
    while True:
        sent = client.publish("lab", bytes(int(count)), qos=int(qos))
        if float(pause) == 0:
            sent.wait_for_publish()
        due = max(due + float(pause), time.monotonic())
        time.sleep(due - time.monotonic())


if __name__ == "__main__":
    try:
        globals()[sys.argv[1]](*sys.argv[2:])
    except (KeyboardInterrupt, ConnectionError):
        pass
