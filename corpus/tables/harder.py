"""Situations that look like another one: traps and faults beside a healthy twin.

Made as an examination: labels were written down before any of them was run.
"""

from .commands import NGINX
from .further import C, FILES, GO, PY_FURTHER, curl, from_client, go
from .model import *

DROP_ALL = (
    "nft 'add table ip gone; add chain ip gone in { type filter hook input priority 0; "
    "policy drop; }'"
)
CONFIGS = {
    "upstream.conf": """
daemon off; user root; pid @W@/nginx.pid; error_log stderr; worker_processes 1;
events { worker_connections 256; }
http {
  access_log off; keepalive_requests 1000000;
  client_body_temp_path @W@/t1; proxy_temp_path @W@/t2; fastcgi_temp_path @W@/t3;
  uwsgi_temp_path @W@/t4; scgi_temp_path @W@/t5;
  server { listen 80; location / { proxy_pass http://127.0.0.1:5000; } }
}
""",
}

SITUATIONS = [
    Situation(
        "lo-pieces", program="c", prepare=C + GO,
        server=(("client", "exec $W/go answerer 5000"),),
        client=from_client("$W/c pieces 127.0.0.1 5000"),
        why="two writes a message with Nagle on, over loopback",
        watch={"client": Watched("( sport = :5000 or dport = :5000 )", STALLS)},
    ),
    Situation(
        "lo-pages", program="go", prepare=GO, server=(("client", "exec $W/go serve 5000"),),
        client=from_client("$W/go get http://127.0.0.1:5000/page 0"),
        why="pages over loopback, as fast as both programs can",
        watch={"client": Watched("( sport = :5000 or dport = :5000 )", SOME_TRAFFIC)},
    ),
    Situation(
        "nginx-slow-upstream", program="nginx", rtt="10ms", prepare=GO,
        server=(("server", "exec nginx -p $W -c $W/upstream.conf"), *go("serve 5000")),
        client=from_client("$W/go get http://$S/page?ms=120 0"), warm_up=4,
        why="a proxy waits 120 ms for each page of its upstream, the path takes 10",
        watch=at_sender(80, THINKS),
    ),
    Situation(
        "bursts-fill-window", program="go", **LAN, prepare=GO + (
            sysctl("server", "net.ipv4.tcp_window_scaling=0"),), server=go("sink 5000"),
        client=from_client("sh -c 'pv -q -L 4m /dev/zero | nc $S 5000'"),
        why="scaling is off, but 32 Mbit/s over 0.2 ms need 800 bytes of window",
        watch=at_sender(5000, PACED),
    ),
    Situation(
        "large-setreadbuffer", program="go", rate="20mbit", rtt="20ms", queue="1bdp", prepare=GO,
        server=go("sink 5000 1000000"), client=from_client("$W/go bulk $S:5000"), warm_up=5,
        why="a fixed receive buffer of 1 MB, twenty BDPs: the path is full",
        watch=both(5000, FULL, TAKES),
    ),
    Situation(
        "small-rmem-little-traffic", program="go", prepare=GO + (
            sysctl("server", "net.ipv4.tcp_rmem=4096 32768 65536"),), server=go("sink 5000"),
        client=from_client("sh -c 'pv -q -L 200k /dev/zero | nc $S 5000'"), warm_up=4,
        why="tcp_rmem is small, but the program sends 1.6 Mbit/s of the 6.5 that it allows",
        watch=both(5000, PACED, TAKES),
    ),
    Situation(
        "keepalive-peer-gone", program="socat", rtt="20ms",
        server=(("server", "exec socat TCP-LISTEN:5000,keepalive,keepidle=2,keepintvl=2,"
                           "keepcnt=100 EXEC:'sleep 1000'"),),
        client=(("client", "sleep 0.3; sleep 1000 | nc $S 5000"),), warm_up=2,
        during=(("client", DROP_ALL),), after=8,
        why="keepalive probes of an idle connection are not answered any more",
        watch=at_server(5000, fault("path-dead")),
    ),
    Situation(
        "keepalive-answered", program="socat", rtt="20ms",
        server=(("server", "exec socat TCP-LISTEN:5000,keepalive,keepidle=1,keepintvl=1,"
                           "keepcnt=100 EXEC:'sleep 1000'"),),
        client=(("client", "sleep 0.3; sleep 1000 | nc $S 5000"),), warm_up=6,
        why="keepalive probes of an idle connection are answered", watch=at_server(5000, IDLE),
    ),
    Situation(
        "stopped-reader-host-gone", program="nc", rtt="20ms", prepare=GO,
        server=(("server", "nc -l -p 5000 | sleep 1000"),),
        client=from_client("$W/go bulk $S:5000"), warm_up=4,
        during=(("server", DROP_ALL),), after=4,
        why="the reader stopped, and then its host was gone: window probes are not answered",
        watch=at_sender(5000, fault("path-dead")),
    ),
    Situation(
        "one-of-ten-stalls", program="curl", rtt="20ms", prepare=FILES, server=NGINX,
        client=(("client", "for i in 1 2 3; do "
                           "curl --limit-rate 200k -so /dev/null http://$S:81/big & "
                           "done; curl -so /dev/null http://$S/big & echo $! > pid; wait"),),
        warm_up=5, during=(("client", "kill -STOP $(cat pid)"),), after=3,
        why="one of four downloads of one server is stopped by SIGSTOP",
        watch={"server": Watched("( sport = :80 )", SLOW_READER)},
    ),
    Situation(
        "sender-stopped", program="go", rtt="20ms", prepare=GO, server=go("sink 5000"),
        client=(("client", "sleep 0.3; echo $$ > pid; exec $W/go bulk $S:5000"),), warm_up=3,
        during=(("client", "kill -STOP $(cat pid)"),), after=2,
        why="the sender is stopped by SIGSTOP: nothing is sent", watch=both(5000, IDLE, IDLE),
    ),
    Situation(
        "reader-follows-path", program="pv", rate="20mbit", rtt="30ms", prepare=FILES, server=NGINX,
        client=(("client", "sleep 0.3; curl -s http://$S/big | pv -q -L 20m > /dev/null"),),
        warm_up=5, why="the reader could take eight times what the path carries",
        watch={**at_server(80, FULL), **at_sender(80, TAKES)},
    ),
    Situation(
        "throttled-reader", program="curl", rtt="20ms", rate="200mbit", prepare=FILES, server=NGINX,
        client=(("client", "sleep 0.3; curl -s http://$S/big | sh -c 'while head -c 100000 "
                           "> /dev/null; do sleep 0.1; done'"),),
        warm_up=8, why="a pipe is emptied in steps of 100 kB, ten times a second at most",
        watch={**at_server(80, SLOW_READER), **at_sender(80, SLOW_READER)},
    ),
    Situation(
        "typing", program="nc", rtt="40ms",
        server=(("server", "nc -l -p 5000 > /dev/null"),),
        client=(("client", "sleep 0.3; (while :; do printf x; sleep 0.15; done) | nc $S 5000"),),
        warm_up=4, why="seven bytes a second, one at a time",
        watch=both(5000, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
    Situation(
        "pool-of-idle", program="redis", rtt="10ms",
        server=(("server", "exec redis-server --save '' --appendonly no --protected-mode no"),),
        client=(*from_client(f"{PY_FURTHER} many $S 6379 2"),
                ("client", "sleep 0.3; exec redis-benchmark -h $S -c 1 -n 100000000 -t get -q")),
        warm_up=4, why="one connection asks all the time, others hardly",
        watch=at_sender(6379, SOME_TRAFFIC),
    ),
    Situation(
        "short-thinking-lan", program="go", rtt="2ms", rate="1gbit", queue="1000p", prepare=GO,
        server=go("serve 5000"),
        client=(("client", "while :; do curl -so /dev/null http://$S:5000/page?ms=60; done"),),
        look=6, why="a connection for each page, which takes 60 ms in the server",
        watch=at_sender(5000, THINKS),
    ),
    Situation(
        "far-queries", program="redis", rtt="150ms",
        server=(("server", "exec redis-server --save '' --appendonly no --protected-mode no"),),
        client=from_client("redis-benchmark -h $S -c 4 -n 100000000 -t set -q"), warm_up=4,
        why="four connections that each ask once a round trip of 150 ms",
        watch=both(6379, healthy("round-trip-bound"), SOME_TRAFFIC),
    ),
    Situation(
        "delayed-bytes-loss-far", program="go", rtt="100ms", queue="800p", rate="100mbit",
        path=("--loss", "0.2%"), prepare=GO, server=go("serve 5000"),
        client=curl(":5000/chunks"), warm_up=8, look=8,
        why="0.2 % of loss at 100 ms leave CUBIC a tenth of 100 Mbit/s",
        watch=at_server(5000, fault("random-loss")),
    ),
    Situation(
        "long-path-default-wmem", program="go", rate="200mbit", rtt="100ms", prepare=GO,
        server=go("sink 5000"), client=from_client("$W/go bulk $S:5000"), warm_up=8,
        why="191 of 200 Mbit/s with 4 MiB of send buffer, and with 32 MiB too: the path is full",
        watch=at_sender(5000, FULL),
    ),
]
