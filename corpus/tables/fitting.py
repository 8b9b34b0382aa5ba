"""Situations that `tcptailor fit --pid` is judged by: the JDK's web server, HTTP::Tiny, mbuffer, fio,
ZeroMQ, gRPC, S3 (moto and boto3), Paramiko, mini-httpd, webfs, Privoxy, rinetd, Icecast, sockperf,
WebSockets and server-sent events that push, Tcl, lighttpd, Caddy, HAProxy, pgbench, memcached.

Labels were written down before any of them was run: what limits the program, which setting helps,
how `fit` is to end, and what a kept change is to give.
"""

from .commands import FILES, SSHD
from .further import from_client
from .model import *
from .packages import SMALL_SNDBUF, WAITS_FOR_LOST
from .seeming import LOSS, PAGES, RESTARTS
from .services import POLICE, POLICED, POSTGRES, POSTGRES_SERVER

PY = "$FITPY $H/programs/fitting/fitting.py"


JAVA_PAGES = (("server", "javac -d $W $H/programs/fitting/Pages.java"),)
KEPT_PAGES = ("while True:\n c = http.client.HTTPConnection('$S', 5000)\n"
              " while True:\n  c.request('GET', '/')\n  c.getresponse().read()")
GET_PAGES = from_client(f"python3 -c \"import http.client\n{KEPT_PAGES}\"")


def java(bytes, think):
    return (("server", f"exec java -cp $W Pages 5000 {bytes} {think}"),)


def webfs():
    return ("server", "exec webfsd -F -p 8000 -r $W")


FIO_SINK = "exec fio --name=x --ioengine=net --rw=read --bs=64k --size=100g --listen --port=5000"
FIO_SOURCE = ("exec fio --name=x --ioengine=net --rw=write --bs=64k --size=100g --hostname=$S "
              "--port=5000")
MBUFFER = (("server", "mbuffer -q -4 -I 5000 -o /dev/null"),)
MOTO = (("server", "exec $(dirname $FITPY)/moto_server -H 0.0.0.0 -p 5000"),
        ("server", f"sleep 9; exec {PY} s3_put http://127.0.0.1:5000 100000000"))

