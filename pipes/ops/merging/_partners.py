"""`Partners`: looks for the row of a key among the rows of a stream that were read last."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeAlias, cast

from ...core.block import Block
from ...core.context import Context
from ...core.cursor import Cursor, Json, check_numbers
from ...core.operator import Input
from ...errors import UnfitError
from .._keys import keys_of

KeyOfRow: TypeAlias = tuple[str, ...] | Callable[[Any], Hashable]

MAX_ROWS_SEARCHED = 10**6
"""So many rows are read to tell which window would do."""


def partners_cursor(token: Json) -> Json:
    """The cursor of the input in a token of `Partners`."""
    start, *numbers, runs = _read_token(token)
    check_numbers(*numbers, *runs)
    return start


def _read_token(token: Json) -> tuple[Json, int, int, int, list[int]]:
    return cast("tuple[Json, int, int, int, list[int]]", token or (None, 0, 0, 0, []))


class Partners:
    """Reads an input as far as the rows that are looked for need it, and keeps rows that have no partner yet.

    They stand at most `window` rows before or behind the furthest one that was found. Each row that is not found moves
    that place on by one, so that the reader does not stay behind.

    A token is [cursor of the first row that is kept, position of this row, position of the next row to read, the
    furthest position, lengths of the runs of rows that are kept and not kept, in turn].
    """

    def __init__(self, source: Input, key: KeyOfRow, window: int, token: Json, context: Context) -> None:
        start, first, next_row, furthest, runs = _read_token(token)
        self._key = key
        self._window = window
        self._blocks = source.blocks(Cursor.of(start), context)
        self._items: Iterator[tuple[Hashable, object]] = iter(())
        self._error: Exception | None = None  # of the row behind `items`
        self._starts: deque[tuple[int, Cursor]] = deque(
            [(first, Cursor.of(start))]
        )  # of blocks with rows that are kept
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
        """Reads one row, and gives its key; None if there is none."""
        item = next(self._items, None)
        while item is None:
            if self._error is not None:
                raise self._error
            block = next(self._blocks, None)
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
