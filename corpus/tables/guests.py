"""Situations of programs that no table before has: Kafka with librdkafka, libtorrent, rclone's WebDAV,
Bun, Deno, Hunchentoot, Django's server, multiprocessing.connection, trickle, apt, nginx's stream and rtmp
modules, php-fpm, systemd-socket-activate, mptcpize; and of causes that none has: a processor's quota, a
window that a route clamps.

Labels were written down before any of them was run. What sets a buffer, and what is written at once, is
what their documentation and source say: a broker of Kafka sets SO_SNDBUF and SO_RCVBUF to 100 KiB
(`socket.send.buffer.bytes`); multiprocessing.connection writes the length of what exceeds 16 KiB apart,
with Nagle on; wsgiref, of which Django's server is made, writes each part of a head apart.
`programs/guests/build` fetches what no package has.
"""

from .commands import FILES, NGINX, REDIS
from .elsewhere import HELD_BACK
from .further import from_client
from .model import *
from .packages import SMALL_SNDBUF
from .seeming import LOSS, PAGES, RESTARTS
from .visitors import BUILT, KEPT_PAGES, LOSS_SEEN, NAGLE, STARTS, WAITS, server

MINE = "$H/programs/guests"
PY = f"$FITPY {MINE}/guests.py"
KAFKA_JARS = f"-Xmx1g -cp \"{BUILT}/kafka/*\""
KAFKA_FORMAT = (("server", f"java {KAFKA_JARS} kafka.tools.StorageTool format -t MkU3OEVBNTcwNTJENDM2Qg "
                           "-c $W/guests-kafka.properties > /dev/null"),)
KAFKA = server(f"java {KAFKA_JARS} kafka.Kafka $W/guests-kafka.properties")
KAFKA_FULL = (*KAFKA, *server(f"{PY} produces $S 2000"))
TORRENT = (("server", f"mkdir seed leech && truncate -s 600M seed/data && {PY} torrent $W"),)
LEECH = from_client(f"{PY} leeches $W $S 6881")
WEBDAV = server("env RCLONE_CONFIG=/dev/null rclone serve webdav $W/dav --addr 0.0.0.0:8080")
PUTS = (("client", "sleep 0.3; while :; do curl -so /dev/null -T up http://$S:8080/up; done"),)
BUN = server(f"{BUILT}/node_modules/@oven/bun-linux-x64-baseline/bin/bun {MINE}/bun.js")
DOWNLOAD = from_client("curl -so /dev/null http://$S:8080/big")


def deno(bytes):
    return server(f"{BUILT}/node_modules/@deno/linux-x64-glibc/deno run -A --no-remote {MINE}/deno.js "
                  f"{bytes}")


KEPT_ASKS = from_client("$FITPY $H/programs/newcomers/newcomers.py asks $S 5000 1.5")
LISP = server(f"sbcl --noinform --disable-debugger --load {MINE}/guests.lisp")
INETD = server("systemd-socket-activate -l 5000 -a --inetd head -c 150000 /dev/zero")
TAKEN_ANEW = tuple(("client", "sleep 0.3; while :; do socat -u TCP:$S:5000 OPEN:/dev/null; done")
                   for _ in range(3))
FPM = server("php-fpm8.2 -R -F -n -y $W/guests-fpm.conf")
FASTCGI = (("client", "exec nginx -p $W -c $W/guests-fastcgi.conf"),)
STREAM = (("client", "exec nginx -p $W -c $W/guests-stream.conf"),
          *from_client("sh -c 'sleep 0.5; exec curl -so /dev/null http://127.0.0.1:8080/big'"))
# `ip netns exec` hides the control groups of the host.
QUOTA = (("server", "mkdir cg && mount -t cgroup -o cpu none cg && mkdir cg/guests-$$ && "
                    "echo 8000 > cg/guests-$$/cpu.cfs_quota_us && echo $$ > cg/guests-$$/tasks && "
                    "exec nginx -p $W -c $W/guests-gzip.conf"),)
