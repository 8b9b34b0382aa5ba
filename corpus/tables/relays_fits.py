"""Situations that `tcptailor fit --pid` is judged by, of the programs of `relays.py`.

Labels were written down before any of them was run, and that each change that is tried has a forecast whose interval
holds what is measured, of random losses and few segments too.
"""

from .callers import SOME_BACK
from .further import from_client
from .guests_fits import NEVER
from .model import *
from .packages import SMALL_SNDBUF
from .relays import (AUTO, BIND, CLISP, D, D_ANSWER, FORTY, FORWARDED, IPERF2, LINES, MANY_ADDRESSES, MERECAT, MINE,
                     NODE, PAGES_OF, PROXIED, PULL, PUSH, PUSHED, PY, REGISTRY, WEBORF, ZONE, at_rate, pike)
from .seeming import LOSS, PAGES, RESTARTS
from .visitors import LOSS_SEEN, NAGLE, STARTS, WAITS, server

BIG = (("server", "truncate -s 8G big"),)

TABLE = [
    (kept("client", "iperf", SMALL_SNDBUF.right, "buf_lock", 1.8, 20), Situation(
        "relay-fit-iperf2-sndbuf", program="iperf", rate="55mbit", rtt="35ms", server=IPERF2,
        client=from_client("iperf -c $S -p 5000 -t 900 -w 12K"), warm_up=6, why="SO_SNDBUF is 12 kB, the BDP is 240 kB",
        watch=both(5000, SMALL_SNDBUF, TAKES),
    )),
    # At first a small initial window: httperf sets SO_RCVBUF to 16 kB.
    (alone("server", "weborf^", "peer-window", ending=NEVER), Situation(
        "relay-fit-weborf", program="weborf", rate="70mbit", rtt="105ms",
        prepare=(("server", PAGES_OF.format(170000)),), server=WEBORF, settle=1, client=at_rate(5), warm_up=4, look=8,
        why="170 kB on five new connections a second, whose reader set a receive buffer of 16 kB",
        watch=both(8080, FIXED_WINDOW, FIXED_WINDOW),
    )),
    (kept("server", "relays^", STARTS.right, "route.initcwnd", 1.15, 4.5), Situation(
        "relay-fit-addresses", program="d", rate="90mbit", rtt="85ms", prepare=(FORTY,),
        server=server(f"{D} serve 5000 200000 0"), client=(MANY_ADDRESSES,) * 2, warm_up=4, look=8,
        why="200 kB on new connections from forty addresses in turn", watch=both(5000, PAGES, STARTS),
    )),
    (kept("server", "node", RESTARTS.right, "net.ipv4.tcp_slow_start_after_idle", 1.15, 6), Situation(
        "relay-fit-koa", program="koa", rate="90mbit", rtt="95ms", server=server(f"{NODE} koa 8080 420000"), settle=2,
        client=from_client(f"{PY} pauses $S 8080 1.8"), warm_up=9, look=13, why="420 kB after each pause of 1.8 s",
        watch=both(8080, PAGES, RESTARTS),
    )),
    # At first to be kept: a pull of 120 MB lasts three minutes, and its process opens no other connection.
    (alone("client", "skopeo", *CAPPED_WINDOW.right, ending=("out-of-reach",)), Situation(
        "relay-fit-skopeo-rmem", program="docker-registry", rate="45mbit", rtt="65ms",
        prepare=(*PUSHED, sysctl("client", "net.ipv4.tcp_rmem=4096 30000 72000")), server=(*REGISTRY, PUSH), settle=5,
        client=(PULL,), warm_up=6, look=6, why="tcp_rmem[2] is 72 kB at the client, the BDP is 366 kB",
        watch=both(5000, CAPPED_WINDOW, CAPPED_WINDOW),
    )),
    (kept("server", "6tunnel", {"tcp-wmem-max-cap"}, "net.ipv4.tcp_wmem", 1.4, 10), Situation(
        "relay-fit-6tunnel", program="6tunnel", rate="45mbit", rtt="50ms",
        prepare=(*BIG, sysctl("server", "net.ipv4.tcp_wmem=4096 16384 56000")), server=FORWARDED, settle=1,
        client=from_client("curl -so /dev/null http://$S:8081/big"), warm_up=6,
        why="tcp_wmem[2] is 56000 at the relay, the BDP is 281 kB", watch=both(8081, TAKES, fault("tcp-wmem-max-cap")),
    )),
    (kept("server", "node", LOSS.right, "congestion", 1.5, 15), Situation(
        "relay-fit-http-proxy-loss", program="http-proxy", rate="45mbit", rtt="30ms", queue="2bdp",
        path=("--loss", "0.6%"), prepare=BIG, server=PROXIED, settle=2,
        client=from_client("curl -so /dev/null http://$S:8081/big"), warm_up=8, look=8,
        why="six packets of 1000 are lost behind a proxy", watch=both(8081, LOSS_SEEN, LOSS),
    )),
    (kept("client", "iperf", LOSS.right, "congestion", 1.5, 25), Situation(
        "relay-fit-iperf2-loss", program="iperf", rate="25mbit", rtt="25ms", queue="2bdp", path=("--loss", "2.5%"),
        server=IPERF2, client=from_client("iperf -c $S -p 5000 -t 900"), warm_up=7, look=6,
        why="25 packets of 1000 are lost, and windows have seven segments", watch=both(5000, LOSS, LOSS_SEEN),
    )),
    (kept("client", "iperf", LOSS.right, "congestion", 1.4, 25), Situation(
        "relay-fit-three-loss", program="iperf", rate="60mbit", rtt="45ms", queue="2bdp", path=("--loss", "1%"),
        server=IPERF2, client=from_client("iperf -c $S -p 5000 -t 900 -P 3"), warm_up=7, look=6,
        why="ten packets of 1000 are lost of three streams", watch=both(5000, LOSS, LOSS_SEEN),
    )),
    (kept("client", "pike8.0", NAGLE.right, "nodelay", 1.4, 6), Situation(
        "relay-fit-pike", program="pike", rate="70mbit", rtt="18ms", server=D_ANSWER, client=pike("12 300"), warm_up=4,
        why="12 and 300 bytes are two writes, and Pike leaves Nagle on", watch=both(5000, NAGLE, SOME_BACK),
    )),
    (kept("server", "lisp", NAGLE.right, "nodelay", 1.5, 12), Situation(
        "relay-fit-clisp", program="clisp", rate="30mbit", rtt="6ms", server=CLISP, settle=1.5, client=LINES, warm_up=4,
        why="head and body of an answer are flushed apart with Nagle on", watch=both(5000, TAKES, NAGLE),
    )),
    (kept("client", "relays", {"cork-not-uncorked"}, "cork", 2, 20), Situation(
        "relay-fit-cork", program="d", rate="90mbit", rtt="14ms", server=D_ANSWER,
        client=from_client(f"{D} ask $S 5000 cork 12 300 40"), warm_up=4,
        why="TCP_CORK is set and never cleared: each question waits 200 ms", watch=both(5000, TAKES, WAITS),
    )),
    (kept("client", "iperf", {"bufferbloat"}, "congestion", 2, 60), Situation(
        "relay-fit-iperf2-bloat", program="iperf", rate="7mbit", rtt="35ms", queue="420p", server=IPERF2,
        client=from_client("iperf -c $S -p 5000 -t 900 -P 2"), warm_up=16, look=6, why="a queue of 0.7 s is filled",
        watch=both(5000, fault("bufferbloat"), BLOATED),
    )),
    # Nothing to do, or elsewhere.
    (alone("client", "python", "round-trip-bound", ending=NEVER), Situation(
        "relay-fit-bind-asks", program="bind", rate="70mbit", rtt="33ms", prepare=ZONE, server=BIND, settle=3,
        client=from_client(f"{PY} dns $S 5300"), warm_up=4, why="one name is asked for after the other",
        watch=both(5300, BY_ROUND_TRIPS, SOME_TRAFFIC),
    )),
    (alone("client", "R", "slow-reader", ending=NEVER), Situation(
        "relay-fit-r-slow", program="r", rate="45mbit", rtt="25ms", server=server(f"{D} serve 5000 8000000000 0"),
        client=from_client(f"Rscript {MINE}/relays.R takes $S 5000 6000 0.02"), warm_up=9,
        why="6000 bytes each 20 ms are read", watch=both(5000, SLOW_READER, SLOW_READER),
    )),
    (alone("server", "merecat", "app-limited", "idle", "unknown", "round-trip-bound", "application-thinks", "paced",
           ending=NEVER), Situation(
        "relay-fit-autocannon-rate", program="autocannon", rate="70mbit", rtt="22ms",
        prepare=(("server", PAGES_OF.format(3000)),), server=MERECAT, settle=1,
        client=from_client(f"{AUTO} -c 20 -R 60 -d 900 http://$S:8080/page"), warm_up=4, look=6,
        why="sixty pages of 3 kB in a second on twenty connections", watch=both(8080, SOME_TRAFFIC, SOME_TRAFFIC),
    )),
    # A second round, harder; labels were written before it was run.
    (kept("client", "iperf", SMALL_SNDBUF.right, "buf_lock", 1.5, 20), Situation(
        "relay-again-fit-six-sndbuf", program="iperf", rate="80mbit", rtt="40ms", server=IPERF2,
        client=from_client("iperf -c $S -p 5000 -t 900 -w 9K -P 6"), warm_up=6, look=6,
        why="six streams of which each has SO_SNDBUF of 9 kB", watch=both(5000, SMALL_SNDBUF, TAKES),
    )),
    (kept("server", "relays^", STARTS.right, "route.initcwnd", 1.3, 5), Situation(
        "relay-again-fit-initcwnd-two", program="newlisp", rate="50mbit", rtt="80ms",
        prepare=(("server", "ip route show dev lab0 | while read -r route; do ip route change $route dev lab0 "
                  "initcwnd 2; done"),),
        server=server(f"{D} serve 5000 26000 0"), client=from_client(f"newlisp {MINE}/relays.lsp $S 5000") * 3,
        warm_up=4, look=8, why="26 kB on new connections take four round trips, since the route has initcwnd 2",
        watch=both(5000, PAGES, STARTS),
    )),
    (kept("server", "relays", {"cork-not-uncorked"}, "cork", 2, 20), Situation(
        "relay-again-fit-cork-answer", program="d", rate="60mbit", rtt="20ms",
        server=server(f"{D} answer-corked 5000 312 900"), client=from_client(f"{D} ask $S 5000 nodelay 12 300 900"),
        warm_up=4, why="the answering program sets TCP_CORK and never clears it", watch=both(5000, TAKES, WAITS),
    )),
    (kept("client", "pike8.0", NAGLE.right, "nodelay", 1.3, 8), Situation(
        "relay-again-fit-long-second", program="pike", rate="60mbit", rtt="12ms",
        server=server(f"{D} answer 5000 1300 40"), client=pike("700 600"), warm_up=4,
        why="700 and 600 bytes are two writes with Nagle on", watch=both(5000, NAGLE, SOME_BACK),
    )),
    (kept("server", "weborf", LOSS.right, "congestion", 1.5, 20), Situation(
        "relay-again-fit-burst-loss", program="tnftp", rate="40mbit", rtt="30ms", queue="2bdp",
        path=("--set", "path.loss.good_to_bad=0.2%", "--set", "path.loss.bad_to_good=50%"),
        prepare=(("server", "mkdir pages && truncate -s 8G pages/big && chmod -R a+rX pages"),), server=WEBORF,
        settle=1, client=from_client("tnftp -o /dev/null http://$S:8080/big"), warm_up=8, look=8,
        why="two packets of 1000 begin a burst of two losses", watch=both(8080, LOSS_SEEN, LOSS),
    )),
    (kept("client", "iperf", LOSS.right, "congestion", 1.4, 25), Situation(
        "relay-again-fit-few-loss", program="iperf", rate="35mbit", rtt="50ms", queue="2bdp", path=("--loss", "2%"),
        server=IPERF2, client=from_client("iperf -c $S -p 5000 -t 900"), warm_up=7, look=6,
        why="20 packets of 1000 are lost, and windows have eight segments", watch=both(5000, LOSS, LOSS_SEEN),
    )),
    (kept("server", "6tunnel", {"tcp-wmem-max-cap"}, "net.ipv4.tcp_wmem", 1.4, 10), Situation(
        "relay-again-fit-bbr-wmem", program="6tunnel", rate="45mbit", rtt="60ms", cc="bbr",
        prepare=(*BIG, sysctl("server", "net.ipv4.tcp_wmem=4096 16384 50000")), server=FORWARDED, settle=1,
        client=from_client("curl -so /dev/null http://$S:8081/big"), warm_up=6,
        why="tcp_wmem[2] is 50000 at the relay under BBR, the BDP is 337 kB",
        watch=both(8081, TAKES, fault("tcp-wmem-max-cap")),
    )),
    (alone("client", "relays", "path-full", "app-limited", ending=NEVER), Situation(
        "relay-again-fit-phases", program="d", rate="25mbit", rtt="40ms", server=server(f"{D} take 5000 65536 0"),
        client=from_client(f"{D} give $S 5000 6000000 2500 0"), warm_up=6,
        why="6 MB fill the path for 2 s, and then nothing is sent for 2.5 s", watch=both(5000, TAKES, TAKES),
    )),
    (alone("client", "R", "slow-reader", ending=NEVER), Situation(
        "relay-again-fit-bbr-reader", program="r", rate="45mbit", rtt="35ms", cc="bbr",
        server=server(f"{D} serve 5000 8000000000 0"),
        client=from_client(f"Rscript {MINE}/relays.R takes $S 5000 9000 0.02"), warm_up=10,
        why="9000 bytes each 20 ms are read of what BBR sends", watch=both(5000, SLOW_READER, SLOW_READER),
    )),
]
FITS = {situation.name: label for label, situation in TABLE}
SITUATIONS = [situation for _, situation in TABLE]
