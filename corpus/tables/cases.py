"""The table of situations: the path, the programs, who watches, and the right answers."""

from .commands import FILES, IPERF_SERVER, NGINX, REDIS, SSHD, client, iperf, programs
from .model import *

# Programs.

POSTGRES = (
    ("server", "mkdir pg && chown postgres pg && cd / && su postgres -s /bin/sh -c "
               "\"initdb -D $W/pg -A trust --no-sync >/dev/null && "
               "echo host all all all trust >> $W/pg/pg_hba.conf\""),
)
POSTGRES_SERVER = (
    ("server", "cd / && exec su postgres -s /bin/sh -c \"exec postgres -D $W/pg -h '*' "
               "-k $W/pg -c fsync=off\""),
)

CONFIGS = {
    "nginx.conf": """
daemon off; user root; pid @W@/nginx.pid; error_log stderr; worker_processes 1;
events { worker_connections 1024; }
http {
  access_log off; sendfile on; keepalive_requests 100000000;
  client_body_temp_path @W@/t1; proxy_temp_path @W@/t2; fastcgi_temp_path @W@/t3;
  uwsgi_temp_path @W@/t4; scgi_temp_path @W@/t5;
  server { listen 80 backlog=1024; root @W@; tcp_nopush on; }
  server { listen 81; root @W@; tcp_nopush on; limit_rate 500k; }
  server { listen 82; root @W@; tcp_nopush on; limit_rate 3m; }
  server { listen 83; root @W@; tcp_nopush off; tcp_nodelay off; }
}
""",
    "haproxy-81.cfg": """
defaults
  mode http
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen pages
  bind :9080
  server far 127.0.0.1:81
""",
    "haproxy.cfg": """
global
  maxconn 1000
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen upload
  bind :9000
  server far 127.0.0.1:9001
listen pages
  bind :9080
  mode http
  server far 127.0.0.1:80
""",
    "sshd_config": """
Port 2222
HostKey @W@/host
AuthorizedKeysFile @W@/allowed
StrictModes no
PermitRootLogin yes
PidFile none
Subsystem sftp internal-sftp
""",
    "ssh_config": """
Host *
  Port 2222
  User root
  IdentityFile @W@/key
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
""",
    "mosquitto.conf": "listener 1883\nallow_anonymous true\n",
    "tick.sql": "select 1;\n",
    "sleep.sql": "select pg_sleep(0.05);\n",
}


def bulk(rate, rtt, queue, cc, warm_up=3.0, why="one bulk flow, buffers suffice", **more):
    return Situation(
        name=f"bulk-{cc}-{rate}-{rtt}-{queue}",
        program="iperf3",
        why=why,
        rate=rate,
        rtt=rtt,
        queue=queue,
        cc=cc,
        server=IPERF_SERVER,
        client=iperf(),
        warm_up=warm_up,
        watch=both(5201, FULL, healthy("path-full", "unknown", "app-limited")),
        **more,
    )


BULK = [
    bulk("1mbit", "20ms", "50p", "bbr", 5),
    bulk("8mbit", "20ms", "1bdp", "cubic"),
    bulk("50mbit", "40ms", "1bdp", "cubic"),
    bulk("50mbit", "40ms", "1bdp", "bbr"),
    bulk("100mbit", "10ms", "1bdp", "cubic"),
    bulk("100mbit", "1ms", "100p", "bbr"),
    bulk("100mbit", "150ms", "1bdp", "cubic", 10),
    bulk("20mbit", "300ms", "1bdp", "cubic", 12),
    Situation(
        "bulk-bbr-600ms-wmem-4m", program="iperf3", rate="20mbit", rtt="600ms", cc="bbr",
        server=IPERF_SERVER, client=iperf(), warm_up=40,
        prepare=(sysctl("client", "net.ipv4.tcp_wmem=4096 16384 4194304"),),
        why="BBR wants two BDPs in flight and gets less of 4 MiB; the control with 32 MiB "
        "was faster in two of three pairs: both answers pass",
        watch=at_sender(5201, fault("tcp-wmem-max-cap", "path-full")),
    ),
    Situation(
        "bulk-bbr-600ms-large-wmem", program="iperf3", rate="20mbit", rtt="600ms", cc="bbr",
        server=IPERF_SERVER, client=iperf(), warm_up=40,
        prepare=(sysctl("client", "net.ipv4.tcp_wmem=4096 16384 33554432"),),
        why="control: send buffers cannot be the limit here", watch=at_sender(5201, FULL),
    ),
    bulk("500mbit", "0.2ms", "500p", "cubic"),
    bulk("10mbit", "20ms", "1000p", "bbr", 6, "BBR keeps about one BDP of queue by design"),
]

