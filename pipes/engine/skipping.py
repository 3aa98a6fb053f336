"""Keeps rows that were skipped away from operators that do not know of them, and puts them back into their output."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Protocol, cast

import numpy as np

from ..core.block import Block
from ..core.context import Context
from ..core.cursor import Cursor
from ..core.graph import Node, node_code
from ..core.operator import Input, StageView
from ..core.rows import BlockRows, Indices, index_array, take
from ..core.skipped import Skipped, SkippedRow
from ..core.skipped_rows import Parted, has_skipped, parted
from ..errors import PlanError, with_call_site


class _Around(Input, StageView, Protocol):
    """A stage, as far as its operator can be kept from skipped rows."""

    @property
    def one_for_one(self) -> bool: ...
    @property
    def node(self) -> Node: ...


class _MetSkippedError(Exception):
    """An operator that does not know of skipped rows has asked for rows, and some of them were skipped."""

    def __init__(self, rows: BlockRows) -> None:
        super().__init__("some rows were skipped")
        self.rows = rows


def rows_around(stage: _Around, indices: Indices, context: Context) -> BlockRows:
    """`rows` of an operator that does not know of skipped rows: it gets the others, and these keep their places.

    Raises:
        PlanError: the operator makes a row of several rows of its input, some of which were skipped.
    """
    try:
        return stage.op.rows(
            _View(stage, cast("list[Input]", [_GuardedRows(source) for source in stage.inputs])), indices, context
        )
    except _MetSkippedError as met:
        rows = met.rows
    if not stage.one_for_one or len(rows) != len(indices):
        raise PlanError(
            with_call_site(
                f"`{node_code(stage.node)}` makes a row of several rows, and some of them were skipped, so it has no "
                "row at their place; put it before the operator that skips rows, or regroup them with `batch` first",
                stage.call_site,
            )
        )
    parts = parted(rows)
    places = index_array(indices)[np.array(parts.places, np.int64)]
    if not len(places):
        return parts.merged([])
    return parts.merged(
        stage.op.rows(_View(stage, [cast("Input", _RowsAtHand(stage.input, places, parts))]), places, context)
    )


def blocks_around(stage: _Around, at: Cursor, context: Context) -> Iterator[Block]:
    """`blocks` of an operator that does not know of skipped rows.

    If it gives one row for each row, these keep their places. Else they end here, and count before the row that the
    operator gives next.
    """
    if stage.one_for_one:
        return _one_for_one(stage, at, context)
    return _left_out(stage, at, context)


def _one_for_one(stage: _Around, at: Cursor, context: Context) -> Iterator[Block]:
    waiting: deque[Block] = deque()  # of one `Skipped` each
    source = _GuardedBlocks(stage.input, waiting.append)
    for block in stage.op.blocks(_View(stage, [cast("Input", source)]), at, context):
        while waiting and waiting[0].at.position < block.end.position:
            first = waiting.popleft()
            skipped = cast("Skipped", cast("list[object]", first.rows)[0])
            before = first.at.position - block.at.position
            if before > 0:
                yield block.slice(0, before)
                block = block.slice(before, len(block))
            if skipped.is_row:
                yield first
                continue
            row = block.slice(0, 1)
            yield Block([skipped.before(next(iter(row.rows)))], row.at, row.end, row.origins)
            if len(block) == 1:
                break
            block = block.slice(1, len(block))
        else:
            yield block
    yield from waiting


def _left_out(stage: _Around, at: Cursor, context: Context) -> Iterator[Block]:
    skips: list[SkippedRow] = []

    def leave_out(block: Block) -> None:
        skips.extend(cast("Skipped", cast("list[object]", block.rows)[0]).skips)

    # One row at a time: a resume then runs no row again whose function may fail this time, or not fail any more.
    inputs = [_GuardedBlocks(source, leave_out, one_by_one=True) for source in stage.inputs]
    end = at
    for block in stage.op.blocks(_View(stage, cast("list[Input]", inputs)), at, context):
        begin, end = end, block.end
        if not skips:
            yield block
            continue
        skipped = Skipped(tuple(skips), is_row=False)
        skips.clear()
        row = block.slice(0, 1)
        # A resume at its cursor comes to the skipped rows again, which stand before it.
        yield Block([skipped.before(next(iter(row.rows)))], begin, row.end, row.origins)
        if len(block) > 1:
            yield block.slice(1, len(block))
    if not skips:
        return
    skipped = Skipped(tuple(skips))
    if (leftover := context.leftovers.get(stage.name)) is not None:
        context.leftovers[stage.name] = Block([*leftover.rows, skipped], leftover.at, leftover.end)
    else:
        yield Block([skipped], end, end.advance(1))


class _View:
    """A stage with other inputs, for one run of its operator."""

    def __init__(self, stage: _Around, inputs: Sequence[Input]) -> None:
        self._stage = stage
        self.inputs = inputs
        self.memo = stage.memo
        self.failed = stage.failed
        self.failed_at = stage.failed_at
        self.failed_on = stage.failed_on
        self.skip = stage.skip
        self.name = stage.name
        self.call_site = stage.call_site

    @property
    def input(self) -> Input:
        return self.inputs[0] if len(self.inputs) == 1 else self._stage.input

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stage, name)


class _Guarded:
    """An input without the rows that were skipped."""

    def __init__(self, source: Input) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


class _GuardedRows(_Guarded):
    def rows(self, indices: Indices, context: Context) -> BlockRows:
        rows = self._source.rows(indices, context)
        if has_skipped(rows):
            raise _MetSkippedError(rows)
        return rows


class _RowsAtHand(_GuardedRows):
    """Gives the rows that remain at some positions, without reading them again."""

    def __init__(self, source: Input, places: np.ndarray[Any, np.dtype[np.int64]], parts: Parted) -> None:
        super().__init__(source)
        self._places = places
        self._parts = parts

    def rows(self, indices: Indices, context: Context) -> BlockRows:
        at = index_array(indices)
        if len(at) == len(self._places) and (at == self._places).all():
            return self._parts.values
        if len(at) and np.isin(at, self._places).all():
            order = np.argsort(self._places)
            return take(self._parts.values, order[np.searchsorted(self._places[order], at)])
        return super().rows(indices, context)


class _GuardedBlocks(_Guarded):
    """Gives the rows that remain, and hands each `Skipped` to a function, in a block of its own."""

    def __init__(self, source: Input, skipped: Any, *, one_by_one: bool = False) -> None:
        super().__init__(source)
        self._skipped = skipped
        self._one_by_one = one_by_one

    def blocks(self, at: Cursor, context: Context) -> Iterator[Block]:
        for block in self._source.blocks(at, context):
            if has_skipped(block.rows):
                yield from self._remaining(block)
            elif self._one_by_one and isinstance(block.rows, list):
                for place in range(len(block)):
                    yield block.slice(place, place + 1)
            else:
                yield block

    def _remaining(self, block: Block) -> Iterator[Block]:
        parts = parted(block.rows)
        rows = dict(zip(parts.places, range(len(parts.places)), strict=True))
        cuts = {0, parts.total, *parts.skipped, *(place + 1 for place in parts.skipped)}
        if self._one_by_one and isinstance(block.rows, list):
            cuts.update(range(parts.total))
        bounds = sorted(cuts)
        for start, stop in pairwise(bounds):
            piece = block.slice(start, stop)
            if start in parts.skipped:
                self._skipped(Block([parts.skipped[start]], piece.at, piece.end, piece.origins))
            if start in rows:
                first = rows[start]
                yield Block(take(parts.values, range(first, first + stop - start)), piece.at, piece.end, piece.origins)


def remaining_blocks(blocks: Iterator[Block]) -> Iterator[Block]:
    """The rows of a run that were not skipped, for a consumer that needs no cursors."""
    for block in blocks:
        parts = parted(block.rows)
        if not parts.skipped:
            yield block
        elif parts.places:
            yield Block(parts.values, block.at, block.end)
