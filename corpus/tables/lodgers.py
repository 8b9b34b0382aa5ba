"""Situations of programs that no table before has: libevent's evhttp, Asio, OCaml's channels, fasthttp, Jetty, Derby,
Hazelcast, http-server of Node, pypiserver and pip, Fossil, Chromium, GStreamer, Snapcast, sysbench, mydumper, Pascal, locust, HTTPie.

Labels were written down before any of them was run. What sets a buffer is what their documentation says: evhttp writes
16 kB at a time at most; Hazelcast sets both buffers to 128 kB; Derby's client asks for a block of 32 kB of rows, and
then for the next one; `tcpclientsrc` reads 4096 bytes at a time.
"""

from .callers import SOME_BACK
from .elsewhere import HELD_BACK
from .fitting_anew import MARIADB, MARIADB_SERVER
from .further import from_client
from .model import *
from .packages import SMALL_SNDBUF
from .seeming import LOSS, PAGES, RESTARTS
from .services import POLICE, POLICED
from .visitors import BUILT, LOSS_SEEN, NAGLE, STARTS, server

OCAML = f"{BUILT}/lodgers-ocaml"
FAST = f"{BUILT}/lodgers-fasthttp"
JAVA = f"java -cp \"{BUILT}/lodgers:{BUILT}/lodgers/jars/*\""
DERBY = server(f"{JAVA} org.apache.derby.drda.NetworkServerControl start -h 0.0.0.0 -noSecurityManager")
ASIO_ASKS = f"{BUILT}/lodgers-asio ask $S 5000"
GET = from_client("curl -sNo /dev/null http://$S:8080/8000000000")
FAST_SERVER = server(f"{FAST} serve 8080")
HTTP_SERVER = server(f"node {BUILT}/lodgers/node_modules/http-server/bin/http-server -p 8080 -c-1 -s .")
PAGE = (("server", "head -c 140000 /dev/urandom > page"),)
ANEW = tuple(("client", "sleep 0.4; while :; do curl -so /dev/null http://$S:8080/page; done") for _ in range(3))
WHEEL = (("server", "mkdir p && truncate -s 900M p/lodger-1.0-py3-none-any.whl"),)
PYPI = server("$FITPY -m pypiserver run -p 8080 -i 0.0.0.0 --hash-algo off p")
PIP = from_client("$FITPY -m pip download -q --no-deps --no-cache-dir --trusted-host $S "
                  "-i http://$S:8080/simple lodger -d d")
FOSSIL = (("server", "export HOME=$W; export USER=a; fossil new -A a r.fossil > /dev/null && truncate -s 300M big && "
                     "fossil uv add big -R r.fossil && fossil user capabilities nobody oz -R r.fossil > /dev/null"),)
FOSSIL_SERVER = server("env HOME=$W fossil server --nojail --max-latency 900 --port 8080 r.fossil")
FOSSIL_GETS = from_client("curl -sNo /dev/null http://$S:8080/uv/big")
CHROMIUM = from_client("chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage "
                       "--user-data-dir=$W/profile http://$S:8080/")
GST_RAW = ("gst-launch-1.0 -q videotestsrc {} ! video/x-raw,format=I420,width=320,height=240,framerate={}/1 ! "
           "tcpserversink host=0.0.0.0 port=5000 sync={} sync-method=latest recover-policy=none buffers-max=40 "
           "buffers-soft-max=20")
SNAP = (("server", "head -c 100000000 /dev/urandom > pcm"),)
SNAP_SERVER = server("env HOME=$W snapserver -c $W/lodgers-snap.conf")
SNAP_CLIENT = from_client("env HOME=$W snapclient -h $S --player file:filename=/dev/null")
SYSBENCH = "sysbench --mysql-host={} --mysql-user=root --mysql-db=lab --db-driver=mysql --table-size=60000 {}"
BENCH_TABLE = ("server", "sleep 3; mariadb --no-defaults --skip-ssl -h 127.0.0.1 -u root -e 'create database lab'; "
               + SYSBENCH.format("127.0.0.1", "oltp_read_only prepare"))
