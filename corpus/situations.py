#!/usr/bin/env python3
"""Labelled situations with real programs, to judge what `tcptailor diagnose` answers.

    situations.py list [PATTERN]
    situations.py run [PATTERN] --bin target/release/tcptailor -o DIR
    situations.py table DIR

`tables` has them. `run` needs root. A label follows from how a situation was made, never from an answer.
"""

import argparse
import fnmatch
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import captured
from tables import CONFIGS, DIAGNOSED
from tables.model import Healthy

SITUATIONS = [situation for table in DIAGNOSED for situation in table.SITUATIONS]
HERE = Path(__file__).resolve().parent
RESULTS = "results.jsonl"
CAPTURES = "captures.jsonl"
# A connection with less of the largest rate is a control connection.
MINOR_SHARE = 0.01
# The emulator may be late by this (99th percentile) or by this share of the round-trip time; a
# label is about causes, not about percents.
LATE_MAX_US, LATE_MAX_SHARE = 400, 0.1
NO_END = [{"caveat": "ended-early", "why": "no last line of `lab path`"}]


# The path and the programs.


class LabPath:
    """A lab path, its programs, and their end."""

    def __init__(self, binary, situation):
        self.binary, self.situation = binary, situation
        self.work = tempfile.mkdtemp(prefix="tcptailor-corpus-")
        os.chmod(self.work, 0o755)
        self.router = None
        command = [binary, "lab", "path", "--json", *situation.path_args()]
        # A session of its own: Ctrl-C reaches the runner alone, which then ends the path in order.
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"no path: {' '.join(command)}")
        ready = json.loads(line)
        self.netns = {end: ready[end]["netns"] for end in ("client", "server")}
        self.address = {end: ready[end]["address"] for end in ("client", "server")}
        if situation.router:
            self.add_router()
        for end in ("client", "server"):
            self.set_route(end, situation.cc)

    def add_router(self):
        """The server's host becomes a router; the server is one hop behind it."""
        a, b = self.netns["client"], self.netns["server"]
        self.router, c = b, f"corpus-{os.getpid()}"
        sh(f"ip netns add {c}")
        self.netns["server"] = c
        sh(
            f"ip -n {b} link add far0 type veth peer name lab0 netns {c}",
            f"ip -n {b} addr add 10.78.0.1/24 dev far0; ip -n {b} link set far0 up",
            f"ip -n {c} addr add 10.78.0.2/24 dev lab0; ip -n {c} link set lab0 up",
            f"ip -n {c} link set lo up; ip -n {c} route add default via 10.78.0.1",
            f"ip -n {a} route add 10.78.0.0/24 via 10.77.0.2",
            f"ip netns exec {b} sysctl -qw net.ipv4.ip_forward=1",
            f"ip netns exec {c} sysctl -qw net.ipv4.tcp_no_metrics_save=1",
        )
        self.address["server"] = "10.78.0.2"

    def set_route(self, end, cc):
        netns = self.netns[end]
        shown = subprocess.run(
            ["ip", "-n", netns, "route"], capture_output=True, text=True, check=True
        ).stdout
        for route in filter(None, map(str.strip, shown.splitlines())):
            sh(f"ip -n {netns} route change {route} congctl {cc}")

    def captured_at(self, ends):
        """The ends, and the router between them, with their namespaces."""
        between = [("router", self.router)] if self.router else []
        return [*((end, self.netns[end]) for end in ends), *between]

    def write_configs(self):
        values = {"W": self.work, "S": self.address["server"], "C": self.address["client"]}
        for name, text in CONFIGS.items():
            for key, value in values.items():
                text = text.replace(f"@{key}@", value)
            (Path(self.work) / name).write_text(text)

    def environment(self):
        return {
            **os.environ,
            "W": self.work,
            "H": str(HERE),
            "S": self.address["server"],
            "C": self.address["client"],
            "SN": self.netns["server"],
            "P": f"{sys.executable} {HERE}/programs/small.py",
            "PY": sys.executable,
            "LC_ALL": "C",
        }

    def start(self, end, command):
        netns = self.router if end == "router" else self.netns[end]
        log = open(f"{self.work}/log", "ab")
        return subprocess.Popen(
            ["ip", "netns", "exec", netns, "sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=self.environment(),
            cwd=self.work,
            start_new_session=True,
        )

    def do(self, steps):
        """Commands that end by themselves."""
        for end, command in steps:
            code = self.start(end, command).wait(60)
            if code != 0:
                log = Path(f"{self.work}/log").read_text(errors="replace")
                raise RuntimeError(f"{command}: exit code {code}: {log[-400:]}")

    def log_tail(self):
        try:
            return Path(f"{self.work}/log").read_text(errors="replace")[-300:]
        except OSError:
            return ""

    def close(self):
        """Ends what runs in the namespaces, then the path; returns what the path says."""
        for netns in {*self.netns.values(), self.router} - {None}:
            for _ in range(3):
                listed = subprocess.run(
                    ["ip", "netns", "pids", netns], capture_output=True, text=True
                )
                pids = [int(pid) for pid in listed.stdout.split()]
                own = [pid for pid in pids if pid not in (os.getpid(), self.process.pid)]
                for pid in own:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                if not own:
                    break
                time.sleep(0.05)
        if self.router:
            subprocess.run(["ip", "netns", "del", self.netns["server"]], check=False)
        self.process.terminate()
        try:
            out, _ = self.process.communicate(timeout=10)
            ended = json.loads(out) if out.strip() else {"caveats": NO_END}
        except (subprocess.TimeoutExpired, json.JSONDecodeError) as error:
            self.process.kill()
            ended = {"caveats": [{"caveat": "ended-early", "why": str(error)}]}
        shutil.rmtree(self.work, ignore_errors=True)
        return ended


def sh(*commands):
    for command in commands:
        subprocess.run(command, shell=True, check=True)


# Watching.


def is_usable(situation, ended):
    """Whether the path was what the label says."""
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", situation.rtt).groups()
    rtt_us = float(number) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]
    late = [each["p99_us"] for each in ended["caveats"] if each["caveat"] == "emulator-late"]
    others = [each for each in ended["caveats"] if each["caveat"] == "ended-early"]
    return not others and max(late, default=0) <= max(LATE_MAX_US, rtt_us * LATE_MAX_SHARE)


