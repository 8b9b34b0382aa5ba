"""Situations with servers and clients of common packages, each as its distribution ships it."""

from .commands import FILES, IPERF_SERVER, NGINX, REDIS, SSHD, client, programs
from .model import *

# Whoever sent what was lost sees it; the other end sees a long wait for an answer.
WAITS_FOR_LOST = fault("retransmission-timeouts", "random-loss")
SMALL_SNDBUF = fault("sndbuf-locked", "sndbuf-tiny")
PROCESSORS = healthy("app-limited", "path-full", "unknown")

CONFIGS = {
    "apache.conf": """
ServerName lab
ServerRoot /usr/lib/apache2
DefaultRuntimeDir @W@
PidFile @W@/apache.pid
ErrorLog @W@/apache.log
LoadModule mpm_event_module modules/mod_mpm_event.so
LoadModule authz_core_module modules/mod_authz_core.so
LoadModule ratelimit_module modules/mod_ratelimit.so
LoadModule env_module modules/mod_env.so
User www-data
Group www-data
MaxKeepAliveRequests 0
DocumentRoot @W@
Listen 80
Listen 81
<VirtualHost *:81>
  SetOutputFilter RATE_LIMIT
  SetEnv rate-limit 400
</VirtualHost>
""",
    "lighttpd.conf": """
server.document-root = "@W@"
server.port = 8080
server.max-keep-alive-requests = 100000000
$SERVER["socket"] == ":8081" { connection.kbytes-per-second = 400 }
""",
    "vsftpd.conf": """
listen=YES
background=NO
listen_port=2121
anonymous_enable=YES
no_anon_password=YES
anon_root=@W@/ftp
write_enable=YES
anon_upload_enable=YES
anon_umask=022
seccomp_sandbox=NO
secure_chroot_dir=/var/run/vsftpd/empty
connect_from_port_20=NO
pasv_min_port=3000
pasv_max_port=3001
""",
    "squid.conf": """
http_port 3128
http_access allow all
cache deny all
access_log none
cache_log @W@/squid.log
pid_filename none
coredump_dir @W@
visible_hostname lab
shutdown_lifetime 1 seconds
""",
    "haproxy-sndbuf.cfg": """
global
  tune.sndbuf.client 16384
defaults
  mode http
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen pages
  bind :9080
  server far 127.0.0.1:80
""",
    "nginx-rcvbuf.conf": """
daemon off; user root; pid @W@/nginx.pid; error_log stderr; worker_processes 1;
events { worker_connections 1024; }
http {
  access_log off; client_max_body_size 0;
  client_body_temp_path @W@/t1; proxy_temp_path @W@/t2; fastcgi_temp_path @W@/t3;
  uwsgi_temp_path @W@/t4; scgi_temp_path @W@/t5;
  server { listen 84 rcvbuf=16k; location / { proxy_pass http://127.0.0.1:9; } }
  server { listen 85; location / { proxy_pass http://127.0.0.1:9; } }
}
""",
    "stunnel-server.conf": """
foreground = yes
pid =
cert = @W@/both.pem
[redis]
accept = 6380
connect = 127.0.0.1:6379
[sink]
accept = 6381
connect = 127.0.0.1:5000
""",
    "stunnel-client.conf": """
foreground = yes
pid =
client = yes
[redis]
accept = 127.0.0.1:7000
connect = @S@:6380
[sink]
accept = 127.0.0.1:7001
connect = @S@:6381
""",
    "app.py": """
import time
def app(environ, start_response):
    time.sleep(0.1)
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
""",
    "config.ru": """
run ->(env) { sleep 0.06; [200, {"content-type" => "text/plain"}, ["ok"]] }
""",
    "sleep.php": "<?php usleep(80000); echo 'ok';\n",
    "Pages.java": """
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;

class Pages {
    public static void main(String[] args) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(8080), 0);
        server.createContext("/", exchange -> {
            byte[] body = new byte[100];
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
    }
}
""",
}


def server(command):
    return (("server", f"exec {command}"),)


def at_client(command):
    return (("client", f"exec {command}"),)


def download(port, file="big"):
    return at_client(f"curl -so /dev/null http://$S:{port}/{file}")


