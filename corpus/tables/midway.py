"""Bulk transfers under BBR, captured at the sender, on the way, and at the receiver.

Labels were written down before any of them was run. The first half is what rules may be fitted to;
those whose names begin with `later` were added, and run, after the rules were changed. Those that
begin with `dropped` and `lossy` were added when what arrived behind gaps began to count, and run after
that; `kept` and `room` after what that first run had shown was mended.
"""

from .commands import FILES, IPERF_SERVER, NGINX, client, iperf, programs
from .further import curl, from_client
from .model import *
from .services import POLICE, POLICED
from .shaped import NC_SINK, NC_SOURCE, TWO_MOVES

ROUTED = {"cc": "bbr", "router": True, "warm_up": 6, "look": 8}
SHAPED = "tc qdisc replace dev far0 root tbf rate {rate} burst 10kb limit {limit}"
# What a sender with a small buffer or a slow program shows to others.
HELD_BACK = healthy("app-limited", "paced", "idle", "unknown", "round-trip-bound")


def police(rate, burst):
    return (("router", POLICE.format(dev="lab0", rate=rate, burst=burst)),)


SITUATIONS = [
    Situation(
        "way-rate", program="nc", rate="30mbit", rtt="40ms", queue="1bdp", **ROUTED,
        server=NC_SINK, client=NC_SOURCE, why="the path carries 30 Mbit/s",
        watch=both(5000, FULL, FULL),
    ),
    Situation(
        "way-rate-shaper", program="iperf3", rate="300mbit", rtt="60ms", queue="2000p", **ROUTED,
        prepare=(("router", SHAPED.format(rate="20mbit", limit="300kb")),),
        server=IPERF_SERVER, client=iperf(), why="a router shapes to 20 Mbit/s, with a queue of 2 BDP",
        watch=both(5201, TWO_MOVES, TWO_MOVES),
    ),
    Situation(
        "way-rate-download", program="nginx", rate="50mbit", rtt="20ms", queue="2bdp", **ROUTED,
        prepare=FILES, server=NGINX, client=curl("/big"), why="a download fills the path",
        watch=both(80, FULL, FULL),
    ),
    Situation(
        "way-window", rate="50mbit", rtt="40ms", **ROUTED,
        server=programs("sink 5000 --rcvbuf 60000"), client=client("source $S 5000 --request 65536"),
        why="SO_RCVBUF of 60000, the BDP is 250 kB",
        watch=both(5000, FIXED_WINDOW, FIXED_WINDOW),
    ),
    Situation(
        "way-sndbuf", rate="50mbit", rtt="40ms", **ROUTED,
        server=programs("sink 5000"), client=client("source $S 5000 --request 65536 --sndbuf 60000"),
        why="SO_SNDBUF of 60000, the BDP is 250 kB; packets do not tell it from a full window",
        watch=both(5000, fault("sndbuf-locked"), HELD_BACK),
    ),
    Situation(
        "way-application", program="iperf3", rate="50mbit", rtt="40ms", **ROUTED,
        server=IPERF_SERVER, client=iperf("-b 12M"), why="iperf3 -b writes 12 of 50 Mbit/s",
        watch=both(5201, PACED, HELD_BACK),
    ),
    Situation(
        "way-policed", program="nc", rate="200mbit", rtt="40ms", queue="2000p", **ROUTED,
        prepare=police("3750 kbytes/second", "60 kbytes"), server=NC_SINK, client=NC_SOURCE,
        why="what exceeds 30 Mbit/s is dropped on arrival", watch=both(5000, POLICED, POLICED),
    ),
    Situation(
        "unseen-way-rate", program="nc", rate="15mbit", rtt="100ms", queue="1bdp", **ROUTED,
        server=NC_SINK, client=NC_SOURCE, why="the path carries 15 Mbit/s",
        watch=both(5000, FULL, FULL),
    ),
    Situation(
        "unseen-way-rate-short", program="iperf3", rate="80mbit", rtt="10ms", queue="1bdp",
        **ROUTED, server=IPERF_SERVER, client=iperf(), why="the path carries 80 Mbit/s",
        watch=both(5201, FULL, FULL),
    ),
    Situation(
        "unseen-way-rate-shaper", program="nc", rate="300mbit", rtt="30ms", queue="2000p", **ROUTED,
        prepare=(("router", SHAPED.format(rate="40mbit", limit="200kb")),),
        server=NC_SINK, client=NC_SOURCE, why="a router shapes to 40 Mbit/s, with a queue of 1.3 BDP",
        watch=both(5000, TWO_MOVES, TWO_MOVES),
    ),
    Situation(
        "unseen-way-rate-download", program="nginx", rate="25mbit", rtt="80ms", queue="1bdp",
        **ROUTED, prepare=FILES, server=NGINX, client=curl("/big"),
        why="a download fills the path", watch=both(80, FULL, FULL),
    ),
    Situation(
        "unseen-way-window", rate="100mbit", rtt="25ms", **ROUTED,
        server=programs("sink 5000 --rcvbuf 100000"), client=client("source $S 5000 --request 65536"),
        why="SO_RCVBUF of 100000, the BDP is 312 kB",
        watch=both(5000, FIXED_WINDOW, FIXED_WINDOW),
    ),
    Situation(
        "unseen-way-sndbuf", rate="80mbit", rtt="60ms", **ROUTED,
        server=programs("sink 5000"), client=client("source $S 5000 --request 65536 --sndbuf 100000"),
        why="SO_SNDBUF of 100000, the BDP is 600 kB; packets do not tell it from a full window",
        watch=both(5000, fault("sndbuf-locked"), HELD_BACK),
    ),
    Situation(
        "unseen-way-application", program="nginx", rate="60mbit", rtt="30ms", **ROUTED,
        prepare=FILES, server=NGINX, client=curl(":82/big"),
        why="limit_rate 3m: nginx writes 24 of 60 Mbit/s", watch=both(82, HELD_BACK, HELD_BACK),
    ),
    Situation(
        "unseen-way-policed", program="iperf3", rate="200mbit", rtt="60ms", queue="2000p", **ROUTED,
        prepare=police("2500 kbytes/second", "50 kbytes"), server=IPERF_SERVER, client=iperf(),
        why="what exceeds 20 Mbit/s is dropped on arrival", watch=both(5201, POLICED, POLICED),
    ),
    Situation(
        "later-way-rate-40m", program="nc", rate="40mbit", rtt="50ms", queue="1bdp", **ROUTED,
        server=NC_SINK, client=NC_SOURCE, why="the path carries 40 Mbit/s",
        watch=both(5000, FULL, FULL),
    ),
    Situation(
        "later-way-rate-10m", rate="10mbit", rtt="150ms", queue="1bdp", **ROUTED,
        server=programs("sink 5000"), client=client("source $S 5000 --request 65536"),
        why="the path carries 10 Mbit/s", watch=both(5000, FULL, FULL),
    ),
    Situation(
        "later-way-rate-60m", program="iperf3", rate="60mbit", rtt="30ms", queue="2bdp", **ROUTED,
        server=IPERF_SERVER, client=iperf(), why="the path carries 60 Mbit/s",
        watch=both(5201, FULL, FULL),
    ),
    Situation(
        "later-way-window", rate="40mbit", rtt="60ms", **ROUTED,
        server=programs("sink 5000 --rcvbuf 150000"),
        client=client("source $S 5000 --request 65536"),
        why="SO_RCVBUF of 150000, of which a window gets a part; the BDP is 300 kB",
        watch=both(5000, FIXED_WINDOW, FIXED_WINDOW),
    ),
    Situation(
        "later-way-sndbuf", rate="50mbit", rtt="50ms", **ROUTED, server=programs("sink 5000"),
        client=client("source $S 5000 --request 65536 --sndbuf 80000"),
        why="SO_SNDBUF of 80000, the BDP is 312 kB; packets do not tell it from a full window",
        watch=both(5000, fault("sndbuf-locked"), HELD_BACK),
    ),
    Situation(
        "later-way-application", program="iperf3", rate="40mbit", rtt="35ms", **ROUTED,
        server=IPERF_SERVER, client=iperf("-b 20M"), why="iperf3 -b writes 20 of 40 Mbit/s",
        watch=both(5201, PACED, HELD_BACK),
    ),
    Situation(
        "later-way-paced", rate="50mbit", rtt="40ms", **ROUTED, server=programs("sink 5000"),
        client=client("source $S 5000 --request 65536 --pacing 2500000"),
        why="SO_MAX_PACING_RATE of 20 Mbit/s: one rate, and no queue",
        watch=both(5000, PACED, HELD_BACK),
    ),
    Situation(
        "later-way-slow-reader", rate="50mbit", rtt="40ms", **ROUTED,
        server=programs("sink 5000 --rate 2000000"),
        client=client("source $S 5000 --request 65536"), why="the server reads 16 of 50 Mbit/s",
        watch=both(5000, SLOW_READER, SLOW_READER),
    ),
    Situation(
        "later-way-policed", program="nc", rate="200mbit", rtt="30ms", queue="2000p", **ROUTED,
        prepare=police("5000 kbytes/second", "80 kbytes"), server=NC_SINK, client=NC_SOURCE,
        why="what exceeds 40 Mbit/s is dropped on arrival", watch=both(5000, POLICED, POLICED),
    ),
    Situation(
        "dropped-way-8m", program="nc", rate="100mbit", rtt="80ms", queue="2000p", **ROUTED,
        prepare=police("1000 kbytes/second", "40 kbytes"), server=NC_SINK, client=NC_SOURCE,
        why="what exceeds 8 Mbit/s is dropped on arrival", watch=both(5000, POLICED, POLICED),
    ),
    Situation(
        "dropped-way-60m", program="iperf3", rate="200mbit", rtt="25ms", queue="2000p", **ROUTED,
        prepare=police("7500 kbytes/second", "150 kbytes"), server=IPERF_SERVER, client=iperf(),
        why="what exceeds 60 Mbit/s is dropped on arrival", watch=both(5201, POLICED, POLICED),
    ),
    Situation(
        "dropped-way-download", program="nginx", rate="200mbit", rtt="50ms", queue="2000p",
        **ROUTED, prepare=FILES + (("router", POLICE.format(
            dev="far0", rate="3000 kbytes/second", burst="60 kbytes")),),
        server=NGINX, client=curl("/big"), why="a download, of which 24 Mbit/s are let through",
        watch=both(80, POLICED, POLICED),
    ),
    Situation(
        "dropped-way-cubic", program="nc", rate="200mbit", rtt="40ms", queue="2000p",
        **{**ROUTED, "cc": "cubic"}, prepare=police("2500 kbytes/second", "60 kbytes"),
        server=NC_SINK, client=NC_SOURCE, why="what exceeds 20 Mbit/s is dropped on arrival",
        watch=both(5000, POLICED, POLICED),
    ),
    Situation(
        "lossy-way-application", program="iperf3", rate="60mbit", rtt="40ms", **ROUTED,
        path=("--set", "path.loss=0.5%"), server=IPERF_SERVER, client=iperf("-b 15M"),
        why="iperf3 -b writes 15 of 60 Mbit/s, and losses take nothing from that",
        watch=both(5201, PACED, HELD_BACK),
    ),
    Situation(
        "lossy-way-paced", rate="60mbit", rtt="50ms", **ROUTED, path=("--set", "path.loss=1%"),
        server=programs("sink 5000"),
        client=client("source $S 5000 --request 65536 --pacing 1900000"),
        why="SO_MAX_PACING_RATE of 15 Mbit/s, and losses take nothing from that",
        watch=both(5000, PACED, HELD_BACK),
    ),
    Situation(
        "lossy-way-window", rate="60mbit", rtt="40ms", **ROUTED, path=("--set", "path.loss=0.3%"),
        server=programs("sink 5000 --rcvbuf 100000"),
        client=client("source $S 5000 --request 65536"),
        why="SO_RCVBUF of 100000, the BDP is 300 kB",
        watch=both(5000, FIXED_WINDOW, FIXED_WINDOW),
    ),
    Situation(
        "lossy-way-cubic", program="nc", rate="60mbit", rtt="40ms", queue="1bdp",
        **{**ROUTED, "cc": "cubic"}, path=("--set", "path.loss=0.5%"),
        server=NC_SINK, client=NC_SOURCE, why="one packet of 200 is lost, and CUBIC slows down",
        watch=both(5000, fault("random-loss"), fault("random-loss")),
    ),
    Situation(
        "lossy-way-rate", program="nc", rate="25mbit", rtt="40ms", queue="1bdp", **ROUTED,
        path=("--set", "path.loss=0.5%"), server=NC_SINK, client=NC_SOURCE,
        why="the path carries 25 Mbit/s, which BBR uses in spite of losses",
        watch=both(5000, FULL, FULL),
    ),
    Situation(
        "kept-way-12m", program="iperf3", rate="150mbit", rtt="70ms", queue="2000p", **ROUTED,
        prepare=police("1500 kbytes/second", "90 kbytes"), server=IPERF_SERVER, client=iperf(),
        why="what exceeds 12 Mbit/s is dropped on arrival", watch=both(5201, POLICED, POLICED),
    ),
    Situation(
        "kept-way-50m", program="nc", rate="200mbit", rtt="35ms", queue="2000p", **ROUTED,
        prepare=police("6250 kbytes/second", "50 kbytes"), server=NC_SINK, client=NC_SOURCE,
        why="what exceeds 50 Mbit/s is dropped on arrival", watch=both(5000, POLICED, POLICED),
    ),
    Situation(
        "kept-way-download", program="nginx", rate="100mbit", rtt="90ms", queue="2000p",
        **ROUTED, prepare=FILES + (("router", POLICE.format(
            dev="far0", rate="2000 kbytes/second", burst="120 kbytes")),),
        server=NGINX, client=curl("/big"), why="a download, of which 16 Mbit/s are let through",
        watch=both(80, POLICED, POLICED),
    ),
    Situation(
        "kept-way-two", program="iperf3", rate="200mbit", rtt="40ms", queue="2000p", **ROUTED,
        prepare=police("5000 kbytes/second", "100 kbytes"), server=IPERF_SERVER,
        client=iperf("-P 2"), why="what exceeds 40 Mbit/s of two connections is dropped on arrival",
        watch=both(5201, POLICED, POLICED),
    ),
    Situation(
        "room-way-application", program="nginx", rate="100mbit", rtt="45ms", **ROUTED,
        prepare=FILES, path=("--set", "path.loss=0.2%"), server=NGINX, client=curl(":82/big"),
        why="limit_rate 3m: nginx writes 24 of 100 Mbit/s", watch=both(82, HELD_BACK, HELD_BACK),
    ),
    Situation(
        "room-way-sndbuf", rate="80mbit", rtt="40ms", **ROUTED, path=("--set", "path.loss=0.3%"),
        server=programs("sink 5000"),
        client=client("source $S 5000 --request 65536 --sndbuf 120000"),
        why="SO_SNDBUF of 120000, the BDP is 400 kB; packets do not tell it from a full window",
        watch=both(5000, fault("sndbuf-locked"), HELD_BACK),
    ),
    Situation(
        "room-way-window", rate="80mbit", rtt="50ms", **ROUTED, path=("--set", "path.loss=0.5%"),
        server=programs("sink 5000 --rcvbuf 140000"),
        client=client("source $S 5000 --request 65536"),
        why="SO_RCVBUF of 140000, the BDP is 500 kB",
        watch=both(5000, FIXED_WINDOW, FIXED_WINDOW),
    ),
    Situation(
        "room-way-blocks", program="iperf3", rate="100mbit", rtt="60ms", **ROUTED,
        server=IPERF_SERVER, client=iperf("-b 10M -l 1M"),
        why="iperf3 -b writes a megabyte at once, 10 of 100 Mbit/s",
        watch=both(5201, PACED, HELD_BACK),
    ),
]
