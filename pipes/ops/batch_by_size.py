"""`batch_by_size` and `bucket_by_length`: batches of limited size, or of rows about equally long."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..core.arrow import numpy_array
from ..core.block import Block, group_rows, join_origins, parted
from ..core.checks import check_int
from ..core.context import Context
from ..core.cursor import Cursor, Json
from ..core.lazy import pa, pc
from ..core.operator import Grouping, Operator, Past, StageView, TokenOfInput
from ..core.origins import Origins
from ..core.rows import BlockRows, Column, Rows, column_names, concat, take
from ..engine.calls import map_until_error
from ..errors import ArgumentError, ArgumentTypeError, UnfitError
from ._partition import CLOSE, Ints, parts_below
from ._shared import check_rising, data_error, existing_columns
from .group_by import Groups, grouped, leave_over, segment_blocks, slice_apart

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")
Floats: TypeAlias = npt.NDArray[np.float64]


def batch_by_size(
    pipe: Pipe[T],
    /,
    limit: int,
    size_of: str | Callable[[T], float],
    *,
    max_rows: int | None = None,
    padded: bool = False,
    window: int | None = None,
    among: int | None = None,
    drop_last: bool = False,
) -> Pipe[Sequence[T]]:
    """Group rows into batches of at most `limit` tokens, bytes, or whatever `size_of` counts.

        aa b ccc d   ->   batch_by_size(3, len): [aa b] [ccc] [d]

    Element: a list of rows; of a table a `feedpipe.Rows`. Order: the input's; with `window` as in `bucket_by_length`.
    Length: unknown; streamed. State: a position in the input; with `window` a resume groups that many rows again, and
    with `among` the rows of so many batches.

    Args:
        limit: the largest size of a batch.
        size_of: a column of numbers, or of lists, arrays or text, whose lengths count; or a function of a row that
            returns a number.
        max_rows: the most rows of a batch.
        padded: the size of a batch is the number of rows times the largest of them, as after `pad_batch`; else the sum.
        window: sorts the rows of each `window` by their size first, so that little of a batch is padding.
        among: puts rows into so many batches at a time, with equal sums of about 99 % of `limit`, so that all ranks
            do the same work in each step. Each virtual shard does so with its own rows; its last batches are smaller.
        drop_last: leave out the last batch. The shards of a rank together leave out only one.

    Raises:
        DataError: a row alone is above `limit`, or a size is no number or below 0.
        ArgumentError: `limit`, `max_rows`, `window` or `among` is below 1; `drop_last` is given with `window` or
            `among`, or `among` with `window` or `padded`.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence(["aa", "b", "ccc", "d"]).batch_by_size(3, len))
        [['aa', 'b'], ['ccc'], ['d']]
        >>> list(fp.from_sequence(["aa", "b", "cc", "d"]).batch_by_size(4, len, padded=True, window=4))
        [['aa', 'cc'], ['b', 'd']]
        >>> list(fp.from_sequence(["aa", "b", "ccc", "dd"]).batch_by_size(5, len, among=2))
        [['aa', 'dd'], ['b', 'ccc']]
    """
    return pipe.then(BatchBySize(limit, size_of, max_rows, padded, window, among, drop_last))


@dataclass(frozen=True, eq=False, repr=False)
class BatchBySize(TokenOfInput, Grouping):
    kind: ClassVar[str] = "batch_by_size"

    limit: int
    size_of: Measure
    max_rows: int | None = None
    padded: bool = False
    window: int | None = None
    among: int | None = None
    drop_last: bool = False
    leaves_over: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("limit", "max_rows", "window", "among"):
            value = getattr(self, name)
            if value is not None or name == "limit":
                object.__setattr__(self, name, check_int(name, value, least=1))
        check_measure("size_of", self.size_of)
        if self.drop_last and (self.window is not None or self.among is not None):
            name = "a `window`" if self.window is not None else "`among`"
            raise ArgumentError(
                f"`drop_last` must be left out with {name}, whose batches are all as full as they can be"
            )
        if self.among is not None and (self.window is not None or self.padded):
            name = "window" if self.window is not None else "padded"
            raise ArgumentError(
                f"`{name}` must be left out with `among`, which makes sums equal, so that a batch has rows of all sizes"
            )

    @classmethod
    def inputs_at(cls, past: Past, at: Cursor) -> list[Json] | None:
        return None if at.skip or {"window", "among"} & past.facts.keys() else [at.token]

    @property
    def edits(self) -> Literal["groups", "order"]:  # type: ignore[override]
        return "groups" if self.window is None and self.among is None else "order"

    def lookback(self) -> int:
        return self.window or (self.max_rows or 1) * (self.among or 1)

    def dropping(self) -> BatchBySize:
        return replace(self, leaves_over=True)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        if self.among is not None:
            return self._balanced(stage, at, context, self.among)
        if self.window is None:
            return self._in_order(stage, at, context)
        groups = partial(self._of_segment, stage, context)
        return segment_blocks(stage, at, context, self.window, groups, leaves_over=self.leaves_over)

    def _of_segment(self, stage: StageView, context: Context, segment: list[Block]) -> Groups:
        sizes = sizes_in(segment, self, stage, context, self.size_of, "size_of", self.limit)
        order = np.argsort(sizes, kind="stable")
        first = np.zeros(len(sizes), np.int64)
        first[SizeLimit(self.limit, self.max_rows, padded=self.padded).cuts(sizes[order].tolist())] = 1
        labels = np.empty(len(sizes), np.int64)
        labels[order] = np.cumsum(first)
        return grouped(segment, labels)

    def _balanced(self, stage: StageView, at: Cursor, context: Context, among: int) -> Iterator[Block]:
        row = at.row
        pending: list[Block] = []  # rows in no batch yet, and their sizes
        sizes: Floats = np.zeros(0)
        for block in stage.input.blocks(Cursor.of(at.token), context):
            own, error = sizes_of(block.rows, self.size_of, "size_of", self.limit)
            if len(own):
                pending.append(block.slice(0, len(own)))
                sizes = np.concatenate([sizes, own], dtype=np.float64)
            while (count := self._group(sizes, among)) < len(sizes):
                labels = self._labels(sizes, count, among)
                output, pending = self._given(stage, pending, labels, row, context, sizes)
                sizes, row = sizes[len(labels) :], output.end.position
                yield output
            if error is not None:
                raise data_error(self, stage.failed(error, block.at.advance(len(own)), context))
        if pending and self.leaves_over:
            leave_over(pending, stage, context)
        elif pending:
            output, _ = self._given(stage, pending, self._last_labels(sizes), row, context, sizes)
            yield output

    def _group(self, sizes: Floats, among: int) -> int:
        """The number of rows for the next batches, if that many are known."""
        rows = int(np.searchsorted(np.cumsum(sizes), among * self.limit * (1 - CLOSE), side="right"))
        return max(1, min(rows, among * (self.max_rows or rows)))

    def _labels(self, sizes: Floats, count: int, among: int) -> Ints:
        """The batch of each row, of the first `count` or as many as fit."""
        while (labels := parts_below(sizes[:count], among, self.limit, self.max_rows)) is None:
            count -= max(1, int(count * CLOSE))
        return labels

    def _last_labels(self, sizes: Floats) -> Ints:
        """The batch of each of the last rows, in as few batches as they fit."""
        count = max(math.ceil(sizes.sum() / self.limit), math.ceil(len(sizes) / (self.max_rows or len(sizes))))
        while (labels := parts_below(sizes, max(1, count), self.limit, self.max_rows)) is None:
            count += 1
        return labels

    def _given(
        self, stage: StageView, pending: list[Block], labels: Ints, row: int, context: Context, sizes: Floats
    ) -> tuple[Block, list[Block]]:
        """The batches of the first rows, and the rows after these."""
        context.pacing.clock.count("cost", stage.name, round(float(sizes[: len(labels)].sum())))
        groups = group_rows(pending, len(labels))
        segment, rest = next(groups), [block for group in groups for block in group]
        elements, origins = grouped(segment, labels)
        end = rest[0].at if rest else segment[-1].end
        start = Cursor(segment[0].at.plain, 0, row)
        return Block(elements, start, Cursor(end.plain, 0, row + len(elements)), origins), rest

    def _in_order(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        limit = SizeLimit(self.limit, self.max_rows, padded=self.padded)
        row = at.row
        pending: list[Block] = []  # rows of the batch that is not complete
        for block in stage.input.blocks(Cursor.of(at.token), context):
            sizes, error = sizes_of(block.rows, self.size_of, "size_of", self.limit)
            complete, start = list[list[Block]](), 0
            for cut in limit.cuts(sizes.tolist()):
                complete.append([*pending, *([block.slice(start, cut)] if start < cut else [])])
                pending, start = [], cut
            if start < len(sizes):
                pending.append(block.slice(start, len(sizes)))
            for place, blocks in enumerate(complete, 1):  # each by itself: its cursor is then one of the input
                following = complete[place] if place < len(complete) else pending
                yield _batches([blocks], row, following[0].at)
                row += 1
            if error is not None:
                raise data_error(self, stage.failed(error, block.at.advance(len(sizes)), context))
        if pending and self.leaves_over:
            leave_over(pending, stage, context)
        elif pending and not self.drop_last:
            yield _batches([pending], row, pending[-1].end)


def _batches(batches: list[list[Block]], row: int, end: Cursor) -> Block:
    """Return complete batches, the first of which is row `row`. `end` is the input's cursor after them."""
    elements: list[object] = [concat([block.rows[:] for block in blocks]) for blocks in batches]
    origins = Origins.joined([(own and own.grouped([range(len(own))]), 1) for own in map(join_origins, batches)])
    start = Cursor(batches[0][0].at.plain, 0, row)
    return Block(elements, start, Cursor(end.plain, 0, row + len(elements)), origins)


