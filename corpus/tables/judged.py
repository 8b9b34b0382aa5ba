"""Situations that judge the rules on losses that come together, blocks of a program, and short
connections that agree: asyncpg, CherryPy, paho, pyftpdlib, dropbear, restic, Zstandard, Go, Java.

Labels were written down before any of them was run. They are captured at both ends and between.
"""

from .commands import FILES, NGINX, SSHD
from .elsewhere import (HELD_BACK, ROUTED, SHELL, SHORT_QUEUE, SINK, SOURCE, SSH, TAKE, down, push,
                       queue)
from .fitting_anew import FTP, VSFTPD
from .further import from_client
from .model import *
from .packages import SMALL_SNDBUF
from .seeming import LOSS, RESTARTS
from .services import ANSWER_128, POLICE, POLICED, POSTGRES, POSTGRES_SERVER
from .shaped import TWO_MOVES

PY = "$PY $H/programs/judged/judged.py"
GO = (("server", "go build -o $W/judged $H/programs/judged/judged.go"),)
JAVA = (("server", "javac -d $W $H/programs/judged/Judged.java"),)
FTPD = (("server", f"exec {PY} ftp 2121 30000 $W"),)
GET = from_client("curl -so /dev/null --disable-epsv ftp://$S:2121/big")
PUT = (("client", "sleep 0.3; exec curl -sT - --disable-epsv ftp://$S:2121/got < /dev/zero"),)
MOSQUITTO = (("server", "printf 'listener 1883\\nallow_anonymous true\\n' > m.conf; "
                        "exec mosquitto -c m.conf"),)
WINDOW = fault("rcvbuf-locked", "peer-window", "window-scaling-off")
LOSS_SEEN = healthy(*TAKES.accept, also=("random-loss",))
TO_SSH = "-o \"sftp.command=" + SSH + " root@$S -s sftp\""


def pages(count, think):
    return (("server", f"exec {PY} pages 8080 {count} {think}"),)


def asked_by(clients):
    return tuple(("client", "while :; do curl -so /dev/null http://$S:8080/; done")
                 for _ in range(clients))


