"""Situations of programs and routers that no rule was made with: asyncio, ffmpeg, mini_httpd, Twisted,
Wget2, gawk, players, keystrokes, git, short queues and buckets of a router.

Labels were written down before any of them was run. They are captured at both ends and between.
"""

from .commands import FILES, REDIS, SSHD
from .further import CORKED, from_client
from .model import *
from .packages import SMALL_SNDBUF
from .seeming import LOSS, PAGES, RESTARTS
from .services import DIRECT, POLICE, POLICED, to_direct
from .shaped import NC_SINK, NC_SOURCE, TWO_MOVES

PY = "$PY $H/programs/elsewhere/elsewhere.py"
ROUTED = {"router": True, "warm_up": 5, "look": 7}
MINI = (("server", "exec mini_httpd -D -u root -p 8080 -d $W -i $W/mini.pid"),)
TWISTED = (("server", "exec twistd3 -no web --listen tcp:8080 --path $W"),)
SHELL = (("server", "exec /usr/sbin/sshd -D -e -f $W/sshd_config"),)
SSH = ("ssh -p 2222 -i key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null "
       "-o LogLevel=ERROR")
TO_SSH = "-P 2222 -i key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
# What a receiver and a router can say of a sender that its program or its buffer holds back.
HELD_BACK = healthy("app-limited", "paced", "idle", "unknown", "round-trip-bound")
# One rate is all that is there, whether the queue in front of it is short or there is none.
SHORT_QUEUE = healthy("path-full", "policed")
KEYS = healthy("app-limited", "idle", "unknown", "round-trip-bound", "application-thinks")
GIT = (
    ("server", "git init -q --bare repo.git && git init -q tree && cd tree && "
               "head -c 150000000 /dev/urandom > blob && git add blob && "
               "git -c user.name=a -c user.email=a@a commit -qm x && git push -q ../repo.git HEAD:main"),
)
CONFIGS = {
    "elsewhere-haproxy.cfg": """
defaults
  mode http
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen pages
  bind :9080
  server far 127.0.0.1:8081
""",
}


def down(port, server, client):
    """The sender is the server: its label is that of the router, too."""
    return {"server": Watched(f"sport = :{port}", server),
            "client": Watched(f"dport = :{port}", client)}


def push(count, pause):
    return (("server", f"exec {PY} push 5000 {count} {pause}"),)


def queue(dev, rate, packets):
    return (("router", f"tc qdisc replace dev {dev} root handle 1: htb default 1 && tc class add dev "
                       f"{dev} parent 1: classid 1:1 htb rate {rate} && tc qdisc add dev {dev} "
                       f"parent 1:1 pfifo limit {packets}"),)


def bucket(dev, rate, burst, limit):
    return (("router", f"tc qdisc replace dev {dev} root tbf rate {rate} burst {burst} "
                       f"limit {limit}"),)


TAKE = from_client("nc -d $S 5000 > /dev/null")

