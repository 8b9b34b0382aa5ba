"""Situations that `tcptailor fit --pid` is judged by, **drawn** by a seed: which program, path, congestion
control, cause and end, not chosen by anyone.

The label follows from what is drawn by physics alone: each cause below compares the bandwidth-delay
product with buffers, the rates of programs with that of the path, and so on. A draw within a factor of
1.5 of a boundary is drawn again, since nothing can be said of it in advance.
"""

import dataclasses
import math
import random
from dataclasses import dataclass

from . import drawn_programs as programs
from .drawn_programs import CONFIGS
from .model import Situation, alone, kept, sysctl

COUNT = 40
# Seeds whose situations `fitted.py` runs, as `drawn-SEED-...`.
SEEDS = (1, 2, 3, 4)
# Of these only fixed send buffers that a change lifts, to judge what is foretold of them.
SNDBUF_SEEDS = (101, 102, 103, 104, 105)
# How far from a boundary a draw has to be.
CLEAR = 1.5
MSS = 1448
# What a connection holds in flight by the defaults (tcp_wmem[2] is 4 MiB, half of which is data at worst).
MOST_WINDOW = 2e6
# Delay that is a bloated queue (docs/diagnoses.md): of 120 ms, and twice the round trip.
BLOAT_MS, BLOAT_RTTS = 120, 2
TAKES = ("path-full", "app-limited", "paced", "unknown", "idle", "application-thinks",
         "round-trip-bound")
NOTHING = ("nothing-to-improve", "no-setting-helps", "no-verdict")


@dataclass(frozen=True)
class Path:
    """Mbit/s, ms, bandwidth-delay products (or packets, where that is more), percent."""

    rate: float
    rtt: float
    queue: float
    loss: float
    cc: str

    @property
    def bdp(self):
        """Bytes."""
        return self.rate * self.rtt * 125

    @property
    def queue_bytes(self):
        return self.packets * 1514

    @property
    def packets(self):
        """Fewer are no queue of any device."""
        return max(15, round(self.queue * self.bdp / 1514))

    @property
    def fill(self):
        """What the queue holds, in bandwidth-delay products."""
        return self.queue_bytes / self.bdp

    def serialise(self, size):
        """Time that so many bytes take at the rate of the path, ms."""
        return size * 8e-3 / self.rate

    @property
    def queue_ms(self):
        return self.serialise(self.queue_bytes)


def between(draw, least, most):
    """Log-uniform."""
    return math.exp(draw.uniform(math.log(least), math.log(most)))


def path(draw):
    return Path(rate=between(draw, 5, 1000), rtt=between(draw, 0.2, 200),
                queue=between(draw, 0.2, 5),
                loss=between(draw, 0.1, 2) if draw.random() < 0.15 else 0,
                cc=draw.choice(("cubic", "cubic", "bbr", "reno")))


def is_below(value, bound):
    return value * CLEAR <= bound


# What the path does with a bulk transfer.


def delay_by_queue(at):
    """From the emptiest to the fullest queue of a loss-based control that fills it, ms."""
    kept_share = 0.5 if at.cc == "reno" else 0.7
    least = max(0, kept_share * (1 + at.fill) - 1) * at.rtt
    return (least + at.queue_ms) / 2, at.queue_ms


def is_bloated(at):
    """Whether a bulk transfer makes a bloated queue; None where it is not clear."""
    bound = max(BLOAT_MS, BLOAT_RTTS * at.rtt)
    usual, most = delay_by_queue(at)
    if at.cc == "bbr":
        # Up to twice the bandwidth-delay product is in flight.
        usual, most = min(0.25 * at.rtt, at.queue_ms), min(at.rtt, at.queue_ms)
    if is_below(most, bound):
        return False
    return True if is_below(bound, usual) else None


