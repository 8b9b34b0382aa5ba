"""Situations that `tcptailor fit --pid` is judged by, of the programs of `callers.py`.

Labels were written down before any of them was run, and that an interval that is foretold holds what is
measured.
"""

from .callers import (DOWNLOAD, DOWNLOAD_SIX, DUMP, ERL, ERL_SINK, ERL_SOURCE, JAVA, LITESTAR, MINE, MPD, OBJECTS,
                      PROXIED, PROXY, PROXY_ANEW, PY, RMI, RUBY, RUBY_FILES, SINE, SIX, SOME_BACK, WEBSOCKIFY,
                      litestar_six)
from .elsewhere import HELD_BACK
from .foretold import POSTGRES, POSTGRES_SERVER
from .further import from_client
from .guests_fits import NEVER
from .model import *
from .seeming import LOSS, PAGES, RESTARTS
from .visitors import LOSS_SEEN, NAGLE, STARTS, server

TABLE = [
    (kept("client", "java", NAGLE.right, "nodelay", 1.5, 12), Situation(
        "caller-fit-objects", program="java", rate="100mbit", rtt="12ms", prepare=JAVA, server=OBJECTS, settle=2,
        client=from_client("java -cp $W Callers gives $S 1100"), warm_up=5, look=8,
        why="the last block of an object waits for an ACK", watch=both(5000, NAGLE, SOME_BACK),
    )),
    (kept("server", "java", {"slow-start-after-idle"}, "net.ipv4.tcp_slow_start_after_idle", 1.2, 6), Situation(
        "caller-fit-rmi-idle", program="rmi", rate="100mbit", rtt="100ms", prepare=JAVA, server=RMI, settle=3,
        client=from_client("java -cp $W Callers rmi-client $S 400000 1500"), warm_up=9, look=12,
        why="400 kB after each pause of 1.5 s over 100 ms", watch=both(5000, PAGES, RESTARTS),
    )),
    (kept("server", "python", {"initcwnd-too-small"}, "route.initcwnd", 1.15, 4.5), Situation(
        "caller-fit-proxy", program="proxy.py", rate="80mbit", rtt="90ms", prepare=PROXIED, server=PROXY, settle=3,
        client=PROXY_ANEW, warm_up=5, look=8, why="150 kB on new connections take four round trips",
        watch=both(8899, PAGES, STARTS),
    )),
    (kept("client", "beam.smp", {"random-loss"}, "congestion", 1.5, 15), Situation(
        "caller-fit-erl-loss", program="erlang", rate="40mbit", rtt="50ms", queue="2bdp", path=("--loss", "0.4%"),
        prepare=ERL, server=ERL_SINK, settle=3, client=ERL_SOURCE, warm_up=9, look=8,
        why="four packets of 1000 are lost, and CUBIC gets about 8 of 40 Mbit/s", watch=both(5000, LOSS, LOSS_SEEN),
    )),
    (kept("server", "websockify", {"bufferbloat"}, "congestion", 3, 60), Situation(
        "caller-fit-websockify", program="websockify", rate="8mbit", rtt="30ms", queue="500p", server=WEBSOCKIFY,
        settle=2, client=from_client(f"{PY} looks $S 8080"), warm_up=16, look=8, why="a queue of 0.75 s is filled",
        watch=both(8080, BLOATED, fault("bufferbloat")),
    )),
    (kept("server", "python", {"tcp-wmem-max-cap"}, "net.ipv4.tcp_wmem", 1.4, 10), Situation(
        "caller-fit-litestar", program="litestar", rate="60mbit", rtt="60ms",
        prepare=(sysctl("server", "net.ipv4.tcp_wmem=4096 16384 80000"),), server=LITESTAR, settle=4, client=DOWNLOAD,
        warm_up=6, look=8, why="tcp_wmem[2] is 80 kB, the BDP is 450 kB",
        watch=both(8080, TAKES, fault("tcp-wmem-max-cap")),
    )),
    # What is raised reaches an open connection, up to what its window scale allows (256 kB here).
    (kept("client", "ruby", {"tcp-rmem-max-cap"}, "net.ipv4.tcp_rmem", 1.3, 8), Situation(
        "caller-fit-drb-rmem", program="drb", rate="60mbit", rtt="50ms",
        prepare=(sysctl("client", "net.ipv4.tcp_rmem=4096 32768 65536"),),
        server=server(f"{RUBY} server $S 5000 20000000"), settle=2, client=from_client(f"{RUBY} client $S 5000 page"),
        warm_up=6, look=8, why="tcp_rmem[2] is 64 KiB at the client, on one open connection; the BDP is 375 kB",
        watch=both(5000, fault("tcp-rmem-max-cap", "peer-window"), fault("peer-window", "tcp-rmem-max-cap")),
    )),
    # Nothing to do.
    (alone("client", "pg_dump", "slow-reader", ending=NEVER), Situation(
        "caller-fit-dump", program="pg_dump", rate="80mbit", rtt="20ms", prepare=POSTGRES, server=POSTGRES_SERVER,
        settle=4, client=DUMP, warm_up=22, look=8, why="what takes the dump takes 400 kB/s",
        watch=both(5432, SLOW_READER, SLOW_READER),
    )),
    (alone("server", "mpd", "app-limited", "paced", "unknown", ending=NEVER), Situation(
        "caller-fit-mpd", program="mpd", rate="20mbit", rtt="40ms", prepare=SINE, server=MPD, settle=6,
        client=from_client("curl -sNo /dev/null http://$S:8000/"), warm_up=6, look=8,
        why="music, as fast as it plays", watch=both(8000, HELD_BACK, PACED),
    )),
    (alone("client", "gdb", "round-trip-bound", ending=NEVER), Situation(
        "caller-fit-gdb", program="gdbserver", rate="100mbit", rtt="30ms", server=server("gdbserver :5000 sleep 900"),
        settle=1, client=from_client(f"gdb -batch -nx -x {MINE}/asks.gdb -ex 'target remote '$S:5000 "
                                     "-ex 'python ask()'"), warm_up=6, look=8,
        why="a debugger reads memory, one packet of its protocol at a time",
        watch=both(5000, BY_ROUND_TRIPS, SOME_TRAFFIC),
    )),
    # A second round, after rules had been mended.
    (kept("server", "python", {"bufferbloat"}, "congestion", 2.5, 60), Situation(
        "caller-again-fit-six-bloat", program="litestar", rate="8mbit", rtt="40ms", queue="500p", prepare=SIX,
        server=litestar_six(8_000_000_000), settle=4, client=DOWNLOAD_SIX, warm_up=16, look=8,
        why="a queue of 0.75 s is filled over IPv6", watch=both(8080, BLOATED, fault("bufferbloat")),
    )),
    (kept("server", "python", {"initcwnd-too-small"}, "route.initcwnd", 1.15, 4.5), Situation(
        "caller-again-fit-six-new", program="litestar", rate="80mbit", rtt="90ms", prepare=SIX,
        server=litestar_six(150_000), settle=4, client=tuple(
            ("client", "sleep 0.5; while :; do curl -so /dev/null http://[fd77::2]:8080/; done") for _ in range(3)),
        warm_up=5, look=8, why="150 kB on new connections over IPv6 take four round trips",
        watch=both(8080, PAGES, STARTS),
    )),
    (kept("server", "iperf3", {"random-loss"}, "congestion", 1.5, 20), Situation(
        "caller-again-fit-iperf3-loss", program="iperf3", rate="60mbit", rtt="20ms", queue="2bdp",
        path=("--loss", "0.3%"), server=server("iperf3 -s"), settle=1, client=from_client("iperf3 -c $S -R -t 900"),
        warm_up=8, look=8, why="three packets of 1000 are lost, beside a connection for control",
        watch=both(5201, LOSS_SEEN, LOSS),
    )),
    (kept("client", "ruby", {"tcp-rmem-max-cap"}, "net.ipv4.tcp_rmem", 1.4, 10), Situation(
        "caller-again-fit-ruby-rmem", program="ruby", rate="40mbit", rtt="60ms",
        prepare=(sysctl("client", "net.ipv4.tcp_rmem=4096 32768 65536"),), server=server(f"{PY} litestar 8080 4000000"),
        settle=4, client=RUBY_FILES, warm_up=6, look=8,
        why="tcp_rmem[2] is 64 KiB at the client, the BDP is 300 kB; 4 MB on each connection",
        watch=both(8080, CAPPED_WINDOW, CAPPED_WINDOW),
    )),
]
FITS = {situation.name: label for label, situation in TABLE}
SITUATIONS = [situation for _, situation in TABLE]
