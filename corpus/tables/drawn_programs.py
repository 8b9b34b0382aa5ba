"""Common programs as `drawn.py` joins them with paths and causes.

A program is a function of what is drawn that gives a `Kit`: what runs at both hosts, which process is
looked at, and how much it can send whatever the path (what a processor can do is no physics of a path,
and such draws are drawn again).
"""

from dataclasses import dataclass

from .commands import FILES, NGINX, SSHD
from .services import POSTGRES, POSTGRES_SERVER

MINE = "$H/programs/drawn"
PY = f"$FITPY {MINE}/drawn.py"
GO = (("server", f"go build -o $W/pages {MINE}/pages.go"),)
JAVA = (("server", "javac -d $W $H/programs/fitting/Pages.java"),)
FTP = (("server", "mkdir -p ftp/up && chmod 777 ftp/up && truncate -s 8G ftp/big && "
                  "chmod 755 . ftp"),)
VSFTPD = (("server", "exec vsftpd $W/drawn-vsftpd.conf"),)
RSYNCD = (*FILES, ("server", "printf 'socket options=@\\n[m]\\npath=%s\\nuse chroot=no\\nuid=root\\n"
                             "gid=root\\nread only=no\\n' $W > rsyncd.conf"),
          ("client", "truncate -s 8G up8g"))
