"""Situations that `tcptailor fit --pid` is judged by, of programs that no table before has: PHP,
Ruby's WEBrick, vsftpd, MariaDB, lftp, squid, nginx with HTTP/2, HAProxy's buffers, gunicorn, wrk.

Labels were written down before any of them was run. That PHP and WEBrick write the head and the body
of an answer apart, without TCP_NODELAY, was seen with `strace`.
"""

from .commands import FILES, NGINX, REDIS, SSHD
from .fitting import GET_PAGES, JAVA_PAGES, java
from .further import from_client
from .model import *
from .packages import SMALL_SNDBUF
from .seeming import LOSS, PAGES, RESTARTS

FTP = (("server", "mkdir -p ftp/up && chmod 777 ftp/up && truncate -s 4G ftp/big && "
                  "chmod 755 . ftp"),)
VSFTPD = (("server", "exec vsftpd $W/vsftpd.conf"),)
MARIADB = (("server", "mariadb-install-db --no-defaults --user=root --datadir=$W/db "
                      "--skip-test-db > /dev/null"),)
MARIADB_SERVER = (("server", "exec mariadbd --no-defaults --user=root --datadir=$W/db "
                             "--socket=$W/db.sock --skip-grant-tables --bind-address=0.0.0.0"),)
SELECT = "exec mariadb --no-defaults --quick --skip-ssl -h $S -u root"
HAPROXY = (*NGINX, ("server", "exec haproxy -f $W/anew-haproxy.cfg"))
# Takes all that is sent to it.
SINK = ("server", "exec socat -u TCP-LISTEN:9001,bind=127.0.0.1,fork,reuseaddr OPEN:/dev/null")

