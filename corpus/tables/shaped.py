"""Situations under BBR, which many hosts have by default, and more of services and shapers.

Labels were written down before any of them was run.
"""

from .commands import FILES, IPERF_SERVER, NGINX, REDIS, SSHD, client, iperf, programs
from .further import from_client
from .model import *
from .seeming import LOSS, PAGES
from .services import (ANSWER_128, DIRECT, ONE_BY_ONE, POLICE, POLICED, POSTGRES, POSTGRES_SERVER,
                      PY_SERVICES, at_direct_server, to_direct)

# The same pair of interfaces with BBR.
DIRECT_BBR = tuple((end, command.replace("congctl cubic", "congctl bbr"))
                   for end, command in DIRECT)
NC_SINK = (("server", "nc -l -p 5000 > /dev/null"),)
NC_SOURCE = from_client("nc $S 5000 < /dev/zero")
GO = (("server", "go build -o $W/go $H/programs/further/further.go"),)
JAVA = (("server", "javac -d $W $H/programs/services/Services.java"),)
PERL_ANSWER = (
    "exec perl -MIO::Socket::INET -e '$l = IO::Socket::INET->new(LocalPort => 5000, Listen => 5, "
    "ReuseAddr => 1); $s = $l->accept; $s->autoflush(1); while (sysread($s, $q, 50)) "
    "{ print $s \"head: x\\n\" x 10; print $s \"body\" x 50 }'"
)
TWO_MOVES = healthy("path-full", "bufferbloat", also=("bufferbloat",))

