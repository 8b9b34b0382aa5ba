"""Spread a sweep over Dask workers: each task is a shard, a process of `tcptailor lab sweep`.

A worker that dies loses nothing but the run it was at: Dask gives its task to another worker, and
`--resume` goes on where the folder of that shard ends. What this script does not know, such as
`--vary`, goes to tcptailor as it is.
"""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time

import psutil  # comes with distributed
from distributed import Client, LocalCluster

LOCKED = "another process is writing"


def run_shard(command, folder):
    while True:
        done = subprocess.run([*command, "-o", folder], capture_output=True, text=True)
        if done.returncode == 0:
            return f"worker {os.getpid()}: {done.stdout.splitlines()[0]}"
        if LOCKED not in done.stderr:
            raise RuntimeError(done.stderr)
        time.sleep(1)  # its last worker died, and its process is still at work


def count_lines(folders):
    files = [file for folder in folders for file in pathlib.Path(folder).glob("outcomes-*.jsonl")]
    return sum(file.read_bytes().count(b"\n") for file in files)


def planned(folders):
    for manifest in (pathlib.Path(folder, "run.json") for folder in folders):
        if manifest.exists():
            what = json.loads(manifest.read_text())
            return what["cells"] * what["runs"]
    return float("inf")


def kill_one(client, folders):
    """Half-way, ends a worker that is at work, with the process it waits for."""
    while count_lines(folders) < planned(folders):
        time.sleep(0.05)
        if count_lines(folders) < planned(folders) / 2:
            continue
        for pid in client.run(os.getpid).values():
            if children := psutil.Process(pid).children():
                for victim in [pid, *(child.pid for child in children)]:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(victim, signal.SIGKILL)
                return f"killed worker {pid} after {count_lines(folders)} runs"
    return "no worker was at work any more"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenario")
    parser.add_argument("-o", "--output", required=True, help="folder of the joined results")
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--scheduler", help="address of a Dask scheduler, instead of this machine")
    parser.add_argument("--tcptailor", default="tcptailor", help="the program")
    parser.add_argument("--kill-one", action="store_true", help="end a worker half-way")
    parser.add_argument("--check", action="store_true", help="run it in one process too, compare")
    args, more = parser.parse_known_args()
    lab = [args.tcptailor, "lab"]
    sweep = [*lab, "sweep", args.scenario, *more]
    parts = [f"{args.output}.part{i}" for i in range(1, args.shards + 1)]
    where = args.scheduler or LocalCluster(n_workers=args.workers, threads_per_worker=1)
    with Client(where) as client:
        tasks = []
        for i, part in enumerate(parts, 1):
            shard = [*sweep, "--jobs", "1", "--resume", "--shard", f"{i}/{args.shards}"]
            tasks.append(client.submit(run_shard, shard, part, pure=False, retries=2))
        if args.kill_one:
            print(kill_one(client, parts), flush=True)
        for i, line in enumerate(client.gather(tasks), 1):
            print(f"shard {i}/{args.shards}, {line}")
    subprocess.run([*lab, "merge", *parts, "-o", args.output], check=True)
    if args.check:
        whole = f"{args.output}.whole"
        subprocess.run([*sweep, "--jobs", "1", "-o", whole], check=True)
        files = [pathlib.Path(folder, "outcomes-1-of-1.jsonl") for folder in (args.output, whole)]
        joined, alone = [sorted(file.read_text().splitlines()) for file in files]
        same = joined == alone
        print("equal to a run in one process" if same else "NOT equal to a run in one process")
        raise SystemExit(0 if same else 1)


if __name__ == "__main__":
    main()
