"""Situations of further runtimes and proxies: Go, Java, Node, C, gRPC, WebSockets, static programs.

Made as an examination: labels were written down before any of them was run.
"""

from .commands import NGINX, SSHD
from .model import *

GO = (("server", "go build -o $W/go $H/programs/further/further.go"),)
C = (("server", "gcc -O1 -static -o $W/c $H/programs/further/further.c 2>/dev/null"),)
JAVA = (("server", "javac -d $W $H/programs/further/Further.java"),)
FILES = (("server", "truncate -s 8G big; head -c 2000000 /dev/urandom > two"),)
CORKED = fault("cork-not-uncorked")
BUSYBOX = (("server", "exec busybox httpd -f -p 8080 -h $W"),)
# A pair of interfaces beside the emulated path that also carries IPv6.
SIX = (
    sysctl("client", "net.ipv6.conf.all.disable_ipv6=0"),
    sysctl("client", "net.ipv6.conf.default.disable_ipv6=0"),
    sysctl("server", "net.ipv6.conf.all.disable_ipv6=0"),
    ("client", "ip link add six0 type veth peer name six1 netns $SN && "
               "sysctl -qw net.ipv6.conf.six0.disable_ipv6=0 && "
               "ip addr add fd78::1/64 dev six0 nodad && ip link set six0 up"),
    ("server", "sysctl -qw net.ipv6.conf.six1.disable_ipv6=0 && "
               "ip addr add fd78::2/64 dev six1 nodad && ip link set six1 up && sleep 1"),
)
CONFIGS = {
    "tinyproxy.conf": """
User root
Group root
Port 8888
Timeout 600
MaxClients 20
Allow 0.0.0.0/0
LogFile "@W@/tinyproxy.log"
""",
    "pgbench-think.sql": "select 1;\n\\sleep 150 ms\n",
}


def go(command):
    return (("server", f"exec $W/go {command}"),)


def from_client(command):
    return (("client", f"sleep 0.3; exec {command}"),)


def curl(path, options=""):
    return from_client(f"curl {options} -so /dev/null http://$S{path}")


def java(command):
    return f"java -Xshare:auto -XX:TieredStopAtLevel=1 -cp $W Further {command}"


PY_FURTHER = "$PY $H/programs/further/further.py"
UPLOAD = "sh -c 'exec curl -so /dev/null -T - http://$S:5000/upload{query} </dev/zero'"

