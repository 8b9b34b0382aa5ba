"""The cells of the notebook run, in their order."""

from __future__ import annotations

import json

import pytest
from conftest import ROOT

pytest.importorskip("pandas")
matplotlib = pytest.importorskip("matplotlib")

NOTEBOOK = ROOT / "examples" / "notebook" / "tour.ipynb"


def test_the_cells_of_the_notebook_run(monkeypatch):
    matplotlib.use("Agg")
    monkeypatch.chdir(NOTEBOOK.parent)
    names: dict[str, object] = {}
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), "tour.ipynb", "exec"), names)
