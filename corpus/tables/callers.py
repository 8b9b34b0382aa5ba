"""Situations of programs that no table before has: NetPIPE, gdbserver, MPD, DRb, Erlang's distribution, RMI and
ObjectOutputStream, Go's net/rpc, asyncua, Litestar, proxy.py, websockify, SSHFS, pg_dump, GnuTLS.

Labels were written down before any of them was run. What sets a buffer, and what is written at once, is
what their documentation and source say: NetPIPE sets TCP_NODELAY, and with -b both buffers; gdb, DRb, RMI, Go
and asyncio set TCP_NODELAY; ObjectOutputStream writes a block of 1024 bytes when it is full, and what is left of an
object at flush().
"""

from .commands import NGINX, SSHD
from .elsewhere import HELD_BACK
from .foretold import POSTGRES, POSTGRES_SERVER
from .further import from_client
from .model import *
from .packages import SMALL_SNDBUF
from .seeming import LOSS, PAGES, RESTARTS
from .services import POLICE, POLICED
from .visitors import LOSS_SEEN, NAGLE, OWN_WINDOW, STARTS, server

MINE = "$H/programs/callers"
PY = f"$FITPY {MINE}/callers.py"
RUBY = f"ruby {MINE}/callers.rb"
JAVA = (("server", f"javac -d $W {MINE}/Callers.java"),)
GO = (("server", f"go build -o $W/callers {MINE}/callers.go"),)
ERL = (("server", f"erlc -o $W {MINE}/callers.erl"),)
ERL_SINK = server("erl -noinput -name a@$S -setcookie lab -kernel inet_dist_listen_min 5000 "
                  "inet_dist_listen_max 5000 -s callers sink")
ERL_SOURCE = from_client("erl -noinput -name b@$C -setcookie lab -s callers source -extra a@$S")
CONFIGS = {"callers-mpd.conf": """
music_directory "@W@/music"
db_file "@W@/mpd.db"
bind_to_address "127.0.0.1"
port "6600"
audio_output {
  type "httpd"
  name "lab"
  encoder "wave"
  port "8000"
  bind_to_address "0.0.0.0"
  format "44100:16:2"
  max_clients "0"
}
"""}
# Both ends have to be told the same.
NETPIPE = "NPtcp {} -l 1000 -u 1000 -p 0 -n 1000000"
NETPIPE_STREAM = "NPtcp {} -s -b 65536 -l 1000000 -u 1000000 -p 0 -n 1000000"
MPD = (("server", "exec mpd --no-daemon $W/callers-mpd.conf"),
       ("server", "sleep 2; (printf 'update\\n'; sleep 1; printf 'add sine.wav\\nrepeat 1\\nplay\\n'; sleep 1) "
                  "| nc -q 1 127.0.0.1 6600"))
SINE = (("server", "mkdir music && ffmpeg -v error -f lavfi -i sine=300:duration=600 -ac 2 music/sine.wav"),)
RMI = server("java -cp $W Callers rmi-server $S")
OBJECTS = server("java -cp $W Callers takes")
PROXY = (*NGINX, *server("$FITPY -m proxy --hostname 0.0.0.0 --port 8899 --num-workers 1 --num-acceptors 1"))
PROXIED = (("server", "head -c 150000 /dev/urandom > page150"),)
PROXY_ANEW = tuple(("client", "sleep 0.5; while :; do curl -so /dev/null -x http://$S:8899 "
                    "http://127.0.0.1/page150; done") for _ in range(3))
WEBSOCKIFY = (*server("websockify 8080 127.0.0.1:5000"),
              *server("socat OPEN:/dev/zero TCP-LISTEN:5000,bind=127.0.0.1,reuseaddr,fork"))
SSHFS = from_client("sh -c 'mkdir m && sshfs -F $W/ssh_config $S:$W m && exec dd if=m/big of=/dev/null bs=64k'")
LITESTAR = server(f"{PY} litestar 8080 8000000000")
DOWNLOAD = from_client("curl -sNo /dev/null http://$S:8080/")
DUMP = (("client", "sleep 0.3; psql -qh $S -U postgres -c 'create table t as select g, "
                   "repeat(md5(g::text), 30) x from generate_series(1, 100000) g' postgres; "
                   "pg_dump -h $S -U postgres postgres | pv -qL 400k > /dev/null"),)
SOME_BACK = healthy(*SOME_TRAFFIC.accept, *NAGLE.right, also=NAGLE.right)