SITUATIONS = [
    *BULK,
    # Bulk with something wrong on the path.
    Situation(
        "short-queue-cubic", program="iperf3", queue="15p", server=IPERF_SERVER, client=iperf(),
        why="a queue of 15 packets drops by itself; nothing is lost on the wire",
        warm_up=5, watch=at_sender(5201, fault("path-full", "policed")),
    ),
    Situation(
        "short-queue-bbr", program="iperf3", queue="15p", cc="bbr", server=IPERF_SERVER,
        client=iperf(), why="BBR fills 50 Mbit/s in spite of a queue of 15 packets", warm_up=5,
        watch=at_sender(5201, fault("path-full", "policed")),
    ),
    Situation(
        "bufferbloat", program="iperf3", rate="10mbit", rtt="20ms", queue="1000p",
        server=IPERF_SERVER, client=iperf(), warm_up=12,
        why="1000 packets of queue are 1.2 s at 10 Mbit/s, and CUBIC fills them",
        watch=at_sender(5201, fault("bufferbloat")),
    ),
    Situation(
        "loss-1-cubic", program="iperf3", queue="400p", path=("--loss", "1%"),
        server=IPERF_SERVER, client=iperf(), why="1 % random loss on the wire",
        watch=at_sender(5201, fault("random-loss")),
    ),
    Situation(
        "loss-1-nginx", program="nginx", queue="400p", path=("--loss", "1%"), prepare=FILES,
        server=NGINX, client=(("client", "exec curl -so /dev/null http://$S/big"),),
        why="1 % random loss on the wire", watch=at_server(80, fault("random-loss")),
    ),
    Situation(
        "loss-1-bbr", program="iperf3", queue="400p", path=("--loss", "1%"), cc="bbr",
        server=IPERF_SERVER, client=iperf(), why="BBR fills the path in spite of 1 % loss",
        watch=at_sender(5201, healthy("path-full", "random-loss", also=("random-loss",))),
    ),
    Situation(
        "policer", program="iperf3", rate="200mbit", rtt="40ms", queue="2000p", router=True,
        prepare=(("router", "tc qdisc add dev far0 root tbf rate 20mbit burst 30kb limit 3kb"),),
        server=IPERF_SERVER, client=iperf(), warm_up=6,
        why="a token bucket without a queue at a router: 20 Mbit/s, what exceeds it is dropped",
        watch=at_sender(5201, fault("policed")),
    ),
    Situation(
        "policer-bbr", program="iperf3", rate="200mbit", rtt="40ms", queue="2000p", router=True,
        prepare=(("router", "tc qdisc add dev far0 root tbf rate 20mbit burst 60kb limit 3kb"),),
        server=IPERF_SERVER, client=iperf(), warm_up=6, cc="bbr",
        why="a token bucket without a queue at a router: 20 Mbit/s, what exceeds it is dropped",
        watch=at_sender(5201, fault("policed", "path-full")),
    ),
    Situation(
        "shaper", program="iperf3", rate="200mbit", rtt="40ms", queue="2000p", router=True,
        prepare=(("router", "tc qdisc add dev far0 root tbf rate 20mbit burst 10kb limit 100kb"),),
        server=IPERF_SERVER, client=iperf(), warm_up=6,
        why="a router shapes to 20 Mbit/s with a queue of one BDP: the path is full",
        watch=at_sender(5201, FULL),
    ),
    Situation(
        "incast", program="iperf3", rate="100mbit", rtt="0.5ms", queue="64p",
        server=IPERF_SERVER, client=iperf("-P 8"), why="eight senders share a short queue",
        watch=at_sender(5201, fault("path-full")),
    ),
    Situation(
        "two-share", program="iperf3", server=IPERF_SERVER, client=iperf("-P 2"), warm_up=6,
        why="two flows share a path that is full", watch=at_sender(5201, FULL),
    ),
    Situation(
        "jitter-bulk", program="iperf3", path=("--jitter", "10ms"), server=IPERF_SERVER,
        client=iperf(), queue="2bdp", why="delays vary by 10 ms in order; nothing is lost on "
        "the wire", watch=at_sender(5201, healthy("path-full")),
    ),
    Situation(
        "pmtu-black-hole", program="iperf3",
        path=("--set", "path.forward.link_mtu=1400", "--set", "path.forward.too_big=vanish"),
        server=IPERF_SERVER, client=iperf(),
        why="packets above 1400 bytes vanish without ICMP, smaller ones pass",
        watch=at_sender(5201, fault("pmtu-blackhole")),
    ),
    Situation(
        "path-dies", program="iperf3", server=IPERF_SERVER, client=iperf(),
        during=(("server", "ip route add blackhole 10.77.0.1/32"),), after=2,
        why="from 2 s before the look on nothing passes in either direction",
        watch=at_sender(5201, fault("path-dead")),
    ),
    Situation(
        "host-vanishes", program="nginx", prepare=FILES, server=NGINX,
        client=(("client", "exec curl -so /dev/null http://$S/big"),),
        during=(("client", "ip addr flush dev lab0"),), after=2,
        why="the client's host is gone (its address is removed), the server still sends",
        watch=at_server(80, fault("path-dead")),
    ),
    # Windows and buffers.
    Situation(
        "rcvbuf-locked", server=programs("sink 5000 --rcvbuf 32768"),
        client=client("source $S 5000 --request 65536"),
        why="the receiver sets SO_RCVBUF to 32 KiB, the BDP is 250 kB",
        watch=both(5000, FIXED_WINDOW, fault("rcvbuf-locked")),
    ),
    Situation(
        "rmem-cap", server=programs("sink 5000"), client=client("source $S 5000 --request 65536"),
        prepare=(sysctl("server", "net.ipv4.tcp_rmem=4096 65536 65536"),),
        why="tcp_rmem[2] is 64 KiB, the BDP is 250 kB",
        watch=both(5000, CAPPED_WINDOW, fault("tcp-rmem-max-cap")),
    ),
    Situation(
        "no-rmem-autotuning", server=programs("sink 5000"),
        client=client("source $S 5000 --request 65536"),
        prepare=(sysctl("server", "net.ipv4.tcp_moderate_rcvbuf=0"),
                 sysctl("server", "net.ipv4.tcp_rmem=4096 65536 6291456")),
        why="tcp_moderate_rcvbuf is 0, so the window stays at tcp_rmem[1]",
        watch=both(5000, fault("peer-window", "rmem-autotuning-off"),
                   fault("rmem-autotuning-off")),
    ),
    Situation(
        "wscale-off", program="iperf3", rtt="100ms", server=IPERF_SERVER, client=iperf(),
        prepare=(sysctl("server", "net.ipv4.tcp_window_scaling=0"),),
        why="65535 bytes a round trip are 5 of 50 Mbit/s",
        watch=at_sender(5201, fault("window-scaling-off")),
    ),
    Situation(
        "iperf-w-32k", program="iperf3", server=IPERF_SERVER, client=iperf("-w 32K"),
        why="iperf3 -w sets SO_SNDBUF and SO_RCVBUF at both ends",
        watch=at_sender(5201, fault("sndbuf-locked", "sndbuf-tiny", "rcvbuf-locked",
                                    "peer-window")),
    ),
    Situation(
        "sndbuf-locked", server=programs("sink 5000"),
        client=client("source $S 5000 --request 65536 --sndbuf 16384"),
        why="the sender sets SO_SNDBUF to 16 KiB, the BDP is 250 kB",
        watch=at_sender(5000, fault("sndbuf-locked", "sndbuf-tiny")),
    ),
    Situation(
        "wmem-cap", server=programs("sink 5000"), client=client("source $S 5000 --request 65536"),
        prepare=(sysctl("client", "net.ipv4.tcp_wmem=4096 16384 65536"),),
        why="tcp_wmem[2] is 64 KiB, the BDP is 250 kB",
        watch=at_sender(5000, fault("tcp-wmem-max-cap")),
    ),
    Situation(
        "sack-off-loss", program="iperf3", path=("--loss", "0.5%"), queue="400p",
        server=IPERF_SERVER, client=iperf(), prepare=(sysctl("server", "net.ipv4.tcp_sack=0"),),
        why="without SACK each loss costs a round trip, and there is loss",
        watch=at_sender(5201, fault("sack-or-timestamps-off", "random-loss")),
    ),
    Situation(
        "sack-off-no-loss", program="iperf3", server=IPERF_SERVER, client=iperf("-b 5M"),
        prepare=(sysctl("server", "net.ipv4.tcp_sack=0"),),
        why="SACK is off, but nothing is lost and the program sends 5 of 50 Mbit/s",
        watch=at_sender(5201, healthy("app-limited", "paced")),
    ),
    Situation(
        "large-locked-buffer", program="iperf3", rate="8mbit", rtt="20ms", server=IPERF_SERVER,
        client=iperf("-w 256K"), why="buffers are locked, but larger than BDP and queue together",
        watch=at_sender(5201, FULL),
    ),
    # Readers that do not read.
    Situation(
        "curl-limit-rate", program="curl", prepare=FILES, server=NGINX,
        client=(("client", "exec curl --limit-rate 300K -so /dev/null http://$S/big"),),
        warm_up=8, why="curl reads 300 kB/s of what nginx sends as fast as it may",
        watch={**at_server(80, SLOW_READER), **at_sender(80, SLOW_READER)},
    ),
    Situation(
        "reader-stopped", program="curl", prepare=FILES, server=NGINX,
        client=(("client", "echo $$ > pid; exec curl -so /dev/null http://$S/big"),),
        during=(("client", "kill -STOP $(cat pid)"),), after=3,
        why="curl is stopped by SIGSTOP",
        watch={**at_server(80, SLOW_READER), **at_sender(80, SLOW_READER)},
    ),
    Situation(
        "never-reads", server=programs("mute 5000"), client=client("source $S 5000"),
        why="the server accepts and never calls recv()",
        watch=both(5000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "slow-sink", server=programs("sink 5000 --rate 500000"),
        client=client("source $S 5000 --request 65536"), warm_up=6,
        why="the server reads 4 of 50 Mbit/s", watch=both(5000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "haproxy-slow-far", program="haproxy",
        server=(("server", "exec haproxy -f $W/haproxy.cfg -db"),
                *programs("sink 9001 --rate 300000")),
        client=client("source $S 9000 --request 65536"), settle=1.5, warm_up=8,
        why="haproxy waits for its far side, which reads 300 kB/s",
        watch=both(9000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "socat-slow-far", program="socat",
        server=(("server", "exec socat TCP-LISTEN:9000,reuseaddr TCP:127.0.0.1:9001"),
                *programs("sink 9001 --rate 300000")),
        client=client("source $S 9000 --request 65536"), settle=1.5, warm_up=8,
        why="socat waits for its far side, which reads 300 kB/s",
        watch=both(9000, SLOW_READER, SLOW_READER),
    ),
    # Senders that do not send.
    Situation(
        "nginx-limit-rate", program="nginx", prepare=FILES, server=NGINX,
        client=(("client", "exec curl -so /dev/null http://$S:81/big"),), warm_up=5,
        why="nginx with tcp_nopush on sends 500 kB/s, as limit_rate says",
        watch={**at_server(81, PACED), **at_sender(81, TAKES)},
    ),
    Situation(
        "nginx-limit-rate-lan", program="nginx", rate="1gbit", rtt="0.2ms", queue="1000p",
        prepare=FILES, server=NGINX,
        client=(("client", "exec curl -so /dev/null http://$S:82/big"),), warm_up=5,
        why="nginx with tcp_nopush on sends 3 MB/s, as limit_rate says",
        watch={**at_server(82, PACED), **at_sender(82, TAKES)},
    ),
    Situation(
        "nginx-sendfile-50m", program="nginx", prepare=FILES, server=NGINX,
        client=(("client", "exec curl -so /dev/null http://$S/big"),),
        why="sendfile and tcp_nopush at full speed: the path is full",
        watch={**at_server(80, FULL), **at_sender(80, TAKES)},
    ),
    Situation(
        "nginx-sendfile-bbr", program="nginx", prepare=FILES, server=NGINX, cc="bbr",
        rate="100mbit", rtt="20ms",
        client=(("client", "exec curl -so /dev/null http://$S/big"),),
        why="sendfile and tcp_nopush at full speed: the path is full",
        watch=at_server(80, FULL),
    ),
    Situation(
        "nginx-sendfile-fast", program="nginx", rate="", rtt="0.2ms", queue="1000p",
        prepare=FILES, server=NGINX,
        client=(("client", "exec curl -so /dev/null http://$S/big"),),
        why="several Gbit/s: processors are the limit, nothing of TCP",
        watch=at_server(80, healthy("app-limited", "path-full", "unknown")),
    ),
    Situation(
        "max-pacing-rate", program="iperf3", server=IPERF_SERVER, client=iperf("--fq-rate 10M"),
        why="SO_MAX_PACING_RATE is 10 of 50 Mbit/s", watch=at_sender(5201, fault("paced")),
    ),
    Situation(
        "max-pacing-rate-bbr", program="iperf3", cc="bbr", server=IPERF_SERVER,
        client=iperf("--fq-rate 20M"), why="SO_MAX_PACING_RATE is 20 of 50 Mbit/s",
        watch=at_sender(5201, fault("paced")),
    ),
    Situation(
        "iperf-b-10m", program="iperf3", server=IPERF_SERVER, client=iperf("-b 10M"),
        why="iperf3 -b sleeps between writes", watch=at_sender(5201, PACED),
    ),
    Situation(
        "idle-bursts-far", program="python", rtt="100ms",
        prepare=(sysctl("client", "net.ipv4.tcp_slow_start_after_idle=1"),),
        server=programs("sink 5000"),
        client=client("source $S 5000 --request 500000 --pause 3"), warm_up=8, look=10,
        why="500 kB each 3 s over 100 ms: the restarted window costs four of six round trips",
        watch=at_sender(5000, fault("slow-start-after-idle")),
    ),
    Situation(
        "idle-bursts-near", program="python", rtt="2ms",
        prepare=(sysctl("client", "net.ipv4.tcp_slow_start_after_idle=1"),),
        server=programs("sink 5000"),
        client=client("source $S 5000 --request 500000 --pause 3"), warm_up=8, look=10,
        why="500 kB take 80 ms at 50 Mbit/s; the restart costs one round trip of 2 ms",
        watch=at_sender(5000, healthy("app-limited", "path-full", "idle", "unknown")),
    ),
    # Requests and answers.
    Situation(
        "redis-ping-10ms", program="redis", rate="1gbit", rtt="10ms", server=REDIS,
        client=(("client", "exec redis-benchmark -h $S -c 1 -n 100000000 -t get"),),
        why="one request a round trip, redis answers at once",
        watch=both(6379, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "redis-ping-lan", program="redis", rate="1gbit", rtt="0.2ms", queue="1000p", server=REDIS,
        client=(("client", "exec redis-benchmark -h $S -c 1 -n 100000000 -t get"),),
        why="one request a round trip, redis answers at once",
        watch=both(6379, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
    Situation(
        "redis-ping-jitter", program="redis", rate="100mbit", rtt="40ms",
        path=("--jitter", "20ms"), server=REDIS,
        client=(("client", "exec redis-benchmark -h $S -c 1 -n 100000000 -t get"),),
        why="one request a round trip; round trips vary by 20 ms",
        watch=at_sender(6379, BY_ROUND_TRIPS),
    ),
    Situation(
        "redis-pipelined", program="redis", rate="1gbit", rtt="0.2ms", queue="1000p",
        server=REDIS,
        client=(("client", "exec redis-benchmark -h $S -c 1 -P 64 -n 100000000 -t get"),),
        why="64 requests a round trip: processors are the limit",
        watch=both(6379, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
    Situation(
        "memcached", program="memcached", rate="1gbit", rtt="10ms",
        server=(("server", "exec memcached -u root -p 11211"),),
        client=(("client", "exec $P ask $S 11211 --text 'get a\\r\\n' --reply 5 --nodelay"),),
        why="one request a round trip", watch=at_sender(11211, BY_ROUND_TRIPS),
    ),
    Situation(
        "thinks-50ms", rate="1gbit", rtt="10ms", server=programs("answer 5000 --think 0.05"),
        client=client("ask $S 5000 --nodelay"),
        why="the server thinks 50 ms per request, the path takes 10 ms",
        watch=both(5000, THINKS, THINKS_HERE),
    ),
    Situation(
        "nagle-delack", rate="1gbit", rtt="0.2ms", queue="1000p", server=programs("answer 5000"),
        client=client("ask $S 5000 --writes 2"),
        why="write, write, read with Nagle on: the second write waits for a delayed ACK",
        watch=at_sender(5000, fault("nagle-delack-stall")),
    ),
    Situation(
        "nagle-cured", rate="1gbit", rtt="0.2ms", queue="1000p", server=programs("answer 5000"),
        client=client("ask $S 5000 --writes 2 --nodelay"),
        why="the same with TCP_NODELAY", watch=at_sender(5000, SOME_TRAFFIC),
    ),
    Situation(
        "nagle-node", program="node", rate="1gbit", rtt="0.2ms", queue="1000p",
        server=(("server", "exec node $H/programs/server.js nagle"),),
        client=(("client", "exec wrk -c 1 -t 1 -d 100 http://$S:8080/"),),
        why="node writes head and body apart with Nagle on",
        watch=at_server(8080, fault("nagle-delack-stall")),
    ),
    Situation(
        "nodelay-node", program="node", rate="1gbit", rtt="0.2ms", queue="1000p",
        server=(("server", "exec node $H/programs/server.js nodelay"),),
        client=(("client", "exec wrk -c 1 -t 1 -d 100 http://$S:8080/"),),
        why="node writes head and body apart with TCP_NODELAY",
        watch=at_server(8080, SOME_TRAFFIC),
    ),
    Situation(
        "cork-left", rate="1gbit", rtt="0.2ms", queue="1000p", server=programs("answer 5000"),
        client=client("ask $S 5000 --cork"),
        why="the program corks once and never uncorks: each request waits 200 ms",
        watch=at_sender(5000, fault("cork-not-uncorked")),
    ),
    Situation(
        "small-writes", program="iperf3", rate="1gbit", rtt="0.2ms", queue="1000p",
        server=IPERF_SERVER, client=iperf("-l 64"),
        why="64 bytes a call at both ends: system calls take the processors, or one end's",
        watch=at_sender(5201, fault("small-writes-cpu", "unbatched-records", "slow-reader")),
    ),
    Situation(
        "postgres-select-1", program="postgres", rate="1gbit", rtt="10ms", prepare=POSTGRES,
        server=POSTGRES_SERVER, settle=2,
        client=(("client", "exec pgbench -h $S -U postgres -n -f tick.sql -c 1 -T 100 postgres"),),
        why="one query a round trip", watch=both(5432, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "postgres-copy", program="postgres", prepare=POSTGRES, server=POSTGRES_SERVER, settle=2,
        client=(("client", "exec psql -h $S -U postgres -c \"copy (select repeat('x',1000), "
                           "generate_series(1,100000000)) to stdout\" postgres > /dev/null"),),
        why="a large result over 50 Mbit/s", watch=at_server(5432, FULL),
    ),
    Situation(
        "wrk-10", program="wrk", rate="1gbit", rtt="0.2ms", queue="1000p", prepare=FILES,
        server=NGINX, client=(("client", "exec wrk -c 10 -t 1 -d 100 http://$S/page100"),),
        why="ten connections ask as fast as nginx answers", watch=at_server(80, SOME_TRAFFIC),
    ),
    Situation(
        "ab-60k-150ms", program="ab", rate="200mbit", rtt="150ms", prepare=FILES, server=NGINX,
        client=(("client", "exec ab -q -t 100 -n 10000000 -c 60 http://$S/page60k"),),
        why="60 kB on new connections take three round trips with 10 segments, one with 45",
        watch=at_server(80, fault("initcwnd-too-small")),
    ),
    Situation(
        "ab-10k-150ms", program="ab", rate="200mbit", rtt="150ms", prepare=FILES, server=NGINX,
        client=(("client", "exec ab -q -t 100 -n 10000000 -c 60 http://$S/page10k"),),
        why="10 kB fit in the first window", watch=at_server(80, SOME_TRAFFIC),
    ),
    Situation(
        "ssh-keys", program="ssh", rtt="30ms", prepare=SSHD, 
        server=(("server", "exec /usr/sbin/sshd -D -f $W/sshd_config"),),
        client=(("client", "(while sleep 0.2; do printf a; done) | ssh -tt -F ssh_config $S cat"),),
        why="five keys a second", watch=both(2222, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
    Situation(
        "ssh-idle", program="ssh", rtt="30ms", prepare=SSHD,
        server=(("server", "exec /usr/sbin/sshd -D -f $W/sshd_config"),),
        client=(("client", "exec ssh -F ssh_config $S sleep 100"),),
        why="nothing is sent", watch=both(2222, healthy("idle", "unknown", "app-limited"),
                                          healthy("idle", "unknown", "app-limited")),
    ),
    Situation(
        "rsync-ssh", program="rsync", prepare=SSHD + FILES,
        server=(("server", "exec /usr/sbin/sshd -D -f $W/sshd_config"),),
        client=(("client", "head -c 200M /dev/urandom > file; "
                           "exec rsync -e \"ssh -F $W/ssh_config\" file $S:$W/copy"),),
        warm_up=5, why="one file over 50 Mbit/s", watch=at_sender(2222, FULL),
    ),
    Situation(
        "ssh-compresses", program="ssh", rate="1gbit", rtt="2ms",
        prepare=(*SSHD, ("server", "head -c 100M /dev/urandom > random")),
        server=(("server", "exec /usr/sbin/sshd -D -f $W/sshd_config"),),
        client=(("client", "exec ssh -F ssh_config -C $S \"while cat $W/random; do :; done\" "
                           "> /dev/null"),),
        why="sshd compresses what cannot be compressed: one thread, some 30 MB/s",
        watch=both(2222, TAKES, fault("cpu-bound")),
    ),
    Situation(
        "websocket-idle", program="node", rtt="30ms",
        server=(("server", "exec node $H/programs/websocket.js server"),),
        client=(("client", "exec node $H/programs/websocket.js client $S"),),
        why="a ping each 2 s", watch=both(8080, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
    Situation(
        "mosquitto-slow", program="mosquitto", rtt="20ms",
        server=(("server", "exec mosquitto -c $W/mosquitto.conf"),),
        client=(("client", "exec mosquitto_sub -h $S -t x > /dev/null"),
                ("client", "(while sleep 0.1; do echo message; done) | "
                           "mosquitto_pub -h $S -t x -l")),
        why="ten small messages a second: none waits for another's ACK",
        watch=both(1883, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
    Situation(
        "python-http", program="python", server=(("server", "exec $PY -m http.server 8000"),),
        prepare=FILES, client=(("client", "exec curl -so /dev/null http://$S:8000/big"),),
        why="a copy loop in Python fills 50 Mbit/s", watch=at_server(8000, FULL),
    ),
    # Connections that do not come.
    Situation(
        "accept-queue-full", server=programs("deaf 5000 --backlog 1"),
        client=client("many $S 5000 --writes 20"),
        why="a backlog of 1 and a program that never accepts",
        watch=both(5000, fault("accept-queue-full", "connect-unanswered", "path-dead",
                               also=("path-dead", "slow-reader")), fault("accept-queue-full",
                                                             also=("slow-reader",))),
    ),
    Situation(
        "connect-unanswered", program="curl",
        client=(("client", "while :; do curl -s --connect-timeout 30 http://10.77.0.99/; done"),),
        why="nobody has this address: each SYN is lost",
        watch=at_sender(80, fault("connect-unanswered")),
    ),
    Situation(
        "ports-exhausted", prepare=(sysctl("client",
                                           "net.ipv4.ip_local_port_range=40000 40100"),),
        server=programs("sink 5000"), client=client("churn $S 5000"), warm_up=8,
        why="101 ports and TIME_WAIT of 60 s: connect() fails with EADDRNOTAVAIL",
        watch=at_sender(5000, fault("ports-exhausted")),
    ),
    # More of both kinds.
    Situation(
        "small-writes-nodelay", rate="1gbit", rtt="0.2ms", queue="1000p",
        server=programs("sink 5000"), client=client("source $S 5000 --request 64 --nodelay"),
        why="64 bytes a write with TCP_NODELAY, read in large blocks: the sender's processor",
        watch=at_sender(5000, fault("small-writes-cpu", "unbatched-records")),
    ),
    Situation(
        "postgres-sleeps", program="postgres", rate="1gbit", rtt="10ms", prepare=POSTGRES,
        server=POSTGRES_SERVER, settle=2,
        client=(("client", "exec pgbench -h $S -U postgres -n -f sleep.sql -c 1 -T 100 "
                           "postgres"),),
        why="each query takes 50 ms in the server, 10 ms on the path",
        watch=both(5432, THINKS, THINKS_HERE),
    ),
    Situation(
        "thinks-3-of-60ms", rate="1gbit", rtt="60ms", server=programs("answer 5000 --think 0.003"),
        client=client("ask $S 5000 --nodelay"),
        why="the server thinks 3 ms per request, the path takes 60 ms",
        watch=at_sender(5000, BY_ROUND_TRIPS),
    ),
    Situation(
        "redis-blpop", program="redis", rtt="20ms", server=REDIS,
        client=(("client", "exec redis-cli -h $S blpop nothing 0"),),
        why="a client waits for an event that does not come",
        watch=both(6379, IDLE, IDLE),
    ),
    Situation(
        "answers-200k-open-window", rate="200mbit", rtt="40ms",
        server=programs("answer 5000 --reply 200000 --nodelay"),
        client=client("ask $S 5000 --nodelay --reply 200000"),
        why="answers of 200 kB, one a round trip: 40 of 200 Mbit/s, with an open window",
        watch=at_server(5000, healthy("round-trip-bound", "app-limited", "unknown")),
    ),
    Situation(
        "wrk-keepalive-40ms", program="wrk", rate="200mbit", rtt="40ms", prepare=FILES,
        server=NGINX, client=(("client", "exec wrk -c 1 -t 1 -d 100 http://$S/page10k"),),
        why="one page a round trip on a kept connection",
        watch=both(80, BY_ROUND_TRIPS, healthy("round-trip-bound", "app-limited", "unknown")),
    ),
    Situation(
        "ab-lan", program="ab", rate="1gbit", rtt="0.2ms", queue="1000p", prepare=FILES,
        server=NGINX, client=(("client", "exec ab -q -t 100 -n 10000000 -c 2 http://$S/page10k"),),
        why="short connections on a LAN: processors are the limit",
        watch=at_server(80, SOME_TRAFFIC),
    ),
    Situation(
        "haproxy-pages", program="haproxy", rate="100mbit", rtt="20ms", prepare=FILES,
        server=NGINX + (("server", "exec haproxy -f $W/haproxy.cfg -db"),),
        client=(("client", "exec curl -so /dev/null http://$S:9080/big"),),
        why="a download through haproxy: the path is full",
        watch=at_server(9080, FULL),
    ),
    Situation(
        "haproxy-limited-far", program="haproxy", rate="100mbit", rtt="20ms", prepare=FILES,
        server=NGINX + (("server", "exec haproxy -f $W/haproxy-81.cfg -db"),),
        client=(("client", "exec curl -so /dev/null http://$S:9080/big"),),
        why="haproxy forwards what its far side sends at 500 kB/s",
        watch=at_server(9080, PACED),
    ),
    Situation(
        "reordering", program="iperf3", queue="2bdp",
        path=("--set", "path.reorder.share=2%", "--set", "path.reorder.hold=4ms"),
        server=IPERF_SERVER, client=iperf(),
        why="2 % of packets come 4 ms late; none is lost on the wire",
        watch=at_sender(5201, healthy("path-full", "app-limited")),
    ),
    Situation(
        "burst-loss", program="iperf3", queue="400p", path=(
            "--set", "path.loss.good_to_bad=0.1%", "--set", "path.loss.bad_to_good=20%"),
        server=IPERF_SERVER, client=iperf(), why="0.5 % loss on the wire, in bursts of five",
        watch=at_sender(5201, fault("random-loss")),
    ),
    Situation(
        "rare-loss-100ms", program="iperf3", rtt="100ms", queue="400p", path=("--loss", "0.01%"),
        server=IPERF_SERVER, client=iperf(), warm_up=15, look=15,
        why="at 1e-4 and 100 ms CUBIC gets about 22 of 50 Mbit/s",
        watch=at_sender(5201, fault("random-loss")),
    ),
    Situation(
        "bufferbloat-nginx", program="nginx", rate="10mbit", rtt="20ms", queue="1000p",
        prepare=FILES, server=NGINX, warm_up=12,
        client=(("client", "exec curl -so /dev/null http://$S/big"),),
        why="1000 packets of queue are 1.2 s at 10 Mbit/s, and CUBIC fills them",
        watch=at_server(80, fault("bufferbloat")),
    ),
    Situation(
        "nginx-no-nodelay-pages", program="nginx", rate="1gbit", rtt="0.2ms", queue="1000p",
        prepare=FILES, server=NGINX,
        client=(("client", "exec wrk -c 1 -t 1 -d 100 http://$S:83/page100"),),
        why="one write of head and body per answer (sendfile and writev): Nagle does not wait",
        watch=at_server(83, healthy(*SOME_TRAFFIC.accept, "nagle-delack-stall",
                                    also=("nagle-delack-stall",))),
    ),
    Situation(
        "rcvbuf-large-enough", rate="8mbit", rtt="20ms",
        server=programs("sink 5000 --rcvbuf 200000"),
        client=client("source $S 5000 --request 65536"),
        why="SO_RCVBUF is set, but BDP and queue are 40 kB together",
        watch=both(5000, FULL, TAKES),
    ),
    Situation(
        "sndbuf-large-enough", rate="8mbit", rtt="20ms", server=programs("sink 5000"),
        client=client("source $S 5000 --request 65536 --sndbuf 200000"),
        why="SO_SNDBUF is set, but BDP and queue are 40 kB together",
        watch=at_sender(5000, FULL),
    ),
    Situation(
        "wmem-cap-lan", rate="100mbit", rtt="1ms", queue="100p", server=programs("sink 5000"),
        client=client("source $S 5000 --request 65536"),
        prepare=(sysctl("client", "net.ipv4.tcp_wmem=4096 16384 262144"),),
        why="tcp_wmem[2] is 256 KiB, and the BDP 12.5 kB",
        watch=at_sender(5000, FULL),
    ),
    Situation(
        "wscale-off-lan", program="iperf3", rate="100mbit", rtt="1ms", queue="20p",
        server=IPERF_SERVER, client=iperf(),
        prepare=(sysctl("server", "net.ipv4.tcp_window_scaling=0"),),
        why="65535 bytes a millisecond are 500 Mbit/s, and the path has 100",
        watch=at_sender(5201, FULL),
    ),
    Situation(
        "sink-as-fast-as-path", rate="8mbit", rtt="20ms",
        server=programs("sink 5000 --rate 1500000"),
        client=client("source $S 5000 --request 65536"),
        why="the server reads up to 12 Mbit/s, and the path has 8",
        watch=both(5000, FULL, TAKES),
    ),
    Situation(
        "node-reader-paused", program="node", prepare=FILES, server=NGINX,
        client=(("client", "exec node -e \"require('http').get('http://$S/big', r => "
                           "setTimeout(() => {}, 1e6))\""),),
        why="a program in node never reads the answer's body",
        watch={**at_server(80, SLOW_READER), **at_sender(80, SLOW_READER)},
    ),
    Situation(
        "psql-stopped", program="postgres", prepare=POSTGRES, server=POSTGRES_SERVER, settle=2,
        client=(("client", "echo $$ > pid; exec psql -h $S -U postgres -c \"copy (select "
                           "repeat('x',1000), generate_series(1,100000000)) to stdout\" "
                           "postgres > /dev/null"),),
        during=(("client", "kill -STOP $(cat pid)"),), after=3,
        why="psql is stopped in the middle of a large result",
        watch={**at_server(5432, SLOW_READER), **at_sender(5432, SLOW_READER)},
    ),
    Situation(
        "wmem-cap-bbr-enough", program="iperf3", rate="20mbit", rtt="100ms", cc="bbr",
        server=IPERF_SERVER, client=iperf(), warm_up=6,
        prepare=(sysctl("client", "net.ipv4.tcp_wmem=4096 16384 1048576"),),
        why="1 MiB of tcp_wmem[2] hold two BDPs of 250 kB and their overhead",
        watch=at_sender(5201, FULL),
    ),
    Situation(
        "cubic-and-bbr-share", program="iperf3", queue="2bdp",
        server=(("server", "exec iperf3 -s"), ("server", "exec iperf3 -s -p 5202")),
        client=(*iperf(), ("client", "exec iperf3 -c $S -p 5202 -t 100 -C bbr")), warm_up=8,
        why="two flows share a path that is full",
        watch=at_sender(5201, FULL),
    ),
    Situation(
        "curl-over-dsl-upload", program="curl", rate="1mbit", rtt="40ms", queue="20p",
        prepare=(("server", "true"),), server=programs("sink 5000"),
        client=(("client", "head -c 50M /dev/zero | exec curl -s -T - telnet://$S:5000"),),
        why="an upload over 1 Mbit/s with a queue of 240 ms",
        watch=at_sender(5000, healthy("path-full", "bufferbloat", also=("bufferbloat",))),
    ),
]