def bucket_by_length(
    pipe: Pipe[T],
    /,
    size: int,
    length: str | Callable[[T], float],
    *,
    boundaries: Sequence[float] | None = None,
    window: int = 10_000,
    drop_last: bool = False,
) -> Pipe[Sequence[T]]:
    """Group `size` rows of about one length, so that little of a batch is padding.

        a ccc bb a bb ccc   ->   bucket_by_length(2, len): [a a] [ccc ccc] [bb bb]

    Element: a list of rows; of a table a `feedpipe.Rows`. Order: batches come in the order of their first rows, and the
    rows of a batch in the input's; put a `shuffle(window=...)` after it to mix batches. Length: unknown; streamed.
    State: a position in the input; a resume groups at most `window` rows again. Memory: as many rows.

    Args:
        size: rows in each batch.
        length: a column of numbers, or of lists, arrays or text, whose lengths count; or a function of a row that
            returns a number.
        boundaries: rows are in one batch only if no boundary lies between their lengths: a row of length 8 is above
            the boundary 8. None sorts the rows of each window, and puts neighbours together.
        window: the rows to choose from; each virtual shard has its own window. Incomplete batches end with it.
        drop_last: leave out batches of fewer rows; each window may have one in each bucket.

    Raises:
        DataError: a length is no number, or below 0.
        ArgumentError: `size` or `window` is below 1, or `boundaries` do not rise.

    Source: `tf.data.Dataset.bucket_by_sequence_length`.

    Example:
        >>> import feedpipe as fp
        >>> words = fp.from_sequence(["a", "ccc", "bb", "d", "ee", "fff"])
        >>> list(words.bucket_by_length(2, len))
        [['a', 'd'], ['ccc', 'fff'], ['bb', 'ee']]
        >>> list(words.bucket_by_length(2, len, boundaries=[3]))
        [['a', 'bb'], ['ccc', 'fff'], ['d', 'ee']]
    """
    if boundaries is not None:
        check_rising("boundaries", boundaries)
        boundaries = tuple(boundaries)
    return pipe.then(BucketByLength(size, length, boundaries, window, drop_last))


