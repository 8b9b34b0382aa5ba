"""Situations that `tcptailor fit --pid` is judged by, of programs that no table before has: Perl's
HTTP::Daemon, Guile's web server, Undertow, Granian, GStreamer, sslh, Vegeta, diod, dnsperf and NSD,
HTTrack, RPyC, Dante, eventlet, imaplib, gearman, aiosmtpd, nghttpd.

Labels were written down before any of them was run. That HTTP::Daemon writes each line of the head and
the body apart without TCP_NODELAY, and that Guile sets SO_SNDBUF to 12288, was seen with `strace`.
`$JARS` has Undertow's jars, and vegeta is in `$PATH`.
"""

from .commands import FILES, NGINX
from .further import from_client
from .model import *
from .packages import SMALL_SNDBUF
from .seeming import LOSS, PAGES, RESTARTS
from .services import ONE_BY_ONE

MINE = "$H/programs/newcomers"
NEWCOMERS = f"exec $FITPY {MINE}/newcomers.py"
UNDERTOW = (("server", f"javac -d $W -cp \"$JARS/*\" {MINE}/Undertow.java"),)
SINK = (("server", "exec socat -u TCP-LISTEN:5000,fork,reuseaddr OPEN:/dev/null"),)
# No gap between two pages.
ASKS = from_client(f"$FITPY {MINE}/newcomers.py asks $S 5000 0")
VEGETA = "vegeta attack -keepalive=false -rate 0 -max-workers 1 -workers 1 -max-body 0 -output /dev/null"


def vegeta(url):
    return (("client", f"sleep 0.3; echo GET {url} > targets; exec {VEGETA} -targets targets"),)