TABLE = [
    (kept("server", "java", {"nagle-delack-stall"}, "nodelay", 10, 60), Situation(
        "fit-java-pages", program="java", **LAN, prepare=JAVA_PAGES, server=java(300, 0), settle=2,
        client=GET_PAGES, warm_up=4,
        why="the JDK's server writes head and body apart, with Nagle on: 40 ms a page",
        watch=both(5000, fault("nagle-delack-stall", "application-thinks"), STALLS),
    )),
    (kept("server", "java", {"nagle-delack-stall"}, "nodelay", 1.15, 1.6), Situation(
        "fit-java-thinks", program="java", rtt="4ms", prepare=JAVA_PAGES, server=java(300, 100),
        settle=2, client=GET_PAGES, warm_up=4,
        why="100 ms of work a page, and 40 ms of waiting for the ACK of its head",
        watch=both(5000, fault("nagle-delack-stall", "application-thinks"),
                   fault("nagle-delack-stall", "application-thinks")),
    )),
    (kept("client", "perl", {"nagle-delack-stall"}, "nodelay", 5, 60), Situation(
        "fit-perl-posts", program="perl", rate="100mbit", rtt="2ms", prepare=JAVA_PAGES,
        server=(("server", "exec java -Dsun.net.httpserver.nodelay=true -cp $W Pages 5000 10 0"),),
        settle=2, client=from_client("perl $H/programs/fitting/posts.pl http://$S:5000/ 500"),
        warm_up=4, why="HTTP::Tiny writes head and body apart, with Nagle on",
        watch=both(5000, STALLS, fault("nagle-delack-stall", "application-thinks")),
    )),
    # Labelled for mbuffer, whose --tcpbuffer turned out to set nothing.
    (kept("client", "socat", {"sndbuf-locked"}, "buf_lock", 1.5, 6), Situation(
        "fit-mbuffer-sndbuf", program="socat", rtt="40ms", server=MBUFFER,
        client=from_client("socat -u OPEN:/dev/zero TCP:$S:5000,sndbuf=32000"), warm_up=5,
        why="SO_SNDBUF is set to 32 kB, the BDP is 250 kB",
        watch=both(5000, SMALL_SNDBUF, TAKES),
    )),
    (kept("client", "fio", {"sndbuf-locked"}, "buf_lock", 1.08, 1.5), Situation(
        "fit-fio-nearly", program="fio", rate="20mbit", rtt="40ms", server=(("server", FIO_SINK),),
        client=(("client", FIO_SOURCE + " --window_size=40k"),), warm_up=5,
        why="fio's window_size sets SO_SNDBUF to 40 kB: some 80 % of the path",
        watch=both(5000, SMALL_SNDBUF, TAKES),
    )),
    (alone("server", "fio", "rcvbuf-locked", ending=("out-of-reach",)), Situation(
        "fit-fio-window", program="fio", rtt="30ms",
        server=(("server", FIO_SINK + " --window_size=20k"),), client=(("client", FIO_SOURCE),),
        warm_up=5, why="fio's window_size sets SO_RCVBUF to 20 kB before it listens: only a new "
                       "connection with another window_size helps",
        watch=both(5000, FIXED_WINDOW, fault("rcvbuf-locked")),
    )),
    (alone("client", "fio", "peer-window", "rcvbuf-locked"), Situation(
        "fit-fio-peer", program="fio", rtt="30ms",
        server=(("server", FIO_SINK + " --window_size=20k"),), client=(("client", FIO_SOURCE),),
        warm_up=5, why="the same from the sender: the other host's window",
        watch=both(5000, FIXED_WINDOW, fault("rcvbuf-locked")),
    )),
    (kept("client", "python", {"tcp-wmem-max-cap"}, "net.ipv4.tcp_wmem", 1.5, 6), Situation(
        "fit-zmq-wmem", program="zeromq", rtt="50ms",
        prepare=(sysctl("client", "net.ipv4.tcp_wmem=4096 16384 98304"),),
        server=(("server", f"exec {PY} zmq_pull 5000"),), settle=2,
        client=(("client", f"exec {PY} zmq_push $S:5000 50000"),), warm_up=5,
        why="tcp_wmem[2] is 96 KiB, the BDP is 310 kB",
        watch=both(5000, fault("tcp-wmem-max-cap"), TAKES),
    )),
    (alone("client", "python", "round-trip-bound"), Situation(
        "fit-zmq-asks", program="zeromq", rtt="15ms",
        server=(("server", f"exec {PY} zmq_reply 5000"),), settle=2,
        client=(("client", f"exec {PY} zmq_request $S:5000"),), warm_up=3,
        why="one request a round trip", watch=both(5000, BY_ROUND_TRIPS, SOME_TRAFFIC),
    )),
    (alone("client", "python", "application-thinks"), Situation(
        "fit-grpc-thinks", program="grpc", rtt="8ms",
        server=(("server", f"exec {PY} grpc_server 5000 0.06 300"),), settle=2,
        client=(("client", f"exec {PY} grpc_client $S:5000"),), warm_up=3,
        why="the server works 60 ms on each call", watch=both(5000, THINKS, THINKS_HERE),
    )),
    (alone("client", "python", "retransmission-timeouts", ending=("no-setting-helps",)), Situation(
        "fit-grpc-loss", program="grpc", rtt="10ms", path=("--loss", "3%"),
        server=(("server", f"exec {PY} grpc_server 5000 0 300"),), settle=2,
        client=(("client", f"exec {PY} grpc_client $S:5000"),), warm_up=3, look=8,
        why="each call that is lost is waited for by a timer; rto_min at both ends would help",
        watch=both(5000, WAITS_FOR_LOST, healthy(*SOME_TRAFFIC.accept,
                                                 also=("retransmission-timeouts",))),
    )),
    (kept("server", "moto_server", {"random-loss"}, "congestion", 2, 12), Situation(
        "fit-s3-loss", program="moto", rtt="40ms", queue="400p", path=("--loss", "1%"), server=MOTO,
        settle=16, client=(("client", f"exec {PY} s3_get http://$S:5000 0"),), warm_up=9, look=8,
        why="1 % random loss, and CUBIC", watch=both(5000, TAKES, LOSS),
    )),
    (kept("server", "webfsd", {"random-loss"}, "congestion", 1.1, 2.2), Situation(
        "fit-webfs-rare-loss", program="webfs", rate="20mbit", rtt="30ms", queue="200p",
        path=("--loss", "0.15%"), prepare=FILES, server=(webfs(),), settle=1,
        client=from_client("curl -so /dev/null http://$S:8000/big"), warm_up=7, look=10,
        why="0.15 % random loss leave CUBIC 10 to 15 of 20 Mbit/s",
        watch=both(8000, TAKES, LOSS),
    )),
    (alone("server", "moto_server", "path-full"), Situation(
        "fit-s3-full", program="moto", rate="20mbit", rtt="30ms", server=MOTO,
        settle=16, client=(("client", f"exec {PY} s3_get http://$S:5000 0"),), warm_up=9,
        why="one download fills 20 Mbit/s", watch=both(5000, TAKES, FULL),
    )),
    (alone("client", "python", "app-limited", "application-thinks", "round-trip-bound", "unknown",
           "paced", ending=("nothing-to-improve", "no-verdict")), Situation(
        "fit-paramiko", program="paramiko", rate="100mbit", rtt="60ms",
        prepare=(*SSHD, ("server", "truncate -s 200M big")),
        server=(("server", "exec /usr/sbin/sshd -D -e -f $W/sshd_config"),), settle=1,
        client=(("client", f"exec {PY} sftp_get $S 2222 $W/key $W/big"),), warm_up=4,
        why="Paramiko asks for one block of 32 kB a round trip",
        watch=both(2222, SOME_TRAFFIC, TAKES),
    )),
    (kept("client", "wget", {"tcp-rmem-max-cap"}, "net.ipv4.tcp_rmem", 1.4, 8), Situation(
        "fit-webfs-rmem", program="webfs", rate="80mbit", rtt="60ms",
        prepare=(("server", "truncate -s 10M ten"),
                 ("client", "yes http://$S:8000/ten | head -10000 > list"),
                 sysctl("client", "net.ipv4.tcp_rmem=4096 65536 131072")),
        server=(webfs(),), settle=1,
        client=(("client", "exec wget -q --no-http-keep-alive -O /dev/null -i list"),), warm_up=6,
        look=8, why="tcp_rmem[2] is 128 KiB, the BDP is 600 kB; a new connection each 10 MB",
        watch=both(8000, fault("tcp-rmem-max-cap"), fault("peer-window")),
    )),
    (kept("server", "webfsd", {"initcwnd-too-small"}, "route.initcwnd", 1.15, 2.5), Situation(
        "fit-webfs-pages", program="webfs", rate="100mbit", rtt="100ms",
        prepare=(("server", "head -c 120000 /dev/urandom > page"),), server=(webfs(),), settle=1,
        client=from_client("sh -c 'while :; do curl -so /dev/null http://$S:8000/page; done'"),
        warm_up=4, look=8, why="120 kB on new connections take four round trips with 10 segments",
        watch=both(8000, PAGES, fault("initcwnd-too-small")),
    )),
    (kept("server", "mosquitto", {"slow-start-after-idle"},
          "net.ipv4.tcp_slow_start_after_idle", 1.2, 6), Situation(
        "fit-mosquitto-bursts", program="mosquitto", rate="80mbit", rtt="100ms",
        prepare=(("server", "head -c 600000 /dev/urandom > message"),),
        server=(("server", "exec mosquitto -c $W/mosquitto.conf"),
                ("server", "sleep 2; while :; do mosquitto_pub -t x -f message; sleep 2.5; done")),
        settle=1, client=from_client("mosquitto_sub -h $S -t x -N"), warm_up=9, look=14,
        why="600 kB each 2.5 s over 100 ms: the window restarts after each pause",
        watch={"server": Watched("sport = :1883 and dst 10.77.0.1", RESTARTS)},
    )),
    (kept("client", "curl", {"bufferbloat"}, "congestion", 3, 60), Situation(
        "fit-curl-bloat", program="curl", rate="6mbit", rtt="20ms", queue="500p",
        server=(("server", FIO_SINK),), settle=2,
        client=from_client("sh -c 'exec curl -s telnet://$S:5000 < /dev/zero'"),
        warm_up=14, why="an upload fills a queue of a second",
        watch=both(5000, fault("bufferbloat"), TAKES),
    )),
    (alone("server", "webfsd", "policed", "path-full"), Situation(
        "fit-webfs-policed", program="webfs", rate="100mbit", rtt="30ms", queue="2000p",
        prepare=(*FILES, ("server", "ip link set lab0 gso_max_segs 1"),
                 ("client", POLICE.format(dev="lab0", rate="1500 kbytes/second",
                                          burst="40 kbytes"))), server=(webfs(),), settle=1,
        client=from_client("curl -so /dev/null http://$S:8000/big"), warm_up=7, look=10,
        why="what exceeds 12 Mbit/s is dropped on arrival", watch=both(8000, TAKES, POLICED),
    )),
    (alone("server", "webfsd", "slow-reader"), Situation(
        "fit-privoxy-slow", program="privoxy", rate="60mbit", rtt="20ms", prepare=FILES,
        server=(webfs(),), settle=1,
        client=(("client", "printf 'listen-address 127.0.0.1:8118\\n' > p.conf; "
                           "privoxy --no-daemon p.conf & sleep 1; "
                           "exec curl -so /dev/null --limit-rate 500k -x http://127.0.0.1:8118 "
                           "http://$S:8000/big"),), warm_up=12,
        why="a proxy takes 4 of 60 Mbit/s, since its own client takes no more",
        watch=both(8000, SLOW_READER, SLOW_READER),
    )),
    (alone("server", "icecast2", "app-limited", "paced", "application-thinks"), Situation(
        "fit-icecast", program="icecast", rtt="30ms",
        server=(("server", "chown nobody $W; exec icecast2 -c $W/icecast.xml"),
                ("server", "sleep 1; exec curl -s -u source:x -H 'Content-Type: audio/mpeg' "
                           "--limit-rate 40k -T /dev/zero http://$S:8000/live")), settle=3,
        client=from_client("curl -so /dev/null http://$S:8000/live"), warm_up=8,
        why="a stream of 320 kbit/s", watch=both(8000, TAKES, PACED),
    )),
    (alone("client", "sockperf", "round-trip-bound"), Situation(
        "fit-sockperf", program="sockperf", rate="1gbit", rtt="1ms", queue="1000p",
        server=(("server", "exec sockperf server --tcp -p 5000"),), settle=1,
        client=(("client", "exec sockperf ping-pong --tcp -i $S -p 5000 -t 300 -m 64"),), warm_up=3,
        why="one message a round trip", watch=both(5000, BY_ROUND_TRIPS, SOME_TRAFFIC),
    )),
    (kept("server", "rinetd", {"nagle-delack-stall"}, "nodelay", 4, 60), Situation(
        "fit-rinetd-pages", program="rinetd", rate="200mbit", rtt="3ms", prepare=JAVA_PAGES,
        server=(("server", "exec java -Dsun.net.httpserver.nodelay=true -cp $W Pages 5001 300 0"),
                ("server", "echo '0.0.0.0 5000 127.0.0.1 5001' > r.conf; exec rinetd -f -c r.conf")),
        settle=2, client=GET_PAGES, warm_up=4,
        why="a server without Nagle sends head and body apart, and a relay with Nagle holds the "
            "body back for 40 ms",
        watch=both(5000, fault("nagle-delack-stall", "application-thinks"), STALLS),
    )),
]
# Labelled when those above had been run and rules were mended, and before any of these was run.
IPERF_SIDE = ("client", "while :; do iperf3 -c $S -p 5300 -b 8M -t 2 > /dev/null; sleep 2; done")
LATER = [
    (kept("server", "python", {"nagle-delack-stall"}, "nodelay", 1.2, 2.0), Situation(
        "fit-later-python-pages", program="python", rtt="5ms",
        server=(("server", f"exec {PY} pages 5000 500 0.06"),), settle=2, client=GET_PAGES,
        warm_up=4, why="60 ms of work a page, and 40 ms of waiting for the ACK of its head",
        watch=both(5000, fault("nagle-delack-stall", "application-thinks"),
                   fault("nagle-delack-stall", "application-thinks")),
    )),
    (kept("server", "openssl", {"random-loss"}, "congestion", 1.4, 5), Situation(
        "fit-later-openssl-loss", program="openssl", rate="25mbit", rtt="40ms", queue="200p",
        path=("--loss", "0.2%"),
        prepare=(("server", "truncate -s 4G big; openssl req -x509 -newkey rsa:2048 -nodes -days 9 "
                            "-subj /CN=x -keyout k.pem -out c.pem 2> /dev/null"),),
        server=(("server", "exec openssl s_server -accept 4430 -key k.pem -cert c.pem -WWW -quiet"),),
        settle=1, client=from_client("curl -ksSo /dev/null https://$S:4430/big"), warm_up=8,
        look=10, why="0.2 % random loss leave CUBIC 8 to 12 of 25 Mbit/s",
        watch=both(4430, TAKES, LOSS),
    )),
    (kept("server", "python", {"bufferbloat"}, "congestion", 3, 60), Situation(
        "fit-later-python-bloat", program="python", rate="8mbit", rtt="25ms", queue="400p",
        prepare=(("server", "truncate -s 4G big"),),
        server=(("server", "exec $FITPY -m http.server 8000"),), settle=2,
        client=from_client("wget -qO /dev/null http://$S:8000/big"), warm_up=12,
        why="a download fills a queue of 0.6 s", watch=both(8000, TAKES, fault("bufferbloat")),
    )),
    (kept("server", "redis-server", {"slow-start-after-idle"},
          "net.ipv4.tcp_slow_start_after_idle", 1.2, 6), Situation(
        "fit-later-redis-bursts", program="redis", rate="60mbit", rtt="120ms",
        prepare=(("server", "head -c 400000 /dev/zero | tr '\\0' a > message"),),
        server=(("server", "exec redis-server --save '' --appendonly no --protected-mode no"),
                ("server", "sleep 2; while :; do redis-cli -x publish c < message; sleep 1.5; "
                           "done")),
        settle=1, client=from_client("sh -c 'redis-cli -h $S subscribe c > /dev/null'"), warm_up=9,
        look=14, why="400 kB each 1.5 s over 120 ms: the window restarts after each pause",
        watch={"server": Watched("sport = :6379 and dst 10.77.0.1", RESTARTS)},
    )),
    (kept("server", "mbuffer", {"tcp-rmem-max-cap"}, "net.ipv4.tcp_rmem", 1.4, 6), Situation(
        "fit-later-mbuffer-rmem", program="mbuffer", rtt="50ms",
        prepare=(sysctl("server", "net.ipv4.tcp_rmem=4096 65536 131072"),), server=MBUFFER,
        client=from_client("sh -c 'exec mbuffer -q -i /dev/zero -O $S:5000'"), warm_up=5,
        why="tcp_rmem[2] is 128 KiB, the BDP is 310 kB; the window scale has room",
        watch=both(5000, fault("peer-window"), fault("tcp-rmem-max-cap")),
    )),
    (alone("server", "python", "path-full"), Situation(
        "fit-later-python-full", program="python", rate="15mbit", rtt="25ms",
        prepare=(("server", "truncate -s 4G big"),),
        server=(("server", "exec $FITPY -m http.server 8000"),), settle=2,
        client=(("client", "for i in 1 2; do curl -so /dev/null http://$S:8000/big & done; wait"),),
        warm_up=9, why="two downloads fill 15 Mbit/s", watch=both(8000, TAKES, FULL),
    )),
    (alone("server", "uwsgi", "application-thinks", "app-limited"), Situation(
        "fit-later-uwsgi-thinks", program="uwsgi", rtt="6ms",
        server=(("server", "exec uwsgi --plugin python3 --http-socket 0.0.0.0:5000 --wsgi-file "
                           "$H/programs/fitting/fitting.py --callable wsgi "
                           "--disable-logging"),), settle=3,
        client=from_client("ab -q -n 1000000 http://$S:5000/"), warm_up=4,
        why="the server works 30 ms on each request, on a connection each",
        watch=both(5000, THINKS, THINKS_HERE),
    )),
    (kept("client", "fio", {"sndbuf-locked"}, "buf_lock", 1.3, 5), Situation(
        "fit-later-fio-beside", program="fio", rate="40mbit", rtt="40ms",
        server=(("server", FIO_SINK), ("server", "exec iperf3 -s -p 5300 > /dev/null")), settle=2,
        client=(("client", FIO_SOURCE + " --window_size=24k"), IPERF_SIDE), warm_up=6,
        why="SO_SNDBUF of 24 kB, beside another connection that carries 8 of 40 Mbit/s half the "
            "time", watch=both(5000, SMALL_SNDBUF, TAKES),
    )),
    (kept("server", "rsync", {"random-loss"}, "congestion", 2, 15), Situation(
        "fit-later-rsync-loss", program="rsync", rate="20mbit", rtt="50ms", queue="200p",
        path=("--loss", "2%"),
        prepare=(("server", "head -c 500000000 /dev/urandom > big; printf '[m]\npath=%s\nuse "
                            "chroot=no\nuid=root\ngid=root\n' $W > rsyncd.conf"),),
        server=(("server", "exec rsync --daemon --no-detach --port 8730 --config rsyncd.conf"),),
        settle=1, client=from_client("rsync -q rsync://$S:8730/m/big got"), warm_up=8, look=10,
        why="2 % random loss, and CUBIC", watch=both(8730, TAKES, LOSS),
    )),
]
TABLE = [*TABLE, *LATER]

