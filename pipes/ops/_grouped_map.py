"""`GroupedMap`: the operator of `map_batches`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Literal, cast

import numpy as np

from ..core.block import Block, cursor_at, group_rows, join_blocks
from ..core.checks import check_choice, check_int
from ..core.context import Context, Work
from ..core.cursor import Cursor
from ..core.gather import gather
from ..core.operator import Columns, StageView
from ..core.rows import BlockRows, Indices, concat, index_array, take
from ..engine.call_pool import AheadLimit, BegunCall
from ..errors import UnfitError
from ._concurrent_map import ConcurrentMap
from ._data_error import data_error
from .map_columns import FORMATS

_IN_GROUP = "in the group that begins at"


@dataclass(frozen=True)
class GroupedMap(ConcurrentMap):
    """Calls the function with groups of rows; which rows form a group does not matter, as long as nothing is drawn.

    Draws are keyed by the number of the group. Each group then has the rows from a multiple of `size` on. So it has if
    calls run at the same time, because a group is begun before its rows are asked for.
    """

    kind: ClassVar[str] = "map_batches"
    awaits: ClassVar[bool] = False

    size: int = field(kw_only=True)
    format: Literal["rows", "numpy", "arrow", "torch"] = field(default="rows", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "size", check_int("size", self.size, least=1))
        check_choice("format", self.format, ("rows", *FORMATS))

    @property
    def columns(self) -> Columns:  # type: ignore[override]
        return Columns.LOSES if self.format == "rows" else Columns.MAKES

    @property
    def row_function(self) -> Callable[..., object]:
        convert = _on_rows if self.format == "rows" else FORMATS[self.format]
        return partial(_checked, partial(convert, self.function))

    def calls_ahead(self) -> int:
        return self.size * super().calls_ahead()

    def lookback(self) -> int:
        return self.size

    def start_calls(self, stage: StageView, indices: Indices, context: Context) -> Sequence[Work]:
        numbers: list[int] = (index_array(indices) // self.size).tolist()
        groups: dict[int, BegunCall] = {}
        for number in dict.fromkeys(numbers):
            begin = partial(self._begin, stage, number, context)
            # Kept, because a later call of this method may ask for the other rows of a group.
            group = stage.memo(("begun", context.key(stage.name).tobytes(), number), begin)
            groups[number] = begin() if group.future.cancelled() else group
        return [groups[number] for number in numbers]

    def _begin(self, stage: StageView, number: int, context: Context) -> BegunCall:
        rows = stage.input.rows(self._range(stage, number), context)
        return BegunCall(self._pool(stage, context).submit(self._call, stage, rows, number, context), number)

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        if not len(indices):  # the function need not return columns without rows
            first = range(1 if stage.input.length and self.format != "rows" else 0)
            return take(self.rows(stage, first, context), range(0)) if first else []
        if self.rng is False and not self.calls_ahead():
            results, error = self._call(stage, stage.input.rows(indices, context), 0, context)
            if error is not None:
                failing = int(indices[self.size * len(results)])
                raise data_error(self, stage.failed_at(error, failing, context), _IN_GROUP)
            return concat(results)
        length = stage.input.length or 0
        bounds = stage.memo("bounds", lambda: np.append(np.arange(0, length, self.size, dtype=np.int64), length))
        begun: dict[int, BegunCall] = {}
        for index in index_array(indices).tolist() if context.started else ():
            if (group := cast("BegunCall | None", context.take_started(stage, index))) is not None:
                begun[group.group] = group
        return gather(
            indices, bounds, lambda number, places: take(self._group(stage, number, begun.get(number), context), places)
        )

    def _group(self, stage: StageView, number: int, begun: BegunCall | None, context: Context) -> BlockRows:
        def make() -> BlockRows:
            ahead = self.calls_ahead() and context.process.threads
            call = self._begin(stage, number, context) if begun is None and ahead else begun
            if call is None:
                results, error = self._call(
                    stage, stage.input.rows(self._range(stage, number), context), number, context
                )
            else:
                results, error = self._result(stage, call.future, context)
            if error is not None:
                raise data_error(self, stage.failed_at(error, number * self.size, context), _IN_GROUP)
            return results[0]

        return stage.memo((context.key(stage.name).tobytes(), number), make)

    def _range(self, stage: StageView, number: int) -> range:
        return range(number * self.size, min((number + 1) * self.size, stage.input.length or 0))

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        skip = at.skip % self.size  # of the first group, which is made again
        row = at.position - skip
        groups = group_rows(stage.input.blocks(Cursor.of(at.token).advance(at.skip - skip), context), self.size)
        for group, whole, results, error in self._called(stage, _joined(groups, row), context):
            if error is not None and self.rng is False and not isinstance(error, UnfitError):
                # Search the row that fails. If none fails again, it counts as the first.
                singles, again = replace(self, size=1)._call(stage, whole.rows, 0, context)
                results, error = (singles, again) if again is not None else (results, error)
            converted = concat(results) if results else []
            failing = cursor_at(group, len(converted)) if error is not None else None
            output = [whole.with_rows(converted).slice(skip, len(converted))] if len(converted) > skip else []
            skip = 0
            del group, whole, results, converted  # only the consumer holds them now
            if output:
                yield output.pop()
            if error is not None and failing is not None:
                raise data_error(self, stage.failed(error, failing, context), _IN_GROUP)

    def _called(
        self, stage: StageView, groups: Iterator[tuple[list[Block], Block]], context: Context
    ) -> Iterator[tuple[list[Block], Block, list[BlockRows], Exception | None]]:
        """Each group, as blocks and as one block, with its results and the error that ended them."""
        calls = ((pair, (stage, pair[1].rows, pair[1].at.row // self.size, context)) for pair in groups)
        if not self.calls_ahead() or not context.process.threads:
            for (group, whole), arguments in calls:
                yield group, whole, *self._call(*arguments)
            return
        limit = AheadLimit(self.calls_ahead() // self.size, context)
        for (group, whole), future in self._pool(stage, context).in_order(self._call, calls, limit):
            results, error = self._result(stage, future, context)
            for rows in results:
                limit.measure(rows, 1)
            yield group, whole, results, error

    def _result(
        self, stage: StageView, call: Future[object], context: Context
    ) -> tuple[list[BlockRows], Exception | None]:
        result, failed = self._pool(stage, context).result(call)
        return cast("tuple[list[BlockRows], Exception | None]", result) if failed is None else ([], failed)

    def _call(
        self, stage: StageView, rows: BlockRows, number: int, context: Context
    ) -> tuple[list[BlockRows], Exception | None]:
        """The results of the groups in `rows`, the first of which has that number, and the error of the next group."""
        starts = range(0, len(rows), self.size)
        groups: list[object] = [take(rows, range(start, min(start + self.size, len(rows)))) for start in starts]
        results, error = self._apply(stage, groups, range(number, number + len(groups)), context)
        return cast("list[BlockRows]", results), error


def _joined(groups: Iterable[list[Block]], row: int) -> Iterator[tuple[list[Block], Block]]:
    """Each group, also as one block; the first of them begins at row `row` of the output."""
    for group in groups:
        rows, origins = join_blocks(group)
        whole = Block(rows, Cursor(group[0].at.plain, 0, row), Cursor(group[-1].end.plain, 0, row + len(rows)), origins)
        row += len(rows)
        del rows
        yield group, whole
        del group, whole  # only the consumer holds them now


def _checked(convert: Callable[..., BlockRows], group: BlockRows, *rng: object) -> BlockRows:
    rows = convert(group, *rng)
    if len(rows) != len(group):
        raise UnfitError(f"the function must return a row for each of the {len(group)} rows but returned {len(rows)}")
    return rows


def _on_rows(function: Callable[..., object], group: BlockRows, *rng: object) -> list[object]:
    rows = function(group[:], *rng)  # the function may change the list
    if not isinstance(rows, Iterable) or isinstance(rows, (str, bytes, Mapping)):
        raise UnfitError(f"the function must return a list of rows but returned a value of type {type(rows).__name__}")
    return list(cast("Iterable[object]", rows))
