"""Sweeps on workers of Dask, of which one is killed half-way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest
from conftest import ROOT

import tcptailor

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

VARY = {"path.rtt": "1ms..50ms:log10"}
SETTINGS = {"workload.duration": "500ms"}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    scratch = str(tmp_path_factory.mktemp("dask"))
    with (
        dask.config.set({"temporary-directory": scratch}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def kill_one_that_works(client, killed: list[int]) -> None:
    pids = client.run(os.getpid)
    while not killed:
        for address, tasks in client.processing().items():
            if tasks:
                os.kill(pids[address], signal.SIGKILL)
                killed.append(pids[address])
                return


def test_workers_make_what_one_process_makes_also_if_one_is_killed(client):
    alone = tcptailor.sweep("lan-wwr", VARY, SETTINGS, runs=4, frame=False)
    killed: list[int] = []
    killer = threading.Thread(target=kill_one_that_works, args=(client, killed), daemon=True)
    killer.start()
    spread = tcptailor.sweep("lan-wwr", VARY, SETTINGS, runs=4, client=client, frame=False)
    killer.join(60)
    assert killed
    assert spread.documents == alone.documents
    assert spread.about == alone.about


def test_what_is_wrong_is_said_of_a_worker_too(client):
    with pytest.raises(ValueError, match="is there twice"):
        tcptailor.sweep("lan-wwr", {"path.rtt": ["1ms", "1ms"]}, client=client)
    with pytest.raises(ValueError, match="leave one out"):
        tcptailor.sweep("lan-wwr", VARY, client=client, shard=(1, 2))


def test_the_example_gives_what_one_process_gives(tmp_path):
    words = ["lan-wwr", "--vary", "path.rtt=1ms,5ms", "--set", "workload.duration=200ms", "--check"]
    script = ROOT / "examples" / "dask" / "sweep.py"
    done = subprocess.run(
        [sys.executable, script, *words],
        capture_output=True,
        text=True,
        env={**os.environ, "DASK_TEMPORARY_DIRECTORY": str(tmp_path)},
    )
    assert "equal to a run in one process" in done.stdout, done.stderr
    assert done.returncode == 0
