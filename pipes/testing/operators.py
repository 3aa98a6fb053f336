"""`check_operator`: checks that an operator keeps the law of cursors, and that its shards give the same rows."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..core.block_size import BlockSize, Clock
from ..core.context import Context, Pacing
from ..core.cursor import START, Cursor
from ..core.graph import node_code
from ..core.rows import BlockRows, signature
from ..core.skipped_rows import has_skipped, parted
from ..engine.stage import Stage, bind, resolve
from ..pipe import Pipe
from .blocks import check_block, check_first_block, check_lookback, through_json
from .elements import same
from .sharding import RowsOf, check_shards


class _RandomSize:
    """Blocks of a random size, without a clock."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def rows(self) -> int:
        return self._chance.choice([1, 1, 2, 3, 7, 40])

    def produced(self, rows: BlockRows) -> None:
        pass


def random_blocks(chance: random.Random, *, seed: int = 0, epoch: int = 0) -> Context:
    """A context in which all operators cut their blocks at random positions."""

    def block_size(clock: Clock) -> BlockSize:
        return _RandomSize(chance)

    def cut(length: int) -> list[int]:
        if chance.random() < 0.5:
            return [length]
        places = sorted({0, length, *(chance.randrange(length + 1) for _ in range(chance.randrange(1, 4)))})
        return [b - a for a, b in pairwise(places)]

    return Context(seed=seed, epoch=epoch, pacing=Pacing(block_size, cut=cut))


@dataclass(frozen=True)
class Trace:
    """The rows of a run, with a cursor before and one after each."""

    rows: list[object]
    before: list[Cursor]
    after: list[Cursor]


def trace(stage: Stage, at: Cursor, context: Context) -> Trace:
    """Runs `stage` from `at`; checks that blocks are never empty and that cursors count the rows."""
    run = Trace([], [], [])
    for block in stage.blocks(at, context):
        position = at.position + len(run.rows)
        check_block(stage, block, position)
        count = len(block)
        run.before.extend(block.at.advance(k) for k in range(count))
        run.after.extend(block.at.advance(k + 1) for k in range(count - 1))
        run.after.append(block.end)
        run.rows.extend(block.rows)
    return run


def check_operator(
    pipe: Pipe[object], *, samples: int = 12, seed: int = 0, epoch: int = 0, rows_of: RowsOf | None = None
) -> list[object]:
    """Check that `pipe` keeps the law of cursors, and return its rows, without those that a policy leaves out.

    The check runs the pipe with blocks cut at random. Then it resumes the pipe from cursors before and after rows (all
    of them, or `samples` drawn at random) that have gone through JSON, and resumes it again from the resumed run: the
    rows must be exactly those that follow. A cursor beyond the end must give no row. If the pipe is indexed, `rows`
    must agree with `blocks`, and at no positions give no rows, of the same columns; if its length is known, that many
    rows must come.

    Unless the last operator is `Order.GLOBAL`, 2 and 3 shards of the pipe together must give the same rows, in any
    order. The rows of `Order.REGROUPS` are those of its groups. If the operator draws at random by key, or leaves out
    rows, only their number must be the same; nothing if it draws which rows come (`reshuffles`).

    Args:
        pipe: ends with the operator to check; its rows must be the same in each run.
        samples: how many positions to resume from.
        seed: the seed of the run and of the random cuts.
        epoch: the epoch of the run.
        rows_of: for an operator that regroups, a function from a group to the rows in it; by default, a group is
            iterated.

    Raises:
        AssertionError: names the operator, the cursor or the number of shards, and the first row that differs.

    Example:
        >>> import feedpipe as fp
        >>> from feedpipe.testing import check_operator
        >>> check_operator(fp.from_sequence(range(5)).filter(lambda x: x % 2))
        [1, 3]
    """
    chance = random.Random(seed)
    root = resolve(pipe)
    stage = bind(root)
    name = node_code(root)

    def run(at: Cursor) -> Trace:
        return trace(stage, through_json(name, at), random_blocks(chance, seed=seed, epoch=epoch))

    check_lookback(root)
    check_first_block(stage, Context(seed=seed, epoch=epoch))
    whole = run(START)
    rows = [_copied(row) for row in whole.rows]  # an operator that changes its input's rows changes those of all runs
    count = len(rows)
    length = stage.length
    assert length is None or length == count, f"`length` of `{name}` is {length}, but it produced {count} rows"
    cases = [(place, cursors[place], shift) for place in range(count) for cursors, shift in _cursors(whole)]
    if len(cases) > 2 * samples:
        cases = chance.sample(cases, 2 * samples)
    for place, cursor, shift in cases:
        first = place + shift
        again = run(cursor)
        _agree(name, cursor, again.rows, rows[first:])
        if again.rows:
            inside = chance.randrange(len(again.rows))
            _agree(name, again.after[inside], run(again.after[inside]).rows, rows[first + inside + 1 :])
        reach = chance.randrange(1, count + 3)
        _agree(name, cursor.advance(reach), run(cursor.advance(reach)).rows, rows[first + reach :])
    if stage.indexed and count:
        context = Context(seed=seed, epoch=epoch)
        chosen = np.array([chance.randrange(count) for _ in range(samples)], np.int64)
        _agree(name, "`rows`", list(stage.rows(chosen, context)), [rows[i] for i in chosen])
        _agree(name, "`rows`", list(stage.rows(range(count), context)), rows)
    if stage.indexed:
        _check_no_rows(stage, count, Context(seed=seed, epoch=epoch))
    check_shards(root, [*parted(rows).values], seed=seed, epoch=epoch, rows_of=rows_of)
    return [*parted(whole.rows).values]


def _check_no_rows(stage: Stage, count: int, context: Context) -> None:
    """Checks that `rows` gives no rows at no positions, and holds them as it holds all others."""
    name = node_code(stage.node)
    firsts = (stage.rows(range(place, place + 1), context) for place in range(count))
    held = signature(next((first for first in firsts if not has_skipped(first)), stage.rows(range(0), context)))
    for indices in (range(0), np.zeros(0, np.int64)):
        rows = stage.rows(indices, context)
        assert len(rows) == 0, f"`{name}` gives {len(rows)} rows at the positions {indices!r}"
        assert signature(rows) == held, (
            f"`{name}` gives rows of the columns {held} but at no positions of {signature(rows)}"
        )


def _cursors(run: Trace) -> list[tuple[list[Cursor], int]]:
    return [(run.before, 0), (run.after, 1)]


def _copied(row: object) -> object:
    """A copy of `row`, or the row itself if no copy is equal to it."""
    try:
        copied = copy.deepcopy(row)
        return copied if same(copied, row) else row
    except Exception:  # a row may be anything, also what cannot be copied
        return row


def _agree(name: str, at: object, got: Sequence[object], expected: Sequence[object]) -> None:
    for place, (one, other) in enumerate(zip(got, expected, strict=False)):
        assert same(one, other), f"`{name}` from {at}: row {place} is {one!r} and should be {other!r}"
    assert len(got) == len(expected), f"`{name}` from {at} produced {len(got)} rows, and {len(expected)} were left"
