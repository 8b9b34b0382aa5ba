"""Situations that `tcptailor fit --pid` is judged by, of programs as they run on servers: nginx, Redis,
PostgreSQL, rsync, ssh, iperf3 and Python.

Labels were written down before any of them was run; those whose names begin with `prod-held` were not
looked at before the rules were mended.
"""

from .commands import FILES, IPERF_SERVER, NGINX, REDIS, SSHD, iperf
from .further import from_client
from .model import *
from .packages import SMALL_SNDBUF
from .seeming import LOSS, PAGES, RESTARTS
from .services import POLICE, POLICED, POSTGRES, POSTGRES_SERVER


def python(*lines):
    """A client in Python, of lines."""
    return from_client('python3 -c "' + "\n".join(lines) + '"')


COPY = ("client", "exec psql -h $S -U postgres -c \"copy (select repeat('x',1000), "
                  "generate_series(1,100000000)) to stdout\" postgres > /dev/null")
RSYNCD = (("server", "printf 'use chroot = no\\nuid = root\\ngid = root\\n[x]\\npath = into\\n"
                     "read only = no\\n' > rsyncd.conf; mkdir into"),
          ("client", "truncate -s 4G up"))
RSYNC = (("server", "exec rsync --daemon --no-detach --config=rsyncd.conf --port=8730"),)
# Two writes for a request, and one for the answer: what a length prefix makes of a request.
ANSWERS = (("server", "exec python3 -c \"import socket\n"
                      "s = socket.create_server(('', 5000))\nc, _ = s.accept()\n"
                      "while True:\n d = b''\n"
                      " while len(d) < 104: d += c.recv(200)\n c.sendall(b'y' * 50)\""),)
SMALL_RMEM = sysctl("client", "net.ipv4.tcp_rmem=4096 8192 12288")
NEW_DOWNLOADS = python("import http.client", "while True:",
                       " c = http.client.HTTPConnection('$S', 80)", " c.request('GET', '/page60k')",
                       " c.getresponse().read()", " c.close()")

