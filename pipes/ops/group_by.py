"""`group_by`: groups of rows of one key, within segments; and segments, as other operators group them too."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ..core.block import Block, cursor_at, group_origins, group_rows, join_blocks
from ..core.checks import check_int
from ..core.context import Context
from ..core.cursor import Cursor
from ..core.operator import Grouping, StageView, TokenOfInput
from ..core.origins import Origins
from ..core.rows import BlockRows, take
from ..errors import ArgumentError, ArgumentTypeError
from ._keys import check_key, check_named_key, key_numbers
from ._shared import data_error

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")


def group_by(
    pipe: Pipe[T],
    /,
    key: str | Sequence[str] | Callable[[T], Hashable],
    *,
    size: int | None = None,
    window: int = 10_000,
    drop_last: bool = False,
) -> Pipe[Sequence[T]]:
    """Group the rows of one key, within windows of the input.

        a1 b1 a2 c1 b2   ->   group_by(lambda row: row[0]): [a1 a2] [b1 b2] [c1]

    Element: a list of rows; of a table a `feedpipe.Rows`. Order: groups come in the order of their first rows, and the
    rows of a group in the input's. Length: unknown; streamed. State: a position in the input; a resume groups at most
    `window` rows again. Memory: as many rows.

    Args:
        key: the name of a column, several names, or a function of a row. Null is a key, and so is NaN.
        size: rows in each group; a key may have several groups. None puts all rows of a window into one.
        window: groups end with each `window` rows, complete or not. Each virtual shard has its own window, so put rows
            of one key next to each other, such as in one file, if they must come together.
        drop_last: leave out groups of fewer than `size` rows; each window may have one for each key.

    Raises:
        DataError: a key is not hashable, or a column is missing.
        ArgumentError: `size` or `window` is below 1, or `drop_last` is given without `size`.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence(["apple", "bean", "avocado", "cabbage"]).group_by(lambda word: word[0]))
        [['apple', 'avocado'], ['bean'], ['cabbage']]
        >>> list(fp.from_sequence(range(7)).group_by(lambda n: n % 2, size=2))
        [[0, 2], [1, 3], [4, 6], [5]]
    """
    checked = check_key("key", key)
    if not checked:
        raise ArgumentTypeError(f"`key` must be a column, columns or a function but got: {key!r}")
    return pipe.then(GroupBy(key if isinstance(key, str) else checked, size, window, drop_last))


@dataclass(frozen=True, eq=False, repr=False)
class GroupBy(TokenOfInput, Grouping):
    kind: ClassVar[str] = "group_by"

    key: str | tuple[str, ...] | Callable[..., Hashable]
    size: int | None = None
    window: int = 10_000
    drop_last: bool = False
    leaves_over: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        if self.size is not None:
            object.__setattr__(self, "size", check_int("size", self.size, least=1))
        object.__setattr__(self, "window", check_int("window", self.window, least=1))
        if self.drop_last and self.size is None:
            raise ArgumentError("`drop_last` needs a `size`, which says when a group is incomplete")

    @property
    def _key(self) -> tuple[str, ...] | Callable[..., Hashable]:
        return (self.key,) if isinstance(self.key, str) else self.key

    def resolve(self, stage: StageView) -> GroupBy:
        check_named_key(self, stage, self._key)
        return self

    def lookback(self) -> int:
        return self.window

    def dropping(self) -> GroupBy:
        return replace(self, leaves_over=True)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        groups = partial(self._groups, stage, context)
        return segment_blocks(stage, at, context, self.window, groups, leaves_over=self.leaves_over)

    def _groups(self, stage: StageView, context: Context, segment: list[Block]) -> Groups:
        numbers, error = key_numbers(join_blocks(segment)[0], self._key)
        if error is not None:
            raise data_error(self, stage.failed(error, cursor_at(segment, len(numbers)), context))
        least = self.size if self.drop_last and self.size is not None else 1
        return grouped(segment, slice_apart(numbers, self.size), least)


# Groups within segments of `window` rows of the input.


Ints: TypeAlias = npt.NDArray[np.int64]
Groups: TypeAlias = tuple[BlockRows, Origins | None]
"""The groups of a segment, and the origin of each."""


def segment_blocks(
    stage: StageView,
    at: Cursor,
    context: Context,
    window: int,
    groups: Callable[[list[Block]], Groups],
    *,
    leaves_over: bool = False,
) -> Iterator[Block]:
    """Give the groups that `groups` makes of each segment of `window` rows.

    A resume reads one segment again: the token is the input's cursor at the segment. With `leaves_over`, the rows of an
    incomplete last segment are left over for the rank.
    """
    row = at.row
    for segment in group_rows(stage.input.blocks(Cursor.of(at.token), context), window):
        start, end = segment[0].at, segment[-1].end
        if leaves_over and sum(map(len, segment)) < window:
            leave_over(segment, stage, context)
            return
        elements, origins = groups(segment)
        first, row = row, row + len(elements)
        output = [Block(elements, Cursor(start.plain, 0, first), Cursor(end.plain, 0, row), origins)]
        del segment, elements  # only the consumer holds them now
        if row > first:
            yield output.pop()


def leave_over(blocks: list[Block], stage: StageView, context: Context) -> None:
    """Leave the rows of an incomplete last group for the one shard of the leftovers."""
    rows, origins = join_blocks(blocks)
    context.leftovers[stage.name] = Block(rows, blocks[0].at, blocks[-1].end, origins)


def grouped(segment: list[Block], labels: Ints, least: int = 1) -> Groups:
    """Group the rows of equal labels, in the order of their first rows. Groups of fewer than `least` are left out."""
    _, firsts, numbers, counts = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    ranks = np.argsort(np.argsort(firsts))  # of the labels
    order = np.argsort(ranks[numbers], kind="stable")
    sizes = counts[np.argsort(firsts)]
    rows, origins = join_blocks(segment)
    rows = take(rows, order)
    spans = [(end - size, end) for end, size in zip(np.cumsum(sizes).tolist(), sizes.tolist(), strict=True)]
    spans = [(start, end) for start, end in spans if end - start >= least]
    groups: list[object] = [rows[start:end] for start, end in spans]
    return groups, group_origins(origins, (order[start:end] for start, end in spans))


def slice_apart(labels: Ints, size: int | None) -> Ints:
    """Divide the rows of equal `labels` into groups of at most `size` rows; return the labels of these."""
    if size is None or not len(labels):
        return labels
    order = np.argsort(labels, kind="stable")
    _, starts, counts = np.unique(labels[order], return_index=True, return_counts=True)
    parts = np.empty(len(labels), np.int64)
    parts[order] = (np.arange(len(labels)) - np.repeat(starts, counts)) // size
    return labels * (int(parts.max()) + 1) + parts
