"""What a situation is: its path and programs, who watches, and which answers and fits are right.

All of it is the vocabulary of the tables, which import it whole.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Fault:
    """One of `right` must be the main answer of a connection; no other finding may stand there,
    except `also`."""

    right: frozenset
    also: frozenset = frozenset()

    def shown(self):
        return " | ".join(sorted(self.right))


@dataclass(frozen=True)
class Healthy:
    """No finding except `also`; each connection that is not idle has a main answer of `accept`."""

    accept: frozenset
    also: frozenset = frozenset()

    def shown(self):
        return "healthy: " + " | ".join(sorted(self.accept))


@dataclass(frozen=True)
class Watched:
    filter: str
    label: object


@dataclass(frozen=True)
class Situation:
    name: str
    why: str
    program: str = "python"
    rate: str = "50mbit"
    rtt: str = "40ms"
    queue: str = "1bdp"
    path: tuple = ()
    cc: str = "cubic"
    router: bool = False
    # (end, command): first what ends by itself, then the servers, then the clients.
    prepare: tuple = ()
    server: tuple = ()
    client: tuple = ()
    # After the warm-up, before the look; `after` is the time between.
    during: tuple = ()
    settle: float = 0.5
    warm_up: float = 3
    after: float = 0
    look: int = 5
    watch: dict = field(default_factory=dict)

    def path_args(self):
        shape = [("--rate", self.rate), ("--rtt", self.rtt), ("--queue", self.queue)]
        args = [word for flag, value in shape if value for word in (flag, value)]
        return [*args, *self.path]


def fault(*right, also=()):
    return Fault(frozenset(right), frozenset(also))


def healthy(*accept, also=()):
    return Healthy(frozenset(accept), frozenset(also))


def at_sender(port, label):
    return {"client": Watched(f"dport = :{port}", label)}


def at_server(port, label):
    return {"server": Watched(f"sport = :{port}", label)}


def both(port, client, server):
    return {**at_sender(port, client), **at_server(port, server)}


def sysctl(end, setting):
    return (end, f'sysctl -qw "{setting}"')


@dataclass(frozen=True)
class Fit:
    """`fit` of the program `comm` at `end`, and what is right."""

    end: str
    comm: str
    limit: frozenset
    ending: frozenset
    # The setting that helps, and how many times better it makes the program, by the metric of fit.
    knob: str = ""
    gain: tuple = ()


def kept(end, comm, limit, knob, least, most):
    return Fit(end, comm, frozenset(limit), frozenset({"kept"}), knob, (least, most))


def alone(end, comm, *limit, ending=("nothing-to-improve", "no-setting-helps")):
    """Nothing here is to be changed."""
    return Fit(end, comm, frozenset(limit), frozenset(ending))


# Paths and labels that recur.

LAN = {"rate": "1gbit", "rtt": "0.2ms", "queue": "1000p"}
FULL = healthy("path-full")
# What a receiver can say of a healthy sender: whatever is no finding, or that it cannot tell.
TAKES = healthy("path-full", "app-limited", "paced", "unknown", "idle", "application-thinks",
                "round-trip-bound")
# The same of one whose queue is deep, which a receiver may see.
BLOATED = healthy(*TAKES.accept, "bufferbloat", also=("bufferbloat",))
PACED = healthy("app-limited", "paced", "idle", "unknown")
IDLE = healthy("idle", "unknown", "app-limited")
BY_ROUND_TRIPS = healthy("round-trip-bound")
SOME_TRAFFIC = healthy("app-limited", "round-trip-bound", "idle", "unknown", "application-thinks",
                       "paced")
SLOW_READER = fault("slow-reader")
FIXED_WINDOW = fault("rcvbuf-locked", "peer-window")
CAPPED_WINDOW = fault("tcp-rmem-max-cap", "peer-window")
STALLS = fault("nagle-delack-stall")
THINKS = fault("application-thinks")
# The server that thinks, seen from itself: its program is the limit, in whichever words.
THINKS_HERE = healthy("application-thinks", "app-limited", "idle", "unknown",
                      also=("application-thinks",))
