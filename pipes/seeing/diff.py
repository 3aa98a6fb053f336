"""`compared`: the first step at which two recorded runs differ, and why."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from ..core.graph import node_code
from ..errors import FeedpipeError, Origin
from ..loading.replay import ElementCursor, lineage_of, replay, unstable_operator
from ..pipe import Pipe
from .order_digest import digest_of
from .record import Record, RecordedStep, differences_of

MAX_ORIGINS = 3
"""The most rows of a step that are named."""


class Comparison(NamedTuple):
    """The result of a comparison.

    Attributes:
        same: both runs gave the same in all steps that both have.
        lines: what is to be said of it.
    """

    same: bool
    lines: list[str]


class _Difference(NamedTuple):
    """A step that differs."""

    rank: int
    one: RecordedStep
    other: RecordedStep


def compared(
    first: str | os.PathLike[str], second: str | os.PathLike[str], pipe: Pipe[Any] | None = None
) -> Comparison:
    """Compare the records of two runs.

    Args:
        first, second: the folders.
        pipe: that of the runs as it is now; the first step that differs is then made again by its cursor, to name the
            file and row.

    Raises:
        DataError: a folder has no record, or a damaged one.
    """
    one, other = Record(first), Record(second)
    reasons = _reasons(one, other)
    if {*one.headers} != {*other.headers}:
        same, lines = _by_epoch(one, other)
        return Comparison(same, lines + reasons)
    common = differing = 0
    earliest: _Difference | None = None
    for rank in one.headers:
        steps, others = one.steps(rank), other.steps(rank)
        places = sorted(steps.keys() & others.keys())
        common += len(places)
        unequal = [place for place in places if steps[place].element != others[place].element]
        differing += len(unequal)
        if unequal and (earliest is None or unequal[0] < (earliest.one.epoch, earliest.one.step)):
            earliest = _Difference(rank, steps[unequal[0]], others[unequal[0]])
    if earliest is None:
        ranks = "" if len(one.headers) == 1 else f" of {len(one.headers)} ranks"
        return Comparison(True, [f"both runs gave the same in {common} steps{ranks}", *reasons])
    lines = [_first_line(earliest, common, differing), *_rows_line(earliest), *reasons]
    if pipe is not None:
        lines += _replayed(earliest, pipe, os.fspath(first), os.fspath(second))
    return Comparison(False, lines)


def _reasons(one: Record, other: Record) -> list[str]:
    """What differs in pipe, code and arguments."""
    before, now = (next(iter(record.headers.values())) for record in (one, other))
    return differences_of({**before, "rank": 0}, {**now, "rank": 0})


def _by_epoch(one: Record, other: Record) -> tuple[bool, list[str]]:
    """Of runs with other numbers of ranks: whether all ranks together gave the same rows in each epoch."""
    sums, others = (_row_sums(record) for record in (one, other))
    lines: list[str] = []
    for epoch in sorted(sums.keys() | others.keys()):
        (rows, total), (other_rows, other_total) = sums.get(epoch, (0, 0)), others.get(epoch, (0, 0))
        if total == other_total:
            lines.append(f"epoch {epoch}: all ranks together gave the same {rows} rows")
        else:
            lines.append(f"epoch {epoch}: all ranks together gave other rows, {rows} and {other_rows}")
    return sums == others, lines


def _row_sums(record: Record) -> dict[int, tuple[int, int]]:
    """The number of rows and the sum of their hashes, by epoch."""
    sums: dict[int, tuple[int, int]] = {}
    for rank in record.headers:
        for step in record.steps(rank).values():
            if step.cursor is None:  # padding, which repeats rows
                continue
            rows, total = sums.get(step.epoch, (0, 0))
            sums[step.epoch] = rows + step.size, (total + int(step.rows, 16)) % 2**64
    return sums


def _first_line(found: _Difference, common: int, differing: int) -> str:
    rank = f" of rank {found.rank}" if found.rank else ""
    return (
        f"the first step that differs is step {found.one.step} of epoch {found.one.epoch}{rank}; {differing} of "
        f"{common} steps differ"
    )


def _rows_line(found: _Difference) -> Iterator[str]:
    one, other = found.one, found.other
    if one.size != other.size:
        yield f"it has {one.size} rows in one run and {other.size} in the other"
    elif one.rows == other.rows:
        yield "it has the same rows in another order"


def _replayed(found: _Difference, pipe: Pipe[Any], first: str, second: str) -> Iterator[str]:
    """What the cursors of a step give now, on both sides."""
    sides = [(name, step) for name, step in ((first, found.one), (second, found.other)) if step.cursor is not None]
    origins: list[Sequence[Origin]] = []
    for name, step in sides:
        assert step.cursor is not None, "padding was left out"
        try:
            element = replay(pipe, step.cursor)
            origins.append(lineage_of(pipe, step.cursor))
        except FeedpipeError as error:
            yield f"{name}: the step cannot be made again: {error}"
            return
        if f"{digest_of(element).element:016x}" == step.element:
            yield f"{name}: the pipe still gives this step{_named(origins[-1])}"
        elif f"{digest_of(replay(pipe, step.cursor)).element:016x}" != f"{digest_of(element).element:016x}":
            yield f"{name}: the pipe gives another step each time{_unstable(pipe, step.cursor)}"
        else:
            yield f"{name}: the pipe gives another step now{_named(origins[-1])}"
    if len(origins) == 2:
        pairs = enumerate(zip_longest(*origins))
        row = next(((number, *pair) for number, pair in pairs if pair[0] != pair[1]), None)
        if row is not None:
            yield f"row {row[0]} of the step is made of {row[1]} in {first}, and of {row[2]} in {second}"
        elif origins[0]:
            yield "both are made of the same rows, so an operator makes something else of them"


def _unstable(pipe: Pipe[Any], cursor: ElementCursor) -> str:
    """The operator that has no key for what it draws, or reads something that changes."""
    node = unstable_operator(pipe, cursor, digest_of)
    if node is None:
        return ""
    where = "" if node.call_site is None else f" at {node.call_site}"
    return f", because of `{node_code(node)}`{where}; `rng=True` gives its function a generator with a key"


def _named(origins: Sequence[Origin]) -> str:
    if not origins:
        return ""
    more = f" and {len(origins) - MAX_ORIGINS} more" if len(origins) > MAX_ORIGINS else ""
    return f", made of {', '.join(map(str, origins[:MAX_ORIGINS]))}{more}"
