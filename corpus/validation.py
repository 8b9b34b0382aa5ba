"""Situations that were labelled after the rules were settled on `services.py` and `shaped.py`, and
before any of them was run: they tell whether what was mended there holds elsewhere.
"""

from commands import FILES, IPERF_SERVER, NGINX, REDIS, client, programs
from further import from_client
from model import *
from seeming import PAGES, RESTARTS
from services import (ANSWER_128, CERTIFICATE, DIRECT, POLICE, POLICED, PY_SERVICES, to_direct)
from shaped import DIRECT_BBR, GO, NC_SINK, NC_SOURCE

RUBY_CORK = (
    "exec ruby -rsocket -e 'l = TCPServer.new(5000); s = l.accept; while s.readpartial(1000); "
    "s.setsockopt(6, 3, 1); s.write(\"h\" * 100); sleep {seconds}; s.write(\"b\" * 400); "
    "{after}; end'"
)
UNCORK = "s.setsockopt(6, 3, 0)"
# Logs in with three lines, and then writes messages of three pieces.
LOGIN = (
    "$PY -c \"import os, socket\ns = socket.create_connection((os.environ['S'], 5000))\n"
    "for line in (b'user\\n', b'pass\\n', b'mode\\n'): s.sendall(line); s.recv(100)\n"
    "while True:\n for _ in range(2): s.sendall(b'x' * 40)\n s.recv(100)\""
)
LOGIN_SERVER = (
    "exec $PY -c \"import socket, time\nl = socket.socket(); l.bind(('', 5000)); l.listen()\n"
    "s, _ = l.accept()\nfor _ in range(3): s.recv(100); s.sendall(b'ok')\nn = 0\nwhile True:\n"
    " n += len(s.recv(4096))\n while n >= 80: n -= 80; time.sleep({seconds}); s.sendall(b'done')\""
)

