"""Situations with programs that no other table has: iperf 2, Dovecot, Subversion, Mercurial,
OpenLDAP, Hitch, H2O, nghttpx, Pen, ProFTPD, axel, distcc, Uvicorn, Hypercorn, Tornado, Waitress,
httpx, Lua, Tcl.

Labels were written down before any of them was run.
"""

from .commands import FILES, REDIS, SSHD, client
from .fresh import OWN_WINDOW, SMALL_FILES, WAITS_FOR_PROGRAM
from .further import from_client
from .model import *
from .packages import PROCESSORS, SMALL_SNDBUF, WAITS_FOR_LOST
from .seeming import LOSS, PAGES, RESTARTS
from .services import CERTIFICATE, POLICE, POLICED, POSTGRES, POSTGRES_SERVER

PY = "$PY $H/programs/unfamiliar/unfamiliar.py"
PROFTPD = """
ServerType standalone
Port 2121
PassivePorts 2119 2120
UseIPv6 off
UseReverseDNS off
User nobody
Group nogroup
ScoreboardFile @W@/score
PidFile @W@/proftpd.pid
<Anonymous @W@>
  User nobody
  Group nogroup
  UserAlias anonymous nobody
  RequireValidShell off
  UseFtpUsers off
  OPTION
</Anonymous>
"""
# Three lines for 100 bytes.
ANSWERS = """
proc take {s} {
  fconfigure $s -translation binary -buffering BUFFERING -blocking 1
  while {[string length [read $s 100]] == 100} {
    foreach line {a b c} { puts $s [string repeat $line 19] }
    flush $s
  }
}
socket -server {apply {{s host port} {take $s}}} 5000
vwait forever
"""
CONFIGS = {
    "dovecot.conf": """
protocols = imap
listen = *
ssl = no
disable_plaintext_auth = no
base_dir = @W@/dovecot
state_dir = @W@/dovecot
log_path = /dev/stderr
mail_location = maildir:@W@/mail
passdb {
  driver = static
  args = nopassword=y
}
userdb {
  driver = static
  args = uid=nobody gid=nogroup home=@W@/mail
}
service imap-login {
  inet_listener imap {
    port = 1143
  }
}
""",
    "slapd.conf": """
include /etc/ldap/schema/core.schema
pidfile @W@/slapd.pid
modulepath /usr/lib/ldap
moduleload back_mdb
database mdb
suffix dc=x
directory @W@/ldap
""",
    "hitch.conf": """
frontend = "[*]:4443"
backend = "[127.0.0.1]:8080"
pem-file = "@W@/tls.pem"
user = "nobody"
workers = 1
daemon = off
""",
    "h2o.conf": """
user: root
num-threads: 1
listen: 8082
hosts:
  default:
    paths:
      /:
        file.dir: @W@
""",
    "proftpd.conf": PROFTPD.replace("OPTION", ""),
    "proftpd-rate.conf": PROFTPD.replace("OPTION", "TransferRate RETR 500"),
    "pieces.lua": """
local socket = require("socket")
local redis = assert(socket.connect("@S@", 6379))
while true do
  redis:send("SET key ")
  redis:send("value\\r\\n")
  redis:receive("*l")
end
""",
    "pauses.lua": """
local socket = require("socket")
local redis = assert(socket.connect("@S@", 6379))
while true do
  redis:send("GET key\\r\\n")
  redis:receive("*l")
  socket.sleep(0.3)
end
""",
    "lines.tcl": ANSWERS.replace("BUFFERING", "none"),
    "flushed.tcl": ANSWERS.replace("BUFFERING", "full"),
    "answers.tcl": """
proc take {s} {
  fconfigure $s -translation binary -buffering none -blocking 1
  while {[string length [read $s 60]] == 60} { puts -nonewline $s "ok" }
}
socket -server {apply {{s host port} {take $s}}} 5000
vwait forever
""",
    "asks.tcl": """
set s [socket @S@ 5000]
fconfigure $s -translation binary -buffering none
while {1} {
  puts -nonewline $s [string repeat a 20]
  puts -nonewline $s [string repeat b 40]
  read $s 2
}
""",
}
IPERF2 = (("server", "exec iperf -s"),)
DOVECOT = (("server", "exec dovecot -F -c $W/dovecot.conf"),)
LIGHTTPD = ("server", "exec lighttpd -D -f $W/lighttpd.conf")
H2O = (("server", "exec h2o -c $W/h2o.conf"),)
SLAPD = (("server", "mkdir ldap; exec slapd -d 0 -f $W/slapd.conf -h ldap://0.0.0.0:3890/"),)
UVICORN = (("server", f"exec {PY} uvicorn 5000"),)
HG = (("server", "hg init r && head -c 200000000 /dev/urandom > r/blob && hg -R r add -q r/blob && "
                 "hg -R r commit -q -u x -m x"),)
