"""Situations that `tcptailor fit --pid` is judged by, of programs that no table before has: beanstalkd,
Tarantool, apt-cacher-ng, Vert.x, socket.io, TigerVNC, x11perf, p910nd, Arrow Flight, pymodbus,
ClickHouse, asyncssh, nodemailer, Aedes, Exim, H2, Dask, ngIRCd, pproxy, Unison, Borg.

Labels were written down before any of them was run. `$JARS` has the jars of Vert.x and H2,
`$NODE_PATH` the packages for Node, and `$FITPY` is a Python with those for Python.
"""

from .commands import FILES, NGINX, SSHD
from .further import from_client
from .model import *
from .services import POLICE

MINE = "$H/programs/latest"
LATEST = f"$FITPY {MINE}/latest.py"
BY_TURNS = ("round-trip-bound", "app-limited", "application-thinks")
VERTX = (("server", f"javac -d $W -cp \"$JARS/*\" {MINE}/Vertx.java"),)
ROWS = (("server", f"javac -d $W -cp \"$JARS/*\" {MINE}/Rows.java"),)
ACNG = (("server", "mkdir acng && chmod 777 acng"),)
APT_CACHER = (("server", "exec apt-cacher-ng -c /etc/apt-cacher-ng ForeGround=1 Port=5000 "
                         "CacheDir=$W/acng LogDir=$W/acng PidFile=$W/acng/pid SocketPath=$W/acng/s "
                         "\"LocalDirs=files $W\""),)
# The scheduler at the client's host.
DASK = (("client", "exec $(dirname $FITPY)/dask scheduler --host $C --port 8786 --no-dashboard"),
        ("server", "sleep 3; exec $(dirname $FITPY)/dask worker tcp://$C:8786 --no-nanny "
                   "--nthreads 1 --no-dashboard"))


def vertx(bytes, buffer):
    return (("server", f"exec java -cp \"$W:$JARS/*\" Vertx 5000 {bytes} {buffer}"),)


def socket_io(bytes, pause):
    return (("server", f"exec node {MINE}/socketio.js serve 5000 {bytes} {pause}"),)


HEARS = from_client(f"node {MINE}/socketio.js hear http://$S:5000")
ASKS = from_client("python3 -c \"import http.client\nc = http.client.HTTPConnection('$S', 5000)\n"
                   "while True:\n c.request('GET', '/')\n c.getresponse().read()\"")

