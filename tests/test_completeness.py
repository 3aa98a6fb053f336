"""Operators and sources are complete: file, method, documentation, test. Files keep their sizes and their places."""

from __future__ import annotations

import ast
import configparser
import importlib
import inspect
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import fields
from graphlib import TopologicalSorter
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

import pytest

import feedpipe
from feedpipe.core.context import Context
from feedpipe.core.operator import Operator
from feedpipe.ops._methods import OperatorMethods

TESTS = Path(__file__).resolve().parent
PACKAGE = TESTS.parent / "pipes"

Function = Callable[..., Any]

# Of the parsers, `parse_csv` is in `ops/parsing/csv.py`; `open_files` keeps its name.
OPERATORS = {
    path.stem if path.stem == "open_files" or path.parent.name != "parsing" else f"parse_{path.stem}": (
        f"ops.{path.parent.name}.{path.stem}"
    )
    for path in PACKAGE.glob("ops/*/[!_]*.py")
}
SOURCES = sorted(
    name
    for name, value in vars(feedpipe).items()
    if inspect.isfunction(value) and value.__module__.startswith("feedpipe.sources.")
)


def chain_functions(module: ModuleType) -> dict[str, Function]:
    """Return the public functions written in `module` whose first, positional-only argument is `pipe`."""
    functions: dict[str, Function] = {}
    for name, value in vars(module).items():
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_"):
            first = next(iter(inspect.signature(value).parameters.values()), None)
            if first is not None and first.name == "pipe" and first.kind is first.POSITIONAL_ONLY:
                functions[name] = value
    return functions


def has_example(function: Function) -> bool:
    return ">>> " in (inspect.getdoc(function) or "")


def calls(path: Path, name: str) -> bool:
    """Return whether the file calls `name`, as a name or as an attribute."""
    text = path.read_text(encoding="utf-8")
    return name in text and any(
        isinstance(node, ast.Call) and name in (getattr(node.func, "id", ""), getattr(node.func, "attr", ""))
        for node in ast.walk(ast.parse(text))
    )


@pytest.mark.parametrize(("name", "module"), sorted(OPERATORS.items()))
class TestOperator:
    def test_has_a_chain_function_of_its_name(self, name: str, module: str) -> None:
        assert name in chain_functions(importlib.import_module(f"feedpipe.{module}"))

    def test_is_a_method_of_pipe(self, name: str, module: str) -> None:
        functions = chain_functions(importlib.import_module(f"feedpipe.{module}"))
        missing = [
            name for name, function in functions.items() if inspect.unwrap(vars(OperatorMethods)[name]) is not function
        ]
        assert not missing, f"pipes/ops/_methods.py needs a line for each: {missing}"

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
    methods = [name for name, value in vars(OperatorMethods).items() if inspect.isfunction(value)]
    functions = [f"fp.{name}" for name in feedpipe.__all__ if inspect.isfunction(getattr(feedpipe, name))]
    assert not [name for name in methods + functions if f"`{name}(" not in text]
    examples = "".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    assert not [name for name in methods if f".{name}(" not in examples]


def modules() -> dict[str, ast.Module]:
    """Return the code of every module, by its path in the package."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {str(path.relative_to(PACKAGE)): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def imports(path: str, tree: ast.Module) -> set[str]:
    """Return the paths of the modules that a module of the package imports, for types too."""
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = PurePosixPath(path).parents[node.level - 1] / (node.module or "").replace(".", "/")
            for alias in node.names:
                places = (base / alias.name, base)  # a module, or what the module `base` holds
                files = [file for place in places for file in (f"{place}.py", str(place / "__init__.py"))]
                imported.add(next(file for file in files if (PACKAGE / file).exists()))
    return imported


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


class TestHouse:
    def test_the_root_has_five_modules(self) -> None:
        root = {path.name for path in PACKAGE.glob("*.py")}
        assert root == {"__init__.py", "errors.py", "extensions.py", "loader.py", "pipe.py"}

    def test_there_are_twelve_layers(self) -> None:
        contracts = configparser.ConfigParser()
        contracts.read(TESTS.parent / ".importlinter", encoding="utf-8")
        layers = contracts["importlinter:contract:layers"]["layers"].split("\n")
        assert len([layer for layer in layers if layer.strip()]) == 12

    def test_files_are_short(self) -> None:
        paths = [*PACKAGE.rglob("*.py"), *TESTS.rglob("*.py")]
        assert {path: lines(path) for path in paths if lines(path) >= 400} == {}

    def test_files_of_operators_are_shorter(self) -> None:
        paths = [PACKAGE / f"{module.replace('.', '/')}.py" for module in OPERATORS.values()]
        assert {path: lines(path) for path in paths if lines(path) >= 150} == {}

    def test_every_module_begins_with_a_sentence_on_what_is_in_it(self) -> None:
        sentences = {path: (ast.get_docstring(tree) or "").partition("\n")[0] for path, tree in modules().items()}
        assert {path for path, sentence in sentences.items() if not sentence.endswith((".", ":"))} == set()

    def test_no_imports_go_in_a_circle(self) -> None:
        """Import-linter ignores the imports that only types need; this test does not."""
        graph = {path: imports(path, tree) for path, tree in modules().items()}
        for path in graph:
            if path.startswith("ops/"):
                graph[path].discard("pipe.py")  # the price of `batch = _batch` in `OperatorMethods`, with exact types
        # Imported by `Pipe.explain`, `Pipe.count` and `Pipe.as_map_dataset` when they are called.
        graph["pipe.py"] -= {
            "plan/explain.py",
            "loader.py",
            "services/base.py",
            "loading/rank.py",
            "compat/datasets.py",
        }
        assert list(TopologicalSorter(graph).static_order())  # a `CycleError` names the circle

    def test_the_contract_of_operators_is_small(self) -> None:
        assert len(Operator.__annotations__) <= 12
        assert len(fields(Context)) <= 10

    def test_no_two_classes_have_one_name(self) -> None:
        places: defaultdict[str, list[str]] = defaultdict(list)
        for path, tree in modules().items():
            for node in tree.body:
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(path)
        assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_there_are_operators_and_sources() -> None:
    assert OPERATORS
    assert SOURCES


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in TESTS.rglob("test_*.py")])
def test_tests_do_not_sleep(path: Path) -> None:
    """A pause that is long enough on one machine is too short on another: use events and fake clocks."""
    assert not calls(path, "sleep")