BENCH_SERVER = (*MARIADB_SERVER, BENCH_TABLE)
DUMPER = from_client("sh -c 'while :; do rm -rf d; mydumper -h $S -u root -B lab -t 1 -o d; done'")
PASCAL = f"{BUILT}/lodgers-pascal"
CALLS = from_client(f"{PASCAL} calls $S 5000 2")
USERS = (("client", "printf 'from locust import *\nclass U(HttpUser):\n wait_time = between(0.1, 0.5)\n @task\n"
          " def t(self): self.client.get(\"/2000\")\n' > users.py; "
          "exec $FITPY -m locust -f users.py --headless -u 5 -r 5 -H http://$S:8080 --only-summary"),)
CONFIGS = {"lodgers-snap.conf": """
[server]
datadir = @W@
[http]
enabled = false
[tcp]
enabled = false
[stream]
bind_to_address = 0.0.0.0
port = 1704
source = file:///@W@/pcm?name=lab&sampleformat=48000:16:2&codec=pcm
"""}


def evhttp(sndbuf=0):
    return server(f"{BUILT}/lodgers-evhttp 8080 8000000000 {sndbuf}")


SITUATIONS = [
    # What is asked and answered.
    Situation(
        "lodger-asio-nagle", program="asio", rate="100mbit", rtt="15ms",
        server=server(f"{BUILT}/lodgers-asio answer 5000"), client=from_client(f"{ASIO_ASKS} nagle"), warm_up=4,
        # At first TAKES at the server, which can tell: messages arrive in pieces.
        why="the length and the body of a call are two writes, with Nagle on", watch=both(5000, NAGLE, SOME_BACK),
    ),
    Situation(
        "lodger-asio-nodelay", program="asio", rate="100mbit", rtt="15ms",
        server=server(f"{BUILT}/lodgers-asio answer 5000"), client=from_client(f"{ASIO_ASKS} nodelay"), warm_up=4,
        why="the same with no_delay", watch=both(5000, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "lodger-derby-rows", program="derby", rate="100mbit", rtt="30ms", server=DERBY, settle=5,
        client=from_client(f"{JAVA} Lodgers rows $S"), warm_up=14, look=7,
        why="rows come 32 kB at a time, each block asked for when the one before is read",
        watch=both(1527, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "lodger-sysbench-points", program="sysbench", rate="100mbit", rtt="12ms", prepare=MARIADB, server=BENCH_SERVER,
        settle=14, client=from_client(SYSBENCH.format("$S", "--time=900 oltp_point_select run")), warm_up=4,
        why="one row is asked for after the other", watch=both(3306, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "lodger-hazel-puts", program="hazelcast", rate="100mbit", rtt="25ms", server=server(f"{JAVA} Lodgers grid $S"),
        settle=9, client=from_client(f"{JAVA} Lodgers puts $S 500 1"), warm_up=8,
        why="a put of 500 bytes, one by one", watch=both(5701, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    # New connections, pauses.
    Situation(
        "lodger-ocaml-new", program="ocaml", rate="80mbit", rtt="90ms", server=server(f"{OCAML} serve 5000 130000"),
        settle=1, client=from_client(f"{OCAML} fetch $S 5000 0") * 3, warm_up=4, look=8,
        why="130 kB on new connections, of a process each, take four round trips",
        watch=both(5000, PAGES, STARTS),
    ),
    Situation(
        "lodger-http-server-new", program="http-server", rate="60mbit", rtt="120ms", prepare=PAGE, server=HTTP_SERVER,
        settle=2, client=ANEW, warm_up=5, look=8, why="140 kB on new connections take four round trips",
        watch=both(8080, PAGES, STARTS),
    ),
    Situation(
        "lodger-ocaml-small", program="ocaml", rate="80mbit", rtt="90ms", server=server(f"{OCAML} serve 5000 9000"),
        settle=1, client=from_client(f"{OCAML} fetch $S 5000 0") * 3, warm_up=4, look=8,
        why="9 kB on new connections, which fit into the first window", watch=both(5000, PAGES, PAGES),
    ),
    Situation(
        "lodger-fast-idle", program="fasthttp", rate="80mbit", rtt="110ms", server=FAST_SERVER, settle=1,
        client=from_client(f"{FAST} get http://$S:8080/350000 1600ms"), warm_up=9, look=13,
        why="350 kB after each pause of 1.6 s over 110 ms: the window restarts",
        watch=both(8080, healthy(*TAKES.accept, also=("slow-start-after-idle",)), RESTARTS),
    ),
    Situation(
        "lodger-fast-idle-small", program="fasthttp", rate="80mbit", rtt="110ms", server=FAST_SERVER, settle=1,
        client=from_client(f"{FAST} get http://$S:8080/10000 1600ms"), warm_up=9, look=13,
        why="10 kB after each pause, which fit into a window that restarted",
        watch=both(8080, PAGES, PAGES),
    ),
    # Buffers and windows.
    Situation(
        "lodger-evhttp-sndbuf", program="evhttp", rate="70mbit", rtt="30ms", server=evhttp(30000), settle=1, client=GET,
        warm_up=6, why="SO_SNDBUF is 30000, the BDP is 262 kB", watch=both(8080, TAKES, SMALL_SNDBUF),
    ),
    Situation(
        "lodger-evhttp-room", program="evhttp", rate="25mbit", rtt="30ms", server=evhttp(400000), settle=1, client=GET,
        warm_up=6, why="SO_SNDBUF is 400000, the BDP is 94 kB and the queue as large",
        watch=both(8080, TAKES, FULL),
    ),
    Situation(
        "lodger-jetty-sndbuf", program="jetty", rate="40mbit", rtt="80ms",
        server=server(f"{JAVA} Lodgers jetty 8080 40000"), settle=3, client=GET, warm_up=6,
        why="setAcceptedSendBufferSize is 40000, the BDP is 400 kB", watch=both(8080, TAKES, SMALL_SNDBUF),
    ),
    Situation(
        "lodger-hazel-buffers", program="hazelcast", rate="100mbit", rtt="70ms",
        server=server(f"{JAVA} Lodgers grid $S"), settle=9, client=from_client(f"{JAVA} Lodgers puts $S 200000 20"),
        warm_up=9, why="both buffers are 128 kB by default, the BDP is 875 kB, and 4 MB are asked for at once",
        watch=both(5701, fault("sndbuf-locked", "rcvbuf-locked", "peer-window", also=("sndbuf-tiny",)),
                   fault("rcvbuf-locked", "peer-window")),
    ),
    Situation(
        "lodger-ocaml-rcvbuf", program="ocaml", rate="60mbit", rtt="40ms",
        server=server(f"{OCAML} serve 5000 8000000000"), settle=1, client=from_client(f"{OCAML} fetch $S 5000 20000"),
        warm_up=6, why="SO_RCVBUF is 20000, the BDP is 300 kB", watch=both(5000, FIXED_WINDOW, FIXED_WINDOW),
    ),
    Situation(
        "lodger-fossil-wmem", program="fossil", rate="50mbit", rtt="60ms",
        prepare=(*FOSSIL, sysctl("server", "net.ipv4.tcp_wmem=4096 16384 64000")), server=FOSSIL_SERVER, settle=2,
        client=FOSSIL_GETS, warm_up=7, why="tcp_wmem[2] is 64000, the BDP is 375 kB",
        watch=both(8080, TAKES, fault("tcp-wmem-max-cap")),
    ),
    Situation(
        "lodger-pip-rmem", program="pip", rate="50mbit", rtt="60ms",
        prepare=(*WHEEL, sysctl("client", "net.ipv4.tcp_rmem=4096 32768 65536")), server=PYPI, settle=4, client=PIP,
        warm_up=8, why="tcp_rmem[2] is 64 KiB at the client, the BDP is 375 kB",
        watch=both(8080, CAPPED_WINDOW, CAPPED_WINDOW),
    ),
    # Readers and writers.
    Situation(
        "lodger-gst-slow", program="gstreamer", rate="80mbit", rtt="20ms",
        server=server("socat OPEN:/dev/zero TCP-LISTEN:5000,reuseaddr"), settle=1,
        client=from_client("gst-launch-1.0 -q tcpclientsrc host=$S port=5000 ! identity sleep-time=10000 ! fakesink"),
        warm_up=8, why="4096 bytes each 10 ms are read of what /dev/zero gives",
        watch=both(5000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "lodger-gst-live", program="gstreamer", rate="50mbit", rtt="30ms",
        server=server(GST_RAW.format("is-live=true", 10, "true")), settle=2,
        client=from_client("gst-launch-1.0 -q tcpclientsrc host=$S port=5000 ! fakesink"), warm_up=6, look=7,
        why="ten pictures of 115 kB a second, 9 of 50 Mbit/s", watch=both(5000, HELD_BACK, PACED),
    ),
    Situation(
        "lodger-snapcast", program="snapcast", rate="20mbit", rtt="30ms", prepare=SNAP, server=SNAP_SERVER, settle=3,
        client=SNAP_CLIENT, warm_up=6, look=7, why="1.5 Mbit/s of music, as fast as it plays",
        watch=both(1704, HELD_BACK, PACED),
    ),
    # Paths.
    Situation(
        "lodger-mydumper-full", program="mydumper", rate="8mbit", rtt="40ms", prepare=MARIADB, server=BENCH_SERVER,
        settle=14, client=DUMPER, warm_up=6, look=6, why="a dump fills a path of 8 Mbit/s",
        watch=both(3306, TAKES, FULL),
    ),
    Situation(
        "lodger-chromium-full", program="chromium", rate="25mbit", rtt="40ms", server=FAST_SERVER, settle=1,
        client=CHROMIUM, warm_up=9, why="a browser reads a stream as fast as it comes",
        watch=both(8080, TAKES, FULL),
    ),
    Situation(
        "lodger-pip-loss", program="pip", rate="40mbit", rtt="40ms", queue="2bdp", path=("--loss", "0.4%"),
        prepare=WHEEL, server=PYPI, settle=4, client=PIP, warm_up=9, look=8,
        why="four packets of 1000 are lost, and CUBIC gets about 10 of 40 Mbit/s",
        watch=both(8080, LOSS_SEEN, LOSS),
    ),
    Situation(
        "lodger-gst-bloat", program="gstreamer", rate="8mbit", rtt="30ms", queue="500p",
        server=server("gst-launch-1.0 -q tcpserversrc host=0.0.0.0 port=5000 ! fakesink sync=false"), settle=2,
        client=from_client("gst-launch-1.0 -q filesrc location=/dev/zero blocksize=65536 ! "
                           "tcpclientsink host=$S port=5000"), warm_up=16, look=7,
        why="a queue of 0.75 s is filled", watch=both(5000, fault("bufferbloat"), BLOATED),
    ),
    Situation(
        "lodger-evhttp-police", program="evhttp", rate="200mbit", rtt="25ms", router=True, queue="2000p",
        prepare=(("router", POLICE.format(dev="far0", rate="1500 kbytes/second", burst="60 kbytes")),),
        server=evhttp(), settle=1, client=GET, warm_up=7, look=7,
        why="a router drops what exceeds 12 Mbit/s, and has no queue",
        watch=both(8080, healthy(*TAKES.accept, "policed"), POLICED),
    ),
    # A second round, harder; labels were written after the rules had been mended and before this one was run.
    Situation(
        "lodger-again-pascal-nagle", program="pascal", rate="50mbit", rtt="40ms",
        server=server(f"{PASCAL} answers 5000"), settle=1, client=CALLS, warm_up=4,
        why="40 and 900 bytes of a call are two writes, over a path as long as a delayed ACK",
        watch=both(5000, NAGLE, SOME_BACK),
    ),
    Situation(
        "lodger-again-pascal-blocks", program="pascal", rate="50mbit", rtt="20ms",
        server=server("socat -u TCP-LISTEN:5000,reuseaddr OPEN:/dev/null"), settle=1,
        client=from_client(f"{PASCAL} gives $S 5000 100000 200"), warm_up=4,
        why="100 kB each 0.2 s, which takes a path of 50 Mbit/s 16 ms", watch=both(5000, PACED, HELD_BACK),
    ),
    Situation(
        "lodger-again-ocaml-anew", program="ocaml", rate="60mbit", rtt="40ms",
        server=server(f"{OCAML} serve 5000 3000000"), settle=1, client=from_client(f"{OCAML} fetch $S 5000 20000"),
        warm_up=6, look=8, why="SO_RCVBUF is 20000 on each new connection of 3 MB, which lasts 6 s",
        watch=both(5000, FIXED_WINDOW, FIXED_WINDOW),
    ),
    Situation(
        "lodger-again-evhttp-bbr", program="evhttp", rate="70mbit", rtt="30ms", cc="bbr", server=evhttp(30000),
        settle=1, client=GET, warm_up=6, why="SO_SNDBUF is 30000 under BBR, the BDP is 262 kB",
        watch=both(8080, TAKES, SMALL_SNDBUF),
    ),
    Situation(
        "lodger-again-fast-bbr", program="fasthttp", rate="20mbit", rtt="50ms", cc="bbr", server=FAST_SERVER, settle=1,
        client=GET, warm_up=7, why="BBR fills a path of 20 Mbit/s", watch=both(8080, TAKES, FULL),
    ),
    Situation(
        "lodger-again-locust", program="locust", rate="50mbit", rtt="25ms", server=FAST_SERVER, settle=1, client=USERS,
        warm_up=8, look=7, why="five users ask for 2 kB, and wait up to half a second",
        watch=both(8080, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
    Situation(
        "lodger-again-httpie", program="httpie", rate="15mbit", rtt="60ms", server=FAST_SERVER, settle=1,
        client=from_client("$FITPY -m httpie --ignore-stdin --download -o /dev/null http://$S:8080/8000000000"),
        warm_up=9, why="a download fills a path of 15 Mbit/s", watch=both(8080, TAKES, FULL),
    ),
    Situation(
        "lodger-again-jetty-reno", program="jetty", rate="50mbit", rtt="30ms", queue="2bdp", cc="reno",
        path=("--loss", "0.5%"), server=server(f"{JAVA} Lodgers jetty 8080 4000000"), settle=3, client=GET, warm_up=8,
        look=8, why="five packets of 1000 are lost under Reno, which gets about 5 of 50 Mbit/s",
        watch=both(8080, LOSS_SEEN, LOSS),
    ),
    Situation(
        "lodger-again-evhttp-clamp", program="evhttp", rate="60mbit", rtt="30ms",
        prepare=(("client", "ip route show dev lab0 | while read -r route; do ip route change $route dev lab0 "
                  "window 24000; done"),),
        server=evhttp(), settle=1, client=GET, warm_up=6, why="the client's route bounds its window to 24 kB",
        watch=both(8080, fault("peer-window", "rcvbuf-locked", "tcp-rmem-max-cap"), fault("peer-window")),
    ),
    Situation(
        "lodger-again-sysbench-rate", program="sysbench", rate="100mbit", rtt="12ms", prepare=MARIADB,
        server=BENCH_SERVER, settle=14,
        client=from_client(SYSBENCH.format("$S", "--time=900 --rate=5 oltp_point_select run")), warm_up=4,
        why="five rows are asked for in a second", watch=both(3306, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
    Situation(
        "lodger-again-ocaml-lan", program="ocaml", rate="1gbit", rtt="1ms", server=server(f"{OCAML} serve 5000 130000"),
        settle=1, client=from_client(f"{OCAML} fetch $S 5000 0") * 3, warm_up=4, look=6,
        why="130 kB on new connections over 1 ms: forks take longer than round trips",
        watch=both(5000, PAGES, PAGES),
    ),
    Situation(
        "lodger-again-six-bloat", program="evhttp", rate="8mbit", rtt="40ms", queue="500p", server=evhttp(), settle=1,
        client=GET * 6, warm_up=16, look=8, why="six downloads fill a queue of 0.75 s",
        watch=both(8080, BLOATED, fault("bufferbloat", also=("path-full",))),
    ),
]
