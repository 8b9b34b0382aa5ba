#!/usr/bin/env python3
"""Servers and clients of situations in `newcomers.py`, with packages that come with no Python."""

import os
import sys
import time


def thinks(port, seconds, bytes):
    """RPyC answers each call after so many seconds of work."""
    import rpyc
    from rpyc.utils.server import ThreadedServer

    # RPyC compresses what repeats.
    page = os.urandom(int(bytes))

    class Work(rpyc.Service):
        def exposed_get(self):
            end = time.time() + float(seconds)
            while time.time() < end:
                sum(range(2000))
            return page

    ThreadedServer(Work, hostname="0.0.0.0", port=int(port)).start()


def calls(host, port):
    """One call of RPyC after the other."""
    import rpyc

    get = rpyc.connect(host, int(port)).root.get
    while True:
        get()


def streams(port, bytes):
    """eventlet sends pieces of so many bytes as fast as they are taken."""
    import eventlet
    from eventlet import wsgi

    piece = b"x" * int(bytes)

    def app(_, start):
        start("200 OK", [("Content-Type", "application/octet-stream")])
        while True:
            yield piece

    wsgi.server(eventlet.listen(("0.0.0.0", int(port))), app, log_output=False)


def asks(host, port, pause):
    """One page on a kept connection, again so many seconds after it has come."""
    import http.client

    kept = http.client.HTTPConnection(host, int(port))
    while True:
        kept.request("GET", "/")
        kept.getresponse().read()
        time.sleep(float(pause))


def appends(host, port, bytes):
    """One mail after the other is put into a mailbox."""
    import imaplib

    box = imaplib.IMAP4(host, int(port))
    box.login("joe", "x")
    while True:
        box.append("INBOX", None, None, b"Subject: x\r\n\r\n" + b"x" * int(bytes))


def mails(host, port, bytes):
    """One mail after the other is sent, on one connection."""
    import smtplib

    relay = smtplib.SMTP(host, int(port))
    while True:
        relay.sendmail("a@x.test", ["b@x.test"], "Subject: x\r\n\r\n" + "line\r\n" * (int(bytes) // 6))


if __name__ == "__main__":
    {each.__name__: each for each in (
        thinks, calls, streams, asks, appends, mails)}[sys.argv[1]](*sys.argv[2:])
