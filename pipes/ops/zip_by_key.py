"""`zip_by_key`: rows of two pipes that have the same key, side by side."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypeVar, cast

import numpy as np

from ..core.block import Block
from ..core.checks import check_choice, check_int
from ..core.context import Context
from ..core.cursor import Cursor, Json, check_numbers
from ..core.operator import Columns, Input, Operator, Order, StageView
from ..errors import ArgumentTypeError, Origin, UnfitError
from ._keys import check_hashable, check_key, check_named_key, keys_of
from ._shared import data_error

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")
U = TypeVar("U")
KeyOfRow: TypeAlias = tuple[str, ...] | Callable[[Any], Hashable]

MAX_ROWS_SEARCHED = 10**6
"""The rows that are read to find the window that would do."""


def zip_by_key(
    pipe: Pipe[T],
    /,
    other: Pipe[U],
    *,
    key: str | Sequence[str] | Callable[[T], Hashable],
    other_key: str | Sequence[str] | Callable[[U], Hashable] | None = None,
    window: int = 10_000,
    unmatched: Literal["error", "drop"] = "error",
) -> Pipe[tuple[T, U]]:
    """Put each row of this pipe beside the row of another that has the same key, if it comes at about the same place.

        1 2 3   and   B2 B1 B3   ->   zip_by_key(key=str, other_key=lambda row: row[1]): (1 B1) (2 B2) (3 B3)

    Element: a pair. Each row of `other` is used once; of several with one key, the first comes first, and those that
    are not used are left out. Order: this pipe's. Length: unknown; streamed. State: a position in both; a resume reads
    at most 2 * `window` rows of `other` again, and keeps at most as many in memory. Every shard reads both pipes from
    end to end; `explain()` says so. `join` needs no order, and keeps all of the other side in memory.

    Args:
        other: the pipe of the second items of the pairs.
        key: the name of a column, several names, or a function of the row.
        other_key: the same for rows of `other`, if it differs.
        window: the number of rows of `other` that a partner may come before or after the furthest partner so far. A row
            that is left out moves that place on by one row.
        unmatched: "error" raises if a row of this pipe has no partner within the window, "drop" leaves it out.

    Raises:
        PlanError: there is no such column. If only a run can tell, a `DataError`.
        DataError: a row has no partner, or a key is not hashable.
        ArgumentError: `window` is below 1.

    Example:
        >>> import feedpipe as fp
        >>> images, labels = fp.from_sequence(["1.jpg", "2.jpg"]), fp.from_sequence([(2, "dog"), (1, "cat")])
        >>> list(images.zip_by_key(labels, key=lambda name: name[0], other_key=lambda row: str(row[0])))
        [('1.jpg', (1, 'cat')), ('2.jpg', (2, 'dog'))]
    """
    own, others = check_key("key", key), check_key("other_key", other_key)
    if not own:
        raise ArgumentTypeError(f"`key` must be a column, columns or a function but got: {key!r}")
    return pipe.then(ZipByKey(key=own, other_key=others or None, window=window, unmatched=unmatched), other)


@dataclass(frozen=True, eq=False, repr=False)
class ZipByKey(Operator):
    """A token is [the cursor of a row of the input, the token of `_Partners` before it]."""

    kind: ClassVar[str] = "zip_by_key"
    order: ClassVar[Order] = Order.GLOBAL
    columns: ClassVar[Columns] = Columns.LOSES

    key: KeyOfRow = field(kw_only=True)
    other_key: KeyOfRow | None = field(default=None, kw_only=True)
    window: int = field(default=10_000, kw_only=True)
    unmatched: str = field(default="error", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "window", check_int("window", self.window, least=1))
        check_choice("unmatched", self.unmatched, ("error", "drop"))

    def lookback(self) -> int:
        return 2 * self.window

    def resolve(self, stage: StageView) -> Operator:
        for source, key in zip(stage.inputs, (self.key, self.other_key or self.key), strict=True):
            check_named_key(self, stage, key, source)
        return self

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        source, token = cast("tuple[Json, Json]", at.token or (None, None))
        start, *numbers, runs = _read_token(token)
        check_numbers(*numbers, *runs)
        yield from zip(stage.inputs, (source, start), strict=True)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        source, token = cast("tuple[Json, Json]", at.token or (None, None))
        left, right = stage.inputs
        inner = context.part()
        with closing(inner.running):  # the second input may go on when the first has ended
            partners = _Partners(right, self.other_key or self.key, self.window, token, inner)
            row = at.row
            for block in left.blocks(Cursor.of(source), context):
                start = Cursor([block.at.plain, partners.token()], 0, row)
                pairs, places, tested, error = self._pairs(block, partners)
                row += len(pairs)
                after = block.end if tested == len(block) else block.at.advance(tested)
                if pairs:
                    origins = block.origins and block.origins.select(np.array(places, np.int64))
                    yield Block(pairs, start, Cursor([after.plain, partners.token()], 0, row), origins)
                if error is not None:
                    raise data_error(self, stage.failed_on(error, _origin(stage, after, context)))

    def _pairs(self, block: Block, partners: _Partners) -> tuple[list[object], list[int], int, Exception | None]:
        """The pairs of the rows of a block, the places of these rows, the number of rows looked at, and the error."""
        keys, error = keys_of(block.rows, self.key)
        pairs: list[object] = []
        places: list[int] = []
        for place, (key, row) in enumerate(zip(keys, block.rows, strict=False)):
            try:
                partner = partners.find(key)
            except Exception as failure:
                return pairs, places, place, check_hashable(key) or failure
            if partner is not None:
                pairs.append((row, *partner))
                places.append(place)
            elif self.unmatched == "error":
                return pairs, places, place, self._no_partner(key, partners)
        return pairs, places, len(keys), error

    def _no_partner(self, key: Hashable, partners: _Partners) -> UnfitError:
        needed = partners.window_needed(key)
        where = "and does not come later" if needed is None else f"and comes later: `window={needed}` would do"
        return UnfitError(
            f"the key {key!r:.80} has no partner within the window of {self.window} rows of the other pipe, {where}; "
            '`unmatched="drop"` leaves out such rows'
        )


def _origin(stage: StageView, at: Cursor, context: Context) -> Origin | None:
    """The origin of a row of the first input."""
    block = next(stage.inputs[0].blocks(at, context.replay()), None)
    return block.origins[0] if block is not None and block.origins else None


class _Partners:
    """Finds the row of a key in an input, reads no more than that needs, and keeps rows that have no partner yet.

    These are at most `window` rows before or after the furthest one that was found. Each key that is not found moves
    that place on by one row, so that the reader does not stay behind.

    A token is [cursor of the first row that is kept, position of this row, position of the next row to read, the
    furthest position, lengths of the runs of rows that are kept and not kept, in turn].
    """

    def __init__(self, source: Input, key: KeyOfRow, window: int, token: Json, context: Context) -> None:
        start, first, next_row, furthest, runs = _read_token(token)
        self._key = key
        self._window = window
        own, self._clock = context.with_own_clock()
        self._blocks = source.blocks(Cursor.of(start), own)
        self._items: Iterator[tuple[Hashable, object]] = iter(())
        self._error: Exception | None = None  # of the row after `items`
        self._starts = deque([(first, Cursor.of(start))])  # of blocks with rows that are kept
        self._end = first
        self._position = first  # of the next row to read
        self._furthest = furthest
        self._rows: dict[int, tuple[Hashable, object]] = {}  # those that are kept, by position
        self._places: dict[Hashable, deque[int]] = {}  # of the rows of each key
        kept = True
        for length in runs:
            for _ in range(length):
                self._read(keep=kept)
            kept = not kept
        while self._position < next_row:
            self._read(keep=False)

    def find(self, key: Hashable) -> tuple[object] | None:
        """The first row of the key that is kept or comes soon enough; it is not given again."""
        position = self._find(key, self._furthest + self._window)
        if position is None:
            self._go_on_to(self._furthest + 1)
            return None
        _, row = self._rows[position]
        self._remove(position)
        self._go_on_to(max(self._furthest, position + 1))
        return (row,)

    def _go_on_to(self, furthest: int) -> None:
        self._furthest = furthest
        while self._rows and (oldest := next(iter(self._rows))) < furthest - self._window:
            self._remove(oldest)

    def window_needed(self, key: Hashable) -> int | None:
        """The least window with which a key would be found that was not; None if it does not come."""
        furthest = self._furthest - 1
        self._window = MAX_ROWS_SEARCHED
        position = self._find(key, self._position + MAX_ROWS_SEARCHED)
        return None if position is None else position + 1 - furthest

    def token(self) -> Json:
        first = next(iter(self._rows), self._position)
        while len(self._starts) > 1 and self._starts[1][0] <= first:
            self._starts.popleft()
        start, cursor = self._starts[0]
        runs: list[int] = []
        end = first
        for position in self._rows:
            if position > end or not runs:
                runs += [position - end, 1] if runs else [1]
            else:
                runs[-1] += 1
            end = position + 1
        return [cursor.advance(first - start).plain, first, self._position, self._furthest, runs]

    def _find(self, key: Hashable, stop: int) -> int | None:
        places = self._places.get(key)
        if places:
            return places[0]
        while self._position < stop:
            position = self._position
            read = self._read(keep=True)
            if read is None:
                return None
            if read == (key,):
                return position
        return None

    def _read(self, *, keep: bool) -> tuple[Hashable] | None:
        """Read one row, and return its key; None if there is none."""
        item = next(self._items, None)
        while item is None:
            if self._error is not None:
                raise self._error
            block = self._clock.next(self._blocks)
            if block is None:
                return None
            self._open(block)
            item = next(self._items, None)
        position, self._position = self._position, self._position + 1
        if keep:
            try:
                self._places.setdefault(item[0], deque()).append(position)
            except TypeError:
                raise UnfitError(
                    f"a key of the other pipe must be hashable but is: {item[0]!r:.80}; give another `other_key`"
                ) from None
            self._rows[position] = item
        return (item[0],)

    def _open(self, block: Block) -> None:
        keys, self._error = keys_of(block.rows, self._key)
        self._items = zip(keys, block.rows, strict=False)
        self._starts.append((self._end, block.at))
        self._end += len(block)

    def _remove(self, position: int) -> None:
        key, _ = self._rows.pop(position)
        places = self._places[key]
        places.remove(position)
        if not places:
            del self._places[key]


def _read_token(token: Json) -> tuple[Json, int, int, int, list[int]]:
    return cast("tuple[Json, int, int, int, list[int]]", token or (None, 0, 0, 0, []))
