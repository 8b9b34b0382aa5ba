"""Situations that `tcptailor fit --pid` is judged by, in which packets are lost by chance: one by one and in a row.

Labels were written down before any of them was run, and that each change that is tried has a forecast whose interval
holds what is measured.
"""

from .commands import IPERF_SERVER, NGINX
from .further import from_client
from .guests_fits import NEVER
from .model import *
from .seeming import LOSS
from .visitors import LOSS_SEEN, server

BIG = (("server", "truncate -s 8G big"),)


def in_a_row(share, count):
    """Loses this share of the packets, so many in a row on average."""
    leave = 1 / count
    enter = leave * share / (1 - share)
    return ("--set", f"path.loss.good_to_bad={enter * 100:.4f}%", "--set", f"path.loss.bad_to_good={leave * 100:.2f}%")


TABLE = [
    (kept("server", "nginx", LOSS.right, "congestion", 2, 40), Situation(
        "losses-fit-curl", program="nginx", rate="80mbit", rtt="18ms", queue="2bdp", path=("--loss", "1.4%"), prepare=BIG,
        server=NGINX, client=from_client("curl -so /dev/null http://$S/big"), warm_up=7, look=6,
        why="14 packets of 1000 are lost, one by one", watch=both(80, LOSS_SEEN, LOSS),
    )),
    (kept("server", "nginx", LOSS.right, "congestion", 1.3, 25), Situation(
        "losses-fit-wget-rows", program="nginx", rate="30mbit", rtt="55ms", queue="2bdp", path=in_a_row(0.008, 4),
        prepare=BIG, server=NGINX, client=from_client("wget -qO /dev/null http://$S/big"), warm_up=8, look=6,
        why="eight packets of 1000 are lost, four in a row", watch=both(80, LOSS_SEEN, LOSS),
    )),
    (kept("client", "iperf3", LOSS.right, "congestion", 1.5, 25), Situation(
        "losses-fit-iperf3", program="iperf3", rate="140mbit", rtt="26ms", queue="2bdp", path=("--loss", "0.35%"),
        server=IPERF_SERVER, client=from_client("iperf3 -c $S -t 900"), warm_up=8, look=6,
        why="35 packets of 10 000 are lost, one by one", watch=both(5201, LOSS, LOSS_SEEN),
    )),
    (kept("client", "socat", LOSS.right, "congestion", 1.5, 30), Situation(
        "losses-fit-socat-long", program="socat", rate="22mbit", rtt="85ms", queue="2bdp", path=("--loss", "0.9%"),
        server=server("socat -u TCP-LISTEN:5000,reuseaddr OPEN:/dev/null"),
        client=from_client("socat -u OPEN:/dev/zero TCP:$S:5000"), warm_up=9, look=6,
        why="nine packets of 1000 are lost over 85 ms", watch=both(5000, LOSS, LOSS_SEEN),
    )),
    (kept("client", "iperf3", LOSS.right, "congestion", 1.5, 30), Situation(
        "losses-fit-iperf3-four", program="iperf3", rate="90mbit", rtt="38ms", queue="2bdp", path=("--loss", "1.1%"),
        server=IPERF_SERVER, client=from_client("iperf3 -c $S -t 900 -P 4"), warm_up=8, look=6,
        why="eleven packets of 1000 are lost of four streams", watch=both(5201, LOSS, LOSS_SEEN),
    )),
    (kept("client", "iperf3", LOSS.right, "congestion", 1.3, 25), Situation(
        "losses-fit-iperf3-rows", program="iperf3", rate="60mbit", rtt="30ms", queue="2bdp", path=in_a_row(0.01, 3),
        server=IPERF_SERVER, client=from_client("iperf3 -c $S -t 900"), warm_up=8, look=6,
        why="ten packets of 1000 are lost, three in a row", watch=both(5201, LOSS, LOSS_SEEN),
    )),
    (alone("server", "nginx", "path-full", "random-loss", ending=NEVER), Situation(
        "losses-fit-bbr", program="nginx", rate="45mbit", rtt="32ms", queue="2bdp", cc="bbr", path=("--loss", "0.9%"),
        prepare=BIG, server=NGINX, client=from_client("curl -so /dev/null http://$S/big"), warm_up=8, look=6,
        why="BBR fills a path that loses nine packets of 1000", watch=both(80, TAKES, FULL),
    )),
]
FITS = {situation.name: label for label, situation in TABLE}
SITUATIONS = [situation for _, situation in TABLE]
