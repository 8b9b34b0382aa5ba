"""Situations that `tcptailor fit --pid` is judged by, of programs that no table before has: Starman,
Erlang and its web server, XRootD, nbd-server, Redis that feeds a replica, syslog-ng, Pure-FTPd, fastify
and undici, Unicorn, tgt, qemu-nbd, cheroot, Mojolicious, Knot DNS, sanic.

Labels were written down before any of them was run. That Starman writes the head and the body of an
answer apart, with TCP_NODELAY, was seen with `strace`.
"""

from .commands import FILES, NGINX
from .further import from_client
from .model import *
from .packages import SMALL_SNDBUF
from .seeming import LOSS, PAGES, RESTARTS
from .services import ONE_BY_ONE, POLICE, POLICED

MINE = "$H/programs/strangers"
BIG = (("server", "truncate -s 8G big"),)
ERLANG = (("server", f"erlc -o $W {MINE}/pages.erl {MINE}/files.erl"),)
STRANGERS = f"exec $FITPY {MINE}/strangers.py"
XROOTD = (("server", "exec xrootd -R nobody -c $W/third-xrootd.cfg"),)
SYSLOG_SINK = (("server", "exec socat -u TCP-LISTEN:5140,fork,reuseaddr OPEN:/dev/null"),)


def ask_in_erlang(bytes):
    """One line, and an answer with its length before it; again when that has come."""
    return from_client("python3 -c \"import socket\ns = socket.create_connection(('$S', 5000))\n"
                       f"while True:\n s.sendall(b'page\\\\n')\n left = {bytes + 4}\n"
                       " while left: left -= len(s.recv(left))\"")


def syslog(config):
    return (("client", f"sleep 0.5; exec syslog-ng -F -f $W/{config} --no-caps -R $W/kept -c $W/ctl "
                       "-p $W/pid"),)