SITUATIONS = [
    Situation(
        "ruby-cork-works", program="ruby", rtt="20ms",
        server=(("server", RUBY_CORK.format(seconds=0.12, after=UNCORK)),), settle=1,
        client=client("ask $S 5000 --reply 500 --nodelay"), warm_up=4,
        why="the server corks, works 120 ms and uncorks: work, and no timer",
        watch=both(5000, THINKS, THINKS_HERE),
    ),
    Situation(
        "ruby-cork-left", program="ruby", rtt="20ms",
        server=(("server", RUBY_CORK.format(seconds=0, after="0")),), settle=1,
        client=client("ask $S 5000 --reply 500 --nodelay"), warm_up=4,
        why="the server corks and never uncorks: each answer waits for 200 ms",
        watch=at_server(5000, fault("cork-not-uncorked")),
    ),
    Situation(
        "login-pieces", **LAN, server=(("server", LOGIN_SERVER.format(seconds=0)),), settle=1,
        client=from_client(LOGIN), warm_up=4,
        why="two writes a message with Nagle on, after three lines of a login",
        watch=both(5000, STALLS, STALLS),
    ),
    Situation(
        "login-works", rtt="10ms", server=(("server", LOGIN_SERVER.format(seconds=0.045)),),
        settle=1,
        client=from_client(LOGIN.replace("while True:", "s.setsockopt(6, 1, 1)\nwhile True:")),
        warm_up=4, why="two writes a message with TCP_NODELAY, and 45 ms of work on it",
        watch=both(5000, THINKS, THINKS_HERE),
    ),
    Situation(
        "bbr-curl-limit", program="nginx", cc="bbr", rtt="30ms", prepare=FILES, server=NGINX,
        client=from_client("curl --limit-rate 900K -so /dev/null http://$S/big"), warm_up=12,
        why="curl reads 7 of 50 Mbit/s", watch=both(80, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "bbr-go-reader", program="go", cc="bbr", rtt="40ms", prepare=GO,
        server=(("server", "exec $W/go serve 5000"),),
        client=from_client("sh -c 'exec curl -so /dev/null -T - "
                           "\"http://$S:5000/upload?ms=30&bytes=32768\" </dev/zero'"), warm_up=10,
        why="the server reads 32 KiB each 30 ms: 8.7 of 50 Mbit/s",
        watch=both(5000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "bbr-xz-sink", program="nc", cc="bbr", rate="100mbit", rtt="10ms",
        server=(("server", "nc -l -p 5000 | xz -3 > /dev/null"),),
        client=from_client("nc $S 5000 < /dev/urandom"), warm_up=8,
        why="what arrives is compressed at a few MB a second",
        watch=both(5000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "bbr-rcvbuf-enough", cc="bbr", rate="20mbit", rtt="20ms", queue="2bdp",
        server=programs("sink 5000 --rcvbuf 131072"),
        client=client("source $S 5000 --request 65536"), warm_up=5,
        why="a fixed receive buffer of 256 kB, five BDPs: the path is full",
        watch=both(5000, FULL, TAKES),
    ),
    Situation(
        "min-rcvbuf-pauses", rtt="40ms",
        server=(("server", f"exec {PY_SERVICES} trickle 5000 4096 500 0.08"),),
        client=from_client("nc $S 5000 < /dev/zero"), warm_up=5,
        why="the server reads 6 kB/s; its receive buffer would allow 100",
        watch=both(5000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "min-rcvbuf-prompt", rtt="40ms", server=programs("sink 5000 --rcvbuf 4096"),
        client=client("source $S 5000 --request 65536"), warm_up=4,
        why="a receive buffer of 8 KiB and a prompt reader: the buffer is the limit",
        watch=both(5000, FIXED_WINDOW, fault("rcvbuf-locked")),
    ),
    Situation(
        "veth-police-bbr", program="nc",
        prepare=(*DIRECT_BBR, ("server", POLICE.format(dev="direct1", rate="3 mbytes/second",
                                                        burst="100 kbytes"))),
        server=NC_SINK, client=from_client("nc 10.79.0.2 5000 < /dev/zero"), warm_up=5,
        why="what exceeds 24 Mbit/s is dropped on arrival", watch=to_direct(POLICED, 5000),
    ),
    Situation(
        "veth-police-wget", program="nginx",
        prepare=(*DIRECT, *FILES, ("client", POLICE.format(
            dev="direct0", rate="2 mbytes/second", burst="150 kbytes"))),
        server=NGINX, client=from_client("wget -qO /dev/null http://10.79.0.2/big"), warm_up=5,
        why="what exceeds 16 Mbit/s is dropped on arrival",
        watch={"server": Watched("sport = :80", POLICED)},
    ),
    Situation(
        "pings-loss-8", program="redis", rtt="5ms", rate="100mbit", path=("--loss", "8%"),
        server=REDIS, client=from_client("redis-benchmark -h $S -c 1 -n 100000000 -t get -q"),
        look=8, why="one question at a time, and 8 % random loss",
        watch=at_sender(6379, fault("retransmission-timeouts")),
    ),
    Situation(
        "short-pages-tbf-router", program="nginx", rate="300mbit", rtt="10ms", queue="2000p",
        router=True,
        prepare=(*FILES, ("server", "head -c 400000 /dev/urandom > page400k"),
                 ("router", "tc qdisc replace dev lab0 root tbf rate 10mbit burst 16kb "
                            "limit 400kb")),
        server=NGINX,
        client=(("client", "while :; do curl -so /dev/null http://$S/page400k; sleep 0.05; done"),),
        look=6, why="400 kB on new connections take 320 ms at 10 Mbit/s, whatever the window",
        watch=both(80, PAGES, PAGES),
    ),
    Situation(
        "tls-pages-works", program="python", rtt="30ms", prepare=CERTIFICATE,
        server=(("server", "exec $PY -c \"import http.server, ssl, time\n"
                           "class H(http.server.BaseHTTPRequestHandler):\n"
                           " protocol_version = 'HTTP/1.1'\n"
                           " def do_GET(self):\n  time.sleep(0.15)\n  self.send_response(200)\n"
                           "  self.send_header('Content-Length', '2000')\n  self.end_headers()\n"
                           "  self.wfile.write(bytes(2000))\n"
                           "s = http.server.ThreadingHTTPServer(('', 8443), H)\n"
                           "c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n"
                           "c.load_cert_chain('tls.crt', 'tls.key')\n"
                           "s.socket = c.wrap_socket(s.socket, server_side=True)\n"
                           "s.serve_forever()\""),), settle=1,
        client=from_client("$PY -c \"import os, requests\nrequests.packages.urllib3."
                           "disable_warnings()\ns = requests.Session()\nwhile True: "
                           "s.get('https://' + os.environ['S'] + ':8443/', verify=False)\""),
        warm_up=4, why="the server works 150 ms on each page, over TLS",
        watch=both(8443, THINKS, THINKS_HERE),
    ),
    Situation(
        "uploads-after-pauses", program="go", rate="30mbit", rtt="100ms", prepare=GO,
        server=(("server", "exec $W/go serve 5000"),),
        client=from_client("$PY -c \"import os, requests, time\ns = requests.Session()\n"
                           "while True: s.post('http://' + os.environ['S'] + "
                           "':5000/upload?bytes=65536', data=bytes(600000)); time.sleep(1.2)\""),
        look=12, why="600 kB after pauses of 1.2 s: the client's window restarts",
        watch={"client": Watched("dport = :5000", RESTARTS)},
    ),
    Situation(
        "iperf-paced-bbr", program="iperf3", cc="bbr", rtt="30ms", server=IPERF_SERVER,
        client=(("client", "exec iperf3 -c $S -t 100 -b 8M -l 8K"),), warm_up=5,
        why="iperf3 writes 8 of 50 Mbit/s", watch=both(5201, PACED, TAKES),
    ),
]
