"""`GroupedMap`: the operator of `map_batches`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Literal, cast

import numpy as np

from ..core.block import Block, cursor_at, group_rows, join_blocks
from ..core.checks import check_choice, check_int
from ..core.context import Context
from ..core.cursor import Cursor
from ..core.gather import gather
from ..core.operator import Columns, StageView
from ..core.rows import BlockRows, Indices, concat, take
from ..errors import UnfitError
from ._data_error import data_error
from .map import Map
from .map_columns import FORMATS

_IN_GROUP = "in the group that begins at"


@dataclass(frozen=True)
class GroupedMap(Map):
    """Calls the function with groups of rows; which rows form a group does not matter, as long as nothing is drawn.

    Draws are keyed by the number of the group. Each group then has the rows from a multiple of `size` on.
    """

    kind: ClassVar[str] = "map_batches"

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

    def lookback(self) -> int:
        return self.size

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        if not len(indices):  # the function need not return columns without rows
            first = range(1 if stage.input.length and self.format != "rows" else 0)
            return take(self.rows(stage, first, context), range(0)) if first else []
        if self.rng is False:
            results, error = self._call(stage, stage.input.rows(indices, context), 0, context)
            if error is not None:
                failing = int(indices[self.size * len(results)])
                raise data_error(self, stage.failed_at(error, failing, context), _IN_GROUP)
            return concat(results)
        length = stage.input.length or 0
        bounds = stage.memo("bounds", lambda: np.append(np.arange(0, length, self.size, dtype=np.int64), length))
        return gather(indices, bounds, lambda number, places: take(self._group(stage, number, context), places))

    def _group(self, stage: StageView, number: int, context: Context) -> BlockRows:
        def make() -> BlockRows:
            start = number * self.size
            indices = range(start, min(start + self.size, stage.input.length or 0))
            results, error = self._call(stage, stage.input.rows(indices, context), number, context)
            if error is not None:
                raise data_error(self, stage.failed_at(error, start, context), _IN_GROUP)
            return results[0]

        return stage.memo((context.key(stage.name).tobytes(), number), make)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        skip = at.skip % self.size  # of the first group, which is made again
        row = at.position - skip
        for group in group_rows(stage.input.blocks(Cursor.of(at.token).advance(at.skip - skip), context), self.size):
            rows, origins = join_blocks(group)
            results, error = self._call(stage, rows, row // self.size, context)
            if error is not None and self.rng is False and not isinstance(error, UnfitError):
                # Search the row that fails. If none fails again, it counts as the first.
                singles, again = replace(self, size=1)._call(stage, rows, 0, context)
                results, error = (singles, again) if again is not None else (results, error)
            start = Cursor(group[0].at.plain, 0, row)
            row += len(rows)
            whole = Block(rows, start, Cursor(group[-1].end.plain, 0, row), origins)
            converted = concat(results) if results else []
            failing = cursor_at(group, len(converted)) if error is not None else None
            output = [whole.with_rows(converted).slice(skip, len(converted))] if len(converted) > skip else []
            skip = 0
            del group, rows, whole, results, converted  # only the consumer holds them now
            if output:
                yield output.pop()
            if error is not None and failing is not None:
                raise data_error(self, stage.failed(error, failing, context), _IN_GROUP)

    def _call(
        self, stage: StageView, rows: BlockRows, number: int, context: Context
    ) -> tuple[list[BlockRows], Exception | None]:
        """The results of the groups in `rows`, the first of which has that number, and the error of the next group."""
        starts = range(0, len(rows), self.size)
        groups: list[object] = [take(rows, range(start, min(start + self.size, len(rows)))) for start in starts]
        results, error = self._apply(stage, groups, range(number, number + len(groups)), context)
        return cast("list[BlockRows]", results), error


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
