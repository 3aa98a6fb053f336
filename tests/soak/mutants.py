"""`python -m tests.soak.mutants [MODULE ...]`: small changes of the code that divides rows; each must fail a test.

Each mutant is the module with one comparison, sum or number changed, in a copy of the package. It is caught if the
tests that are named for its module fail, or take far longer than before. One that is not caught is a test that is
missing, unless `EQUIVALENT` says why it means the same.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import copy
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import hypothesis
import numpy as np
import pyarrow.parquet
import pytest

from .equivalent_mutants import EQUIVALENT

ROOT = Path(__file__).parents[2]
MEMORY_BYTES = 8 * 2**30
LIMIT = 5, 20.0
"""A mutant may take so many times as long as the module itself, and so many seconds more."""

ELASTIC = ("tests/loading/test_elastic.py", "tests/loading/test_even_after_redivision.py")
TESTS: dict[str, tuple[str, ...]] = {
    "plan/divide.py": ("tests/plan/test_pieces.py", *ELASTIC),
    "plan/rests.py": ("tests/plan/test_rests.py", *ELASTIC),
    "plan/lengths.py": ("tests/plan/test_lengths.py", *ELASTIC),
    "plan/shards.py": (
        "tests/plan/test_shard_operators.py",
        "tests/plan/test_part_operators.py",
        "tests/plan/test_sharding.py",
        "tests/loading/test_job_state.py",
        *ELASTIC,
    ),
    "loading/job_state.py": (*ELASTIC, "tests/loading/test_job_state.py"),
    "core/context.py": ("tests/core/test_context.py", *ELASTIC),
    "core/cursor.py": ("tests/core/test_cursor.py", "tests/loading/test_elastic.py", "tests/plan/test_sharding.py"),
}

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATIONS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
TEXTS = {"left": "right", "right": "left"}
LEFT_OUT = ("cast", "field", "isinstance", "StateError", "ValueError")
"""Calls of these are not changed: they do not decide on rows."""


class Mutant(NamedTuple):
    """A module with one change.

    Attributes:
        name: the function, and the changed line of code.
        line: its number.
        source: the code of the module.
    """

    name: str
    line: int
    source: str


def mutants(source: str) -> Iterator[Mutant]:
    """All mutants of a module."""
    tree = ast.parse(source)
    for function, statement, node in _nodes(tree, "", None):
        for field, value in _changes(node):
            before = getattr(node, field)
            setattr(node, field, value)
            text = ast.unparse(_headline(statement)).partition("\n")[0]
            yield Mutant(f"{function}: {text}", statement.lineno, ast.unparse(tree))
            setattr(node, field, before)


def _nodes(node: ast.AST, function: str, statement: ast.stmt | None) -> Iterator[tuple[str, ast.stmt, ast.AST]]:
    """The nodes of a tree that may be changed, each with the name of its function and its statement."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, (ast.Import, ast.ImportFrom, ast.Raise)):
                continue
            if isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id in LEFT_OUT:
                continue
            if isinstance(child, ast.keyword) and child.arg == "strict":
                continue
            named = isinstance(child, (ast.FunctionDef, ast.ClassDef))
            inner = f"{function}.{child.name}".lstrip(".") if named else function  # type: ignore[attr-defined]
            nearest = child if isinstance(child, ast.stmt) else statement
            if nearest is not None:
                yield inner, nearest, child
            yield from _nodes(child, inner, nearest)


def _changes(node: ast.AST) -> Iterator[tuple[str, object]]:
    """The field of a node to change, and what to put there."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for comparison in COMPARISONS[type(node.ops[0])]:
            yield "ops", [comparison()]
    elif isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in OPERATIONS:
        yield "op", OPERATIONS[type(node.op)]()
    elif isinstance(node, ast.BoolOp):
        yield "op", ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "operand", ast.UnaryOp(ast.Not(), node.operand)
    elif isinstance(node, ast.Name) and node.id in NAMES:
        yield "id", NAMES[node.id]
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "value", not node.value
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield "value", node.value + 1
        yield "value", node.value - 1
    elif isinstance(node, ast.Constant) and node.value in TEXTS:
        yield "value", TEXTS[str(node.value)]


def _headline(statement: ast.stmt) -> ast.stmt:
    """A statement without the statements inside it."""
    if not hasattr(statement, "body"):
        return statement
    headline = copy.copy(statement)
    headline.body = [ast.Pass()]  # type: ignore[attr-defined]
    return headline


class Runner:
    """Runs the tests of a module with a copy of the package, in a process that begins with all libraries imported."""

    def __init__(self, folder: Path) -> None:
        self.package = folder / "feedpipe"
        shutil.copytree(ROOT / "pipes", self.package, ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(self.package, quiet=1)

    def passes(self, module: str, source: str, seconds: float) -> bool:
        """Whether the tests pass with this code of the module, in so many seconds."""
        path = self.package / module
        kept = path.read_text()
        path.write_text(source)
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()
        process = os.fork()
        if not process:
            self._run(TESTS[module])
        try:
            return _ends_well(process, seconds)
        finally:
            path.write_text(kept)

    def _run(self, tests: Sequence[str]) -> None:
        """Runs tests in this process, and ends it."""
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        sys.path.insert(0, str(self.package.parent))
        os.environ["PYTHONPATH"] = str(self.package.parent)
        sys.dont_write_bytecode = True
        status = 1
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            status = pytest.main(
                ["-x", "-q", "-p", "no:cacheprovider", "--assert=plain", *tests], plugins=[_WithoutShrinking()]
            )
        finally:
            os._exit(int(status))


class _WithoutShrinking:
    """The same random examples in each run, and none made smaller."""

    def pytest_configure(self) -> None:
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile("mutants", deadline=None, derandomize=True, phases=phases)
        hypothesis.settings.load_profile("mutants")


def _ends_well(process: int, seconds: float) -> bool:
    """Whether a process ends without an error in time; it is killed otherwise, with all that it has started."""
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                return status == 0
            time.sleep(0.02)
        return False
    finally:
        try:
            os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def check(module: str, runner: Runner) -> list[str]:
    """Runs all mutants of a module.

    Returns:
        The names of those that no test catches, without the equivalent ones.

    Raises:
        AssertionError: the tests fail without any change.
    """
    source = (ROOT / "pipes" / module).read_text()
    start = time.monotonic()
    assert runner.passes(module, source, 600), f"the tests of {module} fail without a change: {TESTS[module]}"
    seconds = LIMIT[0] * (time.monotonic() - start) + LIMIT[1]
    ends: Counter[str] = Counter()
    survivors: list[str] = []
    for mutant in mutants(source):
        if mutant.name in EQUIVALENT.get(module, {}):
            ends["equivalent"] += 1
        elif not runner.passes(module, mutant.source, seconds):
            ends["caught"] += 1
        else:
            ends["not caught"] += 1
            survivors.append(mutant.name)
            print(f"{module}:{mutant.line}: no test catches: {mutant.name}", flush=True)
    counts = ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))
    print(f"mutants of {module}: {counts}; {time.monotonic() - start:.0f} s", flush=True)
    return survivors


def main() -> int:
    """Run the mutants of some modules; 1 if one of them is not caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.mutants", description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"{', '.join(TESTS)}; all by default")
    modules = parser.parse_args().modules or [*TESTS]
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(Path(folder))
        survivors = [name for module in modules for name in check(module, runner)]
        return int(bool(survivors))


if __name__ == "__main__":
    assert np.__version__ and pyarrow.parquet, "imported before the processes begin"
    sys.exit(main())
