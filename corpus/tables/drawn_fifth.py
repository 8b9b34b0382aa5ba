"""Situations of two more seeds, **drawn** as those of `drawn.py` are, of programs that it has not, and with
causes that it has not: TLS, uploads, BBR before a shallow queue, policers, Nagle's algorithm at the
client, buffers by the programs' own options, and load generators.

Each cause is drawn as often as `CAUSES` has it, so that all are covered. Labels follow from what is
drawn by physics alone, written before any was run.
"""

from . import drawn
from . import fifth_programs as programs
from .drawn import (CLEAR, NOTHING, TAKES, Path, between, is_below, label, lost_to_pause, path,
                   receiver_of, rounds)
from .fifth_programs import CONFIGS
from .model import Situation
from .services import POLICE

SEEDS = (5, 6)


def bulk(draw, sndbuf=0):
    """A bulk transfer, whichever way it goes."""
    if sndbuf:
        make = draw.choice((
            lambda: programs.download("tomcat", "curl", sndbuf=sndbuf),
            lambda: programs.download("stunnel", "curl", sndbuf=sndbuf),
            lambda: programs.proftpd(True, "curl", server=f"SocketOptions sndbuf {sndbuf}"),
            lambda: programs.proftpd(False, "ncftp", options=f"-B {sndbuf}"),
            lambda: programs.socat_tls(sndbuf=sndbuf)))
        return make()
    down = draw.random() < 0.5
    name = draw.choice(sorted(programs.WEB))
    make = draw.choice((
        lambda: programs.download(name, "curl"), lambda: programs.download(name, "curl"),
        lambda: programs.proftpd(down, draw.choice(("ncftp", "curl"))),
        lambda: programs.tcpserver(down), programs.socat_tls, lambda: programs.websockets("bulk"),
        lambda: programs.upload("koa", tls=draw.random() < 0.5), lambda: programs.upload("hapi")))
    return make()


# Causes. Each gives (label, kit, path, further preparation, sentence), or None to draw again.


def full(draw, at):
    return drawn.full(draw, at, bulk)


def bloat(draw, at):
    return drawn.bloat(draw, at, bulk)


def lossy(draw, at):
    return drawn.lossy(draw, at, bulk)


def small_wmem(draw, at):
    return drawn.small_wmem(draw, at, bulk)


def small_rmem(draw, at):
    return drawn.small_rmem(draw, at, bulk)


def small_sndbuf(draw, at):
    return drawn.small_sndbuf(draw, at, bulk)


def full_bbr_shallow(draw, at):
    """BBR's probes overflow a queue of half of a BDP and less; it fills the path all the same."""
    kit = bulk(draw)
    at = Path(between(draw, 8, 120), between(draw, 8, 80), draw.uniform(0.15, 0.5), 0, "bbr")
    if at.rate > kit.most or at.fill > 0.6 or not is_below(at.bdp * 2, drawn.MOST_WINDOW):
        return None
    end = draw.choice((kit.sender, kit.sender, receiver_of(kit)))
    why = f"BBR fills the path, and overflows its queue of {at.fill:.2f} BDP"
    limit = {"path-full"} if end == kit.sender else {*TAKES, "policed", "random-loss"}
    return label(kit, end, limit, NOTHING if end != kit.sender else None), kit, at, (), why


def policed(draw, at):
    """What exceeds a rate is dropped on arrival; the burst is a BDP of that rate or two."""
    kit = bulk(draw)
    if kit is None:
        return None
    at = Path(between(draw, 80, 150), between(draw, 10, 50), 0, 0, "cubic")
    at = Path(at.rate, at.rtt, 3e6 / at.bdp, 0, at.cc)
    mbit = between(draw, 8, 30)
    burst = mbit * at.rtt * 125 * draw.uniform(1, 2)
    if burst < 30_000 or kit.sender != "server":
        return None
    limiter = POLICE.format(dev="lab0", rate=f"{mbit * 1e6 / 8 / 1024:.0f} kbytes/second",
                            burst=f"{burst / 1024:.0f} kbytes")
    why = f"what exceeds {mbit:.0f} Mbit/s is dropped on arrival, but for bursts of {burst:.0f} bytes"
    return (label(kit, "server", ("policed", "path-full"), (*NOTHING[:2], "not-distinguishable")), kit, at,
            (("client", limiter),), why)


