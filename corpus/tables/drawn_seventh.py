"""Situations of a seventh seed, **drawn** as those of `drawn.py` are, of programs that it has not, on paths that
it has not: small MTUs, a slow way back, several processes to one host, and two causes at once, of which the
one that dominates by arithmetic is the label.

Each cause is drawn as often as `CAUSES` has it. Labels follow from what is drawn by physics alone, written
before any was run.
"""

import dataclasses

from . import drawn
from . import drawn_fifth
from . import sixth_programs as programs
from .drawn import (CLEAR, MOST_WINDOW, NOTHING, TAKES, Path, between, is_below, label, loss_rate,
                   lost_to_pause, path, receiver_of, rounds)
from .model import sysctl
from .sixth_programs import CONFIGS

SEEDS = (7,)


def bulk(draw, sndbuf=0):
    """A bulk transfer, whichever way it goes."""
    if sndbuf:
        return draw.choice((lambda: programs.download("reuseport", sndbuf=sndbuf),
                            lambda: programs.download("apache", sndbuf=sndbuf),
                            lambda: programs.nuttcp(draw.random() < 0.5, sndbuf)))()
    return draw.choice((
        lambda: programs.download(draw.choice(programs.SENDS)),
        lambda: programs.download(draw.choice(programs.SENDS)), programs.nghttpx,
        lambda: programs.nuttcp(draw.random() < 0.5), lambda: programs.smb(draw.random() < 0.5),
        programs.mariadb))()


# Causes. Each gives (label, kit, path, further preparation, sentence), or None to draw again.


def full(draw, at):
    kit = bulk(draw)
    # SMB asks for blocks, of which it has a few in flight.
    return None if kit.name == "smb" else drawn.full(draw, at, lambda _draw: kit)


def full_small_mtu(draw, at):
    """Packets of 600 to 1000 bytes."""
    mtu = draw.randrange(600, 1000)
    made = full(draw, dataclasses.replace(at, rate=min(at.rate, 60)))
    if made is None or made[2].packets < 40:
        return None
    fit, kit, at, more, why = made
    return fit, kit, at, more, f"{why}; MTU {mtu}", ("--mtu", str(mtu))


def full_slow_back(draw, at):
    """ACKs of each second segment have room three times over in what the way back carries."""
    made = full(draw, at)
    if made is None or made[1].sender != "server":
        return None
    back = 3 * at.rate * 66 / (2 * drawn.MSS)
    shape = f"tc qdisc add dev lab0 root tbf rate {max(0.1, back):.3f}mbit burst 4kb latency 200ms"
    fit, kit, at, more, why = made
    return fit, kit, at, (*more, ("client", shape)), f"{why}; {back:.2f} Mbit/s back"


def bloat(draw, at):
    kit = bulk(draw)
    return None if kit.name == "smb" else drawn.bloat(draw, at, lambda _draw: kit)


def lossy(draw, at):
    kit = bulk(draw)
    return None if kit.name == "smb" else drawn.lossy(draw, at, lambda _draw: kit)


def small_sndbuf(draw, at):
    made = drawn.small_sndbuf(draw, at, bulk)
    # nuttcp asks for receive buffers as well.
    return None if made and made[1].name == "nuttcp" else made


def small_wmem(draw, at):
    kit = bulk(draw)
    return None if kit.name == "smb" else drawn.small_wmem(draw, at, lambda _draw: kit)


def small_rmem(draw, at):
    kit = bulk(draw)
    return None if kit.name == "smb" else drawn.small_rmem(draw, at, lambda _draw: kit)