@dataclass(frozen=True, eq=False, repr=False)
class BucketByLength(TokenOfInput, Grouping):
    kind: ClassVar[str] = "bucket_by_length"

    size: int
    measure: Measure  # the `length`, which is a method here
    boundaries: tuple[float, ...] | None = None
    window: int = 10_000
    drop_last: bool = False
    leaves_over: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", check_int("size", self.size, least=1))
        object.__setattr__(self, "window", check_int("window", self.window, least=1))
        check_measure("length", self.measure)

    def identity(self) -> Json:
        return self.boundaries

    def lookback(self) -> int:
        return self.window

    def dropping(self) -> BucketByLength:
        return replace(self, leaves_over=True)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        groups = partial(self._groups, stage, context)
        return segment_blocks(stage, at, context, self.window, groups, leaves_over=self.leaves_over)

    def _groups(self, stage: StageView, context: Context, segment: list[Block]) -> Groups:
        lengths = sizes_in(segment, self, stage, context, self.measure, "length")
        if self.boundaries is None:
            labels = np.empty(len(lengths), np.int64)
            labels[np.argsort(lengths, kind="stable")] = np.arange(len(lengths)) // self.size
        else:
            labels = slice_apart(np.searchsorted(np.array(self.boundaries), lengths, "right"), self.size)
        return grouped(segment, labels, self.size if self.drop_last else 1)


# Sizes of rows: numbers in a column, lengths of its lists and texts, or results of a function.


Measure: TypeAlias = "str | Callable[..., object]"
Sizes: TypeAlias = "npt.NDArray[np.int64 | np.float64]"


def check_measure(name: str, value: object) -> None:
    if not isinstance(value, str) and not isinstance(value, Callable):  # type: ignore[arg-type]
        raise ArgumentTypeError(f"`{name}` must be the name of a column or a function of a row but got: {value!r}")