TABLE = [
    (kept("client", "python", {"nagle-delack-stall"}, "nodelay", 3, 12), Situation(
        "fifth-beanstalk-put", program="beanstalkd", rate="100mbit", rtt="6ms",
        server=(("server", "exec beanstalkd -l 0.0.0.0 -p 5000"),), settle=1,
        client=from_client(f"{LATEST} puts $S 5000 600"), warm_up=4,
        why="the producer writes the command and the job apart, with Nagle on: the job waits for the "
            "ACK of the command, which the server delays by 40 ms",
    )),
    (kept("server", "tarantool", {"tcp-wmem-max-cap"}, "net.ipv4.tcp_wmem", 1.4, 8), Situation(
        "fifth-tarantool-join", program="tarantool", rate="60mbit", rtt="50ms", prepare=(
            ("server", "mkdir first"), ("client", "mkdir second"),
            sysctl("server", "net.ipv4.tcp_wmem=4096 16384 98304")),
        server=(("server", f"cd first; exec tarantool {MINE}/tarantool.lua 5000 7000"),), settle=9,
        client=(("client", f"sleep 0.3; cd second; exec tarantool {MINE}/tarantool.lua $S:5000"),),
        warm_up=7, why="a new replica joins and is sent 700 MB; tcp_wmem[2] is 96 KiB, the BDP 375 kB",
    )),
    (kept("server", "apt-cacher", {"random-loss"}, "congestion", 1.5, 12), Situation(
        "fifth-acng-loss", program="apt-cacher-ng", rate="40mbit", rtt="40ms", queue="300p",
        path=("--loss", "0.4%"), prepare=(*FILES, *ACNG), server=APT_CACHER, settle=2,
        client=from_client("curl -so /dev/null http://$S:5000/files/big"), warm_up=8, look=8,
        why="0.4 % random loss leave CUBIC 5 to 10 of 40 Mbit/s",
    )),
    (kept("server", "java", {"sndbuf-locked"}, "buf_lock", 1.3, 14), Situation(
        "fifth-vertx-sndbuf", program="vertx", rate="60mbit", rtt="60ms", prepare=VERTX,
        server=vertx(20000000, 16384), settle=3, client=ASKS, warm_up=8, look=8,
        why="setSendBufferSize(16384), the BDP is 450 kB; pages of 20 MB on one connection",
    )),
    (kept("server", "node", {"slow-start-after-idle"}, "net.ipv4.tcp_slow_start_after_idle", 1.2, 6),
     Situation(
        "fifth-socketio-bursts", program="socket.io", rate="80mbit", rtt="100ms",
        server=socket_io(500000, 2000), settle=2, client=HEARS, warm_up=9, look=14,
        why="500 kB each 2 s over 100 ms, over a WebSocket: the window restarts after each pause",
    )),
    # Nothing on the observed host helps.
    (alone("server", "Xtigervnc", *BY_TURNS, ending=(
        "nothing-to-improve", "no-setting-helps", "no-verdict")), Situation(
        "fifth-vnc-screens", program="tigervnc", rate="100mbit", rtt="40ms",
        server=(("server", "exec Xtigervnc :77 -rfbport 5000 -SecurityTypes None -geometry 200x150 "
                           "-depth 24"),), settle=2,
        client=from_client(f"{LATEST} viewer $S 5000"), warm_up=5,
        why="a screen of 120 kB is asked for when the one before has come",
    )),
    (alone("client", "x11perf", "path-full"), Situation(
        "fifth-x11perf-full", program="x11perf", rate="20mbit", rtt="30ms", server=(
            ("server", "exec Xvfb :78 -listen tcp -ac -screen 0 800x600x24"),), settle=2,
        client=from_client("x11perf -display $S:78 -putimage500 -time 600 -repeat 1"), warm_up=14,
        why="pictures of 1 MB are drawn on a far display, as fast as 20 Mbit/s take them",
    )),
    (alone("client", "nc", "slow-reader", "peer-window"), Situation(
        "fifth-p910nd-printer", program="p910nd", rate="50mbit", rtt="20ms", prepare=(
            ("server", "mkdir -p /var/lock/p910nd && mkfifo printer"),), server=(
            ("server", "exec pv -qL 300k < printer > /dev/null"),
            ("server", "exec p910nd -d -f $W/printer 1")), settle=1,
        client=from_client("sh -c 'exec nc $S 9101 < /dev/zero'"), warm_up=14,
        why="a printer takes 0.3 MB/s of a job",
    )),
    (alone("server", "python", "path-full"), Situation(
        "fifth-flight-full", program="arrow-flight", rate="20mbit", rtt="20ms",
        server=(("server", f"exec {LATEST} flight 5000 8000"),), settle=3,
        client=from_client(f"{LATEST} flies $S 5000 0"), warm_up=7,
        why="batches of 64 kB over gRPC fill 20 Mbit/s, whose BDP its window exceeds",
    )),
    (alone("client", "python", "round-trip-bound", ending=(
        "nothing-to-improve", "no-setting-helps", "no-verdict")), Situation(
        "fifth-modbus-polls", program="pymodbus", rate="100mbit", rtt="25ms",
        server=(("server", f"exec {LATEST} modbus 5000"),), settle=3,
        client=from_client(f"{LATEST} polls $S 5000 0"), warm_up=4,
        why="registers are read one time after the other: one round trip each",
    )),
]
# Written when the ten above had been run, with rules as they were, and before any of these was run.
AGAIN = [
    (kept("server", "clickhouse-serv", {"tcp-wmem-max-cap"}, "net.ipv4.tcp_wmem", 1.4, 8), Situation(
        "fifth-again-clickhouse", program="clickhouse", rate="60mbit", rtt="50ms", prepare=(
            ("server", "mkdir ch"), sysctl("server", "net.ipv4.tcp_wmem=4096 16384 98304")),
        server=(("server", "exec clickhouse-server --config-file=$W/fifth-clickhouse.xml"),), settle=6,
        client=from_client("sh -c 'exec clickhouse-client --host $S --port 5000 --compression=0 "
                           "--query \"select number from system.numbers\" > /dev/null'"), warm_up=7,
        why="all numbers there are, as fast as they go; tcp_wmem[2] is 96 KiB, the BDP 375 kB",
    )),
    (kept("server", "python", {"bufferbloat"}, "congestion", 3, 60), Situation(
        "fifth-again-sftp-bloat", program="asyncssh", rate="8mbit", rtt="25ms", queue="500p",
        prepare=FILES, server=(("server", f"exec {LATEST} sftp 5000 $W"),), settle=3,
        client=from_client(f"{LATEST} fetches $S 5000 big"), warm_up=12, look=8,
        why="SFTP asks for 2 MB ahead, which fills a queue of 0.75 s, under CUBIC",
    )),
    (kept("client", "node", {"random-loss"}, "congestion", 1.5, 12), Situation(
        "fifth-again-mail-loss", program="nodemailer", rate="30mbit", rtt="50ms", queue="300p",
        path=("--loss", "0.4%"), server=(("server", f"exec node {MINE}/mail.js serve 5000"),),
        settle=2, client=from_client(f"node {MINE}/mail.js send $S 5000 8000000000"), warm_up=8,
        look=8, why="one long mail; 0.4 % random loss leave CUBIC 4 to 8 of 30 Mbit/s",
    )),
    (kept("client", "node", {"slow-start-after-idle"}, "net.ipv4.tcp_slow_start_after_idle", 1.2, 6),
     Situation(
        "fifth-again-mqtt-bursts", program="aedes", rate="80mbit", rtt="100ms",
        server=(("server", f"exec node {MINE}/mqtt.js serve 5000"),), settle=2,
        client=from_client(f"node {MINE}/mqtt.js send mqtt://$S:5000 400000 1500 1"), warm_up=9,
        look=14, why="MQTT messages of 400 kB, each 1.5 s after the one before was acknowledged: the "
                     "window restarts",
    )),
    (kept("server", "java", {"initcwnd-too-small"}, "route.initcwnd", 1.15, 2.5), Situation(
        "fifth-again-vertx-new", program="vertx", rate="200mbit", rtt="100ms", prepare=VERTX,
        server=vertx(140000, 0), settle=3, client=3 * from_client(
            "sh -c 'while :; do curl -so /dev/null http://$S:5000/; done'"), warm_up=5, look=8,
        why="three clients, of which each opens a connection for each page of 140 kB",
    )),
    # Nothing on the observed host helps.
    (alone("client", "python", "peer-window", "rcvbuf-locked", "tcp-rmem-max-cap", ending=(
        "nothing-to-improve", "no-setting-helps", "out-of-reach")), Situation(
        "fifth-again-exim-window", program="exim", rate="60mbit", rtt="60ms", prepare=(
            ("server", "mkdir spool"), sysctl("server", "net.ipv4.tcp_rmem=4096 32768 65536")),
        server=(("server", "exec exim4 -bdf -C $W/fifth-exim.conf"),), settle=2,
        client=from_client(f"{LATEST} mails $S 5000 20000000 yes"), warm_up=7, look=8,
        why="the host that takes mails of 20 MB has a tcp_rmem[2] of 64 KiB; the BDP is 450 kB",
    )),
    (alone("client", "java", "round-trip-bound", ending=(
        "nothing-to-improve", "no-setting-helps", "no-verdict")), Situation(
        "fifth-again-h2-inserts", program="h2", rate="100mbit", rtt="20ms", prepare=ROWS,
        server=(("server", "exec java -cp \"$W:$JARS/*\" Rows serve 5000 $W"),), settle=3,
        client=from_client("java -cp \"$W:$JARS/*\" Rows insert $S 5000"), warm_up=6,
        why="one row after the other: a round trip each",
    )),
    (alone("client", "python", "path-full"), Situation(
        "fifth-again-dask-full", program="dask", rate="20mbit", rtt="40ms", server=DASK, settle=6,
        client=from_client(f"{LATEST} results tcp://$C:8786 40000000"), warm_up=9, look=8,
        why="results of 40 MB, one after the other, fill 20 Mbit/s, seen from who takes them",
    )),
    (alone("server", "ngircd", "app-limited", "idle", "application-thinks", "paced", ending=(
        "nothing-to-improve", "no-setting-helps", "no-verdict")), Situation(
        "fifth-again-irc-chat", program="ngircd", rate="20mbit", rtt="50ms",
        server=(("server", "exec ngircd -n -f $W/fifth-ngircd.conf"),), settle=2,
        client=from_client(f"{LATEST} chat $S 5000 0.3"), warm_up=6,
        why="one says a line of 100 bytes three times a second, and another hears it",
    )),
    (alone("server", "pproxy", "policed", "path-full", ending=(
        "nothing-to-improve", "not-distinguishable")), Situation(
        "fifth-again-pproxy-policed", program="pproxy", rate="100mbit", rtt="30ms", prepare=(
            *FILES, ("client", POLICE.format(dev="lab0", rate="1500 kbytes/second",
                                             burst="50 kbytes"))),
        server=(*NGINX, ("server", "exec $(dirname $FITPY)/pproxy -l http+socks5://0.0.0.0:5000")),
        settle=2, client=from_client("curl -so /dev/null --socks5 $S:5000 http://127.0.0.1/big"),
        warm_up=8, look=8, why="what exceeds 12 Mbit/s is dropped on arrival, behind a proxy",
    )),
]
TABLE = [*TABLE, *AGAIN]
# Written before any of these was run, when seven of the ten above had been.
LAST = [
    (kept("server", "apt-cacher", {"initcwnd-too-small"}, "route.initcwnd", 1.15, 2.5), Situation(
        "fifth-last-acng-new", program="apt-cacher-ng", rate="100mbit", rtt="80ms", prepare=(
            *ACNG, ("server", "head -c 130000 /dev/urandom > part")), server=APT_CACHER, settle=2,
        client=from_client("sh -c 'while :; do curl -so /dev/null http://$S:5000/files/part; done'"),
        warm_up=4, look=8, why="packages of 130 kB on new connections take four round trips with 10 "
                               "segments",
    )),
    (kept("client", "clickhouse-clie", {"bufferbloat"}, "congestion", 3, 60), Situation(
        "fifth-last-clickhouse-insert", program="clickhouse", rate="8mbit", rtt="25ms", queue="500p",
        prepare=(("server", "mkdir ch"),),
        server=(("server", "exec clickhouse-server --config-file=$W/fifth-clickhouse.xml"),
                ("server", "sleep 5; clickhouse-client --port 5000 --query 'create table t (n UInt64) "
                           "engine = Null'")), settle=8,
        client=from_client("sh -c 'yes 12345678901 | clickhouse-client --host $S --port 5000 "
                           "--compression=0 --query \"insert into t format TabSeparated\"'"),
        warm_up=12, look=8, why="rows as fast as they go fill a queue of 0.75 s, under CUBIC",
    )),
    (kept("server", "Xtigervnc", {"random-loss"}, "congestion", 1.3, 12), Situation(
        "fifth-last-vnc-loss", program="tigervnc", rate="40mbit", rtt="40ms", queue="300p",
        path=("--loss", "0.4%"),
        server=(("server", "exec Xtigervnc :77 -rfbport 5000 -SecurityTypes None "
                           "-geometry 1600x1200 -depth 24"),), settle=2,
        client=from_client(f"{LATEST} viewer $S 5000"), warm_up=8, look=8,
        why="screens of 7.7 MB; 0.4 % random loss leave CUBIC 5 to 10 of 40 Mbit/s",
    )),
    (kept("server", "java", {"tcp-wmem-max-cap"}, "net.ipv4.tcp_wmem", 1.3, 8), Situation(
        "fifth-last-h2-select", program="h2", rate="60mbit", rtt="50ms", prepare=(
            *ROWS, sysctl("server", "net.ipv4.tcp_wmem=4096 16384 98304")),
        server=(("server", "exec java -cp \"$W:$JARS/*\" Rows serve 5000 $W"),), settle=3,
        client=from_client("java -cp \"$W:$JARS/*\" Rows select $S 5000"), warm_up=12, look=8,
        why="1000 rows of 20 kB are fetched at a time; tcp_wmem[2] is 96 KiB, the BDP 375 kB",
    )),
    # Nothing on the observed host helps.
    (alone("client", "x11perf", "round-trip-bound", ending=(
        "nothing-to-improve", "no-setting-helps", "no-verdict")), Situation(
        "fifth-last-x11perf-sync", program="x11perf", rate="100mbit", rtt="20ms", server=(
            ("server", "exec Xvfb :78 -listen tcp -ac -screen 0 800x600x24"),), settle=2,
        client=from_client("x11perf -display $S:78 -sync -dot -time 600 -repeat 1"), warm_up=14,
        why="an answer is waited for after each dot",
    )),
    (alone("client", "ssh", "app-limited", "paced"), Situation(
        "fifth-last-borg-rate", program="borg", rate="50mbit", rtt="30ms", prepare=(
            *SSHD, ("client", "head -c 400000000 /dev/urandom > data")),
        server=(("server", "exec /usr/sbin/sshd -De -f $W/sshd_config"),), settle=1,
        client=from_client("sh -c 'export HOME=$W BORG_RSH=\"ssh -F $W/ssh_config\" "
                           "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes; "
                           "borg init -e none ssh://$S/$W/repo; exec borg create --upload-ratelimit 700 "
                           "-C none ssh://$S/$W/repo::a data'"), warm_up=12, look=8,
        why="a backup may upload 700 KiB/s, 6 of 50 Mbit/s",
    )),
    (alone("server", "python", "app-limited", "application-thinks", "slow-reader", "paced",
           "round-trip-bound"), Situation(
        "fifth-last-flight-slow", program="arrow-flight", rate="50mbit", rtt="20ms",
        server=(("server", f"exec {LATEST} flight 5000 8000"),), settle=3,
        client=from_client(f"{LATEST} flies $S 5000 0.1"), warm_up=10, look=8,
        why="a batch of 64 kB is taken each 0.1 s: gRPC's window, or TCP's, waits for the reader",
    )),
    (alone("server", "java", "rcvbuf-locked", ending=("out-of-reach", "no-setting-helps")), Situation(
        "fifth-last-vertx-rcvbuf", program="vertx", rate="40mbit", rtt="40ms",
        prepare=(*VERTX, ("client", "truncate -s 8G up")), server=(
            ("server", "exec java -cp \"$W:$JARS/*\" Vertx 5000 100 0 16384"),), settle=3,
        client=from_client("curl -so /dev/null -H Expect: -T up http://$S:5000/"), warm_up=6,
        why="setReceiveBufferSize(16384) of the listener: some 5 of 40 Mbit/s; only another setting "
            "of Vert.x helps",
    )),
    (alone("client", "unison", "path-full"), Situation(
        "fifth-last-unison-full", program="unison", rate="20mbit", rtt="30ms", prepare=(
            ("client", "mkdir one && head -c 900000000 /dev/urandom > one/big"),
            ("server", "mkdir two")),
        server=(("server", "export HOME=$W/two; exec unison -socket 5000"),), settle=1,
        client=from_client("sh -c 'export HOME=$W/one; exec unison -batch -auto -ignorearchives "
                           "one socket://$S:5000/two/copy'"), warm_up=16, look=8,
        why="one large file is copied as fast as 20 Mbit/s take it",
    )),
    (alone("server", "node", "app-limited", "application-thinks", "idle", "paced", ending=(
        "nothing-to-improve", "no-setting-helps", "no-verdict")), Situation(
        "fifth-last-socketio-small", program="socket.io", rate="80mbit", rtt="100ms",
        server=socket_io(10000, 2000), settle=2, client=HEARS, warm_up=9, look=14,
        why="10 kB each 2 s: the window restarts, and ten segments suffice",
    )),
]
TABLE = [*TABLE, *LAST]
# Written when rules were mended for readers that sleep and for connections for control, and before any of
# these was run.
END = [
    (kept("server", "dask", {"tcp-wmem-max-cap"}, "net.ipv4.tcp_wmem", 1.4, 8), Situation(
        "fifth-end-dask-wmem", program="dask", rate="60mbit", rtt="50ms",
        prepare=(sysctl("server", "net.ipv4.tcp_wmem=4096 16384 98304"),), server=DASK, settle=6,
        client=from_client(f"{LATEST} results tcp://$C:8786 40000000"), warm_up=9, look=8,
        why="results of 40 MB from a worker, beside connections for control; tcp_wmem[2] is 96 KiB, "
            "the BDP 375 kB",
    )),
    (alone("client", "python", "path-full"), Situation(
        "fifth-end-dask-direct", program="dask", rate="12mbit", rtt="60ms", server=DASK, settle=6,
        client=from_client(f"{LATEST} results tcp://$C:8786 30000000"), warm_up=9, look=8,
        why="results of 30 MB fill 12 Mbit/s, seen from who takes them, beside connections for control",
    )),
    (alone("server", "p910nd", "slow-reader"), Situation(
        "fifth-end-p910nd-here", program="p910nd", rate="50mbit", rtt="20ms", prepare=(
            ("server", "mkdir -p /var/lock/p910nd && mkfifo printer"),), server=(
            ("server", "exec pv -qL 400k < printer > /dev/null"),
            ("server", "exec p910nd -d -f $W/printer 1")), settle=1,
        client=from_client("sh -c 'exec nc $S 9101 < /dev/zero'"), warm_up=14,
        why="a printer takes 0.4 MB/s of a job, seen from its daemon",
    )),
    (alone("client", "clickhouse-clie", "slow-reader"), Situation(
        "fifth-end-clickhouse-pipe", program="clickhouse", rate="50mbit", rtt="30ms",
        prepare=(("server", "mkdir ch"),),
        server=(("server", "exec clickhouse-server --config-file=$W/fifth-clickhouse.xml"),), settle=6,
        client=from_client("sh -c 'clickhouse-client --host $S --port 5000 --compression=0 "
                           "--query \"select number from system.numbers\" | pv -qL 500k "
                           "> /dev/null'"), warm_up=14,
        why="what takes the numbers behind the client takes 0.5 MB/s",
    )),
    (alone("client", "python", "slow-reader"), Situation(
        "fifth-end-vnc-sleeps", program="tigervnc", rate="50mbit", rtt="30ms",
        server=(("server", "exec Xtigervnc :77 -rfbport 5000 -SecurityTypes None "
                           "-geometry 1600x1200 -depth 24"),), settle=2,
        client=from_client(f"{LATEST} viewer $S 5000 0.1"), warm_up=10, look=8,
        why="the viewer takes 64 kB of a screen of 7.7 MB, and sleeps 100 ms",
    )),
]
TABLE = [*TABLE, *END]
CONFIGS = {
    "fifth-clickhouse.xml": """
<yandex>
  <logger><level>warning</level><console>1</console></logger>
  <tcp_port>5000</tcp_port><listen_host>0.0.0.0</listen_host>
  <path>@W@/ch/</path><tmp_path>@W@/ch/tmp/</tmp_path><mark_cache_size>100000000</mark_cache_size>
  <users><default><password></password><networks><ip>::/0</ip></networks>
    <profile>default</profile><quota>default</quota></default></users>
  <profiles><default/></profiles><quotas><default/></quotas>
  <users_config>@W@/fifth-clickhouse.xml</users_config>
  <default_profile>default</default_profile><default_database>default</default_database>
</yandex>
""".lstrip(),
    "fifth-exim.conf": """
primary_hostname = x.test
daemon_smtp_ports = 5000
local_interfaces = 0.0.0.0
spool_directory = @W@/spool
exim_user = root
exim_group = root
never_users =
acl_smtp_rcpt = accept
acl_smtp_data = drops
message_size_limit = 100M
smtp_accept_max_per_connection = 0
host_lookup =
rfc1413_query_timeout = 0s
log_file_path = :syslog
begin acl
accept:
  accept
drops:
  discard
""".lstrip(),
    "fifth-ngircd.conf": """
[Global]
Name = irc.x.test
Info = x
Listen = 0.0.0.0
Ports = 5000
ServerUID = nobody
[Limits]
MaxConnectionsIP = 0
MaxPenaltyTime = 0
[Options]
DNS = no
Ident = no
PAM = no
""".lstrip(),
}
FITS = {situation.name: label for label, situation in TABLE}
SITUATIONS = [situation for _, situation in TABLE]
