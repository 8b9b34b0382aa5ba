"""Situations of file servers, tunnels, asyncio, HTTP/2, proxies that queue, and paths that no other
table has: UDP beside TCP, small segments, a smaller MTU that is told of.

Labels were written down before any of them was run.
"""

from .commands import FILES, IPERF_SERVER, NGINX, REDIS, SSHD, iperf
from .further import from_client
from .model import *
from .packages import SMALL_SNDBUF
from .seeming import PAGES, RESTARTS
from .services import POLICED, POSTGRES, POSTGRES_SERVER
from .shaped import NC_SINK, NC_SOURCE

PY_FRESH = "$PY $H/programs/fresh/fresh.py"
NODE_FRESH = "node $H/programs/fresh/fresh.js"
SMB = """
[global]
  server role = standalone
  map to guest = bad user
  guest account = root
  private dir = @W@/smb
  lock directory = @W@/smb
  state directory = @W@/smb
  cache directory = @W@/smb
  pid directory = @W@/smb
  ncalrpc dir = @W@/smb/rpc
  log file = @W@/smb/log
  disable spoolss = yes
  {options}
[m]
  path = @W@
  guest ok = yes
  read only = no
"""
CONFIGS = {
    "smb.conf": SMB.format(options=""),
    "smb-sockopts.conf": SMB.format(options="socket options = TCP_NODELAY SO_SNDBUF=16384"),
    "nginx-fresh.conf": """
daemon off; user root; pid @W@/nginx.pid; error_log stderr; worker_processes 1;
events { worker_connections 1024; }
http {
  access_log off; sendfile on;
  client_body_temp_path @W@/t1; proxy_temp_path @W@/t2; fastcgi_temp_path @W@/t3;
  uwsgi_temp_path @W@/t4; scgi_temp_path @W@/t5;
  server { listen 86 sndbuf=16k; root @W@; }
  server { listen 87 backlog=3; root @W@; }
  server { listen 88; limit_rate 2m; root @W@; }
}
""",
    "haproxy-queue.cfg": """
defaults
  mode http
  timeout connect 50s
  timeout client 1h
  timeout server 1h
listen pages
  bind :9090
  server far 127.0.0.1:5000 maxconn 1
""",
    "rsyncd-small.conf": "use chroot = no\nuid = root\nsocket options = SO_RCVBUF=16384\n"
                         "[m]\npath = @W@/m\nread only = no\n",
    "rsyncd-plain.conf": "use chroot = no\nuid = root\n[m]\npath = @W@/m\nread only = no\n",
    "watch.sql": "select 1 \\watch 0.1\n",
}
SMALL_FILES = (("server", "mkdir m && cd m && for i in $(seq 2000); do "
                          "head -c 2000 /dev/zero > $i; done"),)
TO_RSYNC = (("server", "mkdir m"), ("client", "truncate -s 4G up"))
CURL_LOOP = "while :; do curl -so /dev/null http://$S:5000/; done"
# Who waits for a window of its program's own protocol: nothing of TCP.
OWN_WINDOW = healthy("app-limited", "application-thinks", "round-trip-bound", "unknown", "idle")


def smb(config):
    # smbd begins a session, which its own shell has begun already.
    return (("server", f"mkdir -p smb/rpc; smbd -F -s $W/{config} -p 4450; :"),)


def rsyncd(config):
    return (("server", f"exec rsync --daemon --no-detach --port 8873 --config $W/{config}"),)


def aio(size=0, pause=0, work=0):
    return (("server", f"exec {PY_FRESH} aio 5000 {size} {pause} {work}"),)