def wmem_and_loss(draw, at):
    """A small send buffer on a path that also loses: whichever leaves less is the limit."""
    kit = bulk(draw)
    held = round(at.bdp / draw.uniform(3, 10))
    at = Path(at.rate, at.rtt, max(at.queue, 1), between(draw, 0.01, 1), draw.choice(("cubic", "reno")))
    if kit.name == "smb" or held < 32_000 or at.rtt < 5 or at.rate > kit.most or at.packets < 50:
        return None
    by_loss, by_buffer = loss_rate(at), held * 8e-3 / at.rtt
    end = kit.sender
    more = (sysctl(end, f"net.ipv4.tcp_wmem=4096 16384 {held}"),)
    why = (f"tcp_wmem[2] of {held} leaves {by_buffer:.1f}, {at.loss:.2f} % losses {by_loss:.1f} of "
           f"{at.rate:.0f} Mbit/s")
    if drawn.is_bloated(at) is not False or not is_below(at.bdp * 2, MOST_WINDOW):
        return None
    if is_below(2 * by_buffer, by_loss):
        gain = max(1.15, min(by_loss, at.rate) / by_buffer / 2.5), at.rate / by_buffer * 5
        return label(kit, end, {"tcp-wmem-max-cap"}, knob="net.ipv4.tcp_wmem", gain=gain), kit, at, more, why
    if is_below(2 * by_loss, by_buffer) and is_below(by_buffer, at.rate):
        gain = max(1.15, by_buffer / by_loss / 2.5), at.rate / by_loss * 2.5
        return label(kit, end, {"random-loss"}, knob="congestion", gain=gain), kit, at, more, why
    return None


def own_losses_in_a_crowd(draw, at):
    """Others fill the path, and this one has losses of its own, which leave it less than its share: what
    another congestion control gains the others lose."""
    many = draw.choice((4, 8))
    at = Path(between(draw, 15, 60), between(draw, 15, 60), draw.uniform(0.7, 2), 0, "cubic")
    lost = between(draw, 0.5, 3)
    own, share = loss_rate(dataclasses.replace(at, loss=lost)), at.rate / (many + 1)
    if not is_below(own, share) or not drawn.fills(at, 150, many):
        return None
    why = f"{many} others fill the path; {lost:.2f} % own losses leave {own:.1f} of a share of {share:.1f} Mbit/s"
    kit = programs.crowd(many, lost)
    return (label(kit, "client", {"random-loss", "path-full"}, (*NOTHING, "not-distinguishable", "worse")), kit,
            at, (), why)


def many_processes(draw, at):
    """Downloads of several programs, or from several processes of one server."""
    many, name = draw.choice((3, 5, 8)), draw.choice(("reuseport", "apache", "civetweb", "redir", "gunicorn"))
    # Gunicorn's workers serve one each.
    many = 3 if name == "gunicorn" else many
    kit = programs.download(name, many=many)
    if not drawn.fills(at, kit.most, many) or not is_below(4 * drawn.MSS * many, at.bdp + at.queue_bytes):
        return None
    end = draw.choice(("server", "server", "client"))
    limit = ["path-full"] if end == "server" else ["path-full", "unknown"]
    return (label(kit, end, limit, NOTHING if end == "client" else None), kit, at, (),
            f"{many} bulk transfers, each of a process of its own at the client, fill the path")


def new_connections(draw, at):
    """A connection for each page, which takes several round trips of slow start."""
    size = round(between(draw, 60_000, 250_000))
    if at.rtt < 40 or at.loss or not is_below(size, at.bdp) or at.rate > 300:
        return None
    name = draw.choice(("reuseport", "apache", "gunicorn", "uvicorn", "civetweb", "simpleproxy"))
    kit = draw.choice((programs.hey, programs.curl_pages))(name, size)
    saved = (rounds(size, 10) - rounds(size, 40)) * at.rtt
    whole = (1 + rounds(size, 10)) * at.rtt + at.serialise(size) + 20
    if not is_below(0.15 * whole, saved):
        return None
    why = f"{size} bytes on new connections, from 10 segments on: {saved:.0f} of {whole:.0f} ms"
    gain = max(1.1, whole / (whole - saved) / CLEAR), whole / (whole - saved) * 2.5
    # Of several workers one takes some of the pages only.
    return label(kit, "server", {"initcwnd-too-small"}, knob="route.initcwnd", gain=gain), kit, at, (), why


