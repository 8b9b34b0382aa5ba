"""Situations in which `fit` foretells the effect of a change, and is judged by whether the interval
that it foretold holds what it measures.

Programs, settings and paths are those of no other table. Labels, and the expectation that the interval
holds the measured value, were written down before any of them was run.
"""

from .commands import FILES, NGINX
from .further import from_client
from .model import *
from .packages import SMALL_SNDBUF
from .seeming import LOSS, PAGES, RESTARTS
from .visitors import LOSS_SEEN, NAGLE, STARTS, again, server

PY = "python3 $H/programs/foretold/foretold.py"
KEPT = from_client("python3 -c \"import http.client\nc = http.client.HTTPConnection('$S', 8080)\n"
                   "while True:\n c.request('GET', '/')\n c.getresponse().read()\"")
TAKES_ALL = from_client(f"{PY} takes $S 5000")
BUSY = tuple(("client", f"exec {PY} spins 600") for _ in range(3))
RSYNCD = (("server", "printf 'use chroot=no\nuid=root\ngid=root\n[w]\npath=%s\nread only=no\n' $W > d.conf"),)
RSYNC = (("server", "exec rsync --daemon --no-detach --port=8730 --config=d.conf"),)
POSTGRES = (
    ("server", "mkdir pg && chown postgres pg && cd / && su postgres -s /bin/sh -c "
               "\"/usr/lib/postgresql/15/bin/initdb -D $W/pg -A trust > /dev/null\" && "
               "echo 'host all all 0.0.0.0/0 trust' >> $W/pg/pg_hba.conf"),
)
POSTGRES_SERVER = (("server", "cd / && exec su postgres -s /bin/sh -c \"exec "
                              "/usr/lib/postgresql/15/bin/postgres -D $W/pg -h '*' -k $W/pg\""),)
# The effect is the subject here, and not which of several endings is right.
ANY = ("kept", "nothing-to-improve", "no-setting-helps", "no-verdict", "out-of-reach",
       "not-distinguishable", "out-of-time")


def change(end, comm, limit, knob, least, most):
    return Fit(end, comm, frozenset(limit), frozenset(ANY), knob, (least, most))


