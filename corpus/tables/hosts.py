"""Situations in which a host, an interface or a box on the path does the harm, and their twins."""

from .commands import IPERF_SERVER, REDIS
from .model import *

CONFIGS = {
    # A firewall that forgets a connection after three idle seconds, and drops what it does not know.
    "forgets.nft": """
table ip forgets {
  chain input {
    type filter hook input priority 0; policy accept;
    ct state new tcp flags & (syn | ack) == syn accept
    ct state established,related accept
    meta l4proto tcp drop
  }
}
""",
}
IPERF = (("client", "exec iperf3 -c $S -t 100"),)
FORGETS = (
    ("server", "nft -f $W/forgets.nft && sysctl -qw net.netfilter.nf_conntrack_tcp_loose=0 "
               "net.netfilter.nf_conntrack_tcp_timeout_established=3"),
)
CUT = fault("idle-connection-cut")
OVERTAKEN = fault("reordering")
BUSY_REDIS = ("client", "exec redis-benchmark -h $S -c 1 -n 100000000 -t get")
PAUSES = ("client", "(echo ping; sleep 6; echo ping; sleep 100) | exec redis-cli -h $S")
# A pair of interfaces beside the emulated path, with no emulator between.
VETH = (
    ("client", "ip link add direct0 type veth peer name direct1 netns $SN && "
               "ip addr add 10.79.0.1/24 dev direct0 && ip link set direct0 up"),
    ("server", "ip addr add 10.79.0.2/24 dev direct1 && ip link set direct1 up"),
)
DIRECT_IPERF = (("client", "exec iperf3 -c 10.79.0.2 -t 100 -C cubic"),)


def overtaking(share, hold):
    return ("--set", f"path.reorder.share={share}", "--set", f"path.reorder.hold={hold}")


# Reads messages of two pieces, works on each for a while, and answers.
THINKER = (
    "exec $PY -c \"import socket, time\ns = socket.socket(); s.bind(('', 5000)); s.listen()\n"
    "c, _ = s.accept(); b = b''\nwhile True:\n b += c.recv(4096)\n"
    " while len(b) >= 110: b = b[110:]; time.sleep({seconds}); c.send(b'ok')\""
)
PHP_PIECES = (
    "sleep 0.4; exec php -r '$s = stream_socket_client(\"tcp://\" . getenv(\"S\") . \":5000\"); "
    "stream_set_write_buffer($s, 0); while (true) {{ fwrite($s, str_repeat(\"a\", {first})); "
    "fwrite($s, str_repeat(\"b\", {second})); fread($s, 2); }}'"
)
# Sends head and body of an answer apart, with TCP_NODELAY and work between them.
HEAD_BODY = (
    "exec $PY -c \"import socket, time\ns = socket.socket(); s.bind(('', 5000)); s.listen()\n"
    "c, _ = s.accept(); c.setsockopt(6, 1, 1)\nwhile c.recv(4096):\n"
    " c.send(b'h' * 100); time.sleep({seconds}); c.send(b'b' * 500)\""
)
ASKER = (
    "sleep 0.4; exec $PY -c \"import os, socket\ns = socket.create_connection((os.environ['S'], "
    "5000))\nwhile True:\n s.send(b'q' * 50); n = 0\n while n < 600: n += len(s.recv(4096))\""
)

