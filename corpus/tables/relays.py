"""Situations of relays (6tunnel, stone, http-proxy), registries and name servers (Docker's
registry, BIND), small web servers and load generators (weborf, merecat, Koa, hapi, Quart, httperf, autocannon, tnftp),
SIP, iperf of version 2, and scripts in R, Pike, newLISP, CLISP, CHICKEN and D; and of mixtures: one connection of
several that is limited, both directions at once, clients at many addresses, a way back that is slow.

Labels were written down before any of them was run. What sets a buffer is what their documentation says: BIND's
`tcp-send-buffer`, iperf's `-w` (both buffers, at its own end). CLISP's `finish-output` and Pike's `write` are a write
each, and neither sets TCP_NODELAY; readBin of R reads 4096 bytes at a time.
"""

from .commands import NGINX
from .elsewhere import HELD_BACK
from .further import from_client
from .model import *
from .packages import SMALL_SNDBUF
from .seeming import LOSS, PAGES, RESTARTS
from .services import POLICE, POLICED
from .visitors import BUILT, LOSS_SEEN, NAGLE, STARTS, WAITS, server
from .callers import SIX, SOME_BACK

MINE = "$H/programs/relays"
D = f"{BUILT}/relays/relays"
PY = f"$FITPY {MINE}/relays.py"
NODE = f"env NODE_PATH={BUILT}/relays/node_modules node {MINE}/relays.js"
AUTO = f"node {BUILT}/relays/node_modules/autocannon/autocannon.js -n"
IPERF2 = server("iperf -s -p 5000")
REGISTRY = server("env REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY=$W/registry docker-registry serve $W/relays-registry.yml")
PUSHED = (("server", f"{PY} image image 120000000"),)
PUSH = ("server", "sleep 1; exec skopeo --insecure-policy copy -q --dest-tls-verify=false dir:image "
                  "docker://127.0.0.1:5000/lab:1")
PULL = ("client", "sleep 0.3; while :; do rm -rf pulled; skopeo --insecure-policy copy -q --src-tls-verify=false "
                  "docker://$S:5000/lab:1 dir:pulled; done")
ZONE = (("server", f"{PY} zone 200000 > lab.zone"),)
BIND = server("named -f -c $W/relays-named.conf -u root")
BIND_FIXED = server("named -f -c $W/relays-named-fixed.conf -u root")
AXFR = (("client", "sleep 1; while :; do dig +noall @$S -p 5300 lab. axfr > /dev/null; done"),)
WEBORF = server("weborf -p 8080 -b $W/pages")
MERECAT = server("merecat -n -l none -p 8080 -f $W/relays-merecat.conf $W/pages")
PAGES_OF = "mkdir pages && chmod 755 pages && head -c {} /dev/urandom > pages/page && chmod 644 pages/page"
BIG_PAGE = (("server", "mkdir pages && truncate -s 8G pages/big && chmod -R a+rX pages"),)
GET_BIG = from_client("curl -sNo /dev/null http://$S:8080/big")
D_ANSWER = server(f"{D} answer 5000 312 40")


def pike(pieces):
    return from_client(f"pike8.0 {MINE}/relays.pike $S 5000 {pieces} 40")


def at_rate(rate):
    return from_client(f"httperf --server $S --port 8080 --uri /page --num-conns 100000 --rate {rate} --timeout 60")


def calls(rate):
    return from_client(f"sipp -sn uac -t t1 -r {rate} -i $C $S:5060 -nostdin -d 100 > /dev/null")


CLISP = server(f"clisp -q {MINE}/relays.lisp")
LINES = from_client("$PY -c \"import os, socket\ns = socket.create_connection((os.environ['S'], 5000))\n"
                    "while True:\n s.send(b'q\\n'); n = 0\n while n < 700: n += len(s.recv(4096))\"")