HG_SERVE = (("server", "exec hg serve -R r -p 8000"),)
HG_CLONE = from_client("hg clone -q -U --stream http://$S:8000/ clone")
SEARCHES = from_client("sh -c \"yes x | ldapsearch -x -H ldap://$S:3890 -b '' -s base -f - "
                       "'(|(cn=%s)(objectClass=*))' > /dev/null\"")
# Connections one after the other, of which each does some of everything; nothing is wrong.
SOME_OF_ALL = healthy("path-full", "round-trip-bound", "app-limited", "application-thinks", "paced",
                      "unknown", "idle")
# A client that writes many files reads slowly at times.
WRITES_FILES = healthy(*SOME_OF_ALL.accept, "slow-reader", also=("slow-reader",))
# An answer of two segments, of which the one tells of the loss of the other within a round trip.
ANSWERS_WITH_LOSS = healthy(*SOME_TRAFFIC.accept, also=("retransmission-timeouts", "random-loss"))
ONE_SEGMENT = ("server", "ip link set lab0 gso_max_segs 1")


def iperf2(options="", server=""):
    return {"program": "iperf", "server": (("server", f"exec iperf -s {server}"),),
            "client": from_client(f"iperf -c $S -t 100 {options}")}


def mails(count, size):
    return (("server", f"{PY} mails mail {count} {size} && chown -R nobody:nogroup mail"),)


def proftpd(config):
    return (("server", f"exec proftpd -n -c $W/{config}"),)


def ftp_data(client, server):
    # One of the two passive ports.
    return {"client": Watched("dport >= :2119 and dport <= :2120", client),
            "server": Watched("sport >= :2119 and sport <= :2120", server)}


FTP_GET = from_client("curl -so /dev/null ftp://$S:2121/big")

