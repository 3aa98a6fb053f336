"""An operator or a source is whole: its file, its method, its documentation, its test."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import feedpipe
from feedpipe.pipe import Pipe

TESTS = Path(__file__).resolve().parent
PACKAGE = TESTS.parent / "pipes"

Function = Callable[..., Any]

# Of the parsers, `parse_csv` is in `ops/parsing/csv.py`; `open_files` keeps its name.
OPERATORS = {path.stem: f"ops.{path.stem}" for path in PACKAGE.glob("ops/[!_]*.py")} | {
    path.stem if path.stem == "open_files" else f"parse_{path.stem}": f"ops.parsing.{path.stem}"
    for path in PACKAGE.glob("ops/parsing/[!_]*.py")
}
SOURCES = sorted(
    name
    for name, value in vars(feedpipe).items()
    if inspect.isfunction(value) and value.__module__.startswith("feedpipe.sources.")
)


def chain_functions(module: ModuleType) -> dict[str, Function]:
    """Return the public functions written in `module` whose first, positional-only argument is `pipe`."""
    found: dict[str, Function] = {}
    for name, value in vars(module).items():
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_"):
            first = next(iter(inspect.signature(value).parameters.values()), None)
            if first is not None and first.name == "pipe" and first.kind is first.POSITIONAL_ONLY:
                found[name] = value
    return found


def has_example(function: Function) -> bool:
    return ">>> " in (inspect.getdoc(function) or "")


def calls(path: Path, name: str) -> bool:
    """Say whether the file calls `name`, plainly or as an attribute."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and name in (
            getattr(node.func, "id", ""),
            getattr(node.func, "attr", ""),
        ):
            return True
    return False


@pytest.mark.parametrize(("name", "module"), sorted(OPERATORS.items()))
class TestOperator:
    def test_has_a_chain_function_of_its_name(self, name: str, module: str) -> None:
        assert name in chain_functions(importlib.import_module(f"feedpipe.{module}"))

    def test_is_a_method_of_pipe(self, name: str, module: str) -> None:
        functions = chain_functions(importlib.import_module(f"feedpipe.{module}"))
        missing = [name for name, function in functions.items() if vars(Pipe).get(name) is not function]
        assert not missing, f"pipes/pipe.py needs a line for each: {missing}"

    def test_documentation_has_an_example(self, name: str, module: str) -> None:
        functions = chain_functions(importlib.import_module(f"feedpipe.{module}"))
        assert not [name for name, function in functions.items() if not has_example(function)]

    def test_has_a_test_that_checks_the_law_of_cursors(self, name: str, module: str) -> None:
        path = TESTS.joinpath(*module.split(".")[:-1], f"test_{module.rpartition('.')[2]}.py")
        assert path.exists(), f"{path.relative_to(TESTS.parent)} is missing"
        assert calls(path, "check_operator")


@pytest.mark.parametrize("name", SOURCES)
class TestSource:
    def test_documentation_has_an_example(self, name: str) -> None:
        assert has_example(getattr(feedpipe, name))

    def test_has_a_test_that_checks_the_law_of_cursors(self, name: str) -> None:
        path = TESTS / "sources" / f"test_{name}.py"
        assert path.exists(), f"{path.relative_to(TESTS.parent)} is missing"
        assert calls(path, "check_operator")


def test_the_reference_lists_every_operator_and_source() -> None:
    text = (TESTS.parent / "docs" / "reference.md").read_text(encoding="utf-8")
    methods = [name for name, value in vars(Pipe).items() if inspect.isfunction(value) and ".ops." in value.__module__]
    functions = [f"fp.{name}" for name in feedpipe.__all__ if inspect.isfunction(getattr(feedpipe, name))]
    assert not [name for name in methods + functions if f"`{name}(" not in text]


def test_there_are_operators_and_sources() -> None:
    assert OPERATORS
    assert SOURCES


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in TESTS.rglob("test_*.py")])
def test_tests_do_not_sleep(path: Path) -> None:
    """Waiting for a moment that is long enough here is too short elsewhere: use events and fake clocks."""
    assert not calls(path, "sleep")
