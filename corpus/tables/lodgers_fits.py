"""Situations that `tcptailor fit --pid` is judged by, of the programs of `lodgers.py`.

Labels were written down before any of them was run, and that each change that is tried has a forecast whose interval
holds what is measured.
"""

from .callers import SOME_BACK
from .elsewhere import HELD_BACK
from .fitting_anew import MARIADB
from .further import from_client
from .guests_fits import NEVER
from .lodgers import (ANEW, ASIO_ASKS, BENCH_SERVER, BUILT, DERBY, DUMPER, FAST, FAST_SERVER, FOSSIL, FOSSIL_GETS,
                      FOSSIL_SERVER, GET, HTTP_SERVER, JAVA, OCAML, PAGE, PIP, PYPI, SNAP, SNAP_CLIENT, SNAP_SERVER,
                      SYSBENCH, CALLS, PASCAL, WHEEL, evhttp)
from .model import *
from .packages import SMALL_SNDBUF
from .seeming import LOSS, PAGES, RESTARTS
from .visitors import LOSS_SEEN, NAGLE, STARTS, server

TABLE = [
    (kept("server", "lodgers-evhttp", SMALL_SNDBUF.right, "buf_lock", 1.8, 10), Situation(
        "lodger-fit-evhttp", program="evhttp", rate="70mbit", rtt="30ms", server=evhttp(30000), settle=1, client=GET,
        warm_up=6, why="SO_SNDBUF is 30000, the BDP is 262 kB", watch=both(8080, TAKES, SMALL_SNDBUF),
    )),
    (kept("server", "java", SMALL_SNDBUF.right, "buf_lock", 1.8, 12), Situation(
        "lodger-fit-jetty", program="jetty", rate="40mbit", rtt="80ms",
        server=server(f"{JAVA} Lodgers jetty 8080 40000"), settle=3, client=GET, warm_up=6,
        why="setAcceptedSendBufferSize is 40000, the BDP is 400 kB", watch=both(8080, TAKES, SMALL_SNDBUF),
    )),
    (kept("client", "lodgers-asio", NAGLE.right, "nodelay", 1.5, 6), Situation(
        "lodger-fit-asio", program="asio", rate="100mbit", rtt="15ms",
        server=server(f"{BUILT}/lodgers-asio answer 5000"), client=from_client(f"{ASIO_ASKS} nagle"), warm_up=4,
        why="the length and the body of a call are two writes, with Nagle on", watch=both(5000, NAGLE, TAKES),
    )),
    (kept("server", "lodgers-ocaml^", STARTS.right, "route.initcwnd", 1.15, 4.5), Situation(
        "lodger-fit-ocaml", program="ocaml", rate="80mbit", rtt="90ms", server=server(f"{OCAML} serve 5000 130000"),
        settle=1, client=from_client(f"{OCAML} fetch $S 5000 0") * 3, warm_up=4, look=8,
        why="130 kB on new connections, of a process each, take four round trips", watch=both(5000, PAGES, STARTS),
    )),
    (kept("server", "http-server", STARTS.right, "route.initcwnd", 1.15, 4.5), Situation(
        "lodger-fit-http-server", program="http-server", rate="60mbit", rtt="120ms", prepare=PAGE, server=HTTP_SERVER,
        settle=2, client=ANEW, warm_up=5, look=8, why="140 kB on new connections take four round trips",
        watch=both(8080, PAGES, STARTS),
    )),
    (kept("server", "lodgers-fasthtt", RESTARTS.right, "net.ipv4.tcp_slow_start_after_idle", 1.2, 6), Situation(
        "lodger-fit-fast-idle", program="fasthttp", rate="80mbit", rtt="110ms", server=FAST_SERVER, settle=1,
        client=from_client(f"{FAST} get http://$S:8080/350000 1600ms"), warm_up=9, look=13,
        why="350 kB after each pause of 1.6 s over 110 ms", watch=both(8080, PAGES, RESTARTS),
    )),
    (kept("server", "fossil^", {"tcp-wmem-max-cap"}, "net.ipv4.tcp_wmem", 1.4, 10), Situation(
        "lodger-fit-fossil", program="fossil", rate="50mbit", rtt="60ms",
        prepare=(*FOSSIL, sysctl("server", "net.ipv4.tcp_wmem=4096 16384 64000")), server=FOSSIL_SERVER, settle=2,
        client=FOSSIL_GETS, warm_up=7, why="tcp_wmem[2] is 64000, the BDP is 375 kB",
        watch=both(8080, TAKES, fault("tcp-wmem-max-cap")),
    )),
    (kept("server", "mariadbd", {"tcp-wmem-max-cap"}, "net.ipv4.tcp_wmem", 1.4, 10), Situation(
        "lodger-fit-mydumper", program="mydumper", rate="30mbit", rtt="50ms",
        prepare=(*MARIADB, sysctl("server", "net.ipv4.tcp_wmem=4096 16384 40000")), server=BENCH_SERVER, settle=14,
        client=DUMPER, warm_up=6, look=8,
        why="tcp_wmem[2] is 40000, the BDP is 187 kB; 12 MB on each connection",
        watch=both(3306, TAKES, fault("tcp-wmem-max-cap")),
    )),
    (kept("server", "python", LOSS.right, "congestion", 1.5, 15), Situation(
        "lodger-fit-pip", program="pip", rate="40mbit", rtt="40ms", queue="2bdp", path=("--loss", "0.4%"),
        prepare=WHEEL, server=PYPI, settle=4, client=PIP, warm_up=9, look=8,
        why="four packets of 1000 are lost, and CUBIC gets about 10 of 40 Mbit/s", watch=both(8080, LOSS_SEEN, LOSS),
    )),
    (kept("client", "gst-launch", {"bufferbloat"}, "congestion", 2.5, 60), Situation(
        "lodger-fit-gst-bloat", program="gstreamer", rate="8mbit", rtt="30ms", queue="500p",
        server=server("gst-launch-1.0 -q tcpserversrc host=0.0.0.0 port=5000 ! fakesink sync=false"), settle=2,
        client=from_client("gst-launch-1.0 -q filesrc location=/dev/zero blocksize=65536 ! "
                           "tcpclientsink host=$S port=5000"), warm_up=16, look=7,
        why="a queue of 0.75 s is filled", watch=both(5000, fault("bufferbloat"), BLOATED),
    )),
    (kept("client", "lodgers-ocaml", CAPPED_WINDOW.right, "net.ipv4.tcp_rmem", 1.3, 9), Situation(
        "lodger-fit-ocaml-rmem", program="ocaml", rate="50mbit", rtt="50ms",
        prepare=(sysctl("client", "net.ipv4.tcp_rmem=4096 32768 65536"),),
        server=server(f"{OCAML} serve 5000 5000000"), settle=1, client=from_client(f"{OCAML} fetch $S 5000 0"),
        warm_up=6, look=8, why="tcp_rmem[2] is 64 KiB, the BDP is 312 kB; 5 MB on each connection",
        watch=both(5000, CAPPED_WINDOW, CAPPED_WINDOW),
    )),
    (kept("server", "lodgers-evhttp", LOSS.right, "congestion", 1.5, 15), Situation(
        "lodger-fit-evhttp-loss", program="evhttp", rate="100mbit", rtt="10ms", queue="2bdp", path=("--loss", "0.3%"),
        server=evhttp(), settle=1, client=GET, warm_up=7, look=8, why="three packets of 1000 are lost",
        watch=both(8080, LOSS_SEEN, LOSS),
    )),
    # Nothing to do.
    (alone("client", "sysbench", "round-trip-bound", ending=NEVER), Situation(
        "lodger-fit-sysbench", program="sysbench", rate="100mbit", rtt="12ms", prepare=MARIADB, server=BENCH_SERVER,
        settle=14, client=from_client(SYSBENCH.format("$S", "--time=900 oltp_point_select run")), warm_up=4,
        why="one row is asked for after the other", watch=both(3306, BY_ROUND_TRIPS, SOME_TRAFFIC),
    )),
    (alone("server", "snapserver", "app-limited", "paced", "unknown", ending=NEVER), Situation(
        "lodger-fit-snapcast", program="snapcast", rate="20mbit", rtt="30ms", prepare=SNAP, server=SNAP_SERVER,
        settle=3, client=SNAP_CLIENT, warm_up=6, look=7, why="music, as fast as it plays",
        watch=both(1704, HELD_BACK, PACED),
    )),
    # A second round, after rules had been mended.
    (kept("server", "lodgers-ocaml^", STARTS.right, "route.initcwnd", 1.15, 4.5), Situation(
        "lodger-again-fit-ocaml", program="ocaml", rate="100mbit", rtt="60ms",
        server=server(f"{OCAML} serve 5000 220000"), settle=1, client=from_client(f"{OCAML} fetch $S 5000 0") * 2,
        warm_up=4, look=8, why="220 kB on new connections take four to five round trips",
        watch=both(5000, PAGES, STARTS),
    )),
    (kept("server", "http-server", STARTS.right, "route.initcwnd", 1.15, 4.5), Situation(
        "lodger-again-fit-http-server", program="http-server", rate="40mbit", rtt="150ms",
        prepare=(("server", "head -c 80000 /dev/urandom > page"),), server=HTTP_SERVER, settle=2, client=ANEW,
        warm_up=5, look=8, why="80 kB on new connections take three round trips", watch=both(8080, PAGES, STARTS),
    )),
    (kept("server", "java", SMALL_SNDBUF.right, "buf_lock", 1.8, 12), Situation(
        "lodger-again-fit-jetty", program="jetty", rate="90mbit", rtt="20ms",
        server=server(f"{JAVA} Lodgers jetty 8080 30000"), settle=3, client=GET, warm_up=6,
        why="setAcceptedSendBufferSize is 30000, the BDP is 225 kB", watch=both(8080, TAKES, SMALL_SNDBUF),
    )),
    (kept("server", "lodgers-evhttp", LOSS.right, "congestion", 1.3, 20), Situation(
        "lodger-again-fit-evhttp-loss", program="evhttp", rate="30mbit", rtt="60ms", queue="2bdp",
        path=("--loss", "0.2%"), server=evhttp(), settle=1, client=GET, warm_up=9, look=8,
        why="two packets of 1000 are lost", watch=both(8080, LOSS_SEEN, LOSS),
    )),
    (kept("client", "lodgers-ocaml", CAPPED_WINDOW.right, "net.ipv4.tcp_rmem", 1.3, 9), Situation(
        "lodger-again-fit-ocaml-rmem", program="ocaml", rate="30mbit", rtt="90ms",
        prepare=(sysctl("client", "net.ipv4.tcp_rmem=4096 32768 65536"),),
        server=server(f"{OCAML} serve 5000 3000000"), settle=1, client=from_client(f"{OCAML} fetch $S 5000 0"),
        warm_up=6, look=8, why="tcp_rmem[2] is 64 KiB, the BDP is 337 kB; 3 MB on each connection",
        watch=both(5000, CAPPED_WINDOW, CAPPED_WINDOW),
    )),
    (kept("server", "lodgers-fasthtt", RESTARTS.right, "net.ipv4.tcp_slow_start_after_idle", 1.15, 6), Situation(
        "lodger-again-fit-fast-idle", program="fasthttp", rate="50mbit", rtt="60ms", server=FAST_SERVER, settle=1,
        client=from_client(f"{FAST} get http://$S:8080/500000 2000ms"), warm_up=9, look=13,
        why="500 kB after each pause of 2 s over 60 ms", watch=both(8080, PAGES, RESTARTS),
    )),
    (kept("server", "lodgers-evhttp", {"bufferbloat"}, "congestion", 2, 60), Situation(
        "lodger-again-fit-six-bloat", program="evhttp", rate="8mbit", rtt="40ms", queue="500p", server=evhttp(),
        settle=1, client=GET * 3, warm_up=16, look=8, why="three downloads fill a queue of 0.75 s",
        watch=both(8080, BLOATED, fault("bufferbloat")),
    )),
    (kept("client", "lodgers-pascal", NAGLE.right, "nodelay", 1.4, 6), Situation(
        "lodger-again-fit-pascal", program="pascal", rate="50mbit", rtt="25ms",
        server=server(f"{PASCAL} answers 5000"), settle=1, client=CALLS, warm_up=4,
        why="40 and 900 bytes of a call are two writes", watch=both(5000, NAGLE, SOME_BACK),
    )),
]
FITS = {situation.name: label for label, situation in TABLE}
SITUATIONS = [situation for _, situation in TABLE]
