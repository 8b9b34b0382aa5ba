"""Situations that `tcptailor fit --pid` is judged by, of the programs of `visitors.py`.

Labels were written down before any of them was run.
"""

from .commands import FILES, programs
from .further import from_client
from .model import *
from .packages import SMALL_SNDBUF
from .seeming import LOSS, PAGES, RESTARTS
from .services import ONE_BY_ONE
from .visitors import (BUILT, CONFIGS, GO, KEPT_PAGES, LOSS_SEEN, NAGLE, NIM, NIM_ANSWERS, NODE,
                      OWN_WINDOW, PY, SOCKS, STARTS, VARNISH, again, axum, cpp, fasthttp, server, sinatra)

NEVER = ("nothing-to-improve", "no-setting-helps", "no-verdict")

TABLE = [
    (kept("server", "python", {"initcwnd-too-small"}, "route.initcwnd", 1.2, 4.5), Situation(
        "visit-fit-reuseport", program="tornado", rate="100mbit", rtt="80ms",
        server=server(f"{PY} reuseport 8080 120000 3"), settle=2,
        client=from_client("hey -z 1000s -c 3 -disable-keepalive http://$S:8080/"), warm_up=4, look=8,
        why="one of three processes with a listener each; 120 kB on new connections take four round "
            "trips from 10 segments on", watch=both(8080, PAGES, STARTS),
    )),
    (kept("server", "python^", {"initcwnd-too-small"}, "route.initcwnd", 1.15, 4.5), Situation(
        "visit-fit-forks", program="python", rate="100mbit", rtt="120ms", cc="bbr",
        server=server(f"{PY} forks 8080 150000"), settle=1, client=again(2), warm_up=4, look=8,
        why="the process that forks for each page of 150 kB, under BBR: four round trips",
        watch=both(8080, PAGES, STARTS),
    )),
    (kept("server", "visitors-cpp", {"sndbuf-locked", "sndbuf-tiny"}, "buf_lock", 1.8, 9), Situation(
        "visit-fit-reno-sndbuf", program="cpp-httplib", rate="50mbit", rtt="40ms", queue="50p",
        cc="reno", server=cpp(0, 24000), settle=1,
        client=from_client("curl -so /dev/null http://$S:8080/big"), warm_up=6, look=8,
        why="SO_SNDBUF is 24000, the BDP is 250 kB, and Reno has a queue of 0.3 BDP",
        watch=both(8080, TAKES, SMALL_SNDBUF),
    )),
    (kept("server", "visitors-cpp", {"nagle-delack-stall"}, "nodelay", 5, 40), Situation(
        "visit-fit-cpp-pages", program="cpp-httplib", rate="100mbit", rtt="2ms", server=cpp(300),
        settle=1, client=KEPT_PAGES, warm_up=4,
        why="head and body in two writes with Nagle on: 44 ms in place of 2 to 4",
        watch=both(8080, fault("nagle-delack-stall", "application-thinks"),
                   fault("nagle-delack-stall")),
    )),
    (kept("client", "visitors-nim", NAGLE.right, "nodelay", 1.5, 15), Situation(
        "visit-fit-nim", program="nim", rate="100mbit", rtt="4ms", server=NIM_ANSWERS, settle=1,
        client=NIM, warm_up=4, why="a message of 3596 bytes, and 4 more that wait for the ACK of its end",
        watch=both(5000, NAGLE, SOME_TRAFFIC),
    )),
    (kept("server", "visitors-axum", {"random-loss"}, "congestion", 1.5, 15), Situation(
        "visit-fit-axum-loss", program="axum", rate="60mbit", rtt="40ms", queue="2bdp",
        path=("--loss", "0.5%"), server=axum(), settle=1,
        client=from_client("wget -qO /dev/null http://$S:8080/"), warm_up=8, look=8,
        why="five packets of 1000 are lost, and CUBIC gets about 9 of 60 Mbit/s",
        watch=both(8080, LOSS_SEEN, LOSS),
    )),
    # varnishd's child is named cache-main.
    (kept("server", "cache-main", {"bufferbloat"}, "congestion", 3, 60), Situation(
        "visit-fit-varnish-bloat", program="varnish", rate="10mbit", rtt="25ms", queue="500p",
        prepare=FILES, server=VARNISH, settle=3,
        client=from_client("curl -so /dev/null http://$S:8080/big"), warm_up=13, look=8,
        why="a download under CUBIC fills a queue of 0.6 s", watch=both(8080, BLOATED,
                                                                     fault("bufferbloat")),
    )),
    (kept("server", "python", {"slow-start-after-idle"}, "net.ipv4.tcp_slow_start_after_idle", 1.2, 6),
     Situation(
        "visit-fit-socket-restarts", program="tornado", rate="100mbit", rtt="100ms",
        server=server(f"{PY} pushes 8080 500000 1.5"), settle=1,
        client=from_client(f"{GO} takes ws://$S:8080/"), warm_up=9, look=12,
        why="500 kB each 1.5 s over 100 ms: the window starts anew",
        watch=both(8080, PAGES, RESTARTS),
    )),
    (kept("server", "visitors-go", {"tcp-wmem-max-cap"}, "net.ipv4.tcp_wmem", 1.4, 10), Situation(
        "visit-fit-fasthttp-wmem", program="fasthttp", rate="60mbit", rtt="50ms",
        prepare=(sysctl("server", "net.ipv4.tcp_wmem=4096 16384 65536"),), server=fasthttp(), settle=1,
        client=from_client("curl -so /dev/null http://$S:8080/"), warm_up=6, look=8,
        why="tcp_wmem[2] is 64 KiB, the BDP is 375 kB",
        watch=both(8080, TAKES, fault("tcp-wmem-max-cap")),
    )),
    # Labelled as kept, and out of reach since: what was read in a round trip is the window already.
    (alone("client", "visitors-go", "tcp-rmem-max-cap", ending=("out-of-reach",)), Situation(
        "visit-fit-gorilla-rmem", program="gorilla", rate="60mbit", rtt="50ms",
        prepare=(sysctl("client", "net.ipv4.tcp_rmem=4096 32768 65536"),),
        server=server(f"{GO} pours 8080"), settle=1, client=from_client(f"{GO} takes ws://$S:8080/"),
        warm_up=6, look=8, why="tcp_rmem[2] is 64 KiB, the BDP is 375 kB",
        watch=both(8080, fault("tcp-rmem-max-cap"), CAPPED_WINDOW),
    )),
    # Nothing on the observed host helps.
    (alone("client", "visitors-go", "slow-reader", ending=NEVER), Situation(
        "visit-fit-reader-3ms", program="fasthttp", rate="100mbit", rtt="20ms", server=fasthttp(),
        settle=1, client=from_client(f"{GO} reads $S:8080 12000 3"), warm_up=9, look=8,
        why="the reader takes 12 kB and sleeps 3 ms", watch=both(8080, SLOW_READER, SLOW_READER),
    )),
    (alone("client", "visitors-go", "round-trip-bound", "app-limited", "unknown", "paced", ending=NEVER),
     Situation(
        "visit-fit-yamux", program="yamux", rate="80mbit", rtt="120ms",
        server=server(f"{GO} discard 5000"), settle=1, client=from_client(f"{GO} sends $S:5000"),
        warm_up=6, look=8, why="a stream of yamux has 256 kB in flight at most, 17 of 80 Mbit/s",
        watch=both(5000, OWN_WINDOW, ONE_BY_ONE),
    )),
    (alone("client", "microsocks", "slow-reader"), Situation(
        "visit-fit-socks-slow", program="microsocks", rate="50mbit", rtt="25ms", prepare=FILES,
        server=VARNISH[:1], client=SOCKS, warm_up=14, look=8,
        why="the proxy reads no faster than curl beside it takes, 300 kB/s",
        watch=both(80, SLOW_READER, SLOW_READER),
    )),
    (alone("client", "node", "application-thinks", ending=NEVER), Situation(
        "visit-fit-sinatra-works", program="sinatra", rate="100mbit", rtt="6ms", server=sinatra(0.08),
        settle=3, client=(("client", f"sleep 0.3; {NODE} asks http://$S:8080/work"),), warm_up=4,
        why="the server works 80 ms on each request", watch=both(8080, fault("application-thinks"), TAKES),
    )),
    (alone("server", "visitors-axum", "path-full"), Situation(
        "visit-fit-axum-mtu", program="axum", rate="20mbit", rtt="30ms", path=("--mtu", "576"),
        server=axum(), settle=1, client=from_client("curl -so /dev/null http://$S:8080/"), warm_up=7,
        look=8, why="segments of 524 bytes fill the path", watch=both(8080, TAKES, FULL),
    )),
    (alone("client", "curl", "path-full"), Situation(
        "visit-fit-express-acks", program="express", rate="40mbit", rtt="40ms",
        path=("--set", "path.reverse.loss=10%"), server=(("server", f"{NODE} takes 8080"),), settle=1,
        client=from_client("curl -sT - http://$S:8080/up < /dev/zero"), warm_up=7, look=8,
        why="one of ten ACKs is lost, the path is full", watch=both(8080, FULL, TAKES),
    )),
]
# Written when the ones above had been run and rules were mended with them, and before any of these was.
AGAIN = [
    (kept("server", "varnishd", {"tcp-wmem-max-cap"}, "net.ipv4.tcp_wmem", 1.4, 9), Situation(
        "visit-again-master", program="varnish", rate="50mbit", rtt="60ms",
        prepare=(*FILES, sysctl("server", "net.ipv4.tcp_wmem=4096 16384 80000")), server=VARNISH,
        settle=3, client=from_client("curl -so /dev/null http://$S:8080/big"), warm_up=6, look=8,
        why="the process that manages Varnish, whose child has the connections; tcp_wmem[2] is 80 kB, the "
            "BDP 375 kB", watch=both(8080, TAKES, fault("tcp-wmem-max-cap")),
    )),
    (kept("server", "python^", {"initcwnd-too-small"}, "route.initcwnd", 1.15, 4), Situation(
        "visit-again-forks", program="python", rate="60mbit", rtt="65ms",
        server=server(f"{PY} forks 8080 120000"), settle=1, client=again(2), warm_up=4, look=8,
        why="the process that forks for each page of 120 kB, under CUBIC",
        watch=both(8080, PAGES, STARTS),
    )),
    (kept("server", "python", {"initcwnd-too-small"}, "route.initcwnd", 1.15, 4.5), Situation(
        "visit-again-reuseport", program="tornado", rate="80mbit", rtt="150ms", cc="bbr",
        server=server(f"{PY} reuseport 8080 140000 5"), settle=3,
        client=from_client("hey -z 1000s -c 2 -disable-keepalive http://$S:8080/"), warm_up=4, look=8,
        why="one of five processes with a listener each, under BBR; a page of 140 kB now and then",
        watch=both(8080, PAGES, STARTS),
    )),
    (kept("client", "visitors-nim", {"nagle-delack-stall"}, "nodelay", 1.4, 8), Situation(
        "visit-again-nim", program="nim", rate="100mbit", rtt="12ms", server=NIM_ANSWERS, settle=1,
        client=NIM, warm_up=4, why="4 bytes wait for the ACK of a third segment, which is delayed: 52 ms "
                                   "and a round trip in place of 12", watch=both(5000, NAGLE, SOME_TRAFFIC),
    )),
    (kept("client", "visitors-nim", {"nagle-rtt-serialised"}, "nodelay", 1.2, 3), Situation(
        "visit-again-nim-even", program="nim", rate="100mbit", rtt="12ms",
        server=programs("answer 5000 --request 5048 --reply 1"), settle=1,
        client=from_client(f"{BUILT}/visitors-nim $S 5000 5044"), warm_up=4,
        why="4 bytes wait for the ACK of a fourth segment, which comes at once with that of the third",
        watch=both(5000, NAGLE, SOME_TRAFFIC),
    )),
]
TABLE = [*TABLE, *AGAIN]
FITS = {situation.name: label for label, situation in TABLE}
SITUATIONS = [situation for _, situation in TABLE]
