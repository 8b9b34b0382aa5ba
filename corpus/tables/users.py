"""Situations of programs that no table before has: Bottle, gevent, WsgiDAV, Thrift, nng, Pyro, webfs, mbuffer
with buffers of its own, LuaSocket, Tcl.

Labels were written down before any of them was run. What sets a buffer, and what is written at once, is
what their documentation and source say: LuaSocket and Tcl leave Nagle's algorithm on and write what a call or
a flush has; mbuffer sets SO_SNDBUF and SO_RCVBUF to `--tcpbuffer`; nng and Pyro set TCP_NODELAY; each call
of Thrift's framed transport is one write.
"""

from .elsewhere import HELD_BACK
from .further import from_client
from .model import *
from .packages import SMALL_SNDBUF, WAITS_FOR_LOST
from .seeming import LOSS, PAGES, RESTARTS
from .services import POLICE, POLICED
from .visitors import LOSS_SEEN, NAGLE, OWN_WINDOW, STARTS, server

MINE = "$H/programs/users"
PY = f"$FITPY {MINE}/users.py"
LUA = f"lua5.4 {MINE}/users.lua"
BIG = (("server", "truncate -s 8G big; head -c 800 /dev/urandom > small"),)
WEBFS = server("webfsd -F -p 8080 -r $W -u root -g root -t 3600")
GET = from_client("curl -sNo /dev/null http://$S:8080/big")


def gevent(bytes):
    return server(f"{PY} gevent 8080 {bytes}")


ENDLESS = gevent(8_000_000_000)
DOWNLOAD = from_client("curl -sNo /dev/null http://$S:8080/")
ANSWERS = server(f"{LUA} answers '*' 5000 300")
ASKS = from_client(f"{LUA} asks $S 5000")
SINK = server("sh -c 'while :; do nc -l -p 5000 > /dev/null; done'")
FROM_MBUFFER = "mbuffer -q -m 8M {} -O $S:5000 < /dev/zero"
BOTTLE = server(f"{PY} bottle 8080 150000")
ANEW = tuple(("client", "sleep 0.3; while :; do curl -so /dev/null http://$S:8080/; done")
             for _ in range(3))
KEPT_ASKS = from_client("$FITPY $H/programs/newcomers/newcomers.py asks $S 8080 1.5")
PYRO = server(f"{PY} pyro-server 5000")
PUTS = (("client", "truncate -s 1G up; sleep 0.3; while :; do curl -so /dev/null -T up "
         "http://$S:8080/up; done"),)
NNG = server(f"{PY} nng-pulls 5000")
PUSHES = from_client(f"{PY} nng-pushes $S 5000 1000000")

