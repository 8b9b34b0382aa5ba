"""Situations of programs that no table before has: cpp-httplib, Nim, socketserver that forks, Tornado with
`reuse_port` and WebSockets, microsocks, axum, Netty, gorilla/websocket, fasthttp, yamux, unicorn,
Varnish, Node's HTTP/2, rsyslog, BIRD, Unbound and dnsperf, slapd, Express, Starlette, Sinatra, Elixir.

Labels were written down before any of them was run. `programs/visitors/build` builds its programs.
"""

from .commands import FILES, NGINX, programs
from .elsewhere import HELD_BACK, SHORT_QUEUE, down, queue
from .further import from_client
from .model import *
from .packages import SMALL_SNDBUF
from .seeming import LOSS, PAGES, RESTARTS
from .services import ANSWER_128, POLICE, POLICED
from .shaped import TWO_MOVES

MINE = "$H/programs/visitors"
BUILT = "$H/../target/corpus"
GO = f"{BUILT}/visitors-go"
PY = f"$FITPY {MINE}/visitors.py"
NODE = f"exec env NODE_PATH={BUILT}/node_modules node {MINE}/visitors.js"
STARTS = fault("initcwnd-too-small")
NAGLE = fault("nagle-delack-stall", "nagle-rtt-serialised")
LOSS_SEEN = healthy(*TAKES.accept, also=("random-loss",))
# A window of the program's own protocol, of which the connection knows nothing.
OWN_WINDOW = healthy("round-trip-bound", "app-limited", "unknown", "paced")
WAITS = healthy("application-thinks", "app-limited", "idle", "unknown")


def server(command):
    return (("server", f"exec {command}"),)


def axum(port=8080):
    return server(f"{BUILT}/axum/release/visitors-axum {port}")


def cpp(bytes=0, sndbuf=0):
    return server(f"{BUILT}/visitors-cpp 8080 {bytes} {sndbuf}")


def fasthttp(bytes=8_000_000_000):
    return server(f"{GO} pages 8080 {bytes}")


def sinatra(think=0):
    return server(f"env THINK={think} thin -R {MINE}/visitors.ru -p 8080 -e production start")


def again(clients, path="/"):
    return tuple(("client", f"sleep 0.3; while :; do curl -so /dev/null http://$S:8080{path}; done")
                 for _ in range(clients))


KEPT_PAGES = from_client("python3 -c \"import http.client\nc = http.client.HTTPConnection('$S', 8080)\n"
                         "while True:\n c.request('GET', '/page')\n c.getresponse().read()\"")
GET = from_client("curl -sNo /dev/null http://$S:8080/")
NETTY = server(f"java -cp \"{BUILT}:{BUILT}/jars/*\" Visitors 5000 24000")
VARNISH = (*NGINX, *server("varnishd -F -j none -n $W/varnish -a 0.0.0.0:8080 -f $W/visitors.vcl"))
SOCKS = (("client", "exec microsocks -i 127.0.0.1 -p 1080"), ("client", "sleep 0.5; exec curl -so "
         "/dev/null --limit-rate 300k --socks5 127.0.0.1:1080 http://$S/big"))
NIM = from_client(f"{BUILT}/visitors-nim $S 5000 3596")
NIM_ANSWERS = programs("answer 5000 --request 3600 --reply 1")
CONFIGS = {
    "visitors.vcl": """
vcl 4.1;
backend default { .host = "127.0.0.1"; .port = "80"; }
sub vcl_recv { return (pipe); }
""".lstrip(),
    "visitors-unicorn.rb": "listen 8080, :backlog => 4\nworker_processes 1\n",
    "visitors-rsyslog-server.conf": """
module(load="imtcp")
input(type="imtcp" port="5514")
*.* @W@/syslog.log
""".lstrip(),
    "visitors-rsyslog-client.conf": """
module(load="imudp")
input(type="imudp" port="5140" address="127.0.0.1")
*.* @@@S@:5514
""".lstrip(),
    "visitors-bird-server.conf": """
router id 10.0.0.1;
protocol device {}
protocol static { ipv4; route 192.0.2.0/24 blackhole; }
protocol bgp far { local @S@ as 65001; neighbor @C@ as 65002; multihop; passive yes; hold time 9;
  ipv4 { import all; export all; }; }
""".lstrip(),
    "visitors-bird-client.conf": """
router id 10.0.0.2;
protocol device {}
protocol bgp far { local @C@ as 65002; neighbor @S@ as 65001; multihop; hold time 9;
  connect delay time 1; ipv4 { import all; export all; }; }
""".lstrip(),
    "visitors-unbound.conf": """
server:
  interface: 0.0.0.0@5353
  access-control: 0.0.0.0/0 allow
  username: ""
  chroot: ""
  directory: "@W@"
  pidfile: ""
  do-daemonize: no
  use-syslog: no
  module-config: "iterator"
  local-zone: "lab." static
  local-data: "a.lab. A 192.0.2.1"
remote-control:
  control-enable: no
""".lstrip(),
    "visitors-slapd.conf": """
include /etc/ldap/schema/core.schema
modulepath /usr/lib/ldap
moduleload back_null
database null
suffix "dc=x"
bind on
""".lstrip(),
}