SINK = server("socat -u TCP-LISTEN:5000,fork,reuseaddr OPEN:/dev/null")
MPTCP = (*FILES, sysctl("server", "net.ipv4.tcp_congestion_control=reno"))
MPTCP_SERVER = server("mptcpize run nginx -p $W -c $W/nginx.conf")
MPTCP_GET = from_client("mptcpize run curl -so /dev/null http://$S/big")
MARIADB = "mariadb --no-defaults --skip-ssl -h $S -u root"
LOADS = (("client", f"{MARIADB} -e 'create database t; create table t.x (a varchar(600)) "
                    f"engine=myisam'; exec {MARIADB} --local-infile=1 -e "
                    "\"load data local infile '$W/rows' into table t.x\""),)
CONFIGS = {
    "guests-kafka.properties": """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:9093
listeners=PLAINTEXT://0.0.0.0:9092,CONTROLLER://127.0.0.1:9093
advertised.listeners=PLAINTEXT://@S@:9092
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=@W@/kafka
offsets.topic.replication.factor=1
""".lstrip(),
    "guests-fpm.conf": """
[global]
error_log = @W@/fpm.log
daemonize = no
[www]
user = root
group = root
listen = 0.0.0.0:9000
pm = static
pm.max_children = 4
""".lstrip(),
    "guests-big.php": "<?php echo str_repeat('x', 150000);\n",
    "guests-works.php": "<?php usleep(90000); echo str_repeat('x', 2000);\n",
    "guests-fastcgi.conf": """
daemon off; user root; pid @W@/guests-client.pid; error_log stderr; worker_processes 1;
events { worker_connections 256; }
http {
  access_log off; keepalive_requests 100000000;
  client_body_temp_path @W@/c1; proxy_temp_path @W@/c2; fastcgi_temp_path @W@/c3;
  uwsgi_temp_path @W@/c4; scgi_temp_path @W@/c5; fastcgi_buffers 64 16k;
  upstream kept { server @S@:9000; keepalive 4; }
  server {
    listen 127.0.0.1:8081;
    fastcgi_param REQUEST_METHOD GET;
    location = /big { fastcgi_param SCRIPT_FILENAME @W@/guests-big.php; fastcgi_pass @S@:9000;
                      fastcgi_param REQUEST_METHOD GET; }
    location = /works { fastcgi_param SCRIPT_FILENAME @W@/guests-works.php; fastcgi_pass kept;
                        fastcgi_keep_conn on; fastcgi_param REQUEST_METHOD GET; }
  }
}
""".lstrip(),
    "guests-stream.conf": """
load_module /usr/lib/nginx/modules/ngx_stream_module.so;
daemon off; user root; pid @W@/guests-client.pid; error_log stderr; worker_processes 1;
events { worker_connections 256; }
stream {
  server { listen 127.0.0.1:8080; proxy_pass @S@:80; proxy_download_rate 400k; }
}
""".lstrip(),
    "guests-rtmp.conf": """
load_module /usr/lib/nginx/modules/ngx_rtmp_module.so;
daemon off; user root; pid @W@/nginx.pid; error_log stderr; worker_processes 1;
events { worker_connections 256; }
rtmp { server { listen 1935; application live { live on; } } }
""".lstrip(),
    "guests-gzip.conf": """
daemon off; user root; pid @W@/nginx.pid; error_log stderr; worker_processes 1;
events { worker_connections 256; }
http {
  access_log off; default_type text/plain; gzip on; gzip_comp_level 9; gzip_types text/plain;
  client_body_temp_path @W@/t1; proxy_temp_path @W@/t2; fastcgi_temp_path @W@/t3;
  uwsgi_temp_path @W@/t4; scgi_temp_path @W@/t5;
  server { listen 80; root @W@; }
}
""".lstrip(),
}