def small_rcvbuf(draw, at):
    """By the option of a program; httperf sets 16 KiB of itself. What the receiver sees."""
    held = round(at.bdp / draw.uniform(3, 8))
    name = draw.choice(("merecat", "tomcat"))
    make = draw.choice((
        lambda: programs.socat_tls(rcvbuf=held),
        lambda: programs.proftpd(True, "ncftp", options=f"-B {held}"),
        lambda: programs.proftpd(False, "curl", server=f"SocketOptions rcvbuf {held}"),
        lambda: programs.download(name, "httperf", options=f"--recv-buffer {held} --num-conns 1000")))
    kit = make()
    # Above what net.core.rmem_max allows the program gets less.
    if not 8_000 < held < 200_000 or at.rtt < 5 or at.loss or at.rate / 2 > kit.most:
        return None
    if at.bdp * 2 > drawn.MOST_WINDOW:
        return None
    limit = {"rcvbuf-locked"}
    if is_below(held, 65535):
        limit.add("window-scaling-off")
    elif not is_below(65535, held):
        return None
    end = draw.choice(("server", "client"))
    why = f"SO_RCVBUF is {held}, which is the window, the BDP {at.bdp:.0f} bytes"
    if end == kit.sender:
        return label(kit, end, {"peer-window", *limit}, NOTHING), kit, at, (), why
    return label(kit, end, limit, ("out-of-reach",)), kit, at, (), why


def writes_apart(draw, at):
    """Requests whose head and body are written apart, with Nagle on: the body waits for the ACK of the
    head, 40 ms late."""
    size = round(between(draw, 50, 1200))
    if at.rtt > 20 or at.loss:
        return None
    kit = programs.php_posts(size)
    end = draw.choice(("server", "client"))
    slow = 2 * at.rtt + 40
    why = f"head and body of a request of {size} bytes apart: {slow:.0f} ms in place of {at.rtt:.1f}"
    # Koa takes some 2 ms.
    if end == "server":
        gain = slow / (2 * at.rtt + 4) / CLEAR, (slow + 8) / max(2 * at.rtt, 0.5) * CLEAR
        return (label(kit, end, {"nagle-delack-stall"}, knob="route.quickack", gain=gain), kit, at, (),
                why)
    gain = slow / (at.rtt + 4) / CLEAR, (slow + 8) / max(at.rtt, 0.5) * CLEAR
    return label(kit, end, {"nagle-delack-stall"}, knob="nodelay", gain=gain), kit, at, (), why


def limited(draw, at):
    """By a slow source: what feeds the program, or a rate of its own."""
    mbit = at.rate * draw.uniform(0.05, 0.6)
    kilobytes = round(mbit * 1e6 / 8 / 1024)
    if kilobytes < 40 or mbit > 60 or at.loss or not is_below(mbit * at.rtt * 125, drawn.MOST_WINDOW):
        return None
    make = draw.choice((
        lambda: programs.tcpserver_paced(kilobytes, "pipe"),
        lambda: programs.tcpserver_paced(kilobytes, "sender"),
        lambda: programs.proftpd(True, "curl", rate=f"TransferRate RETR {kilobytes}")))
    kit = make()
    end = draw.choice((kit.sender, kit.sender, receiver_of(kit)))
    why = f"the program sends {mbit:.1f} of {at.rate:.0f} Mbit/s"
    if end == kit.sender:
        return (label(kit, end, ("app-limited", "paced", "application-thinks"), NOTHING), kit, at, (),
                why)
    return label(kit, end, TAKES, NOTHING), kit, at, (), why


def slow_reader(draw, at):
    kilobytes = round(at.rate / draw.uniform(3, 10) * 1e6 / 8 / 1024)
    if not 60 < kilobytes < 5000 or at.loss or not is_below(kilobytes * at.rtt, 64_000):
        return None
    name = draw.choice(sorted(programs.WEB))
    make = draw.choice((
        lambda: programs.download(name, "curl", options=f"--limit-rate {kilobytes}k"),
        lambda: programs.proftpd(True, "curl", options=f"--limit-rate {kilobytes}k"),
        lambda: programs.tcpserver_paced(kilobytes, "reader")))
    kit = make()
    end = draw.choice(("server", "client"))
    why = f"the reader takes {kilobytes} KiB/s of {at.rate:.0f} Mbit/s"
    return label(kit, end, ("slow-reader",), NOTHING[:2]), kit, at, (), why


