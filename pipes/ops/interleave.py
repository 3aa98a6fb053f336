"""`interleave`: the items of several rows in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count as natural_numbers
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np

from ..core.block import Block
from ..core.checks import check_callable, check_int
from ..core.context import Context
from ..core.cursor import START, Cursor, Json, check_numbers, checked_cursor
from ..core.graph import Node
from ..core.operator import Input, Operator, Order, StageView
from ..core.origins import Origins
from ..core.rows import BlockRows, signature, take_joined
from ..engine.calls import extend_until_error
from ..engine.stage import bind, resolve
from ..errors import Origin

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")
U = TypeVar("U")

_Token: TypeAlias = "tuple[Json, int, list[tuple[int, Json] | None], int, int]"


def interleave(pipe: Pipe[T], /, function: Callable[[T], Iterable[U]], *, cycle: int, block: int = 1) -> Pipe[U]:
    """Replace each row with the items of `function(row)`, of several rows in turn.

        a b c   ->   interleave(lambda row: [row + "1", row + "2"], cycle=2): a1 b1 a2 b2 c1 c2

    Element: an item; the rows of pipes of tables stay columns. Order: `block` items of each open row in turn. When the
    items of a row have ended, the next row takes its place at its next turn, as in tf.data. Length: unknown; streamed.
    State: the position among the input's rows and in each open one. A resume calls `function` again for these. It
    iterates an iterable again from its start, and a pipe goes on at its own position. Memory: a block of each open row.

    Args:
        function: called once for each row; it returns a pipe, such as `fp.read_parquet(row)`, or any iterable that
            gives the same items each time. Its errors come with file, line and row (`RowError`).
        cycle: the number of rows that are open at once.
        block: the number of items of a row that come in one turn.

    Raises:
        ArgumentError: `cycle` or `block` is below 1.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence(["aaa", "b", "cc"]).interleave(list, cycle=2))
        ['a', 'b', 'a', 'a', 'c', 'c']
    """
    return pipe.then(Interleave(function, cycle=cycle, block=block))


@dataclass(frozen=True, eq=False, repr=False)
class Interleave(Operator):
    """A token is that of `_Interleaving`."""

    kind: ClassVar[str] = "interleave"
    order: ClassVar[Order] = Order.ROW_LOCAL
    expands: ClassVar[bool] = True

    function: Callable[..., Iterable[object]]
    cycle: int = field(kw_only=True)
    block: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        check_callable("function", self.function)
        object.__setattr__(self, "cycle", check_int("cycle", self.cycle, least=1))
        object.__setattr__(self, "block", check_int("block", self.block, least=1))

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        source, rows_again, items, turn, emitted = cast("_Token", self.token(at))
        check_numbers(rows_again, turn, emitted)
        if len(items) != self.cycle or turn >= self.cycle:
            raise ValueError(f"must have {self.cycle} places but has {len(items)}, and the turn of place {turn}")
        for row, cursor in (item for item in items if item is not None):
            check_numbers(row)
            checked_cursor(cursor)
        yield stage.input, source

    def token(self, at: Cursor) -> Json:
        return at.token or [None, 0, [None] * self.cycle, 0, 0]

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        return _Interleaving(self, stage, at, context).blocks()


class _Interleaving:
    """One run: it takes the rows of several open items in turn.

    A token is [input's cursor at the oldest open item, rows from there to the next one to open, for each place in the
    cycle the row and the cursor of its item, the place whose turn it is, the number of rows that it has given].
    """

    def __init__(self, op: Interleave, stage: StageView, at: Cursor, context: Context) -> None:
        self._token: Json = op.token(at)
        source, self._rows_again, self._saved_items, self._turn, self._emitted = cast("_Token", self._token)
        self._op = op
        self._stage = stage
        self._context = context
        self._row = at.row
        self._next_row = Cursor.of(source)
        self._rows_read = 0  # from that cursor on
        self._input = _input_rows(stage, self._next_row, context)
        self._items: list[_OpenItem | None] = [None] * op.cycle
        self._has_ended = False  # the input
        self._pieces = _Pieces()

    def blocks(self) -> Iterator[Block]:
        size = self._context.block_size()
        limit = size.rows()
        failure: Exception | None = None
        try:
            self._open_again()
        except Exception as error:
            failure = error
        while failure is None:
            if self._pieces and self._stage.input.may_skip and self._items[self._turn] is None:
                yield self._block()  # a skipped row counts before the row that the operator gives next
            try:
                item = self._item()
                has_rows = item is not None and self._has_rows(item)
            except Exception as error:
                failure = error
                break
            if item is None:
                break
            if not has_rows:
                self._items[self._turn] = None
                self._end_turn()
                continue
            assert item.block is not None
            if self._pieces and item.signature != self._pieces.signature:
                yield self._block()
            if rounds := self._rounds_at_hand(limit):
                self._pieces.add(self._open_items(), self._op.block, rounds)
            else:
                count = min(self._op.block - self._emitted, item.left, max(1, limit - len(self._pieces)))
                self._pieces.add([item], count)
                self._emitted += count
                if self._emitted == self._op.block:
                    self._end_turn()
            if len(self._pieces) >= limit:
                output = [self._block()]
                size.produced(output[0].rows)
                yield output.pop()
                limit = size.rows()
        if self._pieces:
            yield self._block()
        if failure is not None:
            raise failure

    def _open_items(self) -> list[_OpenItem]:
        return [item for item in self._items if item is not None]

    def _rounds_at_hand(self, limit: int) -> int:
        """The number of rounds of all items that need nothing to be opened or read; 0 within a round."""
        if self._emitted or any(self._items[: self._turn]):
            return 0
        items = self._open_items()
        is_full = self._has_ended or len(items) == self._op.cycle
        if not is_full or any(item.block is None or item.signature != items[0].signature for item in items):
            return 0
        room = (limit - len(self._pieces)) // (self._op.block * len(items))
        return min([room, *(item.left // self._op.block for item in items)])

    def _item(self) -> _OpenItem | None:
        """The item whose turn it is; None after the last."""
        for _ in self._items:
            item = self._items[self._turn]
            if item is None and (row := next(self._input, None)) is not None:
                item = self._items[self._turn] = self._open(row, START)
                self._has_read(row)
            if item is not None:
                return item
            self._has_ended = True
            self._end_turn()
        return None

    def _end_turn(self) -> None:
        self._turn, self._emitted = (self._turn + 1) % self._op.cycle, 0

    def _open(self, row: _InputRow, at: Cursor) -> _OpenItem:
        try:
            return _OpenItem(self._op.function(row.value), row, at, self._context)
        except Exception as error:
            failure = self._stage.failed(error, row.at, self._context)
            raise failure from failure.__cause__

    def _has_rows(self, item: _OpenItem) -> bool:
        try:
            return item.has_rows()
        except Exception as error:
            failure = self._stage.failed(error, item.row.at, self._context)
            raise failure from failure.__cause__

    def _open_again(self) -> None:
        """Open the items that were open at the cursor where the run begins."""
        places = {saved[0]: place for place, saved in enumerate(self._saved_items) if saved is not None}
        for row in islice(self._input, self._rows_again):
            if row.number in places:
                saved = self._saved_items[places[row.number]]
                assert saved is not None
                self._items[places[row.number]] = self._open(row, Cursor.of(saved[1]))
            self._has_read(row)

    def _has_read(self, row: _InputRow) -> None:
        self._next_row, self._rows_read = row.at.advance(1), row.number + 1

    def _block(self) -> Block:
        """The rows so far."""
        pieces, self._pieces = self._pieces, _Pieces()
        start = Cursor(self._token, 0, self._row)
        self._token = self._new_token()
        self._row += len(pieces)
        origins = pieces.origins()
        return Block(pieces.rows(), start, Cursor(self._token, 0, self._row), origins)

    def _new_token(self) -> Json:
        rows = [(item.row.number, item.row.at) for item in self._open_items()]
        first, oldest = min(rows, default=(self._rows_read, self._next_row))
        items: list[Json] = [
            None if item is None else [item.row.number - first, item.cursor.plain] for item in self._items
        ]
        return [oldest.plain, self._rows_read - first, items, self._turn, self._emitted]


class _InputRow(NamedTuple):
    """A row of the input: its number in the run, its cursor and its origin. Skipped rows have no number."""

    number: int
    value: object
    at: Cursor
    origin: Origins | None


def _input_rows(stage: StageView, at: Cursor, context: Context) -> Iterator[_InputRow]:
    """The rows of the input one by one."""
    numbers = natural_numbers()
    for block in stage.input.blocks(at, context):
        for place, value in enumerate(block.rows):
            origin = block.origins and block.origins[place : place + 1]
            yield _InputRow(next(numbers), value, block.at.advance(place), origin)


class _OpenItem:
    """The items of one row of the input, while they are read.

    Attributes:
        row: the row of the input.
        block: the rows that were read last; `place` is the first that was not given.
        signature: names and types of their columns.
    """

    def __init__(self, item: object, row: _InputRow, at: Cursor, context: Context) -> None:
        self.row = row
        self.block: Block | None = None
        self.place = 0
        self.signature: object = None
        self._end = at
        context, self._clock = context.with_own_clock()
        if isinstance(item, Node):
            # Each item has random draws of its own: the position is part of their key.
            self._blocks = bind(resolve(item)).blocks(at, context.round(row.at.position))
        else:
            self._blocks = _blocks_of(cast("Iterable[object]", item), at.position, context)

    @property
    def cursor(self) -> Cursor:
        return self._end if self.block is None else self.block.at.advance(self.place)

    @property
    def left(self) -> int:
        """The number of rows at hand."""
        return 0 if self.block is None else len(self.block) - self.place

    def has_rows(self) -> bool:
        """True if a row is left. Reads a block if none is at hand."""
        if self.block is None:
            self.block = self._clock.next(self._blocks)
            if self.block is not None:
                self.place, self.signature = 0, signature(self.block.rows)
        return self.block is not None

    def advance(self, count: int) -> None:
        """Give the next `count` rows, which are at hand."""
        block = self.block
        assert block is not None, "only rows at hand are given"
        self.place += count
        if self.place == len(block):
            self.block, self._end = None, block.end


def _blocks_of(items: Iterable[object], position: int, context: Context) -> Iterator[Block]:
    """The items of an iterable from a position on."""
    block_size = context.block_size()
    iterator = islice(context.running.add(iter(items)), position, None)
    while True:
        rows: list[object] = []
        count = block_size.rows()
        error = extend_until_error(islice(iterator, count), rows)
        if rows:
            block_size.produced(rows)
            at = START.advance(position)
            position += len(rows)
            yield Block(rows, at, START.advance(position))
        if error is not None:
            raise error
        if len(rows) < count:
            return


class _Pieces:
    """Pieces of the blocks of several items in their order in the output. All have the same columns."""

    def __init__(self) -> None:
        self._origins: list[tuple[Origins | None, int]] = []
        self.signature: object = None
        self._places: list[int] = []
        self._parts: dict[int, tuple[Block, int, int]] = {}  # block, its first row here, its place among all rows
        self._size = 0

    def __len__(self) -> int:
        return len(self._places)

    def add(self, items: Sequence[_OpenItem], length: int, rounds: int = 1) -> None:
        """Add rows that are at hand: in each round, the next `length` rows of each item."""
        count = rounds * length
        parts = [(self._begin(item), _origins(item, count)) for item in items]
        for done in range(0, count, length):
            for begin, origins in parts:
                self._places += range(begin + done, begin + done + length)
                self._origins.append((origins and origins[done : done + length], length))
        self.signature = items[0].signature
        for item in items:
            item.advance(count)

    def _begin(self, item: _OpenItem) -> int:
        """The place of the next row of an item, among the rows of all blocks."""
        block = item.block
        assert block is not None, "only rows at hand are given"
        if id(block) not in self._parts:
            self._parts[id(block)] = block, item.place, self._size
            self._size += len(block) - item.place
        _, first, start = self._parts[id(block)]
        return start + item.place - first

    def origins(self) -> Origins | None:
        return Origins.joined(self._origins)

    def rows(self) -> BlockRows:
        parts = [block.slice(first, len(block)).rows for block, first, _ in self._parts.values()]
        return take_joined(parts, np.array(self._places, np.int64))[0]


def _origins(item: _OpenItem, count: int) -> Origins | None:
    """The origins of the next rows of an item, which count as the row of the input that they are made of."""
    block, outer = item.block, item.row.origin
    assert block is not None, "only rows at hand are given"
    own = block.origins and block.origins[item.place : item.place + count]
    if not outer:
        return own
    each = outer.select(np.zeros(count, np.int64)).counted(np.arange(count) + item.cursor.position == 0)
    if own is None:
        return each
    rows = [*map(_within, each, own)] if own.rows or each.rows else None
    return Origins(rows, each.counts or own.counts)


def _within(outer: Origin | None, inner: Origin | None) -> Origin | None:
    """The origin of an item: its row of the inner pipe, and the outer row that gave the pipe.

    An outer row that is the file of the inner row adds nothing.
    """
    if inner is None or outer is None:
        return inner or outer
    files = {row.source for row in inner.rows}
    return Origin.joined([inner, *(row for row in outer.rows if row.unit != "file" or row.source not in files)])