TABLE = [
    (kept("server", "php", {"nagle-delack-stall"}, "nodelay", 5, 60), Situation(
        "anew-php-pages", program="php", rate="200mbit", rtt="1ms", queue="500p",
        server=(("server", "exec php $H/programs/fitting/pages.php 5000 300"),), settle=1,
        client=GET_PAGES, warm_up=4, why="a server in PHP writes head and body apart, with Nagle on",
        watch=both(5000, fault("nagle-delack-stall", "application-thinks"), STALLS),
    )),
    (kept("server", "ruby", {"nagle-delack-stall"}, "nodelay", 2, 12), Situation(
        "anew-webrick-pages", program="webrick", rate="100mbit", rtt="5ms",
        server=(("server", "exec ruby $H/programs/fitting/pages.rb 5000 900"),), settle=3,
        client=GET_PAGES, warm_up=4, why="WEBrick writes head and body apart, with Nagle on",
        watch=both(5000, fault("nagle-delack-stall", "application-thinks"), STALLS),
    )),
    (kept("server", "vsftpd", {"random-loss"}, "congestion", 1.3, 12), Situation(
        "anew-vsftpd-loss", program="vsftpd", rate="30mbit", rtt="40ms", queue="300p",
        path=("--loss", "0.5%"), prepare=FTP, server=VSFTPD, settle=1,
        client=from_client("curl -so /dev/null ftp://$S/big"), warm_up=8, look=8,
        why="0.5 % random loss leave CUBIC 5 to 10 of 30 Mbit/s",
        watch={"server": Watched("dport > :1024", LOSS)},
    )),
    (kept("client", "lftp", {"bufferbloat"}, "congestion", 3, 60), Situation(
        "anew-lftp-bloat", program="lftp", rate="8mbit", rtt="25ms", queue="500p", prepare=(
            *FTP, ("client", "truncate -s 4G up4g")), server=VSFTPD, settle=1,
        client=from_client('lftp -c "open ftp://$S; put up4g -o up/x"'), warm_up=12, look=8,
        why="an upload fills a queue of 0.75 s",
        watch={"client": Watched("dport > :1024", fault("bufferbloat"))},
    )),
    (kept("server", "mariadbd", {"tcp-wmem-max-cap"}, "net.ipv4.tcp_wmem", 1.5, 8), Situation(
        "anew-mariadb-wmem", program="mariadb", rate="60mbit", rtt="50ms", prepare=(
            *MARIADB, sysctl("server", "net.ipv4.tcp_wmem=4096 16384 98304")),
        server=MARIADB_SERVER, settle=6,
        client=(("client", f"{SELECT} -e \"select repeat('x',1000) from seq_1_to_100000000\" mysql "
                           "> /dev/null"),), warm_up=6,
        why="tcp_wmem[2] is 96 KiB, the BDP is 375 kB",
        watch=both(3306, TAKES, fault("tcp-wmem-max-cap")),
    )),
    (alone("client", "mariadb", "round-trip-bound"), Situation(
        "anew-mariadb-asks", program="mariadb", rtt="12ms", prepare=MARIADB, server=MARIADB_SERVER,
        settle=6, client=(("client", f"yes 'select 1;' | {SELECT} mysql > /dev/null"),), warm_up=4,
        why="one statement a round trip", watch=both(3306, BY_ROUND_TRIPS, SOME_TRAFFIC),
    )),
    (alone("server", "nginx", "app-limited", "paced", ending=("nothing-to-improve",)), Situation(
        "anew-nginx-limit", program="nginx", rate="60mbit", rtt="30ms", prepare=FILES, server=NGINX,
        client=from_client("curl -so /dev/null http://$S:81/big"), warm_up=6,
        why="limit_rate is 500 kB/s", watch=both(81, TAKES, PACED),
    )),
    (alone("server", "squid", "application-thinks", "app-limited"), Situation(
        "anew-squid-thinks", program="squid", rate="100mbit", rtt="5ms",
        prepare=(("server", "javac -d $W $H/programs/fitting/Pages.java"),),
        server=(("server", "exec java -Dsun.net.httpserver.nodelay=true -cp $W Pages 5000 2000 80"),
                ("server", "exec squid -N -f $W/squid.conf")), settle=4,
        client=from_client("python3 -c \"import http.client\n"
                           "c = http.client.HTTPConnection('$S', 3128)\nwhile True:\n"
                           " c.request('GET', 'http://127.0.0.1:5000/')\n c.getresponse().read()\""),
        warm_up=5, why="squid waits 80 ms for the server behind it",
        watch=both(3128, THINKS, THINKS_HERE),
    )),
    (kept("client", "wget", {"tcp-rmem-max-cap"}, "net.ipv4.tcp_rmem", 1.15, 3), Situation(
        "anew-wget-far", program="wget", rate="100mbit", rtt="200ms", prepare=(
            *FILES, ("server", "truncate -s 40M part"),
            sysctl("client", "net.ipv4.tcp_rmem=4096 131072 2097152")), server=NGINX,
        client=(("client", "yes http://$S/part | head -1000 > urls; exec wget "
                           "--no-http-keep-alive -qO /dev/null -i urls"),),
        warm_up=8, look=10, why="tcp_rmem[2] is 2 MiB, which gives a window of 1 MiB; the BDP is "
                                "2.5 MB; a new connection each 40 MB",
        watch=both(80, fault("tcp-rmem-max-cap"), fault("peer-window")),
    )),
    (alone("server", "nginx", "path-full"), Situation(
        "anew-h2-full", program="nginx", rate="25mbit", rtt="30ms", prepare=FILES,
        server=(("server", "exec nginx -p $W -c $W/anew-nginx.conf"),), settle=1,
        client=from_client("h2load -c 1 -m 20 -n 100000000 http://$S:8000/page60k"), warm_up=7,
        why="twenty streams of HTTP/2 on one connection fill 25 Mbit/s",
        watch=both(8000, TAKES, FULL),
    )),
    (kept("server", "ruby", {"slow-start-after-idle"}, "net.ipv4.tcp_slow_start_after_idle", 1.2,
          6), Situation(
        "anew-ruby-bursts", program="ruby", rate="80mbit", rtt="100ms",
        server=(("server", "exec ruby $H/programs/fitting/bursts.rb 5000 500000 2"),), settle=2,
        client=from_client("nc -d $S 5000 > /dev/null"), warm_up=9, look=14,
        why="500 kB each 2 s over 100 ms: the window restarts after each pause",
        watch=both(5000, TAKES, RESTARTS),
    )),
    (kept("server", "haproxy", {"sndbuf-locked"}, "buf_lock", 1.5, 12), Situation(
        "anew-haproxy-sndbuf", program="haproxy", rate="40mbit", rtt="50ms", prepare=FILES,
        server=HAPROXY, settle=1, client=from_client("curl -so /dev/null http://$S:8000/big"),
        warm_up=6, why="tune.sndbuf.client is 24 kB, the BDP is 250 kB",
        watch=both(8000, TAKES, SMALL_SNDBUF),
    )),
    (alone("server", "haproxy", "rcvbuf-locked", ending=("out-of-reach",)), Situation(
        "anew-haproxy-rcvbuf", program="haproxy", rate="40mbit", rtt="40ms",
        prepare=FILES, server=(SINK, *HAPROXY), settle=1,
        client=from_client("sh -c 'cat /dev/zero | nc $S 9000'"), warm_up=6,
        why="tune.rcvbuf.client is 16 kB: some 5 of 40 Mbit/s; only another setting of HAProxy helps",
        watch=both(9000, FIXED_WINDOW, fault("rcvbuf-locked")),
    )),
    (alone("server", "nginx", "app-limited", "application-thinks", "round-trip-bound", "path-full",
           "unknown", ending=("nothing-to-improve", "no-verdict", "no-setting-helps")), Situation(
        "anew-wrk-lan", program="nginx", **LAN, prepare=FILES, server=NGINX,
        client=from_client("wrk -t 1 -c 40 -d 600 http://$S/page10k"), warm_up=4,
        why="forty connections get pages as fast as a LAN and the processor let them",
        watch=both(80, TAKES, TAKES),
    )),
    (kept("server", "gunicorn", {"initcwnd-too-small"}, "route.initcwnd", 1.15, 2.5), Situation(
        "anew-gunicorn-new", program="gunicorn", rate="100mbit", rtt="90ms",
        server=(("server", "printf 'def app(asked, start):\\n start(\"200 OK\", [])\\n"
                           " return [b\"x\" * 140000]\\n' > anew_page.py; "
                           "exec gunicorn -b 0.0.0.0:8000 anew_page:app"),), settle=3,
        client=from_client("sh -c 'while :; do curl -so /dev/null http://$S:8000/; done'"),
        warm_up=4, look=8, why="140 kB on new connections take four round trips with 10 segments",
        watch=both(8000, PAGES, fault("initcwnd-too-small")),
    )),
]
# Written before any of them was run, with rules that had been right about all of the table above that
# ran: two causes at once, causes at the other end, many connections, and what was never tried.
STATIC_RCVBUF = sysctl("client", "net.ipv4.tcp_moderate_rcvbuf=0")
MORE = [
    (kept("server", "nginx", {"sndbuf-locked"}, "buf_lock", 1.5, 12), Situation(
        "again-two-faults", program="nginx", rate="60mbit", rtt="60ms", path=("--loss", "0.03%"),
        prepare=(*FILES, ("server", "sed -i 's/listen 80/listen 80 sndbuf=24k/' nginx.conf")),
        server=NGINX, client=from_client("curl -so /dev/null http://$S/big"), warm_up=6,
        why="nginx's listen has sndbuf=24k, the BDP is 450 kB; rare losses come after it",
        watch=both(80, TAKES, SMALL_SNDBUF),
    )),
    (kept("client", "python", {"nagle-delack-stall"}, "route.quickack", 2, 60), Situation(
        "again-peer-nagle", program="php", rate="200mbit", rtt="2ms", queue="500p",
        server=(("server", "exec php $H/programs/fitting/pages.php 5000 300"),), settle=1,
        client=GET_PAGES, warm_up=4,
        why="the server at the other end waits for the ACK of each head, which this end may send at once",
        watch=both(5000, fault("nagle-delack-stall", "application-thinks"), STALLS),
    )),
    (alone("client", "aria2c", "path-full"), Situation(
        "again-aria2-full", program="aria2", rate="20mbit", rtt="35ms", prepare=FILES, server=NGINX,
        client=from_client("aria2c -q -x8 -s8 --file-allocation=none -d /dev/shm -o anew-x "
                           "--allow-overwrite=true --max-download-limit=0 http://$S/big"), warm_up=8,
        why="eight connections fill 20 Mbit/s", watch=both(80, FULL, FULL),
    )),
    (alone("server", "redis-server", "idle", ending=("nothing-to-improve", "no-verdict")), Situation(
        "again-idle", program="redis", rtt="20ms", server=REDIS, settle=1,
        client=from_client("python3 -c \"import socket, time\n"
                           "held = [socket.create_connection(('$S', 6379)) for _ in range(20)]\n"
                           "time.sleep(1000)\""), warm_up=2,
        why="twenty clients hold connections and ask nothing", watch=both(6379, IDLE, IDLE),
    )),
    (kept("client", "ssh", {"pmtu-blackhole"}, "net.ipv4.tcp_mtu_probing", 1.5, 1e9), Situation(
        "again-mtu-hole", program="ssh", rate="50mbit", rtt="30ms", prepare=SSHD,
        path=("--set", "path.forward.link_mtu=1400", "--set", "path.forward.too_big=vanish"),
        server=(("server", "exec /usr/sbin/sshd -De -f $W/sshd_config"),), settle=1,
        client=from_client("sh -c 'ssh -F $W/ssh_config $S \"cat > /dev/null\" < /dev/zero'"),
        warm_up=5, why="packets above 1400 bytes vanish without a word",
        watch=both(2222, fault("pmtu-blackhole"), TAKES),
    )),
    (kept("server", "java", {"nagle-delack-stall"}, "nodelay", 2, 6), Situation(
        "again-fleet", program="java", rate="200mbit", rtt="20ms", prepare=JAVA_PAGES,
        server=java(600, 0), settle=2, client=from_client(
            "python3 -c \"import http.client, threading\ndef ask():\n"
            " c = http.client.HTTPConnection('$S', 5000)\n"
            " while True:\n  c.request('GET', '/')\n  c.getresponse().read()\n"
            "for _ in range(30): threading.Thread(target=ask).start()\""), warm_up=4,
        why="the head and the body of a page apart, on thirty connections: 60 ms instead of 20",
        watch=both(5000, fault("nagle-delack-stall", "application-thinks"), STALLS),
    )),
    (alone("server", "nginx", "round-trip-bound", "app-limited", "application-thinks"), Situation(
        "again-small-pages", program="nginx", rate="100mbit", rtt="40ms", prepare=FILES, server=NGINX,
        client=from_client("ab -n 100000000 -c 1 http://$S/page10k"), warm_up=4,
        why="a new connection and ten segments for each page: two round trips, and no setting saves one",
        watch=both(80, TAKES, TAKES),
    )),
    (kept("client", "python", {"rmem-autotuning-off"}, "net.ipv4.tcp_moderate_rcvbuf", 1.5, 9),
     Situation(
        "again-static-window", program="python", rate="60mbit", rtt="60ms",
        prepare=(*FILES, ("server", "truncate -s 12M part"), STATIC_RCVBUF), server=NGINX,
        client=from_client("python3 -c \"import urllib.request\nwhile True:\n"
                           " urllib.request.urlopen('http://$S/part').read()\""), warm_up=6,
        look=8, why="automatic buffers are off: 64 kB of window, the BDP is 450 kB; 12 MB each",
        watch=both(80, fault("rmem-autotuning-off"), fault("peer-window", "rcvbuf-locked")),
    )),
    (alone("client", "curl", "bufferbloat", "path-full",
           ending=("nothing-to-improve", "no-setting-helps", "out-of-reach")), Situation(
        "again-bloat-here", program="curl", rate="6mbit", rtt="30ms", queue="400p", prepare=FILES,
        server=NGINX, client=from_client("curl -so /dev/null http://$S/big"), warm_up=12, look=8,
        why="a download fills a queue of 0.8 s, which only the sender can help",
        watch=both(80, fault("bufferbloat"), fault("bufferbloat")),
    )),
]
TABLE = [*TABLE, *MORE]
CONFIGS = {
    "vsftpd.conf": """
listen=YES
listen_ipv6=NO
background=NO
anonymous_enable=YES
anon_root=@W@/ftp
anon_upload_enable=YES
anon_umask=022
write_enable=YES
no_anon_password=YES
seccomp_sandbox=NO
isolate_network=NO
""",
    "anew-nginx.conf": """
daemon off; user root; pid @W@/nginx.pid; error_log stderr; worker_processes 1;
events { worker_connections 1024; }
http { access_log off; keepalive_requests 100000000;
       server { listen 8000 http2; root @W@; } }
""",
    "anew-haproxy.cfg": """
global
  tune.sndbuf.client 24000
  tune.rcvbuf.client 16384
defaults
  timeout connect 50s
  timeout client 1h
  timeout server 1h
listen pages
  mode http
  bind :8000
  server near 127.0.0.1:80
listen sink
  mode tcp
  bind :9000
  server near 127.0.0.1:9001
""",
}
FITS = {situation.name: label for label, situation in TABLE}
SITUATIONS = [situation for _, situation in TABLE]