def fills(at, most, many=1):
    """Whether a bulk transfer fills the path without a bloated queue, in what a look sees of it."""
    segments = at.bdp / MSS / many
    grows = True
    if at.cc != "bbr" and at.fill < 0.65:
        # Cut below what the path holds: the time until the window is there again has to be short.
        back = math.cbrt(0.3 * segments / 0.4) if at.cc == "cubic" else segments / 2 * at.rtt / 1000
        grows = back < 3
    if at.cc == "reno" and at.fill < 1.5:
        grows = grows and segments / 2 * at.rtt / 1000 < 3
    holds = is_below(at.bdp * (1 + min(at.fill, 1)), MOST_WINDOW)
    return grows and holds and at.loss == 0 and at.rate <= most and is_bloated(at) is False


def loss_rate(at):
    """Mbit/s that a loss-based control gets where a share of the packets is lost at random: of Reno
    (Mathis), and of CUBIC (RFC 9438, section 5.1) if that is more."""
    p = at.loss / 100
    window = 1.22 / math.sqrt(p)
    if at.cc == "cubic":
        window = max(window, 1.054 * (at.rtt / 1000) ** 0.75 / p ** 0.75)
    return window * MSS * 8e-3 / at.rtt


# Programs by what they do.


def bulk(draw, sndbuf=0):
    """A bulk transfer of a common program, whichever way it goes."""
    if sndbuf:
        make = draw.choice((
            lambda: programs.web("nginx", draw.choice(("curl", "wget")), sndbuf=sndbuf),
            lambda: programs.web("haproxy", "curl", sndbuf=sndbuf),
            lambda: programs.web("go", "curl", sndbuf=sndbuf),
            lambda: programs.web("aiohttp", "wget", sndbuf=sndbuf),
            lambda: programs.rsync(True, daemon=f"SO_SNDBUF={sndbuf}"),
            lambda: programs.rsync(False, options=f"--sockopts=SO_SNDBUF={sndbuf}"),
            lambda: programs.socat(sndbuf=sndbuf)))
        return make()
    down = draw.random() < 0.6
    make = draw.choice((
        lambda: programs.web(draw.choice(sorted(programs.WEB)), draw.choice(("curl", "wget"))),
        lambda: programs.web(draw.choice(sorted(programs.WEB)), draw.choice(("curl", "wget"))),
        lambda: programs.rsync(down), lambda: programs.ssh(down), lambda: programs.scp(down),
        lambda: programs.vsftpd(down, draw.choice(("curl", "lftp"))), programs.nc, programs.socat,
        lambda: programs.iperf3(down), programs.psql, programs.memcached, programs.redis))
    return make()


def receiver_of(kit):
    return "client" if kit.sender == "server" else "server"


def label(kit, end, limit, ending=None, knob="", gain=()):
    comm = kit.comm[end]
    if knob:
        return kept(end, comm, limit, knob, round(gain[0], 2), round(gain[1], 2))
    return alone(end, comm, *limit, **({"ending": ending} if ending else {}))


# Causes. Each gives (label, kit, path, further preparation, sentence), or None to draw again.


def full(draw, at, bulk=bulk):
    kit = bulk(draw)
    if not fills(at, kit.most):
        return None
    end = draw.choice(("server", "client"))
    limit = ["path-full"]
    if end != kit.sender and (at.fill < 0.65 or at.cc == "bbr"):
        # No queue that a receiver can see stands there.
        limit.append("unknown")
    why = f"a bulk transfer fills the path, whose queue delays by up to {at.queue_ms:.0f} ms"
    return label(kit, end, limit, NOTHING if len(limit) > 1 else None), kit, at, (), why


def bloat(draw, at, bulk=bulk):
    kit = bulk(draw)
    at = Path(between(draw, 5, 25), between(draw, 5, 60), 0, 0, draw.choice(("cubic", "reno")))
    at = Path(at.rate, at.rtt, draw.uniform(200, 1000) * 1514 / at.bdp, 0, at.cc)
    if not is_bloated(at) or not is_below(at.bdp * (1 + at.fill), MOST_WINDOW):
        return None
    end = draw.choice((kit.sender, kit.sender, receiver_of(kit)))
    usual, most = delay_by_queue(at)
    why = f"a bulk transfer under {at.cc} stands in a queue of {most:.0f} ms"
    if end != kit.sender:
        # Halved by Reno, the queue may be below what is bloated at times.
        return (label(kit, end, ("bufferbloat", "path-full"),
                      ("nothing-to-improve", "no-setting-helps", "out-of-reach")), kit, at, (), why)
    gain = (at.rtt + 0.6 * usual) / (2 * at.rtt), (at.rtt + most) / at.rtt * CLEAR
    return label(kit, end, {"bufferbloat"}, knob="congestion", gain=gain), kit, at, (), why


