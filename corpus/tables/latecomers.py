"""Situations that `tcptailor fit --pid` is judged by, of programs that no table before has: nanocat,
DCMTK, Yaws, tiny_http, x11perf, TigerVNC, Borg, aedes, Traffic Server, Mono, Shadowsocks, Firebird,
Tarantool, SWI-Prolog.

Labels were written down before any of them was run. What sets a buffer, and what is written at once, is
what their documentation and `strace` say: nanomsg sets SO_SNDBUF and SO_RCVBUF to 128 KiB
(NN_SNDBUF, NN_RCVBUF); DCMTK writes the head of each PDU apart and leaves Nagle's algorithm on; tiny_http
sends what is longer than 32 KiB in chunks, the last one (5 bytes) apart.
"""

from .commands import FILES, NGINX, SSHD
from .further import from_client
from .model import *
from .packages import SMALL_SNDBUF
from .seeming import LOSS, PAGES, RESTARTS
from .services import ONE_BY_ONE

MINE = "$H/programs/latecomers"
LATECOMERS = f"$FITPY {MINE}/latecomers.py"
KEPT_ASKS = from_client("$FITPY $H/programs/newcomers/newcomers.py asks $S 5000 1.5")
TINY = (("server", f"CARGO_TARGET_DIR=$W/built cargo build -q --offline --release --manifest-path "
                   f"{MINE}/tiny/Cargo.toml"),)


def image(bytes):
    """A DICOM file with so many bytes of pixels."""
    return (("client", "printf '(0008,0016) UI =SecondaryCaptureImageStorage\\n"
                       "(0008,0018) UI [1.2.3.4]\\n(0010,0010) PN [A^B]\\n(7fe0,0010) OB =pixels\\n' "
                       f"> fifth.dump; head -c {bytes} /dev/zero > pixels; "
                       "dump2dcm -q fifth.dump fifth.dcm"),)


STORES = (("server", "exec storescp --ignore 5000"),)
STORE = from_client("storescu --repeat 1000000 $S 5000 fifth.dcm")


def display(end, number, options=""):
    """An X server without a screen, which serves VNC at 5900 + `number`."""
    return (end, f"exec Xtigervnc :{number} -rfbport {5900 + number} -SecurityTypes None -ac {options}")