SITUATIONS = [
    # Losses by chance, and those of a short queue or a policer.
    Situation(
        "judged-ftp-loss", program="pyftpdlib", rate="80mbit", rtt="25ms", **ROUTED, prepare=FILES,
        path=("--loss", "0.5%"), server=FTPD, settle=1, client=GET,
        why="five packets of 1000 are lost, and CUBIC gets about 10 of 80 Mbit/s",
        watch=down(30000, LOSS, LOSS_SEEN),
    ),
    Situation(
        "judged-ftp-pfifo-15", program="pyftpdlib", rate="300mbit", rtt="70ms", queue="2000p",
        **ROUTED, prepare=queue("far0", "25mbit", 15), server=FTPD, settle=1, client=PUT,
        why="a router's queue of 15 packets in front of 25 Mbit/s, whose BDP is 146 packets",
        watch=both(30000, SHORT_QUEUE, SHORT_QUEUE),
    ),
    Situation(
        "judged-axel-pfifo-9", program="axel", rate="300mbit", rtt="28ms", queue="2000p", **ROUTED,
        prepare=(*FILES, *queue("lab0", "40mbit", 9)), server=NGINX,
        client=from_client("axel -q -n 3 -o got http://$S/big"),
        why="three connections share 40 Mbit/s and a queue of 9 packets",
        watch=down(80, SHORT_QUEUE, SHORT_QUEUE),
    ),
    Situation(
        "judged-ftp-police", program="pyftpdlib", rate="200mbit", rtt="20ms", queue="2000p",
        **ROUTED, prepare=(("router", POLICE.format(dev="lab0", rate="5000 kbytes/second",
                                                    burst="80 kbytes")),),
        server=FTPD, settle=1, client=PUT,
        why="what exceeds 40 Mbit/s is dropped on arrival, with a bucket of 80 kB",
        watch=both(30000, POLICED, POLICED),
    ),
    Situation(
        "judged-reno-loss", program="socat", rate="60mbit", rtt="45ms", cc="reno", **ROUTED,
        path=("--loss", "0.3%"), server=SINK, client=SOURCE,
        why="three packets of 1000 are lost, and Reno gets about 6 of 60 Mbit/s",
        watch=both(5000, LOSS, LOSS_SEEN),
    ),
    Situation(
        "judged-reno-pfifo-25", program="socat", rate="300mbit", rtt="36ms", queue="2000p",
        cc="reno", **ROUTED, prepare=queue("far0", "35mbit", 25), server=SINK, client=SOURCE,
        why="Reno in front of 35 Mbit/s with a queue of 25 packets, whose BDP is 105 packets",
        watch=both(5000, SHORT_QUEUE, SHORT_QUEUE),
    ),
    # A program that sets the rate, with drops or without.
    Situation(
        "judged-go-chunks-loss", program="go", rate="50mbit", rtt="8ms", **ROUTED, prepare=GO,
        path=("--loss", "0.2%"), server=(("server", "exec $W/judged chunks 8080 30000 20"),),
        client=from_client("curl -sNo /dev/null http://$S:8080/"),
        why="Go writes 30 kB each 20 ms, 12 of 50 Mbit/s, which losses of 0.2 % leave",
        watch=down(8080, PACED, HELD_BACK),
    ),
    Situation(
        "judged-paho-blocks", program="paho", rate="200mbit", rtt="22ms", queue="2000p", **ROUTED,
        prepare=queue("far0", "30mbit", 25), server=MOSQUITTO, settle=1,
        client=from_client(f"{PY} publish $S 100000 0.1 0"),
        why="messages of 100 kB ten times a second, 8 of 30 Mbit/s, overflow 25 packets",
        watch=both(1883, PACED, HELD_BACK),
    ),
    Situation(
        "judged-restic-limit", program="restic", rate="50mbit", rtt="30ms",
        **{**ROUTED, "warm_up": 9, "look": 8}, path=("--loss", "0.2%"),
        prepare=(*SSHD, ("client", "head -c 60000000 /dev/urandom > big")), server=SHELL, settle=1,
        client=(("client", "sleep 0.3; export RESTIC_PASSWORD=x RESTIC_CACHE_DIR=$W/c; "
                           "restic -q " + TO_SSH + " -r sftp:root@$S:$W/repo init; "
                           "exec restic -q --limit-upload 300 " + TO_SSH +
                           " -r sftp:root@$S:$W/repo backup big"),),
        why="--limit-upload 300: 2.4 of 50 Mbit/s, which losses of 0.2 % leave",
        watch=both(2222, PACED, HELD_BACK),
    ),
    Situation(
        "judged-disk-blocks", program="socat", rate="200mbit", rtt="30ms", queue="2000p", **ROUTED,
        prepare=queue("far0", "40mbit", 30), server=SINK,
        client=(("client", "sleep 0.3; while :; do dd if=/dev/zero bs=400k count=1 2>/dev/null; "
                           "sleep 0.3; done | socat -u - TCP:$S:5000"),),
        why="a producer has 400 kB each 0.3 s, 11 of 40 Mbit/s, which overflow 30 packets",
        watch=both(5000, PACED, HELD_BACK),
    ),
    Situation(
        "judged-zstd", program="zstd", rate="200mbit", rtt="20ms", queue="2000p", **ROUTED,
        server=SINK, client=(("client", "sleep 0.3; tar cf - /usr/lib /usr/share 2>/dev/null | "
                                        "zstd -q -15 | socat -u - TCP:$S:5000"),),
        why="Zstandard compresses less than 40 of 200 Mbit/s",
        watch=both(5000, healthy(*PACED.accept, "cpu-bound"), HELD_BACK),
    ),
    Situation(
        "judged-dropbear-window", program="dropbear", rate="50mbit", rtt="40ms", **ROUTED,
        prepare=SSHD, server=SHELL, settle=1,
        client=from_client("sh -c \"dropbearconvert openssh dropbear key dkey 2>/dev/null; "
                           "dbclient -y -y -p 2222 -i dkey root@$S cat /dev/zero > /dev/null\""),
        why="dbclient lets 24 kB of its channel wait, 5 of 50 Mbit/s: the server waits for it",
        watch=down(2222, healthy("app-limited", "round-trip-bound", "unknown"), HELD_BACK),
    ),
    # Short connections of a service that agree.
    Situation(
        "judged-short-rmem", program="cherrypy", rate="50mbit", rtt="100ms",
        **{**ROUTED, "look": 8}, prepare=(sysctl("client", "net.ipv4.tcp_rmem=4096 32768 32768"),),
        server=pages(200_000, 0), settle=2, client=asked_by(4),
        why="200 kB on new connections, tcp_rmem[2] is 32 KiB and the BDP 625 kB",
        watch=down(8080, CAPPED_WINDOW, CAPPED_WINDOW),
    ),
    Situation(
        "judged-short-loss", program="cherrypy", rate="50mbit", rtt="60ms",
        **{**ROUTED, "look": 8}, path=("--loss", "2%"), server=pages(600_000, 0), settle=2,
        client=asked_by(4), why="600 kB on new connections, and two packets of 100 are lost",
        watch=down(8080, LOSS, LOSS_SEEN),
    ),
    Situation(
        "judged-short-full", program="cherrypy", rate="10mbit", rtt="30ms",
        **{**ROUTED, "look": 8}, queue="60p", server=pages(700_000, 0), settle=2,
        client=asked_by(4), why="four clients share 10 Mbit/s with downloads of 700 kB",
        watch=down(8080, FULL, healthy(*TAKES.accept)),
    ),
    # Windows, buffers, readers.
    Situation(
        "judged-java-slow", program="java", rate="60mbit", rtt="24ms", **{**ROUTED, "warm_up": 12},
        prepare=(*FILES, *JAVA), server=NGINX,
        client=from_client("java -cp $W Judged slow http://$S/big 50000 40"),
        why="the client reads 50 kB each 40 ms, 10 of 60 Mbit/s",
        watch=down(80, fault("slow-reader", "peer-window"), SLOW_READER),
    ),
    Situation(
        "judged-java-rcvbuf", program="java", rate="50mbit", rtt="50ms", **ROUTED, prepare=JAVA,
        server=(("server", "exec java -cp $W Judged sink 5000 24000"),), settle=2, client=SOURCE,
        why="setReceiveBufferSize(24000), the BDP is 312 kB", watch=both(5000, WINDOW, WINDOW),
    ),
    Situation(
        "judged-go-sndbuf", program="go", rate="50mbit", rtt="60ms", **ROUTED, prepare=GO,
        server=SINK, client=from_client("$W/judged upload $S:5000 20000"),
        why="SetWriteBuffer(20000), the BDP is 375 kB", watch=both(5000, SMALL_SNDBUF, HELD_BACK),
    ),
    # Queues, pauses, messages.
    Situation(
        "judged-ftp-bloat", program="pyftpdlib", rate="200mbit", rtt="24ms", queue="2000p",
        **{**ROUTED, "warm_up": 14}, prepare=(*FILES, *queue("lab0", "6mbit", 500)), server=FTPD,
        settle=1, client=GET, why="a download over 6 Mbit/s with a queue of 500 packets, 1 s",
        watch=down(30000, fault("bufferbloat"), BLOATED),
    ),
    Situation(
        "judged-two-ways", program="socat", rate="20mbit", rtt="40ms", queue="2bdp",
        **{**ROUTED, "warm_up": 7},
        server=(*SINK, ("server", "exec socat -u /dev/zero TCP-LISTEN:5001")),
        client=(*SOURCE, ("client", "sleep 0.3; exec socat -u TCP:$S:5001 /dev/null")),
        why="ACKs of an upload wait behind a download, and come together: both paths are full",
        watch=both(5000, TWO_MOVES, BLOATED),
    ),
    Situation(
        "judged-paho-bursts", program="paho", rate="80mbit", rtt="90ms", **{**ROUTED, "look": 14},
        server=MOSQUITTO, settle=1, client=from_client(f"{PY} publish $S 700000 2.5 0"),
        why="700 kB each 2.5 s over 90 ms: the window restarts after each pause",
        watch=both(1883, RESTARTS, healthy(*TAKES.accept, also=("slow-start-after-idle",))),
    ),
    Situation(
        "judged-asyncpg", program="asyncpg", rate="100mbit", rtt="25ms", **ROUTED,
        prepare=POSTGRES, server=(POSTGRES_SERVER,), settle=2,
        client=from_client(f"{PY} queries $S 'select 1'"), why="one query a round trip",
        watch=both(5432, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "judged-go-nagle", program="go", rate="100mbit", rtt="3ms", **ROUTED, prepare=GO,
        server=ANSWER_128, client=from_client("$W/judged pieces $S:5000"),
        why="two pieces in two writes with Nagle's algorithm, then a read",
        watch=both(5000, STALLS, STALLS),
    ),
]

RESTARTED = healthy(*TAKES.accept, also=("slow-start-after-idle",))
# Of what was mended with those above: run once, afterwards.
SITUATIONS += [
    Situation(
        "judged-again-paho", program="paho", rate="70mbit", rtt="110ms", **{**ROUTED, "look": 13},
        server=MOSQUITTO, settle=1, client=from_client(f"{PY} publish $S 500000 2 0"),
        why="500 kB each 2 s over 110 ms: the window restarts after each pause",
        watch=both(1883, RESTARTS, RESTARTED),
    ),
    Situation(
        "judged-again-asyncio", rate="60mbit", rtt="70ms", **{**ROUTED, "look": 13},
        server=push(600_000, 1.8), client=TAKE,
        why="600 kB each 1.8 s over 70 ms: the window restarts after each pause",
        watch=down(5000, RESTARTS, RESTARTED),
    ),
    Situation(
        "judged-again-kept", program="paho", rate="80mbit", rtt="90ms", **{**ROUTED, "look": 13},
        prepare=(sysctl("client", "net.ipv4.tcp_slow_start_after_idle=0"),),
        server=MOSQUITTO, settle=1, client=from_client(f"{PY} publish $S 700000 2.5 0"),
        why="700 kB each 2.5 s over 90 ms, and the window is kept over pauses",
        watch=both(1883, PACED, HELD_BACK),
    ),
    Situation(
        "judged-again-own-queue", program="socat", rate="200mbit", rtt="20ms", queue="2000p",
        **{**ROUTED, "warm_up": 9},
        prepare=(("client", "tc qdisc replace dev lab0 root tbf rate 8mbit burst 20kb limit 600kb"),),
        server=SINK, client=SOURCE, why="an upload over 8 Mbit/s of its own interface, whose queue "
                                        "holds 600 ms",
        watch=both(5000, fault("bufferbloat", also=("local-qdisc-drops",)), BLOATED),
    ),
    Situation(
        "judged-again-router-queue", program="pyftpdlib", rate="200mbit", rtt="30ms",
        queue="2000p", **{**ROUTED, "warm_up": 9}, prepare=(*FILES, *queue("lab0", "10mbit", 400)),
        server=FTPD, settle=1, client=GET,
        why="a download over 10 Mbit/s with a queue of 400 packets, 480 ms",
        watch=down(30000, fault("bufferbloat"), BLOATED),
    ),
]

STREAM = healthy("app-limited", "paced", "idle", "unknown", "slow-reader", also=("slow-reader",))
# Of what receivers say of queues, on which the rule was not made: four that are bloated, and eight
# that look like it, since their sender pauses, is held back or is far away.
SITUATIONS += [
    Situation(
        "judged-here-ftp", program="vsftpd", rate="8mbit", rtt="25ms", queue="500p", prepare=FTP,
        server=VSFTPD, settle=1, client=from_client("curl -so /dev/null ftp://$S/big"), warm_up=12,
        look=6, why="a download fills a queue of 0.75 s",
        watch={"client": Watched("sport > :30000 and dport > :1024", fault("bufferbloat"))},
    ),
    Situation(
        "judged-here-slow", program="nginx", rate="2mbit", rtt="50ms", queue="150p", prepare=FILES,
        server=NGINX, client=from_client("wget -qO /dev/null http://$S/big"), warm_up=14, look=6,
        why="a download over 2 Mbit/s fills a queue of 0.9 s",
        watch=at_sender(80, fault("bufferbloat")),
    ),
    Situation(
        "judged-here-four", program="nginx", rate="12mbit", rtt="30ms", queue="600p", prepare=FILES,
        server=NGINX, client=tuple(line for _ in range(4)
                                   for line in from_client("curl -so /dev/null http://$S/big")),
        warm_up=12, look=6, why="four downloads fill a queue of 0.6 s",
        watch=at_sender(80, fault("bufferbloat")),
    ),
    Situation(
        "judged-here-up", program="nginx", rate="10mbit", rtt="30ms", queue="500p", prepare=FILES,
        server=(*NGINX, ("server", "exec iperf3 -s")), settle=1,
        client=(*from_client("curl -so /dev/null http://$S/big"),
                *from_client("iperf3 -c $S -t 100 > /dev/null")), warm_up=12, look=6,
        why="an upload beside the download: both queues are deep, of 0.6 s each",
        watch=at_sender(80, fault("bufferbloat")),
    ),
    Situation(
        "judged-not-here-full", program="nginx", rate="10mbit", rtt="80ms", queue="1bdp",
        prepare=FILES, server=NGINX, client=from_client("curl -so /dev/null http://$S/big"),
        warm_up=8, why="a queue of a round trip, 80 ms, is filled", watch=at_sender(80, TAKES),
    ),
    Situation(
        "judged-not-here-limit", program="nginx", rate="20mbit", rtt="20ms", prepare=FILES,
        server=NGINX, client=from_client("curl -so /dev/null http://$S:81/big"), warm_up=6,
        why="limit_rate is 500 kB/s: a burst now and then", watch=at_sender(81, TAKES),
    ),
    Situation(
        "judged-not-here-curl", program="curl", rate="50mbit", rtt="20ms", prepare=FILES,
        server=NGINX, client=from_client("curl --limit-rate 600k -so /dev/null http://$S/big"),
        warm_up=8, why="curl takes 600 kB/s", watch=at_sender(80, STREAM),
    ),
    Situation(
        "judged-not-here-bbr", program="nginx", rate="15mbit", rtt="40ms", queue="600p", cc="bbr",
        prepare=FILES, server=NGINX, client=from_client("curl -so /dev/null http://$S/big"),
        warm_up=10, why="BBR leaves a deep queue nearly empty", watch=at_sender(80, TAKES),
    ),
    Situation(
        "judged-not-here-far", program="nginx", rate="20mbit", rtt="400ms", queue="1bdp",
        prepare=FILES, server=NGINX, client=from_client("curl -so /dev/null http://$S/big"),
        warm_up=14, why="a path of 400 ms", watch=at_sender(80, TAKES),
    ),
    Situation(
        "judged-not-here-lossy", program="nginx", rate="30mbit", rtt="60ms", queue="500p",
        path=("--loss", "0.5%"), prepare=FILES, server=NGINX,
        client=from_client("curl -so /dev/null http://$S/big"), warm_up=8,
        why="random losses keep the window small", watch=at_sender(80, LOSS_SEEN),
    ),
    Situation(
        "judged-not-here-sndbuf", program="nginx", rate="50mbit", rtt="60ms", queue="500p",
        prepare=(*FILES, ("server", "sed -i 's/listen 80/listen 80 sndbuf=32k/' nginx.conf")),
        server=NGINX, client=from_client("curl -so /dev/null http://$S/big"), warm_up=6,
        why="nginx's send buffer is the limit", watch=at_sender(80, TAKES),
    ),
    Situation(
        "judged-not-here-push", program="ruby", rate="40mbit", rtt="30ms",
        server=(("server", "exec ruby $H/programs/fitting/bursts.rb 5000 100000 0.25"),), settle=2,
        client=from_client("nc -d $S 5000 > /dev/null"), warm_up=6,
        why="100 kB four times a second", watch=at_sender(5000, TAKES),
    ),
]