SITUATIONS = [
    Situation(
        "iperf2-bulk", **iperf2(), rate="40mbit", rtt="90ms", warm_up=7, look=6,
        why="one bulk flow, buffers suffice", watch=both(5001, FULL, TAKES),
    ),
    Situation(
        "iperf2-fq-rate", **iperf2("--fq-rate 12m"), rtt="25ms", warm_up=4,
        why="--fq-rate is SO_MAX_PACING_RATE: 12 of 50 Mbit/s",
        watch=both(5001, fault("paced"), TAKES),
    ),
    Situation(
        "iperf2-prefetch", **iperf2("--tcp-write-prefetch 64K"), rtt="30ms", warm_up=5,
        why="TCP_NOTSENT_LOWAT bounds what is unsent, and the path is full",
        watch=both(5001, FULL, TAKES),
    ),
    Situation(
        "iperf2-isochronous", **iperf2("--isochronous=25:10m,0"), rtt="30ms", warm_up=4,
        why="25 frames a second, 10 of 50 Mbit/s", watch=both(5001, PACED, TAKES),
    ),
    Situation(
        "iperf2-client-window", **iperf2("-w 24K"), rtt="35ms", warm_up=4,
        why="the client's -w sets SO_SNDBUF to 24 kB, the BDP is 220 kB",
        watch=both(5001, SMALL_SNDBUF, TAKES),
    ),
    Situation(
        "iperf2-window-clamp", **iperf2(server="--tcp-rx-window-clamp 40K"), rtt="35ms", warm_up=4,
        why="TCP_WINDOW_CLAMP of 40 kB at the receiver, the BDP is 220 kB: no buffer is locked",
        watch=both(5001, fault("peer-window", "window-scaling-off"),
                   fault("peer-window", "window-scaling-off")),
    ),
    Situation(
        "acks-vanish", **iperf2(), rate="20mbit", rtt="30ms", warm_up=4,
        during=(("client", "nft 'add table ip cut; add chain ip cut in { type filter hook input "
                           "priority 0; }; add rule ip cut in tcp sport 5001 drop'"),),
        after=2, look=7, why="a firewall at the client drops what comes back: no ACK arrives",
        watch=at_sender(5001, fault("path-dead")),
    ),
    Situation(
        "dovecot-idle", program="dovecot", rtt="30ms", prepare=mails(20, 2000), server=DOVECOT,
        settle=2, client=(("client", "(printf 'a login u p\\r\\nb select inbox\\r\\nc idle\\r\\n'; "
                                     "sleep 100) | nc $S 1143"),), warm_up=3,
        why="IMAP IDLE: nothing is sent", watch=both(1143, IDLE, IDLE),
    ),
    Situation(
        "dovecot-fetches", program="dovecot", rtt="25ms", prepare=mails(20, 3000), server=DOVECOT,
        settle=2, client=from_client(f"{PY} imap $S 1143"), warm_up=3,
        why="a client fetches one message a round trip; Dovecot corks and uncorks each answer",
        watch=both(1143, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "dovecot-bloat", program="dovecot", rate="6mbit", rtt="20ms", queue="600p",
        prepare=mails(1, 80_000_000), server=DOVECOT, settle=2, warm_up=14,
        client=from_client("curl -so /dev/null -u u:p 'imap://'$S':1143/INBOX;MAILINDEX=1'"),
        why="a large message fills a queue of 1.2 s",
        watch=both(1143, BLOATED, fault("bufferbloat")),
    ),
    Situation(
        "svn-checkouts", program="subversion", rtt="20ms",
        prepare=(*SMALL_FILES, ("server", "svnadmin create repo && svn import -q m "
                                          "file://$W/repo -m x")),
        server=(("server", "exec svnserve -d --foreground -r $W"),), settle=1,
        client=(("client", "while :; do rm -rf co; svn co -q svn://$S/repo co; done"),), warm_up=4,
        look=8, why="checkouts of 2000 small files: the client writes them to its disk",
        watch=both(3690, WRITES_FILES, WRITES_FILES),
    ),
    Situation(
        "hg-clone", program="mercurial", rate="20mbit", rtt="30ms", prepare=HG, server=HG_SERVE,
        settle=2, client=HG_CLONE, warm_up=6, why="a clone fills 20 Mbit/s",
        watch=both(8000, TAKES, FULL),
    ),
    Situation(
        "hg-wmem-cap", program="mercurial", rtt="60ms",
        prepare=(*HG, sysctl("server", "net.ipv4.tcp_wmem=4096 16384 65536")), server=HG_SERVE,
        settle=2, client=HG_CLONE, warm_up=5, why="tcp_wmem[2] is 64 KiB, the BDP is 375 kB",
        watch=both(8000, TAKES, fault("tcp-wmem-max-cap")),
    ),
    Situation(
        "hg-nft-loss", program="mercurial", rate="100mbit", rtt="30ms", queue="1000p", router=True,
        prepare=(*HG, ONE_SEGMENT,
                 ("router", "nft 'add table ip lossy; add chain ip lossy fw { type filter hook "
                            "forward priority 0; }; add rule ip lossy fw iif far0 numgen random "
                            "mod 1000 < 15 drop'")),
        server=HG_SERVE, settle=2, client=HG_CLONE, warm_up=5, look=8,
        why="a router drops 1.5 % of the packets, at random", watch=both(8000, TAKES, LOSS),
    ),
    Situation(
        "slapd-searches", program="openldap", rtt="15ms", server=SLAPD, settle=2, client=SEARCHES,
        why="one search a round trip; entry and result are two writes, with TCP_NODELAY",
        watch=both(3890, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "slapd-loss", program="openldap", rtt="20ms", path=("--loss", "3%"), server=SLAPD, settle=2,
        client=SEARCHES, look=8, why="each lost packet of a search is waited for by a timer",
        watch=both(3890, WAITS_FOR_LOST, ANSWERS_WITH_LOSS),
    ),
    Situation(
        "slapd-stopped", program="openldap", rtt="20ms", server=SLAPD, settle=2, client=SEARCHES,
        during=(("server", "kill -STOP $(cat slapd.pid)"),), look=6,
        why="slapd is stopped by SIGSTOP: the question is acknowledged, and no answer comes",
        watch=both(3890, WAITS_FOR_PROGRAM, WAITS_FOR_PROGRAM),
    ),
    Situation(
        "hitch-wrk", program="hitch", rate="100mbit", rtt="25ms",
        prepare=(*FILES, *CERTIFICATE, ("server", "cat tls.key tls.crt > tls.pem")),
        server=(LIGHTTPD, ("server", "exec hitch --config=$W/hitch.conf")), settle=1,
        client=from_client("wrk -c 8 -t 1 -d 100 https://$S:4443/page100"), warm_up=4,
        why="eight kept connections, one small page a round trip each",
        watch=both(4443, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "hitch-lan-bulk", program="hitch", rate="4gbit", rtt="0.2ms", queue="2000p",
        prepare=(*FILES, *CERTIFICATE, ("server", "cat tls.key tls.crt > tls.pem")),
        server=(LIGHTTPD, ("server", "exec hitch --config=$W/hitch.conf")), settle=1,
        client=from_client("curl -sko /dev/null https://$S:4443/big"), warm_up=4,
        why="one thread encrypts and another decrypts: processors, or the path",
        watch=both(4443, healthy(*TAKES.accept, "cpu-bound", also=("slow-reader",)),
                   healthy(*PROCESSORS.accept, "cpu-bound", also=("slow-reader",))),
    ),
    Situation(
        "h2o-h2load", program="h2o", rtt="30ms", prepare=FILES, server=H2O, settle=1,
        client=from_client("h2load -c 1 -m 100 -n 100000000 http://$S:8082/page10k"), warm_up=4,
        why="100 pages of 10 kB are asked for at a time: they fill the path",
        watch=both(8082, TAKES, FULL),
    ),
    Situation(
        "h2o-router-bloat", program="h2o", rate="200mbit", rtt="20ms", queue="2000p", router=True,
        prepare=(*FILES, ("router", "tc qdisc replace dev lab0 root tbf rate 12mbit burst 20kb "
                                    "limit 1500kb")), server=H2O, settle=1,
        client=from_client("wget -qO /dev/null http://$S:8082/big"), warm_up=12,
        why="a router with a queue of 1 s, which CUBIC fills",
        watch=both(8082, BLOATED, fault("bufferbloat")),
    ),
    Situation(
        "nghttpx-curl-limit", program="nghttpx", rtt="30ms", prepare=FILES,
        server=(LIGHTTPD, ("server", "exec nghttpx --conf=/dev/null -f '*,3000;no-tls' "
                                     "-b 127.0.0.1,8080 2>&1")), settle=1,
        client=from_client("curl --http2-prior-knowledge --limit-rate 400k -so /dev/null "
                           "http://$S:3000/big"), warm_up=14,
        why="curl reads 400 kB/s, and lets its socket wait meanwhile",
        watch=both(3000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "hypercorn-h2-window", program="hypercorn", rtt="80ms",
        server=(("server", f"exec {PY} hypercorn 5000"),), settle=3,
        client=from_client("nghttp -n -w 15 -W 15 http://$S:5000/?bytes=500000000"), warm_up=5,
        why="HTTP/2's own window is 32 kB, and the BDP 500 kB: no window of TCP",
        watch=both(5000, TAKES, OWN_WINDOW),
    ),
    Situation(
        "proftpd-rate", program="proftpd", rtt="30ms", prepare=FILES,
        server=proftpd("proftpd-rate.conf"), settle=1, client=FTP_GET, warm_up=4,
        why="TransferRate: the server sends 4 of 50 Mbit/s", watch=ftp_data(TAKES, PACED),
    ),
    Situation(
        "bbr-proftpd", program="proftpd", cc="bbr", rate="60mbit", rtt="50ms", prepare=FILES,
        server=proftpd("proftpd.conf"), settle=1, client=FTP_GET, warm_up=5, look=6,
        why="a download fills the path", watch=ftp_data(TAKES, FULL),
    ),
    Situation(
        "axel-no-autotuning", program="axel", rate="80mbit", rtt="50ms",
        prepare=(*FILES, sysctl("client", "net.ipv4.tcp_moderate_rcvbuf=0")), server=(LIGHTTPD,),
        settle=1, client=from_client("axel -q -n 1 -o got http://$S:8080/big"), warm_up=4,
        why="tcp_moderate_rcvbuf is 0: the window stays at 64 KiB, the BDP is 500 kB",
        watch=both(8080, fault("rmem-autotuning-off"), fault("rmem-autotuning-off", "peer-window")),
    ),
    Situation(
        "pen-wscale-off", program="pen", rate="60mbit", rtt="60ms",
        prepare=(*FILES, sysctl("client", "net.ipv4.tcp_window_scaling=0")),
        server=(LIGHTTPD, ("server", "exec pen -f 9090 127.0.0.1:8080")), settle=1,
        client=from_client("wget -qO /dev/null http://$S:9090/big"), warm_up=4,
        why="65535 bytes a round trip are 9 of 60 Mbit/s",
        watch=both(9090, fault("window-scaling-off"), fault("window-scaling-off")),
    ),
    Situation(
        "distcc-compiles", program="distcc", rtt="15ms",
        prepare=(("client", "for i in $(seq 1500); do echo \"double f$i(double x, int n) { for "
                            "(int i = 0; i < n; i++) x = x * x + $i; return x; }\"; done > x.c"),),
        server=(("server", "exec distccd --no-detach --daemon --log-stderr --allow 0.0.0.0/0 "
                           "--enable-tcp-insecure -j 2 --log-level error"),), settle=1,
        client=(("client", "export DISTCC_HOSTS=$S DISTCC_FALLBACK=0 HOME=$W; while :; do distcc "
                           "/usr/bin/gcc -O2 -c x.c -o x.o; done"),), warm_up=5, look=8,
        why="each connection carries a source file and, after a second of compiling, the object",
        watch=both(3632, healthy("application-thinks", "app-limited", "idle", "unknown"),
                   healthy("application-thinks", "app-limited", "idle", "unknown")),
    ),
    Situation(
        "uvicorn-kept", program="uvicorn", rtt="30ms", server=UVICORN, settle=2,
        client=from_client(f"{PY} httpx http://$S:5000/ kept"), warm_up=4,
        why="one small answer a round trip: head and body are two writes, with TCP_NODELAY",
        watch=both(5000, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "uvicorn-works", program="uvicorn", rtt="15ms", server=UVICORN, settle=2,
        client=from_client(f"{PY} httpx http://$S:5000/?ms=120 kept"), warm_up=4,
        why="each answer takes 120 ms in the server, 15 on the path",
        watch=both(5000, THINKS, THINKS_HERE),
    ),
    Situation(
        "uvicorn-reads-slowly", program="uvicorn", rtt="30ms", server=UVICORN, settle=2,
        client=from_client("sh -c 'exec curl -so /dev/null -T - http://$S:5000/?pause=0.08 "
                           "< /dev/zero'"), warm_up=14,
        why="the server sleeps 80 ms after each block of the body that it takes",
        watch=both(5000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "uvicorn-new", program="uvicorn", rate="100mbit", rtt="120ms", server=UVICORN, settle=2,
        client=from_client(f"{PY} httpx http://$S:5000/?bytes=200000 new"), warm_up=4, look=8,
        why="200 kB on new connections take four round trips with 10 segments",
        watch=both(5000, PAGES, fault("initcwnd-too-small")),
    ),
    Situation(
        "go-pool-of-two", program="go", rtt="10ms",
        prepare=(("server", "go build -o $W/pool $H/programs/unfamiliar/pool.go"),), server=UVICORN,
        settle=2, client=from_client("$W/pool http://$S:5000/?ms=40 2"), warm_up=4,
        why="20 workers wait for two connections, which wait 40 ms for the server each time",
        watch=both(5000, THINKS, THINKS_HERE),
    ),
    Situation(
        "tornado-pushes", program="tornado", rate="80mbit", rtt="100ms",
        server=(("server", f"exec {PY} tornado 5000 700000 3"),), settle=2,
        client=from_client("curl -sNo /dev/null http://$S:5000/"), warm_up=7, look=14,
        why="700 kB each 3 s over 100 ms: the window restarts after each pause",
        watch=both(5000, TAKES, RESTARTS),
    ),
    Situation(
        "waitress-busy", program="waitress", rtt="10ms",
        server=(("server", f"exec {PY} waitress 5000 0.05"),), settle=2,
        client=from_client("wrk -c 8 -t 1 -d 100 http://$S:5000/"), warm_up=4,
        why="four threads work 50 ms on each of eight requests at a time",
        watch=both(5000, THINKS, THINKS_HERE),
    ),
    Situation(
        "wsgiref-full", program="python", rtt="10ms",
        server=(("server", f"exec {PY} wsgiref 5000 0.15"),), settle=1,
        client=from_client("ab -q -c 30 -n 1000000 -s 100 http://$S:5000/"), warm_up=4, look=8,
        why="one request at a time, 150 ms each, a backlog of 5, and 30 clients",
        watch=at_server(5000, fault("accept-queue-full",
                                    also=("application-thinks", "slow-reader"))),
    ),
    Situation(
        "ncat-policed", program="ncat", rate="200mbit", rtt="25ms", queue="2000p",
        prepare=(("server", POLICE.format(dev="lab0", rate="2500 kbytes/second",
                                          burst="50 kbytes")),),
        server=(("server", "ncat -l 5000 > /dev/null"),),
        client=from_client("sh -c 'exec ncat --send-only $S 5000 < /dev/zero'"), warm_up=6, look=8,
        why="what exceeds 20 Mbit/s is dropped on arrival", watch=both(5000, POLICED, TAKES),
    ),
    Situation(
        "lua-pieces", program="lua", **LAN, server=REDIS, settle=1,
        client=from_client("lua5.4 pieces.lua"), warm_up=4,
        why="a command in two writes with Nagle on", watch=both(6379, STALLS, STALLS),
    ),
    Situation(
        "tcl-pieces-quickack", program="tcl", rtt="40ms",
        prepare=(("server", "ip route | while read r; do ip route change $r quickack 1; done"),),
        server=(("server", "exec tclsh answers.tcl"),), settle=1,
        client=from_client("tclsh asks.tcl"), warm_up=4,
        why="two writes a message with Nagle on, and a receiver that acknowledges at once",
        watch=at_sender(5000, fault("nagle-rtt-serialised")),
    ),
]

# Labelled when those above had been run, and before any of these was.
ROUTES = "ip route | while read r; do ip route change $r {}; done"
LOSES = fault("random-loss", "retransmission-timeouts")
WAITED_FOR = healthy("application-thinks", "app-limited", "idle", "unknown")
LATER = [
    Situation(
        "psql-fetch-count", program="postgres", rtt="30ms", prepare=POSTGRES,
        server=(POSTGRES_SERVER,), settle=2,
        client=(("client", "psql -qh $S -U postgres -v FETCH_COUNT=20 -c 'select "
                           "generate_series(1, 100000000)' postgres > /dev/null"),), warm_up=4,
        why="a cursor is read by 20 rows a round trip",
        watch=both(5432, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "sftp-one-block", program="ssh", rtt="40ms", prepare=SSHD, settle=1, warm_up=5,
        server=(("server", "exec /usr/sbin/sshd -D -e -f $W/sshd_config"),),
        client=(("client", "truncate -s 1G up; echo \"put up $W/got\" | "
                           "exec sftp -R 1 -B 32000 -b - -F $W/ssh_config $S"),),
        why="one block of 32 kB a round trip: the program waits for each answer",
        watch=both(2222, healthy("round-trip-bound", "app-limited", "unknown", "idle",
                                 "application-thinks"), TAKES),
    ),
    Situation(
        "redis-pipe", program="redis", rate="10mbit", rtt="30ms", server=REDIS, settle=1,
        client=(("client", "yes \"SET key $(head -c 500 /dev/zero | tr '\\0' a)\" | "
                           "redis-cli -h $S --pipe > /dev/null"),), warm_up=6,
        why="commands without end fill 10 Mbit/s", watch=both(6379, FULL, TAKES),
    ),
    Situation(
        "mss-200", program="ncat", rate="20mbit", rtt="20ms", queue="300p",
        prepare=(("server", ROUTES.format("advmss 200")),),
        server=(("server", "ncat -l 5000 > /dev/null"),),
        client=from_client("sh -c 'exec ncat --send-only $S 5000 < /dev/zero'"), warm_up=5,
        why="segments of 200 bytes, because a route says so: the path is full of them",
        watch=both(5000, FULL, TAKES),
    ),
    Situation(
        "iperf2-long-fat", **iperf2(), rate="600mbit", rtt="150ms", warm_up=12, look=6,
        prepare=(sysctl("client", "net.ipv4.tcp_wmem=4096 16384 100000000"),
                 sysctl("server", "net.ipv4.tcp_rmem=4096 131072 6291456")),
        why="the usual tcp_rmem[2] of 6 MiB gives a window of 3 MB, the BDP is 11 MB",
        watch=both(5001, CAPPED_WINDOW, fault("tcp-rmem-max-cap")),
    ),
    Situation(
        "tornado-fans-out", program="tornado", rate="100mbit", rtt="30ms",
        server=(("server", f"exec {PY} tornado 5000 30000 0.2"),), settle=2,
        client=(("client", "for i in $(seq 20); do curl -sNo /dev/null http://$S:5000/ & done; "
                           "wait"),), warm_up=4,
        why="30 kB to each of 20 clients each 200 ms: a quarter of the path",
        watch=both(5000, TAKES, PACED),
    ),
    Situation(
        "dig-tcp", program="dnsmasq", rtt="40ms",
        server=(("server", "exec dnsmasq -k -p 5353 -R -h --address=/x/10.1.2.3 --user=root "
                           "--pid-file=$W/dnsmasq.pid"),), settle=1,
        client=(("client", "while :; do dig +tcp +short @$S -p 5353 x; done"),), warm_up=4, look=8,
        why="a connection, a question and an answer each: round trips, and dig's own start",
        watch=both(5353, healthy("round-trip-bound", "app-limited", "application-thinks", "idle",
                                 "unknown"),
                   healthy("round-trip-bound", "app-limited", "application-thinks", "idle",
                           "unknown")),
    ),
    Situation(
        "wget-runs-at-times", program="wget", rate="100mbit", rtt="2ms", queue="100p",
        prepare=FILES, server=H2O, settle=1,
        client=(("client", "wget -qO /dev/null http://$S:8082/big & while :; do kill -STOP $!; "
                           "sleep 0.25; kill -CONT $!; sleep 0.002; done"),), warm_up=8,
        why="the reader has no processor for most of the time",
        watch=both(8082, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "hg-policed", program="mercurial", rate="100mbit", rtt="60ms", queue="2000p", router=True,
        prepare=(*HG, ONE_SEGMENT,
                 ("router", "nft 'add table ip police; add chain ip police fw { type filter hook "
                            "forward priority 0; }; add rule ip police fw iif far0 limit rate over "
                            "1900 kbytes/second burst 80 kbytes drop'")),
        server=HG_SERVE, settle=2, client=HG_CLONE, warm_up=7, look=8,
        why="a router drops what exceeds 15 Mbit/s, without a queue",
        watch=both(8000, TAKES, POLICED),
    ),
    Situation(
        "uvicorn-pages-loss", program="uvicorn", rtt="40ms", queue="400p", path=("--loss", "2%"),
        server=UVICORN, settle=2,
        client=from_client(f"{PY} httpx http://$S:5000/?bytes=60000 kept"), warm_up=5, look=10,
        why="42 segments a page, of which one or none arrives at once",
        watch=both(5000, TAKES, LOSES),
    ),
    Situation(
        "tcl-lines", program="tcl", **LAN, server=(("server", "exec tclsh lines.tcl"),), settle=1,
        client=client("ask $S 5000 --reply 60 --nodelay"), warm_up=4,
        why="an answer of three lines, each flushed, with Nagle on",
        watch=both(5000, fault("nagle-delack-stall", "application-thinks"), STALLS),
    ),
    Situation(
        "tcl-flushed", program="tcl", **LAN, server=(("server", "exec tclsh flushed.tcl"),),
        settle=1, client=client("ask $S 5000 --reply 60 --nodelay"), warm_up=4,
        why="the same answer, flushed once", watch=both(5000, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
    Situation(
        "bbr-hg-loss", program="mercurial", cc="bbr", rate="30mbit", rtt="40ms", queue="400p",
        path=("--loss", "1.5%"), prepare=HG, server=HG_SERVE, settle=2, client=HG_CLONE, warm_up=6,
        look=6, why="BBR fills the path in spite of 1.5 % loss",
        watch=both(8000, TAKES, healthy("path-full", "random-loss", also=("random-loss",))),
    ),
    Situation(
        "lua-pauses", program="lua", rtt="20ms", server=REDIS, settle=1,
        client=from_client("lua5.4 pauses.lua"), warm_up=4,
        why="the client sleeps 300 ms after each answer", watch=both(6379, WAITED_FOR, WAITED_FOR),
    ),
    Situation(
        "rto-min-second", program="redis", rtt="10ms", path=("--loss", "2%"),
        prepare=(("client", ROUTES.format("rto_min 1s")),), server=REDIS, settle=1,
        client=from_client("redis-benchmark -h $S -c 1 -n 100000000 -t get -q"), warm_up=4, look=10,
        why="each question that is lost is waited for by a timer, which a route sets to 1 s",
        watch=at_sender(6379, WAITS_FOR_LOST),
    ),
    Situation(
        "dovecot-append", program="dovecot", rate="8mbit", rtt="30ms", prepare=mails(1, 2000),
        server=DOVECOT, settle=2, warm_up=6,
        client=from_client("sh -c 'truncate -s 200M up; exec curl -so /dev/null -u u:p -T up "
                           "imap://$S:1143/INBOX'"),
        why="a large message is stored, and fills 8 Mbit/s", watch=both(1143, FULL, TAKES),
    ),
]
SITUATIONS = [*SITUATIONS, *LATER]

# Labelled after rules were mended on those above, and before any of these was run.
EITHER_WAY = healthy("path-full", "app-limited", "unknown")
LATEST = [
    Situation(
        "iperf2-policed", **iperf2(), rate="100mbit", rtt="40ms", queue="2000p", router=True,
        prepare=(("client", "ip link set lab0 gso_max_segs 1"),
                 ("router", "nft 'add table ip police; add chain ip police fw { type filter hook "
                            "forward priority 0; }; add rule ip police fw oif far0 limit rate over "
                            "1500 kbytes/second burst 60 kbytes drop'")), warm_up=7, look=12,
        why="a router drops what exceeds 12 Mbit/s, without a queue",
        watch=both(5001, POLICED, TAKES),
    ),
    Situation(
        "axel-four-policed", program="axel", rate="200mbit", rtt="35ms", queue="2000p", router=True,
        prepare=(*FILES, ("router", "tc qdisc replace dev lab0 root tbf rate 20mbit burst 30kb "
                                    "limit 6kb")), server=(LIGHTTPD,), settle=1,
        client=from_client("axel -q -n 4 -o got http://$S:8080/big"), warm_up=6, look=8,
        why="a token bucket with hardly a queue, and four connections",
        watch=both(8080, TAKES, POLICED),
    ),
    Situation(
        "iperf2-nft-loss", **iperf2(), rate="100mbit", rtt="20ms", queue="1000p", router=True,
        prepare=(("client", "ip link set lab0 gso_max_segs 1"),
                 ("router", "nft 'add table ip lossy; add chain ip lossy fw { type filter hook "
                            "forward priority 0; }; add rule ip lossy fw oif far0 numgen random "
                            "mod 1000 < 5 drop'")), warm_up=5, look=8,
        why="a router drops 0.5 % of the packets, at random", watch=both(5001, LOSS, TAKES),
    ),
    Situation(
        "iperf2-two-lossy", **iperf2("-P 2"), rate="200mbit", rtt="30ms", queue="800p",
        path=("--loss", "0.3%"), warm_up=6, look=8,
        why="0.3 % random loss leave two connections a small part of the path",
        watch=both(5001, LOSS, TAKES),
    ),
    Situation(
        "ncat-into-steps", program="ncat", rate="100mbit", rtt="2ms", queue="100p",
        server=(("server", "ncat -l 5000 | sh -c 'while head -c 1000000 > /dev/null; do sleep 0.2; "
                           "done'"),),
        client=from_client("sh -c 'exec ncat --send-only $S 5000 < /dev/zero'"), warm_up=8,
        why="a pipe is emptied by 1 MB five times a second: 40 of 100 Mbit/s",
        watch=both(5000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "curl-runs-at-times", program="curl", rate="150mbit", rtt="1ms", queue="80p",
        prepare=FILES, server=H2O, settle=1,
        client=(("client", "curl -so /dev/null http://$S:8082/big & while :; do kill -STOP $!; "
                           "sleep 0.3; kill -CONT $!; sleep 0.002; done"),), warm_up=8,
        why="the reader has no processor for most of the time",
        watch=both(8082, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "iperf2-2mbit", **iperf2(), rate="2mbit", rtt="5ms", queue="10p", warm_up=6, look=6,
        why="a slow path with a short queue is full", watch=both(5001, FULL, TAKES),
    ),
    Situation(
        "iperf2-jitter", **iperf2(), rate="40mbit", rtt="20ms", path=("--jitter", "25ms"),
        warm_up=6, look=6, why="delays vary by 25 ms in order; nothing is lost on the wire",
        watch=both(5001, EITHER_WAY, TAKES),
    ),
    Situation(
        "hg-tbf", program="mercurial", rate="200mbit", rtt="60ms", queue="2000p", router=True,
        prepare=(*HG, ("router", "tc qdisc replace dev lab0 root tbf rate 25mbit burst 20kb "
                                 "limit 120kb")), server=HG_SERVE, settle=2, client=HG_CLONE,
        warm_up=7, look=8, why="a router shapes to 25 Mbit/s with a queue of two thirds of a BDP",
        watch=both(8000, TAKES, POLICED),
    ),
    Situation(
        "dovecot-fetches-5k", program="dovecot", rtt="40ms", prepare=mails(20, 5000),
        server=DOVECOT, settle=2, client=from_client(f"{PY} imap $S 1143"), warm_up=3,
        why="a client fetches one message a round trip",
        watch=both(1143, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "iperf2-two-share", **iperf2("-P 2"), rate="30mbit", rtt="40ms", warm_up=7, look=8,
        why="two connections share a path that is full", watch=both(5001, FULL, TAKES),
    ),
]
SITUATIONS = [*SITUATIONS, *LATEST]