SITUATIONS = [
    Situation(
        "real-asyncio-blocks", rate="60mbit", rtt="30ms", queue="40p", **ROUTED,
        server=push(300_000, 0.1), client=TAKE, why="writes 300 kB ten times a second, 24 of 60 Mbit/s",
        watch=down(5000, PACED, HELD_BACK),
    ),
    Situation(
        "real-iperf3-b-pfifo", program="iperf3", rate="200mbit", rtt="25ms", queue="2000p", **ROUTED,
        prepare=queue("far0", "40mbit", 50), server=(("server", "exec iperf3 -s"),),
        client=from_client("iperf3 -c $S -t 100 -b 8M -l 200K"),
        why="iperf3 -b writes 200 kB at a time, 8 of 40 Mbit/s, and blocks overflow 50 packets",
        watch=both(5201, PACED, HELD_BACK),
    ),
    Situation(
        "real-ffmpeg", program="ffmpeg", rate="20mbit", rtt="40ms", **ROUTED,
        server=(("server", "exec ffmpeg -v error -re -f lavfi -i testsrc=size=640x360:rate=25 "
                           "-c:v mpeg2video -b:v 3M -f mpegts tcp://0.0.0.0:5000?listen=1"),),
        settle=2, client=TAKE, why="a film of some 3 Mbit/s is encoded as fast as it plays",
        watch=down(5000, PACED, HELD_BACK),
    ),
    Situation(
        "real-player", program="twisted", rate="40mbit", rtt="70ms", **{**ROUTED, "look": 14},
        prepare=(("server", "head -c 900000 /dev/urandom > segment"),), server=TWISTED, settle=2,
        client=from_client(f"{PY} segments http://$S:8080/segment 2"),
        why="900 kB each 2 s: the window restarts after each pause, and the BDP is 350 kB",
        watch=down(8080, RESTARTS, healthy(*TAKES.accept, also=("slow-start-after-idle",))),
    ),
    Situation(
        "real-pfifo-6", program="nc", rate="200mbit", rtt="30ms", queue="2000p", **ROUTED,
        prepare=queue("far0", "20mbit", 6), server=NC_SINK, client=NC_SOURCE,
        why="a router's queue of 6 packets in front of 20 Mbit/s, whose BDP is 50 packets",
        watch=both(5000, SHORT_QUEUE, SHORT_QUEUE),
    ),
    Situation(
        "real-pfifo-12", program="mini-httpd", rate="300mbit", rtt="16ms", queue="2000p", **ROUTED,
        prepare=(*FILES, *queue("lab0", "50mbit", 12)), server=MINI,
        client=from_client("wget2 -qO /dev/null http://$S:8080/big"),
        why="a router's queue of 12 packets in front of 50 Mbit/s, whose BDP is 66 packets",
        watch=down(8080, SHORT_QUEUE, SHORT_QUEUE),
    ),
    Situation(
        "real-bucket-12k", program="nc", rate="200mbit", rtt="40ms", queue="2000p", **ROUTED,
        prepare=bucket("far0", "20mbit", "12kb", "24kb"), server=NC_SINK, client=NC_SOURCE,
        why="a token bucket of 12 kB at 20 Mbit/s, and 24 kB wait at most",
        watch=both(5000, SHORT_QUEUE, SHORT_QUEUE),
    ),
    Situation(
        "real-police-20k", program="wget2", rate="200mbit", rtt="30ms", queue="2000p", **ROUTED,
        prepare=(*FILES, ("router", POLICE.format(dev="far0", rate="3125 kbytes/second",
                                                  burst="20 kbytes"))),
        server=TWISTED, settle=2, client=from_client("wget2 -qO /dev/null http://$S:8080/big"),
        why="what exceeds 25 Mbit/s is dropped on arrival, with a bucket of 20 kB",
        watch=down(8080, POLICED, POLICED),
    ),
    Situation(
        "real-socat-rcvbuf", program="socat", rate="50mbit", rtt="45ms", **ROUTED,
        server=(("server", "exec socat -u TCP-LISTEN:5000,rcvbuf=30000 /dev/null"),),
        client=from_client("socat -u /dev/zero TCP:$S:5000"),
        why="SO_RCVBUF of 30000, the BDP is 280 kB",
        watch=both(5000, fault("rcvbuf-locked", "peer-window", "window-scaling-off"),
                   fault("rcvbuf-locked", "peer-window", "window-scaling-off")),
    ),
    Situation(
        "real-urllib-slow", program="python", rate="60mbit", rtt="20ms", **{**ROUTED, "warm_up": 14},
        prepare=FILES, server=TWISTED, settle=2,
        client=from_client(f"{PY} download http://$S:8080/big 100000 0.2"),
        why="the client reads 100 kB five times a second, 4 of 60 Mbit/s",
        watch=down(8080, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "real-redis-poll", program="redis", rate="50mbit", rtt="12ms", **ROUTED, server=REDIS,
        client=from_client("redis-cli -h $S -r -1 -i 0.2 get x"), settle=1,
        why="a question each 0.2 s, answered at once",
        watch=both(6379, KEYS, KEYS),
    ),
    Situation(
        "real-python-poll", program="memcached", rate="50mbit", rtt="4ms", **ROUTED,
        server=(("server", "exec memcached -u root -l 0.0.0.0"),),
        client=from_client(f"{PY} poll $S 11211 'stats\\r\\n' 0.203"), settle=1,
        why="memcached's counters are read each 0.203 s", watch=both(11211, KEYS, KEYS),
    ),
    Situation(
        "real-gawk-nagle", program="gawk", **LAN, router=True,
        server=(("server", f"exec {PY} lines 5000 0"),), settle=1,
        client=from_client("gawk -v s=/inet/tcp/0/$S/5000 'BEGIN { while (1) { print \"one\" |& s; "
                           "fflush(s); print \"two\" |& s; fflush(s); s |& getline } }'"),
        why="two lines in two writes, then a read: the second waits for a delayed ACK",
        watch=both(5000, STALLS, STALLS),
    ),
    Situation(
        "real-perl-cork", program="perl", rate="100mbit", rtt="2ms", **ROUTED,
        server=(("server", f"exec {PY} lines 5000 0"),), settle=1,
        client=from_client("perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(PeerAddr => "
                           "\"$ENV{S}:5000\"); setsockopt($s, 6, 3, 1); while (1) { syswrite($s, "
                           "\"one\\ntwo\\n\"); sysread($s, $x, 99) }'"),
        why="TCP_CORK is set once, and each message waits 200 ms", watch=both(5000, CORKED, CORKED),
    ),
    Situation(
        "real-ab-short", program="mini-httpd", rate="50mbit", rtt="50ms", **ROUTED,
        prepare=FILES, server=MINI,
        client=from_client("ab -q -c 6 -n 100000 http://$S:8080/page10k"),
        why="pages of 10 kB on new connections fit the initial window: round trips, no fault",
        watch=down(8080, PAGES, PAGES),
    ),
    Situation(
        "real-bzip2", program="bzip2", rate="200mbit", rtt="20ms", **ROUTED,
        server=(("server", "exec socat -u TCP-LISTEN:5000 /dev/null"),),
        client=(("client", "sleep 0.3; head -c 8000000000 /dev/urandom | bzip2 -9 | socat -u - "
                           "TCP:$S:5000"),),
        why="bzip2 compresses some 10 of 200 Mbit/s, which socat forwards", watch=both(
            5000, healthy(*PACED.accept, "cpu-bound"), HELD_BACK),
    ),
    Situation(
        "real-ssh-alive", program="ssh", rate="50mbit", rtt="30ms", **ROUTED, prepare=SSHD,
        server=SHELL, settle=1,
        client=from_client(f"{SSH} -o ServerAliveInterval=1 root@$S sleep 100"),
        why="a session in which only ServerAliveInterval asks, each second",
        watch=both(2222, KEYS, KEYS),
    ),
    Situation(
        "real-ssh-keys", program="ssh", rate="20mbit", rtt="60ms", **ROUTED, prepare=SSHD,
        server=SHELL, settle=1, client=from_client(f"{PY} keys 0.15 {SSH} -tt root@$S"),
        why="seven keys a second are typed", watch=both(2222, KEYS, KEYS),
    ),
    Situation(
        "real-aria2-eight", program="aria2", rate="200mbit", rtt="25ms", queue="2000p", **ROUTED,
        prepare=(*FILES, *bucket("lab0", "30mbit", "30kb", "150kb")), server=TWISTED, settle=2,
        client=from_client("aria2c -q -x 8 -s 8 --file-allocation=none --allow-overwrite=true "
                           "-o got http://$S:8080/big"),
        why="eight connections share a router's 30 Mbit/s and a queue of 150 kB",
        watch=down(8080, TWO_MOVES, healthy(*TAKES.accept)),
    ),
    Situation(
        "real-git-loss", program="git", rate="60mbit", rtt="40ms", **ROUTED, prepare=GIT,
        path=("--loss", "1%"),
        server=(("server", "exec git daemon --export-all --base-path=$W --listen=0.0.0.0"),),
        settle=1, client=(("client", "while :; do rm -rf got; git clone -q git://$S/repo.git got; "
                                     "done"),),
        why="one packet of 100 is lost, and CUBIC slows down",
        watch=down(9418, LOSS, healthy(*TAKES.accept, also=("random-loss",))),
    ),
    Situation(
        "real-scp-bloat", program="ssh", rate="200mbit", rtt="30ms", queue="2000p",
        **{**ROUTED, "warm_up": 14}, prepare=(*FILES, *SSHD, *queue("far0", "8mbit", 1000)),
        server=SHELL, settle=1,
        client=from_client(f"scp {TO_SSH} -q /dev/stdin root@$S:/dev/null < /dev/zero"),
        why="an upload over 8 Mbit/s with a queue of 1000 packets, 1.5 s",
        watch=both(2222, fault("bufferbloat"), BLOATED),
    ),
    Situation(
        "real-sftp-100ms", program="ssh", rate="30mbit", rtt="90ms", **{**ROUTED, "warm_up": 7},
        prepare=(*SSHD, ("client", "truncate -s 8G big")), server=SHELL, settle=1,
        client=from_client(f"sh -c \"echo 'put big /dev/null' | sftp {TO_SSH} -q -b - root@$S\""),
        why="an upload fills the path: sftp has 2 MB in flight", watch=both(2222, FULL, TAKES),
    ),
    Situation(
        "real-rsync-limit", program="rsync", rate="50mbit", rtt="30ms", **ROUTED,
        prepare=(*SSHD, ("client", "truncate -s 4G big")), server=SHELL, settle=1,
        client=from_client(f"rsync --bwlimit=1500 --inplace -e \"{SSH}\" -q big root@$S:$W/got"),
        why="--bwlimit: 12 of 50 Mbit/s", watch=both(2222, PACED, HELD_BACK),
    ),
    Situation(
        "real-socat-sndbuf", program="socat", rate="60mbit", rtt="50ms", **ROUTED,
        server=(("server", "exec socat -u TCP-LISTEN:5000 /dev/null"),),
        client=from_client("socat -u /dev/zero TCP:$S:5000,sndbuf=30000"),
        why="SO_SNDBUF of 30000, the BDP is 375 kB", watch=both(5000, SMALL_SNDBUF, HELD_BACK),
    ),
    Situation(
        "real-haproxy-thinks", program="haproxy", rate="50mbit", rtt="15ms", **ROUTED,
        server=(("server", f"exec haproxy -f $W/elsewhere-haproxy.cfg -db"),
                ("server", "exec node -e 'require(\"http\").createServer((q, a) => setTimeout(() => "
                           "a.end(\"x\".repeat(5000)), 250)).listen(8081)'")), settle=1,
        client=from_client("ab -q -k -c 2 -n 1000000 http://$S:9080/"),
        why="the server behind the proxy takes 250 ms for each answer, the path 15",
        watch=both(9080, THINKS, THINKS_HERE),
    ),
    Situation(
        "real-asyncio-bursts", rate="80mbit", rtt="80ms", **{**ROUTED, "look": 12},
        server=push(500_000, 1.5), client=TAKE,
        why="500 kB each 1.5 s over 80 ms: the window restarts after each pause",
        watch=down(5000, RESTARTS, healthy(*TAKES.accept, also=("slow-start-after-idle",))),
    ),
    Situation(
        "real-tar-nc-tbf", program="nc", rate="200mbit", rtt="20ms", queue="2000p", **ROUTED,
        prepare=(("client", "tc qdisc replace dev lab0 root tbf rate 30mbit burst 20kb limit 100kb"),),
        server=NC_SINK, client=(("client", "sleep 0.3; tar cf - /usr /usr /usr 2>/dev/null | "
                                           "nc $S 5000"),),
        why="the sender's own interface is shaped to 30 Mbit/s",
        watch=both(5000, healthy("path-full", "bufferbloat", "policed",
                                 also=("bufferbloat", "local-qdisc-drops")), TAKES),
    ),
    Situation(
        "real-wget2-loss", program="wget2", rate="100mbit", rtt="35ms", **ROUTED, prepare=FILES,
        path=("--loss", "0.3%"), server=TWISTED, settle=2,
        client=from_client("wget2 -qO /dev/null http://$S:8080/big"),
        why="three packets of 1000 are lost, and CUBIC slows down",
        watch=down(8080, LOSS, healthy(*TAKES.accept, also=("random-loss",))),
    ),
]

MEMCACHED = (("server", "exec memcached -u root -l 0.0.0.0"),)
PAGE = "wget2 -qO /dev/null http://$S:8080/big"
SINK = (("server", "exec socat -u TCP-LISTEN:5000 /dev/null"),)
SOURCE = from_client("socat -u /dev/zero TCP:$S:5000")


def blocks(name, iperf, why, **path):
    """iperf3 -b writes blocks whenever its rate allows, and no more than that."""
    return Situation(
        name, program="iperf3", **{"rtt": "30ms", **ROUTED, **path}, why=why,
        server=(("server", "exec iperf3 -s"),),
        client=from_client(f"iperf3 -c $S -t 100 {iperf}"), watch=both(5201, PACED, HELD_BACK),
    )


def short(name, rate, packets, rtt, **more):
    return Situation(
        name, program="socat", rate="400mbit", rtt=rtt, queue="2000p", **{**ROUTED, **more},
        prepare=queue("far0", rate, packets), server=SINK, client=SOURCE,
        why=f"a router's queue of {packets} packets in front of {rate}",
        watch=both(5000, SHORT_QUEUE, SHORT_QUEUE),
    )


def polls(name, pause, rtt):
    return Situation(
        name, program="memcached", rate="50mbit", rtt=rtt, **ROUTED, server=MEMCACHED, settle=1,
        client=from_client(f"{PY} poll $S 11211 'get x\\r\\n' {pause}"),
        why=f"a question each {pause} s, answered at once", watch=both(11211, KEYS, KEYS),
    )


def windows(name, rcvbuf, rate, rtt):
    label = fault("rcvbuf-locked", "peer-window", "window-scaling-off")
    return Situation(
        name, program="socat", rate=rate, rtt=rtt, **ROUTED, client=SOURCE,
        server=(("server", f"exec socat -u TCP-LISTEN:5000,rcvbuf={rcvbuf} /dev/null"),),
        why=f"SO_RCVBUF of {rcvbuf}, less than the path of {rate} and {rtt} needs",
        watch=both(5000, label, label),
    )


SITUATIONS += [
    blocks("real-hard-blocks-5m", "-b 5M", "5 of 50 Mbit/s in blocks of 128 kB, and 30 packets wait",
           queue="30p"),
    blocks("real-hard-blocks-20m", "-b 20M -l 256K", "20 of 60 Mbit/s in blocks of 256 kB",
           rate="60mbit", rtt="20ms", queue="60p"),
    blocks("real-hard-blocks-1m", "-b 15M -l 1M", "15 of 80 Mbit/s in blocks of 1 MB",
           rate="80mbit", rtt="45ms", queue="100p"),
    blocks("real-hard-blocks-tbf", "-b 10M", "10 of 25 Mbit/s in blocks of 128 kB, a bucket of 15 kB",
           rate="200mbit", queue="2000p", prepare=bucket("far0", "25mbit", "15kb", "60kb")),
    blocks("real-hard-blocks-police", "-b 8M -l 64K", "8 of 20 Mbit/s in blocks of 64 kB, policed",
           rate="200mbit", queue="2000p", prepare=(("router", POLICE.format(
               dev="lab0", rate="2500 kbytes/second", burst="40 kbytes")),)),
    blocks("real-hard-blocks-loss", "-b 12M", "12 of 80 Mbit/s, and losses of 0.5 % take nothing",
           rate="80mbit", path=("--loss", "0.5%")),
    short("real-hard-pfifo-6-50m", "50mbit", 6, "20ms"),
    short("real-hard-pfifo-8", "15mbit", 8, "60ms"),
    short("real-hard-pfifo-10", "80mbit", 10, "12ms"),
    short("real-hard-pfifo-16", "30mbit", 16, "50ms"),
    short("real-hard-pfifo-20", "10mbit", 20, "100ms"),
    short("real-hard-pfifo-6-bbr", "25mbit", 6, "30ms", cc="bbr"),
    Situation(
        "real-hard-bucket-20k", program="twisted", rate="200mbit", rtt="25ms", queue="2000p",
        **ROUTED, prepare=(*FILES, *bucket("lab0", "30mbit", "20kb", "30kb")), server=TWISTED,
        settle=2, client=from_client(PAGE), why="a token bucket of 20 kB, and 30 kB wait at most",
        watch=down(8080, SHORT_QUEUE, SHORT_QUEUE),
    ),
    Situation(
        "real-hard-bucket-10k", program="mini-httpd", rate="200mbit", rtt="60ms", queue="2000p",
        **ROUTED, prepare=(*FILES, *bucket("lab0", "12mbit", "10kb", "12kb")), server=MINI,
        client=from_client(PAGE), why="a token bucket of 10 kB, and 12 kB wait at most",
        watch=down(8080, SHORT_QUEUE, SHORT_QUEUE),
    ),
    Situation(
        "real-hard-police-12k", program="socat", rate="200mbit", rtt="45ms", queue="2000p",
        **ROUTED, prepare=(("router", POLICE.format(dev="lab0", rate="1250 kbytes/second",
                                                    burst="12 kbytes")),),
        server=SINK, client=SOURCE, why="what exceeds 10 Mbit/s is dropped, with a bucket of 12 kB",
        watch=both(5000, POLICED, POLICED),
    ),
    Situation(
        "real-hard-bursts-200k", rate="50mbit", rtt="100ms", **{**ROUTED, "look": 12},
        server=push(250_000, 2), client=TAKE,
        why="250 kB each 2 s over 100 ms: the window restarts after each pause",
        watch=down(5000, RESTARTS, healthy(*TAKES.accept, also=("slow-start-after-idle",))),
    ),
    Situation(
        "real-hard-bursts-1m", program="twisted", rate="60mbit", rtt="60ms", **{**ROUTED, "look": 14},
        prepare=(("server", "head -c 600000 /dev/urandom > segment"),), server=TWISTED, settle=2,
        client=from_client(f"{PY} segments http://$S:8080/segment 1.2"),
        why="600 kB each 1.2 s over 60 ms: the window restarts after each pause",
        watch=down(8080, RESTARTS, healthy(*TAKES.accept, also=("slow-start-after-idle",))),
    ),
    polls("real-hard-poll-197", 0.197, "2ms"),
    polls("real-hard-poll-200", 0.2, "6ms"),
    polls("real-hard-poll-204", 0.2035, "0.5ms"),
    polls("real-hard-poll-232", 0.212, "25ms"),
    windows("real-hard-window-16k", 16_000, "20mbit", "80ms"),
    windows("real-hard-window-50k", 50_000, "100mbit", "30ms"),
    windows("real-hard-window-120k", 120_000, "80mbit", "50ms"),
]

NODE_PUSH = ("node -e 'require(\"net\").createServer(c => setInterval(() => c.write(Buffer.alloc(%d)), %d))"
           ".listen(5000)'")
NODE_SLOW = ("node -e 'const s = require(\"net\").connect(8080, process.env.S, () => s.write(\"GET /big "
             "HTTP/1.0\\r\\n\\r\\n\")); s.on(\"data\", () => { s.pause(); setTimeout(() => s.resume(), 40) "
             "})'")
# What was not looked at while rules were mended with those above.
SITUATIONS += [
    Situation(
        "real-last-node-blocks", program="node", rate="45mbit", rtt="35ms", queue="50p", **ROUTED,
        server=(("server", "exec " + NODE_PUSH % (200_000, 160)),), settle=1, client=TAKE,
        why="writes 200 kB each 160 ms, 10 of 45 Mbit/s", watch=down(5000, PACED, HELD_BACK),
    ),
    Situation(
        "real-last-mbuffer-rate", program="mbuffer", rate="70mbit", rtt="25ms", queue="40p", **ROUTED,
        server=SINK, client=(("client", "sleep 0.3; exec mbuffer -q -r 1500k -m 4M -i /dev/zero "
                                        "-O $S:5000"),),
        why="mbuffer reads 1500 kB/s, 12 of 70 Mbit/s", watch=both(5000, PACED, HELD_BACK),
    ),
    Situation(
        "real-last-pfifo-7", program="ncat", rate="300mbit", rtt="40ms", queue="2000p", **ROUTED,
        prepare=queue("far0", "30mbit", 7),
        server=(("server", "exec ncat -l 5000 --recv-only > /dev/null"),),
        client=from_client("ncat --send-only $S 5000 < /dev/zero"),
        why="a router's queue of 7 packets in front of 30 Mbit/s",
        watch=both(5000, SHORT_QUEUE, SHORT_QUEUE),
    ),
    Situation(
        "real-last-pfifo-14", program="caddy", rate="300mbit", rtt="24ms", queue="2000p", **ROUTED,
        prepare=(*FILES, *queue("lab0", "60mbit", 14)),
        server=(("server", "exec env HOME=$W XDG_DATA_HOME=$W caddy file-server --root $W --listen "
                           ":8080"),), settle=2, client=from_client("curl -so /dev/null "
                                                                    "http://$S:8080/big"),
        why="a router's queue of 14 packets in front of 60 Mbit/s",
        watch=down(8080, SHORT_QUEUE, SHORT_QUEUE),
    ),
    Situation(
        "real-last-bucket-15k", program="ncat", rate="200mbit", rtt="50ms", queue="2000p", **ROUTED,
        prepare=bucket("far0", "18mbit", "15kb", "18kb"),
        server=(("server", "exec ncat -l 5000 --recv-only > /dev/null"),),
        client=from_client("ncat --send-only $S 5000 < /dev/zero"),
        why="a token bucket of 15 kB, and 18 kB wait at most",
        watch=both(5000, SHORT_QUEUE, SHORT_QUEUE),
    ),
    Situation(
        "real-last-loss", program="caddy", rate="100mbit", rtt="30ms", **ROUTED, prepare=FILES,
        path=("--loss", "0.4%"),
        server=(("server", "exec env HOME=$W XDG_DATA_HOME=$W caddy file-server --root $W --listen "
                           ":8080"),), settle=2, client=from_client("curl -so /dev/null "
                                                                    "http://$S:8080/big"),
        why="four packets of 1000 are lost, and CUBIC slows down",
        watch=down(8080, LOSS, healthy(*TAKES.accept, also=("random-loss",))),
    ),
    Situation(
        "real-last-loss-upload", program="socat", rate="50mbit", rtt="60ms", **ROUTED,
        path=("--loss", "0.2%"), server=SINK, client=SOURCE,
        why="two packets of 1000 are lost, and CUBIC slows down",
        watch=both(5000, LOSS, healthy(*TAKES.accept, also=("random-loss",))),
    ),
    Situation(
        "real-last-node-reader", program="node", rate="50mbit", rtt="25ms",
        **{**ROUTED, "warm_up": 14}, prepare=FILES, server=TWISTED, settle=2,
        client=(("client", "sleep 0.3; exec " + NODE_SLOW),),
        why="the client pauses 40 ms after each block of at most 64 kB",
        watch=down(8080, fault("slow-reader", "peer-window"), fault("slow-reader", "peer-window")),
    ),
    windows("real-last-window-40k", 40_000, "60mbit", "40ms"),
    polls("real-last-poll-201", 0.201, "15ms"),
    Situation(
        "real-last-new-thinks", program="node", rate="50mbit", rtt="12ms", **ROUTED,
        server=(("server", "exec node -e 'require(\"http\").createServer((q, a) => setTimeout(() => "
                           "a.end(\"x\".repeat(900)), 120)).listen(8081)'"),), settle=1,
        client=from_client("ab -q -c 3 -n 1000000 http://$S:8081/"),
        why="each of many connections is answered after 120 ms, the path takes 12",
        watch=both(8081, THINKS, THINKS_HERE),
    ),
    Situation(
        "real-last-bursts", rate="60mbit", rtt="120ms", **{**ROUTED, "look": 14},
        server=push(400_000, 2.5), client=TAKE,
        why="400 kB each 2.5 s over 120 ms: the window restarts after each pause",
        watch=down(5000, RESTARTS, healthy(*TAKES.accept, also=("slow-start-after-idle",))),
    ),
]