SITUATIONS = [
    # Windows and buffers.
    Situation(
        "guest-kafka-consume", program="kafka", rate="100mbit", rtt="80ms", prepare=KAFKA_FORMAT,
        server=KAFKA_FULL, settle=50, client=from_client(f"{PY} consumes $S"), warm_up=6,
        why="a broker of Kafka sets SO_SNDBUF to 100 KiB, the BDP is 1 MB",
        watch=both(9092, TAKES, SMALL_SNDBUF),
    ),
    Situation(
        "guest-kafka-produce", program="kafka", rate="100mbit", rtt="80ms", prepare=KAFKA_FORMAT,
        server=KAFKA, settle=25, client=from_client(f"{PY} produces $S 0"), warm_up=8,
        why="a broker of Kafka sets SO_RCVBUF to 100 KiB, the BDP is 1 MB",
        watch=both(9092, FIXED_WINDOW, fault("rcvbuf-locked")),
    ),
    Situation(
        "guest-webdav-rmem", program="rclone", rate="80mbit", rtt="50ms", prepare=(
            ("server", "mkdir dav"), ("client", "truncate -s 1G up"),
            sysctl("server", "net.ipv4.tcp_rmem=4096 32768 65536")),
        server=WEBDAV, settle=2, client=PUTS, warm_up=6,
        why="tcp_rmem[2] is 64 KiB, the BDP is 500 kB",
        watch=both(8080, CAPPED_WINDOW, fault("tcp-rmem-max-cap")),
    ),
    Situation(
        "guest-bun-wmem", program="bun", rate="60mbit", rtt="60ms", prepare=(
            *FILES, sysctl("server", "net.ipv4.tcp_wmem=4096 16384 80000")),
        server=BUN, settle=1, client=DOWNLOAD, warm_up=6,
        why="tcp_wmem[2] is 80 kB, the BDP is 450 kB",
        watch=both(8080, TAKES, fault("tcp-wmem-max-cap")),
    ),
    Situation(
        "guest-route-window", program="socat", rate="50mbit", rtt="40ms", prepare=(
            ("server", "ip route show | head -1 | while read route; do ip route change $route "
                       "window 24000; done"),),
        server=SINK, client=from_client("socat -u /dev/zero TCP:$S:5000"), warm_up=5,
        why="the route at the receiver clamps the window to 24000 bytes, the BDP is 250 kB",
        watch=both(5000, FIXED_WINDOW, FIXED_WINDOW),
    ),
    # What writes and how.
    Situation(
        "guest-django-pages", program="django", rate="100mbit", rtt="3ms",
        server=server(f"{PY} django 8080 400"), settle=3, client=KEPT_PAGES, warm_up=4,
        why="Django's server writes a page in five parts, with Nagle on: 40 ms a page",
        watch=both(8080, fault("nagle-delack-stall", "application-thinks"), STALLS),
    ),
    Situation(
        "guest-mp-nagle", program="multiprocessing", rate="100mbit", rtt="10ms",
        server=server(f"{PY} listens 5000"), settle=1, client=from_client(f"{PY} calls $S 5000 20000"),
        warm_up=4, why="4 bytes of length and 20000 of message are two writes, with Nagle on: the last "
                       "segment waits for the ACK of all before",
        watch=both(5000, NAGLE, healthy(*SOME_TRAFFIC.accept, also=NAGLE.right)),
    ),
    Situation(
        "guest-mp-small", program="multiprocessing", rate="100mbit", rtt="10ms",
        server=server(f"{PY} listens 5000"), settle=1, client=from_client(f"{PY} calls $S 5000 10000"),
        warm_up=4, why="10 kB go in one write with their length: nothing waits but for the round trip",
        watch=both(5000, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    # New connections, pauses.
    Situation(
        "guest-inetd-new", program="systemd", rate="80mbit", rtt="90ms", server=INETD, settle=1,
        client=TAKEN_ANEW, warm_up=4, look=8,
        why="a process for each connection writes 150 kB, which take four round trips from 10 segments on",
        watch=both(5000, PAGES, STARTS),
    ),
    Situation(
        "guest-fpm-new", program="php-fpm", rate="100mbit", rtt="90ms", server=FPM, settle=1,
        client=(*FASTCGI, *from_client("ab -q -t 1000 -n 10000000 -c 3 http://127.0.0.1:8081/big")),
        warm_up=4, look=8,
        why="nginx asks php-fpm on a new connection for each page of 150 kB, four round trips",
        watch=both(9000, PAGES, STARTS),
    ),
    Situation(
        "guest-deno-idle", program="deno", rate="100mbit", rtt="100ms", server=deno(400_000), settle=2,
        client=KEPT_ASKS, warm_up=7, look=13,
        why="400 kB after each pause of 1.5 s over 100 ms: the window restarts",
        watch=both(5000, healthy(*TAKES.accept, also=("slow-start-after-idle",)), RESTARTS),
    ),
    # Programs that are slow by themselves, or are to be.
    Situation(
        "guest-trickle-down", program="trickle", rate="50mbit", rtt="30ms", prepare=FILES, server=NGINX,
        client=from_client("trickle -s -d 300 wget -qO /dev/null http://$S/big"), warm_up=10, look=8,
        why="trickle lets wget read 300 kB/s of what nginx sends as fast as it may",
        watch=both(80, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "guest-trickle-up", program="trickle", rate="50mbit", rtt="30ms",
        prepare=(("client", "truncate -s 1G up"),), server=SINK, settle=1,
        client=from_client("trickle -s -u 300 wget -qO- --post-file=up http://$S:5000/"), warm_up=8,
        look=8, why="trickle lets wget write 300 kB/s", watch=both(5000, PACED, HELD_BACK),
    ),
    Situation(
        "guest-apt-limit", program="apt", rate="40mbit", rtt="25ms", prepare=FILES, server=NGINX,
        client=from_client("/usr/lib/apt/apt-helper -o Acquire::http::Dl-Limit=400 -o "
                           "APT::Sandbox::User=root download-file http://$S/big $W/taken"), warm_up=12,
        look=8, why="apt takes 400 kB/s, as Dl-Limit says", watch=both(80, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "guest-stream-rate", program="nginx", rate="50mbit", rtt="20ms", prepare=FILES, server=NGINX,
        client=STREAM, warm_up=14, look=8,
        why="a proxy reads 400 kB/s of what its far side sends, as proxy_download_rate says",
        watch=both(80, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "guest-quota-gzip", program="nginx", rate="80mbit", rtt="20ms",
        prepare=(("server", "head -c 30M /dev/urandom | base64 > a && cat a a a a a > text && rm a"),),
        server=QUOTA, settle=1, client=(
            ("client", "while :; do curl -so /dev/null --compressed http://$S/text; done"),), warm_up=5,
        look=8, why="nginx compresses what it sends, with 8 ms of each 100 of a processor",
        watch=both(80, HELD_BACK, healthy(*PACED.accept, "cpu-bound")),
    ),
    Situation(
        "guest-torrent-limit", program="libtorrent", rate="40mbit", rtt="40ms", prepare=TORRENT,
        server=server(f"{PY} seeds $W 6881 400000"), settle=2, client=LEECH, warm_up=10, look=8,
        why="a seed uploads 400 kB/s, as its limit says",
        watch=both(6881, HELD_BACK, PACED),
    ),
    Situation(
        "guest-rtmp-live", program="ffmpeg", rate="20mbit", rtt="50ms",
        server=server("nginx -p $W -c $W/guests-rtmp.conf"), settle=1, client=from_client(
            "ffmpeg -v error -re -f lavfi -i testsrc2=size=640x360:rate=25 -c:v flv -b:v 2500k "
            "-f flv rtmp://$S/live/one"), warm_up=7, look=8,
        why="a film of some 2 Mbit/s is sent as fast as it plays", watch=both(1935, PACED, HELD_BACK),
    ),
    Situation(
        "guest-fpm-works", program="php-fpm", rate="100mbit", rtt="8ms", server=FPM, settle=1,
        client=(*FASTCGI, *from_client("ab -q -t 1000 -n 10000000 -c 2 http://127.0.0.1:8081/works")),
        warm_up=4, look=8, why="a script works 90 ms on each request, on kept connections of FastCGI",
        watch=both(9000, THINKS, THINKS_HERE),
    ),
    Situation(
        "guest-kafka-polls", program="kafka", rate="50mbit", rtt="20ms", prepare=KAFKA_FORMAT,
        server=KAFKA, settle=25, client=from_client(f"{PY} consumes $S none"), warm_up=6, look=8,
        why="a consumer polls an empty topic, each 0.5 s", watch=both(9092, WAITS, WAITS),
    ),
    Situation(
        "guest-redis-latency", program="redis", rate="100mbit", rtt="20ms", server=REDIS,
        client=from_client("redis-cli -h $S --latency -i 100"), warm_up=4,
        why="a PING 10 ms after each answer, which takes 20 ms",
        watch=both(6379, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
    # The path.
    Situation(
        "guest-hunchentoot-loss", program="hunchentoot", rate="50mbit", rtt="50ms", queue="2bdp",
        path=("--loss", "0.4%"), prepare=FILES, server=LISP, settle=12, client=DOWNLOAD, warm_up=7,
        look=7, why="four packets of 1000 are lost, and CUBIC gets about 8 of 50 Mbit/s",
        watch=both(8080, LOSS_SEEN, LOSS),
    ),
    Situation(
        "guest-torrent-full", program="libtorrent", rate="20mbit", rtt="40ms", prepare=TORRENT,
        server=server(f"{PY} seeds $W 6881 0"), settle=2, client=LEECH, warm_up=12, look=8,
        why="a seed fills the path", watch=both(6881, TAKES, FULL),
    ),
    Situation(
        "guest-mptcp-full", program="mptcpize", rate="40mbit", rtt="40ms", prepare=MPTCP,
        server=MPTCP_SERVER, settle=1, client=MPTCP_GET, warm_up=6,
        why="a connection of MPTCP with one subflow fills the path", watch=both(80, TAKES, FULL),
    ),
    Situation(
        "guest-mptcp-loss", program="mptcpize", rate="60mbit", rtt="50ms", queue="2bdp",
        path=("--loss", "0.4%"), prepare=MPTCP, server=MPTCP_SERVER, settle=1, client=MPTCP_GET,
        warm_up=7, look=7, why="four packets of 1000 are lost, and Reno gets about 5 of 60 Mbit/s",
        watch=both(80, LOSS_SEEN, LOSS),
    ),
    Situation(
        "guest-load-data", program="mariadb", rate="10mbit", rtt="40ms", prepare=(
            ("server", "mariadb-install-db --no-defaults --user=root --datadir=$W/db --skip-test-db "
                       "> /dev/null"),
            ("client", "yes $(head -c 500 /dev/zero | tr '\\0' x) | head -n 400000 > rows")),
        server=server("mariadbd --no-defaults --user=root --datadir=$W/db --socket=$W/db.sock "
                      "--skip-grant-tables --bind-address=0.0.0.0"), settle=6, client=LOADS, warm_up=10,
        look=8, why="LOAD DATA LOCAL fills 10 Mbit/s", watch=both(3306, FULL, TAKES),
    ),
    Situation(
        "guest-nats-flood", program="nats", rate="10mbit", rtt="30ms", server=server(
            "nats-server -a 0.0.0.0"), settle=2, client=from_client(f"{PY} floods $S 4000"), warm_up=12,
        look=8, why="a publisher floods 10 Mbit/s with messages of 4 kB", watch=both(4222, FULL, TAKES),
    ),
]
# Written when the ones above had been run and rules were mended with them, and before any of these was.
# A seed that waits for its own limit thinks, in the words of the doctor.
AGAIN = [
    Situation(
        "guest-again-mp-large", program="multiprocessing", rate="200mbit", rtt="26ms",
        server=server(f"{PY} listens 5000"), settle=1, client=from_client(f"{PY} calls $S 5000 60000"),
        warm_up=5, why="4 bytes of length and 60000 of message are two writes, with Nagle on",
        watch=both(5000, NAGLE, healthy(*SOME_TRAFFIC.accept, also=NAGLE.right)),
    ),
    Situation(
        "guest-again-torrent-far", program="libtorrent", rate="60mbit", rtt="90ms", prepare=TORRENT,
        server=server(f"{PY} seeds $W 6881 250000"), settle=2, client=LEECH, warm_up=10, look=8,
        why="a seed uploads 250 kB/s, as its limit says",
        watch=both(6881, healthy(*HELD_BACK.accept, "application-thinks"),
                   healthy(*PACED.accept, "application-thinks")),
    ),
    Situation(
        "guest-again-torrent-near", program="libtorrent", rate="100mbit", rtt="12ms", prepare=TORRENT,
        server=server(f"{PY} seeds $W 6881 1500000"), settle=2, client=LEECH, warm_up=10, look=8,
        why="a seed uploads 1.5 MB/s, as its limit says",
        watch=both(6881, healthy(*HELD_BACK.accept, "application-thinks"),
                   healthy(*PACED.accept, "application-thinks")),
    ),
]
SITUATIONS = [*SITUATIONS, *AGAIN]
