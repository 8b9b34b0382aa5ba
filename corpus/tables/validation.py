"""Situations that were labelled after rules were mended on `services.py` and `shaped.py`, and before
any of them was run: they tell whether what was mended holds elsewhere.
"""

from .commands import FILES, IPERF_SERVER, NGINX, REDIS, client, programs
from .further import from_client
from .model import *
from .seeming import PAGES, RESTARTS
from .services import (CERTIFICATE, DIRECT, POLICE, POLICED, PY_SERVICES, to_direct)
from .shaped import DIRECT_BBR, GO, NC_SINK, NC_SOURCE

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
    # Widened after the first run, which counts as wrong; see README.md.
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
        # Python writes head and body apart, which costs a round trip of the 210 ms.
        watch=both(8443, THINKS, healthy(*THINKS_HERE.accept, "nagle-rtt-serialised",
                                         also=("application-thinks", "nagle-rtt-serialised"))),
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
    # The second time, after the first time had shown what was to be mended further.
    Situation(
        "bbr-short-pages-tbf", program="nginx", cc="bbr",
        prepare=(*DIRECT_BBR, ("server", "head -c 300000 /dev/urandom > page300k; tc qdisc replace "
                                         "dev direct1 root tbf rate 8mbit burst 32kb limit 300kb")),
        server=NGINX,
        client=(("client", "while :; do curl -so /dev/null http://10.79.0.2/page300k; sleep 0.1; "
                           "done"),), look=6,
        why="300 kB on new connections take 300 ms at 8 Mbit/s, whatever the window",
        watch={"server": Watched("sport = :80", PAGES)},
    ),
    Situation(
        "pages-150k-50ms", program="nginx", rate="100mbit", rtt="50ms",
        prepare=(("server", "head -c 150000 /dev/urandom > page150k"),), server=NGINX,
        client=(("client", "while :; do curl -so /dev/null http://$S/page150k; done"),),
        warm_up=4, look=6,
        why="150 kB on new connections take three round trips more with 10 segments",
        watch=both(80, PAGES, fault("initcwnd-too-small")),
    ),
    Situation(
        "bbr-two-htb", program="nc", cc="bbr", rate="200mbit", rtt="30ms", queue="2000p",
        router=True,
        prepare=(("router", "tc qdisc replace dev far0 root handle 1: htb default 10 && "
                            "tc class add dev far0 parent 1: classid 1:10 htb rate 24mbit "
                            "burst 30k && tc qdisc add dev far0 parent 1:10 pfifo limit 100"),),
        server=(("server", "nc -l -p 5000 > /dev/null"), ("server", "nc -l -p 5001 > /dev/null")),
        client=(*from_client("nc $S 5000 < /dev/zero"), *from_client("nc $S 5001 < /dev/zero")),
        warm_up=8, look=8, why="two flows share what a router lets through",
        watch=at_sender(5000, FULL),
    ),
    Situation(
        "ruby-works-70ms", program="ruby", rtt="15ms",
        server=(("server", "exec ruby -rsocket -e 's = TCPServer.new(5000).accept; while "
                           "s.readpartial(1000); sleep 0.07; s.write(\"b\" * 400); end'"),),
        settle=1, client=client("ask $S 5000 --reply 400 --nodelay"), warm_up=4,
        why="the server works 70 ms on each answer", watch=both(5000, THINKS, THINKS_HERE),
    ),
    Situation(
        "node-tls-pieces", program="node", rtt="4ms", rate="100mbit", queue="1bdp",
        prepare=CERTIFICATE,
        server=(("server", f"exec {PY_SERVICES} tls-answer 5000"),), settle=1,
        client=from_client("node -e \"const s = require('tls').connect({host: process.env.S, "
                           "port: 5000, rejectUnauthorized: false}); const ask = () => "
                           "{ s.write(Buffer.alloc(8)); setImmediate(() => "
                           "s.write(Buffer.alloc(120))); }; s.on('secureConnect', ask); "
                           "s.on('data', ask)\""),
        warm_up=4, why="two TLS records a message from node, with Nagle on",
        watch=both(5000, STALLS, STALLS),
    ),
    Situation(
        "bbr-nc-pv", program="nc", cc="bbr", rate="40mbit", rtt="25ms",
        server=(("server", "nc -l -p 5000 | pv -qL 600k > /dev/null"),), client=NC_SOURCE,
        warm_up=12, why="nc writes to a pipe that is emptied at 600 kB/s",
        watch=both(5000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "go-bulk-bbr-80ms", program="go", cc="bbr", rtt="80ms", prepare=GO,
        server=(("server", "exec $W/go sink 5000"),), client=from_client("$W/go bulk $S:5000"),
        warm_up=6, look=6, why="one bulk flow, buffers suffice", watch=both(5000, FULL, TAKES),
    ),
    Situation(
        "bbr-rmem-cap", program="nc", cc="bbr", rtt="60ms",
        prepare=(sysctl("server", "net.ipv4.tcp_rmem=4096 32768 65536"),), server=NC_SINK,
        client=NC_SOURCE, warm_up=4, why="tcp_rmem ends at 64 KiB, the BDP is 375 kB",
        watch=both(5000, CAPPED_WINDOW, fault("tcp-rmem-max-cap")),
    ),
    Situation(
        "veth-police-8m", program="iperf3",
        prepare=(*DIRECT, ("server", POLICE.format(dev="direct1", rate="8 mbytes/second",
                                                    burst="400 kbytes"))),
        server=IPERF_SERVER, client=from_client("iperf3 -c 10.79.0.2 -t 100"), warm_up=5,
        why="what exceeds 64 Mbit/s is dropped on arrival", watch=to_direct(POLICED, 5201),
    ),
    Situation(
        "asks-between-sleeps", program="redis", rtt="20ms", server=REDIS,
        client=from_client("$PY -c \"import os, socket, time\ns = socket.create_connection("
                           "(os.environ['S'], 6379))\nwhile True: s.sendall(b'PING\\\\r\\\\n'); "
                           "s.recv(100); time.sleep(0.06)\""),
        warm_up=4, why="the client sleeps 60 ms after each answer",
        watch=both(6379, healthy("application-thinks", "app-limited", "idle", "unknown"),
                   healthy("application-thinks", "app-limited", "idle", "unknown")),
    ),
]
