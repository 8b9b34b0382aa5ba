"""What tests share: the program of the same tree, which says what is right."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RECORDINGS = ROOT / "corpus" / "recordings"

Program = Callable[..., subprocess.CompletedProcess[str]]


def _program() -> Path:
    """`.ci/python` names it; else the one that `cargo test` or `cargo build` has made."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return Path(os.environ.get("TCPTAILOR_PROGRAM", target / "debug" / "tcptailor"))


@pytest.fixture(scope="session")
def program() -> Program:
    """Runs the program with some words and returns what it printed."""
    path = _program()
    if not path.exists():
        assert "TCPTAILOR_PROGRAM" not in os.environ, f"{path} does not exist"
        pytest.skip("the program is not built: cargo build")

    def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([path, *words], capture_output=True, text=True, check=False)

    return run


@pytest.fixture(scope="session")
def document(program: Program) -> Callable[..., Any]:
    """What the program prints with `--json`."""

    def run(*words: str | Path) -> Any:
        done = program(*words, "--json")
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture
def without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if neither pandas nor PyArrow were installed."""
    for package in ("pandas", "pyarrow"):
        monkeypatch.setitem(__import__("sys").modules, package, None)