FORWARDED = (*NGINX, *server("6tunnel -1 -d -4 8081 127.0.0.1 80"))
PROXIED = (*NGINX, *server(f"{NODE} proxy 8081 80"))
SIPP_SERVER = server("sipp -sn uas -t t1 -p 5060 -i $S -nostdin -bg -aa")
WAITS_OR_CORK = healthy(*WAITS.accept, *SOME_TRAFFIC.accept, also=("application-thinks",))
# The client has forty addresses, and each new connection comes from the next one.
FORTY = ("client", "for i in $(seq 100 139); do ip addr add 10.77.0.$i/32 dev lab0; done")
MANY_ADDRESSES = ("client", "sleep 0.4; exec $PY -c \"import os, socket, itertools\n"
                            "for i in itertools.cycle(range(100, 140)):\n"
                            " s = socket.socket(); s.bind(('10.77.0.%d' % i, 0)); s.connect((os.environ['S'], 5000))\n"
                            " s.send(b'x')\n while s.recv(65536): pass\n s.close()\"")
CONFIGS = {
    "relays-registry.yml": """
version: 0.1
storage:
  filesystem:
    rootdirectory: @W@/registry
http:
  addr: 0.0.0.0:5000
""",
    "relays-named.conf": """
options { directory "@W@"; listen-on port 5300 { any; }; pid-file none; recursion no; allow-transfer { any; };
          session-keyfile none; };
controls { };
zone "lab." { type primary; file "@W@/lab.zone"; };
""",
    "relays-named-fixed.conf": """
options { directory "@W@"; listen-on port 5300 { any; }; pid-file none; recursion no; allow-transfer { any; };
          session-keyfile none; tcp-send-buffer 24000; };
controls { };
zone "lab." { type primary; file "@W@/lab.zone"; };
""",
    "relays-merecat.conf": "port = 8080\nchroot = false\nusername = root\n",
}