def sizes_of(
    rows: BlockRows, measure: Measure, argument: str, limit: float = math.inf
) -> tuple[Sizes, Exception | None]:
    """Return the sizes of the rows before the first that has none or one above `limit`, and its error.

    `argument` is the user's name of `measure`.
    """
    error: Exception | None = None
    if isinstance(rows, Rows) and isinstance(measure, str):
        try:
            sizes = _column_sizes(rows[existing_columns([measure], column_names(rows))[measure]])
        except UnfitError as unfit:
            return np.zeros(0, np.int64), unfit
    else:
        function = partial(_item_size, measure) if isinstance(measure, str) else measure
        values, error = map_until_error(function, rows)
        are_numbers = {*map(type, values)} <= {int, float} or all(map(_is_number, values))
        sizes = np.array(values) if are_numbers else np.array([_number(value) for value in values])
    if not len(sizes):
        return np.zeros(0, np.int64), error
    bad = np.flatnonzero(~(sizes >= 0))
    if len(bad):
        sizes, error = sizes[: bad[0]], _no_size(rows, int(bad[0]), measure, argument)
    above = np.flatnonzero(sizes > limit)
    if len(above):
        size = sizes[above[0]].item()
        error = UnfitError(
            f"a row of size {size} is above the `limit` of {limit}; raise it, or leave the row out with `.filter`"
        )
        sizes = sizes[: above[0]]
    return sizes, error


def sizes_in(
    segment: list[Block],
    op: Operator,
    stage: StageView,
    context: Context,
    measure: Measure,
    argument: str,
    limit: float = math.inf,
) -> Floats:
    """Return the sizes of the rows of a segment; that of a skipped row is 0.

    Raises:
        DataError: a row has none.
        RowError: the function failed on a row.
    """
    sizes: list[Floats] = []
    for block in segment:
        parts = parted(block.rows)
        own, error = sizes_of(parts.values, measure, argument, limit)
        if error is not None:
            raise data_error(op, stage.failed(error, block.at.advance(parts.places[len(own)]), context))
        sizes.append(np.zeros(len(block)))
        sizes[-1][np.array(parts.places, np.int64)] = own
    return np.concatenate(sizes)


def _column_sizes(column: Column) -> Sizes:
    """Return the sizes of the rows of a column; NaN for those that have none."""
    if isinstance(column, np.ndarray):
        if column.ndim > 1:
            return np.full(len(column), column.shape[1])
        return cast("Sizes", column) if column.dtype.kind in "iuf" else np.full(len(column), np.nan)
    values: Any = column
    kind: Any = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        values = pc.utf8_length(values)
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        values = pc.binary_length(values)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        values = pc.list_value_length(values)
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return np.full(len(column), np.nan)
    return cast("Sizes", numpy_array(values))  # a null becomes NaN


def _item_size(name: str, row: object) -> object:
    # Checks of the type itself, because `isinstance` of an abstract class takes three times as long as the rest.
    if not (type(row) is dict or isinstance(row, Mapping)) or name not in row:
        raise UnfitError(
            f"rows must be dicts with {name!r}, or `.map` before must make them so, but one is: {row!r:.80}"
        )
    value: object = cast("Mapping[str, object]", row)[name]
    return len(value) if type(value) is not int and isinstance(value, Sized) else value


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _number(value: object) -> float:
    return float(cast("float", value)) if _is_number(value) else np.nan


def _no_size(rows: BlockRows, index: int, measure: Measure, argument: str) -> UnfitError:
    row = next(iter(take(rows, range(index, index + 1))))
    value = cast("Any", row)[measure] if isinstance(measure, str) else measure(row)
    repair = "" if callable(measure) else ", or an item that has a length"
    return UnfitError(f"`{argument}` must give a number >= 0 for each row{repair} but gave: {value!r:.80}")


class SizeLimit:
    """Cuts rows, one after the other, into batches that are as large as the limit allows."""

    def __init__(self, limit: int, max_rows: int | None, *, padded: bool) -> None:
        self.limit = limit
        self.max_rows = max_rows
        self._padded = padded
        self._count = 0  # of the batch that is not complete
        self._size = 0.0  # its sum or, if `padded`, its largest row

    def cuts(self, sizes: Sequence[float]) -> list[int]:
        """Return the places among the next `sizes` at which a batch begins. No size may be above the limit."""
        cuts: list[int] = []
        count, size = self._count, self._size
        for place, row_size in enumerate(sizes):
            grown = max(size, row_size) if self._padded else size + row_size
            total = grown * (count + 1) if self._padded else grown
            if count and (total > self.limit or count == self.max_rows):
                cuts.append(place)
                count, grown = 0, row_size
            count, size = count + 1, grown
        self._count, self._size = count, size
        return cuts