def watch(path, situation, folder):
    """Records what is seen at each end, at the same time, and judges it."""
    asked = {}
    for end, watched in situation.watch.items():
        command = [path.binary, "-q", "record", "-N", path.netns[end], "-t", f"{situation.look}s"]
        command += ["-o", str(recording(folder, situation.name, end)), *watched.filter.split()]
        asked[end] = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    try:
        for process in asked.values():
            process.wait(timeout=situation.look + 60)
    finally:
        for process in asked.values():
            if process.poll() is None:
                process.kill()
    return {end: diagnose(path.binary, recording(folder, situation.name, end)) for end in asked}


def recording(folder, name, end):
    return folder / f"{name}.{end}.rec"


def diagnose(binary, file, *which):
    command = [binary, "--json", "diagnose", str(file.resolve()), *which]
    return json.loads(subprocess.run(command, capture_output=True, text=True).stdout)


def judge_captures(binary, situation, folder, dumps, begin):
    """Of the whole run, and of the look alone."""
    end_of_look = time.time()
    for end, dump in dumps.items():
        dump.send_signal(signal.SIGINT)
        dump.wait(10)
        whole = folder / f"{situation.name}.{end}.pcap"
        part = folder / f"{situation.name}.{end}.mid.pcap"
        captured.cut(whole, part, begin, end_of_look)
        watched = situation.watch.get(end) or next(iter(situation.watch.values()))
        others = [one.label for at, one in situation.watch.items() if at != end]
        label = captured.label(watched.label, *others)
        for file in (whole, part):
            port = f":{captured.port(watched)}"
            found = rows(diagnose(binary, file, "(", "sport", "=", port, "or", "dport", "=", port,
                                  ")"))
            row = {
                "situation": situation.name,
                "file": file.name,
                "label": label.shown(),
                "answered": summary(found),
                "judged": judge(label, found) if found else "nothing seen",
            }
            with open(folder / CAPTURES, "a") as lines:
                lines.write(json.dumps(row) + "\n")
            print(f"    {file.name:46} {row['judged']:14} {row['answered']}", flush=True)


