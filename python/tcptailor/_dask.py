"""Sweeps on the workers of a Dask cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tcptailor import _native

if TYPE_CHECKING:
    from distributed import Client

_RETRIES = 3
_SHARDS_PER_THREAD = 4


def _shard(asked: str) -> str:
    """What a worker does; it has this package."""
    return _native.sweep(asked)


def sweep(client: Client, asked: dict[str, Any], shards: int | None) -> dict[str, Any]:
    """The answer to a request, put together from those to its shards.

    A worker that dies loses the shards that it was at; Dask gives them to another one. The smaller
    they are, the less is lost. What came out does not depend on who made it.
    """
    count = shards or _SHARDS_PER_THREAD * max(1, sum(client.nthreads().values()))
    tasks = [
        client.submit(
            _shard,
            json.dumps({**asked, "jobs": 1, "shard": f"{index}/{count}"}),
            pure=False,
            retries=_RETRIES,
        )
        for index in range(1, count + 1)
    ]
    try:
        answers = [json.loads(answer) for answer in client.gather(tasks)]
    finally:
        client.cancel(tasks)
    outcomes = [outcome for answer in answers for outcome in answer["outcomes"]]
    outcomes.sort(key=lambda outcome: (outcome["run"], outcome["index"]))
    return {**answers[0], "outcomes": outcomes}
