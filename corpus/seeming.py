"""Situations that look like other ones: waits of the path, of an interface or of a program.

Labels were written down before any of them was run.
"""

from cases import FILES, IPERF_SERVER, NGINX, REDIS, SSHD, client, iperf, programs
from model import (
    BY_ROUND_TRIPS,
    FULL,
    SLOW_READER,
    SOME_TRAFFIC,
    THINKS,
    THINKS_HERE,
    Situation,
    at_sender,
    at_server,
    both,
    fault,
    healthy,
)

# Of pages that no setting makes faster, from either end.
PAGES = healthy("unknown", "app-limited", "path-full", "round-trip-bound", "application-thinks",
                "idle")
# Of who asks ahead for what fills the path.
ASKS = healthy("unknown", "app-limited", "path-full")
SLOW = {"rate": "4mbit", "rtt": "40ms", "queue": "100p"}
LOSS = fault("random-loss")

CONFIGS = {}

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
]