def restarts(draw, at):
    """Bursts after pauses that are longer than the timeout, in which the window starts anew."""
    size, pause = round(between(draw, 100_000, 800_000)), draw.uniform(0.9, 2.5)
    if at.rtt < 40 or at.loss or at.rate > 250 or at.cc == "bbr" or at.bdp < size / 2:
        return None
    lost = (rounds(min(size, at.bdp), 10) - 1) * at.rtt
    quick = at.rtt + at.serialise(size)
    gains = [lost_to_pause(at, size, idle) for idle in (pause - 2 * at.rtt / 1000, pause)]
    # Of the time from one burst to the next a tenth; and a burst that leaves at once fits in the queue.
    if min(gains) < CLEAR * 0.1 * (quick + max(gains) + pause * 1000) or size * 1.1 > at.queue_bytes:
        return None
    lost = min(gains)
    every = pause + (quick + lost) / 1000
    name = draw.choice(("merecat", "tomcat", "koa", "hapi"))
    make = draw.choice((
        lambda: programs.download(name, "hey", size=size, options=f"-c 1 -q {1 / every:.3f}"),
        lambda: programs.websockets("ticks", size=size, pause=round(pause, 2))))
    kit = make()
    end = draw.choice(("server", "server", "client"))
    why = f"{size} bytes after pauses of {pause:.1f} s: {lost:.0f} ms are lost to new starts"
    if end == "client":
        return (label(kit, end, (*TAKES, "slow-start-after-idle"), NOTHING), kit, at, (), why)
    gain = max(1.15, (quick + lost) / quick / 2), (quick + lost) / quick * 1.7
    return (label(kit, end, {"slow-start-after-idle"}, knob="net.ipv4.tcp_slow_start_after_idle",
                  gain=gain), kit, at, (), why)


def new_connections(draw, at):
    """A connection for each page by a load generator, which takes several round trips of slow start."""
    size, many = round(between(draw, 60_000, 250_000)), draw.choice((1, 1, 4))
    if at.rtt < 40 or at.loss or not is_below(size * many, at.bdp) or at.rate > 300:
        return None
    tls = draw.random() < 0.5
    name, client = ("koa-tls", "hey") if tls else (
        draw.choice(("merecat", "tomcat", "koa", "hapi")), draw.choice(("hey", "bombardier")))
    saved = (rounds(size, 10) - rounds(size, 40)) * at.rtt
    # TLS 1.3 takes a round trip more; Go and OpenSSL speak that.
    whole = (1 + tls + rounds(size, 10)) * at.rtt + at.serialise(size) + 20
    if not is_below(0.15 * whole, saved):
        return None
    options = {"hey": f"-c {many} -disable-keepalive", "bombardier": f"-c {many} -a"}[client]
    kit = programs.download(name, client, size=size, options=options)
    end = draw.choice(("server", "server", "client"))
    why = f"{size} bytes on new connections, from 10 segments on: {saved:.0f} of {whole:.0f} ms"
    if end == "client":
        return (label(kit, end, (*TAKES, "initcwnd-too-small"), NOTHING), kit, at, (), why)
    gain = max(1.1, whole / (whole - saved) / CLEAR), whole / (whole - saved) * 2.5
    return (label(kit, end, {"initcwnd-too-small"}, knob="route.initcwnd", gain=gain), kit, at, (), why)