TABLE = [
    (kept("server", "perl", {"nagle-delack-stall"}, "nodelay", 3, 40), Situation(
        "fourth-perl-daemon", program="http-daemon", rate="100mbit", rtt="4ms",
        server=(("server", f"exec perl {MINE}/daemon.pl 5000 400"),), settle=1, client=ASKS,
        warm_up=4, why="each line of the head is a write of its own, with Nagle on: all that follows "
                       "the first waits for its ACK, which the client delays by 40 ms",
        watch=both(5000, fault("nagle-delack-stall", "application-thinks"), STALLS),
    )),
    (kept("server", "guile", {"sndbuf-locked"}, "buf_lock", 1.3, 14), Situation(
        "fourth-guile-sndbuf", program="guile", rate="60mbit", rtt="60ms",
        server=(("server", f"exec guile --no-auto-compile {MINE}/pages.scm 5000 30000000"),),
        settle=2, client=ASKS, warm_up=8, look=8,
        why="Guile sets SO_SNDBUF to 12 kB, the BDP is 450 kB; pages of 30 MB on one connection",
        watch=both(5000, TAKES, SMALL_SNDBUF),
    )),
    (kept("server", "java", {"slow-start-after-idle"}, "net.ipv4.tcp_slow_start_after_idle", 1.2,
          6), Situation(
        "fourth-undertow-idle", program="undertow", rate="100mbit", rtt="100ms", prepare=UNDERTOW,
        server=(("server", "exec java -cp \"$W:$JARS/*\" Undertow 5000 400000"),), settle=3,
        client=from_client(f"$FITPY {MINE}/newcomers.py asks $S 5000 1.5"), warm_up=9, look=12,
        why="400 kB after each pause of 1.5 s over 100 ms: the window starts anew",
        watch=both(5000, PAGES, RESTARTS),
    )),
    (kept("server", "granian", {"initcwnd-too-small"}, "route.initcwnd", 1.15, 2.5), Situation(
        "fourth-granian-new", program="granian", rate="100mbit", rtt="80ms", server=(
            ("server", "printf 'def app(asked, start):\\n start(\"200 OK\", [(\"Content-Length\", "
                       "\"130000\")])\\n return [b\"x\" * 130000]\\n' > fourth_page.py; exec granian "
                       "--interface wsgi --host 0.0.0.0 --port 5000 fourth_page:app"),), settle=4,
        client=from_client("sh -c 'while :; do curl -so /dev/null http://$S:5000/; done'"),
        warm_up=4, look=8, why="130 kB on new connections take four round trips with 10 segments",
        watch=both(5000, PAGES, fault("initcwnd-too-small")),
    )),
    (kept("client", "gst-launch-1.0", {"bufferbloat"}, "congestion", 3, 60), Situation(
        "fourth-gst-bloat", program="gstreamer", rate="8mbit", rtt="25ms", queue="500p", server=SINK,
        settle=1, client=from_client("gst-launch-1.0 -q filesrc location=/dev/zero ! tcpclientsink "
                                     "host=$S port=5000"), warm_up=12, look=8,
        why="a stream as fast as it goes fills a queue of 0.75 s, under CUBIC",
        watch=both(5000, fault("bufferbloat"), TAKES),
    )),
    (kept("server", "sslh", {"random-loss"}, "congestion", 1.5, 12), Situation(
        "fourth-sslh-loss", program="sslh", rate="40mbit", rtt="40ms", queue="300p",
        path=("--loss", "0.4%"), prepare=FILES, server=(*NGINX, (
            "server", "exec sslh -f -p 0.0.0.0:5000 --http 127.0.0.1:80 --user nobody")), settle=1,
        client=from_client("curl -so /dev/null http://$S:5000/big"), warm_up=8, look=8,
        why="0.4 % random loss leave CUBIC 5 to 10 of 40 Mbit/s", watch=both(5000, TAKES, LOSS),
    )),
    (kept("client", "vegeta", {"tcp-rmem-max-cap"}, "net.ipv4.tcp_rmem", 1.4, 8), Situation(
        "fourth-vegeta-rmem", program="vegeta", rate="80mbit", rtt="60ms", prepare=(
            *FILES, ("server", "truncate -s 6M part"),
            sysctl("client", "net.ipv4.tcp_rmem=4096 65536 131072")), server=NGINX,
        client=vegeta("http://$S/part"), warm_up=6, look=8,
        why="tcp_rmem[2] is 128 KiB, the BDP is 600 kB; a new connection each 6 MB",
        watch=both(80, fault("tcp-rmem-max-cap"), fault("peer-window")),
    )),
    # Nothing on the observed host helps. diod wants a name of each client.
    (alone("server", "diod", "round-trip-bound", "app-limited", "application-thinks", ending=(
        "nothing-to-improve", "no-setting-helps", "no-verdict")), Situation(
        "fourth-diod-one", program="diod", rate="100mbit", rtt="30ms",
        prepare=(("server", "truncate -s 8G big"),),
        server=(("server", "echo $C client > hosts; mount --bind hosts /etc/hosts; "
                           "exec diod -f -n -e $W -l 0.0.0.0:5640"),), settle=1,
        client=from_client("diodcat -s $S:5640 -a $W big > /dev/null"), warm_up=5,
        why="9P: one block of 64 kB is asked for when the one before has come",
        watch=both(5640, ONE_BY_ONE, ONE_BY_ONE),
    )),
    (alone("server", "gst-launch-1.0", "app-limited", "paced"), Situation(
        "fourth-gst-video", program="gstreamer", rate="100mbit", rtt="40ms", server=(
            ("server", "exec gst-launch-1.0 -q videotestsrc is-live=true ! video/x-raw,format=I420,"
                       "width=320,height=240,framerate=25/1 ! tcpserversink host=0.0.0.0 port=5000"),),
        settle=2, client=from_client("nc -d $S 5000 > /dev/null"), warm_up=6,
        why="live video: 25 frames of 115 kB a second, 23 of 100 Mbit/s",
        watch=both(5000, TAKES, PACED),
    )),
    (alone("client", "dnsperf", "round-trip-bound"), Situation(
        "fourth-dnsperf-one", program="nsd", rate="100mbit", rtt="15ms",
        server=(("server", "exec nsd -d -c $W/fourth-nsd.conf"),), settle=2,
        client=from_client("sh -c 'echo a.big.test A > names; "
                           "exec dnsperf -m tcp -s $S -p 5300 -d names -q 1 -c 1 -l 600'"), warm_up=4,
        why="one query over TCP at a time", watch=both(5300, BY_ROUND_TRIPS, SOME_TRAFFIC),
    )),
    (alone("client", "httrack", "slow-reader"), Situation(
        "fourth-httrack-slow", program="httrack", rate="50mbit", rtt="20ms",
        prepare=(("server", "truncate -s 1500M big"), FILES[0]), server=NGINX, settle=1,
        client=from_client("httrack http://$S/big -O $W/mirror --max-rate=600000 "
                           "--disable-security-limits -c1 -s0 -q"), warm_up=12,
        why="HTTrack reads 0.6 MB/s, as max-rate says", watch=both(80, SLOW_READER, SLOW_READER),
    )),
    (alone("client", "python", "application-thinks", ending=(
        "nothing-to-improve", "no-setting-helps", "no-verdict")), Situation(
        "fourth-rpyc-thinks", program="rpyc", rate="100mbit", rtt="4ms",
        server=(("server", f"{NEWCOMERS} thinks 5000 0.06 2000"),), settle=2,
        client=from_client(f"$FITPY {MINE}/newcomers.py calls $S 5000"), warm_up=4,
        why="the server works 60 ms on each call", watch=both(5000, THINKS, THINKS_HERE),
    )),
    (alone("client", "vegeta", "round-trip-bound", "app-limited", "application-thinks", ending=(
        "nothing-to-improve", "no-setting-helps", "no-verdict")), Situation(
        "fourth-vegeta-new", program="vegeta", rate="100mbit", rtt="30ms", prepare=FILES,
        server=NGINX, client=vegeta("http://$S/page10k"), warm_up=4, look=8,
        why="a new connection for each page of 10 kB: two round trips, and no setting saves one",
        watch=both(80, TAKES, TAKES),
    )),
    (alone("server", "danted", "path-full"), Situation(
        "fourth-dante-full", program="dante", rate="25mbit", rtt="30ms", prepare=FILES,
        server=(*NGINX, ("server", "exec danted -f $W/fourth-danted.conf")), settle=2,
        client=from_client("curl -so /dev/null --socks5 $S:1080 http://127.0.0.1/big"), warm_up=7,
        why="one download through a SOCKS proxy fills 25 Mbit/s", watch=both(1080, TAKES, FULL),
    )),
    (alone("server", "python", "peer-window", "rcvbuf-locked"), Situation(
        "fourth-eventlet-peer", program="eventlet", rate="60mbit", rtt="40ms",
        server=(("server", f"{NEWCOMERS} streams 5000 65536"),), settle=2,
        client=from_client("sh -c '(printf \"GET / HTTP/1.0\\r\\n\\r\\n\"; sleep 1000) | "
                           "socat STDIO TCP:$S:5000,rcvbuf=20000 > /dev/null'"), warm_up=6,
        why="the client fixes SO_RCVBUF at 20 kB: some 6 of 60 Mbit/s; only the client can help",
        watch=both(5000, fault("rcvbuf-locked"), FIXED_WINDOW),
    )),
]
# Written when the fifteen above had been run, with rules as they were, and before any of these was run:
# faults beside near misses of the same programs, relays, and calls one by one.
AGAIN = [
    (kept("client", "python", {"nagle-delack-stall"}, "nodelay", 2, 30), Situation(
        "fourth-again-imap-append", program="imaplib", rate="100mbit", rtt="5ms",
        prepare=(("server", "mkdir mail && chown nobody:nogroup mail"),),
        server=(("server", "exec dovecot -F -c $W/dovecot.conf"),), settle=2,
        client=from_client(f"$FITPY {MINE}/newcomers.py appends $S 1143 600"), warm_up=5,
        why="Python's imaplib writes a mail and the line end behind it apart, with Nagle on: the line "
            "end waits for the ACK of the mail, which the server delays by 40 ms",
        watch=both(1143, STALLS, fault("nagle-delack-stall", "application-thinks")),
    )),
    (kept("server", "perl", {"nagle-delack-stall"}, "nodelay", 1.2, 3), Situation(
        "fourth-again-perl-far", program="http-daemon", rate="50mbit", rtt="80ms",
        server=(("server", f"exec perl {MINE}/daemon.pl 5000 900"),), settle=1, client=ASKS,
        warm_up=5, look=8, why="the lines of each head apart, with Nagle on, over 80 ms: a page takes "
                               "two round trips and 40 ms in place of one",
        watch=both(5000, fault("nagle-delack-stall", "application-thinks"), STALLS),
    )),
    (kept("client", "gst-launch-1.0", {"bufferbloat"}, "congestion", 3, 60), Situation(
        "fourth-again-gst-two", program="gstreamer", rate="8mbit", rtt="30ms", queue="500p",
        server=SINK, settle=1, client=from_client(
            "gst-launch-1.0 -q filesrc location=/dev/zero ! tcpclientsink host=$S port=5000 "
            "filesrc location=/dev/zero ! tcpclientsink host=$S port=5000"), warm_up=12, look=8,
        why="two streams of one program fill a queue of 0.75 s, under CUBIC",
        watch=both(5000, fault("bufferbloat"), TAKES),
    )),
    (kept("server", "danted", {"tcp-wmem-max-cap"}, "net.ipv4.tcp_wmem", 1.4, 8), Situation(
        "fourth-again-dante-wmem", program="dante", rate="60mbit", rtt="50ms",
        prepare=(*FILES, sysctl("server", "net.ipv4.tcp_wmem=4096 16384 98304")),
        server=(*NGINX, ("server", "exec danted -f $W/fourth-danted.conf")), settle=2,
        client=from_client("curl -so /dev/null --socks5 $S:1080 http://127.0.0.1/big"), warm_up=7,
        why="a SOCKS proxy reads as fast as it can send, and tcp_wmem[2] is 96 KiB where the BDP is "
            "375 kB", watch=both(1080, TAKES, fault("tcp-wmem-max-cap")),
    )),
    # Nothing on the observed host helps.
    (alone("server", "danted", "slow-reader", "peer-window"), Situation(
        "fourth-again-dante-slow", program="dante", rate="50mbit", rtt="20ms", prepare=FILES,
        server=(*NGINX, ("server", "exec danted -f $W/fourth-danted.conf")), settle=2,
        client=from_client("curl -so /dev/null --limit-rate 500k --socks5 $S:1080 "
                           "http://127.0.0.1/big"), warm_up=14,
        why="the client reads 0.5 MB/s", watch=both(1080, SLOW_READER, SLOW_READER),
    )),
    (alone("server", "python", "path-full"), Situation(
        "fourth-again-eventlet-bbr", program="eventlet", rate="25mbit", rtt="40ms", queue="200p",
        cc="bbr", path=("--loss", "1%"),
        server=(("server", f"{NEWCOMERS} streams 5000 65536"),), settle=2,
        client=from_client("curl -so /dev/null http://$S:5000/"), warm_up=7, look=8,
        why="1 % random loss, under which BBR fills 25 Mbit/s nevertheless",
        watch=both(5000, TAKES, FULL),
    )),
    (alone("server", "java", "app-limited", "application-thinks", "idle", "round-trip-bound", ending=(
        "nothing-to-improve", "no-setting-helps", "no-verdict")), Situation(
        "fourth-again-undertow-small", program="undertow", rate="100mbit", rtt="100ms",
        prepare=UNDERTOW, server=(("server", "exec java -cp \"$W:$JARS/*\" Undertow 5000 12000"),),
        settle=3, client=from_client(f"$FITPY {MINE}/newcomers.py asks $S 5000 1.5"), warm_up=9,
        look=12, why="12 kB after each pause of 1.5 s: the window starts anew, and ten segments "
                     "suffice", watch=both(5000, PAGES, PAGES),
    )),
    (alone("server", "guile", "path-full"), Situation(
        "fourth-again-guile-near", program="guile", rate="20mbit", rtt="1ms", queue="200p",
        server=(("server", f"exec guile --no-auto-compile {MINE}/pages.scm 5000 30000000"),),
        settle=2, client=ASKS, warm_up=6, look=8,
        why="SO_SNDBUF of 12 kB, which is more than the 2.5 kB that this path holds",
        watch=both(5000, TAKES, FULL),
    )),
    (alone("server", "python", "round-trip-bound", "app-limited", "application-thinks"), Situation(
        "fourth-again-rpyc-blocks", program="rpyc", rate="100mbit", rtt="40ms",
        server=(("server", f"{NEWCOMERS} thinks 5000 0 300000"),), settle=2,
        client=from_client(f"$FITPY {MINE}/newcomers.py calls $S 5000"), warm_up=5,
        why="one block of 300 kB is asked for when the one before has come",
        watch=both(5000, ONE_BY_ONE, ONE_BY_ONE),
    )),
    (alone("client", "gearman", "application-thinks", ending=(
        "nothing-to-improve", "no-setting-helps", "no-verdict")), Situation(
        "fourth-again-gearman-waits", program="gearman", rate="100mbit", rtt="6ms", server=(
            ("server", "exec gearmand -L 0.0.0.0 -p 4730 -l stderr"),
            ("server", "sleep 1; printf '#!/bin/sh\\ncat > /dev/null\\nsleep 0.05\\necho done\\n' "
                       "> work; chmod +x work; exec gearman -p 4730 -w -f work ./work")), settle=3,
        client=from_client("sh -c 'yes job | gearman -h $S -p 4730 -n -f work > /dev/null'"),
        warm_up=4, why="each job takes its worker 50 ms, and the next one is asked for then",
        watch=both(4730, THINKS, THINKS_HERE),
    )),
    (alone("client", "python", "round-trip-bound"), Situation(
        "fourth-again-smtp-lines", program="aiosmtpd", rate="100mbit", rtt="20ms",
        server=(("server", "exec $FITPY -m aiosmtpd -n -l 0.0.0.0:8025 -c aiosmtpd.handlers.Sink"),),
        settle=3, client=from_client(f"$FITPY {MINE}/newcomers.py mails $S 8025 2000"), warm_up=4,
        why="one command of SMTP a round trip", watch=both(8025, BY_ROUND_TRIPS, SOME_TRAFFIC),
    )),
]
TABLE = [*TABLE, *AGAIN]
# Written when rules on relays and on pieces that are held for one of several round trips were mended,
# and before any of these was run.
LAST = [
    (kept("client", "python", {"nagle-rtt-serialised"}, "nodelay", 1.15, 1.7), Situation(
        "fourth-last-imap-far", program="imaplib", rate="100mbit", rtt="30ms",
        prepare=(("server", "mkdir mail && chown nobody:nogroup mail"),),
        server=(("server", "exec dovecot -F -c $W/dovecot.conf"),), settle=2,
        client=from_client(f"$FITPY {MINE}/newcomers.py appends $S 1143 900"), warm_up=5,
        why="imaplib writes a mail and the line end behind it apart, with Nagle on; the mail is "
            "acknowledged at once, and an append takes three round trips in place of two",
        watch=both(1143, fault("nagle-rtt-serialised"), TAKES),
    )),
    (kept("server", "java", {"slow-start-after-idle"}, "net.ipv4.tcp_slow_start_after_idle", 1.2, 6),
     Situation(
        "fourth-last-undertow-mixed", program="undertow", rate="100mbit", rtt="90ms",
        prepare=UNDERTOW, server=(("server", "exec java -cp \"$W:$JARS/*\" Undertow 5000 500000"),),
        settle=3, client=(
            *from_client(f"$FITPY {MINE}/newcomers.py asks $S 5000 1.3"),
            *from_client(f"$FITPY {MINE}/newcomers.py asks $S 5000 1.7"),
            *from_client("sh -c 'while :; do curl -so /dev/null --limit-rate 100k http://$S:5000/; "
                         "done'")), warm_up=9, look=12,
        why="two clients ask for 500 kB after pauses, in which the window starts anew; a third one "
            "reads slowly, which no setting helps",
        watch={"server": Watched("sport = :5000", fault("slow-start-after-idle",
                                                         also=("slow-reader",)))},
    )),
    (kept("client", "gst-launch-1.0", {"pmtu-blackhole"}, "net.ipv4.tcp_mtu_probing", 1.5, 1e9),
     Situation(
        "fourth-last-gst-mtu", program="gstreamer", rate="50mbit", rtt="40ms",
        path=("--set", "path.forward.link_mtu=1400", "--set", "path.forward.too_big=vanish"),
        server=SINK, settle=1, client=from_client(
            "gst-launch-1.0 -q filesrc location=/dev/zero ! tcpclientsink host=$S port=5000"),
        warm_up=5, why="packets above 1400 bytes vanish without a word",
        watch=both(5000, fault("pmtu-blackhole"), TAKES),
    )),
    (kept("client", "vegeta", {"rmem-autotuning-off"}, "net.ipv4.tcp_moderate_rcvbuf", 1.5, 9),
     Situation(
        "fourth-last-vegeta-static", program="vegeta", rate="60mbit", rtt="60ms", prepare=(
            *FILES, ("server", "truncate -s 6M part"),
            sysctl("client", "net.ipv4.tcp_moderate_rcvbuf=0")), server=NGINX,
        client=vegeta("http://$S/part"), warm_up=6, look=8,
        why="automatic buffers are off: 64 kB of window, the BDP is 450 kB; 6 MB on each connection",
        watch=both(80, fault("rmem-autotuning-off"), fault("peer-window", "rcvbuf-locked")),
    )),
    # Nothing on the observed host helps.
    (alone("server", "sslh", "path-full"), Situation(
        "fourth-last-sslh-full", program="sslh", rate="20mbit", rtt="50ms", prepare=FILES, server=(
            *NGINX, ("server", "exec sslh -f -p 0.0.0.0:5000 --http 127.0.0.1:80 --user nobody")),
        settle=1, client=from_client("curl -so /dev/null http://$S:5000/big"), warm_up=8,
        why="one download through a relay fills 20 Mbit/s", watch=both(5000, TAKES, FULL),
    )),
    (alone("server", "nghttpd", "app-limited", "round-trip-bound", "application-thinks"), Situation(
        "fourth-last-nghttpd-window", program="nghttpd", rate="100mbit", rtt="60ms", prepare=FILES,
        server=(("server", "exec nghttpd --no-tls -a 0.0.0.0 -d $W 5000"),), settle=1,
        client=from_client("nghttp -n -w 16 -W 16 http://$S:5000/big"), warm_up=5,
        why="the client's HTTP/2 window is 64 kB: some 9 of 100 Mbit/s, and TCP waits for the program",
        watch=both(5000, TAKES, healthy("app-limited", "round-trip-bound", "application-thinks")),
    )),
    (alone("client", "gst-launch-1.0", "path-full"), Situation(
        "fourth-last-gst-overtaken", program="gstreamer", rate="40mbit", rtt="30ms", queue="2bdp",
        path=("--set", "path.reorder.share=1%", "--set", "path.reorder.hold=2ms"), server=SINK,
        settle=1, client=from_client("gst-launch-1.0 -q filesrc location=/dev/zero ! tcpclientsink "
                                     "host=$S port=5000"), warm_up=7, look=8,
        why="one packet of a hundred is overtaken, which TCP repairs: the path is full",
        watch=both(5000, FULL, TAKES),
    )),
    (alone("client", "vegeta", "path-full"), Situation(
        "fourth-last-vegeta-full", program="vegeta", rate="20mbit", rtt="40ms", prepare=(
            *FILES, ("server", "truncate -s 400M part")), server=NGINX,
        client=vegeta("http://$S/part"), warm_up=7, look=8,
        why="one download fills 20 Mbit/s, seen from the client", watch=both(80, FULL, FULL),
    )),
]
TABLE = [*TABLE, *LAST]
# Written when a receiver began to tell of a full path, and before any of these was run.
END = [
    (kept("client", "python", {"nagle-delack-stall"}, "nodelay", 2, 8), Situation(
        "fourth-end-imap-short", program="imaplib", rate="100mbit", rtt="8ms",
        prepare=(("server", "mkdir mail && chown nobody:nogroup mail"),),
        server=(("server", "exec dovecot -F -c $W/dovecot.conf"),), settle=2,
        client=from_client(f"$FITPY {MINE}/newcomers.py appends $S 1143 300"), warm_up=5,
        why="mails of 300 bytes, below the 536 that the server's kernel acknowledges at once: the "
            "line end behind each waits for an ACK that is delayed by 40 ms",
        watch=both(1143, STALLS, fault("nagle-delack-stall", "application-thinks")),
    )),
    (kept("server", "danted", {"bufferbloat"}, "congestion", 3, 60), Situation(
        "fourth-end-dante-bloat", program="dante", rate="8mbit", rtt="30ms", queue="500p",
        prepare=FILES, server=(*NGINX, ("server", "exec danted -f $W/fourth-danted.conf")), settle=2,
        client=from_client("curl -so /dev/null --socks5 $S:1080 http://127.0.0.1/big"), warm_up=12,
        look=8, why="a download through a SOCKS proxy fills a queue of 0.75 s, under CUBIC",
        watch=both(1080, BLOATED, fault("bufferbloat")),
    )),
    (kept("server", "java", {"initcwnd-too-small"}, "route.initcwnd", 1.15, 2.5), Situation(
        "fourth-end-undertow-new", program="undertow", rate="200mbit", rtt="110ms",
        prepare=UNDERTOW, server=(("server", "exec java -cp \"$W:$JARS/*\" Undertow 5000 150000"),),
        settle=3, client=4 * from_client(
            "sh -c 'while :; do curl -so /dev/null http://$S:5000/; done'"), warm_up=5, look=8,
        why="four clients, of which each opens a connection for each page of 150 kB",
        watch=both(5000, PAGES, fault("initcwnd-too-small")),
    )),
    # Nothing on the observed host helps.
    (alone("client", "httrack", "path-full"), Situation(
        "fourth-end-httrack-full", program="httrack", rate="12mbit", rtt="50ms",
        prepare=(("server", "truncate -s 1500M big"), FILES[0]), server=NGINX, settle=1,
        client=from_client("httrack http://$S/big -O $W/mirror --max-rate=100000000 "
                           "--disable-security-limits -c1 -s0 -q"), warm_up=10,
        why="one download fills 12 Mbit/s, seen from the client", watch=both(80, FULL, FULL),
    )),
    (alone("server", "danted", "slow-reader"), Situation(
        "fourth-end-dante-sink", program="dante", rate="50mbit", rtt="20ms", server=(
            ("server", "exec socat -u TCP-LISTEN:5000,fork,reuseaddr "
                       "'SYSTEM:pv -qL 400k > /dev/null'"),
            ("server", "exec danted -f $W/fourth-danted.conf")), settle=2,
        client=from_client("sh -c 'curl -s --socks5 $S:1080 telnet://127.0.0.1:5000 < /dev/zero'"),
        warm_up=14, why="a program behind the proxy reads 0.4 MB/s of an upload",
        watch=both(1080, SLOW_READER, SLOW_READER),
    )),
    (alone("server", "granian", "round-trip-bound", "app-limited", "application-thinks"), Situation(
        "fourth-end-granian-far", program="granian", rate="100mbit", rtt="70ms", server=(
            ("server", "printf 'def app(asked, start):\\n start(\"200 OK\", [(\"Content-Length\", "
                       "\"5000\")])\\n return [b\"x\" * 5000]\\n' > fourth_page.py; exec granian "
                       "--interface wsgi --host 0.0.0.0 --port 5000 fourth_page:app"),), settle=4,
        client=ASKS, warm_up=5, look=8, why="a page of 5 kB a round trip, on a kept connection",
        watch=both(5000, BY_ROUND_TRIPS, BY_ROUND_TRIPS),
    )),
]
TABLE = [*TABLE, *END]
CONFIGS = {
    "fourth-nsd.conf": """
server:
    ip-address: 0.0.0.0@5300
    server-count: 1
    username: ""
    chroot: ""
    zonesdir: "@W@"
    database: ""
    pidfile: "@W@/nsd.pid"
    xfrdfile: "@W@/xfrd"
    zonelistfile: "@W@/zones"
    xfrdir: "@W@"
remote-control:
    control-enable: no
zone:
    name: big.test
    zonefile: fourth-zone
""".lstrip(),
    "fourth-zone": """
$ORIGIN big.test.
$TTL 300
@ SOA ns.big.test. a.big.test. 1 3600 600 86400 300
@ NS ns.big.test.
ns A 192.0.2.1
a A 192.0.2.2
""".lstrip(),
    "fourth-danted.conf": """
logoutput: stderr
internal: 0.0.0.0 port = 1080
external: lo
socksmethod: none
clientmethod: none
user.privileged: root
user.unprivileged: nobody
client pass { from: 0.0.0.0/0 to: 0.0.0.0/0 }
socks pass { from: 0.0.0.0/0 to: 0.0.0.0/0 }
""".lstrip(),
}
FITS = {situation.name: label for label, situation in TABLE}
SITUATIONS = [situation for _, situation in TABLE]