SITUATIONS = [
    # What writes and how.
    Situation(
        "visit-cpp-pages", program="cpp-httplib", rate="100mbit", rtt="3ms", server=cpp(300),
        settle=1, client=KEPT_PAGES, warm_up=4,
        why="the server writes head and body apart, with Nagle on: 40 ms a page",
        watch=both(8080, fault("nagle-delack-stall", "application-thinks"), STALLS),
    ),
    Situation(
        "visit-nim-trailer", program="nim", rate="100mbit", rtt="6ms", server=NIM_ANSWERS, settle=1,
        client=NIM, warm_up=4,
        why="3596 bytes in one write and 4 in another: the last 700 wait for a delayed ACK, then the 4 go",
        watch=both(5000, NAGLE, healthy(*SOME_TRAFFIC.accept, also=NAGLE.right)),
    ),
    Situation(
        "visit-elixir-calls", program="elixir", rate="100mbit", rtt="10ms", server=ANSWER_128, settle=3,
        client=from_client("env TO=$S elixir -e '{:ok, s} = :gen_tcp.connect(to_charlist("
                           "System.get_env(\"TO\")), 5000, [:binary, active: false]); Stream.repeatedly(fn -> :gen_tcp.send(s, "
                           "[String.duplicate(\"a\", 8), String.duplicate(\"b\", 120)]); "
                           ":gen_tcp.recv(s, 1) end) |> Stream.run'"), warm_up=5,
        why="two pieces as one list of I/O are one write: nothing waits but for the round trip",
        watch=both(5000, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    # New connections.
    Situation(
        "visit-forks-new", program="python", rate="80mbit", rtt="90ms", server=server(f"{PY} forks "
                                                                                     "8080 100000"),
        settle=1, client=again(3), warm_up=4, look=8,
        why="a process for each page of 100 kB, which takes four round trips from 10 segments on",
        watch=both(8080, PAGES, STARTS),
    ),
    Situation(
        "visit-reuseport-new", program="tornado", rate="100mbit", rtt="70ms",
        server=server(f"{PY} reuseport 8080 130000 3"), settle=2,
        client=from_client("hey -z 1000s -c 3 -disable-keepalive http://$S:8080/"), warm_up=4, look=8,
        why="130 kB on new connections to three processes with a listener each",
        watch=both(8080, PAGES, STARTS),
    ),
    Situation(
        "visit-unicorn-backlog", program="unicorn", rtt="10ms",
        server=server(f"env THINK=0.2 unicorn -E production -c $W/visitors-unicorn.rb "
                      f"{MINE}/visitors.ru"), settle=3,
        client=from_client("hey -z 1000s -c 30 -t 100 http://$S:8080/work"), warm_up=4, look=8,
        why="one worker that takes 200 ms, a backlog of 4, and 30 clients",
        watch=at_server(8080, fault("accept-queue-full", also=("application-thinks", "slow-reader"))),
    ),
    Situation(
        "visit-ldap-searches", program="slapd", rate="100mbit", rtt="5ms",
        server=server("slapd -d 0 -h ldap://0.0.0.0:3890 -f $W/visitors-slapd.conf"), settle=2,
        client=(("client", "while :; do ldapsearch -x -H ldap://$S:3890 -b dc=x -s base; done"),),
        warm_up=3, why="a new connection for each search, which is answered at once",
        watch=both(3890, PAGES, PAGES),
    ),
    # Windows, buffers, readers.
    Situation(
        "visit-netty-rcvbuf", program="netty", rtt="50ms", server=NETTY, settle=3,
        client=from_client("socat -u /dev/zero TCP:$S:5000"), warm_up=6,
        why="Netty's childOption sets SO_RCVBUF to 24000, the BDP is 312 kB",
        watch=both(5000, FIXED_WINDOW, fault("rcvbuf-locked")),
    ),
    Situation(
        "visit-cpp-sndbuf", program="cpp-httplib", rate="60mbit", rtt="40ms", server=cpp(0, 24000),
        settle=1, client=from_client("wget -qO /dev/null http://$S:8080/big"), warm_up=6,
        why="SO_SNDBUF is 24000, the BDP is 300 kB", watch=both(8080, TAKES, SMALL_SNDBUF),
    ),
    Situation(
        "visit-gorilla-rmem", program="gorilla", rate="60mbit", rtt="50ms",
        prepare=(sysctl("client", "net.ipv4.tcp_rmem=4096 32768 65536"),),
        server=server(f"{GO} pours 8080"), settle=1, client=from_client(f"{GO} takes ws://$S:8080/"),
        warm_up=6, why="tcp_rmem[2] is 64 KiB, the BDP is 375 kB",
        watch=both(8080, fault("tcp-rmem-max-cap"), CAPPED_WINDOW),
    ),
    Situation(
        "visit-reader-3ms", program="fasthttp", rate="100mbit", rtt="12ms", server=fasthttp(), settle=1,
        client=from_client(f"{GO} reads $S:8080 12000 3"), warm_up=8,
        why="the reader takes 12 kB and sleeps 3 ms: about 28 of 100 Mbit/s",
        watch=both(8080, SLOW_READER, fault("slow-reader", "peer-window")),
    ),
    Situation(
        "visit-socks-slow", program="microsocks", rate="50mbit", rtt="25ms", prepare=FILES, server=NGINX,
        client=SOCKS, warm_up=14,
        why="curl takes 300 kB/s from a proxy beside it, which then reads no faster from the server",
        watch=both(80, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "visit-yamux-window", program="yamux", rate="80mbit", rtt="100ms",
        server=server(f"{GO} discard 5000"), settle=1, client=from_client(f"{GO} sends $S:5000"),
        warm_up=6, why="a stream of yamux has 256 kB in flight at most, 20 of 80 Mbit/s",
        watch=both(5000, OWN_WINDOW, HELD_BACK),
    ),
    Situation(
        "visit-http2-window", program="node", rtt="60ms", server=(("server", f"{NODE} serves 8080"),),
        settle=1, client=(("client", f"sleep 0.3; {NODE} gets $S 8080"),), warm_up=6,
        why="a stream of HTTP/2 has 64 kB in flight at most, 9 of 50 Mbit/s",
        watch=both(8080, HELD_BACK, OWN_WINDOW),
    ),
    # The path.
    Situation(
        "visit-axum-loss", program="axum", rate="60mbit", rtt="50ms", queue="2bdp",
        path=("--loss", "0.4%"), server=axum(), settle=1,
        client=from_client("wget -qO /dev/null http://$S:8080/"), warm_up=7, look=7,
        why="four packets of 1000 are lost, and CUBIC gets about 8 of 60 Mbit/s",
        watch=both(8080, LOSS_SEEN, LOSS),
    ),
    Situation(
        "visit-varnish-bloat", program="varnish", rate="8mbit", rtt="30ms", queue="500p", prepare=FILES,
        server=VARNISH, settle=3, client=from_client("curl -so /dev/null http://$S:8080/big"),
        warm_up=14, why="a download fills a queue of 0.75 s",
        watch=both(8080, BLOATED, fault("bufferbloat")),
    ),
    Situation(
        "visit-fasthttp-mtu", program="fasthttp", router=True, rate="100mbit", rtt="20ms", prepare=(
            ("router", "ip link set lab0 mtu 1300 && nft 'add table ip mute; add chain ip mute out "
                       "{ type filter hook output priority 0; }; add rule ip mute out "
                       "icmp type destination-unreachable drop'"),),
        server=fasthttp(), settle=1, client=GET,
        why="a router with a smaller MTU whose ICMP messages are dropped",
        watch=at_server(8080, fault("pmtu-blackhole")),
    ),
    Situation(
        "visit-fasthttp-police", program="fasthttp", router=True, rate="200mbit", rtt="30ms",
        queue="2000p", prepare=(("router", POLICE.format(dev="far0", rate="2500 kbytes/second",
                                                         burst="60 kbytes")),),
        server=fasthttp(), settle=1, client=GET, warm_up=6, look=7,
        why="what exceeds 20 Mbit/s is dropped on arrival, with a bucket of 60 kB",
        # Labelled as the sender's, of which a receiver cannot tell.
        watch=down(8080, POLICED, healthy(*TAKES.accept, "policed")),
    ),
    Situation(
        "visit-express-acks", program="express", rate="40mbit", rtt="40ms",
        path=("--set", "path.reverse.loss=10%"), server=(("server", f"{NODE} takes 8080"),), settle=1,
        client=from_client("sh -c 'exec curl -sT - http://$S:8080/up < /dev/zero'"), warm_up=6,
        why="one of ten ACKs is lost on the way back, and the next ones say the same",
        watch=both(8080, FULL, TAKES),
    ),
    Situation(
        "visit-axum-mtu", program="axum", rate="20mbit", rtt="30ms", path=("--mtu", "576"),
        server=axum(), settle=1, client=GET, warm_up=6, why="segments of 524 bytes fill the path",
        watch=both(8080, TAKES, FULL),
    ),
    Situation(
        "visit-reno-crowd", program="axum", rate="200mbit", rtt="30ms", queue="2000p", cc="reno",
        router=True, prepare=queue("lab0", "40mbit", 30), server=axum(), settle=1, client=3 * GET,
        warm_up=6, look=7, why="three downloads under Reno share 40 Mbit/s and a queue of 30 packets, "
                               "whose BDP is 100", watch=down(8080, SHORT_QUEUE, healthy(
                                   *TAKES.accept, "policed")),
    ),
    Situation(
        "visit-gorilla-echo", program="gorilla", rate="20mbit", rtt="40ms",
        server=server(f"{GO} echoes 8080"), settle=1, client=from_client(f"{GO} talks ws://$S:8080/"),
        warm_up=7, why="each message comes back: both ways are full",
        watch=both(8080, TWO_MOVES, TWO_MOVES),
    ),
    # Pauses.
    Situation(
        "visit-socket-restarts", program="tornado", rate="60mbit", rtt="100ms",
        server=server(f"{PY} pushes 8080 500000 1.6"), settle=1,
        client=from_client(f"{GO} takes ws://$S:8080/"), warm_up=7, look=13,
        why="500 kB each 1.6 s over 100 ms: the window restarts after each pause",
        watch=both(8080, healthy(*TAKES.accept, also=("slow-start-after-idle",)), RESTARTS),
    ),
    Situation(
        "visit-sinatra-pieces", program="sinatra", rtt="20ms", server=sinatra(), settle=3,
        client=from_client("curl -sNo /dev/null http://$S:8080/pieces"), warm_up=4,
        why="3 kB each 60 ms", watch=both(8080, HELD_BACK, PACED),
    ),
    Situation(
        "visit-starlette-polls", program="starlette", rtt="20ms", server=server(f"{PY} polls 8080 3"),
        settle=2, client=from_client("hey -z 1000s -c 5 -t 100 http://$S:8080/"), warm_up=4, look=8,
        why="an answer to a long poll comes after 3 s", watch=both(8080, WAITS, WAITS),
    ),
    Situation(
        "visit-rsyslog", program="rsyslog", rtt="20ms",
        server=server("rsyslogd -n -f $W/visitors-rsyslog-server.conf -i $W/server.pid"), settle=1,
        client=(("client", "exec rsyslogd -n -f $W/visitors-rsyslog-client.conf -i $W/client.pid"),
                ("client", "sleep 0.5; while :; do echo news; sleep 0.05; done | "
                           "logger -d -n 127.0.0.1 -P 5140")), warm_up=4,
        why="twenty lines a second", watch=both(5514, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
    Situation(
        "visit-bird-idle", program="bird", rtt="20ms",
        server=server("bird -f -c $W/visitors-bird-server.conf -s $W/server.ctl"), settle=1,
        client=from_client("bird -f -c $W/visitors-bird-client.conf -s $W/client.ctl"), warm_up=8, look=8,
        why="a BGP session with a route, and a message each 3 s", watch=both(179, IDLE, IDLE),
    ),
    Situation(
        "visit-dns-queries", program="unbound", rate="100mbit", rtt="8ms",
        server=server("unbound -c $W/visitors-unbound.conf"), settle=2,
        client=(("client", "echo a.lab A > queries; exec dnsperf -m tcp -s $S -p 5353 -d queries -c 1 "
                           "-q 1 -l 100"),), warm_up=4, why="one query after the other on one connection",
        watch=both(5353, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
]
