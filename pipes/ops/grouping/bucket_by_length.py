"""`bucket_by_length`: batches of rows that are about equally long."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np

from ...core.block import Block
from ...core.checks import check_int
from ...core.context import Context
from ...core.cursor import Cursor, Json
from ...core.operator import Order, StageView
from ...errors import ArgumentError, ArgumentTypeError, with_call_site
from ._segments import Groups, cut_apart, grouped, segment_blocks
from ._sizes import Measure, check_measure, segment_sizes
from ._tokens import TokenOfInput

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class BucketByLength(TokenOfInput):
    kind: ClassVar[str] = "bucket_by_length"
    order: ClassVar[Order] = Order.REGROUPS

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
        lengths = segment_sizes(self, stage, context, segment, self.measure, "length")
        if self.boundaries is None:
            labels = np.empty(len(lengths), np.int64)
            labels[np.argsort(lengths, kind="stable")] = np.arange(len(lengths)) // self.size
        else:
            labels = cut_apart(np.searchsorted(np.array(self.boundaries), lengths, "right"), self.size)
        return grouped(segment, labels, self.size if self.drop_last else 1)


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

        a ccc bb a bb ccc   ->   [a a] [ccc ccc] [bb bb]

    Element: a list of rows; of a table a `feedpipe.Rows`. Order: batches come in the order of their first rows, and the
    rows of a batch in the input's; put a `shuffle(window=...)` behind it to mix batches. Length: unknown; streamed.
    State: a position in the input; a resume groups at most `window` rows again, and so many are kept in memory.

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
    return pipe.then(BucketByLength(size, length, _rising(boundaries), window, drop_last))


def _rising(boundaries: Sequence[float] | None) -> tuple[float, ...] | None:
    if boundaries is None:
        return None
    try:
        values = np.array(boundaries, np.float64)
    except (TypeError, ValueError):
        values = np.zeros((0, 0))
    if values.ndim != 1:
        raise ArgumentTypeError(with_call_site(f"`boundaries` must be a list of numbers but got: {boundaries!r:.80}"))
    if not (np.diff(values) > 0).all():
        raise ArgumentError(with_call_site(f"`boundaries` must rise but got: {boundaries!r:.80}"))
    return tuple(boundaries)