def rows(document):
    """The connections that count: (main answer, its confidence, findings, rate, connections)."""
    found = []
    for flow in document.get("flows", []):
        verdicts = flow.get("verdicts", [])
        findings = [row["id"] for row in verdicts if row.get("finding")]
        if verdicts:
            main, confidence = verdicts[0]["id"], verdicts[0].get("confidence")
        else:
            main = "idle" if flow.get("idle") else "unknown"
            confidence = None
        found.append(
            {
                "main": main,
                "confidence": confidence,
                "findings": findings,
                "rate_bps": flow.get("rate_bps"),
                "connections": flow.get("connections", 1),
                "why_unknown": flow.get("unknown"),
            }
        )
    # Findings that belong to no connection: of a listener, of a service, of the host.
    for key, value in document.items():
        if key != "flows" and isinstance(value, list):
            for row in value:
                for verdict in row.get("verdicts", [row]) if isinstance(row, dict) else []:
                    if isinstance(verdict, dict) and "id" in verdict and "finding" in verdict:
                        found.append(
                            {
                                "main": verdict["id"],
                                "confidence": verdict.get("confidence"),
                                "findings": [verdict["id"]] if verdict["finding"] else [],
                                "rate_bps": None,
                                "connections": 0,
                                "why_unknown": None,
                            }
                        )
    return found


# Judging.


def judge(label, found):
    """`right`, or what kind of wrong: see README.md."""
    most = max((row["rate_bps"] or 0 for row in found), default=0)
    busy = [row for row in found if row["findings"] or not is_minor(row, most)]
    mains = [row["main"] for row in busy]
    findings = {each for row in busy for each in row["findings"]}
    if isinstance(label, Healthy):
        if findings - label.also:
            return "false finding"
        wrong = [main for main in mains if main not in label.accept]
        if set(wrong) == {"unknown"}:
            return "no answer"
        return "wrong answer" if wrong else "right"
    if not any(main in label.right for main in mains):
        return "wrong cause" if findings else "missed"
    return "wrong cause" if findings - label.right - label.also else "right"


def is_minor(row, most):
    """Idle, or a control connection beside the one that carries the data (iperf3, FTP)."""
    return row["main"] == "idle" or (row["rate_bps"] or 0) < most * MINOR_SHARE


# Commands.


def run_one(binary, situation, folder, captures=False):
    path = None
    documents, error, dumps = {}, None, {}
    ended = {"caveats": NO_END}
    try:
        path = LabPath(binary, situation)
        path.write_configs()
        path.do(situation.prepare)
        for end, netns in path.captured_at(situation.watch) if captures else ():
            dumps[end] = captured.start(netns, folder / f"{situation.name}.{end}.pcap")
        for end, command in situation.server:
            path.start(end, command)
        time.sleep(situation.settle)
        for end, command in situation.client:
            path.start(end, command)
        time.sleep(situation.warm_up)
        path.do(situation.during)
        time.sleep(situation.after)
        begin = time.time()
        documents = watch(path, situation, folder)
        judge_captures(binary, situation, folder, dumps, begin)
    except (RuntimeError, subprocess.SubprocessError, OSError, json.JSONDecodeError) as problem:
        error = str(problem)
    finally:
        if path:
            log = path.log_tail()
            ended = path.close()
    if error:
        print(f"{situation.name}: FAILED: {error}", flush=True)
    usable = is_usable(situation, ended)
    for end, document in documents.items():
        label = situation.watch[end].label
        found = rows(document)
        judged = judge(label, found) if found else "nothing seen"
        row = {
            "situation": situation.name,
            "program": situation.program,
            "end": end,
            "label": label.shown(),
            "why": situation.why,
            "answered": summary(found),
            "rows": found[:8],
            "judged": judged,
            "usable": usable,
            "caveats": ended["caveats"],
            "log": log if not found else "",
        }
        with open(folder / RESULTS, "a") as file:
            file.write(json.dumps(row) + "\n")
        mark = "" if usable else "  (unusable: emulator late)"
        print(f"{situation.name:34} {end:7} {judged:14} {row['answered']}{mark}", flush=True)