SITUATIONS = [
    # Windows and buffers.
    Situation(
        "user-mbuffer-sndbuf", program="mbuffer", rate="80mbit", rtt="60ms", server=SINK, settle=1,
        client=from_client(FROM_MBUFFER.format("--tcpbuffer 64k")), warm_up=6,
        why="mbuffer sets SO_SNDBUF to 64 KiB, the BDP is 600 kB",
        watch=both(5000, SMALL_SNDBUF, TAKES),
    ),
    Situation(
        "user-mbuffer-rcvbuf", program="mbuffer", rate="80mbit", rtt="60ms",
        server=server("mbuffer -q -m 8M --tcpbuffer 64k -I 5000 -o /dev/null"), settle=1,
        client=from_client("sh -c 'nc $S 5000 < /dev/zero'"), warm_up=6,
        # The label was in error: `--tcpbuffer` is not for what mbuffer accepts (ss -tm shows a buffer
        # that grows).
        why="mbuffer accepts and reads as fast as the path brings it", watch=both(5000, FULL, TAKES),
    ),
    Situation(
        "user-mbuffer-full", program="mbuffer", rate="20mbit", rtt="40ms", server=SINK, settle=1,
        client=from_client(FROM_MBUFFER.format("")), warm_up=6,
        why="mbuffer writes as fast as the path takes it, and sets no buffer",
        watch=both(5000, FULL, TAKES),
    ),
    Situation(
        "user-mbuffer-rate", program="mbuffer", rate="80mbit", rtt="40ms", server=SINK, settle=1,
        client=from_client(FROM_MBUFFER.format("-r 400k")), warm_up=6, look=8,
        why="mbuffer reads its source at 400 kB/s, as -r says", watch=both(5000, PACED, HELD_BACK),
    ),
    Situation(
        "user-webfs-wmem", program="webfs", rate="60mbit", rtt="60ms", prepare=(
            *BIG, sysctl("server", "net.ipv4.tcp_wmem=4096 16384 80000")),
        server=WEBFS, settle=1, client=GET, warm_up=6,
        why="tcp_wmem[2] is 80 kB, the BDP is 450 kB",
        watch=both(8080, TAKES, fault("tcp-wmem-max-cap")),
    ),
    Situation(
        "user-dav-rmem", program="wsgidav", rate="80mbit", rtt="50ms", prepare=(
            ("server", "mkdir dav"), sysctl("server", "net.ipv4.tcp_rmem=4096 32768 65536")),
        server=server(f"{PY} dav 8080 $W/dav"), settle=3, client=PUTS, warm_up=6,
        why="tcp_rmem[2] is 64 KiB, the BDP is 500 kB",
        watch=both(8080, CAPPED_WINDOW, fault("tcp-rmem-max-cap")),
    ),
    # What is written at once.
    Situation(
        "user-lua-nagle", program="luasocket", rate="100mbit", rtt="4ms", server=ANSWERS, settle=1,
        client=ASKS, warm_up=4, why="head and body of an answer are two writes with Nagle on: 40 ms each",
        watch=both(5000, fault("nagle-delack-stall", "application-thinks"), STALLS),
    ),
    Situation(
        "user-lua-nodelay", program="luasocket", rate="100mbit", rtt="4ms",
        server=server(f"{LUA} answers-at-once '*' 5000 300"), settle=1, client=ASKS, warm_up=4,
        why="the same with TCP_NODELAY: a round trip each", watch=both(5000, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
    Situation(
        "user-tcl-nagle", program="tcl", rate="100mbit", rtt="10ms",
        server=server("socat TCP-LISTEN:5000,fork,reuseaddr,nodelay "
                      "'SYSTEM:while read a && read b; do echo ok; done'"), settle=1,
        client=from_client(f"tclsh {MINE}/users.tcl $S 5000 200"), warm_up=4,
        why="a request is flushed twice with Nagle on, and its second part waits for an ACK",
        # Widened after the first run: that a receiver names the sender's cause is right.
        watch=both(5000, NAGLE, healthy(*SOME_TRAFFIC.accept, *NAGLE.right, also=NAGLE.right)),
    ),
    Situation(
        "user-thrift-calls", program="thrift", rate="100mbit", rtt="15ms",
        server=server(f"{PY} thrift-server 5000"), settle=2,
        client=from_client(f"{PY} thrift-client $S 5000 400"), warm_up=4,
        why="a frame of 400 bytes, and an answer of some: one write each, a round trip a call",
        watch=both(5000, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "user-pyro-calls", program="pyro", rate="100mbit", rtt="25ms", server=PYRO, settle=2,
        client=from_client(f"{PY} pyro-client $S 5000 300"), warm_up=4,
        why="a call and its answer in a round trip", watch=both(5000, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    # New connections, pauses.
    Situation(
        "user-bottle-new", program="bottle", rate="80mbit", rtt="90ms", server=BOTTLE, settle=2,
        client=ANEW, warm_up=4, look=8,
        why="150 kB on new connections take four round trips from 10 segments on",
        watch=both(8080, PAGES, STARTS),
    ),
    Situation(
        "user-webfs-short", program="webfs", rate="100mbit", rtt="20ms", prepare=BIG, server=WEBFS,
        settle=1, client=from_client(f"{LUA} asks-anew $S 8080"), warm_up=4,
        why="a connection for each page of 800 bytes: two round trips, one of the handshake",
        watch=both(8080, healthy("round-trip-bound", "unknown", "app-limited"),
                   healthy(*SOME_TRAFFIC.accept)),
    ),
    Situation(
        "user-gevent-idle", program="gevent", rate="100mbit", rtt="100ms", server=gevent(400_000), settle=2,
        client=KEPT_ASKS, warm_up=7, look=13,
        why="400 kB after each pause of 1.5 s over 100 ms: the window restarts",
        watch=both(8080, healthy(*TAKES.accept, also=("slow-start-after-idle",)), RESTARTS),
    ),
    # Readers and paths.
    Situation(
        "user-lua-slow", program="luasocket", rate="80mbit", rtt="20ms", prepare=BIG, server=WEBFS, settle=1,
        client=from_client(f"{LUA} reads $S 8080 65536 0.15"), warm_up=12, look=8,
        why="a client takes 64 KiB and sleeps for 0.15 s", watch=both(8080, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "user-gevent-full", program="gevent", rate="15mbit", rtt="50ms", server=ENDLESS, settle=2,
        client=DOWNLOAD, warm_up=6, why="a page without an end, as fast as the path takes it",
        watch=both(8080, TAKES, FULL),
    ),
    Situation(
        "user-gevent-police", program="gevent", rate="200mbit", rtt="20ms", router=True, queue="2000p",
        prepare=(("router", POLICE.format(dev="far0", rate="2500 kbytes/second", burst="60 kbytes")),),
        server=ENDLESS, settle=2, client=DOWNLOAD, warm_up=6, look=7,
        why="a router drops what exceeds 20 Mbit/s, and has no queue",
        watch=both(8080, healthy(*TAKES.accept, "policed"), POLICED),
    ),
    Situation(
        "user-nng-loss", program="nng", rate="50mbit", rtt="50ms", queue="2bdp", path=("--loss", "0.4%"),
        server=NNG, settle=2, client=PUSHES, warm_up=8, look=8,
        why="four packets of 1000 are lost, and CUBIC gets about 8 of 50 Mbit/s",
        watch=both(5000, LOSS, LOSS_SEEN),
    ),
    Situation(
        "user-nng-full", program="nng", rate="25mbit", rtt="30ms", server=NNG, settle=2, client=PUSHES,
        warm_up=6, why="messages of 1 MB, as fast as the path takes them",
        watch=both(5000, FULL, TAKES),
    ),
    Situation(
        "user-pyro-loss", program="pyro", rate="50mbit", rtt="30ms", path=("--loss", "4%"), server=PYRO,
        settle=2, client=from_client(f"{PY} pyro-client $S 5000 300"), warm_up=5, look=10,
        why="one packet of 25 is lost, of one request at a time: each is found by a timeout",
        # Widened after the first run: half of the lost packets are answers.
        watch=both(5000, WAITS_FOR_LOST, healthy(*SOME_TRAFFIC.accept, *WAITS_FOR_LOST.right,
                                                 also=WAITS_FOR_LOST.right)),
    ),
    Situation(
        "user-pyro-idle", program="pyro", rate="50mbit", rtt="30ms", server=PYRO, settle=2,
        client=from_client(f"{PY} pyro-client $S 5000 300 0.5"), warm_up=4, look=7,
        why="a call each half second", watch=both(5000, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
    # A second round, harder; labels were written after the first and before this one was run.
    Situation(
        "user-again-x11", program="xterm", rate="20mbit", rtt="30ms",
        server=server("Xvfb :7 -screen 0 1024x768x24 -listen tcp -nolisten unix -ac"), settle=3,
        client=from_client("env DISPLAY=$S:7 xterm -e 'i=0; while :; do i=$((i+1)); echo line $i; "
                           "sleep 0.02; done'"), warm_up=6, look=7,
        why="an xterm draws a line 50 times a second on a display 30 ms away",
        watch=both(6007, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
    Situation(
        "user-again-vnc", program="x11vnc", rate="20mbit", rtt="40ms",
        server=(("server", "exec Xvfb :8 -screen 0 800x600x24 -ac"),
                ("server", "sleep 1; exec x11vnc -display :8 -forever -shared -nopw -quiet -rfbport 5900"),
                ("server", "sleep 1; exec xterm -display :8 -e 'while :; do date; sleep 0.1; done'")),
        settle=4, client=from_client(f"{PY} looks $S 5900"), warm_up=6, look=7,
        why="a viewer asks for the next update of a screen of which little changes",
        watch=both(5900, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
    Situation(
        "user-again-short-queue", program="gevent", rate="40mbit", rtt="40ms", queue="0.25bdp", cc="reno",
        server=ENDLESS, settle=2, client=DOWNLOAD, warm_up=8, look=8,
        why="the queue holds a quarter of what the path does, and Reno overflows it",
        watch=both(8080, healthy(*TAKES.accept, "policed"), healthy("path-full", "policed")),
    ),
    Situation(
        "user-again-nng-bbr", program="nng", rate="25mbit", rtt="50ms", cc="bbr", server=NNG, settle=2,
        client=PUSHES, warm_up=8, look=7, why="BBR sends messages of 1 MB at the rate of the path",
        watch=both(5000, FULL, TAKES),
    ),
    Situation(
        "user-again-dav-new", program="wsgidav", rate="80mbit", rtt="90ms", prepare=(
            ("server", "mkdir dav"), ("client", "truncate -s 200k up")),
        server=server(f"{PY} dav 8080 $W/dav"), settle=3, client=tuple(
            ("client", "sleep 0.3; while :; do curl -so /dev/null -H Expect: -T up http://$S:8080/up; "
                       "done") for _ in range(3)), warm_up=5, look=8,
        why="200 kB are put on a new connection each, which take four round trips",
        watch=both(8080, STARTS, PAGES),
    ),
    Situation(
        "user-again-bottle-thinks", program="bottle", rate="100mbit", rtt="5ms",
        server=server(f"{PY} bottle 8080 900 0.06"), settle=2, client=from_client(
            "sh -c 'while :; do curl -so /dev/null http://$S:8080/; done'"), warm_up=4, look=7,
        why="60 ms of work before each answer, on a connection each, in 5 ms of round trip",
        watch=both(8080, THINKS, THINKS_HERE),
    ),
    Situation(
        "user-again-webfs-far", program="webfs", rate="50mbit", rtt="180ms", prepare=BIG, server=WEBFS,
        settle=1, client=GET, warm_up=14, look=8,
        why="1.1 MB in flight fit into all buffers of today, and the path is full",
        watch=both(8080, TAKES, FULL),
    ),
    Situation(
        "user-again-gevent-taker", program="gevent", rate="60mbit", rtt="25ms", server=ENDLESS, settle=2,
        client=from_client("curl -sNo /dev/null --limit-rate 300k http://$S:8080/"), warm_up=14, look=8,
        why="curl takes 300 kB/s, as --limit-rate says", watch=both(8080, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "user-again-bloat", program="gevent", rate="8mbit", rtt="25ms", queue="500p", server=ENDLESS,
        settle=2, client=DOWNLOAD, warm_up=16, look=8, why="a queue of 0.75 s is filled by CUBIC",
        watch=both(8080, BLOATED, fault("bufferbloat")),
    ),
    Situation(
        "user-again-lua-loss", program="luasocket", rate="50mbit", rtt="60ms", path=("--loss", "0.5%"),
        queue="2bdp", prepare=BIG, server=WEBFS, settle=1,
        client=from_client(f"{LUA} reads $S 8080 262144 0"), warm_up=8, look=8,
        why="five packets of 1000 are lost, and the client reads as fast as it can",
        watch=both(8080, LOSS_SEEN, LOSS),
    ),
]
