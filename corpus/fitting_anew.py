"""Situations that `tcptailor fit --pid` is judged by, of programs that no table before has: PHP,
Ruby's WEBrick, vsftpd, MariaDB, lftp, squid, nginx with HTTP/2, HAProxy's buffers, gunicorn, wrk.

Labels were written down before any of them was run. That PHP and WEBrick write the head and the body
of an answer apart, without TCP_NODELAY, was seen with `strace`.
"""

from commands import FILES, NGINX
from fitting import GET_PAGES, alone, kept
from further import from_client
from model import *
from packages import SMALL_SNDBUF
from seeming import LOSS, PAGES, RESTARTS

FTP = (("server", "mkdir -p ftp/up && chmod 777 ftp/up && truncate -s 4G ftp/big && "
                  "chmod 755 . ftp"),)
VSFTPD = (("server", "exec vsftpd $W/vsftpd.conf"),)
MARIADB = (("server", "mariadb-install-db --no-defaults --user=root --datadir=$W/db "
                      "--skip-test-db > /dev/null"),)
MARIADB_SERVER = (("server", "exec mariadbd --no-defaults --user=root --datadir=$W/db "
                             "--socket=$W/db.sock --skip-grant-tables --bind-address=0.0.0.0"),)
SELECT = "exec mariadb --no-defaults --quick --skip-ssl -h $S -u root"
HAPROXY = (("server", "exec busybox httpd -f -p 127.0.0.1:5001 -h $W"),
           ("server", "exec haproxy -f $W/anew-haproxy.cfg"))
# Takes all that is sent to it.
SINK = ("server", "exec socat -u TCP-LISTEN:9001,bind=127.0.0.1,fork,reuseaddr OPEN:/dev/null")

TABLE = [
    (kept("server", "php", {"nagle-delack-stall"}, "nodelay", 5, 60), Situation(
        "anew-php-pages", program="php", rate="200mbit", rtt="1ms", queue="500p",
        server=(("server", "exec php $H/programs_fitting/pages.php 5000 300"),), settle=1,
        client=GET_PAGES, warm_up=4, why="a server in PHP writes head and body apart, with Nagle on",
        watch=both(5000, fault("nagle-delack-stall", "application-thinks"), STALLS),
    )),
    (kept("server", "ruby", {"nagle-delack-stall"}, "nodelay", 2, 12), Situation(
        "anew-webrick-pages", program="webrick", rate="100mbit", rtt="5ms",
        server=(("server", "exec ruby $H/programs_fitting/pages.rb 5000 900"),), settle=3,
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
        client=from_client("lftp -c 'open ftp://$S; put up4g -o up/x'"), warm_up=12, look=8,
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
        prepare=(("server", "javac -d $W $H/programs_fitting/Pages.java"),),
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
        client=from_client("sh -c 'while :; do wget -qO /dev/null http://$S/part; done'"),
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
        server=(("server", "exec ruby $H/programs_fitting/bursts.rb 5000 500000 2"),), settle=2,
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
        prepare=(("client", "truncate -s 8G up"),), server=(SINK, *HAPROXY), settle=1,
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
  server near 127.0.0.1:5001
listen sink
  mode tcp
  bind :9000
  server near 127.0.0.1:9001
""",
}
FITS = {situation.name: label for label, situation in TABLE}
SITUATIONS = [situation for _, situation in TABLE]
