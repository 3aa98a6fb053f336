"""`sliding`: windows of neighbouring rows, or of the neighbouring rows of each series."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast
from zlib import crc32

import numpy as np

from ..core.block import Block, cursor_at, group_origins, join_origins, parted, skip_rows
from ..core.checks import check_int
from ..core.code import call_code
from ..core.context import Context
from ..core.cursor import START, Cursor, Json, check_numbers
from ..core.findings import Finding
from ..core.operator import Input, Operator, Order, StageView
from ..core.rows import BlockRows, Indices, Rows, concat, index_array, take
from ..core.shared_rows import copier_of, shared
from ..errors import PlanError
from ._keys import Ints, Key, KeyNumbers, RowKey, check_key, check_named_key, key_numbers
from ._shared import data_error

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")

ROWS_WITHOUT_WINDOW = 10_000
"""A stream that gives no window for so many rows has keys that do not lie together."""


def sliding(pipe: Pipe[T], /, size: int, step: int = 1, *, key: Key | None = None) -> Pipe[Sequence[T]]:
    """Give windows of `size` neighbouring rows; each begins `step` rows after the one before.

        a b c d e   ->   sliding(3): [a b c] [b c d] [c d e]

    Element: a list of rows; of a table a `feedpipe.Rows`. Windows that overlap share arrays, which are read-only. Order
    is the input's. Length: the number of full windows. Indexed if the input is. State: a position; a resume reads
    `size` or `step` rows again.

    **Series.** Without `key`, windows reach from the end of one series into the next: from one patient, sensor or
    episode to another. With it, all rows of a window have one key, and windows begin at rows 0, `step`, 2 `step` of
    each series; order is that of their first rows. In an indexed pipe, the rows of a series need not lie together, as
    in a long table in the order of time. The keys are read once, before the first row; kept are 8 bytes for each
    window, and 8 for each row if a key comes back. In a streamed pipe, a series ends where the key changes, so its rows
    must lie together, and the length is unknown. Series of one file each need no key:
    `files.interleave(lambda file: fp.read_csv(file).sliding(24), cycle=1)`.

    Args:
        size: rows in each window.
        step: rows from the begin of a window to that of the next. Windows do not overlap if it is `size`. Rows at the
            end that do not fill a window are left out.
        key: the series of a row: the name of a column, several names, or a function of the row.

    Raises:
        ArgumentError: `size` or `step` is below 1.
        PlanError: there is no such column; or rows of an indexed pipe are skipped. If only a run can tell that there is
            no column, a `DataError`.
        DataError: a key is not hashable, such as a list.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence(range(5)).sliding(3))
        [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
        >>> fp.from_sequence(range(100)).sliding(10, step=5)[2]
        [10, 11, 12, 13, 14, 15, 16, 17, 18, 19]
        >>> rows = [{"sensor": "ab"[n % 2], "n": n} for n in range(6)]
        >>> [[row["n"] for row in window] for window in fp.from_sequence(rows).sliding(2, key="sensor")]
        [[0, 2], [1, 3], [2, 4], [3, 5]]
    """
    series = check_key("key", key)
    return pipe.then(Sliding(size, step) if series is None else SeriesWindows(size, step, key=series))


@dataclass(frozen=True, eq=False, repr=False)
class Sliding(Operator):
    """A token is [cursor of the input at the first row of a window, 1 if that window was given]."""

    kind: ClassVar[str] = "sliding"
    order: ClassVar[Order] = Order.GLOBAL

    size: int
    step: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", check_int("size", self.size, least=1))
        object.__setattr__(self, "step", check_int("step", self.step, least=1))

    def length(self, stage: StageView) -> int | None:
        rows = stage.input.length
        return None if rows is None else self._count(rows)

    def lookback(self) -> int:
        return max(self.size, self.step)

    def numbers(self, rows: BlockRows) -> tuple[Ints, Exception | None]:
        """Number the series of the rows before the first that has none; return also its error."""
        return np.zeros(len(rows), np.int64), None

    def trace(self, stage: StageView, index: int, context: Context) -> Iterator[tuple[Input, int, Context]]:
        first = index * self.step
        return ((stage.input, row, context) for row in range(first, first + self.size))

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        if isinstance(indices, range) and indices.step == 1 and self.step <= self.size and indices:
            first = indices.start * self.step
            rows = stage.input.rows(range(first, (indices.stop - 1) * self.step + self.size), context)
            spans = [(at, at + self.size) for at in range(0, len(indices) * self.step, self.step)]
            return _cut(rows, spans, overlap=self.step < self.size)
        places = index_array(indices)[:, None] * self.step + np.arange(self.size)
        rows = stage.input.rows(places.reshape(-1), context)
        return [take(rows, range(start, start + self.size)) for start in range(0, places.size, self.size)]

    def _count(self, rows: int) -> int:
        return max(0, (rows - self.size) // self.step + 1)

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        source, is_done = cast("tuple[Json, int]", at.token or (None, 0))
        check_numbers(is_done)
        yield stage.input, source

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        source, is_done = cast("tuple[Json, int]", at.token or (None, 0))
        row, looked, has_changed = at.row, 0, False
        pending: list[Block] = []  # from the first row of a window on: the last that was given, or the next
        changes = np.zeros(0, np.bool_)  # for each of these rows, if a series begins there
        for block in stage.input.blocks(Cursor.of(source), context):
            last = [pending[-1].rows[-1:]] if pending else []
            numbers, error = self.numbers(concat([*last, block.rows]))
            count = max(0, len(numbers) - len(last))
            if count:
                pending.append(block.slice(0, count))
                changes = np.append(changes, np.diff(numbers, prepend=-1)[len(last) :] != 0)
            changes[:1] = True
            begins = np.flatnonzero(changes)
            spans = self._spans(begins, len(changes), is_done)
            if spans:
                windows = _windows([part.rows for part in pending], spans, overlap=self.step < self.size)
                start = Cursor([cursor_at(pending, spans[0][0]).plain, 0], 0, row)
                row += len(spans)
                end = Cursor([cursor_at(pending, spans[-1][0]).plain, 1], 0, row)
                origins = group_origins(join_origins(pending), (range(*span) for span in spans))
                output = [Block(windows, start, end, origins)]
                del windows
                yield output.pop()
            if error is not None:
                raise data_error(self, stage.failed(error, block.at.advance(count), context))
            keep, is_done = int(begins[-1]), is_done if len(begins) == 1 else 0
            if spans and spans[-1][0] >= keep:
                keep, is_done = spans[-1][0], 1
            changes = changes[keep:]
            pending = list(skip_rows(pending, keep))
            looked, has_changed = looked + len(block), has_changed or len(begins) > 1
            if has_changed and at == START and row == 0 and looked - len(block) < ROWS_WITHOUT_WINDOW <= looked:
                text = (
                    f"`{call_code(self)}`: {ROWS_WITHOUT_WINDOW} rows give no window, because the key changes before "
                    "there are enough rows of it; sort the rows by it, put `.load()` before, or give a smaller `size`"
                )
                Finding("no-windows", "warning", stage.call_site, text, f".load().{call_code(self)}").warn()

    def _spans(self, begins: Ints, rows: int, is_done: int) -> list[tuple[int, int]]:
        """The windows of series that begin at these rows; `is_done` is 1 if the first of them was given before."""
        stops = np.append(begins[1:], rows) - self.size + 1
        spans: list[tuple[int, int]] = []
        for number in np.flatnonzero(stops > begins).tolist():
            first = int(begins[number]) + (self.step if number == 0 and is_done else 0)
            spans += [(start, start + self.size) for start in range(first, int(stops[number]), self.step)]
        return spans


@dataclass(frozen=True, eq=False, repr=False)
class SeriesWindows(Sliding):
    """Windows of rows of one key, a series.

    Of an indexed input, `firsts` are the first rows of the windows, as places in `places`: the rows of the input,
    series by series; None if they lie so.
    """

    kind: ClassVar[str] = "sliding"

    key: RowKey = field(default=None, kw_only=True)
    firsts: Ints | None = field(default=None, kw_only=True, repr=False, compare=False)
    places: Ints | None = field(default=None, kw_only=True, repr=False, compare=False)

    def identity(self) -> Json:
        if self.firsts is None:
            return None
        places = b"" if self.places is None else self.places.tobytes()
        return {"windows": len(self.firsts), "rows": crc32(places, crc32(self.firsts.tobytes()))}

    def remark(self, stage: StageView) -> str | None:
        if stage.input.indexed:
            return None
        return "a series ends where the key changes, so its rows must lie together; `.load()` before it lifts that"

    def resolve(self, stage: StageView) -> Operator:
        check_named_key(self, stage, self.key)
        if not stage.input.indexed:
            return self
        series = self._series(stage)
        places = None
        begins = np.flatnonzero(np.diff(series, prepend=-1))
        if len(begins) > len(np.unique(series[begins])):  # a key comes back
            places = np.argsort(series, kind="stable")
            series = series[places]
            begins = np.flatnonzero(np.diff(series, prepend=-1))
        lengths = np.diff(np.append(begins, len(series)))
        counts = np.maximum(0, (lengths - self.size) // self.step + 1)
        numbers = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        firsts = np.repeat(begins, counts) + self.step * numbers
        if places is not None:
            firsts = firsts[np.argsort(places[firsts])]
        return replace(self, firsts=firsts, places=places)

    def numbers(self, rows: BlockRows) -> tuple[Ints, Exception | None]:
        return key_numbers(rows, self._key)

    def _series(self, stage: StageView) -> Ints:
        """The number of the series of each row."""
        numbers = KeyNumbers(self._key)
        series = np.zeros(stage.input.length or 0, np.int64)
        with closing(Context()) as context:
            for block in stage.input.blocks(START, context):
                if parted(block.rows).skipped:
                    raise PlanError(
                        f"`{call_code(self)}` makes a row of several rows, and some of them were skipped, so it "
                        "has no row at their place; put it before the operator that skips rows",
                        at=stage.call_site,
                    )
                own, error = numbers.of(block.rows)
                if error is not None:
                    raise data_error(self, stage.failed(error, block.at.advance(len(own)), context))
                series[block.at.position : block.at.position + len(block)] = own
        return series

    @property
    def _key(self) -> Any:
        assert self.key is not None, "`sliding` without a key is another operator"
        return self.key

    @property
    def _firsts(self) -> Ints:
        assert self.firsts is not None, "`resolve` finds the windows before a run"
        return self.firsts

    def length(self, stage: StageView) -> int | None:
        return len(self._firsts) if stage.input.indexed else None

    def trace(self, stage: StageView, index: int, context: Context) -> Iterator[tuple[Input, int, Context]]:
        places = int(self._firsts[index]) + np.arange(self.size)
        rows = places if self.places is None else self.places[places]
        return ((stage.input, row, context) for row in rows.tolist())

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        firsts = self._firsts[index_array(indices)]
        # A row that lies in several windows is read once.
        places = np.unique(firsts[:, None] + np.arange(self.size))
        rows = stage.input.rows(_rows_at(places if self.places is None else self.places[places]), context)
        starts = np.searchsorted(places, firsts).tolist()
        return _cut(rows, [(start, start + self.size) for start in starts], overlap=self.step < self.size)


def _rows_at(rows: Ints) -> Indices:
    """Neighbouring rows as a `range`, so that storage can slice."""
    if len(rows) and int(rows[-1] - rows[0]) == len(rows) - 1 and (np.diff(rows) == 1).all():
        return range(int(rows[0]), int(rows[-1]) + 1)
    return rows


def _windows(parts: list[BlockRows], spans: list[tuple[int, int]], *, overlap: bool) -> list[object]:
    """Cut windows out of the rows of all parts. Whether a window has columns must not depend on its neighbours."""
    joined = concat(parts)
    if isinstance(joined, Rows) or not any(isinstance(part, Rows) for part in parts):
        return _cut(joined, spans, overlap=overlap)
    windows = (concat(_between(parts, start, stop)) for start, stop in spans)
    return [shared(window) if isinstance(window, list) else window for window in windows]


def _cut(rows: BlockRows, spans: list[tuple[int, int]], *, overlap: bool) -> list[object]:
    """Cut windows out of rows, each with rows of its own."""
    if overlap and isinstance(rows, list) and (own := shared(rows)) is not rows:
        copier = copier_of(own)  # of rows whose arrays are read-only already
        return [copier(own[start:stop]) if copier else own[start:stop] for start, stop in spans]
    return [rows[start:stop] for start, stop in spans]


def _between(parts: list[BlockRows], start: int, stop: int) -> list[BlockRows]:
    """Return rows `start` to `stop` (exclusive) of all parts."""
    pieces: list[BlockRows] = []
    for part in parts:
        piece = part[max(0, start) : max(0, stop)]
        pieces += [piece] if len(piece) else []
        start, stop = start - len(part), stop - len(part)
    return pieces