def restarts(draw, at):
    """Pages after pauses that are longer than the timeout, in which the window starts anew."""
    size, pause = round(between(draw, 100_000, 800_000)), draw.uniform(0.9, 2.5)
    if at.rtt < 40 or at.loss or at.rate > 250 or at.cc == "bbr" or at.bdp < size / 2:
        return None
    quick = at.rtt + at.serialise(size)
    gains = [lost_to_pause(at, size, idle) for idle in (pause - 2 * at.rtt / 1000, pause)]
    if min(gains) < CLEAR * 0.1 * (quick + max(gains) + pause * 1000) or size * 1.1 > at.queue_bytes:
        return None
    lost = min(gains)
    kit = programs.asks(draw.choice(programs.KEEPS_ALIVE), size, round(pause, 2))
    why = f"{size} bytes after pauses of {pause:.1f} s: {lost:.0f} ms are lost to new starts"
    gain = max(1.15, (quick + lost) / quick / 2), (quick + lost) / quick * 1.7
    return (label(kit, "server", {"slow-start-after-idle"}, knob="net.ipv4.tcp_slow_start_after_idle",
                  gain=gain), kit, at, (), why)


def thinks(draw, at):
    """The server works on each request for more than three round trips."""
    work, size = between(draw, 10, 400), round(between(draw, 100, 10_000))
    if at.loss or not is_below(2 * at.rtt, work) or at.rtt < 0.5:
        return None
    if not is_below(at.serialise(size) + 2 * at.rtt, work):
        return None
    name = draw.choice(("uvicorn", "puma"))
    kit = programs.hey(name, size, draw.choice((1, 4)), round(work / 1000, 4), anew=False)
    end = draw.choice(("server", "client"))
    why = f"the server works for {work:.0f} ms on each request"
    if end == "client":
        return label(kit, end, ("application-thinks",), NOTHING), kit, at, (), why
    return (label(kit, end, ("application-thinks", "app-limited", "idle", "unknown"), NOTHING), kit, at, (), why)


def waits(draw, at):
    """One question a round trip, over HTTP/2 or HTTP/1.1."""
    size = round(between(draw, 50, 10_000))
    if not 8 < at.rtt < 150 or at.loss or not is_below(CLEAR * (size + 500), at.bdp):
        return None
    kit = draw.choice((lambda: programs.nghttpx(size),
                       lambda: programs.asks(draw.choice(programs.KEEPS_ALIVE), size)))()
    end = draw.choice(("server", "client"))
    why = "the client asks when the answer before has come: one a round trip"
    if end == "client":
        return label(kit, end, ("round-trip-bound",), NOTHING), kit, at, (), why
    return (label(kit, end, ("app-limited", "round-trip-bound", "idle", "unknown", "application-thinks"),
                  NOTHING), kit, at, (), why)


CAUSES = (full, full, full_small_mtu, full_slow_back, bloat, lossy, lossy, small_sndbuf, small_wmem, small_rmem,
          wmem_and_loss, wmem_and_loss, own_losses_in_a_crowd, own_losses_in_a_crowd, many_processes,
          many_processes, new_connections, new_connections, restarts, thinks, waits)


def one(draw, seed, cause, number, had):
    """A label and a situation; path and program are drawn until the label is clear. A program comes twice at
    most, and not twice with one cause."""
    for _ in range(20_000):
        made = cause(draw, path(draw))
        name = made and made[1].name
        is_new = made and ((cause, name) not in had and had.count(name) < 2 or name == "crowd-socat")
        if is_new:
            break
    else:
        raise RuntimeError(f"{cause.__name__}: no clear draw")
    fit, kit, at, more, why, *args = made
    had += [(cause, kit.name), kit.name]
    return fit, drawn_fifth.situation(seed, number, cause, kit, at, more, why, *args)


TABLE = [row for seed in SEEDS for row in drawn.table_of_causes(seed, CAUSES, one)]
FITS = {situation.name: fit for fit, situation in TABLE}
SITUATIONS = [situation for _, situation in TABLE]