SITUATIONS = [
    Situation(
        "nagle-php", program="php", **LAN, server=(("server", THINKER.format(seconds=0)),),
        client=(("client", PHP_PIECES.format(first=10, second=100)),),
        why="php writes a message in two pieces with Nagle on; none if it writes it at once",
        watch=both(5000, STALLS, STALLS),
    ),
    Situation(
        "php-one-write", program="php", **LAN, server=(("server", THINKER.format(seconds=0.04)),),
        client=(("client", PHP_PIECES.format(first=110, second=0)),),
        why="one write a message, and 40 ms of work on it",
        watch=both(5000, fault("application-thinks"), SOME_TRAFFIC),
    ),
    Situation(
        "nagle-answerer", **LAN, server=(("server", "exec $P answer 5000"),),
        client=(("client", "exec $P ask $S 5000 --writes 2"),),
        why="write, write, read with Nagle on, seen by who answers",
        watch=at_server(5000, STALLS),
    ),
    Situation(
        "nagle-cured-answerer", **LAN, server=(("server", "exec $P answer 5000"),),
        client=(("client", "exec $P ask $S 5000 --writes 2 --nodelay"),),
        why="the same with TCP_NODELAY", watch=at_server(5000, SOME_TRAFFIC),
    ),
    Situation(
        "nagle-node-client", program="node", **LAN,
        server=(("server", "exec node $H/programs/server.js nagle"),),
        client=(("client", "exec wrk -c 1 -t 1 -d 100 http://$S:8080/"),),
        why="node writes head and body apart with Nagle on, seen by its client",
        watch=at_sender(8080, STALLS),
    ),
    Situation(
        "nodelay-node-client", program="node", **LAN,
        server=(("server", "exec node $H/programs/server.js nodelay"),),
        client=(("client", "exec wrk -c 1 -t 1 -d 100 http://$S:8080/"),),
        why="the same with TCP_NODELAY", watch=at_sender(8080, SOME_TRAFFIC),
    ),
    Situation(
        "pieces-thought-about", **LAN, server=(("server", THINKER.format(seconds=0.04)),),
        client=(("client", "sleep 0.4; exec $PY -c \"import os, socket\n"
                           "s = socket.create_connection((os.environ['S'], 5000))\n"
                           "s.setsockopt(6, 1, 1)\nwhile True: s.send(b'a' * 10); "
                           "s.send(b'b' * 100); s.recv(2)\""),),
        why="two writes with TCP_NODELAY, and 40 ms of work on the message: no timer",
        watch=both(5000, fault("application-thinks"), SOME_TRAFFIC),
    ),
    Situation(
        "head-work-body", **LAN, server=(("server", HEAD_BODY.format(seconds=0.07)),),
        client=(("client", ASKER),),
        why="head, 70 ms of work, body, with TCP_NODELAY", watch=both(5000, SOME_TRAFFIC,
                                                                     SOME_TRAFFIC),
    ),
    Situation(
        "head-quick-body", **LAN, server=(("server", HEAD_BODY.format(seconds=0.02)),),
        client=(("client", ASKER),),
        why="head, 20 ms of work, body, with TCP_NODELAY", watch=both(5000, SOME_TRAFFIC,
                                                                     SOME_TRAFFIC),
    ),
    Situation(
        "overtaken-60ms", program="iperf3", rate="100mbit", rtt="20ms", queue="2bdp",
        path=overtaking("50%", "60ms"), server=IPERF_SERVER, client=IPERF,
        why="every second packet comes 60 ms late and none is lost: 6 of 100 Mbit/s, by CUBIC and "
            "by BBR",
        watch=both(5201, OVERTAKEN, TAKES),
    ),
    Situation(
        "overtaken-100ms-curl", program="curl", rate="50mbit", rtt="40ms", queue="2bdp",
        path=overtaking("50%", "100ms"),
        server=(("server", "truncate -s 8G big; exec $PY -m http.server 80"),),
        client=(("client", "sleep 0.5; exec curl -so /dev/null http://$S/big"),),
        why="every second packet comes 100 ms late and none is lost",
        watch=at_server(80, OVERTAKEN),
    ),
    Situation(
        "overtaken-80ms-rsync", program="rsync", rate="200mbit", rtt="10ms", queue="2bdp",
        path=overtaking("40%", "80ms"),
        server=(("server", "truncate -s 4G big; printf '[f]\\npath = %s\\nuid = 0\\n"
                           "use chroot = no\\n' $W > rsyncd.conf; "
                           "exec rsync --daemon --no-detach --config=rsyncd.conf --port=8730"),),
        client=(("client", "sleep 0.5; exec rsync -W rsync://$S:8730/f/big got"),),
        why="two packets of five come 80 ms late and none is lost",
        watch=at_server(8730, OVERTAKEN),
    ),
    Situation(
        "overtaken-30ms", program="iperf3", rate="50mbit", rtt="40ms", queue="2bdp",
        path=overtaking("30%", "30ms"), server=IPERF_SERVER, client=IPERF,
        why="three packets of ten come 30 ms late; the kernel adapts and fills the path",
        watch=both(5201, healthy("path-full", "app-limited"), TAKES),
    ),
    Situation(
        "overtaken-pings", program="redis", rate="100mbit", rtt="20ms",
        path=overtaking("50%", "10ms"), server=REDIS, client=(BUSY_REDIS,),
        why="packets come late and none can be overtaken: one is out at a time",
        watch=both(6379, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
    Situation(
        "forgotten-redis", program="redis", rtt="20ms", prepare=FORGETS, server=REDIS,
        client=(BUSY_REDIS, PAUSES), warm_up=7.5, look=6,
        why="a firewall forgets a connection that pauses, and another one lives",
        watch=at_sender(6379, CUT),
    ),
    Situation(
        "forgotten-postgres", program="postgres", rtt="20ms",
        prepare=FORGETS + (
            ("server", "mkdir pg && chown postgres pg && cd / && su postgres -s /bin/sh -c "
                       "\"initdb -D $W/pg -A trust --no-sync >/dev/null && "
                       "echo host all all all trust >> $W/pg/pg_hba.conf\""),
        ),
        server=(("server", "cd / && exec su postgres -s /bin/sh -c \"exec postgres -D $W/pg "
                           "-h '*' -k $W/pg -c fsync=off\""),), settle=2,
        client=(
            ("client", "(echo 'select 1;'; sleep 8; echo 'select 2;'; sleep 100) | "
                       "exec psql -h $S -U postgres postgres"),
            ("client", "(while :; do echo 'select 1;'; sleep 0.1; done) | "
                       "exec psql -h $S -U postgres postgres"),
        ),
        warm_up=9, look=8, why="a firewall forgets a session that pauses, and another one lives",
        watch=at_sender(5432, CUT),
    ),
    Situation(
        "paused-redis", program="redis", rtt="20ms", server=REDIS,
        client=(BUSY_REDIS, PAUSES), warm_up=7.5, look=6,
        why="a connection pauses for six seconds and is answered afterwards",
        watch=at_sender(6379, SOME_TRAFFIC),
    ),
    Situation(
        "paused-redis-dies", program="redis", rtt="20ms", server=REDIS,
        client=(("client", "(while :; do echo ping; sleep 0.05; done) | exec redis-cli -h $S"),
                PAUSES), warm_up=5,
        during=(("server", "ip link set lab0 down"),), look=8,
        why="the path dies for all connections, one of which paused before",
        watch=at_sender(6379, fault("path-dead")),
    ),
    Situation(
        "tso-off", program="iperf3", prepare=VETH + (("client", "ethtool -K direct0 tso off"),),
        server=IPERF_SERVER, client=DIRECT_IPERF,
        why="without segmentation offload 6.6 Gbit/s instead of 19.7",
        watch=at_sender(5201, fault("segmentation-offload-off")),
    ),
    Situation(
        "tso-gso-off", program="qperf",
        prepare=VETH + (("client", "ethtool -K direct0 tso off gso off"),),
        server=(("server", "exec qperf"),),
        client=(("client", "sleep 0.3; exec qperf -t 100 -m 64k 10.79.0.2 tcp_bw"),),
        why="without any segmentation offload 7.4 Gbit/s instead of 19.7",
        watch={"client": Watched("dst 10.79.0.2", fault("segmentation-offload-off"))},
    ),
    Situation(
        "tso-on", program="iperf3", prepare=VETH, server=IPERF_SERVER, client=DIRECT_IPERF,
        why="processors are the limit, with all offloads on",
        watch=at_sender(5201, healthy("cpu-bound", "path-full", "app-limited", "unknown",
                                      "peer-window")),
    ),
    Situation(
        "tso-off-slow", program="iperf3", rate="100mbit", rtt="10ms",
        prepare=(("client", "ethtool -K lab0 tso off gso off || true"),),
        server=IPERF_SERVER, client=IPERF,
        why="no processor is busy with 100 Mbit/s, however they are cut",
        watch=at_sender(5201, FULL),
    ),
    Situation(
        "bytes-overrun", rate="200mbit", rtt="20ms", queue="1000p", path=("--loss", "3%"), cc="bbr",
        server=(("server", "exec $PY -c \"import socket, time\ns = socket.socket()\n"
                           "s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 60000)\n"
                           "s.bind(('', 5000)); s.listen(); c, _ = s.accept()\n"
                           "while c.recv(100): time.sleep(0.02)\""),),
        warm_up=3,
        client=(("client", "exec $PY -c \"import os, socket, time\n"
                           "s = socket.create_connection((os.environ['S'], 5000))\n"
                           "s.setsockopt(6, 1, 1)\n"
                           "while True: [s.send(b'x') for _ in range(5)]; time.sleep(2e-4)\""),),
        why="segments of one byte fill the memory of a receive buffer long before its window: the "
            "kernel drops thousands (TcpExtRcvPruned); none with writes of 100 bytes",
        watch=at_server(5000, fault("receive-buffer-overrun", also=("slow-reader",))),
    ),
    Situation(
        "bytes-slow-reader", rate="200mbit", rtt="20ms", queue="1000p", cc="bbr", warm_up=3,
        server=(("server", "exec $PY -c \"import socket, time\ns = socket.socket()\n"
                           "s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 60000)\n"
                           "s.bind(('', 5000)); s.listen(); c, _ = s.accept()\n"
                           "while c.recv(100): time.sleep(0.02)\""),),
        client=(("client", "sleep 0.3; exec $PY -c \"import os, socket, time\n"
                           "s = socket.create_connection((os.environ['S'], 5000))\n"
                           "s.setsockopt(6, 1, 1)\n"
                           "while True: [s.send(b'x') for _ in range(5)]; time.sleep(2e-4)\""),),
        why="the same without losses: the kernel joins the segments, and drops none; the reader "
            "takes 5 kB a second",
        watch=at_server(5000, fault("slow-reader")),
    ),
    Situation(
        "records-no-overrun", rate="200mbit", rtt="20ms", queue="1000p", path=("--loss", "3%"),
        server=(("server", "exec $PY -c \"import socket, time\ns = socket.socket()\n"
                           "s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)\n"
                           "s.bind(('', 5000)); s.listen(); c, _ = s.accept()\n"
                           "while c.recv(65536): pass\""),),
        client=(("client", "sleep 0.3; exec $PY -c \"import os, socket, time\n"
                           "s = socket.create_connection((os.environ['S'], 5000))\n"
                           "s.setsockopt(6, 1, 1)\nwhile True: s.send(b'x' * 100); "
                           "time.sleep(0.002)\""),),
        why="500 records a second, three of a hundred lost on the wire: all others find room",
        watch=at_server(5000, TAKES),
    ),
]