SITUATIONS = [
    # What is asked and answered.
    Situation(
        "relay-pike-nagle", program="pike", rate="70mbit", rtt="18ms", server=D_ANSWER,
        client=pike("12 300"), warm_up=4,
        why="12 and 300 bytes are two writes, and Pike leaves Nagle on", watch=both(5000, NAGLE, SOME_BACK),
    ),
    Situation(
        "relay-pike-once", program="pike", rate="70mbit", rtt="18ms", server=D_ANSWER,
        client=pike("312 0"), warm_up=4,
        why="the same in one write", watch=both(5000, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "relay-clisp-answers", program="clisp", rate="30mbit", rtt="6ms", server=CLISP, settle=1.5, client=LINES,
        warm_up=4, why="head and body of an answer are flushed apart with Nagle on, and nothing to piggyback the ACK on",
        watch=both(5000, healthy(*SOME_BACK.accept, *WAITS.accept, also=(*NAGLE.right, "application-thinks")), NAGLE),
    ),
    Situation(
        "relay-d-cork", program="d", rate="90mbit", rtt="14ms", server=D_ANSWER,
        client=from_client(f"{D} ask $S 5000 cork 12 300 40"), warm_up=4,
        why="TCP_CORK is set and never cleared: each question waits 200 ms",
        watch=both(5000, fault("cork-not-uncorked"), healthy(*WAITS.accept, *SOME_TRAFFIC.accept,
                                                             also=("application-thinks",))),
    ),
    Situation(
        "relay-bind-asks", program="bind", rate="70mbit", rtt="33ms", prepare=ZONE, server=BIND, settle=3,
        client=from_client(f"{PY} dns $S 5300"), warm_up=4, why="one name is asked for after the other",
        watch=both(5300, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "relay-autocannon-one", program="autocannon", rate="70mbit", rtt="22ms",
        prepare=(("server", PAGES_OF.format(900)),), server=MERECAT, settle=1,
        client=from_client(f"{AUTO} -c 1 -d 900 http://$S:8080/page"), warm_up=4,
        why="one page of 900 bytes is asked for after the other", watch=both(8080, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "relay-autocannon-rate", program="autocannon", rate="70mbit", rtt="22ms",
        prepare=(("server", PAGES_OF.format(3000)),), server=MERECAT, settle=1,
        client=from_client(f"{AUTO} -c 20 -R 60 -d 900 http://$S:8080/page"), warm_up=4, look=6,
        why="sixty pages of 3 kB in a second on twenty connections", watch=both(8080, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
    Situation(
        "relay-sipp-rate", program="sipp", rate="20mbit", rtt="45ms", server=SIPP_SERVER, settle=1,
        client=calls(15), warm_up=4, look=6,
        why="fifteen calls a second on one connection", watch=both(5060, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
    Situation(
        "relay-zerorpc-echo", program="zerorpc", rate="70mbit", rtt="28ms", server=server(f"{PY} rpc-serves 5000"),
        settle=3, client=from_client(f"{PY} rpc-echo $S 5000"), warm_up=5,
        why="200 bytes are echoed, one after the other", watch=both(5000, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    # New connections, pauses.
    Situation(
        "relay-weborf-new", program="weborf", rate="70mbit", rtt="105ms",
        prepare=(("server", PAGES_OF.format(170000)),), server=WEBORF, settle=1,
        client=at_rate(5), warm_up=4, look=8,
        # At first PAGES and STARTS: httperf sets SO_RCVBUF to 16 kB.
        why="170 kB on five new connections a second, whose reader set a receive buffer of 16 kB",
        watch=both(8080, FIXED_WINDOW, FIXED_WINDOW),
    ),
    Situation(
        "relay-weborf-small", program="weborf", rate="70mbit", rtt="105ms",
        prepare=(("server", PAGES_OF.format(7000)),), server=WEBORF, settle=1,
        client=at_rate(5), warm_up=4, look=8,
        why="7 kB on five new connections a second, which fit into the first window", watch=both(8080, PAGES, PAGES),
    ),
    Situation(
        "relay-newlisp-new", program="newlisp", rate="90mbit", rtt="75ms", server=server(f"{D} serve 5000 200000 0"),
        client=from_client(f"newlisp {MINE}/relays.lsp $S 5000") * 2, warm_up=4, look=8,
        why="200 kB on new connections take five round trips", watch=both(5000, PAGES, STARTS),
    ),
    Situation(
        "relay-addresses-new", program="d", rate="90mbit", rtt="85ms", prepare=(FORTY,),
        server=server(f"{D} serve 5000 200000 0"), client=(MANY_ADDRESSES,) * 2, warm_up=4, look=8,
        why="the same from forty addresses in turn", watch=both(5000, PAGES, STARTS),
    ),
    Situation(
        "relay-koa-idle", program="koa", rate="90mbit", rtt="95ms", server=server(f"{NODE} koa 8080 420000"), settle=2,
        client=from_client(f"{PY} pauses $S 8080 1.8"), warm_up=9, look=13,
        why="420 kB after each pause of 1.8 s: the window restarts",
        watch=both(8080, healthy(*TAKES.accept, also=("slow-start-after-idle",)), RESTARTS),
    ),
    Situation(
        "relay-hapi-small", program="hapi", rate="90mbit", rtt="95ms", server=server(f"{NODE} hapi 8080 9000"), settle=2,
        client=from_client(f"{PY} pauses $S 8080 1.8"), warm_up=9, look=13,
        why="9 kB after each pause fit into a window that restarted", watch=both(8080, PAGES, PAGES),
    ),
    # Buffers and windows.
    Situation(
        "relay-iperf2-one-of-five", program="iperf", rate="60mbit", rtt="30ms", server=IPERF2,
        client=(*from_client("iperf -c $S -p 5000 -t 900 -P 4"), *from_client("iperf -c $S -p 5000 -t 100 -w 6K")),
        warm_up=7, look=6, why="four streams fill the path, and a fifth has SO_SNDBUF of 6 kB",
        watch=both(5000, SMALL_SNDBUF, TAKES),
    ),
    Situation(
        "relay-bind-fixed", program="bind", rate="45mbit", rtt="55ms", prepare=ZONE, server=BIND_FIXED, settle=3,
        client=AXFR, warm_up=6, look=7, why="tcp-send-buffer is 24000, the BDP is 309 kB",
        watch=both(5300, TAKES, SMALL_SNDBUF),
    ),
    Situation(
        "relay-skopeo-rmem", program="docker-registry", rate="45mbit", rtt="65ms",
        prepare=(*PUSHED, sysctl("client", "net.ipv4.tcp_rmem=4096 30000 72000")), server=(*REGISTRY, PUSH), settle=5,
        client=(PULL,), warm_up=6, look=6, why="tcp_rmem[2] is 72 kB at the client, the BDP is 366 kB",
        watch=both(5000, CAPPED_WINDOW, CAPPED_WINDOW),
    ),
    Situation(
        "relay-6tunnel-wmem", program="6tunnel", rate="45mbit", rtt="50ms",
        prepare=(("server", "truncate -s 8G big"), sysctl("server", "net.ipv4.tcp_wmem=4096 16384 56000")),
        server=FORWARDED, settle=1, client=from_client("curl -so /dev/null http://$S:8081/big"), warm_up=6,
        why="tcp_wmem[2] is 56000 at the relay, the BDP is 281 kB", watch=both(8081, TAKES, fault("tcp-wmem-max-cap")),
    ),
    Situation(
        "relay-d-rcvbuf-room", program="d", rate="12mbit", rtt="25ms", server=server(f"{D} serve 5000 8000000000 0"),
        client=from_client(f"{D} get $S 5000 8000000000 300000 0"), warm_up=6,
        why="SO_RCVBUF is 300000, and path and queue hold 75 kB", watch=both(5000, TAKES, FULL),
    ),
    # Readers and writers.
    Situation(
        "relay-r-slow", program="r", rate="45mbit", rtt="25ms", server=server(f"{D} serve 5000 8000000000 0"),
        client=from_client(f"Rscript {MINE}/relays.R takes $S 5000 6000 0.02"), warm_up=9,
        why="6000 bytes each 20 ms are read", watch=both(5000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "relay-r-blocks", program="r", rate="45mbit", rtt="25ms",
        server=server(f"Rscript {MINE}/relays.R gives 5001 60000 0.25"), settle=2,
        client=from_client("socat -u TCP:$S:5001 OPEN:/dev/null"), warm_up=4,
        why="60 kB each quarter of a second, which takes the path 11 ms", watch=both(5001, HELD_BACK, PACED),
    ),
    Situation(
        "relay-csi-bytes", program="chicken", rate="300mbit", rtt="9ms", server=server(f"{D} serve 5000 8000000000 0"),
        client=from_client(f"csi -s {MINE}/relays.scm $S 5000"), warm_up=6,
        why="an interpreter reads byte by byte, some 2 MB a second of 37",
        watch=both(5000, fault("slow-reader", "cpu-bound"), fault("slow-reader", "cpu-bound")),
    ),
    Situation(
        "relay-one-slow-of-five", program="nginx", rate="40mbit", rtt="20ms",
        prepare=(("server", "truncate -s 8G big"),), server=NGINX,
        client=(*from_client("curl -so /dev/null http://$S/big") * 4,
                *from_client(f"sh -c 'curl -sN http://$S/big | $PY -c \"import sys, time\nwhile sys.stdin.buffer.read1(8192):"
                             " time.sleep(0.03)\"'")),
        warm_up=8, look=6, why="four downloads fill the path, and a fifth reads 2 Mbit/s",
        watch=both(80, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "relay-d-pacing", program="d", rate="60mbit", rtt="35ms", server=server(f"{D} take 5000 65536 0"),
        client=from_client(f"{D} give $S 5000 65536 0 1000000"), warm_up=5,
        why="SO_MAX_PACING_RATE is 8 Mbit/s of 60", watch=both(5000, healthy("paced"), TAKES),
    ),
    # Paths.
    Situation(
        "relay-iperf2-duplex", program="iperf", rate="18mbit", rtt="35ms", server=IPERF2,
        client=from_client("iperf -c $S -p 5000 -t 900 --full-duplex"), warm_up=8, look=6,
        why="one connection fills both directions", watch=both(5000, FULL, FULL),
    ),
    Situation(
        "relay-stone-full", program="stone", rate="14mbit", rtt="70ms", prepare=(("server", "truncate -s 8G big"),),
        server=(*NGINX, *server("stone 127.0.0.1:80 8081")), settle=1,
        client=from_client("tnftp -o /dev/null http://$S:8081/big"), warm_up=9,
        why="a relay fills a path of 14 Mbit/s", watch=both(8081, TAKES, FULL),
    ),
    Situation(
        "relay-slow-way-back", program="weborf", rate="30mbit", rtt="40ms", queue="2bdp",
        path=("--set", "path.forward.rate=200kbit"), prepare=BIG_PAGE, server=WEBORF, settle=1, client=GET_BIG,
        warm_up=9, look=6, why="30 Mbit/s there, and a way back of 0.2 Mbit/s, which ACKs of every second packet overfill",
        watch=both(8080, BLOATED, healthy("path-full", "bufferbloat", "unknown", also=("bufferbloat",))),
    ),
    Situation(
        "relay-http-proxy-loss", program="http-proxy", rate="45mbit", rtt="30ms", queue="2bdp", path=("--loss", "0.6%"),
        prepare=(("server", "truncate -s 8G big"),), server=PROXIED, settle=2,
        client=from_client("curl -so /dev/null http://$S:8081/big"), warm_up=8, look=8,
        why="six packets of 1000 are lost behind a proxy, and CUBIC gets about 7 of 45 Mbit/s",
        watch=both(8081, LOSS_SEEN, LOSS),
    ),
    Situation(
        "relay-iperf2-bbr-loss", program="iperf", rate="35mbit", rtt="30ms", queue="2bdp", cc="bbr",
        path=("--loss", "0.8%"), server=IPERF2, client=from_client("iperf -c $S -p 5000 -t 900"), warm_up=7,
        why="BBR fills a path that loses eight packets of 1000", watch=both(5000, FULL, TAKES),
    ),
    Situation(
        "relay-bind-full", program="bind", rate="6mbit", rtt="50ms", prepare=ZONE, server=BIND, settle=3, client=AXFR,
        warm_up=6, look=6, why="a zone of 14 MB fills a path of 6 Mbit/s", watch=both(5300, TAKES, FULL),
    ),
    Situation(
        "relay-iperf2-bloat", program="iperf", rate="7mbit", rtt="35ms", queue="420p", server=IPERF2,
        client=from_client("iperf -c $S -p 5000 -t 900"), warm_up=16, look=6, why="a queue of 0.7 s is filled",
        watch=both(5000, fault("bufferbloat"), BLOATED),
    ),
    Situation(
        "relay-small-mss", program="d", rate="16mbit", rtt="40ms",
        prepare=(("client", "ip route show dev lab0 | while read -r route; do ip route change $route dev lab0 "
                  "advmss 400; done"),),
        server=server(f"{D} serve 5000 8000000000 0"), client=from_client(f"{D} get $S 5000 8000000000 0 0"), warm_up=8,
        why="the client announces segments of 400 bytes, which fill the path all the same",
        watch=both(5000, TAKES, FULL),
    ),
    Situation(
        "relay-quart-six", program="quart", rate="22mbit", rtt="45ms", prepare=SIX,
        server=server(f"{PY} quart 8080 800000000"), settle=3,
        client=from_client("curl -sNo /dev/null http://[fd77::2]:8080/"), warm_up=7,
        why="a stream of 16 kB blocks fills a path of 22 Mbit/s", watch=both(8080, TAKES, FULL),
    ),
    Situation(
        "relay-skopeo-police", program="docker-registry", rate="150mbit", rtt="35ms", router=True, queue="2000p",
        prepare=(*PUSHED, ("router", POLICE.format(dev="far0", rate="1800 kbytes/second", burst="70 kbytes"))),
        server=(*REGISTRY, PUSH), settle=5, client=(PULL,), warm_up=8, look=7,
        why="a router drops what exceeds 14 Mbit/s, and has no queue",
        watch=both(5000, healthy(*TAKES.accept, "policed"), POLICED),
    ),
    # A second round, harder; labels were written before it was run.
    Situation(
        "relay-again-pipeline", program="d", rate="60mbit", rtt="24ms", server=D_ANSWER,
        client=from_client(f"{D} ahead $S 5000 312 40 4"), warm_up=4,
        why="four questions at once in one write, and then four answers, with TCP_NODELAY",
        watch=both(5000, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "relay-again-long-second", program="pike", rate="60mbit", rtt="12ms", server=server(f"{D} answer 5000 1300 40"),
        client=pike("700 600"), warm_up=4, why="700 and 600 bytes are two writes with Nagle on",
        watch=both(5000, NAGLE, SOME_BACK),
    ),
    Situation(
        "relay-again-cork-answer", program="d", rate="60mbit", rtt="20ms", server=server(f"{D} answer-corked 5000 312 900"),
        client=from_client(f"{D} ask $S 5000 nodelay 12 300 900"), warm_up=4,
        why="the answering program sets TCP_CORK and never clears it: each answer waits 200 ms",
        watch=both(5000, WAITS_OR_CORK, fault("cork-not-uncorked")),
    ),
    Situation(
        "relay-again-records", program="d", rate="60mbit", rtt="90ms", server=server(f"{D} take 5000 200 0"),
        client=from_client(f"{D} give $S 5000 200 150 0"), warm_up=4, look=7,
        why="200 bytes each 150 ms over 90 ms with Nagle on, which holds none of them",
        watch=both(5000, PACED, HELD_BACK),
    ),
    Situation(
        "relay-again-initcwnd-two", program="newlisp", rate="50mbit", rtt="80ms",
        prepare=(("server", "ip route show dev lab0 | while read -r route; do ip route change $route dev lab0 "
                  "initcwnd 2; done"),),
        server=server(f"{D} serve 5000 26000 0"), client=from_client(f"newlisp {MINE}/relays.lsp $S 5000") * 3,
        warm_up=4, look=8, why="26 kB on new connections take four round trips, since the route has initcwnd 2",
        watch=both(5000, PAGES, STARTS),
    ),
    Situation(
        "relay-again-bbr-reader", program="r", rate="45mbit", rtt="35ms", cc="bbr",
        server=server(f"{D} serve 5000 8000000000 0"),
        client=from_client(f"Rscript {MINE}/relays.R takes $S 5000 9000 0.02"), warm_up=10,
        why="9000 bytes each 20 ms are read of what BBR sends", watch=both(5000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "relay-again-bbr-wmem", program="6tunnel", rate="45mbit", rtt="60ms", cc="bbr",
        prepare=(("server", "truncate -s 8G big"), sysctl("server", "net.ipv4.tcp_wmem=4096 16384 50000")),
        server=FORWARDED, settle=1, client=from_client("curl -so /dev/null http://$S:8081/big"), warm_up=6,
        why="tcp_wmem[2] is 50000 at the relay under BBR, the BDP is 337 kB",
        watch=both(8081, TAKES, fault("tcp-wmem-max-cap")),
    ),
    Situation(
        "relay-again-readers-anew", program="d", rate="50mbit", rtt="30ms", server=server(f"{D} serve 5000 3000000 0"),
        client=from_client(f"sh -c 'while :; do Rscript {MINE}/relays.R takes $S 5000 20000 0.02; done'") * 2,
        warm_up=6, look=8, why="20 kB each 20 ms are read, on new connections of 3 MB",
        watch=both(5000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "relay-again-phases", program="d", rate="25mbit", rtt="40ms", server=server(f"{D} take 5000 65536 0"),
        client=from_client(f"{D} give $S 5000 6000000 2500 0"), warm_up=6, look=12,
        why="6 MB fill the path for 2 s, and then nothing is sent for 2.5 s",
        watch=both(5000, healthy("path-full", "app-limited"), TAKES),
    ),
    Situation(
        "relay-again-four-fifths", program="iperf", rate="30mbit", rtt="40ms", server=IPERF2,
        client=from_client("iperf -c $S -p 5000 -t 900 -b 23m"), warm_up=6, look=6, why="23 of 30 Mbit/s are given",
        watch=both(5000, PACED, TAKES),
    ),
    Situation(
        "relay-again-burst-loss", program="tnftp", rate="40mbit", rtt="30ms", queue="2bdp",
        path=("--set", "path.loss.good_to_bad=0.2%", "--set", "path.loss.bad_to_good=50%"), prepare=BIG_PAGE,
        server=WEBORF, settle=1, client=from_client("tnftp -o /dev/null http://$S:8080/big"), warm_up=8, look=8,
        why="two packets of 1000 begin a burst of two losses", watch=both(8080, LOSS_SEEN, LOSS),
    ),
    Situation(
        "relay-again-jitter", program="weborf", rate="20mbit", rtt="40ms", queue="2bdp", path=("--jitter", "3ms"),
        prepare=BIG_PAGE, server=WEBORF, settle=1, client=GET_BIG, warm_up=8, look=6,
        why="a full path whose packets take up to 3 ms longer", watch=both(8080, TAKES, FULL),
    ),
    Situation(
        "relay-again-six-sndbuf", program="iperf", rate="80mbit", rtt="40ms", server=IPERF2,
        client=from_client("iperf -c $S -p 5000 -t 900 -w 9K -P 6"), warm_up=6, look=6,
        why="six streams of which each has SO_SNDBUF of 9 kB", watch=both(5000, SMALL_SNDBUF, TAKES),
    ),
    Situation(
        "relay-again-compress", program="gzip", rate="60mbit", rtt="30ms",
        server=server("socat -u TCP-LISTEN:5000,reuseaddr OPEN:/dev/null"),
        client=from_client("sh -c 'xz -9 -T1 < /dev/urandom | socat -u - TCP:$S:5000'"), warm_up=9, look=6,
        why="xz gives some 10 Mbit/s, block by block", watch=both(5000, healthy("app-limited", "paced", "unknown"), TAKES),
    ),
    Situation(
        "relay-again-upload-bloat", program="curl", rate="30mbit", rtt="30ms", queue="300p",
        path=("--set", "path.forward.rate=3mbit",), server=server("socat -u TCP-LISTEN:5000,reuseaddr OPEN:/dev/null"),
        client=from_client("socat -u OPEN:/dev/zero TCP:$S:5000"), warm_up=18, look=6,
        why="the way up has 3 Mbit/s and a queue of 1.2 s", watch=both(5000, fault("bufferbloat"), BLOATED),
    ),
    Situation(
        "relay-again-skopeo-full", program="docker-registry", rate="17mbit", rtt="70ms", prepare=PUSHED,
        server=(*REGISTRY, PUSH), settle=5, client=(PULL,), warm_up=8, look=6, why="a layer fills a path of 17 Mbit/s",
        watch=both(5000, TAKES, FULL),
    ),
]
