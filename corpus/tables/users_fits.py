"""Situations that `tcptailor fit --pid` is judged by, of the programs of `users.py`.

Labels were written down before any of them was run.
"""

from .elsewhere import HELD_BACK
from .further import from_client
from .guests_fits import NEVER
from .model import *
from .packages import SMALL_SNDBUF
from .seeming import LOSS, PAGES, RESTARTS
from .users import (ANEW, ANSWERS, ASKS, BIG, BOTTLE, FROM_MBUFFER, GET, KEPT_ASKS, LUA, NNG, PUSHES, SINK,
                    WEBFS, gevent)
from .visitors import LOSS_SEEN, STARTS

TABLE = [
    (kept("server", "lua5.4", {"nagle-delack-stall"}, "nodelay", 3, 30), Situation(
        "user-fit-lua", program="luasocket", rate="100mbit", rtt="4ms", server=ANSWERS, settle=1,
        client=ASKS, warm_up=4, look=8, why="44 ms or more in place of 4 to 8",
        watch=both(5000, fault("nagle-delack-stall", "application-thinks"), STALLS),
    )),
    (kept("client", "mbuffer", {"sndbuf-locked", "sndbuf-tiny"}, "buf_lock", 1.8, 12), Situation(
        "user-fit-mbuffer", program="mbuffer", rate="80mbit", rtt="60ms", server=SINK, settle=1,
        client=from_client(FROM_MBUFFER.format("--tcpbuffer 64k")), warm_up=6, look=8,
        why="SO_SNDBUF is 64 KiB, the BDP is 600 kB", watch=both(5000, SMALL_SNDBUF, TAKES),
    )),
    (kept("server", "webfsd", {"tcp-wmem-max-cap"}, "net.ipv4.tcp_wmem", 1.4, 10), Situation(
        "user-fit-webfs", program="webfs", rate="60mbit", rtt="60ms", prepare=(
            *BIG, sysctl("server", "net.ipv4.tcp_wmem=4096 16384 80000")), server=WEBFS, settle=1,
        client=GET, warm_up=6, look=8, why="tcp_wmem[2] is 80 kB, the BDP is 450 kB",
        watch=both(8080, TAKES, fault("tcp-wmem-max-cap")),
    )),
    (kept("server", "python", {"initcwnd-too-small"}, "route.initcwnd", 1.15, 4.5), Situation(
        "user-fit-bottle", program="bottle", rate="80mbit", rtt="90ms", server=BOTTLE, settle=2,
        client=ANEW, warm_up=4, look=8, why="150 kB on new connections take four round trips",
        watch=both(8080, PAGES, STARTS),
    )),
    (kept("server", "python", {"slow-start-after-idle"}, "net.ipv4.tcp_slow_start_after_idle", 1.2, 6),
     Situation(
        "user-fit-gevent-idle", program="gevent", rate="100mbit", rtt="100ms", server=gevent(400_000),
        settle=2, client=KEPT_ASKS, warm_up=9, look=12,
        why="400 kB after each pause of 1.5 s over 100 ms: the window starts anew",
        watch=both(8080, PAGES, RESTARTS),
    )),
    (kept("client", "python", {"random-loss"}, "congestion", 1.5, 15), Situation(
        "user-fit-nng-loss", program="nng", rate="50mbit", rtt="50ms", queue="2bdp",
        path=("--loss", "0.4%"), server=NNG, settle=2, client=PUSHES, warm_up=8, look=8,
        why="four packets of 1000 are lost, and CUBIC gets about 8 of 50 Mbit/s",
        watch=both(5000, LOSS, LOSS_SEEN),
    )),
    (alone("client", "lua5.4", "slow-reader", ending=NEVER), Situation(
        "user-fit-lua-slow", program="luasocket", rate="80mbit", rtt="20ms", prepare=BIG, server=WEBFS,
        settle=1, client=from_client(f"{LUA} reads $S 8080 65536 0.15"), warm_up=12, look=8,
        why="a client takes 64 KiB and sleeps for 0.15 s", watch=both(8080, SLOW_READER, SLOW_READER),
    )),
    (alone("client", "mbuffer", "app-limited", "paced", ending=NEVER), Situation(
        "user-fit-mbuffer-rate", program="mbuffer", rate="80mbit", rtt="40ms", server=SINK, settle=1,
        client=from_client(FROM_MBUFFER.format("-r 400k")), warm_up=6, look=8,
        why="mbuffer reads its source at 400 kB/s", watch=both(5000, PACED, HELD_BACK),
    )),
]
FITS = {situation.name: label for label, situation in TABLE}
SITUATIONS = [situation for _, situation in TABLE]