FILE_SERVERS = [
    Situation(
        "smb-get", program="samba", prepare=FILES, server=smb("smb.conf"), settle=3,
        client=from_client("smbclient -N -p 4450 //$S/m -c 'get big /dev/null'"), warm_up=5,
        why="smbclient asks ahead for what comes; nothing is wrong",
        watch=both(4450, TAKES, healthy("path-full", "round-trip-bound", "app-limited", "unknown")),
    ),
    Situation(
        "smb-sockopts", program="samba", prepare=FILES, server=smb("smb-sockopts.conf"), settle=3,
        client=from_client("smbclient -N -p 4450 //$S/m -c 'get big /dev/null'"), warm_up=5,
        why="socket options = SO_SNDBUF=16384, the BDP is 250 kB",
        watch=both(4450, TAKES, SMALL_SNDBUF),
    ),
    Situation(
        "rsync-sockopts", program="rsync", prepare=TO_RSYNC, server=rsyncd("rsyncd-small.conf"),
        client=from_client("rsync -W up rsync://$S:8873/m/"), warm_up=5,
        why="socket options = SO_RCVBUF=16384, the BDP is 250 kB",
        watch=both(8873, FIXED_WINDOW, fault("rcvbuf-locked")),
    ),
    Situation(
        "bbr-rsync-daemon", program="rsync", cc="bbr", rate="80mbit", rtt="15ms", queue="4bdp",
        prepare=TO_RSYNC, server=rsyncd("rsyncd-plain.conf"),
        client=from_client("rsync -W up rsync://$S:8873/m/"), warm_up=5, look=6,
        why="one file fills the path", watch=both(8873, FULL, TAKES),
    ),
    Situation(
        "sftp-small-files", program="ssh", rtt="60ms", prepare=SSHD + SMALL_FILES, settle=1,
        server=(("server", "exec /usr/sbin/sshd -D -e -f $W/sshd_config"),),
        client=from_client("sh -c \"mkdir got; echo \\\"get $W/m/* got/\\\" | "
                           "sftp -F ssh_config -b - $S > /dev/null\""), warm_up=5,
        why="files of 2 kB one after the other, several round trips each",
        watch=both(2222, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "basebackup-8m", program="postgres", rate="8mbit", rtt="30ms", queue="2bdp",
        prepare=(*POSTGRES, ("server", "echo host replication all all trust >> pg/pg_hba.conf")),
        server=(POSTGRES_SERVER,), settle=2,
        client=(("client", "cd / && pg_basebackup -h $S -U postgres -D - -Ft -X fetch -c fast "
                           "> /dev/null"),), warm_up=6,
        why="a backup of 40 MB fills 8 Mbit/s", watch=both(5432, TAKES, FULL),
    ),
    Situation(
        "psql-watch", program="postgres", rtt="20ms", prepare=POSTGRES, server=(POSTGRES_SERVER,),
        settle=2, client=(("client", "psql -qh $S -U postgres -f watch.sql postgres > /dev/null"),),
        warm_up=4, why="psql's \\watch asks each 100 ms",
        watch=both(5432, healthy("application-thinks", "app-limited", "idle", "unknown"),
                   healthy("application-thinks", "app-limited", "idle", "unknown")),
    ),
]

def haproxy_queue(name, rtt, clients, work_ms):
    """A proxy lets one request at a time through to a program that works for `work_ms` each."""
    return Situation(
        name, program="haproxy", rtt=rtt,
        server=(("server", f"exec {PY_FRESH} work 5000 {work_ms / 1000}"),
                ("server", "exec haproxy -f $W/haproxy-queue.cfg -db")), settle=2,
        client=from_client(f"wrk -c {clients} -t 1 -d 100 http://$S:9090/"), warm_up=4,
        why=f"a proxy lets one request at a time through to what takes {work_ms} ms each",
        watch=both(9090, THINKS, THINKS_HERE),
    )


WEB = [
    Situation(
        "aiohttp-stream", program="aiohttp", rtt="30ms", server=aio(size=20000, pause=0.05),
        settle=2, client=from_client("curl -sNo /dev/null http://$S:5000/stream"), warm_up=4,
        why="20 kB each 50 ms: 3.2 of 50 Mbit/s", watch=both(5000, TAKES, PACED),
    ),
    Situation(
        "aiohttp-works", program="aiohttp", rtt="15ms", server=aio(work=0.08), settle=2,
        client=from_client(f"{PY_FRESH} aio_ask http://$S:5000/work"), warm_up=4,
        why="each answer takes 80 ms in the server, 15 on the path",
        watch=both(5000, THINKS, THINKS_HERE),
    ),
    Situation(
        "aiohttp-wmem-cap", program="aiohttp", rtt="80ms",
        prepare=(sysctl("server", "net.ipv4.tcp_wmem=4096 16384 65536"),), server=aio(), settle=2,
        client=from_client("curl -so /dev/null http://$S:5000/big"), warm_up=4,
        why="tcp_wmem[2] is 64 KiB, the BDP is 500 kB",
        watch=both(5000, TAKES, fault("tcp-wmem-max-cap")),
    ),
    Situation(
        "bbr-aiohttp-upload", program="aiohttp", cc="bbr", rate="30mbit", rtt="60ms", queue="2bdp",
        server=aio(), settle=2, client=from_client("curl -so /dev/null -T - http://$S:5000/ "
                                                   "< /dev/zero"), warm_up=6, look=6,
        why="an upload fills the path", watch=both(5000, FULL, TAKES),
    ),
    Situation(
        "flask-pages", program="flask", rate="100mbit", rtt="80ms",
        server=(("server", f"exec {PY_FRESH} flask 5000 300000"),), settle=2,
        client=(("client", CURL_LOOP),), warm_up=4, look=8,
        why="300 kB on new connections take five round trips with 10 segments",
        watch=both(5000, PAGES, fault("initcwnd-too-small")),
    ),
    Situation(
        "flask-pages-initcwnd", program="flask", rate="100mbit", rtt="80ms",
        prepare=(("server", "ip route | while read r; do ip route change $r initcwnd 60; done"),),
        server=(("server", f"exec {PY_FRESH} flask 5000 300000"),), settle=2,
        client=(("client", CURL_LOOP),), warm_up=4, look=8,
        why="the same with an initial window of 60", watch=both(5000, PAGES, PAGES),
    ),
    Situation(
        "node-h2-window", program="node", rtt="100ms",
        server=(("server", f"exec {NODE_FRESH} h2-serve 5000"),), settle=2,
        client=from_client(f"{NODE_FRESH} h2-get $S 5000"), warm_up=4,
        why="HTTP/2's own window is 64 kB, and the BDP 625 kB: no window of TCP",
        watch=both(5000, TAKES, OWN_WINDOW),
    ),
    Situation(
        "nginx-sndbuf-16k", program="nginx", rtt="60ms", prepare=FILES,
        server=(("server", "exec nginx -p $W -c $W/nginx-fresh.conf"),),
        client=from_client("wget -qO /dev/null http://$S:86/big"), warm_up=4,
        why="listen ... sndbuf=16k, the BDP is 375 kB", watch=both(86, TAKES, SMALL_SNDBUF),
    ),
    Situation(
        "nginx-stopped", program="nginx", rtt="20ms", prepare=FILES,
        server=(("server", "exec nginx -p $W -c $W/nginx-fresh.conf"),), warm_up=1,
        during=(("server", "kill -STOP $(cat nginx.pid) $(pgrep -P $(cat nginx.pid))"),
                ("client", "for i in $(seq 20); do curl -so /dev/null -m 60 "
                           "http://$S:87/page100 & done")), look=8,
        why="nginx is stopped by SIGSTOP, its backlog is 3, and 20 clients come",
        watch=both(87, fault("accept-queue-full", "connect-unanswered", "path-dead",
                             also=("application-thinks",)),
                   fault("accept-queue-full", also=("application-thinks", "slow-reader"))),
    ),
    Situation(
        "node-somaxconn", program="node", rate="100mbit", rtt="10ms",
        prepare=(sysctl("server", "net.core.somaxconn=3"),),
        server=(("server", f"exec {NODE_FRESH} busy 5000 300"),), settle=2,
        client=from_client("ab -q -c 30 -n 1000000 -s 100 http://$S:5000/"), look=8,
        why="a loop that is busy for 300 ms a request, a backlog of 3, and 30 clients",
        watch=at_server(5000, fault("accept-queue-full",
                                    also=("application-thinks", "slow-reader"))),
    ),
    Situation(
        "perl-httpd-pieces", program="perl", **LAN,
        server=(("server", "exec perl -MHTTP::Daemon -e '$d = HTTP::Daemon->new(LocalPort => 5000, "
                           "ReuseAddr => 1); while ($c = $d->accept) { while ($r = "
                           "$c->get_request) { $c->send_response(HTTP::Response->new(200, \"OK\", "
                           "[\"Content-Length\", 200], \"x\" x 200)) } }'"),), settle=1,
        client=from_client("wrk -c 1 -t 1 -d 100 http://$S:5000/"), warm_up=4,
        why="HTTP::Daemon prints head and body apart, with Nagle on",
        watch=both(5000, fault("nagle-delack-stall", "application-thinks"), STALLS),
    ),
    Situation(
        "expect-100", program="curl", rtt="30ms",
        server=(("server", f"exec {PY_FRESH} no_continue 5000"),), settle=1,
        client=(("client", "head -c 3000 /dev/zero > body; while :; do curl -so /dev/null "
                           "-H 'Expect: 100-continue' --data-binary @body http://$S:5000/; done"),),
        warm_up=4, look=8, why="curl waits a second for a `100 Continue` that does not come",
        watch=both(5000, healthy("application-thinks", "app-limited", "idle", "unknown",
                                 also=("application-thinks",)),
                   healthy("application-thinks", "app-limited", "idle", "unknown",
                           also=("application-thinks",))),
    ),
    haproxy_queue("haproxy-queue", "10ms", clients=6, work_ms=40),
    Situation(
        "websocket-pushes", program="websockets", rtt="120ms",
        server=(("server", f"exec {PY_FRESH} pushes 5000 400000 2.5"),), settle=2,
        client=from_client(f"{PY_FRESH} pushed $S 5000"), warm_up=6, look=14,
        why="400 kB each 2.5 s over 120 ms: the window restarts after each pause",
        watch=both(5000, TAKES, RESTARTS),
    ),
    Situation(
        "websocket-pushes-kept", program="websockets", rtt="120ms",
        prepare=(sysctl("server", "net.ipv4.tcp_slow_start_after_idle=0"),),
        server=(("server", f"exec {PY_FRESH} pushes 5000 400000 2.5"),), settle=2,
        client=from_client(f"{PY_FRESH} pushed $S 5000"), warm_up=6, look=14,
        why="the same where the window stays after a pause",
        watch=both(5000, TAKES, healthy("app-limited", "idle", "path-full", "unknown", "paced")),
    ),
    Situation(
        "redis-subscriber-slow", program="redis", rtt="25ms",
        server=(("server", "exec redis-server --save '' --appendonly no --protected-mode no "
                           "--client-output-buffer-limit 'pubsub 0 0 0'"),
                ("server", "sleep 1; yes \"publish x $(head -c 900 /dev/zero | tr '\\0' a)\" | "
                           "pv -qL 1m | redis-cli > /dev/null")), settle=0.5,
        client=(("client", "sleep 0.3; redis-cli -h $S subscribe x | pv -qL 100k > /dev/null"),),
        warm_up=14, why="a subscriber takes 0.1 of the 1 MB/s that are published",
        watch=both(6379, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "aria2-limit", program="aria2", rtt="30ms", prepare=FILES, server=NGINX,
        client=from_client("aria2c -q -x 1 --file-allocation=none --max-download-limit=500K -o got "
                           "http://$S/big"), warm_up=14,
        why="aria2 reads 500 kB/s", watch=both(80, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "aria2-rmem-cap", program="aria2", rate="100mbit", rtt="100ms",
        prepare=(*FILES, sysctl("client", "net.ipv4.tcp_rmem=4096 32768 65536")), server=NGINX,
        client=from_client("aria2c -q -x 4 -s 4 --file-allocation=none -o got http://$S/big"),
        warm_up=5, why="tcp_rmem ends at 64 KiB: four connections have a quarter of the BDP",
        watch=both(80, fault("tcp-rmem-max-cap"), CAPPED_WINDOW),
    ),
]

PATHS = [
    Situation(
        "aria2-policed", program="aria2", rate="200mbit", rtt="30ms", queue="2000p", router=True,
        prepare=(*FILES, ("router", "tc qdisc replace dev lab0 root tbf rate 15mbit burst 30kb "
                                    "limit 5kb")), server=NGINX,
        client=from_client("aria2c -q -x 4 -s 4 --file-allocation=none -o got http://$S/big"),
        warm_up=6, look=8, why="a token bucket with hardly a queue, and four connections",
        watch=both(80, TAKES, POLICED),
    ),
    Situation(
        "openvpn-bulk", program="openvpn", rate="20mbit", rtt="20ms", queue="2bdp",
        prepare=(("server", "openvpn --genkey secret vpn.key"),),
        server=(("server", "exec openvpn --proto tcp-server --port 1194 --dev tun --ifconfig "
                           "10.99.0.1 10.99.0.2 --secret vpn.key --cipher AES-256-CBC"),
                *NC_SINK), settle=1,
        client=(("client", "exec openvpn --proto tcp-client --remote $S 1194 --dev tun --ifconfig "
                           "10.99.0.2 10.99.0.1 --secret vpn.key --cipher AES-256-CBC"),
                ("client", "sleep 3; exec nc 10.99.0.1 5000 < /dev/zero")), warm_up=10,
        why="a bulk transfer in a tunnel over TCP",
        watch=both(1194, healthy("path-full", "app-limited", "unknown"), TAKES),
    ),
    Situation(
        "small-mss", program="iperf3", rate="20mbit", queue="300p", server=IPERF_SERVER,
        client=iperf("-M 536"), warm_up=5, why="segments of 536 bytes fill the path as well",
        watch=both(5201, FULL, TAKES),
    ),
    Situation(
        "mtu-reported", program="nc", rate="30mbit",
        path=("--set", "path.forward.link_mtu=1280", "--set", "path.forward.too_big=report"),
        server=NC_SINK, client=NC_SOURCE, warm_up=5,
        why="a smaller MTU on the way, and ICMP tells of it: the path is full",
        watch=both(5000, FULL, TAKES),
    ),
    Situation(
        "udp-crosses", program="nc", rate="40mbit", rtt="30ms", server=(*NC_SINK, *IPERF_SERVER),
        client=(*NC_SOURCE, *iperf("-u -b 25M")), warm_up=6, look=8,
        why="UDP takes 25 of 40 Mbit/s, and TCP the rest", watch=both(5000, FULL, TAKES),
    ),
    Situation(
        "young-flow", program="nc", rate="40mbit", rtt="200ms", server=NC_SINK, client=NC_SOURCE,
        warm_up=0.8, look=3, why="a transfer that has just begun: nothing is wrong",
        watch=both(5000, healthy("path-full", "app-limited", "unknown"), TAKES),
    ),
    # Doubtful: its losses come in bursts, and random ones leave as much of the path idle.
    Situation(
        "short-queue-60ms", program="nc", rate="40mbit", rtt="60ms", queue="12p", server=NC_SINK,
        client=NC_SOURCE, warm_up=6, look=8,
        why="a queue of 12 packets, 6 % of the BDP, overflows by itself",
        watch=both(5000, fault("path-full", "policed"), TAKES),
    ),
    Situation(
        "paced-lossy", program="pv", rtt="30ms", queue="400p", path=("--loss", "0.5%"),
        server=NC_SINK,
        client=(("client", "sleep 0.3; pv -qL 200k /dev/zero | nc $S 5000"),), warm_up=4, look=10,
        why="the program sends 1.6 Mbit/s, where losses of 0.5 % leave 6",
        watch=both(5000, PACED, TAKES),
    ),
]

# Labelled after rules were mended on those above, and before any of these was run.
EITHER_WAY = healthy("path-full", "app-limited", "unknown")
PUT_PIECES = (
    "$PY -c \"import os, socket\ns = socket.create_connection((os.environ['S'], 11211))\n"
    "while True: s.sendall(b'set k 0 0 200\\r\\n'); s.sendall(b'x' * 200 + b'\\r\\n'); "
    "s.recv(100)\""
)
LATER = [
    Situation(
        "four-policed", program="iperf3", rate="300mbit", rtt="50ms", queue="2000p", router=True,
        prepare=(("router", "tc qdisc replace dev far0 root tbf rate 24mbit burst 40kb "
                            "limit 6kb"),),
        server=IPERF_SERVER, client=iperf("-P 4"), warm_up=6, look=8,
        why="a token bucket with hardly a queue, and four connections",
        watch=both(5201, POLICED, TAKES),
    ),
    Situation(
        "four-lossy", program="iperf3", rate="200mbit", queue="800p", path=("--loss", "0.4%"),
        server=IPERF_SERVER, client=iperf("-P 4"), warm_up=6, look=8,
        why="0.4 % random loss leave four connections a tenth of the path",
        watch=both(5201, fault("random-loss"), TAKES),
    ),
    Situation(
        "bbr-wget", program="wget", cc="bbr", rate="60mbit", rtt="35ms", queue="2bdp",
        prepare=FILES, server=NGINX, client=from_client("wget -qO /dev/null http://$S/big"),
        warm_up=5, look=6, why="a download fills the path", watch=both(80, TAKES, FULL),
    ),
    Situation(
        "bbr-pv", program="pv", cc="bbr", rtt="60ms", server=NC_SINK,
        client=(("client", "sleep 0.3; pv -qL 2m /dev/zero | nc $S 5000"),), warm_up=5, look=6,
        why="the program sends 17 of 50 Mbit/s", watch=both(5000, PACED, TAKES),
    ),
    Situation(
        "jitter-pv", program="pv", path=("--jitter", "8ms"), server=NC_SINK,
        client=(("client", "sleep 0.3; pv -qL 1500k /dev/zero | nc $S 5000"),), warm_up=5, look=6,
        why="the program sends 12 of 50 Mbit/s, over delays that vary",
        watch=both(5000, PACED, TAKES),
    ),
    Situation(
        "both-ways", program="nc", rate="20mbit", rtt="30ms",
        server=(("server", "nc -l -p 5000 < /dev/zero > /dev/null"),),
        client=(("client", "sleep 0.3; nc $S 5000 < /dev/zero > /dev/null"),), warm_up=5, look=6,
        why="one connection fills both directions", watch=both(5000, EITHER_WAY, EITHER_WAY),
    ),
    Situation(
        "memcached-put-pieces", program="memcached", **LAN,
        server=(("server", "exec memcached -u nobody -l 0.0.0.0"),), settle=1,
        client=from_client(PUT_PIECES), warm_up=4,
        why="a client writes command and value apart, with Nagle on",
        watch=both(11211, STALLS, STALLS),
    ),
    haproxy_queue("haproxy-queue-eight", "25ms", clients=8, work_ms=30),
    Situation(
        "memcached-stopped", program="memcached", rtt="10ms",
        server=(("server", "echo $$ > pid; exec memcached -u nobody -l 0.0.0.0 -b 2"),), settle=1,
        client=from_client("nc -d $S 11211"), warm_up=1,
        during=(("server", "kill -STOP $(cat pid)"),
                ("client", "for i in $(seq 15); do (echo stats; sleep 60) | nc $S 11211 & done")),
        look=8, why="memcached is stopped by SIGSTOP, its backlog is 2, and 15 clients come",
        watch=both(11211, fault("accept-queue-full", "connect-unanswered", "path-dead",
                                also=("application-thinks",)),
                   fault("accept-queue-full", also=("application-thinks", "slow-reader"))),
    ),
    Situation(
        "tbf-bbr-two-uploads", program="curl", cc="bbr", rate="200mbit", rtt="45ms",
        queue="2000p", router=True,
        prepare=(("router", "tc qdisc replace dev far0 root tbf rate 18mbit burst 20kb "
                            "limit 250kb"),), server=aio(), settle=2,
        client=(*from_client("curl -so /dev/null -T - http://$S:5000/ < /dev/zero"),
                *from_client("curl -so /dev/null -T - http://$S:5000/ < /dev/zero")),
        warm_up=7, look=8, why="two uploads share what a router lets through",
        watch=both(5000, FULL, TAKES),
    ),
]

# Labelled after rules were mended on all of those above, and before any of these was run.
STOP_REDIS = ("server", "kill -STOP $(pgrep -xf 'redis-server.*:6379')")
ASK_REDIS = ("client", "for i in $(seq 12); do (echo PING; sleep 60) | nc $S 6379 & done")


def stopped_redis(options):
    return (("server", "exec redis-server --save '' --appendonly no --protected-mode no "
                       + options),)


WAITS_FOR_PROGRAM = healthy("app-limited", "application-thinks", "idle", "unknown",
                            also=("application-thinks", "slow-reader"))
LATEST = [
    Situation(
        "redis-stopped", program="redis", rtt="30ms", server=stopped_redis("--tcp-backlog 2"),
        settle=1, client=from_client("nc -d $S 6379"), warm_up=1, during=(STOP_REDIS, ASK_REDIS),
        look=8, why="redis is stopped by SIGSTOP, its backlog is 2, and 12 clients come",
        watch=both(6379, fault("accept-queue-full", "connect-unanswered", "path-dead",
                               also=("application-thinks",)),
                   fault("accept-queue-full", also=("application-thinks", "slow-reader"))),
    ),
    Situation(
        "redis-stopped-room", program="redis", rtt="30ms", server=stopped_redis(""), settle=1,
        client=from_client("nc -d $S 6379"), warm_up=1, during=(STOP_REDIS, ASK_REDIS), look=8,
        why="the same with a backlog of 511: the kernel accepts, and acknowledges what is asked",
        watch=both(6379, WAITS_FOR_PROGRAM, WAITS_FOR_PROGRAM),
    ),
    Situation(
        "socat-echo-bulk", program="socat", rate="25mbit", rtt="20ms",
        server=(("server", "exec socat TCP-LISTEN:5000 EXEC:cat"),), settle=0.5,
        client=from_client("sh -c 'nc $S 5000 < /dev/zero > /dev/null'"), warm_up=6, look=6,
        why="all that is sent comes back: data arrives all the time, both ways",
        watch=both(5000, EITHER_WAY, EITHER_WAY),
    ),
    Situation(
        "bbr-curl-25ms", program="curl", cc="bbr", rate="70mbit", rtt="25ms", prepare=FILES,
        server=NGINX, client=from_client("curl -so /dev/null http://$S/big"), warm_up=5, look=6,
        why="a download fills the path", watch=both(80, TAKES, FULL),
    ),
    Situation(
        "bbr-bursts", program="python", cc="bbr", rate="60mbit", rtt="30ms", server=NC_SINK,
        client=from_client("$PY -c \"import os, socket, time\n"
                           "s = socket.create_connection((os.environ['S'], 5000))\n"
                           "while True: s.sendall(b'x' * 150000); time.sleep(0.1)\""),
        warm_up=5, look=6, why="150 kB each 100 ms: a fifth of the path",
        watch=both(5000, PACED, TAKES),
    ),
    Situation(
        "bbr-iperf-window", program="iperf3", cc="bbr", rate="80mbit", rtt="40ms",
        server=IPERF_SERVER, client=iperf("-w 64K -R"), warm_up=5, look=6,
        why="iperf3 -w 64K sets SO_RCVBUF at the client, and SO_SNDBUF at the server, which sends",
        watch=both(5201, fault("rcvbuf-locked"),
                   fault("rcvbuf-locked", "peer-window", "sndbuf-locked")),
    ),
    Situation(
        "cubic-30mbit-100ms", program="nc", rate="30mbit", rtt="100ms", server=NC_SINK,
        client=NC_SOURCE, warm_up=8, look=8, why="an upload fills the path",
        watch=both(5000, FULL, TAKES),
    ),
    Situation(
        "nginx-limit-wget", program="nginx", rtt="45ms", prepare=FILES,
        server=(("server", "exec nginx -p $W -c $W/nginx-fresh.conf"),),
        client=from_client("wget -qO /dev/null http://$S:88/big"), warm_up=5, look=6,
        why="limit_rate 2m: nginx writes 16 of 50 Mbit/s", watch=both(88, TAKES, PACED),
    ),
]

SITUATIONS = [*FILE_SERVERS, *WEB, *PATHS, *LATER, *LATEST]
