"""Operators and sources are complete: method, documentation, test. Modules and imports keep to their places."""

from __future__ import annotations

import ast
import configparser
import importlib
import inspect
from collections import defaultdict
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

import pytest

import feedpipe
from feedpipe.extensions import Context, Operator

from .support.operators import OperatorMethods
from .support.sources import read_files

TESTS = Path(__file__).resolve().parent
PACKAGE = TESTS.parent / "pipes"

# What users import; the rest of the package is internal.
PUBLIC = {
    "accelerate",
    "compat",
    "errors",
    "extensions",
    "lightning",
    "media",
    "stats",
    "testing",
    "torch",
    "transformers",
}

# Folders of tests whose files are programs of their own, or run without the other tests.
OWN_ENVIRONMENT = ("browser", "clients", "databases", "gpu", "soak", "third_party", "typing")

Function = Callable[..., Any]

# The methods of `Pipe`, each with the module that it leads to.
OPERATORS = {
    name: inspect.unwrap(value).__module__.removeprefix("feedpipe.")
    for name, value in vars(OperatorMethods).items()
    if inspect.isfunction(value)
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
        siblings = [name, *(other for other, place in OPERATORS.items() if place == module)]
        paths = [*(path for stem in siblings for path in TESTS.glob(f"ops/*/test_{stem.removeprefix('parse_')}.py"))]
        assert paths, f"tests/ops has no test_{name}.py"
        assert any(calls(path, "check_operator") for path in paths)


@pytest.mark.parametrize("name", SOURCES)
class TestSource:
    def test_documentation_has_an_example(self, name: str) -> None:
        assert has_example(getattr(feedpipe, name))

    def test_has_a_test_that_checks_the_law_of_cursors(self, name: str) -> None:
        own = TESTS / "sources" / f"test_{name}.py"
        path = own if own.exists() else TESTS / "readers" / "test_conformance.py"
        assert own.exists() or name in vars(read_files), f"{own.relative_to(TESTS.parent)} is missing"
        assert calls(path, "check_operator")


def test_the_reference_has_a_line_of_each_operator() -> None:
    examples = (TESTS / "test_reference.py").read_text(encoding="utf-8")
    methods = [name for name, value in vars(OperatorMethods).items() if inspect.isfunction(value)]
    assert not [name for name in methods if f".{name}(" not in examples]


@cache
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

    def test_there_are_fourteen_layers(self) -> None:
        contracts = configparser.ConfigParser()
        contracts.read(TESTS.parent / ".importlinter", encoding="utf-8")
        layers = contracts["importlinter:contract:layers"]["layers"].split("\n")
        assert len([layer for layer in layers if layer.strip()]) == 14

    def test_every_module_begins_with_a_sentence_on_what_is_in_it(self) -> None:
        sentences = {path: (ast.get_docstring(tree) or "").partition("\n")[0] for path, tree in modules().items()}
        assert {path for path, sentence in sentences.items() if not sentence.endswith((".", ":"))} == set()

    @pytest.mark.slow
    def test_no_imports_go_in_a_circle(self) -> None:
        """Import-linter ignores the imports that only types need; this test does not."""
        graph = {path: imports(path, tree) for path, tree in modules().items()}
        for path in graph:
            if path.startswith(("ops/", "files/")):
                graph[path].discard("pipe.py")  # the price of `batch = _batch` in `OperatorMethods`, with exact types
        # Imported by `Pipe.explain`, `Pipe.draw`, `Pipe.count` and `Pipe.as_map_dataset` when they are called.
        graph["pipe.py"] -= {
            "plan/explain.py",
            "seeing/drawing.py",
            "loader.py",
            "services/base.py",
            "loading/ranks.py",
            "compat/datasets.py",
        }
        graph["seeing/report.py"].discard("seeing/report_page.py")  # imported by `Report.save` when it is called
        graph["ops/load.py"].discard("writing/load_files.py")  # imported when a run of `load(path)` writes the files
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


def internals(path: Path) -> set[str]:
    """Return the internal modules of the package that a file of tests imports from."""
    names = {
        node.module or ""
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and not node.level
    }
    return {name for name in names if name.startswith("feedpipe.") and name.split(".")[1] not in PUBLIC}


def test_tests_take_internals_from_one_door() -> None:
    """A module that moves changes a line in `tests/support`, and no test. Programs that tests start are exempt."""
    paths = [
        path for path in TESTS.rglob("*.py") if path.relative_to(TESTS).parts[0] not in ("support", *OWN_ENVIRONMENT)
    ]
    tests = [path for path in paths if '__name__ == "__main__"' not in path.read_text(encoding="utf-8")]
    assert {str(path.relative_to(TESTS)): names for path in tests if (names := internals(path))} == {}


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in TESTS.rglob("test_*.py")])
def test_tests_do_not_sleep(path: Path) -> None:
    """A pause that is long enough on one machine is too short on another: use events and fake clocks."""
    assert not calls(path, "sleep")