TABLE = [
    (kept("client", "nanocat", {"sndbuf-locked"}, "buf_lock", 1.5, 5), Situation(
        "sixth-nanocat-sndbuf", program="nanomsg", rate="60mbit", rtt="80ms",
        prepare=(("client", "head -c 100000 /dev/urandom > message"),),
        server=(("server", f"exec {LATECOMERS} pulls 5000"),), settle=1, client=from_client(
            "nanocat --push --connect tcp://$S:5000 --file message --interval 0"),
        warm_up=6, look=8, why="nanomsg sets SO_SNDBUF to 128 KiB, the BDP is 600 kB; messages of "
                               "100 kB as fast as they are taken",
        watch=both(5000, SMALL_SNDBUF, TAKES),
    )),
    (kept("client", "storescu", {"nagle-delack-stall"}, "nodelay", 1.3, 3), Situation(
        "sixth-storescu-small", program="dcmtk", rate="100mbit", rtt="4ms", prepare=image(2000),
        server=STORES, settle=1, client=STORE, warm_up=4,
        why="images of 2 kB, one by one: the head of a PDU (12 bytes) is a write of its own, with Nagle "
            "on, and what follows it waits for its ACK, which the server delays by 40 ms; answers of "
            "the server wait for the client in the same way",
        watch=both(5000, STALLS, STALLS),
    )),
    (kept("server", "beam.smp", {"tcp-wmem-max-cap"}, "net.ipv4.tcp_wmem", 1.4, 8), Situation(
        "sixth-yaws-wmem", program="yaws", rate="60mbit", rtt="50ms", prepare=(
            ("server", "mkdir pages; truncate -s 8G pages/big"),
            sysctl("server", "net.ipv4.tcp_wmem=4096 16384 98304")),
        server=(("server", "exec yaws -i --daemon --conf $W/sixth-yaws.conf"),), settle=4,
        client=from_client("curl -so /dev/null http://$S:5000/big"), warm_up=7, look=8,
        why="tcp_wmem[2] is 96 KiB, the BDP is 375 kB; one download",
        watch=both(5000, TAKES, fault("tcp-wmem-max-cap")),
    )),
    (kept("server", "tiny-pages", {"slow-start-after-idle"},
          "net.ipv4.tcp_slow_start_after_idle", 1.2, 6), Situation(
        "sixth-tiny-idle", program="tiny-http", rate="100mbit", rtt="100ms", prepare=TINY,
        server=(("server", "exec built/release/tiny-pages 5000 400000"),), settle=1,
        client=KEPT_ASKS, warm_up=9, look=12,
        why="400 kB after each pause of 1.5 s over 100 ms: the window starts anew",
        watch=both(5000, PAGES, RESTARTS),
    )),
    # Nothing on the observed host helps.
    (alone("client", "storescu", "path-full"), Situation(
        "sixth-storescu-full", program="dcmtk", rate="12mbit", rtt="30ms", prepare=image(300_000_000),
        server=STORES, settle=1, client=STORE, warm_up=7,
        why="one image of 300 MB fills 12 Mbit/s, in PDUs of 16 kB",
        watch=both(5000, FULL, TAKES),
    )),
    (alone("client", "x11perf", "round-trip-bound"), Situation(
        "sixth-x11perf-reads", program="x11perf", rate="100mbit", rtt="30ms",
        server=(display("server", 61, "-listen tcp -geometry 1024x768"),), settle=3,
        client=from_client("x11perf -display $S:61 -getimage100 -reps 100000"), warm_up=4, look=8,
        why="XGetImage of 100 by 100 pixels, 40 kB, one a round trip",
        watch=both(6061, BY_ROUND_TRIPS, ONE_BY_ONE),
    )),
    (alone("server", "Xtigervnc", "app-limited", "paced"), Situation(
        "sixth-vnc-frames", program="tigervnc", rate="100mbit", rtt="20ms", server=(
            display("server", 62, "-geometry 400x300 -FrameRate 10"), (
                "server", "sleep 2; DISPLAY=:62 exec xterm -e sh -c 'while :; do head -c 3000 "
                          "/dev/urandom | base64; done'")),
        settle=3, client=(display("client", 63, "-geometry 1024x768"), *from_client(
            "sh -c 'sleep 2; DISPLAY=:63 exec xtigervncviewer -AutoSelect=0 -PreferredEncoding=Raw "
            "$S::5962'")), warm_up=8, look=8,
        why="ten frames a second of at most 480 kB, 38 of 100 Mbit/s",
        watch=both(5962, TAKES, PACED),
    )),
    (alone("client", "ssh", "app-limited", "paced"), Situation(
        "sixth-borg-limit", program="borg", rate="50mbit", rtt="30ms", prepare=(
            *SSHD, ("client", "head -c 500M /dev/urandom > sixth-data; printf 'exec ssh -p 2222 -i key "
                              "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \"$@\"\\n' "
                              "> sixth-ssh")),
        server=(("server", "exec /usr/sbin/sshd -D -f $W/sshd_config"),), settle=1, client=from_client(
            "sh -c 'export BORG_BASE_DIR=$W/borg BORG_RSH=\"sh $W/sixth-ssh\" "
            "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes; "
            "borg init -e none ssh://root@$S/$W/repo; exec borg create -C none --upload-ratelimit 800 "
            "ssh://root@$S/$W/repo::one sixth-data'"), warm_up=10, look=8,
        why="a backup over ssh, of which Borg sends 800 KiB/s, as --upload-ratelimit says",
        watch=both(2222, PACED, TAKES),
    )),
]
# Written when the eight above had been run, and before any of these was.
AGAIN = [
    (kept("server", "node", {"random-loss"}, "congestion", 1.5, 15), Situation(
        "sixth-again-aedes-loss", program="aedes", rate="30mbit", rtt="40ms", queue="300p",
        path=("--loss", "0.5%"),
        server=(("server", f"exec node {MINE}/latecomers.js publishes 5000 50000"),), settle=2,
        client=from_client(f"node {MINE}/latecomers.js subscribes $S 5000"), warm_up=8, look=8,
        why="an MQTT broker with one subscriber, which takes all; 0.5 % random loss leave CUBIC some "
            "6 of 30 Mbit/s", watch=both(5000, TAKES, LOSS),
    )),
    (kept("server", "[TS_MAIN]", {"sndbuf-locked"}, "buf_lock", 1.5, 14), Situation(
        "sixth-again-ats-sndbuf", program="trafficserver", rate="60mbit", rtt="40ms", prepare=FILES,
        server=(*NGINX, ("server", "exec sh sixth-ats")), settle=5,
        client=from_client("curl -so /dev/null http://$S:5000/big"), warm_up=7, look=8,
        why="proxy.config.net.sock_send_buffer_size_in is 16 kB, the BDP is 300 kB",
        watch=both(5000, TAKES, SMALL_SNDBUF),
    )),
    (kept("server", "mono", {"initcwnd-too-small"}, "route.initcwnd", 1.15, 2.5), Situation(
        "sixth-again-mono-new", program="mono", rate="100mbit", rtt="80ms",
        prepare=(("server", f"mcs {MINE}/Pages.cs -out:Pages.exe"),),
        server=(("server", "exec mono Pages.exe 5000 130000"),), settle=3,
        client=from_client("sh -c 'while :; do curl -so /dev/null http://$S:5000/; done'"),
        warm_up=4, look=8, why="130 kB on new connections take four round trips with 10 segments",
        watch=both(5000, PAGES, fault("initcwnd-too-small")),
    )),
    (kept("server", "ss-server", {"bufferbloat"}, "congestion", 3, 60), Situation(
        "sixth-again-shadowsocks-bloat", program="shadowsocks", rate="8mbit", rtt="30ms",
        queue="500p", prepare=FILES, server=(*NGINX, (
            "server", "exec ss-server -s 0.0.0.0 -p 5000 -k x -m aes-256-gcm")), settle=1,
        client=(("client", "exec ss-local -s $S -p 5000 -l 1080 -k x -m aes-256-gcm"), *from_client(
            "sh -c 'sleep 1; exec curl -so /dev/null --socks5 127.0.0.1:1080 http://127.0.0.1/big'")),
        warm_up=13, look=8, why="a download through an encrypted proxy fills a queue of 0.75 s, under "
                                "CUBIC", watch=both(5000, BLOATED, fault("bufferbloat")),
    )),
    # Nothing on the observed host helps.
    (alone("client", "isql-fb", "round-trip-bound"), Situation(
        "sixth-again-firebird-queries", program="firebird", rate="100mbit", rtt="20ms",
        server=(("server", "exec sh sixth-firebird"),), settle=6, client=from_client(
            "sh -c 'yes \"select 1 from rdb\\$database;\" | "
            "isql-fb -q -u SYSDBA -p x $S/5000:$W/fifth.fdb > /dev/null'"), warm_up=4,
        why="one short query after the other, each in several round trips",
        watch=both(5000, BY_ROUND_TRIPS, SOME_TRAFFIC),
    )),
    (alone("client", "tarantool", "application-thinks", ending=(
        "nothing-to-improve", "no-setting-helps", "no-verdict")), Situation(
        "sixth-again-tarantool-works", program="tarantool", rate="100mbit", rtt="4ms",
        server=(("server", f"exec tarantool {MINE}/works.lua"),), settle=3,
        client=from_client(f"sh -c 'mkdir calls; cd calls; exec tarantool {MINE}/calls.lua $S:5000'"),
        warm_up=4, why="the server works 50 ms on each call",
        watch=both(5000, THINKS, THINKS_HERE),
    )),
    (alone("server", "swipl", "slow-reader"), Situation(
        "sixth-again-prolog-slow", program="swi-prolog", rate="50mbit", rtt="20ms", prepare=FILES,
        server=(("server", f"exec swipl {MINE}/files.pl"),), settle=3,
        client=from_client("curl -so /dev/null --limit-rate 400k http://$S:5000/big"), warm_up=14,
        why="the client reads 0.4 MB/s", watch=both(5000, SLOW_READER, SLOW_READER),
    )),
]
TABLE = [*TABLE, *AGAIN]
CONFIGS = {
    "sixth-ats": """
cp -r /etc/trafficserver ats
echo 'map / http://127.0.0.1:80/' > ats/remap.config
mount --bind ats /etc/trafficserver
mkdir -p /run/trafficserver
export PROXY_CONFIG_HTTP_SERVER_PORTS=5000 PROXY_CONFIG_HTTP_CACHE_HTTP=0
export PROXY_CONFIG_NET_SOCK_SEND_BUFFER_SIZE_IN=16384 PROXY_CONFIG_ADMIN_USER_ID='#-1'
exec traffic_server
""".lstrip(),
    "sixth-firebird": """
cp /var/lib/firebird/3.0/system/security3.fdb sec.fdb
grep -v ^RemoteBindAddress /etc/firebird/3.0/firebird.conf > fb.conf
printf 'RemoteServicePort = 5000\nSecurityDatabase = @W@/sec.fdb\nWireCrypt = Disabled\n' >> fb.conf
mount --bind fb.conf /etc/firebird/3.0/firebird.conf
printf "create database '@W@/fifth.fdb' user SYSDBA;
create or alter user SYSDBA password 'x';\n" | isql-fb -q
exec firebird
""".lstrip(),
    "sixth-yaws.conf": """
logdir = @W@
ebin_dir = @W@
<server lab>
        port = 5000
        listen = 0.0.0.0
        docroot = @W@/pages
</server>
""".lstrip(),
}
FITS = {situation.name: label for label, situation in TABLE}
SITUATIONS = [situation for _, situation in TABLE]
