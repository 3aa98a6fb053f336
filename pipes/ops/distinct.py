"""`distinct`: the rows whose key did not come before, or not shortly before."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast
from zlib import crc32

import numpy as np

from ..core.block import Block
from ..core.checks import check_int
from ..core.context import Context
from ..core.cursor import Cursor, Json, check_numbers
from ..core.operator import Input, Operator, Order, StageView
from ..errors import PlanError
from ._keys import Key, check_hashable, check_key, check_named_key, keys_of, long_checksum, read_key_digests
from ._row_set import ChosenRows
from ._shared import SameRows, data_error
from .split import moving_positions, place_before_shuffles

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")


def distinct(pipe: Pipe[T], /, key: Key | None = None, *, last: int | None = None) -> Pipe[T]:
    """Leave out a row if a row before it has the same key: of an indexed pipe any row, else one of the `last` rows.

        a b a c b   ->   distinct(): a b c

    Element and order are the input's; columns stay columns. Length: known if the pipe is indexed and `last` is not
    given, else unknown; streamed. State: a position; with `last`, a resume reads the keys of so many rows again.
    Memory: at most 2 * `last` keys, so that it works on endless pipes; without `last` a bit for each row, and 8 bytes
    for each row and for each different key while the keys are compared. With `last` it looks at the order of all rows,
    so each process reads them; see `explain()`.

    Without `last`, the keys of an indexed pipe are read once, before the first row, and compared by digests of 64 bits:
    of 100 million rows, one is left out by mistake in one data set of 3,700. Shuffles before it are put behind it, so
    that the same rows stay in each epoch.

    Args:
        key: what must differ: the name of a column, several names, or a function of the row; by default the whole row.
        last: the number of rows back in which equal keys are looked for, left out or not. A streamed pipe needs it.

    Raises:
        ArgumentError: `last` is below 1.
        PlanError: the pipe is streamed and there is no `last`; the pipe is shuffled before an operator such as `take`,
            so that positions change; there is no such column. If only a run can tell, a `DataError`.
        DataError: with `last`, a key is not hashable, such as a list; without, it has no digest that is the same in
            each process.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence("abacb").distinct())
        ['a', 'b', 'c']
        >>> rows = fp.from_sequence([{"id": 1, "n": 5}, {"id": 1, "n": 6}, {"id": 2, "n": 7}])
        >>> list(rows.distinct("id", last=10))
        [{'id': 1, 'n': 5}, {'id': 2, 'n': 7}]
    """
    if last is not None:
        return pipe.then(Distinct(key, last=last))
    key = check_key("key", key)
    place = place_before_shuffles(pipe, same_rows=True)
    if not place.source.indexed:
        raise PlanError(
            "`distinct` without `last` must follow an indexed pipe, because it compares all rows, and this pipe is "
            "streamed; give `last=`, put `.load()` before it, or remove duplicates when you write the data"
        )
    if (moving := moving_positions(place.source)) is not None:
        raise PlanError(
            f"`distinct` must come before `{moving}`, because the first row of a key changes there; swap the two, "
            "or give `last=`"
        )
    return place.followed(cast("Pipe[T]", place.source).then(DistinctRows(key)))


@dataclass(frozen=True, eq=False, repr=False)
class Distinct(SameRows):
    """A token is [cursor of the row from which keys are read again, rows from there to the first of the output]."""

    kind: ClassVar[str] = "distinct"
    order: ClassVar[Order] = Order.GLOBAL

    key: Any = None
    last: int = field(kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", check_key("key", self.key))
        object.__setattr__(self, "last", check_int("last", self.last, least=1))

    def identity(self) -> Json:
        return None if self.key is None or callable(self.key) else list(self.key)

    def resolve(self, stage: StageView) -> Operator:
        check_named_key(self, stage, self.key)
        return self

    def lookback(self) -> int:
        return self.last

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        source, begin = cast("tuple[Json, int]", at.token or (None, 0))
        check_numbers(begin)
        yield stage.input, source

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        source, begin = cast("tuple[Json, int]", at.token or (None, 0))
        row, position = at.row, 0  # of the next row in the output, and in the input from `source` on
        latest: dict[Hashable, int] = {}  # the last position of each key
        starts: deque[tuple[int, Cursor]] = deque()  # the blocks with the last rows

        def token(position: int) -> Json:
            back = max(0, position - self.last)
            while len(starts) > 1 and starts[1][0] <= back:
                starts.popleft()
            start, cursor = starts[0]
            return [cursor.advance(back - start).plain, position - back]

        for block in stage.input.blocks(Cursor.of(source), context):
            starts.append((position, block.at))
            keys, error = keys_of(block.rows, self.key)
            places, tested = self._new(keys, position, latest)
            if tested < len(keys):
                error = check_hashable(keys[tested])
            if position < begin:
                places = [place for place in places if position + place >= begin]
            if places:
                rows, origins = block.select(range(tested) if len(places) == len(block) else np.array(places, np.int64))
                start = Cursor(token(max(position, begin)), 0, row)
                row += len(places)
                yield Block(rows, start, Cursor(token(position + tested), 0, row), origins)
            if error is not None:
                raise data_error(self, stage.failed(error, block.at.advance(tested), context))
            position += tested
            if len(latest) > 2 * self.last + 1024:
                latest = {key: place for key, place in latest.items() if place >= position - self.last}

    def _new(self, keys: list[Hashable], position: int, latest: dict[Hashable, int]) -> tuple[list[int], int]:
        """Return the places of keys that none of the last rows has, and the number of keys before an unhashable one.

        Args:
            keys: of the rows from `position` on.
            position: of the first key.
            latest: the last position of each key; the keys are added.
        """
        places: list[int] = []
        place = 0
        try:
            for place, key in enumerate(keys):
                previous = latest.get(key)
                latest[key] = position + place
                if previous is None or position + place - previous > self.last:
                    places.append(place)
        except TypeError:
            return places, place
        return places, len(keys)


@dataclass(frozen=True, eq=False, repr=False)
class DistinctRows(ChosenRows):
    """Gives the first row of each key, and all rows that were skipped when the keys were read."""

    kind: ClassVar[str] = "distinct"
    order: ClassVar[Order] = Order.ROW_LOCAL

    key: Any = None

    def identity(self) -> Json:
        return None if self.chosen is None else {"rows": crc32(self.chosen.bits.tobytes())}

    def resolve(self, stage: StageView) -> Operator:
        check_named_key(self, stage, self.key)
        digests, skipped = read_key_digests(self, stage, self.key, long_checksum)
        mask = np.zeros(len(digests), np.bool_)
        keyed = np.delete(np.arange(len(digests)), skipped)
        mask[keyed[np.unique(digests[keyed], return_index=True)[1]]] = True
        mask[skipped] = True
        return self.with_rows(mask, skipped)

    def remark(self, stage: StageView) -> str | None:
        return f"keeps {len(self.row_set)} of {stage.input.length} rows, the first of each key"
