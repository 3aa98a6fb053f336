"""`Block`, a run of rows with its cursors; the sizes of blocks, and the skipped rows among the others.

A list holds a `Skipped` for such a row. A `Rows` has one more column for them, `SKIPPED`; the other values of such a
row mean nothing.
"""

# pyright: reportPrivateUsage=false
# `nbytes` gathers no rows, so it reads the tables that `Rows` keeps to itself.

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from .cursor import Cursor
from .lazy import pa
from .origins import Origins
from .records import fields_of
from .rows import SKIPPED, BlockRows, Indices, Rows, column_names, concat, take
from .skips import Skipped


@dataclass(slots=True)
class Block:
    """Rows in order, and their cursors. A block is never empty. Results never depend on where a block ends.

    Attributes:
        rows: a list of Python objects, or columns.
        at: the cursor of the first row.
        end: the cheapest cursor of the row after the last.
        origins: where the rows come from; only in runs that need it.
    """

    rows: BlockRows
    at: Cursor
    end: Cursor
    origins: Origins | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def slice(self, start: int, stop: int) -> Block:
        """Rows `start` to `stop` (exclusive); 0 <= start < stop <= length."""
        if start == 0 and stop == len(self.rows):
            return self
        return Block(
            take(self.rows, range(start, stop)),
            self.at.advance(start) if start else self.at,
            self.end if stop == len(self.rows) else self.at.advance(stop),
            self.origins and self.origins[start:stop],
        )

    def with_rows(self, rows: BlockRows) -> Block:
        """This block with `rows` instead of its own; if there are fewer, only the first rows of the block remain."""
        if len(rows) == len(self.rows):
            return Block(rows, self.at, self.end, self.origins)
        count = len(rows)
        return Block(rows, self.at, self.at.advance(count), self.origins and self.origins[:count])

    def with_row(self, index: int, row: object) -> Block:
        """The block of row `index` alone, with `row` in its place."""
        end = self.end if index + 1 == len(self.rows) else self.at.advance(index + 1)
        return Block([row], self.at.advance(index), end, self.origins and self.origins[index : index + 1])

    def numbered(self, number: int, row: int) -> Block:
        """This block of part `number` with tokens that `Cursor.numbered` reads; its first row is row `row` of all."""
        at, end = Cursor([number, self.at.plain], 0, row), Cursor([number, self.end.plain], 0, row + len(self.rows))
        return Block(self.rows, at, end, self.origins)

    def select(self, indices: Indices) -> tuple[BlockRows, Origins | None]:
        """The rows at `indices`, and their origins."""
        return take(self.rows, indices), self.origins and self.origins.select(indices)


def join_blocks(blocks: Sequence[Block]) -> tuple[BlockRows, Origins | None]:
    """The rows of all blocks, and their origins."""
    return concat([block.rows for block in blocks]), join_origins(blocks)


def join_origins(blocks: Sequence[Block]) -> Origins | None:
    """The origins of the rows of all blocks."""
    return Origins.joined([(block.origins, len(block)) for block in blocks])


def group_origins(origins: Origins | None, groups: Iterable[Iterable[int]]) -> Origins | None:
    """The origin of each group; `groups` has the numbers of its rows."""
    return origins and origins.grouped(groups)


def cursor_at(blocks: list[Block], index: int) -> Cursor:
    """The cursor of row `index` among the rows of all blocks."""
    for block in blocks:
        if index < len(block):
            return block.at.advance(index)
        index -= len(block)
    return blocks[-1].end


def skip_rows(blocks: Iterable[Block], count: int) -> Iterator[Block]:
    """The blocks without their first `count` rows."""
    for block in blocks:
        if count >= len(block):
            count -= len(block)
            continue
        yield block.slice(count, len(block))
        count = 0


def group_rows(blocks: Iterable[Block], size: int) -> Iterator[list[Block]]:
    """The rows in groups of `size`; the last group may have fewer. Copies nothing."""
    group: list[Block] = []
    room = size
    for block in blocks:
        start = 0
        while start < len(block):
            stop = min(len(block), start + room)
            group.append(block.slice(start, stop))
            room -= stop - start
            start = stop
            if not room:
                yield group
                group, room = [], size
    if group:
        yield group