TABLE = [
    (kept("server", "beam.smp", {"nagle-delack-stall"}, "nodelay", 3, 60), Situation(
        "third-erlang-length", program="erlang", rate="100mbit", rtt="3ms", prepare=ERLANG,
        server=(("server", "exec erl -noshell -pa $W -s pages start 5000 400"),), settle=2,
        client=ask_in_erlang(400), warm_up=4,
        why="gen_tcp writes the length and the answer apart, and has Nagle on by default: the answer "
            "waits for the ACK of the length, which the client delays by 40 ms",
        watch=both(5000, fault("nagle-delack-stall", "application-thinks"), STALLS),
    )),
    (kept("server", "xrootd", {"sndbuf-locked"}, "buf_lock", 1.5, 20), Situation(
        "third-xrootd-buffsz", program="xrootd", rate="80mbit", rtt="50ms",
        prepare=(*BIG, ("server", "mkdir adm && chown nobody adm")),
        server=XROOTD, settle=3,
        client=from_client("xrdcp -f -N root://nobody@$S:1094/$W/big /dev/null"), warm_up=6,
        why="xrd.network buffsz fixes the buffers of sockets at 32 kB, the BDP is 500 kB",
        watch=both(1094, TAKES, SMALL_SNDBUF),
    )),
    (kept("server", "nbd-server", {"random-loss"}, "congestion", 1.5, 12), Situation(
        "third-nbd-loss", program="nbd", rate="40mbit", rtt="40ms", queue="300p",
        path=("--loss", "0.4%"), prepare=BIG,
        server=(("server", "exec nbd-server -C $W/third-nbd.conf -p $W/nbd.pid"),), settle=1,
        client=from_client("nbdcopy --connections=1 --no-extents nbd://$S:10809/big null:"),
        warm_up=8, look=8, why="0.4 % random loss leave CUBIC 5 to 10 of 40 Mbit/s; nbdcopy has 64 "
                               "requests of 256 kB at once",
        watch=both(10809, TAKES, LOSS),
    )),
    (kept("server", "redis-server", {"tcp-wmem-max-cap"}, "net.ipv4.tcp_wmem", 1.5, 8), Situation(
        "third-redis-replica", program="redis", rate="60mbit", rtt="50ms", prepare=(
            ("client", "mkdir replica"), sysctl("server", "net.ipv4.tcp_wmem=4096 16384 98304")),
        server=(("server", "exec redis-server --save '' --protected-mode no --dir $W --enable-debug-"
                           "command yes --repl-diskless-sync no --rdbcompression no"),
                ("server", "sleep 1; redis-cli debug populate 900 k 1000000")), settle=5,
        client=from_client("redis-server --port 6380 --replicaof $S 6379 --save '' "
                           "--dir $W/replica"), warm_up=14,
        why="a new replica is sent 900 MB; tcp_wmem[2] is 96 KiB, the BDP is 375 kB",
        watch=both(6379, TAKES, fault("tcp-wmem-max-cap")),
    )),
    (kept("client", "syslog-ng", {"sndbuf-locked"}, "buf_lock", 1.5, 14), Situation(
        "third-syslog-sndbuf", program="syslog-ng", rate="40mbit", rtt="40ms", server=SYSLOG_SINK,
        settle=1, client=syslog("third-sndbuf.conf"), warm_up=6,
        why="so-sndbuf(16384) of the destination, the BDP is 200 kB; lines come as fast as they go",
        watch=both(5140, SMALL_SNDBUF, TAKES),
    )),
    (kept("server", "pure-ftpd", {"bufferbloat"}, "congestion", 3, 60), Situation(
        "third-pureftpd-bloat", program="pure-ftpd", rate="8mbit", rtt="25ms", queue="500p",
        prepare=(("server", "mkdir ftp && chmod 755 ftp && truncate -s 4G ftp/big && "
                            "echo \"joe:$(openssl passwd -6 pw):65534:65534::$W/ftp/./:"
                            ":::::::::::\" > ftp.pw && pure-pw mkdb $W/ftp.pdb -f $W/ftp.pw"),),
        server=(("server", "exec pure-ftpd -l puredb:$W/ftp.pdb -S 0.0.0.0,2121 -H -E"),), settle=1,
        client=from_client("curl -so /dev/null -u joe:pw ftp://$S:2121/big"), warm_up=12, look=8,
        why="a download fills a queue of 0.75 s, under CUBIC",
        watch={"server": Watched("dport > :1024", fault("bufferbloat"))},
    )),
    (kept("server", "node", {"slow-start-after-idle"}, "net.ipv4.tcp_slow_start_after_idle", 1.2,
          6), Situation(
        "third-fastify-idle", program="fastify", rate="100mbit", rtt="90ms",
        server=(("server", f"exec node {MINE}/pages.js 5000 500000"),), settle=2,
        client=from_client(f"node {MINE}/asks.js http://$S:5000/ 1400"), warm_up=9, look=12,
        why="500 kB after each pause of 1.4 s over 90 ms: the window starts anew",
        watch=both(5000, PAGES, RESTARTS),
    )),
    (kept("server", "unicorn", {"initcwnd-too-small"}, "route.initcwnd", 1.15, 2.5), Situation(
        "third-unicorn-new", program="unicorn", rate="100mbit", rtt="90ms",
        server=(("server", "exec unicorn -E none -c $W/third-unicorn.rb $W/third-unicorn.ru"),),
        settle=3, client=from_client("sh -c 'while :; do curl -so /dev/null http://$S:5000/; done'"),
        warm_up=4, look=8, why="Unicorn closes after each answer: 120 kB on new connections take four "
                               "round trips with 10 segments",
        watch=both(5000, PAGES, fault("initcwnd-too-small")),
    )),
    # Nothing on the observed host helps.
    (alone("server", "starman", "round-trip-bound", "app-limited", "application-thinks", ending=(
        "nothing-to-improve", "no-setting-helps", "no-verdict")), Situation(
        "third-starman-two-writes", program="starman", rate="100mbit", rtt="25ms",
        server=(("server", "exec starman --listen 0.0.0.0:5000 --workers 1 --max-requests 100000000 "
                           "--keepalive-timeout 600 $W/third-app.psgi"),), settle=6,
        client=from_client("python3 -c \"import http.client\n"
                           "c = http.client.HTTPConnection('$S', 5000)\nwhile True:\n"
                           " c.request('GET', '/')\n c.getresponse().read()\""), warm_up=4,
        why="head and body apart, but with TCP_NODELAY: a page takes one round trip",
        watch=both(5000, BY_ROUND_TRIPS, SOME_TRAFFIC),
    )),
    (alone("client", "syslog-ng", "app-limited", "paced"), Situation(
        "third-syslog-throttle", program="syslog-ng", rate="40mbit", rtt="40ms",
        server=SYSLOG_SINK, settle=1, client=syslog("third-throttle.conf"), warm_up=6,
        why="throttle(2000) lets 2000 lines of 400 bytes a second pass: 6 of 40 Mbit/s",
        watch=both(5140, PACED, TAKES),
    )),
    (alone("client", "iscsi-perf", "round-trip-bound"), Situation(
        "third-iscsi-one", program="tgt", rate="100mbit", rtt="15ms",
        prepare=(("server", "truncate -s 64M disk"),), server=(
            ("server", "exec tgtd -f -C 0 --iscsi portal=0.0.0.0:3260"),
            ("server", "sleep 2; tgtadm --op new --mode target --tid 1 -T iqn.2020-01.t:x && "
                       "tgtadm --op new --mode logicalunit --tid 1 --lun 1 -b $W/disk && "
                       "tgtadm --op bind --mode target --tid 1 -I ALL")), settle=4,
        client=from_client("iscsi-perf -m 1 -b 8 iscsi://$S/iqn.2020-01.t:x/1"), warm_up=4,
        why="one read of 4 kB is in flight at a time", watch=both(3260, BY_ROUND_TRIPS, SOME_TRAFFIC),
    )),
    (alone("server", "qemu-nbd", "app-limited", "application-thinks", "paced"), Situation(
        "third-qemu-rate", program="qemu", rate="50mbit", rtt="5ms",
        prepare=(("server", "head -c 250000000 /dev/urandom > image"),
                 ("client", "truncate -s 250000000 copy")),
        server=(("server", "exec qemu-nbd -t -p 10810 -f raw -r $W/image"),), settle=1,
        client=from_client("qemu-img convert -n -r 1000000 -f raw -O raw nbd://$S:10810 $W/copy"),
        warm_up=9, look=8,
        why="the copy is written at 1 MB/s (-r), so that pieces of 2 MB are asked for each 2 s",
        watch=both(10810, TAKES, THINKS_HERE),
    )),
    (alone("server", "python", "slow-reader"), Situation(
        "third-cheroot-scans", program="cheroot", rate="50mbit", rtt="20ms",
        prepare=(("client", "truncate -s 8G up"),), server=(("server", f"{STRANGERS} scans 5000 800000"),),
        settle=2, client=from_client("curl -so /dev/null -T up http://$S:5000/"), warm_up=9,
        why="each piece of an upload is looked at for so long that 0.8 MB/s are read",
        watch=both(5000, SLOW_READER, SLOW_READER),
    )),
    (alone("server", "perl", "policed", "path-full", ending=(
        "nothing-to-improve", "not-distinguishable")), Situation(
        "third-mojo-policed", program="mojolicious", rate="100mbit", rtt="30ms",
        prepare=(*BIG, ("client", POLICE.format(dev="lab0", rate="1500 kbytes/second",
                                                burst="50 kbytes"))),
        server=(("server", "exec perl -MMojolicious::Lite -e 'app->static->paths([\".\"]); "
                           "app->start(\"daemon\", \"-l\", \"http://*:5000\")'"),), settle=2,
        client=from_client("curl -so /dev/null http://$S:5000/big"), warm_up=8, look=8,
        why="what exceeds 12 Mbit/s is dropped on arrival", watch=both(5000, TAKES, POLICED),
    )),
    (alone("server", "knotd", "window-scaling-off", "peer-window", ending=(
        "nothing-to-improve", "no-setting-helps", "out-of-reach")), Situation(
        "third-knot-unscaled", program="knot", rate="60mbit", rtt="60ms",
        prepare=(sysctl("client", "net.ipv4.tcp_window_scaling=0"), (
            "server", "cp third-zone zone && for n in $(seq 150000); do echo \"h$n A 192.0.2.1\"; "
                      "done >> zone")),
        server=(("server", "exec knotd -c $W/third-knot.conf"),), settle=4,
        client=from_client("sh -c 'while :; do dig +tcp @$S -p 5300 big.test axfr > /dev/null; "
                           "done'"), warm_up=6, look=8,
        why="the host that asks for the zone offers no window scaling: 64 KiB of window over 60 ms",
        watch=both(5300, fault("window-scaling-off"), fault("window-scaling-off", "peer-window")),
    )),
    (alone("server", "python", "path-full"), Situation(
        "third-sanic-lowat", program="sanic", rate="20mbit", rtt="30ms",
        prepare=(*BIG, sysctl("server", "net.ipv4.tcp_notsent_lowat=16384")),
        server=(("server", f"{STRANGERS} streams 5000 $W/big"),), settle=3,
        client=from_client("curl -so /dev/null http://$S:5000/"), warm_up=7,
        why="tcp_notsent_lowat of 16 KiB leaves little unsent data at a time, and the path is full "
            "nevertheless", watch=both(5000, TAKES, FULL),
    )),
    (alone("server", "beam.smp", "path-full"), Situation(
        "third-inets-shaper", program="erlang", rate="200mbit", rtt="20ms", queue="1000p", prepare=(
            *BIG, *ERLANG,
            ("server", "tc qdisc replace dev lab0 root tbf rate 30mbit burst 20kb limit 2mb")),
        server=(("server", "exec erl -noshell -pa $W -s files start 5000 $W"),), settle=2,
        client=from_client("curl -so /dev/null http://$S:5000/big"), warm_up=8, look=8,
        why="a shaper of the server's host lets 30 Mbit/s pass; small queues of TCP leave at most two "
            "pieces of 64 KiB of one connection in its long queue",
        watch=both(5000, TAKES, FULL),
    )),
]
# Written when rules were mended after those above, and before any of these was run.
AGAIN = [
    (kept("server", "unicorn", {"sndbuf-locked"}, "buf_lock", 1.5, 8), Situation(
        "third-again-unicorn-sndbuf", program="unicorn", rate="60mbit", rtt="50ms", server=(
            ("server", "exec unicorn -E none -c $W/third-sndbuf.rb $W/third-megabyte.ru"),),
        settle=3, client=from_client("sh -c 'while :; do curl -so /dev/null http://$S:5000/; done'"),
        warm_up=6, look=8, why="the listener has sndbuf 24000, which each connection inherits; 1 MB on "
                               "each, and the BDP is 375 kB",
        watch=both(5000, TAKES, SMALL_SNDBUF),
    )),
    (kept("server", "python", {"tcp-rmem-max-cap"}, "net.ipv4.tcp_rmem", 1.5, 12), Situation(
        "third-again-uploads-rmem", program="cheroot", rate="60mbit", rtt="80ms", prepare=(
            ("client", "truncate -s 1500k part"),
            sysctl("server", "net.ipv4.tcp_rmem=4096 32768 65536")),
        server=(("server", f"{STRANGERS} scans 5000 1e12"),), settle=2, client=from_client(
            "sh -c 'while :; do curl -so /dev/null -H Expect: -T part http://$S:5000/; done'"),
        warm_up=6, look=8, why="tcp_rmem[2] of the server that takes uploads is 64 KiB, the BDP is "
                               "600 kB; each upload has a new connection",
        watch=both(5000, fault("peer-window", "rcvbuf-locked"), fault("tcp-rmem-max-cap")),
    )),
    (kept("server", "xrootd", {"sndbuf-locked"}, "buf_lock", 1.3, 20), Situation(
        "third-again-xrootd-bbr", program="xrootd", rate="60mbit", rtt="80ms", cc="bbr",
        queue="400p", path=("--loss", "0.2%"),
        prepare=(*BIG, ("server", "mkdir adm && chown nobody adm")), server=XROOTD, settle=3,
        client=from_client("xrdcp -f -N root://nobody@$S:1094/$W/big /dev/null"), warm_up=8,
        look=8, why="buffers of 32 kB over a BDP of 600 kB; BBR does not mind the losses of 0.2 %",
        watch=both(1094, TAKES, SMALL_SNDBUF),
    )),
    (kept("client", "syslog-ng", {"bufferbloat"}, "congestion", 3, 60), Situation(
        "third-again-syslog-bloat", program="syslog-ng", rate="6mbit", rtt="25ms", queue="400p",
        server=SYSLOG_SINK, settle=1, client=syslog("third-lines.conf"), warm_up=12, look=8,
        why="lines as fast as they go fill a queue of 0.8 s, under CUBIC",
        watch=both(5140, fault("bufferbloat"), TAKES),
    )),
    (alone("server", "nbd-server", "round-trip-bound", "app-limited", "application-thinks"),
     Situation(
        "third-again-nbd-one", program="nbd", rate="100mbit", rtt="30ms", queue="400p", prepare=BIG,
        server=(("server", "exec nbd-server -C $W/third-nbd.conf -p $W/nbd.pid"),), settle=1,
        client=from_client("nbdcopy --connections=1 --threads=1 --requests=1 --request-size=262144 "
                           "--no-extents nbd://$S:10809/big null:"), warm_up=6,
        why="one block of 256 kB is asked for when the one before has come: the path is empty for a "
            "round trip after each", watch=both(10809, ONE_BY_ONE, ONE_BY_ONE),
    )),
    (alone("server", "redis-server", "app-limited", "application-thinks", "paced",
           "round-trip-bound", "idle", ending=("nothing-to-improve", "no-setting-helps",
                                               "no-verdict")), Situation(
        "third-again-pubsub-loss", program="redis", rate="20mbit", rtt="40ms", path=("--loss", "2%"),
        server=(("server", "exec redis-server --save '' --protected-mode no --dir $W"), (
            "server", "sleep 1; exec redis-cli -r 1000000 -i 0.02 publish news $(printf '%0200d' 1) "
                      "> /dev/null")), settle=2,
        client=from_client("redis-cli -h $S subscribe news > /dev/null"), warm_up=6, look=8,
        why="200 bytes each 20 ms: the next message tells of one that was lost, and no setting "
            "repairs it in less than a round trip",
        watch=both(6379, TAKES, PACED),
    )),
    (alone("server", "perl", "app-limited", "cpu-bound"), Situation(
        "third-again-mojo-computes", program="mojolicious", rate="300mbit", rtt="2ms", queue="500p",
        server=(("server", "exec perl -MDigest::SHA=sha512_hex -MMojolicious::Lite -e '"
                           "my $page = \"x\" x 65536; my $hashed = \"y\" x 8192; "
                           "get \"/\" => sub { my $send; $send = sub { sha512_hex($hashed) "
                           "for 1 .. 500; $_[0]->write_chunk($page, $send) }; "
                           "$_[0]->$send }; app->start(\"daemon\", \"-l\", \"http://*:5000\")'"),),
        settle=2, client=from_client("curl -so /dev/null http://$S:5000/"), warm_up=6,
        why="each 64 KiB are hashed for: some 50 Mbit/s of 300",
        watch=both(5000, TAKES, healthy("app-limited", "cpu-bound", also=("cpu-bound",))),
    )),
    (alone("client", "node", "round-trip-bound", "app-limited", "application-thinks", ending=(
        "nothing-to-improve", "no-setting-helps", "no-verdict")), Situation(
        "third-again-neighbour", program="undici", rate="10mbit", rtt="20ms", queue="300p",
        server=(("server", f"exec node {MINE}/pages.js 5000 500"), (
            "server", "exec socat -u TCP-LISTEN:9001,fork,reuseaddr OPEN:/dev/null")), settle=2,
        client=(*from_client(f"node {MINE}/asks.js http://$S:5000/ 0"), (
            "client", "sleep 0.5; exec socat -u OPEN:/dev/zero TCP:$S:9001")), warm_up=10, look=8,
        why="one small page a round trip; another program fills the queue that they share",
        watch=at_sender(5000, BY_ROUND_TRIPS),
    )),
]
TABLE = [*TABLE, *AGAIN]
# Written when the rules on fixed buffers of short connections were mended, and before any of these
# was run.
NEW_PAGES = "sh -c 'while :; do curl -so /dev/null http://$S/page; done'"
LAST = [
    (kept("server", "nginx", {"sndbuf-locked"}, "buf_lock", 1.15, 8), Situation(
        "third-last-short-sndbuf", program="nginx", rate="80mbit", rtt="60ms", prepare=(
            *FILES, ("server", "head -c 800000 /dev/urandom > page; "
                               "sed -i 's/listen 80/listen 80 sndbuf=20k/' nginx.conf")),
        server=NGINX, client=from_client(NEW_PAGES), warm_up=6, look=8,
        why="nginx's listen has sndbuf=20k, the BDP is 600 kB; 800 kB on each new connection",
        watch=both(80, TAKES, SMALL_SNDBUF),
    )),
    (kept("server", "nginx", {"initcwnd-too-small"}, "route.initcwnd", 1.15, 2.5), Situation(
        "third-last-short-pages", program="nginx", rate="100mbit", rtt="90ms", prepare=(
            *FILES, ("server", "head -c 140000 /dev/urandom > page; "
                               "sed -i 's/listen 80/listen 80 sndbuf=512k/' nginx.conf")),
        server=NGINX, client=from_client(NEW_PAGES), warm_up=6, look=8,
        why="140 kB on each new connection take four round trips with 10 segments; nginx fixes the "
            "buffer, and each page fits in it",
        watch=both(80, PAGES, fault("initcwnd-too-small")),
    )),
    (alone("client", "syslog-ng", "window-scaling-off", "peer-window", ending=(
        "nothing-to-improve", "no-setting-helps", "out-of-reach")), Situation(
        "third-last-syslog-unscaled", program="syslog-ng", rate="50mbit", rtt="70ms",
        prepare=(sysctl("server", "net.ipv4.tcp_window_scaling=0"),), server=SYSLOG_SINK, settle=1,
        client=syslog("third-lines.conf"), warm_up=6,
        why="the host that takes the lines does not scale windows: 64 KiB over 70 ms",
        watch=both(5140, fault("window-scaling-off", "peer-window"), fault("window-scaling-off")),
    )),
]
TABLE = [*TABLE, *LAST]
LINES = """
@version: 3.38
@include "scl.conf"
source lines { program("yes $(printf '%%0400d' 7)" flags(no-parse)); };
destination far { network("@S@" port(5140) transport("tcp") %s); };
log { source(lines); destination(far); flags(flow-control); };
"""
CONFIGS = {
    "third-sndbuf.conf": LINES.lstrip() % "so-sndbuf(16384)",
    "third-lines.conf": LINES.lstrip() % "",
    "third-throttle.conf": LINES.lstrip() % "throttle(2000)",
    "third-xrootd.cfg": """
all.export @W@
xrd.port 1094
xrd.network buffsz 32k nodnr
all.adminpath @W@/adm
all.pidpath @W@/adm
""",
    "third-nbd.conf": """
[generic]
user = root
group = root
port = 10809
listenaddr = 0.0.0.0
allowlist = true
[big]
exportname = @W@/big
readonly = true
""".lstrip(),
    "third-unicorn.rb": "worker_processes 1; listen '0.0.0.0:5000'\n",
    "third-unicorn.ru": "run ->(_) { [200, {'Content-Type' => 'text/plain'}, ['x' * 120_000]] }\n",
    "third-sndbuf.rb": "worker_processes 1; listen '0.0.0.0:5000', sndbuf: 24000\n",
    "third-megabyte.ru": "run ->(_) { [200, {'Content-Type' => 'text/plain'}, "
                         "['x' * 1_000_000]] }\n",
    "third-app.psgi": "sub { [200, ['Content-Type', 'text/plain', 'Content-Length', 300], "
                      "['x' x 300]] }\n",
    "third-zone": """
$ORIGIN big.test.
$TTL 300
@ SOA ns.big.test. a.big.test. 1 3600 600 86400 300
@ NS ns.big.test.
ns A 192.0.2.1
""".lstrip(),
    "third-knot.conf": """
server:
    rundir: "@W@"
    listen: 0.0.0.0@5300
database:
    storage: "@W@"
acl:
  - id: all
    address: 0.0.0.0/0
    action: transfer
zone:
  - domain: big.test
    file: "@W@/zone"
    acl: all
    zonefile-load: whole
""".lstrip(),
}
FITS = {situation.name: label for label, situation in TABLE}
SITUATIONS = [situation for _, situation in TABLE]