SITUATIONS = [
    Situation(
        "bbr-veth-tbf", program="nc", cc="bbr",
        prepare=(*DIRECT_BBR, ("client", "tc qdisc replace dev direct0 root tbf rate 20mbit "
                                         "burst 32kb latency 50ms")),
        server=NC_SINK, client=from_client("nc 10.79.0.2 5000 < /dev/zero"), warm_up=5,
        why="the sender's own interface is shaped to 20 Mbit/s", watch=to_direct(FULL, 5000),
    ),
    Situation(
        "bbr-veth-tbf-curl", program="nginx", cc="bbr",
        prepare=(*DIRECT_BBR, *FILES,
                 ("server", "tc qdisc replace dev direct1 root tbf rate 40mbit burst 64kb "
                            "limit 200kb")),
        server=NGINX, client=(("client", "exec curl -so /dev/null http://10.79.0.2/big"),),
        warm_up=5, why="the server's own interface is shaped to 40 Mbit/s",
        watch={**to_direct(TAKES, 80), **at_direct_server(FULL, 80)},
    ),
    Situation(
        "bbr-router-tbf", program="nc", cc="bbr", rate="300mbit", rtt="40ms", queue="2000p",
        router=True,
        prepare=(("router", "tc qdisc replace dev far0 root tbf rate 30mbit burst 10kb "
                            "limit 60kb"),),
        server=NC_SINK, client=NC_SOURCE, warm_up=6, look=8,
        why="a router shapes to 30 Mbit/s with a queue of 60 kB, less than half a BDP",
        watch=both(5000, POLICED, TAKES),
    ),
    Situation(
        "bbr-police", program="nc", cc="bbr", rate="200mbit", rtt="60ms", queue="2000p",
        prepare=(("server", POLICE.format(dev="lab0", rate="3750 kbytes/second",
                                          burst="60 kbytes")),),
        server=NC_SINK, client=NC_SOURCE, warm_up=6, look=8,
        why="what exceeds 30 Mbit/s is dropped on arrival", watch=at_sender(5000, POLICED),
    ),
    Situation(
        "bbr-tiny-pfifo", program="iperf3", cc="bbr", rate="400mbit", rtt="20ms", queue="2000p",
        router=True,
        prepare=(("router", "tc qdisc replace dev far0 root handle 1: htb default 10 && "
                            "tc class add dev far0 parent 1: classid 1:10 htb rate 60mbit "
                            "burst 15k && tc qdisc add dev far0 parent 1:10 pfifo limit 20"),),
        server=IPERF_SERVER, client=iperf(), warm_up=6, look=8,
        why="a router shapes to 60 Mbit/s with a queue of 20 packets",
        watch=at_sender(5201, POLICED),
    ),
    Situation(
        "bbr-slow-reader", cc="bbr", rtt="20ms", server=programs("sink 5000 --rate 1000000"),
        client=client("source $S 5000 --request 65536"), warm_up=10,
        why="the server reads 8 of 50 Mbit/s", watch=both(5000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "bbr-rcvbuf", cc="bbr", server=programs("sink 5000 --rcvbuf 30000"),
        client=client("source $S 5000 --request 65536"), warm_up=4,
        why="SO_RCVBUF of 30000, the BDP is 250 kB",
        watch=both(5000, FIXED_WINDOW, fault("rcvbuf-locked")),
    ),
    Situation(
        "bbr-sndbuf-java", program="java", cc="bbr", prepare=JAVA,
        server=(("server", "exec java -cp $W Services source 5000 16384"),), settle=2,
        client=from_client("nc -d $S 5000 > /dev/null"), warm_up=4,
        why="setSendBufferSize(16384), the BDP is 250 kB",
        watch=at_server(5000, fault("sndbuf-locked")),
    ),
    Situation(
        "bbr-chunks", cc="bbr", rtt="20ms",
        server=(("server", f"exec {PY_SERVICES} chunks 5000 32000 0.02"),),
        client=from_client("nc -d $S 5000 > /dev/null"), why="32 kB each 20 ms: 12 of 50 Mbit/s",
        watch=both(5000, TAKES, PACED),
    ),
    Situation(
        "bbr-loss-3", program="nc", cc="bbr", queue="400p", path=("--loss", "3%"), server=NC_SINK,
        client=NC_SOURCE, warm_up=5, why="BBR fills the path in spite of 3 % loss",
        watch=at_sender(5000, FULL),
    ),
    Situation(
        "bbr-player", program="nginx", cc="bbr", rate="30mbit", rtt="80ms",
        prepare=(("server", "head -c 1000000 /dev/urandom > piece"),), server=NGINX,
        client=from_client(f"{PY_SERVICES} player http://$S/piece 1.5"), look=12,
        why="pieces of 1 MB after pauses of 1.5 s: BBR does not restart after a pause",
        watch=both(80, PAGES, PAGES),
    ),
    Situation(
        "bbr-pages-200k", program="java", cc="bbr", rtt="100ms", prepare=JAVA,
        server=(("server", "exec java -cp $W Services pages 5000 200000"),), settle=2,
        client=(("client", "while :; do curl -so /dev/null http://$S:5000/; done"),), warm_up=4,
        look=8, why="200 kB on new connections take four round trips with 10 segments",
        watch=both(5000, PAGES, fault("initcwnd-too-small")),
    ),
    Situation(
        "bbr-eight", program="iperf3", cc="bbr", rate="40mbit", rtt="30ms", queue="2bdp",
        server=IPERF_SERVER, client=iperf("-P 8"), warm_up=6, look=8,
        why="eight flows share the path", watch=at_sender(5201, FULL),
    ),
    Situation(
        "bbr-300ms", program="nc", cc="bbr", rate="30mbit", rtt="300ms", queue="2bdp",
        server=NC_SINK, client=NC_SOURCE, warm_up=10, look=8,
        why="the kernel's buffers suffice for 30 Mbit/s over 300 ms",
        watch=at_sender(5000, FULL),
    ),
    Situation(
        "acks-lost", program="nc", path=("--set", "path.reverse.loss=10%"), server=NC_SINK,
        client=NC_SOURCE, warm_up=5, why="every tenth ACK is lost, which the next one makes up for",
        watch=at_sender(5000, FULL),
    ),
    Situation(
        "duplicates", program="nc", path=("--set", "path.duplicate=5%"), server=NC_SINK,
        client=NC_SOURCE, warm_up=5, why="every twentieth packet comes twice, none is lost",
        watch=at_sender(5000, FULL),
    ),
    # Widened after the first run, which counts as wrong; see README.md.
    Situation(
        "rate-goes-up-and-down", program="nc", rate=None, rtt="50ms", queue="150p",
        path=("--set", "path.trace=2s 20mbit, 2s 5mbit"), server=NC_SINK, client=NC_SOURCE,
        warm_up=6, look=10, why="a radio link of 20 and 5 Mbit/s by turns is full",
        watch=at_sender(5000, TWO_MOVES),
    ),
    Situation(
        "copy-into-index", program="postgres", rate="1gbit", rtt="1ms", queue="1000p",
        prepare=POSTGRES, server=(POSTGRES_SERVER,), settle=2,
        client=(("client", "cd / && psql -qh $S -U postgres -c 'create table t (a text primary "
                           "key)' postgres; awk 'BEGIN {srand(1); for (;;) printf \"%d-%d-%d\\n\", "
                           "NR, rand() * 1e9, ++n}' | exec psql -h $S -U postgres -c "
                           "'\\copy t from stdin' postgres"),),
        warm_up=8, why="the database sorts what arrives into an index, slower than the path",
        watch=both(5432, healthy("slow-reader", "app-limited", "cpu-bound", "unknown",
                                 also=("slow-reader",)),
                   healthy("slow-reader", "cpu-bound", "unknown", also=("slow-reader",))),
    ),
    Situation(
        "psql-to-pv", program="postgres", rtt="20ms", prepare=POSTGRES, server=(POSTGRES_SERVER,),
        settle=2,
        client=(("client", "cd / && exec psql -h $S -U postgres -c \"\\copy (select repeat('x', "
                           "1000) from generate_series(1, 100000000)) to program "
                           "'pv -qL 400k > /dev/null'\" postgres"),),
        warm_up=30, why="psql writes to a pipe that is emptied at 400 kB/s",
        watch=both(5432, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "batches-of-100k", server=programs("answer 5000 --request 100000 --nodelay"),
        client=client("ask $S 5000 --request 100000 --nodelay"), look=6,
        why="a batch of 100 kB, its acknowledgement, the next one: nothing to set",
        watch=both(5000, healthy(*ONE_BY_ONE.accept, "path-full"), TAKES),
    ),
    # Widened after the first run, which counts as wrong; see README.md.
    Situation(
        "scp-limit", program="ssh", rtt="20ms", prepare=SSHD + (("client", "truncate -s 4G up"),),
        settle=1, server=(("server", "exec /usr/sbin/sshd -D -e -f $W/sshd_config"),),
        client=(("client", "exec scp -l 8000 -F $W/ssh_config up $S:/dev/null"),), warm_up=6,
        why="scp limits itself to 8 of 50 Mbit/s, and each block is answered",
        watch=both(2222, healthy(*PACED.accept, "application-thinks"), TAKES),
    ),
    Situation(
        "tunnel-redis", program="ssh", rtt="20ms", prepare=SSHD, settle=1,
        server=(*REDIS, ("server", "exec /usr/sbin/sshd -D -e -f $W/sshd_config")),
        client=(("client", "exec ssh -F $W/ssh_config -N -L 6400:127.0.0.1:6379 $S"),
                ("client", "sleep 1.5; exec redis-benchmark -p 6400 -c 1 -n 100000000 -t get -q")),
        warm_up=5, why="questions through a tunnel of ssh, one a round trip",
        watch=both(2222, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "small-buffers-little-traffic", rtt="20ms", server=programs("sink 5000 --rcvbuf 4096"),
        client=client("source $S 5000 --request 200 --sndbuf 4096 --pause 0.01"), warm_up=4,
        why="buffers are fixed and tiny, but 160 kbit/s need no more",
        watch=both(5000, PACED, TAKES),
    ),
    Situation(
        "events", program="go", rtt="60ms", prepare=GO,
        server=(("server", "exec $W/go serve 5000"),),
        client=from_client("curl -so /dev/null 'http://10.77.0.2:5000/chunks?bytes=300&ms=100'"),
        why="ten events a second", watch=both(5000, TAKES, PACED),
    ),
    Situation(
        "veth-loss", program="nc",
        prepare=(*DIRECT, ("client", "ethtool -K direct0 tso off gso off"),
                 ("server", "nft 'add table ip loss; add chain ip loss in { type filter hook "
                            "prerouting priority -300; }; add rule ip loss in iif direct1 numgen "
                            "random mod 100 < 2 drop'")),
        server=NC_SINK, client=from_client("nc 10.79.0.2 5000 < /dev/zero"), warm_up=5,
        why="2 % of the packets are lost at random, over 0.05 ms",
        watch=to_direct(fault("random-loss", "retransmission-timeouts"), 5000),
    ),
    Situation(
        "short-pages-veth-tbf", program="nginx",
        prepare=(*DIRECT, *FILES, ("server", "head -c 500000 /dev/urandom > page500k; "
                                             "tc qdisc replace dev direct1 root tbf rate 20mbit "
                                             "burst 16kb latency 100ms")),
        server=NGINX,
        client=(("client", "while :; do curl -so /dev/null http://10.79.0.2/page500k; sleep 0.1; "
                           "done"),), look=6,
        why="500 kB on new connections take 200 ms at 20 Mbit/s, whatever the window",
        watch={**to_direct(PAGES, 80), **at_direct_server(PAGES, 80)},
    ),
    Situation(
        "perl-two-prints", program="perl", cc="bbr", rtt="2ms", rate="100mbit", queue="1bdp",
        server=(("server", PERL_ANSWER),),
        client=client("ask $S 5000 --request 50 --reply 280 --nodelay"), warm_up=4,
        why="perl prints head and body of an answer apart, with Nagle on",
        watch=both(5000, STALLS, STALLS),
    ),
    Situation(
        "slow-reader-loss", rtt="20ms", path=("--loss", "0.1%"), queue="400p",
        server=programs("sink 5000 --rate 800000"),
        client=client("source $S 5000 --request 65536"), warm_up=12,
        why="the server reads 6.4 of 50 Mbit/s; losses of 0.1 % leave more than that",
        watch=both(5000, SLOW_READER, SLOW_READER),
    ),
]