def lossy(draw, at, bulk=bulk):
    kit = bulk(draw)
    at = Path(at.rate, at.rtt, max(at.queue, 1), between(draw, 0.1, 2), at.cc)
    end = draw.choice((kit.sender, kit.sender, receiver_of(kit)))
    if at.rate > kit.most or at.packets < 50 or is_bloated(at) is not False or at.rtt < 2:
        return None
    if not is_below(at.bdp * 2, MOST_WINDOW):
        return None
    if at.cc == "bbr":
        why = f"BBR fills the path in spite of {at.loss:.2f} % losses"
        limit = {"path-full"} if end == kit.sender else {*TAKES, "random-loss"}
        return label(kit, end, limit, NOTHING if end != kit.sender else None), kit, at, (), why
    rate = loss_rate(at)
    if not is_below(rate * CLEAR, at.rate):
        return None
    why = f"{at.loss:.2f} % random losses leave {at.cc} some {rate:.1f} of {at.rate:.0f} Mbit/s"
    if end != kit.sender:
        return label(kit, end, {*TAKES, "random-loss"}, NOTHING), kit, at, (), why
    gain = max(1.3, at.rate / rate / 2.5), at.rate / rate * 2.5
    return label(kit, end, {"random-loss"}, knob="congestion", gain=gain), kit, at, (), why


def limited(draw, at):
    share = draw.uniform(0.05, 0.6)
    mbit = at.rate * share
    kilobytes = round(mbit * 1e6 / 8 / 1024)
    if kilobytes < 40 or mbit > 100 or at.loss:
        return None
    # What is sent in a round trip has to fit in the windows that there are.
    if not is_below(mbit * at.rtt * 125, MOST_WINDOW):
        return None
    make = draw.choice((
        lambda: programs.nginx_paced(kilobytes), lambda: programs.nc_paced(kilobytes),
        lambda: programs.iperf3(draw.random() < 0.5, f"-b {mbit:.2f}M"),
        lambda: programs.rsync(draw.random() < 0.5, f"--bwlimit={kilobytes}"),
        lambda: programs.scp(draw.random() < 0.5, f"-l {round(mbit * 1000)}"),
        lambda: programs.vsftpd(False, "lftp", f"set net:limit-rate {kilobytes * 1024};"),
        lambda: programs.vsftpd(False, "curl", f"--limit-rate {kilobytes}k")))
    kit = make()
    end = draw.choice(("server", "client"))
    why = f"the program sends {mbit:.1f} of {at.rate:.0f} Mbit/s"
    if end == kit.sender and not is_rsync_pull(kit):
        return label(kit, end, ("app-limited", "paced"), NOTHING), kit, at, (), why
    return label(kit, end, (*TAKES, "slow-reader"), NOTHING), kit, at, (), why


def is_rsync_pull(kit):
    """Limits of downloads that the client sets make it a slow reader."""
    return kit.name in ("rsync", "scp") and kit.sender == "server"


def waits(draw, at):
    """One question a round trip."""
    many = draw.choice((1, 1, 1, 4, 16))
    size = round(between(draw, 50, 10_000))
    if at.rtt < 4 or at.rtt > 150 or at.loss or many / at.rtt > 1:
        return None
    if not is_below(CLEAR * many * (size + 500), at.bdp):
        return None
    name = draw.choice(programs.KEEPS_ALIVE)
    make = draw.choice((
        lambda: programs.redis_benchmark(many), lambda: programs.pgbench(min(many, 4)),
        lambda: programs.asks(name, size), lambda: programs.asks(name, size),
        lambda: programs.bench(draw.choice(("nginx", "lighttpd", "haproxy")),
                               draw.choice(("ab", "wrk")), size, many)))
    kit = make()
    end = draw.choice(("server", "client"))
    why = "each client asks when the answer before has come: one a round trip"
    if end == "client":
        return label(kit, end, ("round-trip-bound",), NOTHING), kit, at, (), why
    return (label(kit, end, ("app-limited", "round-trip-bound", "idle", "unknown",
                             "application-thinks"), NOTHING), kit, at, (), why)


