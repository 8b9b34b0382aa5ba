"""Situations that `tcptailor fit --pid` is judged by, of the programs of `guests.py`.

Labels were written down before any of them was run.
"""

from .commands import FILES, NGINX
from .elsewhere import HELD_BACK
from .further import from_client
from .guests import (BUN, CONFIGS, DOWNLOAD, FASTCGI, FPM, INETD, KAFKA, KAFKA_FORMAT, KAFKA_FULL,
                     KEPT_ASKS, LEECH, LISP, MPTCP, MPTCP_GET, MPTCP_SERVER, PUTS, PY, STREAM,
                     TAKEN_ANEW, TORRENT, WEBDAV, deno)
from .model import *
from .packages import SMALL_SNDBUF
from .seeming import LOSS, PAGES, RESTARTS
from .visitors import KEPT_PAGES, LOSS_SEEN, NAGLE, STARTS, server

NEVER = ("nothing-to-improve", "no-setting-helps", "no-verdict")

TABLE = [
    (kept("server", "python", {"nagle-delack-stall"}, "nodelay", 4, 40), Situation(
        "guest-fit-django", program="django", rate="100mbit", rtt="3ms",
        server=server(f"{PY} django 8080 400"), settle=3, client=KEPT_PAGES, warm_up=4,
        why="a page in five writes with Nagle on: 43 ms or more in place of 3 to 6",
        watch=both(8080, fault("nagle-delack-stall", "application-thinks"), STALLS),
    )),
    (kept("client", "python", NAGLE.right, "nodelay", 1.3, 8), Situation(
        "guest-fit-mp", program="multiprocessing", rate="100mbit", rtt="12ms",
        server=server(f"{PY} listens 5000"), settle=1, client=from_client(f"{PY} calls $S 5000 20000"),
        warm_up=4, why="the last segment of 20004 bytes waits for the ACK of all before",
        watch=both(5000, NAGLE, SOME_TRAFFIC),
    )),
    (kept("server", "java", {"sndbuf-locked"}, "buf_lock", 1.8, 9), Situation(
        "guest-fit-kafka-consume", program="kafka", rate="100mbit", rtt="80ms", prepare=KAFKA_FORMAT,
        server=KAFKA_FULL, settle=50, client=from_client(f"{PY} consumes $S"), warm_up=6, look=8,
        why="SO_SNDBUF is 100 KiB, the BDP is 1 MB", watch=both(9092, TAKES, SMALL_SNDBUF),
    )),
    # Set before the connection came, so that its window scale allows little more.
    (alone("server", "java", "rcvbuf-locked", ending=(*NEVER, "out-of-reach")), Situation(
        "guest-fit-kafka-produce", program="kafka", rate="100mbit", rtt="80ms", prepare=KAFKA_FORMAT,
        server=KAFKA, settle=25, client=from_client(f"{PY} produces $S 0"), warm_up=8, look=8,
        why="SO_RCVBUF is 100 KiB, the BDP is 1 MB", watch=both(9092, FIXED_WINDOW, FIXED_WINDOW),
    )),
    (kept("server", "php-fpm8.2", {"initcwnd-too-small"}, "route.initcwnd", 1.15, 4.5), Situation(
        "guest-fit-fpm", program="php-fpm", rate="100mbit", rtt="90ms", server=FPM, settle=1,
        client=(*FASTCGI, *from_client("ab -q -t 1000 -n 10000000 -c 3 http://127.0.0.1:8081/big")),
        warm_up=4, look=8, why="one of four processes; 150 kB on new connections take four round trips",
        watch=both(9000, PAGES, STARTS),
    )),
    (kept("server", "systemd-socket-^", {"initcwnd-too-small"}, "route.initcwnd", 1.15, 4.5), Situation(
        "guest-fit-inetd", program="systemd", rate="80mbit", rtt="90ms", server=INETD, settle=1,
        client=TAKEN_ANEW, warm_up=4, look=8,
        why="the process that forks for each connection, on which 150 kB take four round trips",
        watch=both(5000, PAGES, STARTS),
    )),
    (kept("server", "bun", {"tcp-wmem-max-cap"}, "net.ipv4.tcp_wmem", 1.4, 10), Situation(
        "guest-fit-bun-wmem", program="bun", rate="60mbit", rtt="60ms", prepare=(
            *FILES, sysctl("server", "net.ipv4.tcp_wmem=4096 16384 80000")), server=BUN, settle=1,
        client=DOWNLOAD, warm_up=6, look=8, why="tcp_wmem[2] is 80 kB, the BDP is 450 kB",
        watch=both(8080, TAKES, fault("tcp-wmem-max-cap")),
    )),
    (kept("server", "deno", {"slow-start-after-idle"}, "net.ipv4.tcp_slow_start_after_idle", 1.2, 6),
     Situation(
        "guest-fit-deno-idle", program="deno", rate="100mbit", rtt="100ms", server=deno(400_000), settle=2,
        client=KEPT_ASKS, warm_up=9, look=12,
        why="400 kB after each pause of 1.5 s over 100 ms: the window starts anew",
        watch=both(5000, PAGES, RESTARTS),
    )),
    (kept("server", "sbcl", {"random-loss"}, "congestion", 1.5, 15), Situation(
        "guest-fit-lisp-loss", program="hunchentoot", rate="50mbit", rtt="50ms", queue="2bdp",
        path=("--loss", "0.4%"), prepare=FILES, server=LISP, settle=12, client=DOWNLOAD, warm_up=8,
        look=8, why="four packets of 1000 are lost, and CUBIC gets about 8 of 50 Mbit/s",
        watch=both(8080, LOSS_SEEN, LOSS),
    )),
    (kept("server", "nginx", {"random-loss"}, "congestion", 1.5, 15), Situation(
        "guest-fit-mptcp-loss", program="mptcpize", rate="60mbit", rtt="50ms", queue="2bdp",
        path=("--loss", "0.4%"), prepare=MPTCP, server=MPTCP_SERVER, settle=1, client=MPTCP_GET,
        warm_up=8, look=8, why="four packets of 1000 are lost, on a connection of MPTCP with one subflow",
        watch=both(80, LOSS_SEEN, LOSS),
    )),
    (kept("server", "python", {"bufferbloat"}, "congestion", 3, 60), Situation(
        "guest-fit-torrent-bloat", program="libtorrent", rate="8mbit", rtt="30ms", queue="500p",
        prepare=TORRENT, server=server(f"{PY} seeds $W 6881 0"), settle=2, client=LEECH, warm_up=16,
        look=8, why="a seed fills a queue of 0.75 s", watch=both(6881, BLOATED, fault("bufferbloat")),
    )),
    # Each upload is a connection of its own, so that what is set reaches the next one.
    (kept("server", "rclone", {"tcp-rmem-max-cap"}, "net.ipv4.tcp_rmem", 1.4, 10), Situation(
        "guest-fit-webdav-rmem", program="rclone", rate="80mbit", rtt="50ms", prepare=(
            ("server", "mkdir dav"), ("client", "truncate -s 8M up"),
            sysctl("server", "net.ipv4.tcp_rmem=4096 32768 65536")),
        server=WEBDAV, settle=2, client=PUTS, warm_up=6, look=8,
        why="uploads of 8 MB, one after the other; tcp_rmem[2] is 64 KiB, the BDP is 500 kB",
        watch=both(8080, CAPPED_WINDOW, fault("tcp-rmem-max-cap")),
    )),
    # Nothing on the observed host helps.
    (alone("client", "wget", "slow-reader", ending=NEVER), Situation(
        "guest-fit-trickle", program="trickle", rate="50mbit", rtt="30ms", prepare=FILES, server=NGINX,
        client=from_client("trickle -s -d 300 wget -qO /dev/null http://$S/big"), warm_up=10, look=8,
        why="trickle lets wget read 300 kB/s", watch=both(80, SLOW_READER, SLOW_READER),
    )),
    (alone("client", "nginx", "slow-reader", ending=NEVER), Situation(
        "guest-fit-stream", program="nginx", rate="50mbit", rtt="20ms", prepare=FILES, server=NGINX,
        client=STREAM, warm_up=14, look=8, why="a proxy reads 400 kB/s, as proxy_download_rate says",
        watch=both(80, SLOW_READER, SLOW_READER),
    )),
    (alone("server", "python", "app-limited", "paced", "unknown", ending=NEVER), Situation(
        "guest-fit-torrent-limit", program="libtorrent", rate="40mbit", rtt="40ms", prepare=TORRENT,
        server=server(f"{PY} seeds $W 6881 400000"), settle=2, client=LEECH, warm_up=10, look=8,
        why="a seed uploads 400 kB/s, as its limit says", watch=both(6881, HELD_BACK, PACED),
    )),
    (alone("client", "ffmpeg", "app-limited", "paced", ending=NEVER), Situation(
        "guest-fit-rtmp", program="ffmpeg", rate="20mbit", rtt="50ms",
        server=server("nginx -p $W -c $W/guests-rtmp.conf"), settle=1, client=from_client(
            "ffmpeg -v error -re -f lavfi -i testsrc2=size=640x360:rate=25 -c:v flv -b:v 2500k "
            "-f flv rtmp://$S/live/one"), warm_up=7, look=8,
        why="a film is sent as fast as it plays", watch=both(1935, PACED, HELD_BACK),
    )),
]
FITS = {situation.name: label for label, situation in TABLE}
SITUATIONS = [situation for _, situation in TABLE]