def thinks(draw, at):
    """The server works on each request for more than three round trips."""
    work, size = between(draw, 10, 400), round(between(draw, 100, 10_000))
    if at.loss or not is_below(2 * at.rtt, work) or at.rtt < 0.5:
        return None
    if not is_below(at.serialise(size) + 2 * at.rtt, work):
        return None
    many, name = draw.choice((1, 1, 6)), draw.choice(("koa", "hapi"))
    tls = draw.random() < 0.5
    make = draw.choice((
        lambda: programs.websockets("asks", size=size, think=round(work / 1000, 4)),
        lambda: programs.downloads(f"{name}-slow", programs.node(name, size, round(work), tls),
                                   draw.choice(("hey", "bombardier")), "/page", f"-c {many}")))
    kit = make()
    end = draw.choice(("server", "client"))
    why = f"the server works for {work:.0f} ms on each request"
    if end == "client":
        return label(kit, end, ("application-thinks",), NOTHING), kit, at, (), why
    return (label(kit, end, ("application-thinks", "app-limited", "idle", "unknown"), NOTHING), kit, at,
            (), why)


def waits(draw, at):
    """One question a round trip."""
    many, size = draw.choice((1, 1, 1, 4, 16)), round(between(draw, 50, 10_000))
    # A round trip has to be long beside what programs take, and the work of many connections small.
    if not 8 < at.rtt < 150 or at.loss or many / at.rtt > 1:
        return None
    if not is_below(CLEAR * many * (size + 500), at.bdp):
        return None
    name = draw.choice(("merecat", "tomcat", "koa"))
    make = draw.choice((
        lambda: programs.websockets("asks", size=size),
        lambda: programs.download(name, draw.choice(("hey", "bombardier")), size=size,
                                  options=f"-c {many}")))
    kit = make()
    end = draw.choice(("server", "client"))
    why = "each client asks when the answer before has come: one a round trip"
    if end == "client":
        return label(kit, end, ("round-trip-bound",), NOTHING), kit, at, (), why
    return (label(kit, end, ("app-limited", "round-trip-bound", "idle", "unknown",
                             "application-thinks"), NOTHING), kit, at, (), why)


def many_full(draw, at):
    """Several bulk transfers at once."""
    many, name = draw.choice((3, 6, 10)), draw.choice(sorted(programs.WEB))
    make = draw.choice((lambda: programs.download(name, "hey", options=f"-c {many}"),
                        lambda: programs.tcpserver(False, many)))
    return drawn.many_at_once(draw, at, many, make())


def ticks(draw, at):
    """Small messages at the program's own pace."""
    return drawn.paced_messages(
        draw, at, lambda size, pause: programs.websockets("ticks", size=size, pause=pause))


CAUSES = (full, full, full_bbr_shallow, bloat, lossy, lossy, policed, small_sndbuf, small_sndbuf,
          small_wmem, small_rmem, small_rcvbuf, small_rcvbuf, writes_apart, writes_apart, limited,
          slow_reader, slow_reader, restarts, restarts, new_connections, new_connections, thinks, waits,
          many_full, ticks)


WARM_UP = {"slow_reader": 14, "bloat": 13, "restarts": 9, "lossy": 9, "wmem_and_loss": 9}


def situation(seed, number, cause, kit, at, more, why, shape=()):
    """What was drawn, as a situation; `shape`: further settings of the path."""
    loss = ("--loss", f"{at.loss:.3f}%") if at.loss else ()
    return Situation(
        f"drawn-{seed}-{number:02}-{cause.__name__.replace('_', '-')}-{kit.name}", why=why,
        program=kit.name, rate=f"{at.rate:.2f}mbit", rtt=f"{at.rtt:.2f}ms", queue=f"{at.packets}p",
        path=(*loss, *shape), cc=at.cc, prepare=(*kit.prepare, *more), server=kit.server, settle=kit.settle,
        client=kit.client, warm_up=WARM_UP.get(cause.__name__, 7), look=8)


def one(draw, seed, cause, number, had):
    """A label and a situation; path and program are drawn until the label is clear. A cause comes once at
    each end, and a program twice at most."""
    for _ in range(20_000):
        made = cause(draw, path(draw))
        if made and (cause, made[0].end) not in had and had.count(made[1].name) < 2:
            break
    else:
        raise RuntimeError(f"{cause.__name__}: no clear draw")
    fit, kit, at, more, why = made
    had += [(cause, fit.end), kit.name]
    return fit, situation(seed, number, cause, kit, at, more, why)


TABLE = [row for seed in SEEDS for row in drawn.table_of_causes(seed, CAUSES, one)]
FITS = {situation.name: fit for fit, situation in TABLE}
SITUATIONS = [situation for _, situation in TABLE]