def small_sndbuf(draw, at, bulk=bulk):
    """SO_SNDBUF: the kernel doubles it, and holds half of that or more in flight."""
    held = round(at.bdp / draw.uniform(3, 8))
    kit = bulk(draw, sndbuf=held // 2)
    if held < 16_000 or at.rtt < 5 or at.loss or at.rate / 2 > kit.most or held > 1e6:
        return None
    end = draw.choice((kit.sender, kit.sender, receiver_of(kit)))
    why = f"SO_SNDBUF is {held // 2}, the BDP {at.bdp:.0f} bytes"
    if end != kit.sender:
        return label(kit, end, TAKES, NOTHING), kit, at, (), why
    if not is_below(at.bdp * 2, MOST_WINDOW):
        return None
    gain = max(1.15, at.bdp / held / 1.6), at.bdp / held * 5
    return (label(kit, end, {"sndbuf-locked", "sndbuf-tiny"}, knob="buf_lock", gain=gain), kit, at, (),
            why)


def small_wmem(draw, at, bulk=bulk):
    held = round(at.bdp / draw.uniform(3, 8))
    kit = bulk(draw)
    if held < 32_000 or at.rtt < 5 or at.loss or at.rate / 2 > kit.most:
        return None
    if not is_below(at.bdp * 2, MOST_WINDOW):
        return None
    end = draw.choice((kit.sender, kit.sender, receiver_of(kit)))
    why = f"tcp_wmem[2] is {held}, the BDP {at.bdp:.0f} bytes"
    more = (sysctl(kit.sender, f"net.ipv4.tcp_wmem=4096 16384 {held}"),)
    if end != kit.sender:
        return label(kit, end, TAKES, NOTHING), kit, at, more, why
    gain = max(1.15, at.bdp / held / 1.6), at.bdp / held * 5
    return (label(kit, end, {"tcp-wmem-max-cap"}, knob="net.ipv4.tcp_wmem", gain=gain), kit, at, more,
            why)


def small_rmem(draw, at, bulk=bulk):
    """Half of the buffer is the window. The kernel does not grow one that is full in each round trip."""
    held = round(2 * at.bdp / draw.uniform(3, 8))
    kit = bulk(draw)
    if held < 64_000 or at.rtt < 5 or at.loss or at.rate / 2 > kit.most:
        return None
    if not is_below(at.bdp * 2, MOST_WINDOW):
        return None
    end = draw.choice(("server", "client"))
    why = f"tcp_rmem[2] is {held}, half of it the window, the BDP {at.bdp:.0f} bytes"
    more = (sysctl(receiver_of(kit), f"net.ipv4.tcp_rmem=4096 65536 {held}"),)
    if end == kit.sender:
        return label(kit, end, ("peer-window",), NOTHING), kit, at, more, why
    return (label(kit, end, ("tcp-rmem-max-cap",), ("out-of-reach",)), kit, at, more, why)


def small_rcvbuf(draw, at):
    held = round(at.bdp / draw.uniform(3, 8))
    make = draw.choice((
        lambda: programs.socat(rcvbuf=held),
        lambda: programs.rsync(True, options=f"--sockopts=SO_RCVBUF={held}"),
        lambda: programs.rsync(False, daemon=f"SO_RCVBUF={held}"),
        lambda: programs.vsftpd(True, "lftp", f"set net:socket-buffer {held};")))
    kit = make()
    if held < 8_000 or at.rtt < 5 or at.loss or at.rate / 2 > kit.most or at.bdp * 2 > MOST_WINDOW:
        return None
    end = draw.choice(("server", "client"))
    why = f"SO_RCVBUF is {held}, which is the window, the BDP {at.bdp:.0f} bytes"
    limit = {"rcvbuf-locked"}
    if is_below(held, 65535):
        # The clamp sets a scale of 0, and that answer names it.
        limit.add("window-scaling-off")
    elif is_below(65535, held):
        pass
    else:
        return None
    if end == kit.sender:
        return label(kit, end, {"peer-window", *limit}, NOTHING), kit, at, (), why
    return label(kit, end, limit, ("out-of-reach",)), kit, at, (), why


def writes_apart(draw, at):
    """Head and body apart, with Nagle on: the body waits for the ACK of the head, 40 ms late."""
    size = round(between(draw, 50, 1200))
    kit = draw.choice((programs.php_pages, programs.java_pages, programs.ruby_pages))(size)
    if at.rtt > 20 or at.loss:
        return None
    end = draw.choice(("server", "server", "client"))
    slow = 2 * at.rtt + 40
    why = f"head and body of a page of {size} bytes apart: {slow:.0f} ms in place of {at.rtt:.1f}"
    if end == "client":
        gain = slow / (2 * at.rtt + 3) / CLEAR, (slow + 8) / max(2 * at.rtt, 0.5) * CLEAR
        return (label(kit, end, {"nagle-delack-stall"}, knob="route.quickack", gain=gain), kit, at, (),
                why)
    gain = slow / (at.rtt + 3) / CLEAR, (slow + 8) / max(at.rtt, 0.5) * CLEAR
    return label(kit, end, {"nagle-delack-stall"}, knob="nodelay", gain=gain), kit, at, (), why


def rounds(size, window):
    """Round trips of slow start from so many segments on."""
    return math.ceil(math.log2(size / MSS / window + 1))


def lost_to_pause(at, size, idle):
    """Time that a burst takes longer after so many seconds without data, ms (RFC 2861)."""
    timeouts = int(max(0, idle) * 1000 / (at.rtt + 200))
    window = 10
    while window * MSS < size:
        window *= 2
    window = max(10, window >> timeouts)
    return (rounds(min(size, at.bdp), window) - 1) * at.rtt


def restarts(draw, at, of_first_seed=False):
    """Bursts after pauses that are longer than the timeout, in which the window starts anew.

    The rule of the first seed was in error: the window is halved for each timeout in a pause, and begins
    with ten segments after several of them only; and a burst that leaves at once has to fit in the queue.
    """
    size, pause = round(between(draw, 100_000, 800_000)), draw.uniform(0.9, 2.5)
    if at.rtt < 40 or at.loss or at.rate > 250 or at.cc == "bbr":
        return None
    lost = (rounds(min(size, at.bdp), 10) - 1) * at.rtt
    quick = at.rtt + at.serialise(size)
    # Of the time from one burst to the next a tenth.
    if not is_below(0.1 * (quick + lost + pause * 1000), lost) or at.bdp < size / 2:
        return None
    name = draw.choice(("nginx", "lighttpd", "node", "go", "aiohttp", "haproxy"))
    if not of_first_seed:
        gains = [lost_to_pause(at, size, idle) for idle in (pause - 2 * at.rtt / 1000, pause)]
        if min(gains) < CLEAR * 0.1 * (quick + max(gains) + pause * 1000):
            return None
        if size * 1.1 > at.queue_bytes:
            return None
        lost = min(gains)
    make = draw.choice((
        lambda: programs.asks(name, size, pause), lambda: programs.asks(name, size, pause),
        lambda: programs.redis_ticks(size, pause), lambda: programs.mosquitto_ticks(size, pause),
        lambda: programs.node_ticks(size, pause), lambda: programs.socat_ticks(size, pause)))
    kit = make()
    end = draw.choice(("server", "server", "client"))
    why = f"{size} bytes after pauses of {pause:.1f} s: {lost:.0f} ms are lost to new starts"
    if end == "client":
        return (label(kit, end, (*TAKES, "slow-start-after-idle"), NOTHING), kit, at, (), why)
    gain = max(1.15, (quick + lost) / quick / 2), (quick + lost) / quick * 1.7
    return (label(kit, end, {"slow-start-after-idle"}, knob="net.ipv4.tcp_slow_start_after_idle",
                  gain=gain), kit, at, (), why)


def slow_reader(draw, at):
    kilobytes = round(at.rate / draw.uniform(3, 10) * 1e6 / 8 / 1024)
    if not 60 < kilobytes < 5000 or at.loss:
        return None
    # What a round trip of it needs has to fit in the first windows.
    if not is_below(kilobytes * at.rtt, 64_000):
        return None
    name = draw.choice(sorted(set(programs.WEB) - {"java"}))
    make = draw.choice((
        lambda: programs.web(name, draw.choice(("curl", "wget")), options=f"--limit-rate={kilobytes}k"),
        lambda: programs.web(name, draw.choice(("curl", "wget")), options=f"--limit-rate={kilobytes}k"),
        lambda: programs.vsftpd(True, "lftp", f"set net:limit-rate {kilobytes * 1024};"),
        lambda: programs.sink_paced(kilobytes)))
    kit = make()
    if kit.client[0][1].find("curl") >= 0:
        kit = replaced(kit, "--limit-rate=", "--limit-rate ")
    end = draw.choice(("server", "client"))
    why = f"the reader takes {kilobytes} KiB/s of {at.rate:.0f} Mbit/s"
    return label(kit, end, ("slow-reader",), NOTHING[:2]), kit, at, (), why


def replaced(kit, old, new):
    return programs.Kit(**{**kit.__dict__, "client": tuple(
        (end, text.replace(old, new)) for end, text in kit.client)})


def thinks(draw, at):
    """The server works on each request for more than three round trips."""
    work = between(draw, 10, 400)
    if at.loss or not is_below(2 * at.rtt, work) or at.rtt < 0.5:
        return None
    size = round(between(draw, 100, 10_000))
    if not is_below(at.serialise(size) + 2 * at.rtt, work):
        return None
    make = draw.choice((
        lambda: programs.asks(draw.choice(("node", "go", "aiohttp", "java")), size, think=work / 1000),
        lambda: programs.pgbench(draw.choice((1, 4)), sleep=round(work / 1000, 4))))
    kit = make()
    end = draw.choice(("server", "client"))
    why = f"the server works for {work:.0f} ms on each request"
    if end == "client":
        return label(kit, end, ("application-thinks",), NOTHING), kit, at, (), why
    return (label(kit, end, ("application-thinks", "app-limited", "idle", "unknown"), NOTHING), kit, at,
            (), why)


def new_connections(draw, at):
    """A connection for each page, which takes several round trips of slow start."""
    small = draw.random() < 0.4
    window = 3 if small else 10
    size = round(between(draw, 25_000, 90_000) if small else between(draw, 90_000, 250_000))
    many = draw.choice((1, 1, 3))
    if at.rtt < 40 or at.loss or not is_below(size * many, at.bdp) or at.rate > 300:
        return None
    saved = (rounds(size, window) - rounds(size, 40)) * at.rtt
    whole = (1 + rounds(size, window)) * at.rtt + at.serialise(size) + 20
    if not is_below(0.15 * whole, saved):
        return None
    names = sorted(set(programs.WEB) - {"java", "squid"})
    kit = programs.web(draw.choice(names), draw.choice(("curl", "wget")), size=size, loop=True,
                       many=many)
    more = ()
    if small:
        more = (("server", "ip route show | while read route; do ip route change $route initcwnd 3; "
                           "done"),)
    end = draw.choice(("server", "server", "client"))
    why = f"{size} bytes on new connections, from {window} segments on: {saved:.0f} of {whole:.0f} ms"
    if end == "client":
        return (label(kit, end, (*TAKES, "initcwnd-too-small"), NOTHING), kit, at, more, why)
    gain = max(1.1, whole / (whole - saved) / CLEAR), whole / (whole - saved) * 2.5
    return (label(kit, end, {"initcwnd-too-small"}, knob="route.initcwnd", gain=gain), kit, at, more,
            why)


def many_full(draw, at):
    """Several bulk transfers at once."""
    many = draw.choice((3, 6, 10))
    name = draw.choice(sorted(set(programs.WEB) - {"java"}))
    make = draw.choice((lambda: programs.web(name, "curl", many=many),
                        lambda: programs.iperf3(draw.random() < 0.5, f"-P {many}")))
    return many_at_once(draw, at, many, make())


def many_at_once(draw, at, many, kit):
    """`many` bulk transfers of `kit`."""
    # Windows of four segments and more each, which recover without a timeout.
    if not fills(at, kit.most, many) or not is_below(4 * MSS * many, at.bdp + at.queue_bytes):
        return None
    end = draw.choice(("server", "client"))
    limit = ["path-full"]
    if end != kit.sender:
        # The share of one differs from moment to moment; for curl only one of many is looked at.
        limit.append("unknown")
    why = f"{many} bulk transfers fill the path"
    return label(kit, end, limit, NOTHING if len(limit) > 1 else None), kit, at, (), why


def ticks(draw, at):
    """Small messages at the program's own pace."""
    makers = (programs.redis_ticks, programs.mosquitto_ticks, programs.node_ticks, programs.socat_ticks)
    return paced_messages(draw, at, lambda size, pause: draw.choice(makers)(size, pause))


def paced_messages(draw, at, make):
    """`make` gives the programs that send a message of a size, in bytes, after each pause, in seconds."""
    size, pause = round(between(draw, 100, 8_000)), between(draw, 0.02, 0.5)
    if at.loss or not is_below(3 * at.serialise(size), pause * 1000):
        return None
    kit = make(size, round(pause, 3))
    end = draw.choice(("server", "client"))
    why = f"{size} bytes each {pause * 1000:.0f} ms, and the path is free"
    return (label(kit, end, ("app-limited", "paced", "idle", "application-thinks", "unknown",
                             "round-trip-bound"), NOTHING), kit, at, (), why)


CAUSES = (full, full, full, bloat, lossy, lossy, limited, limited, waits, waits, small_sndbuf,
          small_sndbuf, small_wmem, small_rmem, small_rcvbuf, writes_apart, writes_apart, restarts,
          slow_reader, thinks, new_connections, many_full, ticks)


def one(draw, seed, number):
    """A label and a situation; path and program are drawn until the label is clear."""
    cause = draw.choice(CAUSES)
    more = {"of_first_seed": True} if cause is restarts and seed == 1 else {}
    for _ in range(20_000):
        made = cause(draw, path(draw), **more)
        # Who takes one page each is gone when `fit` looks at it, which the first seeds did not know.
        is_brief = made and made[0].end == "client" and "while :" in made[1].client[0][1]
        if made and not (is_brief and seed > 2):
            break
    else:
        raise RuntimeError(f"{cause.__name__}: no clear draw")
    fit, kit, at, more, why = made
    if cause is limited and "paced" in fit.limit and seed > 2:
        # A program that sends what it may, and then waits for an answer, is the limit in other words.
        fit = dataclasses.replace(fit, limit=fit.limit | {"application-thinks"})
    loss = ("--loss", f"{at.loss:.3f}%") if at.loss else ()
    warm_up = {"slow_reader": 14, "bloat": 13, "restarts": 9, "lossy": 9}.get(cause.__name__, 7)
    return fit, Situation(
        f"drawn-{seed}-{number:02}-{cause.__name__.replace('_', '-')}-{kit.name}", why=why, program=kit.name,
        rate=f"{at.rate:.2f}mbit", rtt=f"{at.rtt:.2f}ms", queue=f"{at.packets}p", path=loss, cc=at.cc,
        prepare=(*kit.prepare, *more), server=kit.server, settle=kit.settle, client=kit.client,
        warm_up=warm_up, look=8)


def table(seed):
    draw = random.Random(f"drawn {seed}")
    return [one(draw, seed, number) for number in range(COUNT)]


def table_of_causes(seed, causes, one):
    """A row for each of `causes`, in an order that is drawn; `one` draws it, with what was had before."""
    draw = random.Random(f"drawn {seed}")
    causes = list(causes)
    draw.shuffle(causes)
    had = []
    return [one(draw, seed, cause, number, had) for number, cause in enumerate(causes)]


def sndbufs():
    rows = [row for seed in SNDBUF_SEEDS for row in table(seed)]
    return [(fit, situation) for fit, situation in rows if fit.knob == "buf_lock"]


TABLE = [*(row for seed in SEEDS for row in table(seed)), *sndbufs()]
FITS = {situation.name: fit for fit, situation in TABLE}
SITUATIONS = [situation for _, situation in TABLE]
