"""Situations that look like other ones: waits of the path, of an interface or of a program.

Labels were written down before any of them was run.
"""

from .commands import FILES, IPERF_SERVER, NGINX, REDIS, SSHD, client, iperf, programs
from .model import *

# Of pages that no setting makes faster, from either end.
PAGES = healthy("unknown", "app-limited", "path-full", "round-trip-bound", "application-thinks",
                "idle")
# Of who asks ahead for what fills the path.
ASKS = healthy("unknown", "app-limited", "path-full")
SLOW = {"rate": "4mbit", "rtt": "40ms", "queue": "100p"}
# What goes back and forth over a path that takes its time: no program does.
TRAVELS = healthy("unknown", "app-limited", "path-full", "round-trip-bound", "idle")
LOSS = fault("random-loss")
RESTARTS = fault("slow-start-after-idle")

SITUATIONS = [
    Situation(
        "tbf-here", program="iperf3", rate="200mbit", rtt="80ms", queue="2000p",
        prepare=(("client", "tc qdisc replace dev lab0 root tbf rate 50mbit burst 60kb limit 1mb"),),
        server=IPERF_SERVER, client=iperf(), warm_up=6,
        why="the client's host shapes to 50 Mbit/s at its own interface: the path is full",
        watch=at_sender(5201, FULL),
    ),
    Situation(
        "tbf-here-loss", program="iperf3", rate="200mbit", queue="2000p",
        path=("--loss", "0.1%"),
        prepare=(("client", "tc qdisc replace dev lab0 root tbf rate 10mbit burst 20kb limit 1mb"),),
        server=IPERF_SERVER, client=iperf(), warm_up=6,
        why="the client's host shapes to 10 Mbit/s, which losses of 0.1 % leave full",
        watch=at_sender(5201, FULL),
    ),
    Situation(
        "ping-beside-upload", program="redis", rate="5mbit", rtt="20ms", queue="150p",
        server=(*IPERF_SERVER, *REDIS), warm_up=6,
        client=(*iperf(), ("client", "sleep 1; exec redis-benchmark -h $S -c 1 -n 100000000 "
                                     "-t get -q")),
        why="an upload fills a queue of 360 ms, and each request waits behind it",
        watch=both(6379, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "iperf-loss-5", program="iperf3", queue="400p", path=("--loss", "5%"),
        server=IPERF_SERVER, client=iperf(), why="5 % random loss on the wire",
        watch=at_sender(5201, LOSS),
    ),
    Situation(
        "loss-8-curl", program="nginx", queue="400p", path=("--loss", "8%"), prepare=FILES,
        server=NGINX, client=(("client", "exec curl -so /dev/null http://$S/big"),),
        why="8 % random loss on the wire", watch=at_server(80, LOSS),
    ),
    Situation(
        "loss-2-300ms", program="iperf3", rate="20mbit", rtt="300ms", queue="1000p",
        path=("--loss", "2%"), server=IPERF_SERVER, client=iperf(), warm_up=6, look=10,
        why="2 % random loss on the wire, over 300 ms", watch=at_sender(5201, LOSS),
    ),
    Situation(
        "sftp-get", program="ssh", prepare=SSHD + FILES, settle=1, warm_up=5,
        server=(("server", "exec /usr/sbin/sshd -D -e -f $W/sshd_config"),),
        client=(("client", "echo \"get $W/big /dev/null\" | exec sftp -b - -F $W/ssh_config $S"),),
        why="SFTP asks for many blocks ahead, and what comes fills the path",
        watch=both(2222, ASKS, FULL),
    ),
    Situation(
        "pages-slow-link", program="nginx", **SLOW, prepare=FILES, server=NGINX, look=6,
        client=(("client", "while :; do curl -so /dev/null http://$S/page60k; sleep 0.1; done"),),
        why="60 kB on new connections take 120 ms at 4 Mbit/s, whatever the window",
        watch=both(80, PAGES, PAGES),
    ),
    Situation(
        "kept-pages-4mbit", **SLOW, server=programs("answer 5000 --reply 60000 --nodelay"),
        client=client("ask $S 5000 --nodelay --reply 60000 --pause 0.6"), look=8,
        why="60 kB after each pause take 120 ms at 4 Mbit/s, whatever the window",
        watch=both(5000, PAGES, PAGES),
    ),
    Situation(
        "pages-worked-for", rtt="20ms", look=8,
        server=programs("answer 5000 --reply 50000 --nodelay --think 0.5"),
        client=client("ask $S 5000 --nodelay --reply 50000"),
        why="the server works half a second on each page, which takes the network 60 ms",
        watch=both(5000, THINKS, THINKS_HERE),
    ),
    Situation(
        "lan-sink", rate="1gbit", rtt="0.2ms", queue="1000p", warm_up=4,
        server=programs("sink 5000 --rate 3000000"),
        client=client("source $S 5000 --request 65536"),
        why="the server reads 24 of 1000 Mbit/s", watch=both(5000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "pages-300k-loss", program="nginx", queue="400p", path=("--loss", "1%"),
        prepare=(*FILES, ("server", "head -c 300000 /dev/urandom > page300k")), server=NGINX,
        client=(("client", "exec wrk -c 1 -t 1 -d 100 http://$S/page300k"),), look=6,
        why="1 % random loss on the wire",
        watch=both(80, healthy("unknown", "app-limited", "path-full", "round-trip-bound"), LOSS),
    ),
    Situation(
        "two-pieces-loss-2", rate="100mbit", rtt="10ms", path=("--loss", "2%"), look=8,
        server=programs("answer 5000 --nodelay --request 400"),
        client=client("ask $S 5000 --nodelay --writes 2 --request 400"),
        why="questions of two small pieces, and 2 % random loss: timers, and no window",
        watch=both(5000, healthy(*TRAVELS.accept, "retransmission-timeouts",
                                 also=("retransmission-timeouts",)),
                   healthy(*TRAVELS.accept, "retransmission-timeouts",
                           also=("retransmission-timeouts",))),
    ),
    Situation(
        "blocks-up-thin", rate="1mbit", rtt="40ms", queue="100p", look=8,
        server=programs("answer 5000 --nodelay --request 30000"),
        client=client("ask $S 5000 --nodelay --request 30000"),
        why="each question of 30 kB takes 240 ms at 1 Mbit/s, and is answered at once",
        watch=both(5000, TRAVELS, TRAVELS),
    ),
    Situation(
        "bursts-up", rtt="80ms", look=10, server=programs("answer 5000 --nodelay --request 300000"),
        client=client("ask $S 5000 --nodelay --request 300000 --pause 0.7"),
        why="300 kB after each pause of 0.7 s: the window restarts, which shows at the client alone",
        watch=both(5000, RESTARTS, TRAVELS),
    ),
    Situation(
        "pages-after-pauses", rtt="80ms", look=10,
        server=programs("answer 5000 --nodelay --reply 300000"),
        client=client("ask $S 5000 --nodelay --reply 300000 --pause 0.7"),
        why="pages of 300 kB after pauses of 0.7 s: the server's window restarts",
        watch=both(5000, PAGES, RESTARTS),
    ),
    Situation(
        "short-pages-fast", program="nginx", rtt="80ms", prepare=FILES, server=NGINX, look=8,
        client=(("client", "while :; do curl -so /dev/null http://$S/page60k; sleep 0.1; done"),),
        why="60 kB on new connections take three round trips with 10 segments, one with 45",
        watch=both(80, PAGES, fault("initcwnd-too-small")),
    ),
    Situation(
        "lan-sink-fast", rate="1gbit", rtt="0.2ms", queue="1000p", warm_up=4,
        server=programs("sink 5000 --rate 12000000"),
        client=client("source $S 5000 --request 65536"),
        why="the server reads 96 of 1000 Mbit/s", watch=both(5000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "lan100-sink", rate="100mbit", rtt="1ms", queue="200p", warm_up=4,
        server=programs("sink 5000 --rate 5000000"),
        client=client("source $S 5000 --request 65536"),
        why="the server reads 40 of 100 Mbit/s", watch=both(5000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "lan100-rcvbuf", rate="100mbit", rtt="1ms", queue="200p", warm_up=4,
        server=programs("sink 5000 --rcvbuf 65536"),
        client=client("source $S 5000 --request 65536"),
        why="64 KiB are five BDPs of 12.5 kB: the path is full", watch=both(5000, FULL, TAKES),
    ),
    Situation(
        "ping-beside-download", program="redis", rate="5mbit", rtt="20ms", queue="150p",
        server=(*IPERF_SERVER, *REDIS), warm_up=6,
        client=(*iperf("-R"), ("client", "sleep 1; exec redis-benchmark -h $S -c 1 -n 100000000 "
                                         "-t get -q")),
        why="a download fills a queue of 360 ms, and each answer waits behind it",
        watch=both(6379, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "ping-then-upload", program="redis", rate="5mbit", rtt="20ms", queue="60p",
        server=(*IPERF_SERVER, *REDIS), warm_up=7,
        client=(("client", "exec redis-benchmark -h $S -c 1 -n 100000000 -t get -q"),
                ("client", "sleep 2; exec iperf3 -c $S -t 100")),
        why="an upload fills a queue of 140 ms after the pings began",
        watch=both(6379, BY_ROUND_TRIPS, SOME_TRAFFIC),
    ),
    Situation(
        "thinks-45ms", rtt="20ms", server=programs("answer 5000 --think 0.045"),
        client=client("ask $S 5000 --nodelay"),
        why="the server thinks 45 ms, hardly longer than it delays an ACK",
        watch=both(5000, THINKS, THINKS_HERE),
    ),
    Situation(
        "thinks-200ms", rtt="60ms", server=programs("answer 5000 --think 0.2"),
        client=client("ask $S 5000 --nodelay"), why="the server thinks 200 ms, the path takes 60",
        watch=both(5000, THINKS, THINKS_HERE),
    ),
    Situation(
        "client-pauses-100ms", rtt="20ms",
        server=programs("answer 5000 --reply 40000 --nodelay"),
        client=client("ask $S 5000 --nodelay --reply 40000 --pause 0.1"),
        why="the client pauses 100 ms after each page of 40 kB",
        watch=both(5000, healthy("application-thinks", "app-limited", "unknown"), PAGES),
    ),
    Situation(
        "tbf-here-bbr", program="iperf3", rate="200mbit", queue="2000p", cc="bbr",
        prepare=(("client", "tc qdisc replace dev lab0 root tbf rate 20mbit burst 60kb limit 1mb"),),
        server=IPERF_SERVER, client=iperf(), warm_up=5,
        why="the client's host shapes to 20 Mbit/s: the path is full",
        watch=at_sender(5201, FULL),
    ),
]
