#!/usr/bin/env python3
"""Servers of situations in `strangers.py`, with packages that come with no Python."""

import sys
import time


def scans(port, rate):
    """cheroot takes uploads, and looks at each piece of them for as long as `rate` bytes/s says."""
    from cheroot import wsgi

    def app(asked, start):
        body = asked["wsgi.input"]
        while piece := body.read(16384):
            time.sleep(len(piece) / float(rate))
        start("200 OK", [])
        return [b""]

    server = wsgi.Server(("0.0.0.0", int(port)), app)
    server.max_request_body_size = 0
    server.start()


def streams(port, file):
    """sanic sends a file, piece by piece, as fast as they are taken."""
    from sanic import Sanic
    from sanic.response import file_stream

    app = Sanic("streams")

    @app.get("/")
    async def page(_):
        return await file_stream(file, chunk_size=65536)

    app.config.RESPONSE_TIMEOUT = 3600
    app.run(host="0.0.0.0", port=int(port), single_process=True, access_log=False, motd=False)


if __name__ == "__main__":
    {each.__name__: each for each in (scans, streams)}[sys.argv[1]](*sys.argv[2:])