SITUATIONS = [
    # Questions and answers.
    Situation(
        "go-keepalive-20ms", program="go", rtt="20ms", prepare=GO, server=go("serve 5000"),
        client=from_client("$W/go get http://$S:5000/page 0"),
        why="one page a round trip, answered at once",
        watch=both(5000, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "go-thinks-80ms", program="go", rtt="10ms", prepare=GO, server=go("serve 5000"),
        client=from_client("$W/go get http://$S:5000/page?ms=80 0"),
        why="the server takes 80 ms for each page, the path 10",
        watch=both(5000, THINKS, THINKS_HERE),
    ),
    Situation(
        "go-pieces-nodelay", program="go", **LAN, prepare=GO, server=go("answerer 5000"),
        client=from_client("$W/go pieces $S:5000 0"),
        why="two writes a message, but Go sets TCP_NODELAY",
        watch=both(5000, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
    Situation(
        "go-pieces-nagle", program="go", **LAN, prepare=GO, server=go("answerer 5000"),
        client=from_client("$W/go pieces $S:5000 1"),
        why="two writes a message with SetNoDelay(false)", watch=both(5000, STALLS, STALLS),
    ),
    Situation(
        "grpc-calls", program="grpc", rtt="30ms",
        server=(("server", f"exec {PY_FURTHER} grpc-serve"),),
        settle=2, client=from_client(f"{PY_FURTHER} grpc-calls $S"), warm_up=4,
        why="one call a round trip, answered at once",
        watch=both(5000, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "grpc-slow-stream", program="grpc", rtt="10ms", settle=2, warm_up=5,
        server=(("server", f"exec {PY_FURTHER} grpc-serve"),),
        client=from_client(f"{PY_FURTHER} grpc-slow-stream $S"),
        why="HTTP/2's own flow control holds the sender; TCP and its reader are in order",
        watch=both(5000, TAKES, SOME_TRAFFIC),
    ),
    Situation(
        "websocket-ticks", program="websockets", rtt="20ms", settle=2, warm_up=4,
        server=(("server", f"exec {PY_FURTHER} ws-serve 80 0.02"),),
        client=from_client(f"{PY_FURTHER} ws-listen $S"),
        why="fifty ticks of 80 bytes a second, no answers",
        watch=both(5000, TAKES, PACED),
    ),
    Situation(
        "websocket-quiet", program="websockets", rtt="20ms", settle=2, warm_up=4,
        server=(("server", f"exec {PY_FURTHER} ws-serve 80 60"),),
        client=from_client(f"{PY_FURTHER} ws-listen $S"),
        why="a tick a minute", watch=both(5000, IDLE, IDLE),
    ),
    Situation(
        "node-keepalive-pause", program="node", rtt="20ms",
        server=(("server", "exec node $H/programs/further/further.js serve 5000"),), settle=1.5,
        client=from_client("node $H/programs/further/further.js get http://$S:5000/ 500"),
        warm_up=4,
        why="a page each half second: the client pauses",
        watch=both(5000, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
    Situation(
        "node-busy", program="node", rtt="2ms", rate="1gbit", queue="1000p",
        server=(("server", "exec node $H/programs/further/further.js busy 5000"),), settle=1.5,
        client=from_client("wrk -t1 -c10 -d100 http://$S:5000/"), warm_up=4,
        why="ten connections wait for a program that computes 5 ms for each page",
        watch={**at_sender(5000, fault("application-thinks"))},
    ),
    Situation(
        "java-pieces", program="java", **LAN, prepare=JAVA + GO, server=go("answerer 5000"),
        client=from_client(java("pieces $S 5000")), warm_up=4,
        why="a DataOutputStream straight on a socket: three writes a message, with Nagle on",
        watch=both(5000, STALLS, STALLS),
    ),
    Situation(
        "java-buffered", program="java", **LAN, prepare=JAVA + GO, server=go("answerer 5000"),
        client=from_client(java("buffered $S 5000")), warm_up=4,
        why="the same through a BufferedOutputStream: one write a message",
        watch=both(5000, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
    Situation(
        "c-corked", program="c", **LAN, prepare=C + GO, server=go("answerer 5000"),
        client=from_client("$W/c corked $S 5000"),
        why="TCP_CORK is set and never cleared: each message waits for 200 ms",
        watch=both(5000, CORKED, TAKES),
    ),
    Situation(
        "c-more", program="c", rtt="5ms", rate="1gbit", queue="1000p", prepare=C + GO,
        server=go("answerer 5000"), client=from_client("$W/c more $S 5000"),
        why="the last write of each message says MSG_MORE: it waits for 200 ms",
        watch=at_sender(5000, CORKED),
    ),
    Situation(
        "six-pieces", program="c", prepare=C + GO + SIX, server=go("answerer 5000"),
        client=from_client("$W/c pieces fd78::2 5000"),
        why="two writes a message with Nagle on, over IPv6", watch=both(5000, STALLS, STALLS),
    ),
    Situation(
        "tls-anew-50ms", program="nginx", rtt="50ms",
        prepare=(("server", "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 "
                            "-nodes -keyout tls.key -out tls.crt -days 2 -subj /CN=x 2>/dev/null; "
                            "echo hello > page; printf 'daemon off; user root; pid %s/p; "
                            "error_log stderr; events {} http { access_log off; "
                            "client_body_temp_path %s/t1; proxy_temp_path %s/t2; "
                            "fastcgi_temp_path %s/t3; uwsgi_temp_path %s/t4; scgi_temp_path %s/t5; "
                            "server { listen 443 ssl; "
                            "ssl_certificate %s/tls.crt; ssl_certificate_key %s/tls.key; root %s; "
                            "} }' $W $W $W $W $W $W $W $W $W > tls.conf"),),
        server=(("server", "exec nginx -p $W -c $W/tls.conf"),),
        client=(("client", "while :; do curl -ks -o /dev/null https://$S/page; done"),),
        why="a connection, a TLS handshake and one page each: all of it is round trips",
        watch=both(443, healthy("round-trip-bound", "unknown", "app-limited", "idle"),
                   SOME_TRAFFIC),
    ),
    Situation(
        "memcached-many", program="memcached", rtt="20ms",
        server=(("server", "exec memcached -u root -l 0.0.0.0 -p 11211"),),
        client=from_client(f"{PY_FURTHER} many $S 11211 200"), warm_up=5,
        why="two hundred connections of one process, each asks once a second",
        watch=both(11211, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
    Situation(
        "redis-lua-100ms", program="redis", rtt="10ms",
        server=(("server", "exec redis-server --save '' --appendonly no --protected-mode no"),),
        client=(("client", "printf 'local t = redis.call(\"time\"); local e = t[1] * 1000 + "
                           "t[2] / 1000 + 100; repeat t = redis.call(\"time\") until t[1] * 1000 "
                           "+ t[2] / 1000 > e; return 1' > slow.lua; "
                           "exec redis-cli -h $S -r 100000 eval \"$(cat slow.lua)\" 0 "
                           ">/dev/null"),),
        why="each question takes 100 ms in the server, 10 ms on the path",
        watch=both(6379, THINKS, THINKS_HERE),
    ),
    Situation(
        "redis-large-values", program="redis", rtt="20ms",
        server=(("server", "exec redis-server --save '' --appendonly no --protected-mode no"),),
        client=(("client", "head -c 4000000 /dev/zero | redis-cli -h $S -x set big >/dev/null; "
                           "exec redis-cli -h $S -r 100000 get big >/dev/null"),), warm_up=8,
        why="values of 4 MB one after the other fill the path nearly all the time",
        watch=both(6379, TAKES, healthy("path-full", "app-limited", "unknown")),
    ),
    Situation(
        "pgbench-nobody", program="postgres", rtt="20ms",
        prepare=(
            ("server", "mkdir pg && chown postgres pg && cd / && su postgres -s /bin/sh -c "
                       "\"initdb -D $W/pg -A trust --no-sync >/dev/null && "
                       "echo host all all all trust >> $W/pg/pg_hba.conf\""),
        ),
        server=(("server", "cd / && exec su postgres -s /bin/sh -c \"exec postgres -D $W/pg "
                           "-h '*' -k $W/pg -c fsync=off\""),), settle=2,
        client=(("client", "cd / && exec su nobody -s /bin/sh -c \"exec pgbench -n -h $S "
                           "-U postgres -c 5 -T 100 -f $W/pgbench-think.sql postgres\""),),
        warm_up=4, why="five connections of another user, who pauses 150 ms after each question",
        watch=both(5432, healthy("application-thinks", "app-limited", "idle", "unknown"),
                   healthy("application-thinks", "app-limited", "idle", "unknown")),
    ),
    # Windows, buffers and readers.
    Situation(
        "go-setreadbuffer", program="go", prepare=GO, server=go("sink 5000 16384"),
        client=from_client("$W/go bulk $S:5000"),
        why="SetReadBuffer(16384) after accept, the BDP is 250 kB",
        watch=both(5000, FIXED_WINDOW, fault("rcvbuf-locked")),
    ),
    Situation(
        "go-setwritebuffer", program="go", rtt="60ms", prepare=GO,
        server=go("serve 5000 32768"), client=curl(":5000/chunks"),
        why="SetWriteBuffer(32768) on each connection, the BDP is 375 kB",
        watch=at_server(5000, fault("sndbuf-locked", "sndbuf-tiny")),
    ),
    Situation(
        "go-reads-slowly", program="go", rtt="20ms", prepare=GO, server=go("serve 5000"),
        client=from_client(UPLOAD.format(query="?ms=100")), warm_up=8,
        why="the server reads 64 KiB each 100 ms: 5 of 50 Mbit/s",
        watch=both(5000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "java-reads-slowly", program="java", rtt="20ms", prepare=JAVA + GO,
        server=(("server", f"exec {java('slow 5000 100')}"),), settle=2,
        client=from_client("$W/go bulk $S:5000"), warm_up=8,
        why="the server reads 32 KiB each 100 ms: 2.6 of 50 Mbit/s",
        watch=both(5000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "python-batches", rtt="20ms", prepare=GO,
        server=(("server", f"exec {PY_FURTHER} batches 5000"),), settle=1,
        client=from_client("$W/go bulk $S:5000"), warm_up=12, look=8,
        why="the server reads a megabyte, and then works for two seconds",
        watch=both(5000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "nc-into-sleep", program="nc", rtt="20ms",
        server=(("server", "nc -l -p 5000 | sleep 1000"),),
        client=from_client("sh -c 'pv -q /dev/zero | nc $S 5000'"), warm_up=4,
        why="nc's output is a pipe that nobody reads", watch=both(5000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "wget-into-pv", program="wget", rtt="30ms", prepare=FILES, server=BUSYBOX,
        client=(("client", "sleep 0.3; wget -qO - http://$S:8080/big | "
                           "pv -q -L 700k > /dev/null"),),
        warm_up=10, why="wget writes to a pipe that is emptied at 700 kB/s",
        watch={**at_server(8080, SLOW_READER), **at_sender(8080, SLOW_READER)},
    ),
    Situation(
        "socat-unix-slow", program="socat", rtt="20ms", prepare=GO,
        server=(("server", "socat -u UNIX-LISTEN:$W/u STDOUT | pv -qL 400k > /dev/null"),
                ("server", "sleep 0.5; exec socat -u TCP-LISTEN:9000 UNIX-CONNECT:$W/u")),
        settle=1.5,
        client=from_client("$W/go bulk $S:9000"), warm_up=10,
        why="a proxy forwards to a Unix socket whose reader takes 400 kB/s",
        watch=both(9000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "tinyproxy-slow-client", program="tinyproxy", rtt="20ms", prepare=GO,
        server=(("server", "exec tinyproxy -d -c $W/tinyproxy.conf"), *go("serve 5000")),
        client=from_client("curl --limit-rate 250K -x http://$S:8888 -so /dev/null "
                           "http://$S:5000/chunks"),
        warm_up=12, why="curl reads 250 kB/s of what a proxy sends",
        watch={**at_server(8888, SLOW_READER), **at_sender(8888, SLOW_READER)},
    ),
    Situation(
        "microsocks-slow-far", program="microsocks", rtt="20ms", prepare=GO,
        server=(("server", "exec microsocks -p 1080"), *go("serve 5000")), settle=1,
        client=from_client("sh -c 'exec curl --socks5 $S:1080 -so /dev/null -T - "
                           "\"http://$S:5000/upload?ms=150\" </dev/zero'"),
        warm_up=12, why="a SOCKS proxy waits for a server that reads 64 KiB each 150 ms",
        watch=both(1080, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "busybox-wscale-off", program="busybox", rtt="80ms", prepare=FILES + (
            sysctl("client", "net.ipv4.tcp_window_scaling=0"),), server=BUSYBOX,
        client=from_client("busybox wget -qO /dev/null http://$S:8080/big"),
        why="65535 bytes a round trip are 6.5 of 50 Mbit/s",
        watch=at_server(8080, fault("window-scaling-off")),
    ),
    Situation(
        "go-no-autotuning", program="go", rtt="60ms", prepare=GO + (
            sysctl("server", "net.ipv4.tcp_moderate_rcvbuf=0"),), server=go("serve 5000"),
        client=from_client(UPLOAD.format(query="")), warm_up=4,
        why="tcp_moderate_rcvbuf is 0: the window stays at 64 KiB, the BDP is 375 kB",
        watch=both(5000, fault("peer-window", "rmem-autotuning-off"),
                   fault("rmem-autotuning-off")),
    ),
    Situation(
        "nginx-curl-rmem-cap", program="curl", rtt="60ms", prepare=FILES + (
            sysctl("client", "net.ipv4.tcp_rmem=4096 32768 98304"),), server=NGINX,
        client=curl("/big"), why="tcp_rmem[2] of the client is 96 KiB, the BDP is 375 kB",
        watch={**at_server(80, CAPPED_WINDOW), **at_sender(80, fault("tcp-rmem-max-cap"))},
    ),
    Situation(
        "go-wmem-cap", program="go", rtt="60ms", prepare=GO + (
            sysctl("server", "net.ipv4.tcp_wmem=4096 16384 98304"),), server=go("serve 5000"),
        client=curl(":5000/chunks"), why="tcp_wmem[2] is 96 KiB, the BDP is 375 kB",
        watch=at_server(5000, fault("tcp-wmem-max-cap")),
    ),
    # Senders that do not send.
    Situation(
        "go-chunks", program="go", prepare=GO, server=go("serve 5000"),
        client=curl(":5000/chunks?bytes=8000\\&ms=100"),
        why="the server writes 8 kB ten times a second",
        watch={**at_server(5000, PACED), **at_sender(5000, TAKES)},
    ),
    Situation(
        "go-pacing", program="go", prepare=GO, server=go("serve 5000 0 1000000"),
        client=curl(":5000/chunks"), why="SO_MAX_PACING_RATE is 8 of 50 Mbit/s",
        watch=at_server(5000, fault("paced")),
    ),
    Situation(
        "pv-nc", program="nc", server=(("server", "nc -l -p 5000 > /dev/null"),),
        client=(("client", "sleep 0.3; pv -q -L 500k /dev/zero | nc $S 5000"),), warm_up=5,
        why="pv lets 500 kB/s through", watch=both(5000, PACED, TAKES),
    ),
    Situation(
        "tinyproxy-slow-origin", program="tinyproxy", rtt="20ms", prepare=GO,
        server=(("server", "exec tinyproxy -d -c $W/tinyproxy.conf"), *go("serve 5000")),
        client=from_client("curl -x http://$S:8888 -so /dev/null "
                           "'http://127.0.0.1:5000/chunks?bytes=30000&ms=100'"),
        warm_up=5, why="a proxy forwards what its origin sends at 300 kB/s",
        watch={**at_server(8888, PACED), **at_sender(8888, TAKES)},
    ),
    Situation(
        "rsync-bwlimit", program="rsync", rtt="20ms",
        prepare=(("server", "mkdir m && printf 'use chroot = no\\nuid = root\\n[m]\\npath = %s/m\\n"
                            "read only = no\\n' $W > rsyncd.conf"),
                 ("client", "truncate -s 4G big")),
        server=(("server", "exec rsync --daemon --no-detach --port 8873 --config $W/rsyncd.conf"),),
        client=from_client("rsync -W --bwlimit=600 big rsync://$S:8873/m/"), warm_up=5,
        why="rsync sends 600 kB/s, as --bwlimit says", watch=both(8873, PACED, TAKES),
    ),
    Situation(
        "ssh-channel-window", program="ssh", rate="200mbit", rtt="300ms", prepare=SSHD,
        server=(("server", "exec /usr/sbin/sshd -D -f $W/sshd_config"),),
        client=from_client("ssh -F $W/ssh_config -c aes128-gcm@openssh.com $S cat /dev/zero "
                           "> /dev/null"), warm_up=12,
        why="ssh's own window of 2 MB is 56 of 200 Mbit/s: its program waits, not TCP",
        watch=at_server(2222, healthy("app-limited", "application-thinks", "unknown")),
    ),
    Situation(
        "ssh-into-pv", program="ssh", rtt="20ms", prepare=SSHD,
        server=(("server", "exec /usr/sbin/sshd -D -f $W/sshd_config"),),
        client=(("client", "sleep 0.3; ssh -F $W/ssh_config $S cat /dev/zero | "
                           "pv -q -L 400k > /dev/null"),), warm_up=12,
        why="ssh reads promptly and its own window stops the other end",
        watch=at_server(2222, healthy("app-limited", "application-thinks", "unknown", "idle")),
    ),
    Situation(
        "go-bursts-120ms", program="go", rtt="120ms", prepare=GO + (
            sysctl("server", "net.ipv4.tcp_slow_start_after_idle=1"),), server=go("serve 5000"),
        client=curl(":5000/chunks?bytes=400000\\&ms=2000"), warm_up=8, look=10,
        why="400 kB each 2 s: the restarted window costs four of five round trips",
        watch=at_server(5000, fault("slow-start-after-idle")),
    ),
    Situation(
        "go-pages-200ms", program="go", rate="100mbit", rtt="200ms", prepare=GO,
        server=go("serve 5000"),
        client=(("client", "while :; do curl -so /dev/null http://$S:5000/page?bytes=150000; "
                           "done"),),
        look=8, why="150 kB on new connections take four round trips with 10 segments, two with 60",
        watch=at_server(5000, fault("initcwnd-too-small")),
    ),
    Situation(
        "c-flood", program="c", **LAN, prepare=C + GO, server=go("sink 5000"),
        client=from_client("$W/c flood $S 5000"),
        why="ten bytes a write with TCP_NODELAY, as fast as possible",
        watch=at_sender(5000, fault("small-writes-cpu", "unbatched-records")),
    ),
    Situation(
        "perl-records", program="perl", **LAN, prepare=GO, server=go("sink 5000"),
        client=from_client("perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new("
                           "\"$ENV{S}:5000\"); setsockopt($s, 6, 1, 1); while (1) { "
                           "syswrite($s, \"x\" x 60); select(undef, undef, undef, 0.01) }'"),
        why="a hundred records a second, which is little", watch=both(5000, PACED, TAKES),
    ),
    # Paths.
    Situation(
        "busybox-full", program="busybox", rate="60mbit", rtt="30ms", prepare=FILES,
        server=BUSYBOX, client=from_client("busybox wget -qO /dev/null http://$S:8080/big"),
        why="a download fills the path", watch={**at_server(8080, FULL), **at_sender(8080, TAKES)},
    ),
    Situation(
        "c-notsent-lowat", program="c", prepare=C + GO, server=go("sink 5000"),
        client=from_client("$W/c lowat $S 5000"),
        why="the program writes only while little is unsent, and fills the path",
        watch=at_sender(5000, FULL),
    ),
    Situation(
        "half-closed-full", program="socat", rtt="30ms",
        server=(("server", "exec socat TCP-LISTEN:5000,fork,reuseaddr EXEC:'cat /dev/zero'"),),
        client=(("client", "sleep 0.3; echo hi | nc -N $S 5000 > /dev/null"),), warm_up=5,
        why="the client has closed its direction; what comes back fills the path",
        watch={**at_server(5000, FULL), **at_sender(5000, TAKES)},
    ),
    Situation(
        "aria2-four-loss", program="aria2", rtt="30ms", queue="400p", path=("--loss", "1%"),
        prepare=FILES, server=NGINX,
        client=from_client("aria2c -q -x4 -s4 -k1M --file-allocation=none -d $W -o got "
                           "http://$S/big"), warm_up=5,
        why="four connections lose 1 % of their packets on the wire, and the path is not full",
        watch=at_server(80, fault("random-loss")),
    ),
    Situation(
        "aria2-eight", program="aria2", rate="20mbit", rtt="30ms", queue="2bdp", prepare=FILES,
        server=NGINX,
        client=from_client("aria2c -q -x8 -s8 -k1M --file-allocation=none -d $W -o got "
                           "http://$S/big"), warm_up=5,
        why="eight connections share a full path", watch=at_server(80, FULL),
    ),
    Situation(
        "reno-loss", program="go", rtt="30ms", queue="400p", path=("--loss", "0.5%"), cc="reno",
        prepare=GO, server=go("sink 5000"), client=from_client("$W/go bulk $S:5000"), warm_up=5,
        why="0.5 % random loss on the wire, and Reno", watch=at_sender(5000, fault("random-loss")),
    ),
    Situation(
        "node-keepalive-loss-4", program="node", rtt="10ms", queue="400p", path=("--loss", "4%"),
        server=(("server", "exec node $H/programs/further/further.js serve 5000"),), settle=1.5,
        client=from_client("node $H/programs/further/further.js get http://$S:5000/ 0"),
        warm_up=4, look=8,
        why="each lost packet is waited for by a timer of 200 ms, of a request that takes 10",
        watch=at_sender(5000, fault("retransmission-timeouts", "random-loss")),
    ),
    Situation(
        "router-mtu-silent", program="busybox", router=True, rate="100mbit", rtt="20ms",
        prepare=FILES + (
            ("router", "ip link set lab0 mtu 1300 && nft 'add table ip mute; add chain ip mute out "
                       "{ type filter hook output priority 0; }; add rule ip mute out "
                       "icmp type destination-unreachable drop'"),),
        server=BUSYBOX, client=from_client("busybox wget -qO /dev/null http://$S:8080/big"),
        why="a router with a smaller MTU whose ICMP messages are dropped",
        watch=at_server(8080, fault("pmtu-blackhole")),
    ),
    Situation(
        "router-bloat", program="curl", rate="200mbit", rtt="20ms", queue="2000p", router=True,
        prepare=GO + (("router", "tc qdisc add dev far0 root tbf rate 8mbit burst 10kb "
                                 "limit 600kb"),),
        server=go("serve 5000"), client=from_client(UPLOAD.format(query="")), warm_up=12,
        why="a router with 600 ms of queue, which CUBIC fills",
        watch=at_sender(5000, fault("bufferbloat")),
    ),
    Situation(
        "router-htb", program="curl", rate="200mbit", rtt="30ms", queue="2000p", router=True,
        prepare=GO + (("router", "tc qdisc add dev far0 root handle 1: htb default 1 && tc class "
                                 "add dev far0 parent 1: classid 1:1 htb rate 10mbit && tc qdisc "
                                 "add dev far0 parent 1:1 pfifo limit 30"),),
        server=go("serve 5000"), client=from_client(UPLOAD.format(query="")), warm_up=8,
        why="a router shapes to 10 Mbit/s with a queue of 36 ms: the path is full",
        watch=at_sender(5000, FULL),
    ),
    Situation(
        "router-police-nft", program="go", rate="200mbit", rtt="30ms", queue="2000p", router=True,
        prepare=GO + (("router", "nft 'add table ip police; add chain ip police out { type filter "
                                 "hook forward priority 0; }; add rule ip police out oif far0 "
                                 "limit rate over 1500 kbytes/second burst 60 kbytes drop'"),),
        server=go("sink 5000"), client=from_client("$W/go bulk $S:5000"), warm_up=8,
        why="a firewall drops what exceeds 12 Mbit/s, without a queue",
        watch=at_sender(5000, fault("policed")),
    ),
    Situation(
        "six-tbf", program="iperf3", prepare=SIX + (
            ("client", "tc qdisc add dev six0 root tbf rate 20mbit burst 20kb limit 100kb"),),
        server=(("server", "exec iperf3 -s"),),
        client=from_client("iperf3 -6 -c fd78::2 -t 100 -C cubic"), warm_up=5,
        why="the host shapes to 20 Mbit/s with a queue of 40 ms: the path is full",
        watch=at_sender(5201, FULL),
    ),
    Situation(
        "websocket-host-gone", program="websockets", rtt="20ms", settle=2, warm_up=4,
        server=(("server", f"exec {PY_FURTHER} ws-serve 80 0.05"),),
        client=from_client(f"{PY_FURTHER} ws-listen $S"),
        during=(("client", "nft 'add table ip gone; add chain ip gone in { type filter hook input "
                           "priority 0; policy drop; }'"),), after=3,
        why="the client's host drops everything from 3 s before the look on",
        watch=at_server(5000, fault("path-dead")),
    ),
    # Connections that do not open.
    Situation(
        "syns-half-dropped", program="curl", rtt="10ms", prepare=GO + (
            ("server", "nft 'add table ip syns; add chain ip syns in { type filter hook input "
                       "priority 0; }; add rule ip syns in tcp flags & (syn|ack) == syn numgen "
                       "random mod 100 < 60 drop'"),),
        server=go("serve 5000"),
        client=(("client", "while :; do curl -so /dev/null http://$S:5000/page; done"),),
        look=8, why="three SYNs of five are dropped, and each costs a second and more",
        watch=at_sender(5000, fault("connect-unanswered")),
    ),
]