TABLE = [
    (kept("server", "nginx", {"random-loss"}, "congestion", 1.3, 8), Situation(
        "prod-nginx-loss", program="nginx", rate="25mbit", rtt="40ms", queue="200p",
        path=("--loss", "0.5%"), prepare=FILES, server=NGINX,
        client=from_client("curl -so /dev/null http://$S/big"), warm_up=7, look=8,
        why="0.5 % random loss, and CUBIC", watch=both(80, TAKES, LOSS),
    )),
    (alone("server", "nginx", "path-full", ending=("nothing-to-improve",)), Situation(
        "prod-nginx-full", program="nginx", rate="20mbit", rtt="30ms", prepare=FILES, server=NGINX,
        client=from_client("curl -so /dev/null http://$S/big"), warm_up=7,
        why="one download fills 20 Mbit/s", watch=both(80, TAKES, FULL),
    )),
    (kept("server", "redis-server", {"tcp-wmem-max-cap"}, "net.ipv4.tcp_wmem", 1.5, 6), Situation(
        "prod-redis-wmem", program="redis", rtt="50ms",
        prepare=(sysctl("server", "net.ipv4.tcp_wmem=4096 16384 98304"),),
        server=(*REDIS, ("server", "sleep 0.5; head -c 300000000 /dev/zero | redis-cli -x set big")),
        settle=12, client=from_client("sh -c 'redis-cli -h $S get big > /dev/null'"), warm_up=5,
        why="tcp_wmem[2] is 96 KiB, the BDP is 310 kB",
        watch=both(6379, TAKES, fault("tcp-wmem-max-cap")),
    )),
    (kept("server", "postgres", {"random-loss"}, "congestion", 2, 12), Situation(
        "prod-postgres-loss", program="postgres", rtt="30ms", queue="300p", path=("--loss", "1%"),
        prepare=POSTGRES, server=(POSTGRES_SERVER,), settle=3, client=(COPY,), warm_up=7, look=8,
        why="1 % random loss under COPY, and CUBIC", watch=both(5432, TAKES, LOSS),
    )),
    (kept("client", "rsync", {"bufferbloat"}, "congestion", 3, 60), Situation(
        "prod-rsync-bloat", program="rsync", rate="6mbit", rtt="20ms", queue="500p",
        prepare=RSYNCD, server=RSYNC, settle=1,
        client=from_client("rsync -W up rsync://$S:8730/x/"), warm_up=10, look=8,
        why="CUBIC fills a queue of a second", watch=both(8730, fault("bufferbloat"), TAKES),
    )),
    (alone("client", "python3", "rcvbuf-locked", ending=("out-of-reach",)), Situation(
        "prod-python-window-far", program="python", rate="8mbit", rtt="300ms", prepare=FILES,
        server=NGINX, client=python(
            "import socket", "s = socket.socket()",
            "s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)", "s.connect(('$S', 80))",
            "s.sendall(b'GET /big HTTP/1.0\\\\r\\\\n\\\\r\\\\n')", "while s.recv(65536): pass"),
        warm_up=6, why="SO_RCVBUF is 8 KiB over 300 ms: some 120 kbit/s of 8 Mbit/s; a window that "
                       "does not grow does so on new connections only, and the program sets it",
        watch=both(80, fault("rcvbuf-locked"), FIXED_WINDOW),
    )),
    (kept("server", "nginx", {"slow-start-after-idle"}, "net.ipv4.tcp_slow_start_after_idle", 1.2,
          4), Situation(
        "prod-nginx-after-idle", program="nginx", rate="100mbit", rtt="90ms",
        prepare=(*FILES, ("server", "head -c 400000 /dev/urandom > page400k")), server=NGINX,
        client=python("import http.client, time", "c = http.client.HTTPConnection('$S', 80)",
                      "while True:", " c.request('GET', '/page400k')", " c.getresponse().read()",
                      " time.sleep(1.3)"),
        warm_up=8, look=12, why="400 kB after each pause of 1.3 s: the window starts anew",
        watch=both(80, PAGES, RESTARTS),
    )),
    (alone("server", "nginx", "slow-reader", "app-limited", "paced"), Situation(
        "prod-held-curl-slow", program="nginx", rtt="20ms", prepare=FILES, server=NGINX,
        client=from_client("curl --limit-rate 400k -so /dev/null http://$S/big"), warm_up=9,
        why="curl reads 400 kB/s of what nginx sends as fast as it may",
        watch=both(80, TAKES, SLOW_READER),
    )),
    (alone("client", "redis-benchmark", "round-trip-bound"), Situation(
        "prod-held-redis-asks", program="redis", rate="100mbit", rtt="25ms", server=REDIS,
        client=from_client("redis-benchmark -h $S -c 1 -n 100000000 -t get"), warm_up=3,
        why="one request a round trip", watch=both(6379, BY_ROUND_TRIPS, SOME_TRAFFIC),
    )),
    (alone("client", "ssh", "path-full", ending=("nothing-to-improve",)), Situation(
        "prod-held-ssh-full", program="ssh", rate="15mbit", rtt="40ms", prepare=SSHD, server=(
            ("server", "exec /usr/sbin/sshd -De -f $W/sshd_config"),), settle=1,
        client=from_client("sh -c 'ssh -F $W/ssh_config $S \"cat > /dev/null\" < /dev/zero'"),
        warm_up=8, why="ssh fills 15 Mbit/s", watch=both(2222, FULL, TAKES),
    )),
    (kept("client", "python3", {"nagle-delack-stall"}, "nodelay", 5, 60), Situation(
        "prod-held-prefix", program="python", rate="100mbit", rtt="2ms", server=ANSWERS, settle=1,
        client=python("import socket", "s = socket.create_connection(('$S', 5000))", "while True:",
                      " s.sendall(b'x' * 4)", " s.sendall(b'x' * 100)", " s.recv(50)"),
        warm_up=3, why="a length and then a request, with Nagle on: 40 ms each",
        watch=both(5000, STALLS, TAKES),
    )),
    (alone("client", "iperf3", "sndbuf-locked", "rcvbuf-locked", "peer-window", ending=(
        "not-distinguishable", "out-of-reach", "no-setting-helps", "nothing-to-improve")), Situation(
        "prod-held-iperf-window", program="iperf3", rtt="40ms", server=IPERF_SERVER,
        client=iperf("-w 32K"), warm_up=5,
        why="-w fixes both ends: unlocking the send buffer leaves the window of the other host",
        watch=both(5201, SMALL_SNDBUF, FIXED_WINDOW),
    )),
    (kept("client", "python3", {"tcp-rmem-max-cap"}, "net.ipv4.tcp_rmem", 1.5, 10), Situation(
        "prod-held-rmem-far", program="python", rate="8mbit", rtt="150ms",
        prepare=(*FILES, SMALL_RMEM), server=NGINX, client=NEW_DOWNLOADS, warm_up=6, look=8,
        why="tcp_rmem[2] is 12 KiB over 150 ms; each page of 60 kB has a new connection",
        watch=both(80, fault("tcp-rmem-max-cap"), FIXED_WINDOW),
    )),
    (alone("client", "rsync", "app-limited", "paced", ending=("nothing-to-improve",)), Situation(
        "prod-held-rsync-limit", program="rsync", rtt="25ms", prepare=RSYNCD, server=RSYNC, settle=1,
        client=from_client("rsync -W --bwlimit=600 up rsync://$S:8730/x/"), warm_up=6,
        why="--bwlimit sleeps between writes", watch=both(8730, PACED, TAKES),
    )),
    # Written after the rules were mended by those above.
    (kept("server", "nginx", {"sndbuf-locked"}, "buf_lock", 1.5, 12), Situation(
        "prod-later-nginx-sndbuf", program="nginx", rate="50mbit", rtt="60ms", prepare=(
            *FILES, ("server", "sed -i 's/listen 80/listen 80 sndbuf=48k/' nginx.conf")),
        server=NGINX, client=from_client("curl -so /dev/null http://$S/big"), warm_up=6,
        why="nginx's listen has sndbuf=48k, the BDP is 375 kB", watch=both(80, TAKES, SMALL_SNDBUF),
    )),
    (kept("client", "python3", {"window-scaling-off"}, "net.ipv4.tcp_window_scaling", 1.5, 12),
     Situation(
        "prod-later-unscaled", program="python", rate="80mbit", rtt="70ms",
        prepare=(*FILES, sysctl("client", "net.ipv4.tcp_window_scaling=0")), server=NGINX,
        client=python("import http.client", "while True:",
                      " c = http.client.HTTPConnection('$S', 80)", " c.request('GET', '/big', '', {",
                      " 'Range': 'bytes=0-2999999'})", " c.getresponse().read()", " c.close()"),
        warm_up=6, look=8, why="a download of 3 MB after the other, windows of 64 KiB over 70 ms",
        watch=both(80, fault("window-scaling-off"), FIXED_WINDOW),
    )),
    (kept("client", "ssh", {"random-loss"}, "congestion", 1.3, 12), Situation(
        "prod-later-ssh-loss", program="ssh", rate="60mbit", rtt="50ms", queue="500p",
        path=("--loss", "0.3%"), prepare=SSHD, server=(
            ("server", "exec /usr/sbin/sshd -De -f $W/sshd_config"),), settle=1,
        client=from_client("sh -c 'ssh -F $W/ssh_config $S \"cat > /dev/null\" < /dev/zero'"),
        warm_up=8, look=8, why="0.3 % random loss, and CUBIC", watch=both(2222, LOSS, TAKES),
    )),
    (kept("server", "redis-server", {"bufferbloat"}, "congestion", 2, 60), Situation(
        "prod-later-redis-bloat", program="redis", rate="10mbit", rtt="25ms", queue="600p",
        server=(*REDIS, ("server", "sleep 0.5; head -c 300000000 /dev/zero | redis-cli -x set big")),
        settle=12, client=from_client("sh -c 'redis-cli -h $S get big > /dev/null'"), warm_up=10,
        look=8, why="a large value fills a queue of 0.7 s",
        watch=both(6379, TAKES, fault("bufferbloat")),
    )),
    (kept("server", "nginx", {"initcwnd-too-small"}, "route.initcwnd", 1.15, 2.5), Situation(
        "prod-later-pages", program="nginx", rate="100mbit", rtt="120ms", prepare=FILES,
        server=NGINX, client=NEW_DOWNLOADS, warm_up=6, look=8,
        why="60 kB on each new connection over 120 ms: three round trips of slow start",
        watch=both(80, PAGES, fault("initcwnd-too-small")),
    )),
    (alone("client", "psql", "round-trip-bound", "app-limited", "application-thinks"), Situation(
        "prod-later-inserts", program="postgres", rate="100mbit", rtt="10ms", prepare=POSTGRES,
        server=(POSTGRES_SERVER,), settle=3, client=(("client", (
            "yes 'select 1;' | exec psql -q -h $S -U postgres postgres > /dev/null")),), warm_up=4,
        why="a statement each round trip", watch=both(5432, BY_ROUND_TRIPS, SOME_TRAFFIC),
    )),
    (alone("server", "redis-server", "round-trip-bound", "app-limited", "application-thinks",
           ending=("nothing-to-improve", "no-verdict")), Situation(
        "prod-later-redis-pipe", program="redis", rate="1gbit", rtt="1ms", server=REDIS,
        client=from_client("redis-benchmark -h $S -c 4 -n 100000000 -P 4 -d 200 -t set,get"),
        warm_up=3, why="four clients with four requests each round trip",
        watch=both(6379, BY_ROUND_TRIPS, SOME_TRAFFIC),
    )),
    (alone("server", "nginx", "path-full", "policed", ending=("nothing-to-improve",
                                                             "not-distinguishable")), Situation(
        "prod-later-policed", program="nginx", rate="200mbit", rtt="20ms", prepare=(
            *FILES, ("client", POLICE.format(dev="lab0", rate="3000 kbytes/second",
                                             burst="60 kbytes"))), server=NGINX,
        client=from_client("curl -so /dev/null http://$S/big"), warm_up=8, look=8,
        why="what exceeds 24 Mbit/s is dropped on arrival", watch=both(80, TAKES, POLICED),
    )),
]
FITS = {situation.name: label for label, situation in TABLE}
SITUATIONS = [situation for _, situation in TABLE]
