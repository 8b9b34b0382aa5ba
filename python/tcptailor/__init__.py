"""TCP in virtual time, diagnoses and predictions: tcptailor for Python.

    >>> import tcptailor
    >>> table = tcptailor.run("lan-wwr", workload__duration="1s")

Runs, sweeps, diagnoses and predictions are tables: a pandas DataFrame where pandas is installed,
and a `Table` where it is not or `frame=False` is given. The numbers are those of the program
`tcptailor` with the same scenario and seed.

What is wrong with a request is a `ValueError` whose text is what the program says; what is wrong
with a file is an `OSError`, or a `ValueError` where it is not what it should be. Other threads of
Python go on during all calls, and Ctrl-C ends runs, sweeps and the reading of captures.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tcptailor import _dask, _native, _outcome, _request
from tcptailor._request import Value
from tcptailor._table import Result, Row, Table, result

if TYPE_CHECKING:
    from distributed import Client

__all__ = [
    "CannotPredict",
    "Table",
    "Value",
    "diagnose",
    "predict",
    "run",
    "scenarios",
    "sweep",
]
__version__: str = _native.VERSION


class CannotPredict(ValueError):
    """No twin shows what a recording or a capture shows; the text says why."""


def scenarios() -> dict[str, str]:
    """The built-in scenarios: names, each with a sentence about it."""
    return dict(_native.scenarios())


def run(
    scenario: str | os.PathLike[str],
    settings: Mapping[str, Value] | None = None,
    *,
    runs: int | None = None,
    seed: int | None = None,
    profile: str | None = None,
    series: bool = False,
    jobs: int | None = None,
    frame: bool | None = None,
    **more: Value,
) -> Result:
    """Runs a scenario in virtual time, as `tcptailor lab run SCENARIO --engine virtual`.

        tcptailor.run("wan-bulk", {"path.rtt": "80ms"}, runs=5)
        tcptailor.run("wan-bulk", path__rtt="80ms", client__congestion="bbr")

    Args:
        scenario: A built-in scenario (see `scenarios`), a file, or the text of one.
        settings: Overrides by key, such as `path.rtt` or `client.nodelay`; docs/scenarios.md and
            docs/knobs.md have them all. Values are text with a unit, `True` and `False`, numbers,
            a `timedelta`, or three sizes.
        runs: Runs of each cell, each with another seed; by default what the scenario says.
        seed: Of everything random.
        profile: The TCP of hosts whose scenario names none, such as `linux_6_18`.
        series: A row for each point of the course of each run (goodput, round-trip time, windows,
            queue, limit), a few hundred, in place of one for each run.
        jobs: Threads; by default one for each processor.
        frame: `True` for a DataFrame, `False` for a `Table`; by default a DataFrame where pandas
            is installed.
        more: More overrides; two underscores stand for a dot.

    Returns:
        A row for each run of each cell. Times are in microseconds (`_us`) or seconds (`_s`), rates
        in bit/s (`_bps`), `limit.*` are shares of the time. A row whose `usable` is false has no
        result; `caveats` say why. `Table.documents` are the `outcomes` of `lab run --json`.

    Raises:
        ValueError: No such scenario, key or value, or a setting that this TCP does not have.
        OSError: The file of the scenario cannot be read.
    """
    answer = json.loads(
        _native.run(
            _request.request(
                **_request.load(scenario),
                settings=_request.pairs(settings, more),
                runs=runs,
                seed=seed,
                profile=profile,
                series=series,
                jobs=jobs,
            )
        )
    )
    return _runs(answer, series, frame)


def sweep(
    scenario: str | os.PathLike[str],
    vary: Mapping[str, str | Iterable[Value]],
    settings: Mapping[str, Value] | None = None,
    *,
    runs: int | None = None,
    seed: int | None = None,
    profile: str | None = None,
    jobs: int | None = None,
    shard: tuple[int, int] | None = None,
    client: Client | None = None,
    shards: int | None = None,
    frame: bool | None = None,
    **more: Value,
) -> Result:
    """Runs a scenario with many values, as `tcptailor lab sweep`: each combination is a cell.

        tcptailor.sweep("wan-bulk", {"path.rtt": "1ms..200ms:log8"}, runs=10)
        tcptailor.sweep("wan-bulk", {"client.congestion": ["cubic", "bbr"]}, client=Client())

    Args:
        scenario: As for `run`.
        vary: Keys with their values: a list, or text as `--vary` takes it, such as `10ms,80ms` or
            `1ms..200ms:log8`.
        settings: As for `run`; so are `runs`, `seed`, `profile`, `jobs`, `frame` and `more`.
        shard: Only this part of the runs: `(1, 4)` is the first of four.
        client: A client of Dask, whose workers make the runs; they need this package.
        shards: Tasks of which a sweep on Dask is made; by default four for each thread of a worker.

    Returns:
        Rows as those of `run`, in the order of `lab sweep`: all cells once, then all again. The
        values that were varied are columns with the names of their keys.

    Raises:
        ValueError: As for `run`; or a shard that there is not, or too many runs for one table.
        OSError: As for `run`.
    """
    asked = {
        **_request.load(scenario),
        "settings": _request.pairs(settings, more),
        "axes": _request.axes(vary),
        "runs": runs,
        "seed": seed,
        "profile": profile,
        "jobs": jobs,
        "shard": None if shard is None else f"{shard[0]}/{shard[1]}",
    }
    if client is None:
        answer = json.loads(_native.sweep(json.dumps(asked)))
    elif shard is None:
        answer = _dask.sweep(client, asked, shards)
    else:
        raise ValueError("shard: the workers of a client share all of the runs; leave one out")
    return _runs(answer, False, frame)


def _runs(answer: Row, series: bool, frame: bool | None) -> Result:
    documents = answer.pop("outcomes")
    rows = _outcome.point_rows(documents) if series else _outcome.run_rows(documents)
    return result(Table(rows, about=answer, documents=documents), frame)


def diagnose(path: str | os.PathLike[str], *, frame: bool | None = None) -> Result:
    """Says what limits the connections of a recording or of a packet capture, and what would help.

    A recording is what `tcptailor record` writes; a capture is pcap or pcapng, as it is or
    compressed (gzip, zstd).

    Args:
        path: The file.
        frame: As for `run`.

    Returns:
        A row for each connection, the most important first. `answer` is what limits it (an id of
        docs/diagnoses.md), `idle` or `unknown`; `finding` whether there is something to change or
        a defect; `confidence` how sure that is; `changes` the settings that would help. All else
        that `tcptailor diagnose FILE --json` says of connections is in `Table.documents`, and what
        it says of the host and of the capture in `about`.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is neither a recording nor a capture, or damaged.
    """
    answer = json.loads(_native.diagnose(_readable(path)))
    flows = answer.pop("flows")
    return result(Table([_flow(flow) for flow in flows], about=answer, documents=flows), frame)


def _readable(path: str | os.PathLike[str]) -> str:
    """The path of a file that can be opened; where it cannot, Python says so in its own words."""
    with open(path, "rb"):
        return os.fsdecode(path)


_OF_FLOW = (
    "local",
    "remote",
    "pid",
    "command",
    "direction",
    "connections",
    "seen_s",
    "rate_bps",
    "min_rtt_us",
    "srtt_us",
)


def _flow(flow: Row) -> Row:
    verdicts = flow["verdicts"]
    main = verdicts[0] if verdicts else {}
    changes = [main.get("change"), *main.get("alternatives", [])]
    return {
        **{name: flow[name] for name in _OF_FLOW},
        "answer": main.get("id", "idle" if flow["idle"] else "unknown"),
        "finding": any(verdict["finding"] for verdict in verdicts),
        "share": main.get("share"),
        "confidence": main.get("confidence"),
        "sentence": main.get("sentence", flow["unknown"]),
        "changes": "; ".join(_change(change) for change in changes if change),
        "remark": main.get("remark", ""),
    }


def _change(change: Row) -> str:
    return f"{change['knob']} = {change['to_text']} ({change['side']})"


def predict(
    path: str | os.PathLike[str],
    changes: Mapping[str, Value | list[Value]] | None = None,
    *,
    far: Mapping[str, Value | list[Value]] | None = None,
    frame: bool | None = None,
) -> Result:
    """Predicts what changes would give, before anything is changed, as `tcptailor predict FILE`.

        tcptailor.predict("slow.rec", {"congestion": ["bbr", "cubic"], "sndbuf": "1MiB"})

    A twin in virtual time is fitted to the most important connection of the file. It must show
    what was seen of that; then each change is made in it. What the doctor proposes is predicted
    too.

    Args:
        path: What `tcptailor record` has written, or a packet capture (pcap, pcapng), compressed
            or not. Packets show few settings of sockets: what depends on others is not predicted
            from them (see docs/predict.md).
        changes: Settings of the observed end to try, each on its own; a list has several values.
        far: The same of the other end.
        frame: As for `run`.

    Returns:
        A row for each change, the best first. `objective` is what it is judged by, `before` what
        was seen of that, `low`, `value` and `high` what it will be, all in the unit of the
        objective, and `gain` how many times better. Where nothing can be predicted these are
        empty, and `text` says why. `about` has the twin with its self-check, `Table.documents` the
        `predictions` of `--json`.

    Raises:
        CannotPredict: There is no twin of the connection.
        OSError: The file cannot be read.
        ValueError: It is neither a recording nor a capture, or a setting or a value does not exist.
    """
    asked = _request.request(
        path=_readable(path),
        near=_request.alternatives(changes),
        far=_request.alternatives(far),
    )
    answer = json.loads(_native.predict(asked))
    if answer["twin"] is None:
        raise CannotPredict(answer["why"])
    predictions = answer.pop("predictions")
    rows = [_prediction(row) for row in predictions]
    return result(Table(rows, about=answer, documents=predictions), frame)


def _prediction(row: Row) -> Row:
    known = row.get("known") or {}
    expected = known.get("range") or {}
    return {
        "change": row["change"],
        "end": row["end"],
        "diagnosis": row["diagnosis"],
        "on_new_connections": row["acts_on_new_connections"],
        "objective": known.get("objective"),
        "before": known.get("before"),
        "low": expected.get("low"),
        "value": expected.get("value"),
        "high": expected.get("high"),
        "gain": known.get("gain"),
        "risk": row["risk"],
        "text": row["text"],
    }
