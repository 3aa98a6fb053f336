"""No module imports itself in a circle, not even for types, but for the types between `pipe` and the operators."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import fields
from graphlib import TopologicalSorter
from pathlib import Path

from feedpipe.core.context import Context
from feedpipe.core.operator import Operator

PACKAGE = Path(__file__).resolve().parent.parent / "pipes"


def module_paths() -> dict[str, Path]:
    """Return the files of all modules by their names below `feedpipe`, without the package itself."""
    paths: dict[str, Path] = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").rstrip(".")
        if name:
            paths[name] = path
    return paths


def statements(nodes: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements at the head of a module, those for type checkers included."""
    for node in nodes:
        yield node
        if isinstance(node, ast.If):
            yield from statements([*node.body, *node.orelse])


def imports(name: str, paths: dict[str, Path]) -> set[str]:
    """Return the modules of the package that `name` imports at its head."""
    path = paths[name]
    folder = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    targets: set[str] = set()
    for node in statements(ast.parse(path.read_text(encoding="utf-8")).body):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*folder[: len(folder) - node.level + 1], *(node.module or "").split(".")]
            for alias in node.names:
                module = ".".join(filter(None, [*base, alias.name]))
                targets.add(module if module in paths else ".".join(filter(None, base)))
    return (targets & paths.keys()) - {name}


def test_modules_import_each_other_in_no_circle() -> None:
    paths = module_paths()
    graph = {name: imports(name, paths) for name in paths}
    assert {"core.graph", "engine.stage"} <= graph["pipe"] and "pipe" in graph["ops.batch"]
    for name in graph:
        if name.startswith("ops."):
            graph[name].discard("pipe")  # chain functions return a `Pipe`, and `Pipe` has them as methods
    TopologicalSorter(graph).prepare()  # raises a CycleError that names the circle


def test_the_contract_is_small() -> None:
    assert len(Operator.__annotations__) <= 11
    assert len(fields(Context)) <= 9
