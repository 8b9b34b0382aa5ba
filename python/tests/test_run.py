"""Runs in virtual time: the numbers of the program, as a table."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest

import tcptailor

SHORT = {"workload.duration": "300ms"}


@pytest.mark.parametrize("scenario", ["lan-wwr", "lossy-100m", "satellite"])
def test_the_numbers_are_those_of_the_program(document, scenario):
    words = ["--engine", "virtual", "--runs", "2", "--seed", "7", "--set", "workload.duration=1s"]
    expected = document("lab", "run", scenario, *words)
    table = tcptailor.run(scenario, workload__duration="1s", runs=2, seed=7, frame=False)
    assert table.documents == expected["outcomes"]
    for name in ("scenario", "about", "runs", "warmup_s", "host_costs"):
        assert table.about[name] == expected[name]


def test_the_course_is_that_of_the_program(document):
    words = ["--engine", "virtual", "--series", "--set", "workload.duration=1s"]
    expected = document("lab", "run", "lossy-100m", *words)
    points = tcptailor.run("lossy-100m", {"workload.duration": "1s"}, series=True, frame=False)
    assert points.documents == expected["outcomes"]
    first = expected["outcomes"][0]["series"]
    assert points.column("goodput_bps")[: len(first)] == [point["goodput_bps"] for point in first]
    assert len(points) == sum(len(outcome["series"]) for outcome in expected["outcomes"])


def test_threads_do_not_change_numbers():
    one, four = (
        tcptailor.run("lan-wwr", SHORT, runs=3, jobs=jobs, frame=False) for jobs in (1, 4)
    )
    assert list(one) == list(four)


def test_a_row_has_what_the_document_has():
    table = tcptailor.run("lan-wwr", SHORT, frame=False)
    for row, document in zip(table, table.documents):
        assert row["variant"] == document["variant"]
        assert row["goodput_bps"] == document["goodput_bps"]
        assert row["response_us.p50"] == document["response_us"]["p50"]
        assert row["link.forward.delivered"] == document["link"]["forward"]["delivered"]
        for limit in document["limits"]:
            assert row[f"limit.{limit['limit']}"] == limit["share"]
        assert row["caveats"] == ""
    assert set(table[0]) == set(table.columns)
    assert "rows x" in repr(table)
    with pytest.raises(KeyError):
        table.column("none")


def test_a_frame_has_the_rows_of_the_table():
    pytest.importorskip("pandas")
    table = tcptailor.run("lan-wwr", SHORT, runs=2, frame=False)
    frame = tcptailor.run("lan-wwr", SHORT, runs=2)
    assert list(frame.columns) == table.columns
    assert frame["goodput_bps"].tolist() == table.column("goodput_bps")
    assert frame.attrs["scenario"] == "lan-wwr"
    medians = frame.groupby("variant")["response_us.p50"].median()
    assert medians["nodelay"] < medians["default"] / 10


def test_without_pandas_it_is_a_table(without_pandas):
    table = tcptailor.run("lan-wwr", SHORT)
    assert isinstance(table, tcptailor.Table)
    with pytest.raises(ImportError):
        tcptailor.run("lan-wwr", SHORT, frame=True)


def test_without_arrow_it_is_a_frame_all_the_same(monkeypatch):
    pytest.importorskip("pandas")
    through_arrow = tcptailor.run("lan-wwr", SHORT)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    frame = tcptailor.run("lan-wwr", SHORT)
    assert frame["seed"].tolist() == through_arrow["seed"].tolist()
    assert list(frame.columns) == list(through_arrow.columns)


def test_values_are_what_python_has():
    as_text = {"path.rtt": "20000us", "client.nodelay": "on", "seed": "3", **SHORT}
    in_python = {"path.rtt": timedelta(milliseconds=20), "client.nodelay": True, "seed": 3, **SHORT}
    one, other = (tcptailor.run("wan-bulk", of, frame=False) for of in (as_text, in_python))
    assert list(one) == list(other)
    buffers = {"client.net.ipv4.tcp_wmem": (4096, 16384, 65536), **SHORT}
    assert len(tcptailor.run("wan-bulk", buffers, frame=False)) == len(one)
    with pytest.raises(TypeError, match="is not a value of a setting"):
        tcptailor.run("wan-bulk", {"path.rtt": object()})


def test_a_scenario_is_a_name_a_file_or_text(tmp_path: Path):
    text = (Path(__file__).parents[2] / "scenarios" / "lan-wwr.toml").read_text()
    file = tmp_path / "mine.toml"
    file.write_text(text)
    tables = [tcptailor.run(of, SHORT, frame=False) for of in ("lan-wwr", file, str(file), text)]
    assert all(list(table) == list(tables[0]) for table in tables)
    assert "lan-wwr" in tcptailor.scenarios()
    assert tcptailor.scenarios()["lan-wwr"].endswith(".")


def test_what_is_wrong_is_said_as_the_program_says_it(program, tmp_path: Path):
    def check(words, *args, **kwargs):
        done = program("lab", "run", *words, "--engine", "virtual")
        with pytest.raises(ValueError) as refused:
            tcptailor.run(*args, **kwargs)
        assert str(refused.value) in done.stderr, done.stderr

    check(["lan-wrw"], "lan-wrw")
    check(["lan-wwr", "--set", "path.rtt=fast"], "lan-wwr", {"path.rtt": "fast"})
    check(["lan-wwr", "--set", "client.nodeley=on"], "lan-wwr", client__nodeley=True)
    check(["lan-wwr", "--runs", "0"], "lan-wwr", runs=0)
    with pytest.raises(ValueError, match="did you mean `linux_6_18`"):
        tcptailor.run("lan-wwr", profile="linux_6_81")
    with pytest.raises(ValueError, match="the range is 1 to 1024"):
        tcptailor.run("lan-wwr", jobs=0)
    with pytest.raises(FileNotFoundError):
        tcptailor.run(tmp_path / "none.toml")


def test_other_threads_go_on():
    ended = threading.Event()
    turns = []

    def count():
        while not ended.is_set():
            turns.append(None)
            time.sleep(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    tcptailor.run("wan-bulk", {"workload.duration": "20s"}, runs=4, jobs=1, frame=False)
    ended.set()
    counter.join()
    assert len(turns) > 10


ENDLESS = """
import signal
import tcptailor
# It may be ignored by whoever started the tests.
signal.signal(signal.SIGINT, signal.default_int_handler)
print("begun", flush=True)
tcptailor.run("datacenter-10g", {"workload.duration": "3000s"}, frame=False)
"""


def test_an_interrupt_ends_a_run_that_takes_long():
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as python:
        assert python.stdout.readline() == "begun\n"
        time.sleep(1)
        python.send_signal(signal.SIGINT)
        _, told = python.communicate(timeout=60)
    assert "KeyboardInterrupt" in told
    assert python.returncode != 0