# Labelled when rules were mended on all of those above, and before any of these was run.
LATEST = [
    (kept("server", "node", {"nagle-delack-stall"}, "nodelay", 1.3, 2.6), Situation(
        "fit-latest-node-pages", program="node", rtt="3ms",
        server=(("server", "exec node $H/programs/fitting/pages.js 5000 700 30"),), settle=2,
        client=GET_PAGES, warm_up=4,
        why="30 ms of work a page, and 40 ms of waiting for the ACK of its head",
        watch=both(5000, fault("nagle-delack-stall", "application-thinks"),
                   fault("nagle-delack-stall", "application-thinks")),
    )),
    (kept("server", "busybox", {"random-loss"}, "congestion", 1.3, 5), Situation(
        "fit-latest-busybox-loss", program="busybox", rate="15mbit", rtt="50ms", queue="200p",
        path=("--loss", "0.4%"), prepare=FILES,
        server=(("server", "exec busybox httpd -f -p 8000 -h $W"),), settle=1,
        client=from_client("curl -so /dev/null http://$S:8000/big"), warm_up=8, look=10,
        why="0.4 % random loss leave CUBIC 5 to 8 of 15 Mbit/s", watch=both(8000, TAKES, LOSS),
    )),
    (kept("client", "ncat", {"bufferbloat"}, "congestion", 3, 60), Situation(
        "fit-latest-ncat-bloat", program="ncat", rate="10mbit", rtt="30ms", queue="500p",
        server=(("server", "ncat -l 5000 > /dev/null"),), settle=1,
        client=from_client("sh -c 'exec ncat --send-only $S 5000 < /dev/zero'"), warm_up=12,
        why="an upload fills a queue of 0.6 s", watch=both(5000, fault("bufferbloat"), TAKES),
    )),
    (kept("server", "socat", {"slow-start-after-idle"},
          "net.ipv4.tcp_slow_start_after_idle", 1.2, 6), Situation(
        "fit-latest-socat-bursts", program="socat", rate="70mbit", rtt="90ms",
        prepare=(("server", "head -c 500000 /dev/zero > message"),),
        server=(("server", "while :; do cat message; sleep 1.8; done | exec socat -u - "
                           "TCP-LISTEN:5000"),),
        settle=1, client=from_client("sh -c 'nc -d $S 5000 > /dev/null'"), warm_up=9, look=14,
        why="500 kB each 1.8 s over 90 ms: the window restarts after each pause",
        watch={"server": Watched("sport = :5000", RESTARTS)},
    )),
    (alone("client", "redis-benchmark", "round-trip-bound"), Situation(
        "fit-latest-redis-asks", program="redis", rtt="10ms",
        server=(("server", "exec redis-server --save '' --appendonly no --protected-mode no"),),
        settle=1, client=(("client", "exec redis-benchmark -h $S -c 1 -n 100000000 -t get -q"),),
        warm_up=3, why="one request a round trip", watch=both(6379, BY_ROUND_TRIPS, SOME_TRAFFIC),
    )),
    (alone("client", "curl", "tcp-rmem-max-cap", ending=("out-of-reach",)), Situation(
        "fit-latest-curl-rmem", program="busybox", rtt="50ms",
        prepare=(*FILES, sysctl("client", "net.ipv4.tcp_rmem=4096 65536 131072")),
        server=(("server", "exec busybox httpd -f -p 8000 -h $W"),), settle=1,
        client=from_client("curl -so /dev/null http://$S:8000/big"), warm_up=6,
        why="tcp_rmem[2] is 128 KiB, and the open window is full in each round trip: the kernel "
            "will not grow it, and a larger maximum helps the next connection",
        watch=both(8000, fault("tcp-rmem-max-cap"), fault("peer-window")),
    )),
    (alone("client", "nc", "app-limited", "paced"), Situation(
        "fit-latest-pv", program="pv", rtt="25ms", server=(("server", "nc -l -p 5000 > /dev/null"),),
        client=from_client("sh -c 'pv -qL 700k /dev/zero | nc $S 5000'"), warm_up=4,
        why="pv lets 5.7 of 50 Mbit/s pass", watch=both(5000, PACED, TAKES),
    )),
    (kept("server", "python", {"initcwnd-too-small"}, "route.initcwnd", 1.15, 2.5), Situation(
        "fit-latest-python-new", program="python", rate="100mbit", rtt="80ms",
        prepare=(("server", "head -c 150000 /dev/urandom > page"),),
        server=(("server", "exec $FITPY -m http.server 8000"),), settle=2,
        client=from_client("sh -c 'while :; do curl -so /dev/null http://$S:8000/page; done'"),
        warm_up=4, look=8, why="150 kB on new connections take four round trips with 10 segments",
        watch=both(8000, PAGES, fault("initcwnd-too-small")),
    )),
]
TABLE = [*TABLE, *LATEST]
# Labelled when rules were mended for bursts, for stalls that come and go, and for what ends with its
# connection, and before any of these was run.
TCL = (("server", "exec tclsh $H/programs/fitting/pages.tcl 5000 400"),)
LIGHTTPD = (("server", "exec lighttpd -D -f $W/fit-lighttpd.conf"),)
BIG = "curl -so /dev/null http://$S:8000/big"
EXAMINED = [
    (kept("server", "python", {"slow-start-after-idle"},
          "net.ipv4.tcp_slow_start_after_idle", 1.2, 6), Situation(
        "fit-exam-websocket", program="websockets", rate="70mbit", rtt="110ms",
        server=(("server", f"exec {PY} websocket_push 5000 400000 1.6"),), settle=2,
        client=(("client", f"exec {PY} websocket_take ws://$S:5000"),), warm_up=9, look=14,
        why="400 kB each 1.6 s over 110 ms: the window restarts after each pause",
        watch={"server": Watched("sport = :5000", RESTARTS)},
    )),
    (kept("server", "tclsh", {"nagle-delack-stall"}, "nodelay", 5, 60), Situation(
        "fit-exam-tcl-pages", program="tcl", rate="500mbit", rtt="1ms", queue="500p", server=TCL,
        settle=1, client=GET_PAGES, warm_up=4,
        why="a server in Tcl flushes head and body apart, with Nagle on",
        watch=both(5000, fault("nagle-delack-stall", "application-thinks"), STALLS),
    )),
    (kept("server", "lighttpd", {"random-loss"}, "congestion", 2, 12), Situation(
        "fit-exam-lighttpd-loss", program="lighttpd", rate="30mbit", rtt="35ms", queue="200p",
        path=("--loss", "0.6%"), prepare=FILES, server=LIGHTTPD, settle=1,
        client=from_client(BIG), warm_up=8, look=10,
        why="0.6 % random loss leave CUBIC 4 to 8 of 30 Mbit/s", watch=both(8000, TAKES, LOSS),
    )),
    (kept("server", "caddy", {"tcp-wmem-max-cap"}, "net.ipv4.tcp_wmem", 1.5, 8), Situation(
        "fit-exam-caddy-wmem", program="caddy", rate="40mbit", rtt="60ms",
        prepare=(*FILES, sysctl("server", "net.ipv4.tcp_wmem=4096 16384 98304")),
        server=(("server", "HOME=$W exec caddy file-server --listen :8000 --root $W"),), settle=2,
        client=from_client(BIG), warm_up=6, why="tcp_wmem[2] is 96 KiB, the BDP is 300 kB",
        watch=both(8000, TAKES, fault("tcp-wmem-max-cap")),
    )),
    (kept("server", "haproxy", {"initcwnd-too-small"}, "route.initcwnd", 1.15, 2.5), Situation(
        "fit-exam-haproxy-new", program="haproxy", rate="100mbit", rtt="90ms",
        prepare=(("server", "head -c 130000 /dev/urandom > page"),),
        server=(("server", "exec busybox httpd -f -p 127.0.0.1:5001 -h $W"),
                ("server", "exec haproxy -f $W/fit-haproxy.cfg")), settle=2,
        client=from_client("sh -c 'while :; do curl -so /dev/null http://$S:8000/page; done'"),
        warm_up=4, look=8, why="130 kB on new connections take four round trips with 10 segments",
        watch=both(8000, PAGES, fault("initcwnd-too-small")),
    )),
    (alone("client", "pgbench", "round-trip-bound"), Situation(
        "fit-exam-pgbench", program="postgres", rtt="12ms", prepare=POSTGRES,
        server=(POSTGRES_SERVER,), settle=3,
        client=(("client", "echo 'select 1;' > one.sql; exec pgbench -n -h $S -U postgres -c 1 -T "
                           "600 -f one.sql postgres"),), warm_up=4,
        why="one statement a round trip", watch=both(5432, BY_ROUND_TRIPS, SOME_TRAFFIC),
    )),
    (alone("server", "memcached", "path-full"), Situation(
        "fit-exam-memcached-full", program="memcached", rate="12mbit", rtt="25ms",
        server=(("server", "exec memcached -u root -I 8m -l 0.0.0.0 -p 5000"),), settle=1,
        client=(("client", f"exec {PY} memcached_get $S 5000 5000000"),), warm_up=12,
        why="values of 5 MB, one after the other, fill 12 Mbit/s", watch=both(5000, TAKES, FULL),
    )),
    (alone("server", "python", "app-limited", "application-thinks",
           ending=("nothing-to-improve",)), Situation(
        "fit-exam-aiohttp-events", program="aiohttp", rtt="50ms",
        server=(("server", f"exec {PY} events 5000 2000 0.1"),), settle=2,
        client=from_client("curl -sNo /dev/null http://$S:5000/"), warm_up=5,
        why="an event of 2 kB each 100 ms", watch=both(5000, TAKES, PACED),
    )),
    (alone("server", "lighttpd", "path-full", ending=("nothing-to-improve",)), Situation(
        "fit-exam-bbr-loss", program="lighttpd", rate="20mbit", rtt="30ms", queue="200p", cc="bbr",
        path=("--loss", "1%"), prepare=FILES, server=LIGHTTPD, settle=1, client=from_client(BIG),
        warm_up=8, look=8, why="BBR fills the path in spite of 1 % losses",
        watch=both(8000, TAKES, FULL),
    )),
    (alone("server", "python", "app-limited", "application-thinks",
           ending=("nothing-to-improve",)), Situation(
        "fit-exam-small-bursts", program="aiohttp", rate="100mbit", rtt="15ms",
        server=(("server", f"exec {PY} events 5000 60000 1.2"),), settle=2,
        client=from_client("curl -sNo /dev/null http://$S:5000/"), warm_up=7,
        why="60 kB each 1.2 s over 15 ms: that the window restarts costs 30 ms of each 1.2 s, and "
            "nobody waits for it", watch=both(5000, TAKES, PACED),
    )),
]
TABLE = [*TABLE, *EXAMINED]
CONFIGS = {
    "fit-lighttpd.conf": """
server.document-root = "@W@"
server.port = 8000
server.upload-dirs = ( "@W@" )
""",
    "fit-haproxy.cfg": """
defaults
  mode http
  timeout connect 50s
  timeout client 1h
  timeout server 1h
listen pages
  bind :8000
  server near 127.0.0.1:5001
""",
    "icecast.xml": """
<icecast><location>x</location><admin>x</admin><hostname>x</hostname>
<limits><clients>9</clients><sources>2</sources><burst-size>0</burst-size></limits>
<authentication><source-password>x</source-password><admin-password>x</admin-password></authentication>
<listen-socket><port>8000</port></listen-socket>
<paths><logdir>@W@</logdir><webroot>@W@</webroot><adminroot>@W@</adminroot></paths>
<logging><errorlog>-</errorlog><accesslog>-</accesslog></logging>
<security><chroot>0</chroot><changeowner><user>nobody</user><group>nogroup</group></changeowner></security>
</icecast>
""",
}
FITS = {situation.name: label for label, situation in TABLE}
SITUATIONS = [situation for _, situation in TABLE]
