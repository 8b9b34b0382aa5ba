"""Sweeps: on threads, in shards, and what `lab sweep` writes down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tcptailor

VARY = {"path.rtt": "1ms..50ms:log3", "client.nodelay": [True, False]}
SHORT = {"workload.duration": "200ms"}


def test_the_numbers_are_those_of_a_results_folder(program, tmp_path: Path):
    folder = tmp_path / "sweep"
    axes = ["--vary", "path.rtt=1ms..50ms:log3", "--vary", "client.nodelay=on,off"]
    rest = ["--runs", "2", "--set", "workload.duration=200ms", "-o", folder]
    done = program("lab", "sweep", "lan-wwr", *axes, *rest)
    assert done.returncode == 0, done.stderr
    lines = (folder / "outcomes-1-of-1.jsonl").read_text().splitlines()
    records = sorted(map(json.loads, lines), key=lambda record: (record["run"], record["index"]))
    table = tcptailor.sweep("lan-wwr", VARY, SHORT, runs=2, frame=False)
    assert len(table) == len(records) > 0
    for document, record in zip(table.documents, records):
        outcome = record["outcome"]
        for name in ("index", "variant", "axes", "run", "seed"):
            assert document[name] == record[name]
        for name in ("goodput_bps", "duration_s", "response_us", "sender", "caveats"):
            assert document[name] == outcome[name]
        for name in ("forward", "reverse"):
            assert document["link"][name] == outcome[name]


def test_axes_are_columns():
    table = tcptailor.sweep("lan-wwr", VARY, SHORT, frame=False)
    assert set(table.column("path.rtt")) == {"1ms", "7.07ms", "50ms"}
    assert set(table.column("client.nodelay")) == {"on", "off"}


def test_shards_and_threads_do_not_change_numbers():
    whole = tcptailor.sweep("lan-wwr", VARY, SHORT, runs=2, jobs=1, frame=False)
    parts = [
        tcptailor.sweep("lan-wwr", VARY, SHORT, runs=2, jobs=3, shard=(index, 4), frame=False)
        for index in range(1, 5)
    ]

    def place(document):
        return document["run"], document["index"]

    joined = [document for part in parts for document in part.documents]
    assert sorted(joined, key=place) == whole.documents


TRACED = """
name = "traced"
about = "An upload over a rate that changes."
[path]
kind = "emulated"
rtt = "20ms"
queue = "100p"
[workload]
kind = "bulk"
direction = "up"
duration = "200ms"
"""


def test_values_with_commas_are_one_value():
    traces = ["1s 50mbit, 500ms 5mbit", "1s 20mbit"]
    table = tcptailor.sweep(TRACED, {"path.trace": traces}, frame=False)
    assert table.column("path.trace") == traces
    one = tcptailor.sweep(TRACED, {"path.trace": traces[:1]}, frame=False)
    assert one.column("goodput_bps") == table.column("goodput_bps")[:1]


def test_what_is_wrong_is_said():
    with pytest.raises(ValueError, match="is there twice"):
        tcptailor.sweep("lan-wwr", {"path.rtt": ["1ms", "1ms"]})
    with pytest.raises(ValueError, match="there is no shard 5 of 4"):
        tcptailor.sweep("lan-wwr", VARY, shard=(5, 4))
    with pytest.raises(ValueError, match="the range is 1 to"):
        tcptailor.sweep("lan-wwr", VARY, runs=0)
    with pytest.raises(ValueError, match="one table has at most"):
        tcptailor.sweep("lan-wwr", {"path.rtt": "1ms..50ms:log1000"}, runs=10_000)