APACHE = server("apache2 -DFOREGROUND -f $W/apache.conf")
LIGHTTPD = server("lighttpd -D -f $W/lighttpd.conf")
CADDY = server("env HOME=$W XDG_DATA_HOME=$W caddy file-server --root $W --listen :8080")
MARIADB = (
    ("server", "mkdir db && chown mysql db && mariadb-install-db --no-defaults --user=mysql "
               "--datadir=$W/db --skip-test-db > install.log"),
)
MARIADB_SERVER = server(
    "mariadbd --no-defaults --user=mysql --datadir=$W/db --socket=$W/db/s --skip-grant-tables "
    "--bind-address=0.0.0.0"
)
GIT = (
    ("server", "git init -q repo && cd repo && head -c 120M /dev/urandom > data && git add data && "
               "git -c user.name=a -c user.email=a@b commit -qm data && "
               "git config core.compression 0 && git repack -qad"),
)
GIT_SERVER = server("git daemon --base-path=$W --export-all --reuseaddr")
FTP = (
    ("server", "mkdir -p ftp/in /var/run/vsftpd/empty && chown ftp ftp/in && "
               "truncate -s 8G ftp/big"),
)
FTP_SERVER = server("vsftpd $W/vsftpd.conf")
NUTTCP = server("nuttcp -S --nofork")
STUNNEL = (
    ("server", "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=lab -keyout key.pem "
               "-out cert.pem 2>&1 && cat key.pem cert.pem > both.pem"),
)
STUNNEL_SERVER = server("stunnel4 $W/stunnel-server.conf")
STUNNEL_CLIENT = at_client("stunnel4 $W/stunnel-client.conf")


def lftp(command):
    return at_client(f"lftp -e 'set net:timeout 200; {command}' ftp://$S:2121 > /dev/null")


def nuttcp(options=""):
    return at_client(f"nuttcp -T100 {options} $S")


def mariadb(query):
    return (("client", f"yes '{query};' | mariadb --no-defaults -N -h $S > /dev/null"),)


