import os
from collections.abc import Iterable, Mapping
from typing import Literal, overload

import pandas
from distributed import Client

from tcptailor._request import Value as Value
from tcptailor._table import Table as Table

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
__version__: str

class CannotPredict(ValueError): ...

def scenarios() -> dict[str, str]: ...
@overload
def run(
    scenario: str | os.PathLike[str],
    settings: Mapping[str, Value] | None = None,
    *,
    runs: int | None = None,
    seed: int | None = None,
    profile: str | None = None,
    series: bool = False,
    jobs: int | None = None,
    frame: Literal[True] | None = None,
    **more: Value,
) -> pandas.DataFrame: ...
@overload
def run(
    scenario: str | os.PathLike[str],
    settings: Mapping[str, Value] | None = None,
    *,
    runs: int | None = None,
    seed: int | None = None,
    profile: str | None = None,
    series: bool = False,
    jobs: int | None = None,
    frame: Literal[False],
    **more: Value,
) -> Table: ...
@overload
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
    frame: Literal[True] | None = None,
    **more: Value,
) -> pandas.DataFrame: ...
@overload
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
    frame: Literal[False],
    **more: Value,
) -> Table: ...
@overload
def diagnose(
    path: str | os.PathLike[str], *, frame: Literal[True] | None = None
) -> pandas.DataFrame: ...
@overload
def diagnose(path: str | os.PathLike[str], *, frame: Literal[False]) -> Table: ...
@overload
def predict(
    path: str | os.PathLike[str],
    changes: Mapping[str, Value | list[Value]] | None = None,
    *,
    far: Mapping[str, Value | list[Value]] | None = None,
    frame: Literal[True] | None = None,
) -> pandas.DataFrame: ...
@overload
def predict(
    path: str | os.PathLike[str],
    changes: Mapping[str, Value | list[Value]] | None = None,
    *,
    far: Mapping[str, Value | list[Value]] | None = None,
    frame: Literal[False],
) -> Table: ...
