"""Runs as rows: one for each run, or one for each point of their course."""

from __future__ import annotations

from collections.abc import Sequence

from tcptailor._table import Row, flat

_NESTED = frozenset({"axes", "caveats", "lateness_us", "limits", "series"})
_ELSEWHERE = frozenset({"engine", "index", "run", "scenario", "seed", "variant"})
# Null where a workload has no responses, or no one counted: then their columns are not there.
_OPTIONAL = ("response_us", "sender")


def _identity(document: Row) -> Row:
    """Which run it is."""
    return {
        "scenario": document["scenario"],
        "variant": document["variant"],
        **document["axes"],
        "run": document["run"],
        "seed": document["seed"],
    }


def _caveat(caveat: Row) -> str:
    inside = [str(value) for name, value in caveat.items() if name != "caveat"]
    return ": ".join([caveat["caveat"], *inside])


def _numbers(document: Row, limits: Sequence[str]) -> Row:
    absent = {name for name in _OPTIONAL if document[name] is None}
    row = flat(document, without=_NESTED | _ELSEWHERE | absent)
    shares = _shares(document)
    row.update({f"limit.{name}": shares.get(name, 0.0) for name in limits})
    row["caveats"] = "; ".join(_caveat(caveat) for caveat in document["caveats"])
    return row


def _shares(document: Row) -> dict[str, float]:
    return {limit["limit"]: limit["share"] for limit in document["limits"]}


def run_rows(documents: Sequence[Row]) -> list[Row]:
    """A row for each run; a limit of any run is a column of all."""
    limits = list(dict.fromkeys(name for document in documents for name in _shares(document)))
    return [{**_identity(document), **_numbers(document, limits)} for document in documents]


def point_rows(documents: Sequence[Row]) -> list[Row]:
    """A row for each point of the course of each run."""
    return [
        {**_identity(document), **point}
        for document in documents
        for point in document["series"]
    ]