WEB = [
    Situation(
        "apache-wget", program="apache2", rate="20mbit", prepare=FILES, server=APACHE,
        client=at_client("wget -qO /dev/null http://$S/big"), why="one download fills the path",
        watch=both(80, TAKES, FULL),
    ),
    Situation(
        "apache-wget-bbr-150ms", program="apache2", rate="30mbit", rtt="150ms", cc="bbr",
        prepare=FILES, server=APACHE, client=at_client("wget -qO /dev/null http://$S/big"),
        why="one download fills the path", warm_up=6, watch=both(80, TAKES, FULL),
    ),
    Situation(
        "apache-ratelimit", program="apache2", prepare=FILES, server=APACHE, client=download(81),
        warm_up=5, why="mod_ratelimit sends 400 KiB/s, of 50 Mbit/s", watch=both(81, TAKES, PACED),
    ),
    Situation(
        "apache-sndbuf-16k", program="apache2", prepare=FILES,
        server=server("apache2 -DFOREGROUND -f $W/apache.conf -c 'SendBufferSize 16384'"),
        client=download(80), why="SendBufferSize is 16 KiB, the BDP is 250 kB",
        watch=at_server(80, SMALL_SNDBUF),
    ),
    Situation(
        "apache-sndbuf-256k-near", program="apache2", rate="8mbit", rtt="20ms", prepare=FILES,
        server=server("apache2 -DFOREGROUND -f $W/apache.conf -c 'SendBufferSize 262144'"),
        client=download(80), why="SendBufferSize is set, but BDP and queue are 40 kB together",
        watch=at_server(80, FULL),
    ),
    Situation(
        "apache-ab-keepalive", program="apache2", rate="200mbit", prepare=FILES, server=APACHE,
        client=at_client("ab -q -k -t 100 -n 10000000 -c 1 http://$S/page10k"),
        why="one page a round trip on a kept connection",
        watch=both(80, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "apache-siege-lan", program="siege", **LAN, prepare=FILES, server=APACHE,
        client=at_client("env HOME=$W siege -q -b -c 8 -t 100S http://$S/page10k"),
        why="short pages on a LAN: processors are the limit", watch=at_server(80, SOME_TRAFFIC),
    ),
    Situation(
        "wget-limit-rate", program="wget", prepare=FILES, server=APACHE, warm_up=8,
        client=at_client("wget --limit-rate=300k -qO /dev/null http://$S/big"),
        why="wget reads 300 kB/s of what apache sends as fast as it may",
        watch=both(80, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "wget-stopped", program="wget", rate="20mbit", rtt="80ms", prepare=FILES, server=APACHE,
        client=(("client", "echo $$ > pid; exec wget -qO /dev/null http://$S/big"),),
        during=(("client", "kill -STOP $(cat pid)"),), after=3, why="wget is stopped by SIGSTOP",
        watch=both(80, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "wget-loss-1", program="wget", queue="400p", path=("--loss", "1%"), rtt="60ms",
        prepare=FILES, server=APACHE, client=at_client("wget -qO /dev/null http://$S/big"),
        why="1 % random loss on the wire", watch=at_server(80, fault("random-loss")),
    ),
    Situation(
        "wget-small-rmem", program="wget", rtt="60ms", prepare=(
            *FILES, sysctl("client", "net.ipv4.tcp_rmem=4096 32768 32768")),
        server=APACHE, client=at_client("wget -qO /dev/null http://$S/big"),
        why="tcp_rmem[2] is 32 KiB, the BDP is 375 kB",
        watch=both(80, fault("tcp-rmem-max-cap"), fault("tcp-rmem-max-cap", "peer-window")),
    ),
    Situation(
        "lighttpd-h2load", program="lighttpd", rate="100mbit", rtt="20ms", prepare=FILES,
        server=LIGHTTPD,
        client=at_client("h2load -c 1 -m 10 -n 100000000 http://$S:8080/page60k"),
        why="ten streams of 60 kB each ask for more than one BDP of 250 kB: the path is full",
        watch=both(8080, TAKES, FULL),
    ),
    Situation(
        "lighttpd-h2load-1", program="lighttpd", rate="100mbit", rtt="60ms", prepare=FILES,
        server=LIGHTTPD, client=at_client("h2load -c 1 -m 1 -n 100000000 http://$S:8080/page10k"),
        why="one page a round trip", watch=both(8080, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "lighttpd-limit", program="lighttpd", rate="100mbit", rtt="10ms", prepare=FILES,
        server=LIGHTTPD, client=download(8081), warm_up=5,
        why="connection.kbytes-per-second is 400", watch=both(8081, TAKES, PACED),
    ),
    Situation(
        "lighttpd-bufferbloat", program="lighttpd", rate="5mbit", rtt="30ms", queue="800p",
        prepare=FILES, server=LIGHTTPD, client=download(8080), warm_up=14,
        why="800 packets of queue are 1.9 s at 5 Mbit/s, and CUBIC fills them",
        watch=at_server(8080, fault("bufferbloat")),
    ),
    Situation(
        "lighttpd-wmem-cap", program="lighttpd", rtt="80ms", prepare=(
            *FILES, sysctl("server", "net.ipv4.tcp_wmem=4096 16384 65536")),
        server=LIGHTTPD, client=download(8080), why="tcp_wmem[2] is 64 KiB, the BDP is 500 kB",
        watch=at_server(8080, fault("tcp-wmem-max-cap")),
    ),
    Situation(
        "caddy-aria2", program="caddy", prepare=FILES, server=CADDY, settle=1.5,
        client=at_client("aria2c -q -x4 -s4 -k 1M --file-allocation=none -o got "
                         "http://$S:8080/big"),
        why="four connections fill the path", watch=at_server(8080, FULL),
    ),
    Situation(
        "caddy-hey-50ms", program="hey", rate="200mbit", rtt="50ms", prepare=FILES, server=CADDY,
        settle=1.5, client=at_client("hey -c 1 -z 100s http://$S:8080/page10k"),
        why="one page a round trip", watch=both(8080, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "caddy-hey-lan", program="hey", **LAN, prepare=FILES, server=CADDY, settle=1.5,
        client=at_client("hey -c 10 -z 100s http://$S:8080/page10k"),
        why="ten connections ask as fast as caddy answers", watch=at_server(8080, SOME_TRAFFIC),
    ),
    Situation(
        "caddy-short-400ms", program="caddy", rate="20mbit", rtt="400ms", prepare=FILES,
        server=CADDY, settle=1.5,
        client=at_client("hey -c 4 -z 100s -disable-keepalive http://$S:8080/page60k"), warm_up=5,
        why="60 kB on new connections take three round trips with 10 segments, one with 45",
        watch=at_server(8080, fault("initcwnd-too-small")),
    ),
    Situation(
        "varnish-wrk", program="varnish", rate="200mbit", rtt="40ms", prepare=FILES,
        server=(*NGINX, *server("varnishd -F -a :6081 -b 127.0.0.1:80 -n $W/varnish "
                                "-s malloc,64m")),
        settle=4, client=at_client("wrk -c 1 -t 1 -d 100 http://$S:6081/page10k"),
        why="one page of the cache a round trip", watch=both(6081, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "rclone-limited", program="rclone", prepare=FILES,
        server=server("rclone serve http --addr :8080 $W"), settle=1.5, warm_up=8,
        client=at_client("rclone copy --bwlimit 400k --multi-thread-streams 0 "
                         "--http-url http://$S:8080 :http:big got"),
        why="rclone reads 400 KiB/s, as --bwlimit says",
        watch=both(8080, SLOW_READER, SLOW_READER),
    ),
]

THINKERS = [
    Situation(
        "gunicorn-thinks", program="gunicorn", rate="100mbit", rtt="10ms",
        server=server("gunicorn -b :8000 -k gthread --threads 4 --keep-alive 100 --chdir $W "
                      "app:app"),
        settle=2, client=at_client("wrk -c 1 -t 1 -d 100 http://$S:8000/"),
        why="each request takes 100 ms in the server, 10 ms on the path",
        watch=both(8000, THINKS, THINKS_HERE),
    ),
    Situation(
        "gunicorn-overrun", program="gunicorn", rate="100mbit", rtt="10ms",
        server=server("gunicorn -b :8000 --backlog 2 --chdir $W app:app"), settle=2,
        client=at_client("env HOME=$W siege -q -b -c 40 -t 100S http://$S:8000/"),
        why="one worker that takes 100 ms, a backlog of 2, and 40 clients",
        watch=at_server(8000, fault("accept-queue-full",
                                    also=("application-thinks", "slow-reader"))),
    ),
    Situation(
        "puma-thinks", program="puma", rate="100mbit", rtt="15ms",
        server=server("puma -q -b tcp://0.0.0.0:9292 $W/config.ru"), settle=3,
        client=at_client("hey -c 2 -z 100s http://$S:9292/"),
        why="each request takes 60 ms in the server, 15 ms on the path",
        watch=both(9292, THINKS, THINKS_HERE),
    ),
    Situation(
        "php-thinks", program="php", rate="100mbit", rtt="5ms",
        server=server("php -S 0.0.0.0:8000 -t $W"), settle=1,
        client=at_client("wrk -c 1 -t 1 -d 100 http://$S:8000/sleep.php"),
        why="each request, on its own connection, takes 80 ms in the server",
        watch=both(8000, THINKS, THINKS_HERE),
    ),
    Situation(
        "java-nagle", program="java", **LAN, server=server("java $W/Pages.java"), settle=4,
        client=at_client("wrk -c 1 -t 1 -d 100 http://$S:8080/"),
        why="Java's HttpServer writes head and body apart with Nagle on",
        watch=at_server(8080, fault("nagle-delack-stall")),
    ),
    Situation(
        "java-nodelay", program="java", **LAN, settle=4,
        server=server("java -Dsun.net.httpserver.nodelay=true $W/Pages.java"),
        client=at_client("wrk -c 1 -t 1 -d 100 http://$S:8080/"), why="the same with TCP_NODELAY",
        watch=at_server(8080, SOME_TRAFFIC),
    ),
    Situation(
        "python-http-1.1", program="python", **LAN, prepare=FILES,
        server=server("$PY -m http.server --protocol HTTP/1.1 8000"), settle=1,
        client=at_client("wrk -c 1 -t 1 -d 100 http://$S:8000/page100"),
        why="Python's http.server writes head and body apart with Nagle on",
        watch=at_server(8000, fault("nagle-delack-stall")),
    ),
]

DATABASES = [
    Situation(
        "mariadb-select-1", program="mariadb", rate="1gbit", rtt="15ms", prepare=MARIADB,
        server=MARIADB_SERVER, settle=4, client=mariadb("select 1"), why="one query a round trip",
        watch=both(3306, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "mariadb-sleeps", program="mariadb", rate="1gbit", rtt="10ms", prepare=MARIADB,
        server=MARIADB_SERVER, settle=4, client=mariadb("select sleep(0.05)"),
        why="each query takes 50 ms in the server, 10 ms on the path",
        watch=both(3306, THINKS, THINKS_HERE),
    ),
    Situation(
        "mariadb-result", program="mariadb", rate="20mbit", rtt="30ms", prepare=MARIADB,
        server=MARIADB_SERVER, settle=4,
        client=at_client("mariadb --no-defaults -h $S -qNe \"select repeat('x',1000) from "
                         "mysql.help_topic a, mysql.help_topic b, mysql.help_topic c, "
                         "seq_1_to_1000000\" mysql > /dev/null"),
        why="a large result over 20 Mbit/s", watch=both(3306, TAKES, FULL),
    ),
    Situation(
        "mariadb-idle", program="mariadb", prepare=MARIADB, server=MARIADB_SERVER, settle=4,
        client=(("client", "sleep 100 | mariadb --no-defaults -h $S"),), why="nothing is sent",
        watch=both(3306, IDLE, IDLE),
    ),
    Situation(
        "redis-replica", program="redis", rtt="30ms", server=REDIS, settle=1,
        client=at_client("redis-server --save '' --appendonly no --replicaof $S 6379"),
        warm_up=8, why="a replica of an empty store: a ping or two a second",
        watch=both(6379, IDLE, healthy("idle", "unknown", "app-limited", "round-trip-bound")),
    ),
    Situation(
        "etcd-watch", program="etcd", rtt="30ms",
        server=server("etcd --data-dir $W/etcd --listen-client-urls http://0.0.0.0:2379 "
                      "--advertise-client-urls http://$S:2379 "
                      "--listen-peer-urls http://127.0.0.1:2380"),
        settle=3, client=at_client("etcdctl --endpoints=http://$S:2379 watch x"),
        why="a client waits for an event that does not come", watch=both(2379, IDLE, IDLE),
    ),
    Situation(
        "etcd-gets", program="etcd", rtt="20ms",
        server=server("etcd --data-dir $W/etcd --listen-client-urls http://0.0.0.0:2379 "
                      "--advertise-client-urls http://$S:2379 "
                      "--listen-peer-urls http://127.0.0.1:2380"),
        settle=3,
        client=(("client", "while :; do etcdctl --endpoints=http://$S:2379 get x; done"),),
        why="a new client for each request: nothing of TCP is wrong",
        watch=at_server(2379, SOME_TRAFFIC),
    ),
    Situation(
        "beanstalkd-reserve", program="beanstalkd", rtt="40ms",
        server=server("beanstalkd -l 0.0.0.0"), settle=1,
        client=(("client", "(printf 'reserve\\r\\n'; sleep 100) | nc $S 11300"),),
        why="a worker waits for a job that does not come", watch=both(11300, IDLE, IDLE),
    ),
    Situation(
        "nats-pings", program="nats", rtt="40ms", server=server("nats-server -a 0.0.0.0"),
        settle=1,
        client=(("client", "(printf 'CONNECT {\"verbose\":false}\\r\\nSUB x 1\\r\\n'; "
                           "while sleep 1; do printf 'PING\\r\\n'; done) | nc $S 4222"),),
        why="a subscriber pings once a second", watch=both(4222, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
]

TRANSFERS = [
    Situation(
        "git-clone", program="git", rate="10mbit", rtt="60ms", prepare=GIT, server=GIT_SERVER,
        client=at_client("git clone -q git://$S/repo copy"), warm_up=6,
        why="a clone of 120 MB fills the path", watch=both(9418, TAKES, FULL),
    ),
    Situation(
        "git-clone-black-hole", program="git", rate="50mbit", rtt="60ms", prepare=GIT,
        path=("--set", "path.reverse.link_mtu=1400", "--set", "path.reverse.too_big=vanish"),
        server=GIT_SERVER, client=at_client("git clone -q git://$S/repo copy"), warm_up=5,
        why="packets to the client above 1400 bytes vanish without ICMP, smaller ones pass",
        watch=at_server(9418, fault("pmtu-blackhole")),
    ),
    Situation(
        "lftp-get", program="vsftpd", rate="30mbit", rtt="80ms", prepare=FTP, server=FTP_SERVER,
        client=lftp("cat big"), warm_up=5, why="one download fills the path",
        watch=both(3000, TAKES, FULL),
    ),
    Situation(
        "vsftpd-max-rate", program="vsftpd", rate="100mbit", rtt="20ms", prepare=FTP,
        server=server("vsftpd $W/vsftpd.conf -oanon_max_rate=400000"),
        client=lftp("cat big"), warm_up=5, why="anon_max_rate is 400 kB/s",
        watch=both(3000, TAKES, PACED),
    ),
    Situation(
        "lftp-loss-2", program="vsftpd", rate="30mbit", rtt="30ms", queue="400p",
        path=("--loss", "2%"), prepare=FTP, server=FTP_SERVER,
        client=lftp("cat big"), why="2 % random loss on the wire",
        watch=at_server(3000, fault("random-loss")),
    ),
    Situation(
        "lftp-put", program="vsftpd", rate="8mbit", rtt="100ms", prepare=FTP, server=FTP_SERVER,
        client=lftp("cd in; put ftp/big"), warm_up=6, why="one upload fills the path",
        watch=both(3000, FULL, TAKES),
    ),
    Situation(
        "lftp-limited", program="lftp", rate="100mbit", rtt="30ms", prepare=FTP,
        server=FTP_SERVER, client=lftp("set net:limit-rate 300000; get big -o got"),
        warm_up=8, why="lftp reads 300 kB/s, as net:limit-rate says",
        watch=both(3000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "ssh-path-dies", program="ssh", rtt="30ms", prepare=SSHD,
        server=server("/usr/sbin/sshd -D -f $W/sshd_config"),
        client=(("client", "(while sleep 0.2; do printf a; done) | ssh -tt -F ssh_config $S cat"),),
        during=(("server", "ip route add blackhole 10.77.0.1/32"),), after=2,
        why="keys are typed, and from 2 s before the look on nothing passes",
        watch=at_sender(2222, fault("path-dead")),
    ),
    Situation(
        "smtp-source", program="postfix", rate="100mbit", rtt="25ms",
        server=server("smtp-sink -u nobody :2525 1000"), settle=1,
        client=at_client("smtp-source -d -l 2000 -m 10000000 -s 1 $S:2525"),
        why="one command of SMTP a round trip", watch=both(2525, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
]

PROXIES = [
    Situation(
        "squid-download", program="squid", prepare=FILES,
        server=(*NGINX, *server("squid -N -f $W/squid.conf")), settle=3,
        client=at_client("curl -so /dev/null -x http://$S:3128 http://127.0.0.1/big"),
        why="a download through squid fills the path", watch=both(3128, TAKES, FULL),
    ),
    Situation(
        "squid-far-limited", program="squid", rate="100mbit", rtt="20ms", prepare=FILES,
        server=(*NGINX, *server("squid -N -f $W/squid.conf")), settle=3, warm_up=5,
        client=at_client("curl -so /dev/null -x http://$S:3128 http://127.0.0.1:81/big"),
        why="squid forwards what its far side sends at 500 kB/s", watch=both(3128, TAKES, PACED),
    ),
    Situation(
        "squid-slow-client", program="squid", prepare=FILES, server=NGINX, settle=1, warm_up=10,
        client=(*at_client("squid -N -f $W/squid.conf"),
                ("client", "sleep 2; exec curl --limit-rate 300K -so /dev/null "
                           "-x http://127.0.0.1:3128 http://$S/big")),
        why="squid fetches what its client reads at 300 kB/s",
        watch=both(80, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "stunnel-redis", program="stunnel", rate="100mbit", rtt="20ms", prepare=STUNNEL,
        server=(*REDIS, *STUNNEL_SERVER), settle=1,
        client=(*STUNNEL_CLIENT, ("client", "sleep 1; exec redis-benchmark -p 7000 -c 1 "
                                            "-n 100000000 -t get")),
        why="one request a round trip, through TLS", watch=both(6380, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "stunnel-bulk", program="stunnel", rate="40mbit", rtt="30ms", prepare=STUNNEL,
        server=(*programs("sink 5000"), *STUNNEL_SERVER), settle=1,
        client=(*STUNNEL_CLIENT, ("client", "sleep 1; exec socat -u /dev/zero TCP:127.0.0.1:7001")),
        warm_up=5, why="a transfer through TLS fills the path", watch=both(6381, FULL, TAKES),
    ),
    Situation(
        "haproxy-sndbuf-16k", program="haproxy", prepare=FILES,
        server=(*NGINX, *server("haproxy -f $W/haproxy-sndbuf.cfg -db")),
        client=download(9080), why="tune.sndbuf.client is 16 KiB, the BDP is 250 kB",
        watch=at_server(9080, SMALL_SNDBUF),
    ),
    Situation(
        "nginx-rcvbuf-16k", program="nginx", prepare=FILES,
        server=server("nginx -p $W -c $W/nginx-rcvbuf.conf"),
        client=at_client("curl -so /dev/null -T $W/big http://$S:84/"),
        why="listen ... rcvbuf=16k, the BDP is 250 kB",
        watch=both(84, fault("rcvbuf-locked", "peer-window"), fault("rcvbuf-locked")),
    ),
    Situation(
        "nginx-upload", program="nginx", prepare=FILES,
        server=server("nginx -p $W -c $W/nginx-rcvbuf.conf"),
        client=at_client("curl -so /dev/null -T $W/big http://$S:85/"),
        why="the same without rcvbuf: the path is full", watch=both(85, FULL, TAKES),
    ),
]

LOSSES = [
    Situation(
        "redis-loss-3", program="redis", rate="100mbit", rtt="10ms", path=("--loss", "3%"),
        server=REDIS, settle=1,
        client=at_client("redis-benchmark -h $S -c 1 -n 100000000 -t get"), look=10,
        why="each lost packet is waited for by a timer of 200 ms, of a request that takes 10",
        watch=both(6379, WAITS_FOR_LOST, WAITS_FOR_LOST),
    ),
    Situation(
        "nginx-loss-3", program="nginx", rate="100mbit", rtt="40ms", path=("--loss", "3%"),
        prepare=FILES, server=NGINX,
        client=at_client("wrk -c 1 -t 1 -d 100 http://$S/page100"), look=15,
        why="each lost packet is waited for by a timer of 240 ms, of a request that takes 40",
        watch=both(80, WAITS_FOR_LOST, WAITS_FOR_LOST),
    ),
    Situation(
        "mariadb-loss-4", program="mariadb", rate="100mbit", rtt="20ms", path=("--loss", "4%"),
        prepare=MARIADB, server=MARIADB_SERVER, settle=4, client=mariadb("select 1"), look=10,
        why="each lost packet is waited for by a timer of 220 ms, of a query that takes 20",
        watch=both(3306, WAITS_FOR_LOST, WAITS_FOR_LOST),
    ),
    Situation(
        "redis-loss-rare", program="redis", rate="100mbit", rtt="40ms", path=("--loss", "0.05%"),
        server=REDIS, settle=1,
        client=at_client("redis-benchmark -h $S -c 1 -n 100000000 -t get"), look=10,
        why="one request of a thousand waits for a timer, which takes half a percent of the time",
        watch=both(6379, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "ssh-keys-loss-2", program="ssh", rtt="30ms", path=("--loss", "2%"), prepare=SSHD,
        server=server("/usr/sbin/sshd -D -f $W/sshd_config"),
        client=(("client", "(while sleep 0.5; do printf a; done) | ssh -tt -F ssh_config $S cat"),),
        why="two keys a second; one of fifty comes 200 ms late, which is little of the time",
        watch=both(2222, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
]

MEASURING = [
    Situation(
        "nuttcp", program="nuttcp", rate="30mbit", rtt="50ms", server=NUTTCP, client=nuttcp(),
        warm_up=5, why="one bulk flow, buffers suffice", watch=both(5001, FULL, TAKES),
    ),
    Situation(
        "nuttcp-600ms-bbr", program="nuttcp", rate="5mbit", rtt="600ms", cc="bbr", server=NUTTCP,
        client=nuttcp(), warm_up=25, look=10, why="one bulk flow, buffers suffice",
        watch=both(5001, FULL, TAKES),
    ),
    Situation(
        "nuttcp-1mbit", program="nuttcp", rate="1mbit", rtt="50ms", queue="1bdp", server=NUTTCP,
        client=nuttcp(), warm_up=6, why="one bulk flow, buffers suffice",
        watch=both(5001, FULL, TAKES),
    ),
    Situation(
        "nuttcp-r-5m", program="nuttcp", server=NUTTCP, client=nuttcp("-R5m"),
        why="nuttcp -R sends 5 of 50 Mbit/s", watch=both(5001, PACED, TAKES),
    ),
    Situation(
        "nuttcp-w-64k", program="nuttcp", server=NUTTCP, client=nuttcp("-w32"), rtt="80ms",
        why="nuttcp -w sets SO_SNDBUF and SO_RCVBUF at both ends",
        watch=at_sender(5001, fault("sndbuf-locked", "sndbuf-tiny", "rcvbuf-locked",
                                    "peer-window")),
    ),
    Situation(
        "nuttcp-policed", program="nuttcp", rate="100mbit", rtt="30ms", queue="2000p", router=True,
        prepare=(("router", "tc qdisc add dev far0 root tbf rate 10mbit burst 40kb limit 3kb"),),
        server=NUTTCP, client=nuttcp(), warm_up=6,
        why="a token bucket without a queue at a router: 10 Mbit/s, what exceeds it is dropped",
        watch=at_sender(5001, fault("policed")),
    ),
    Situation(
        "nuttcp-wscale-off", program="nuttcp", rate="100mbit", rtt="50ms", server=NUTTCP,
        client=nuttcp(), prepare=(sysctl("client", "net.ipv4.tcp_window_scaling=0"),),
        why="65535 bytes a round trip are 10 of 100 Mbit/s",
        watch=at_sender(5001, fault("window-scaling-off")),
    ),
    Situation(
        "nuttcp-10g", program="nuttcp", rate="", rtt="0.1ms", queue="1000p", server=NUTTCP,
        client=nuttcp(), why="many Gbit/s: processors are the limit, nothing of TCP",
        watch=at_sender(5001, PROCESSORS),
    ),
    Situation(
        "iperf3-bidir", program="iperf3", rate="20mbit", rtt="40ms", server=IPERF_SERVER,
        client=at_client("iperf3 -c $S -t 100 --bidir"), warm_up=5,
        why="a flow each way fills each direction",
        watch=at_sender(5201, healthy("path-full", "unknown", "app-limited", "idle")),
    ),
    Situation(
        "qperf-latency", program="qperf", rate="100mbit", rtt="5ms", server=server("qperf"),
        client=at_client("qperf -ip 6000 -t 100 $S tcp_lat"), settle=1,
        why="one message a round trip", watch=at_sender(6000, BY_ROUND_TRIPS),
    ),
    Situation(
        "qperf-bandwidth", program="qperf", rate="100mbit", rtt="10ms", server=server("qperf"),
        client=at_client("qperf -ip 6000 -t 100 $S tcp_bw"), settle=1,
        why="one bulk flow, buffers suffice", watch=both(6000, FULL, TAKES),
    ),
    Situation(
        "tbench-10ms", program="tbench", rate="1gbit", rtt="10ms", server=server("tbench_srv"),
        client=at_client("tbench -c /usr/share/dbench/client.txt -t 100 1 $S"), settle=1,
        why="one operation of a file server a round trip",
        watch=both(7003, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "tbench-lan", program="tbench", **LAN, server=server("tbench_srv"),
        client=at_client("tbench -c /usr/share/dbench/client.txt -t 100 1 $S"), settle=1,
        why="one operation of a file server a round trip",
        watch=both(7003, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
    Situation(
        "connect-unanswered-wget", program="wget",
        client=(("client", "while :; do wget -qO /dev/null -T 30 -t 1 http://10.77.0.99/; done"),),
        why="nobody has this address: each SYN is lost",
        watch=at_sender(80, fault("connect-unanswered")),
    ),
    Situation(
        "source-many-idle", program="python", server=programs("mute 5000"),
        client=client("many $S 5000 --writes 50 --request 10"),
        why="fifty connections that said hello and wait", watch=at_sender(5000, IDLE),
    ),
]

SITUATIONS = [*WEB, *THINKERS, *DATABASES, *TRANSFERS, *PROXIES, *LOSSES, *MEASURING]
