"""What a type checker is told is what there is."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import tcptailor

PACKAGE = Path(tcptailor.__file__).parent


def stubs(name: str) -> list[ast.FunctionDef]:
    tree = ast.parse((PACKAGE / name).read_text())
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def test_stubs_have_the_parameters_of_the_functions():
    told = stubs("__init__.pyi")
    assert {stub.name for stub in told} <= set(tcptailor.__all__)
    for stub in told:
        arguments = stub.args
        names = [argument.arg for argument in [*arguments.args, *arguments.kwonlyargs]]
        if arguments.kwarg:
            names.append(arguments.kwarg.arg)
        assert names == list(inspect.signature(getattr(tcptailor, stub.name)).parameters)


def test_stubs_name_all_that_is_compiled():
    native = {stub.name for stub in stubs("_native.pyi")} | {"VERSION"}
    assert native == {name for name in dir(tcptailor._native) if not name.startswith("_")}


def test_all_that_is_public_is_documented_and_typed():
    for name in tcptailor.__all__:
        if name != "Value":
            assert inspect.getdoc(getattr(tcptailor, name)), name
    assert (PACKAGE / "py.typed").exists()