def summary(found):
    """`path-full/high 49.1M, idle x2`."""
    counted = {}
    for row in found:
        text = row["main"]
        if row["confidence"]:
            text += f"/{row['confidence']}"
        others = [each for each in row["findings"] if each != row["main"]]
        if others:
            text += "+" + "+".join(others)
        counted.setdefault(text, []).append(row["rate_bps"] or 0)
    parts = []
    for text, rates in counted.items():
        times = f" x{len(rates)}" if len(rates) > 1 else ""
        rate = f" {max(rates) / 1e6:.3g}M" if max(rates) else ""
        parts.append(text + rate + times)
    return ", ".join(parts) or "(nothing)"


def chosen(pattern):
    patterns = pattern.split(",")
    return [
        one
        for one in SITUATIONS
        if any(fnmatch.fnmatch(one.name, each) or each in one.name for each in patterns)
    ]


def results(folder):
    return [json.loads(line) for line in open(Path(folder) / RESULTS)]


def answered(folder):
    """The situations that have a usable answer."""
    if not (folder / RESULTS).exists():
        return set()
    return {row["situation"] for row in results(folder) if row["usable"] and row["rows"]}


def run(args):
    folder = Path(args.output)
    folder.mkdir(parents=True, exist_ok=True)
    done = answered(folder) if args.missing else set()
    for situation in chosen(args.pattern):
        if situation.name not in done:
            run_one(args.bin, situation, folder, args.captures)


def table(args):
    """Totals and what is wrong. Of several runs of a situation the last usable one counts."""
    last = {}
    for row in results(args.folder):
        key = (row["situation"], row["end"])
        if row["usable"] or key not in last:
            last[key] = row
    labels = {
        (one.name, end): watched.label for one in SITUATIONS for end, watched in one.watch.items()
    }
    counts = {}
    wrong = []
    for key, row in last.items():
        label = labels.get(key)
        if label is None:
            continue
        # Judged anew: a label may have been corrected since.
        judged = judge(label, row["rows"]) if row["rows"] else "nothing seen"
        kind = "healthy" if isinstance(label, Healthy) else "faulty"
        judged = judged if row["usable"] else "unusable"
        counts.setdefault(kind, {}).setdefault(judged, []).append(key)
        if judged != "right":
            wrong.append((judged, *key, label.shown(), row["answered"]))
    programs = {row["program"] for row in last.values()}
    print(f"{len(last)} runs of {len({key[0] for key in last})} situations, "
          f"{len(programs)} programs")
    for kind, by in sorted(counts.items()):
        total = sum(map(len, by.values()))
        parts = ", ".join(f"{len(keys)} {judged}" for judged, keys in sorted(by.items()))
        print(f"  {kind}: {total}: {parts}")
    print()
    for judged, name, end, label, answered in sorted(wrong):
        print(f"{judged:14} {name:32} {end:7} label: {label}\n{'':15}answered: {answered}")


def labels(_):
    """The labels as JSON, for whoever judges the recordings."""
    rows = []
    for one in SITUATIONS:
        for end, watched in sorted(one.watch.items()):
            healthy = isinstance(watched.label, Healthy)
            right = watched.label.accept if healthy else watched.label.right
            rows.append(
                {
                    "situation": one.name,
                    "end": end,
                    "program": one.program,
                    "why": " ".join(one.why.split()),
                    "healthy": healthy,
                    "right": sorted(right),
                    "also": sorted(watched.label.also),
                }
            )
    print("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]")


def show_list(args):
    for one in chosen(args.pattern):
        ends = ", ".join(f"{end}: {each.label.shown()}" for end, each in one.watch.items())
        print(f"{one.name:34} {ends}\n{'':35}{one.why}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("list")
    one.add_argument("pattern", nargs="?", default="*")
    one.set_defaults(call=show_list)
    one = commands.add_parser("labels")
    one.set_defaults(call=labels)
    one = commands.add_parser("run")
    one.add_argument("pattern", nargs="?", default="*", help="names or globs, with commas")
    one.add_argument("--bin", default="target/release/tcptailor")
    one.add_argument("-o", "--output", default="corpus-results")
    one.add_argument("--captures", action="store_true", help="judge captures as well")
    one.add_argument("--missing", action="store_true", help="only what has no usable answer yet")
    one.set_defaults(call=run)
    one = commands.add_parser("table")
    one.add_argument("folder")
    one.set_defaults(call=table)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    try:
        args.call(args)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
