"""From what a user writes to what the compiled part is asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Union

from tcptailor import _native

Value = Union[str, bool, int, float, timedelta, Sequence[int]]
"""A value of a setting: text as in a scenario file, or what Python has for it."""

FILE_BYTES_MAX = 1 << 20
"""Of a file that is longer, no more is read; no scenario is."""


def value_text(value: Value) -> str:
    """A value as scenario files have it: `True` is `on`, a triple of sizes `4096 16384 65536`."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        return repr(float(value))
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1)}us"
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return " ".join(value_text(part) for part in value)
    raise TypeError(f"{value!r} is not a value of a setting; write text such as '40ms'")


def key_text(key: str) -> str:
    """`path__rtt`, which Python takes as the name of an argument, is `path.rtt`."""
    return key.replace("__", ".")


def pairs(settings: Mapping[str, Value] | None, more: Mapping[str, Value]) -> list[list[str]]:
    """Keys with their values, those of the mapping first."""
    both = [*(settings or {}).items(), *more.items()]
    return [[key_text(key), value_text(value)] for key, value in both]


def alternatives(changes: Mapping[str, Value | list[Value]] | None) -> list[list[str]]:
    """Knobs with each of their values: a list stands for several that are tried one by one."""
    all_of_them: list[list[str]] = []
    for knob, values in (changes or {}).items():
        several: list[Any] = values if isinstance(values, list) else [values]
        all_of_them += [[key_text(knob), value_text(value)] for value in several]
    return all_of_them


def axes(vary: Mapping[str, str | Iterable[Value]]) -> list[list[Any]]:
    """Keys with their values: text as `--vary` has it, or a list."""

    def values(of: str | Iterable[Value]) -> str | list[str]:
        return of if isinstance(of, str) else [value_text(value) for value in of]

    return [[key_text(key), values(of)] for key, of in vary.items()]


def load(scenario: str | os.PathLike[str]) -> dict[str, str]:
    """The text of a scenario, and the name of its file for messages.

    A built-in scenario by its name, a file, or the text itself, which has more than one line.
    """
    if isinstance(scenario, str) and "\n" in scenario:
        return {"file": "scenario", "text": scenario}
    name = os.fspath(scenario)
    if isinstance(scenario, str):
        try:
            return {"file": f"{name}.toml", "text": _native.scenario_text(name)}
        except ValueError:
            if "/" not in name and not name.endswith(".toml") and not Path(name).exists():
                raise
    with open(name, encoding="utf-8") as file:
        return {"file": name, "text": file.read(FILE_BYTES_MAX)}


def request(**fields: Any) -> str:
    """As the compiled part reads it."""
    return json.dumps(fields)
