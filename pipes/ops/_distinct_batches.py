"""`batch(size, distinct=)`: batches in which no key comes twice."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Any, ClassVar, cast

import numpy as np

from ..core.block import Block, group_origins
from ..core.checks import check_bool, check_int
from ..core.context import Context
from ..core.cursor import Cursor, Json, check_numbers
from ..core.findings import Finding
from ..core.operator import Grouping, Input, Operator, StageView
from ..core.rows import BlockRows, Indices, concat
from ..engine.calls import map_until_error
from ..errors import ArgumentError, ArgumentTypeError, Origin
from ._keys import check_hashable, check_key, check_named_key, keys_of
from ._shared import data_error

log = logging.getLogger("feedpipe")

WINDOW = 8
"""The batches that a window holds by default."""
COUNTED = 1_000
"""The batches after which those that are short are counted."""


@dataclass(frozen=True)
class DistinctBatch(Grouping):
    """A token is [cursor of the oldest row not given, the rows put off, the number of rows looked at], from there."""

    kind: ClassVar[str] = "batch"

    size: int
    drop_last: bool = False
    distinct: Any = field(kw_only=True)
    window: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", check_int("size", self.size, least=1))
        check_bool("drop_last", self.drop_last)
        checked = check_key("distinct", self.distinct)
        if not checked:
            raise ArgumentTypeError(f"`distinct` must be a column, columns or a function but got: {self.distinct!r}")
        object.__setattr__(self, "distinct", self.distinct if isinstance(self.distinct, str) else checked)
        if self.window is not None:
            object.__setattr__(self, "window", check_int("window", self.window, least=1))
            if self.reach < self.size:
                raise ArgumentError(
                    f"`window` must be >= `size`, because a batch is made of its rows, but got: {self.window} and "
                    f"{self.size}"
                )

    @property
    def key(self) -> Any:
        return (self.distinct,) if isinstance(self.distinct, str) else self.distinct

    @property
    def reach(self) -> int:
        """The number of rows among which a batch chooses."""
        return WINDOW * self.size if self.window is None else self.window

    def identity(self) -> Json:
        return None if callable(self.key) else list(self.key)

    def resolve(self, stage: StageView) -> Operator:
        check_named_key(self, stage, self.key)
        return self

    def lookback(self) -> int:
        return self.reach

    def remark(self, stage: StageView) -> str:
        return f"no key comes twice in a batch; a row whose key is there waits, for at most {self.reach} batches"

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        source, put_off, looked = _read_token(at.token)
        check_numbers(looked, *put_off)
        if [*put_off, looked] != sorted({*put_off, looked}) or (put_off or [looked])[0]:
            raise ValueError("must be the rows put off, in order and from the first one on")
        yield stage.input, source

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        rows = WaitingRows(self, stage, at.token, context)
        row = at.row
        batches = short = left_out = 0
        end = rows.token()
        while True:
            begin = end
            places = rows.choose()
            if not places:
                break
            batch, origins = rows.give(places)
            end = rows.token()
            batches += 1
            is_short = len(places) < self.size
            short += is_short
            if batches == COUNTED and 2 * short > COUNTED and (finding := self._many_short(stage, rows)):
                finding.warn()
            if is_short and self.drop_last:
                left_out += len(places)
                continue
            output = [Block([batch], Cursor(begin, 0, row), Cursor(end, 0, row + 1), origins)]
            row += 1
            del batch  # only the consumer holds it now
            yield output.pop()
        if left_out:
            log.info("epoch %d: `%s` has left out %d rows, of short batches", context.epoch, self.call(), left_out)

    def _many_short(self, stage: StageView, rows: WaitingRows) -> Finding | None:
        frequent = rows.most_frequent()
        if frequent is None:
            return None
        key, share = frequent
        size = max(1, int(1 / share))
        text = (
            f"more than half of {COUNTED} batches of `{self.call()}` have fewer than {self.size} rows, because the "
            f"{self.reach} rows of the window have fewer keys; the most frequent one, {key!r:.80}, is in {share:.1%} "
            f"of the rows, so that batches of {size} fit; give a smaller `size` or a larger `window`"
        )
        return Finding("short-batches", "warning", stage.call_site, text, f".{replace(self, size=size).call()}")


def _read_token(token: Json) -> tuple[Json, list[int], int]:
    return cast("tuple[Json, list[int], int]", token or (None, [], 0))


class WaitingRows:
    """The rows from the oldest on that is not given yet, and the choice of the next batch among them.

    A row that is put off waits in the queue of one of its keys, one that its batch had already. So a batch looks at one
    row of a frequent key, and not at all that wait. Places count the rows from the first one that this run has read.

    Args:
        op: the operator.
        stage, token, context: as in `Operator.blocks`.
    """

    def __init__(self, op: DistinctBatch, stage: StageView, token: Json, context: Context) -> None:
        source, put_off, looked = _read_token(token)
        self._op = op
        self._stage = stage
        self._context = context
        self._stream = stage.input.blocks(Cursor.of(source), context)
        self._blocks: list[Block] = []  # those with rows that are not given
        self._starts: list[int] = []  # their first places
        self._end = Cursor.of(source)  # of all rows read
        self._error: Exception | None = None  # of the next row
        self._base = 0  # the place of the first row of `_blocks`
        self._keys: list[Any] = []  # of the rows from `_base` on
        self._is_given = bytearray()  # whether each of these rows is given
        self._oldest = 0
        self._fresh = 0  # no row from here on was looked at
        self._has_sets = False  # whether rows have several keys
        self._waiting = 0
        self._taken = 0  # the rows of the batches so far
        self._batches = 0
        self._queues: dict[Hashable, list[int]] = {}  # heaps
        self._heads: list[tuple[int, Hashable]] = []  # a heap of the queues; also of heads that have gone
        self._resume(put_off, looked)

    def _resume(self, put_off: list[int], looked: int) -> None:
        while len(self._keys) < looked and self._read():
            pass
        self._fresh = min(looked, len(self._keys))
        self._is_given[: self._fresh] = b"\1" * self._fresh
        for place in put_off:
            self._is_given[place] = 0
            key = self._keys[place]
            self._put_off(min(key, key=hash) if type(key) is frozenset else key, place)
        for key, queue in self._queues.items():
            heappush(self._heads, (queue[0], key))

    def token(self) -> Json:
        """The place of the next batch."""
        start = self._blocks[0].at.advance(self._oldest - self._starts[0]) if self._blocks else self._end
        put_off: list[int] = []
        if self._waiting:
            is_given = np.frombuffer(self._is_given, np.uint8)
            put_off = np.flatnonzero(is_given[self._oldest - self._base : self._fresh - self._base] == 0).tolist()
        return [start.plain, put_off, self._fresh - self._oldest]

    def choose(self) -> list[int]:
        """The places of the next batch, in order; none at the end."""
        size, stop = self._op.size, self._oldest + self._op.reach
        chosen: list[int] = []
        seen: set[Hashable] = set()
        full: set[Hashable] = set()  # the queues that give no other row to this batch
        self._choose_waiting(chosen, seen, full)
        while len(chosen) < size and self._fresh < stop:
            first = self._fresh - self._base
            if first == len(self._keys):
                if self._read():
                    continue
                break
            # Most rows have keys of their own: all that are still missing are looked at together, in C.
            keys = self._keys[first : first + min(size - len(chosen), stop - self._fresh)]
            if not self._has_sets:
                distinct = set(keys)
                if len(distinct) == len(keys) and seen.isdisjoint(distinct):
                    seen |= distinct
                    chosen.extend(range(self._fresh, self._fresh + len(keys)))
                    self._fresh += len(keys)
                    continue
            self._choose_fresh(keys, chosen, seen, full)
        for key in full:
            heappush(self._heads, (self._queues[key][0], key))
        return chosen

    def _choose_waiting(self, chosen: list[int], seen: set[Hashable], full: set[Hashable]) -> None:
        heads, queues = self._heads, self._queues
        while heads and len(chosen) < self._op.size:
            place, key = heappop(heads)
            queue = queues.get(key)
            if queue is None or queue[0] != place:
                continue  # it has gone
            if key in seen:
                full.add(key)
                continue
            heappop(queue)
            self._waiting -= 1
            if not queue:
                del queues[key]
            own = self._keys[place - self._base]
            several = own if type(own) is frozenset else frozenset((own,))
            if common := several & seen:
                other = next(iter(common))
                self._put_off(other, place)
                full.add(other)
                if queue:
                    heappush(heads, (queue[0], key))
                continue
            chosen.append(place)
            seen |= several
            if queue:
                full.add(key)

    def _choose_fresh(self, keys: list[Any], chosen: list[int], seen: set[Hashable], full: set[Hashable]) -> None:
        for place, key in enumerate(keys, self._fresh):
            if type(key) is frozenset:
                if common := key & seen:
                    key = next(iter(common))
                else:
                    seen |= key
                    chosen.append(place)
                    continue
            elif key not in seen:
                seen.add(key)
                chosen.append(place)
                continue
            self._put_off(key, place)
            full.add(key)
        self._fresh += len(keys)

    def _put_off(self, key: Hashable, place: int) -> None:
        heappush(self._queues.setdefault(key, []), place)
        self._waiting += 1

    def give(self, places: list[int]) -> tuple[object, list[Origin | None] | None]:
        """The rows at these places, and their origin; they are not chosen again."""
        parts: list[BlockRows] = []
        origins: list[Origin | None] = []
        first = 0
        for block, start in zip(self._blocks, self._starts, strict=True):
            last = bisect_left(places, start + len(block), first)
            if last > first:
                own = places[first:last]
                adjacent = own[-1] - own[0] == len(own) - 1
                inside: Indices = range(own[0] - start, own[-1] - start + 1) if adjacent else np.array(own) - start
                rows, their_origins = block.select(inside)
                parts.append(rows)
                origins += their_origins or ()
                first = last
        for place in places:
            self._is_given[place - self._base] = 1
        self._taken += len(places)
        self._batches += 1
        self._forget()
        return concat(parts)[:], group_origins(origins or None, [range(len(places))])

    def _forget(self) -> None:
        """Forget the blocks all of whose rows are given."""
        oldest = self._is_given.find(0, self._oldest - self._base, self._fresh - self._base)
        self._oldest = self._fresh if oldest < 0 else oldest + self._base
        gone = 0
        while gone < len(self._blocks) and self._starts[gone] + len(self._blocks[gone]) <= self._oldest:
            gone += 1
        if gone:
            count = self._starts[gone] - self._base if gone < len(self._blocks) else len(self._keys)
            del self._blocks[:gone], self._starts[:gone], self._keys[:count], self._is_given[:count]
            self._base += count

    def _read(self) -> bool:
        """Read a block; False at the end."""
        if self._error is not None:
            raise self._error
        block = next(self._stream, None)
        if block is None:
            return False
        keys, error = keys_of(block.rows, self._op.key)
        if not set(map(type, keys)) <= _PLAIN:
            keys, unhashable = map_until_error(_checked, keys)
            error = unhashable or error
            self._has_sets = self._has_sets or frozenset in set(map(type, keys))
        if error is not None:
            failing = block.at.advance(len(keys))
            self._error = data_error(self._op, self._stage.failed(error, failing, self._context))
            if not keys:
                raise self._error
            block = block.slice(0, len(keys))
        self._starts.append(self._base + len(self._keys))
        self._blocks.append(block)
        self._keys += keys
        self._is_given.extend(bytes(len(keys)))
        self._end = block.end
        return True

    def most_frequent(self) -> tuple[Hashable, float] | None:
        """The key that most rows wait for, and its share of the rows so far; None if no row waits."""
        if not self._queues:
            return None
        key = max(self._queues, key=lambda key: len(self._queues[key]))
        return key, (self._batches + len(self._queues[key])) / (self._taken + self._waiting)


_PLAIN = frozenset((int, str, bytes, bool, type(None)))
"""Types of keys that need no look at each."""
_NAN = ("NaN",)


def _checked(key: Any) -> Hashable:
    """The key, several keys as a frozenset; NaN is one key."""
    if isinstance(key, (set, frozenset)):
        return frozenset(key)
    if (error := check_hashable(key)) is not None:
        raise error
    return _NAN if isinstance(key, float) and key != key else cast("Hashable", key)
