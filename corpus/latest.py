"""Situations that `tcptailor fit --pid` is judged by, of programs that no table before has: beanstalkd,
Tarantool, apt-cacher-ng, Vert.x, socket.io, TigerVNC, x11perf, p910nd, Arrow Flight, pymodbus.

Labels were written down before any of them was run. `$JARS` has Vert.x's jars, `$NODE_PATH` socket.io,
and `$FITPY` is a Python with pyarrow and pymodbus.
"""

from commands import FILES
from fitting import alone, kept
from further import from_client
from model import *

MINE = "$H/programs_latest"
LATEST = f"$FITPY {MINE}/latest.py"
BY_TURNS = ("round-trip-bound", "app-limited", "application-thinks")
VERTX = (("server", f"javac -d $W -cp \"$JARS/*\" {MINE}/Vertx.java"),)
ACNG = (("server", "mkdir acng && chmod 777 acng"),)
APT_CACHER = (("server", "exec apt-cacher-ng -c /etc/apt-cacher-ng ForeGround=1 Port=5000 "
                         "CacheDir=$W/acng LogDir=$W/acng PidFile=$W/acng/pid SocketPath=$W/acng/s "
                         "\"LocalDirs=files $W\""),)


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
CONFIGS = {}
FITS = {situation.name: label for label, situation in TABLE}
SITUATIONS = [situation for _, situation in TABLE]