def split_block(block: Block, block_size: BlockSize) -> Iterator[Block]:
    """The block in equal pieces of about the length that `block_size` allows. Copies nothing."""
    start = 0
    while start < len(block):
        rest = len(block) - start
        pieces = max(1, round(rest / block_size.rows()))
        stop = start + -(-rest // pieces)
        piece = block.slice(start, stop)
        block_size.produced(piece.rows)
        yield piece
        start = stop


def close(blocks: Iterator[object]) -> None:
    """End a run of blocks and all that runs for it. An iterator that is not a generator has nothing to end."""
    if isinstance(blocks, Generator):
        blocks.close()


# Sizes of blocks


class BlockSize(Protocol):
    """Sizes of the blocks of one producer."""

    def rows(self) -> int:
        """The most rows that the next block may hold."""
        ...

    def produced(self, rows: BlockRows) -> None:
        """Note the rows of a new block."""
        ...


class Seconds(Protocol):
    """A clock that counts the seconds of producing."""

    def now(self) -> float: ...


class AdaptiveBlockSize:
    """Starts at one row, grows while a block takes little time and few bytes, and halves when its rows take long.

    So the first row comes at once, a slow function never runs over a long block, and a fast one gets long blocks. A
    block has costs of its own beside those of its rows: each column is handled once, a remote dataset answers a
    request. While these costs prevail, fewer rows would take as long, so the block doubles instead.
    """

    MAX_ROWS = 8192
    MAX_BYTES = 2**20  # a block should still be in the cache when it is used
    COLUMN_BYTES = 2**12  # more for each column: to handle a column takes as long as to copy this much
    FAST_SECONDS, SLOW_SECONDS = 0.002, 0.008  # of producing one block
    LEAP = 8  # the growth after a block so fast that the next still takes half of `FAST_SECONDS`; else 2
    COLUMN_SECONDS = 2.5e-5  # more for each column: the time of a whole chain for it, whatever its rows

    __slots__ = ("_before", "_clock", "_columns", "_limit", "_since", "_size")

    def __init__(self, clock: Seconds) -> None:
        self._clock = clock
        self._size = 1
        self._limit = self.MAX_ROWS
        self._columns = 0
        self._before = 0, math.inf  # rows and seconds of the last block of another size
        self._since: float | None = None

    def begin_like(self, other: AdaptiveBlockSize) -> None:
        """Start at the size that a producer of like rows has found: a short run would not reach it."""
        self._size = min(other._size, other._limit)

    def rows(self) -> int:
        now = self._clock.now()
        if self._since is not None:
            self._adapt(now - self._since)
        self._since = now
        return min(self._size, self._limit)

    def _adapt(self, seconds: float) -> None:
        """Choose the next size, after a block that took `seconds`."""
        size = min(self._size, self._limit)
        rows_before, seconds_before = self._before
        seconds_of_rows = seconds
        if size != rows_before:  # the time of one more row, times the rows
            seconds_of_rows = size * (seconds - seconds_before) / (size - rows_before)
        self._size = size
        more = self.COLUMN_SECONDS * self._columns
        if seconds < self.FAST_SECONDS + more or seconds_of_rows < seconds / 2:
            growth = self.LEAP if seconds < self.FAST_SECONDS / (2 * self.LEAP) else 2
            self._size = min(size * growth, self.MAX_ROWS, self._limit)
        elif seconds > self.SLOW_SECONDS + 4 * more:
            self._size = max(size // 2, 1)
        if self._size != size:
            self._before = size, seconds

    def produced(self, rows: BlockRows) -> None:
        if rows:
            self._columns = len(column_names(rows)) if isinstance(rows, Rows) else 0
            most = self.MAX_BYTES + self.COLUMN_BYTES * self._columns
            self._limit = max(1, most * len(rows) // max(1, nbytes(rows)))


class OneRow:
    """One row in each block: for replays and for debugging."""

    __slots__ = ()

    def __init__(self, clock: Seconds) -> None:
        pass

    def rows(self) -> int:
        return 1

    def produced(self, rows: BlockRows) -> None:
        pass


# Sizes of rows


def nbytes(rows: BlockRows) -> int:
    """The approximate size of the rows in bytes; for lists, estimated from the first row."""
    if isinstance(rows, Rows):
        tables, selection = rows._tables_and_selection
        if selection is None:
            # Of Python objects, the pointers only.
            return sum(int(column.nbytes) for columns in tables for column in columns.values())
        return len(rows) * sum(int(column[:1].nbytes) for column in tables[0].values())
    return len(rows) * _object_bytes(rows[0]) if rows else 0


def _object_bytes(value: object, depth: int = 2) -> int:
    try:
        size = getattr(value, "nbytes", None)
    except RuntimeError:  # of a sparse tensor
        size = None
    if isinstance(size, int):
        return size
    if isinstance(value, Rows):
        return nbytes(value)
    if isinstance(value, (bytes, bytearray, str)):
        return len(value)
    if depth and isinstance(value, Mapping):
        return 64 + sum(_object_bytes(v, depth - 1) for v in value.values())
    if depth and isinstance(value, (list, tuple)) and value:
        return 64 + len(value) * _object_bytes(value[0], depth - 1)
    return 32


def row_width(schema: pa.Schema | None) -> int | None:
    """The bytes of a row; None if there is no schema, or a column has values of different sizes."""
    bits = 0
    for kind in () if schema is None else schema.types:
        width = _bits(kind)
        if width is None:
            return None
        bits += width
    return -(-bits // 8) or None


def _bits(kind: pa.DataType) -> int | None:
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if isinstance(kind, pa.FixedSizeListType):
        width = _bits(kind.value_type)
        return None if width is None else width * kind.list_size
    try:
        return kind.bit_width
    except ValueError:  # of a type without a fixed width
        return None


def row_count(element: object) -> int:
    """The number of rows in an element; 1 if it is one row."""
    shape = row_shape(element)
    return shape if isinstance(shape, int) else 1


def row_shape(element: object) -> int | tuple[()]:
    """The number of rows in an element; () if it is one row."""
    shape = getattr(element, "shape", None)
    if shape is None and not isinstance(element, (int, float, str, bytes)):  # these tests are faster than the next ones
        if isinstance(element, (list, tuple)):
            if not (element and hasattr(element[0], "shape")):
                return len(element) if isinstance(element, list) else ()
            element = element[0]  # the columns of collated pairs
        elif isinstance(element, (dict, Mapping)):
            while isinstance(element, (dict, Mapping)):  # the parts of a struct are the columns of a dict within
                element = next(iter(element.values()), ())
        elif names := fields_of(type(element)):
            element = getattr(element, names[0])
        shape = getattr(element, "shape", None)
        if shape is None and isinstance(element, Sized) and not isinstance(element, (str, bytes)):
            return len(element)
    return int(shape[0]) if shape else ()


# Skipped rows


class Parted(NamedTuple):
    """Rows without those that were skipped.

    Attributes:
        values: the rows that remain.
        places: their places among all rows.
        skipped: the rows that were left out, by place; one with a value comes before a row that remains.
        total: the number of all rows.
    """

    values: BlockRows
    places: Sequence[int]
    skipped: Mapping[int, Skipped]
    total: int

    def merged(self, results: BlockRows) -> BlockRows:
        """The results and the skipped rows, in order, up to the first row without a result."""
        count = self.total if len(results) == len(self.places) else self.places[len(results)]
        if not self.skipped:
            return results
        if isinstance(results, list):
            merged: list[object] = [None] * count
            for place, result in zip(self.places, results, strict=False):
                merged[place] = result
            for place, skipped in self.skipped.items():
                if place < count:
                    merged[place] = skipped if skipped.is_row else skipped.before(merged[place])
            return merged
        return _merged_table(results, self, count)


def parted(rows: BlockRows) -> Parted:
    """The rows without those that were skipped."""
    if not has_skipped(rows):
        return Parted(rows, range(len(rows)), {}, len(rows))
    marks: list[object] = rows if isinstance(rows, list) else cast("Any", rows.columns[SKIPPED]).tolist()
    skipped = {place: mark for place, mark in enumerate(marks) if isinstance(mark, Skipped)}
    places = [place for place in range(len(rows)) if place not in skipped or not skipped[place].is_row]
    if isinstance(rows, list):
        values: BlockRows = [skipped[place].value if place in skipped else rows[place] for place in places]
    else:
        values = without_marks(cast("Rows", take(rows, np.array(places, np.int64))))
    return Parted(values, places, skipped, len(rows))


def has_skipped(rows: BlockRows) -> bool:
    """Whether some of the rows were skipped."""
    if not Skipped.exist:
        return False
    if isinstance(rows, list):
        return Skipped in set(map(type, rows))
    return SKIPPED in column_names(rows)


def without_marks(rows: Rows) -> Rows:
    columns = {name: column for name, column in rows.columns.items() if name != SKIPPED}
    return Rows(columns, len(rows))


def _merged_table(results: Rows, parts: Parted, count: int) -> BlockRows:
    pieces: list[BlockRows] = []
    start = 0  # of the results
    for place, skipped in sorted(parts.skipped.items()):
        if place >= count:
            break
        stop = int(np.searchsorted(parts.places, place))
        if stop > start:
            pieces.append(take(results, range(start, stop)))
        start = stop
        if skipped.is_row:
            pieces.append([skipped])
        else:
            pieces.append(_marked(cast("Rows", take(results, range(start, start + 1))), skipped))
            start += 1
    if start < len(results):
        pieces.append(take(results, range(start, len(results))))
    return concat(pieces)


def _marked(row: Rows, skipped: Skipped) -> Rows:
    later = cast("Any", row.columns[SKIPPED])[0] if SKIPPED in row.columns else None
    marks = np.array([skipped.before(None) if later is None else skipped.before(later), None], object)[:1]
    return Rows({**row.columns, SKIPPED: marks}, len(row))


def zipped(columns: Sequence[BlockRows]) -> list[object]:
    """A tuple of the rows at each place. If one of them was skipped, the whole tuple is."""
    rows = list(zip(*columns, strict=True))
    if not any(map(has_skipped, columns)):
        return cast("list[object]", rows)
    return [_zipped(row) if any(isinstance(part, Skipped) for part in row) else row for row in rows]


def _zipped(row: tuple[object, ...]) -> Skipped:
    marks = [part for part in row if isinstance(part, Skipped)]
    skips = {id(skip): skip for mark in marks for skip in mark.skips}  # branches of a fork share them
    if any(mark.is_row for mark in marks):
        return Skipped(tuple(skips.values()))
    values = tuple(part.value if isinstance(part, Skipped) else part for part in row)
    return Skipped(tuple(skips.values()), values, is_row=False)
