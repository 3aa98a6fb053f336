"""`pipe.check()`: each rule on a pipe that breaks it and on one that does not; its repair runs, and repairs.

A repair that begins with a dot is chained to `source`, the pipe before the call; other code sees the whole `pipe`.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, PlanWarning, SourceError

from ..support import seeing
from ..support.seeing import Finding

ROWS = fp.from_sequence(range(200))


def jitter(x: float, rng: Any) -> float:
    return x + float(rng.random())


def with_a_lock() -> Callable[[int], int]:
    lock = threading.Lock()

    def locked(x: int) -> int:
        with lock:
            return x

    return locked


def few_files(folder: Path, files: int = 3) -> fp.Pipe[Any]:
    for number in range(files):
        pq.write_table(pa.table({"x": np.random.default_rng(number).random(60_000)}), folder / f"{number}.parquet")
    return fp.read_parquet(folder)


@dataclass(frozen=True)
class Case:
    """Pipes for one rule.

    Attributes:
        source: what comes before the call that the rule is about.
        broken, right: that breaks the rule, and that does not.
        options: of `check`.
        memory: the bytes that a rank seems to have; None for those that it has.
        names: that the repair uses.
    """

    source: Callable[[Path], fp.Pipe[Any]]
    broken: Callable[[fp.Pipe[Any]], fp.Pipe[Any]]
    right: Callable[[fp.Pipe[Any]], fp.Pipe[Any]]
    severity: str = "warning"
    options: dict[str, Any] = field(default_factory=dict)
    memory: int | None = None
    names: dict[str, Any] = field(default_factory=dict)


def rows(_: Path) -> fp.Pipe[Any]:
    return ROWS


def stream(_: Path) -> fp.Pipe[Any]:
    return fp.from_iterable(range(200))


CASES = {
    "cache-order": Case(stream, lambda p: p.map(jitter, rng=True).load(), lambda p: p.load().map(jitter, rng=True)),
    "unpicklable": Case(rows, lambda p: p.map(with_a_lock()), lambda p: p.map(abs), "error", {"workers": 2}),
    "other-rows": Case(rows, lambda p: p.shuffle().take(5), lambda p: p.shuffle(each_epoch=False).take(5)),
    "uneven-ranks": Case(rows, lambda p: p.batch(150), lambda p: p.batch(2), "error", {"world_size": 3}),
    "uneven-ranks of some rows": Case(rows, lambda p: p.batch(4), lambda p: p.batch(2), "warning", {"world_size": 4}),
    "read-again": Case(stream, lambda p: p.map(abs), lambda _: ROWS.map(abs), "warning", {"workers": 2, "shards": 2}),
    "few-units": Case(
        few_files, lambda p: p.shuffle(window=10), lambda _: ROWS.shuffle(window=10), "warning", {"world_size": 4}
    ),
    "memory": Case(
        few_files,
        lambda p: p.shuffle(window=100_000),
        lambda p: p.shuffle(window=2),
        memory=2**18,
    ),
}


def found(case: Case, pipe: fp.Pipe[Any], rule: str, **more: Any) -> list[Finding]:
    findings = pipe.check(**{**case.options, **more})
    return [finding for finding in findings if finding.rule == rule]


@pytest.mark.parametrize("name", CASES)
def test_a_rule_finds_a_pipe_that_breaks_it_and_no_other(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, rule = CASES[name], name.split()[0]
    if case.memory is not None:
        monkeypatch.setattr(seeing.process, "memory_budget", lambda: case.memory)
        monkeypatch.setattr(seeing.check, "memory_budget", lambda: case.memory)
    monkeypatch.chdir(tmp_path)
    source = case.source(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        broken = case.broken(source)
        (finding,) = found(case, broken, rule)
        assert found(case, case.right(source), rule) == []
    assert finding.severity == case.severity
    assert str(finding).splitlines()[0].endswith(f"{case.severity}: {rule}")
    if finding.where is not None:
        assert finding.where.file == __file__
    repaired = run_repair(finding, case, source, broken)
    if isinstance(repaired, fp.Pipe):
        assert found(case, repaired, rule) == []
        repaired.head(3)
    elif isinstance(repaired, fp.Loader):
        with repaired:
            next(iter(repaired))


def run_repair(finding: Finding, case: Case, source: fp.Pipe[Any], pipe: fp.Pipe[Any]) -> object:
    """Run the code of a repair: what it says about the pipe, a loader that it makes, or None."""
    names: dict[str, Any] = {**globals(), **case.names, "source": source, "pipe": pipe}
    code = finding.repair
    if code.startswith("."):
        return eval(f"source{code}", names)
    if code.startswith("fp.Loader"):
        return eval(code, names)
    exec(code, names)
    return names["pipe"] if names["pipe"] is not pipe else None


def test_no_function_is_called_and_no_row_is_read() -> None:
    looks: list[int] = []

    def rows() -> Any:
        looks.append(0)
        yield from range(10)

    assert list(fp.from_iterable(rows).map(looks.append).shuffle(window=3).batch(2).check(workers=0)) == []
    assert looks == []


def test_errors_come_first_and_a_warning_of_the_plan_is_a_finding() -> None:
    findings = ROWS.map(with_a_lock()).shuffle().take(198).batch(4).check(world_size=4, workers=1)
    assert [(finding.rule, finding.severity) for finding in findings] == [
        ("unpicklable", "error"),
        ("other-rows", "warning"),
        ("uneven-ranks", "warning"),
    ]
    assert findings[0] is next(iter(findings)) and len(findings[:2]) == 2
    assert str(findings).count("repair:") == 3
    assert repr(ROWS.check()) == "nothing found"
    with pytest.warns(PlanWarning, match="of 50 elements are left out of an epoch") as caught:
        next(iter(fp.Loader(ROWS.map(abs).batch(4), rank=0, world_size=4)))
    assert caught[0].message.finding == findings[2]  # type: ignore[union-attr]


def test_arguments_and_a_pipe_without_a_plan() -> None:
    for arguments in ({"world_size": 0}, {"workers": -1}, {"shards": 0}):
        with pytest.raises(ArgumentError, match=f"`{next(iter(arguments))}` must be >="):
            ROWS.check(**arguments)
    with pytest.raises(SourceError, match=r"none\.txt"):
        fp.read_lines("none.txt").check()