TABLE = [
    (change("server", "python", {"initcwnd-too-small"}, "route.initcwnd", 1.1, 4), Situation(
        "foretell-pages-iw", program="python", rate="40mbit", rtt="150ms",
        server=server(f"{PY} pages 8080 90000 HTTP/1.0"), settle=1, client=again(2), warm_up=4, look=8,
        why="90 kB on new connections take four round trips", watch=both(8080, PAGES, STARTS),
    )),
    (change("server", "python", {"initcwnd-too-small"}, "route.initcwnd", 1.1, 4), Situation(
        "foretell-sendfile-iw", program="python", rate="200mbit", rtt="70ms",
        server=server(f"{PY} files 5000 220000"), settle=1,
        client=(("client", "sleep 0.3; while :; do nc $S 5000 < /dev/null > /dev/null; done"),) * 2,
        warm_up=4, look=8, why="220 kB on new connections take five round trips",
        watch=both(5000, PAGES, STARTS),
    )),
    (change("server", "redis", {"slow-start-after-idle"}, "net.ipv4.tcp_slow_start_after_idle", 1.1, 6),
     Situation(
        "foretell-redis-idle", program="redis", rate="80mbit", rtt="70ms",
        server=server("redis-server --save '' --appendonly no --protected-mode no"), settle=1,
        client=from_client("sh -c \"head -c 250000 /dev/zero | tr '\\\\0' x | redis-cli -h $S -x set big; "
                           "exec redis-cli -h $S -r -1 -i 1.4 get big > /dev/null\""),
        warm_up=9, look=12, why="250 kB after each pause of 1.4 s", watch=both(6379, PAGES, RESTARTS),
    )),
    (change("server", "python", {"slow-start-after-idle"}, "net.ipv4.tcp_slow_start_after_idle", 1.1, 6),
     Situation(
        "foretell-asyncio-idle", program="python", rate="50mbit", rtt="45ms",
        server=server(f"{PY} streams 5000 600000 2 0"), settle=1, client=TAKES_ALL, warm_up=9, look=12,
        why="600 kB after each pause of 2 s", watch=both(5000, PAGES, RESTARTS),
    )),
    (change("server", "socat", {"random-loss"}, "congestion", 1.5, 20), Situation(
        "foretell-socat-loss", program="socat", rate="25mbit", rtt="30ms", queue="2bdp",
        path=("--loss", "1%"), server=server("socat OPEN:/dev/zero TCP-LISTEN:5000,reuseaddr"), settle=1,
        client=TAKES_ALL, warm_up=8, look=8, why="one packet of 100 is lost",
        watch=both(5000, LOSS_SEEN, LOSS),
    )),
    (change("server", "iperf3", {"random-loss"}, "congestion", 1.3, 20), Situation(
        "foretell-iperf3-loss", program="iperf3", rate="120mbit", rtt="12ms", queue="2bdp",
        path=("--loss", "0.2%"), server=server("iperf3 -s"), settle=1,
        client=from_client("iperf3 -c $S -R -t 900"), warm_up=8, look=8,
        why="two packets of 1000 are lost", watch=both(5201, LOSS_SEEN, LOSS),
    )),
    (change("client", "nuttcp", {"random-loss"}, "congestion", 1.3, 20), Situation(
        "foretell-nuttcp-loss", program="nuttcp", rate="15mbit", rtt="110ms", queue="2bdp", cc="reno",
        path=("--loss", "0.3%"), server=server("nuttcp -S --nofork"), settle=1,
        client=from_client("nuttcp -t -T900 $S"), warm_up=10, look=8,
        why="three packets of 1000 are lost, under Reno", watch=both(5101, LOSS_SEEN, LOSS),
    )),
    (change("server", "postgres", {"tcp-wmem-max-cap"}, "net.ipv4.tcp_wmem", 1.3, 10), Situation(
        "foretell-postgres-wmem", program="postgres", rate="45mbit", rtt="35ms",
        prepare=(*POSTGRES, sysctl("server", "net.ipv4.tcp_wmem=4096 16384 60000")),
        server=POSTGRES_SERVER, settle=3,
        client=(("client", "sleep 0.3; while :; do psql -h $S -U postgres -c \"copy (select "
                           "repeat('x',1000) from generate_series(1,20000)) to stdout\" postgres "
                           "> /dev/null; done"),),
        warm_up=6, look=8, why="tcp_wmem[2] is 60 kB, the BDP is 200 kB; 20 MB on each connection",
        watch=both(5432, TAKES, fault("tcp-wmem-max-cap")),
    )),
    (change("server", "python", {"sndbuf-locked", "sndbuf-tiny"}, "buf_lock", 1.3, 10), Situation(
        "foretell-asyncio-sndbuf", program="python", rate="90mbit", rtt="22ms",
        server=server(f"{PY} streams 5000 100000 0 50000"), settle=1, client=TAKES_ALL, warm_up=6, look=8,
        why="SO_SNDBUF is 50000, the BDP is 250 kB", watch=both(5000, TAKES, SMALL_SNDBUF),
    )),
    (change("client", "iperf3", {"sndbuf-locked", "sndbuf-tiny"}, "buf_lock", 1.2, 10), Situation(
        "foretell-iperf3-window", program="iperf3", rate="70mbit", rtt="25ms", server=server("iperf3 -s"),
        settle=1, client=from_client("iperf3 -c $S -w 40K -t 900"), warm_up=6, look=8,
        why="SO_SNDBUF is 40 KiB, the BDP is 220 kB", watch=both(5201, SMALL_SNDBUF, TAKES),
    )),
    (change("server", "rsync", {"tcp-rmem-max-cap"}, "net.ipv4.tcp_rmem", 1.3, 10), Situation(
        "foretell-rsync-rmem", program="rsync", rate="35mbit", rtt="55ms",
        prepare=(*RSYNCD, ("client", "truncate -s 8G up"),
                 sysctl("server", "net.ipv4.tcp_rmem=4096 32768 80000")),
        server=RSYNC, settle=1, client=from_client("rsync -W --inplace up rsync://$S:8730/w/down"),
        warm_up=6, look=8, why="tcp_rmem[2] is 80 kB, the BDP is 240 kB, on one open connection",
        watch=both(8730, fault("peer-window", "tcp-rmem-max-cap"), fault("tcp-rmem-max-cap", "peer-window")),
    )),
    (change("client", "python", {"tcp-rmem-max-cap"}, "net.ipv4.tcp_rmem", 1.3, 10), Situation(
        "foretell-urllib-rmem", program="python", rate="60mbit", rtt="70ms",
        prepare=(*FILES, ("server", "truncate -s 3M part"),
                 sysctl("client", "net.ipv4.tcp_rmem=4096 32768 80000")),
        server=NGINX, settle=1, client=from_client(f"{PY} downloads http://$S/part"), warm_up=6, look=8,
        why="tcp_rmem[2] is 80 kB, the BDP is 520 kB; 3 MB on each connection",
        watch=both(80, fault("tcp-rmem-max-cap", "peer-window"), fault("peer-window", "tcp-rmem-max-cap")),
    )),
    (change("server", "python", {"nagle-delack-stall"}, "nodelay", 1.5, 20), Situation(
        "foretell-handler-nagle", program="python", rate="20mbit", rtt="15ms",
        server=server(f"{PY} pages 8080 700 HTTP/1.1"), settle=1, client=KEPT, warm_up=4,
        why="head and body in two writes with Nagle on: 57 ms in place of 17",
        watch=both(8080, fault("nagle-delack-stall", "application-thinks"), NAGLE),
    )),
    (change("server", "python", {"nagle-delack-stall"}, "nodelay", 1.5, 20), Situation(
        "foretell-handler-nagle-busy", program="python", rate="30mbit", rtt="6ms",
        server=server(f"{PY} pages 8080 700 HTTP/1.1"), settle=1, client=(*BUSY, *KEPT), warm_up=4,
        why="the same while three programs keep the processors busy",
        watch=both(8080, fault("nagle-delack-stall", "application-thinks"), NAGLE),
    )),
    (change("client", "python", NAGLE.right, "nodelay", 1.3, 20), Situation(
        "foretell-asks-nagle", program="python", rate="100mbit", rtt="30ms",
        server=server(f"{PY} answers 5000"), settle=1, client=from_client(f"{PY} asks $S 5000"), warm_up=4,
        why="a question in three writes, of which two wait", watch=both(5000, NAGLE, TAKES),
    )),
    (change("server", "rsync", {"bufferbloat"}, "congestion", 2, 60), Situation(
        "foretell-rsync-bloat", program="rsync", rate="6mbit", rtt="45ms", queue="400p",
        prepare=(*RSYNCD, ("server", "truncate -s 8G big")), server=RSYNC, settle=1,
        client=from_client("rsync -W --inplace rsync://$S:8730/w/big down"), warm_up=14, look=8,
        why="a queue of 0.8 s is filled", watch=both(8730, BLOATED, fault("bufferbloat")),
    )),
    (change("server", "nginx", {"bufferbloat"}, "congestion", 2, 60), Situation(
        "foretell-two-bloat", program="nginx", rate="12mbit", rtt="60ms", queue="600p", prepare=FILES,
        server=NGINX, settle=1, client=from_client("wget -qO /dev/null http://$S/big") * 2, warm_up=14,
        look=8, why="two downloads fill a queue of 0.6 s", watch=both(80, BLOATED, fault("bufferbloat")),
    )),
]
FITS = {situation.name: label for label, situation in TABLE}
SITUATIONS = [situation for _, situation in TABLE]
