"""What a capture of a situation is to say: the labels, where packets show less than sockets.

A capture of the whole run (`NAME.END.pcap`) and what of it falls into the look
(`NAME.END.mid.pcap`, without handshakes) are judged beside the recordings.
"""

import re
import struct
import subprocess

from tables.model import Fault, Healthy

# What sockets tell and packets do not (docs/captures.md), and what is said instead.
SEEN_AS = {"rcvbuf-locked": {"peer-window"}, "tcp-rmem-max-cap": {"peer-window"},
           "rmem-autotuning-off": {"peer-window"},
           "accept-queue-full": {"connect-unanswered", "path-dead"}}
UNSEEN = {"sndbuf-locked", "sndbuf-tiny", "tcp-wmem-max-cap", "paced", "cpu-bound"}
# Of a limit that no packet shows.
ANY = frozenset({"app-limited", "idle", "path-full", "round-trip-bound", "unknown"})


def label(of_sockets, *others):
    """The label of a capture at the same end, with those of the sockets at the others: packets
    show what the other end does, too."""
    if isinstance(of_sockets, Healthy):
        there = set().union(*(seen(one.right) for one in others if isinstance(one, Fault)))
        return Healthy(of_sockets.accept | there, of_sockets.also | there)
    right = seen(of_sockets.right)
    return Fault(frozenset(right), of_sockets.also) if right else Healthy(ANY, of_sockets.also)


def seen(ids):
    return set().union(*(SEEN_AS.get(each, {each}) for each in ids - UNSEEN))


def start(netns, file):
    command = ["ip", "netns", "exec", netns, "tcpdump", "-q", "-i", "lab0", "-s", "96", "-B",
               "16384", "-U", "-w", str(file), "tcp"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def port(watched):
    return re.search(r":(\d+)", watched.filter).group(1)


def cut(whole, part, begin, end):
    """Keeps the packets between two times, in seconds since 1970."""
    data = whole.read_bytes()
    kept, at = [data[:24]], 24
    while at + 16 <= len(data):
        seconds, micros, length = struct.unpack_from("<III", data, at)
        if begin <= seconds + micros / 1e6 <= end:
            kept.append(data[at:at + 16 + length])
        at += 16 + length
    part.write_bytes(b"".join(kept))