# The path carries IPv6 as well.
SIX = tuple((end, "sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.lab0.disable_ipv6=0 && "
             f"ip addr add {address}/64 dev lab0 nodad && ip -6 route change fd77::/64 dev lab0 proto kernel "
             "metric 256 congctl cubic")
            for end, address in (("client", "fd77::1"), ("server", "fd77::2")))


def litestar_six(bytes):
    return server(f"{PY} litestar 8080 {bytes} ::")


DOWNLOAD_SIX = from_client("curl -sNo /dev/null http://[fd77::2]:8080/")
RUBY_FILES = from_client("ruby -rnet/http -e 'loop { Net::HTTP.get(URI(\"http://#{ENV[\"S\"]}:8080/\")) }'")


def in_bursts(bytes, pause):
    return (("client", f"sleep 0.3; while :; do head -c {bytes} /dev/zero; sleep {pause}; done | nc $S 5000"),)


SITUATIONS = [
    # What is asked and answered.
    Situation(
        "caller-netpipe-calls", program="netpipe", rate="100mbit", rtt="20ms", server=server(NETPIPE.format("")),
        settle=1, client=from_client(NETPIPE.format("-h $S")), warm_up=4,
        why="1000 bytes go to and fro", watch=both(5002, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
    Situation(
        "caller-gdb", program="gdbserver", rate="100mbit", rtt="30ms", server=server("gdbserver :5000 sleep 900"),
        settle=1, client=from_client(f"gdb -batch -nx -x {MINE}/asks.gdb -ex 'target remote '$S:5000 "
                                     "-ex 'python ask()'"), warm_up=6,
        why="a debugger reads memory, one packet of its protocol at a time",
        watch=both(5000, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "caller-drb-calls", program="drb", rate="100mbit", rtt="25ms", server=server(f"{RUBY} server $S 5000 10"),
        settle=2, client=from_client(f"{RUBY} client $S 5000 echo"), warm_up=4,
        why="a call of 300 bytes and its answer, each in a write", watch=both(5000, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "caller-drb-pages", program="drb", rate="50mbit", rtt="60ms",
        server=server(f"{RUBY} server $S 5000 300000"), settle=2, client=from_client(f"{RUBY} client $S 5000 page"),
        warm_up=6, why="pages of 300 kB on one connection, asked for one by one: the window is open already",
        watch=both(5000, healthy(*TAKES.accept), healthy(*TAKES.accept)),
    ),
    Situation(
        "caller-go-thinks", program="go", rate="100mbit", rtt="10ms", prepare=GO, server=server("./callers server 40"),
        settle=1, client=from_client("./callers client $S 2000"), warm_up=4,
        why="a call of net/rpc is answered after 40 ms", watch=both(5000, THINKS, THINKS_HERE),
    ),
    Situation(
        "caller-opcua-reads", program="asyncua", rate="100mbit", rtt="30ms",
        server=server(f"{PY} opcua-server 4840 200"), settle=8,
        client=from_client(f"{PY} opcua-client $S 4840"), warm_up=6,
        why="a value of 200 bytes is read, one by one", watch=both(4840, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "caller-objects-nagle", program="java", rate="100mbit", rtt="12ms", prepare=JAVA, server=OBJECTS, settle=2,
        client=from_client("java -cp $W Callers gives $S 1100"), warm_up=5,
        why="an object of 1100 bytes is written in blocks, of which the last one waits for an ACK",
        watch=both(5000, NAGLE, SOME_BACK),
    ),
    Situation(
        "caller-objects-nodelay", program="java", rate="100mbit", rtt="12ms", prepare=JAVA, server=OBJECTS, settle=2,
        client=from_client("java -cp $W Callers gives $S 1100 nodelay"), warm_up=5,
        why="the same with TCP_NODELAY", watch=both(5000, SOME_TRAFFIC, SOME_TRAFFIC),
    ),
    Situation(
        "caller-gnutls-short", program="gnutls", rate="100mbit", rtt="30ms", prepare=(
            ("server", "openssl req -x509 -newkey rsa:2048 -nodes -keyout k.pem -out c.pem -subj /CN=lab -days 30"),),
        server=server("gnutls-serv -q --http -p 5000 --x509keyfile k.pem --x509certfile c.pem"), settle=2,
        client=(("client", "sleep 0.3; while :; do (printf 'GET / HTTP/1.0\\r\\n\\r\\n'; sleep 0.2) | "
                 "gnutls-cli --insecure -p 5000 $S > /dev/null; done"),), warm_up=4,
        why="a TLS connection for each small page: handshakes, and pauses of 0.2 s",
        watch=both(5000, PAGES, PAGES),
    ),
    # New connections, pauses.
    Situation(
        "caller-proxy-new", program="proxy.py", rate="80mbit", rtt="90ms", prepare=PROXIED, server=PROXY, settle=3,
        client=PROXY_ANEW, warm_up=5, look=8,
        why="150 kB on new connections of a proxy take four round trips from 10 segments on",
        watch=both(8899, PAGES, STARTS),
    ),
    Situation(
        "caller-rmi-idle", program="rmi", rate="100mbit", rtt="100ms", prepare=JAVA, server=RMI, settle=3,
        client=from_client("java -cp $W Callers rmi-client $S 400000 1500"), warm_up=9, look=13,
        why="400 kB after each pause of 1.5 s over 100 ms: the window restarts",
        watch=both(5000, healthy(*TAKES.accept, also=("slow-start-after-idle",)), RESTARTS),
    ),
    # Windows and buffers.
    Situation(
        "caller-netpipe-buffers", program="netpipe", rate="100mbit", rtt="40ms",
        server=server(NETPIPE_STREAM.format("")), settle=1, client=from_client(NETPIPE_STREAM.format("-h $S")),
        warm_up=6,
        why="-b sets both buffers to 64 KiB, the BDP is 500 kB: a sender may name either",
        watch=both(5002, fault("sndbuf-locked", "rcvbuf-locked", "peer-window", also=("sndbuf-tiny",)),
                   fault("rcvbuf-locked", "peer-window")),
    ),
    Situation(
        "caller-litestar-wmem", program="litestar", rate="60mbit", rtt="60ms",
        prepare=(sysctl("server", "net.ipv4.tcp_wmem=4096 16384 80000"),), server=LITESTAR, settle=4, client=DOWNLOAD,
        warm_up=6, why="tcp_wmem[2] is 80 kB, the BDP is 450 kB", watch=both(8080, TAKES, fault("tcp-wmem-max-cap")),
    ),
    Situation(
        "caller-drb-rmem", program="drb", rate="60mbit", rtt="50ms",
        prepare=(sysctl("client", "net.ipv4.tcp_rmem=4096 32768 65536"),),
        server=server(f"{RUBY} server $S 5000 20000000"), settle=2, client=from_client(f"{RUBY} client $S 5000 page"),
        warm_up=6, why="tcp_rmem[2] is 64 KiB at the client, which asks for 20 MB each time; the BDP is 375 kB",
        watch=both(5000, fault("tcp-rmem-max-cap", "peer-window"), fault("peer-window", "tcp-rmem-max-cap")),
    ),
    # Readers and writers.
    Situation(
        "caller-dump-slow", program="pg_dump", rate="80mbit", rtt="20ms", prepare=POSTGRES, server=POSTGRES_SERVER,
        settle=4, client=DUMP, warm_up=22, look=8, why="what takes the dump takes 400 kB/s",
        watch=both(5432, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "caller-mpd", program="mpd", rate="20mbit", rtt="40ms", prepare=SINE, server=MPD, settle=6,
        client=from_client("curl -sNo /dev/null http://$S:8000/"), warm_up=6, look=8,
        why="1.4 Mbit/s of music, as fast as it plays", watch=both(8000, HELD_BACK, PACED),
    ),
    Situation(
        "caller-sshfs", program="sshfs", rate="100mbit", rtt="60ms", prepare=(*SSHD, ("server", "truncate -s 8G big")),
        server=server("/usr/sbin/sshd -D -f $W/sshd_config"), settle=1, client=SSHFS, warm_up=7, look=7,
        why="SFTP reads ahead 128 kB at a time, and a round trip passes until the next ones are asked for",
        watch=both(2222, OWN_WINDOW, OWN_WINDOW),
    ),
    # Paths.
    Situation(
        "caller-erl-full", program="erlang", rate="30mbit", rtt="40ms", prepare=ERL, server=ERL_SINK, settle=3,
        client=ERL_SOURCE, warm_up=7, why="messages of 300 kB to another node, as fast as the path takes them",
        watch=both(5000, FULL, TAKES),
    ),
    Situation(
        "caller-erl-loss", program="erlang", rate="40mbit", rtt="50ms", queue="2bdp", path=("--loss", "0.4%"),
        prepare=ERL, server=ERL_SINK, settle=3, client=ERL_SOURCE, warm_up=9, look=8,
        why="four packets of 1000 are lost, and CUBIC gets about 8 of 40 Mbit/s",
        watch=both(5000, LOSS, LOSS_SEEN),
    ),
    Situation(
        "caller-websockify-bloat", program="websockify", rate="8mbit", rtt="30ms", queue="500p", server=WEBSOCKIFY,
        settle=2, client=from_client(f"{PY} looks $S 8080"), warm_up=16, look=7,
        why="a queue of 0.75 s is filled", watch=both(8080, BLOATED, fault("bufferbloat")),
    ),
    Situation(
        "caller-litestar-police", program="litestar", rate="200mbit", rtt="20ms", router=True, queue="2000p",
        prepare=(("router", POLICE.format(dev="far0", rate="2000 kbytes/second", burst="60 kbytes")),),
        server=LITESTAR, settle=4, client=DOWNLOAD, warm_up=6, look=7,
        why="a router drops what exceeds 16 Mbit/s, and has no queue",
        watch=both(8080, healthy(*TAKES.accept, "policed"), POLICED),
    ),
    Situation(
        "caller-litestar-six", program="litestar", rate="40mbit", rtt="40ms", server=LITESTAR, settle=4,
        client=DOWNLOAD * 6, warm_up=8, look=7, why="six downloads of one process fill the path together",
        watch=both(8080, TAKES, FULL),
    ),
    # A second round, harder; labels were written after the rules had been mended and before this one was run.
    Situation(
        "caller-again-six-full", program="litestar", rate="25mbit", rtt="40ms", prepare=SIX,
        server=litestar_six(8_000_000_000), settle=4, client=DOWNLOAD_SIX, warm_up=6,
        why="a download over IPv6 fills the path", watch=both(8080, TAKES, FULL),
    ),
    Situation(
        "caller-again-six-wmem", program="litestar", rate="70mbit", rtt="50ms",
        prepare=(*SIX, sysctl("server", "net.ipv4.tcp_wmem=4096 16384 70000")), server=litestar_six(8_000_000_000),
        settle=4, client=DOWNLOAD_SIX, warm_up=6, why="the same behind a tcp_wmem[2] of 70 kB; the BDP is 440 kB",
        watch=both(8080, TAKES, fault("tcp-wmem-max-cap")),
    ),
    Situation(
        "caller-again-bursts-rcvbuf", program="socat", rate="100mbit", rtt="40ms",
        server=server("socat -u TCP-LISTEN:5000,reuseaddr,rcvbuf=30000 OPEN:/dev/null"), settle=1,
        client=in_bursts(800_000, 0.7), warm_up=6, look=8,
        why="SO_RCVBUF is 30000: each 800 kB take a second, and a pause of 0.7 s follows",
        watch=both(5000, FIXED_WINDOW, FIXED_WINDOW),
    ),
    Situation(
        "caller-again-bursts-open", program="socat", rate="20mbit", rtt="40ms",
        server=server("socat -u TCP-LISTEN:5000,reuseaddr OPEN:/dev/null"), settle=1,
        client=in_bursts(800_000, 0.7), warm_up=8, look=8,
        why="the same without, on a path that takes 0.35 s for them; windows restart, which is little of it",
        watch=both(5000, healthy(*PAGES.accept, "slow-start-after-idle", also=("slow-start-after-idle",)), TAKES),
    ),
    Situation(
        "caller-again-bursts-small", program="socat", rate="50mbit", rtt="30ms",
        server=server("socat -u TCP-LISTEN:5000,reuseaddr,rcvbuf=65536 OPEN:/dev/null"), settle=1,
        client=in_bursts(50_000, 0.25), warm_up=5, look=8,
        why="50 kB each quarter second, which is less than the fixed window",
        watch=both(5000, healthy(*PAGES.accept, "slow-start-after-idle", also=("slow-start-after-idle",)), TAKES),
    ),
    Situation(
        "caller-again-sshfs-write", program="sshfs", rate="10mbit", rtt="40ms", prepare=SSHD,
        server=server("/usr/sbin/sshd -D -f $W/sshd_config"), settle=1,
        client=from_client("sh -c 'mkdir m && sshfs -F $W/ssh_config $S:$W m && "
                           "exec dd if=/dev/zero of=m/up bs=64k'"),
        warm_up=7, look=7, why="SFTP writes several blocks at a time, which is more than the BDP of 50 kB",
        watch=both(2222, FULL, TAKES),
    ),
    Situation(
        "caller-again-ruby-rmem", program="ruby", rate="40mbit", rtt="60ms",
        prepare=(sysctl("client", "net.ipv4.tcp_rmem=4096 32768 65536"),), server=server(f"{PY} litestar 8080 4000000"),
        settle=4, client=RUBY_FILES, warm_up=6, look=8,
        why="tcp_rmem[2] is 64 KiB at the client, the BDP is 300 kB; 4 MB on each connection",
        watch=both(8080, CAPPED_WINDOW, CAPPED_WINDOW),
    ),
]
