#!/usr/bin/env python3
"""Runs `tcptailor fit --pid` on the programs of `tables`, and judges what it does by their labels.

    fitted.py list [PATTERN]
    fitted.py run [PATTERN] --bin target/release/tcptailor -o DIR

Needs root; Python's packages of `fitting.py` and `strangers.py` are those of $FITPY, else of this
Python, and those of Node are found by $NODE_PATH.
"""

import argparse
import collections
import fnmatch
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import situations
from tables import FITTED

RESULTS = "fits.jsonl"


def said(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout


def found(path, end, comm):
    """The program; of several the one that has most connections (FTP has one for data), or the first one
    if `comm` ends with a circumflex: the one that forks."""
    names = {}
    for pid in said("ip", "netns", "pids", path.netns[end]).split():
        try:
            names[int(pid)] = Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            pass
    listed = said("ip", "netns", "exec", path.netns[end], "ss", "-tpnH", "state", "established")
    owned = collections.Counter(map(int, re.findall(r"pid=(\d+)", listed)))
    fits = [pid for pid, name in names.items() if name.startswith(comm.rstrip("^"))]
    if comm.endswith("^"):
        return min(fits, default=None)
    return max(fits, key=lambda pid: (owned[pid], pid), default=None)


def settings(path):
    """What `fit` may change for more than one connection."""
    text = {}
    for end, netns in path.netns.items():
        run = ("ip", "netns", "exec", netns)
        for command in (("sysctl", "-a", "-r", r"^net\.ipv4\.tcp_"), ("ip", "route"),
                        ("tc", "qdisc", "show"), ("ip", "-o", "link")):
            lines = said(*run, *command).splitlines()
            text[end, command[:2]] = sorted(line for line in lines if "fastopen_key" not in line)
    return text


def carried(path, end, seconds):
    """Bytes a second at the interface, both ways: what no program has counted."""
    def read():
        names = ("rx_bytes", "tx_bytes")
        files = [f"/sys/class/net/lab0/statistics/{name}" for name in names]
        return sum(map(int, said("ip", "netns", "exec", path.netns[end], "cat", *files).split()))
    first, begin = read(), time.time()
    time.sleep(seconds)
    return (read() - first) / (time.time() - begin)


def fit_one(args, situation, label, folder):
    row = {"situation": situation.name, "limit": sorted(label.limit), "ending": sorted(label.ending),
           "knob": label.knob, "gain": label.gain, "why": situation.why}
    path, ended = None, {"caveats": situations.NO_END}
    try:
        path = situations.LabPath(args.bin, situation)
        path.write_configs()
        path.do(situation.prepare)
        for end, command in situation.server:
            path.start(end, command)
        time.sleep(situation.settle)
        for end, command in situation.client:
            path.start(end, command)
        time.sleep(situation.warm_up)
        pid = found(path, label.end, label.comm)
        if pid is None:
            raise RuntimeError(f"no {label.comm}: {path.log_tail()}")
        diagnosed = json.loads(said(args.bin, "--json", "diagnose", "--pid", str(pid), "-t", "4s"))
        row["diagnosed"] = situations.summary(situations.rows(diagnosed))
        before, rate = settings(path), carried(path, label.end, 4)
        environment = {**os.environ, "TCPTAILOR_STATE": str((folder / f"state-{situation.name}").resolve())}
        command = [args.bin, "--json", "fit", "--pid", str(pid), "--max-time", args.max_time]
        begin = time.time()
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        row.update(took_s=round(time.time() - begin), exit=done.returncode, load=os.getloadavg()[0])
        (folder / f"{situation.name}.json").write_text(done.stdout + done.stderr)
        document = json.loads(done.stdout)
        if "tried" not in document:
            raise RuntimeError(done.stdout)
        row["carried"] = round(carried(path, label.end, 4) / max(rate, 1), 2)
        is_kept = any(tried["kept"] for tried in document["tried"])
        row["as_found"] = is_kept or settings(path) == before
        if is_kept:
            for number in [each["transaction"] for each in document["tried"] if each["kept"]][::-1]:
                subprocess.run([args.bin, "rollback", str(number)], capture_output=True,
                               env=environment)
            row["rolled_back"] = settings(path) == before
        row.update(judged(label, document))
    except (RuntimeError, subprocess.SubprocessError, OSError, ValueError) as problem:
        row["error"] = str(problem)[-300:]
    finally:
        if path:
            ended = path.close()
    row["usable"] = situations.is_usable(situation, ended)
    with open(folder / RESULTS, "a") as lines:
        lines.write(json.dumps(row) + "\n")
    print(json.dumps(row), flush=True)


def judged(label, document):
    """What was said and done, and which of it is right."""
    tried = document["tried"]
    first = document.get("first") or {"verdicts": []}
    limits = [each["finding"]["diagnosis"] for each in tried] or [
        each["id"] for each in first["verdicts"]]
    limits = limits or ["unknown"]
    kept = [each for each in tried if each["kept"]]
    knobs = [change["knob"] for each in kept for change in each["changes"]]
    row = {"said": limits[:1], "ended": document["ending"], "kept": knobs, "tried": [
        {"diagnosis": each["finding"]["diagnosis"],
         "changes": [f"{change['knob']} = {change['to']}" for change in each["changes"]][:3],
         "predicted": each["predicted"], "outcome": each["outcome"]} for each in tried]}
    row["foretold"] = [foretold(each["predicted"], each["outcome"]) for each in tried]
    row["limit_right"] = limits[0] in label.limit
    row["ending_right"] = document["ending"] in label.ending
    row["change_right"] = (not label.knob and not kept) or knobs[:1] == [label.knob]
    if label.gain and kept:
        gain = kept[0]["outcome"]["gain"]
        row["gain_measured"] = gain
        row["gain_right"] = label.gain[0] <= gain <= label.gain[1]
    row["right"] = row["limit_right"] and row["ending_right"] and row["change_right"]
    return row


def foretold(predicted, outcome):
    """Whether the interval that was foretold holds what was measured; why there is none; or that
    nothing was measured to compare it with."""
    known = (predicted or {}).get("known")
    if not known or not known["range"]:
        return {"why": (predicted or {}).get("unknown", "no interval")}
    low, high = known["range"]["low"], known["range"]["high"]
    row = {"objective": known["objective"], "source": known["source"], "before": known["before"],
           "low": low, "value": known["range"]["value"], "high": high,
           "width": round(high / max(low, 1e-9), 2)}
    outcome = outcome or {}
    measured = outcome.get("after")
    if measured is None or outcome["objective"] != known["objective"]:
        return {**row, "holds": None}
    return {**row, "measured": measured, "holds": low <= measured <= high}


def chosen(pattern):
    return [(one, table.FITS[one.name]) for table in FITTED for one in table.SITUATIONS
            if any(fnmatch.fnmatch(one.name, each) or each in one.name
                   for each in pattern.split(","))]


def show_list(args):
    for situation, label in chosen(args.pattern):
        path = f"{situation.rate} {situation.rtt} {situation.queue} {' '.join(situation.path)}".strip()
        change = f", {label.knob} x{label.gain[0]}-{label.gain[1]}" if label.knob else ""
        print(f"{situation.name} ({path}, {situation.cc}), at the {label.end}: "
              f"{'|'.join(sorted(label.limit))}, {'|'.join(sorted(label.ending))}{change}\n"
              f"    {situation.why}")


def run(args):
    folder = Path(args.output)
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("FITPY", sys.executable)
    for situation, label in chosen(args.pattern):
        fit_one(args, situation, label, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("list")
    one.add_argument("pattern", nargs="?", default="*")
    one.set_defaults(call=show_list)
    one = commands.add_parser("run")
    one.add_argument("pattern", nargs="?", default="*")
    one.add_argument("--bin", default="target/release/tcptailor")
    one.add_argument("--max-time", default="60s")
    one.add_argument("-o", "--output", default="fit-results")
    one.set_defaults(call=run)
    args = parser.parse_args()
    args.call(args)


if __name__ == "__main__":
    main()
