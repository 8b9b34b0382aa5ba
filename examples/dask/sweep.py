"""A sweep on Dask workers, as a table: `tcptailor.sweep` with a client of Dask.

A worker that dies costs the shards that it was at: Dask gives them to another one. In virtual time
the numbers do not depend on who makes them, which `--check` shows.
"""

import argparse

import tcptailor
from distributed import Client, LocalCluster


def axis(text):
    key, _, values = text.partition("=")
    return key, values


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenario")
    parser.add_argument("--vary", type=axis, action="append", required=True, help="KEY=VALUES")
    parser.add_argument("--set", type=axis, action="append", default=[], help="KEY=VALUE")
    parser.add_argument("--runs", type=int, help="runs of each cell")
    parser.add_argument("--workers", type=int, default=2, help="processes of this machine")
    parser.add_argument("--scheduler", help="address of a Dask scheduler, instead of this machine")
    parser.add_argument("--check", action="store_true", help="run it in one process too, compare")
    args = parser.parse_args()
    what = (args.scenario, dict(args.vary), dict(args.set))
    where = args.scheduler or LocalCluster(n_workers=args.workers, threads_per_worker=1)
    with Client(where) as client:
        spread = tcptailor.sweep(*what, runs=args.runs, client=client, frame=False)
    print(spread)
    if args.check:
        alone = tcptailor.sweep(*what, runs=args.runs, frame=False)
        same = list(spread) == list(alone)
        print("equal to a run in one process" if same else "NOT equal to a run in one process")
        raise SystemExit(0 if same else 1)


if __name__ == "__main__":
    main()