RSYNC_SERVER = (("server", "exec rsync --daemon --no-detach --port 8730 --config rsyncd.conf"),)
SSHD_SERVER = (("server", "exec /usr/sbin/sshd -De -f $W/sshd_config"),)
REDIS = (("server", "exec redis-server --save '' --appendonly no --protected-mode no"),)
MEMCACHED = (("server", "exec memcached -u root -I 64m -m 512 -l 0.0.0.0 -p 5000"),)
SINK = (("server", "nc -l -p 5000 > /dev/null"),)
CONFIGS = {
    "drawn-vsftpd.conf": """
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
    "drawn-haproxy.cfg": """
global
  #tune
defaults
  mode http
  timeout connect 50s
  timeout client 1h
  timeout server 1h
listen pages
  bind :8000
  server near 127.0.0.1:80
""",
    "drawn-squid.conf": """
http_port 8000 accel defaultsite=127.0.0.1 no-vhost
cache_peer 127.0.0.1 parent 80 0 no-query originserver
http_access allow all
cache deny all
access_log none
cache_log @W@/squid.log
pid_filename none
coredump_dir @W@
visible_hostname lab
shutdown_lifetime 1 seconds
""",
    "drawn-lighttpd.conf": """
server.document-root = "@W@"
server.port = 8000
server.upload-dirs = ( "@W@" )
server.max-keep-alive-requests = 100000000
""",
}


@dataclass(frozen=True)
class Kit:
    name: str
    prepare: tuple
    server: tuple
    client: tuple
    # The processes that hold the connection.
    comm: dict
    # The end that sends the payload.
    sender: str
    settle: float = 1.5
    # What it sends at most whatever the path, Mbit/s.
    most: float = 150


def at_client(command):
    return (("client", f"sleep 0.3; exec {command}"),)


def looped(command):
    return at_client(f"sh -c 'while :; do {command}; done'")


def fetch(client, port, path="/big", options=""):
    """A download by `client`, and the process that takes it."""
    url = f"http://$S:{port}{path}"
    command = {"curl": f"curl -so /dev/null {options} {url}",
               "wget": f"wget -qO /dev/null {options} {url}"}[client]
    return command, client


# Servers of files and pages: (prepare, server, process, port, settle), for a page of `size` bytes, with
# a pause of `think` seconds and a send buffer of `sndbuf` bytes (0: neither).


def page_file(size):
    return (*FILES, ("server", f"head -c {size} /dev/urandom > page"))


def nginx(size, think, sndbuf):
    if think:
        return None
    edit = (("server", f"sed -i 's/listen 80 /listen 80 sndbuf={sndbuf} /' nginx.conf"),)
    return (*page_file(size), *(edit if sndbuf else ())), NGINX, "nginx", 80, 0.5


def lighttpd(size, think, sndbuf):
    if think or sndbuf:
        return None
    return (page_file(size), (("server", "exec lighttpd -D -f $W/drawn-lighttpd.conf"),), "lighttpd",
            8000, 1)


def haproxy(size, think, sndbuf):
    if think:
        return None
    edit = (("server", f"sed -i 's/#tune/tune.sndbuf.client {sndbuf}/' drawn-haproxy.cfg"),)
    return ((*page_file(size), *(edit if sndbuf else ())),
            (*NGINX, ("server", "exec haproxy -f $W/drawn-haproxy.cfg")), "haproxy", 8000, 1.5)


def squid(size, think, sndbuf):
    if think or sndbuf:
        return None
    # Its shared memory has one name on a host, and outlives it.
    run = "exec unshare -m sh -c 'mount -t tmpfs none /dev/shm; exec squid -N -f $W/drawn-squid.conf'"
    return page_file(size), (*NGINX, ("server", run)), "squid", 8000, 3


def node(size, think, sndbuf):
    if sndbuf:
        return None
    command = f"exec node {MINE}/pages.js serve 5000 {size or 8_000_000_000} {round(think * 1000)}"
    return (), (("server", command),), "node", 5000, 2


def go(size, think, sndbuf):
    command = f"exec $W/pages 5000 {size or 8_000_000_000} {round(think * 1000)} {sndbuf}"
    return GO, (("server", command),), "pages", 5000, 1


def aiohttp(size, think, sndbuf):
    command = f"exec {PY} pages 5000 {size or 8_000_000_000} {think} {sndbuf}"
    return (), (("server", command),), "python", 5000, 3


def java(size, think, sndbuf):
    if sndbuf:
        return None
    # With Nagle's algorithm off, which has a cause of its own.
    command = (f"exec java -Dsun.net.httpserver.nodelay=true -cp $W Pages 5000 "
               f"{size or 30_000_000} {round(think * 1000)}")
    return JAVA, (("server", command),), "java", 5000, 3


def http_server(size, think, sndbuf):
    if think or sndbuf:
        return None
    return page_file(size), (("server", "exec $PY -m http.server 8000"),), "python", 8000, 2


WEB = {"nginx": nginx, "lighttpd": lighttpd, "haproxy": haproxy, "squid": squid, "node": node, "go": go,
       "aiohttp": aiohttp, "java": java, "http.server": http_server}
# A page on any path, or a file of this name.
KEEPS_ALIVE = ("nginx", "lighttpd", "haproxy", "squid", "node", "go", "aiohttp", "java")


def web(name, client, *, size=0, think=0, sndbuf=0, options="", loop=False, many=1):
    """Downloads: of all there is (`size` 0), or of pages of `size` bytes on a connection each."""
    made = WEB[name](size, think, sndbuf)
    if made is None:
        return None
    prepare, server, comm, port, settle = made
    command, taker = fetch(client, port, "/page" if size else "/big", options)
    # The JDK's pages end.
    loop = loop or (name == "java" and not size)
    start = (looped if loop else at_client)(command)
    return Kit(f"{name}-{client}", prepare, server, many * start, {"server": comm, "client": taker},
               "server", settle)


def asks(name, size, pause=0, think=0):
    """Pages on one connection that is kept, one after the other."""
    made = WEB[name](size, think, 0)
    if made is None:
        return None
    prepare, server, comm, port, settle = made
    return Kit(f"{name}-asks", prepare, server, at_client(f"{PY} asks $S {port} /page {pause}"),
               {"server": comm, "client": "python"}, "server", settle)


def bench(name, tool, size, many):
    """Pages on kept connections by a load generator."""
    made = WEB[name](size, 0, 0)
    if made is None:
        return None
    prepare, server, comm, port, settle = made
    command = {"ab": f"ab -q -k -n 100000000 -c {many} http://$S:{port}/page",
               "wrk": f"wrk -t 1 -c {many} -d 900 http://$S:{port}/page"}[tool]
    return Kit(f"{name}-{tool}", prepare, server, at_client(command),
               {"server": comm, "client": tool}, "server", settle)


# Bulk transfers of other programs, which go on for long.


def rsync(down, options="", daemon=""):
    """`options` at the client, `daemon` are socket options of the server."""
    prepare = tuple((end, text.replace("@", daemon)) for end, text in RSYNCD)
    way = "rsync://$S:8730/m/big got" if down else "up8g rsync://$S:8730/m/up"
    return Kit("rsync", prepare, RSYNC_SERVER, at_client(f"rsync -qW {options} {way}"),
               {"server": "rsync", "client": "rsync"}, "server" if down else "client")


def ssh(down, options=""):
    way = "$S \"cat big\" > /dev/null" if down else "$S \"cat > /dev/null\" < /dev/zero"
    return Kit("ssh", (*SSHD, *FILES), SSHD_SERVER, at_client(f"sh -c 'cd $W; exec ssh -F ssh_config {options} {way}'"
               .replace("$S \"cat big\"", "$S \"cat $W/big\"")),
               {"server": "sshd", "client": "ssh"}, "server" if down else "client", most=100)


def scp(down, options=""):
    way = "$S:$W/big /dev/null" if down else "up8g $S:/dev/null"
    return Kit("scp", (*SSHD, *FILES, ("client", "truncate -s 8G up8g")), SSHD_SERVER,
               at_client(f"scp -qF $W/ssh_config {options} {way}"),
               {"server": "sshd", "client": "ssh"}, "server" if down else "client", most=100)


def vsftpd(down, client, options=""):
    if client == "lftp":
        way = "get big -o /dev/null" if down else "put up8g -o up/x"
        # lftp will not write over a file unless told so.
        command = f"lftp -c \"set xfer:clobber on; {options} open ftp://$S; {way}\""
    elif down:
        command = f"curl -so /dev/null {options} ftp://$S/big"
    else:
        command = f"curl -sT up8g {options} ftp://$S/up/x"
    return Kit(f"vsftpd-{client}", (*FTP, ("client", "truncate -s 8G up8g")), VSFTPD,
               at_client(command), {"server": "vsftpd", "client": client},
               "server" if down else "client")


def nc():
    return Kit("nc", (), SINK, at_client("sh -c 'exec nc $S 5000 < /dev/zero'"),
               {"server": "nc", "client": "nc"}, "client")


def socat(sndbuf=0, rcvbuf=0):
    """A sink that takes all, and a source that writes all the time."""
    listen = f"TCP-LISTEN:5000,reuseaddr{f',rcvbuf={rcvbuf}' if rcvbuf else ''}"
    connect = f"TCP:$S:5000{f',sndbuf={sndbuf}' if sndbuf else ''}"
    return Kit("socat", (), (("server", f"exec socat -u -b 65536 {listen} OPEN:/dev/null"),),
               at_client(f"socat -u -b 65536 OPEN:/dev/zero {connect}"),
               {"server": "socat", "client": "socat"}, "client")


def iperf3(down, options=""):
    return Kit("iperf3", (), (("server", "exec iperf3 -s"),),
               at_client(f"iperf3 -c $S -t 900 {'-R' if down else ''} {options}"),
               {"server": "iperf3", "client": "iperf3"}, "server" if down else "client", most=250)


def psql():
    query = "select repeat(chr(120), 1000) from generate_series(1, 20000000)"
    return Kit("psql", POSTGRES, (POSTGRES_SERVER,), at_client(
        f"psql -h $S -U postgres -qAt -v FETCH_COUNT=100000 -o /dev/null -c \"copy ({query}) to "
        "stdout\" postgres"), {"server": "postgres", "client": "psql"}, "server", 4, most=80)


def memcached(size=4_000_000):
    return Kit("memcached", (), MEMCACHED, at_client(f"{PY} gets $S 5000 {size}"),
               {"server": "memcached", "client": "python"}, "server")


def redis(size=30_000_000):
    return Kit("redis", (), REDIS, at_client(f"{PY} redis_value $S 6379 {size}"),
               {"server": "redis-server", "client": "python"}, "server")


# Questions and answers, ticks, and what is slow by itself.


def redis_benchmark(many):
    return Kit("redis-benchmark", (), REDIS,
               at_client(f"redis-benchmark -h $S -c {many} -n 100000000 -t get,set -q"),
               {"server": "redis-server", "client": "redis-benchmark"}, "server")


def pgbench(many, sleep=0.0):
    query = f"select pg_sleep({sleep});" if sleep else "select 1;"
    return Kit("pgbench", (*POSTGRES, ("client", f"echo \"{query}\" > one.sql")), (POSTGRES_SERVER,),
               at_client(f"pgbench -n -h $S -U postgres -c {many} -T 900 -f one.sql postgres"),
               {"server": "postgres", "client": "pgbench"}, "server", 4)


def php_pages(size):
    return Kit("php-asks", (), (("server", f"exec php $H/programs/fitting/pages.php 5000 {size}"),),
               at_client(f"{PY} asks $S 5000 / 0"), {"server": "php", "client": "python"}, "server")


def java_pages(size):
    return Kit("java-asks", JAVA, (("server", f"exec java -cp $W Pages 5000 {size} 0"),),
               at_client(f"{PY} asks $S 5000 / 0"), {"server": "java", "client": "python"}, "server", 3)


def ruby_pages(size):
    return Kit("ruby-asks", (), (("server", f"exec ruby $H/programs/fitting/pages.rb 5000 {size}"),),
               at_client(f"{PY} asks $S 5000 / 0"), {"server": "ruby", "client": "python"}, "server", 3)


def redis_ticks(size, pause):
    """Published each `pause` seconds to one subscriber."""
    push = ("server", f"sleep 3; exec {PY} publishes 127.0.0.1 6379 {size} {pause}")
    return Kit("redis-publish", (), (*REDIS, push),
               at_client("sh -c 'exec redis-cli -h $S subscribe c > /dev/null'"),
               {"server": "redis-server", "client": "redis-cli"}, "server", 1.5)


def mosquitto_ticks(size, pause):
    push = ("server", f"sleep 2; head -c {size} /dev/zero > message; while :; do mosquitto_pub -p 1883 "
                      f"-t c -f message; sleep {pause}; done")
    return Kit("mosquitto", (("server", "printf 'listener 1883\\nallow_anonymous true\\n' > drawn-mq"),),
               (("server", "exec mosquitto -c $W/drawn-mq"), push),
               at_client("mosquitto_sub -h $S -t c -F %l"),
               {"server": "mosquitto", "client": "mosquitto_sub"}, "server", 1.5)


def node_ticks(size, pause):
    command = f"exec node {MINE}/pages.js ticks 5000 {size} {round(pause * 1000)}"
    return Kit("node-events", (), (("server", command),),
               at_client("curl -sNo /dev/null http://$S:5000/"), {"server": "node", "client": "curl"},
               "server", 2)


def socat_ticks(size, pause):
    feed = (f"head -c {size} /dev/zero > message; while :; do cat message; sleep {pause}; done | "
            "exec socat -u - TCP-LISTEN:5000")
    return Kit("socat-ticks", (), (("server", feed),),
               at_client("sh -c 'exec nc -d $S 5000 > /dev/null'"),
               {"server": "socat", "client": "nc"}, "server", 1.5)


def nc_paced(kilobytes):
    return Kit("pv-nc", (), SINK,
               at_client(f"sh -c 'pv -qL {kilobytes}k /dev/zero | exec nc $S 5000'"),
               {"server": "nc", "client": "nc"}, "client")


def nginx_paced(kilobytes):
    edit = ("server", f"sed -i 's/limit_rate 500k/limit_rate {kilobytes}k/' nginx.conf")
    return Kit("nginx-limit", (*FILES, edit), NGINX,
               at_client("curl -so /dev/null http://$S:81/big"), {"server": "nginx", "client": "curl"},
               "server")


def sink_paced(kilobytes):
    """A reader behind a pipe."""
    sink = f"socat -u TCP-LISTEN:5000,reuseaddr - | pv -qL {kilobytes}k > /dev/null"
    return Kit("socat-pv", (), (("server", sink),),
               at_client("sh -c 'exec nc $S 5000 < /dev/zero'"), {"server": "socat", "client": "nc"},
               "client")
