"""`repeat`: all rows of a pipe several times, or without end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count as counting
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np

from ..core.block import Block
from ..core.checks import check_int
from ..core.context import Context
from ..core.cursor import START, Cursor, Json, check_numbers
from ..core.operator import Amount, Input, Order, StageView, Trait
from ..core.rows import BlockRows, Indices, gather
from ._shared import SameRows

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")


def repeat(pipe: Pipe[T], /, times: int | None = None) -> Pipe[T]:
    """Give all rows `times` times, or without end.

        a b   ->   repeat(): a b a b ...

    Element and order are the input's; a `shuffle` before it gives each round another order. Length: the input's times
    `times`. Indexed if the input is and `times` is given. State: the number of the round and the position in it.

    Args:
        times: the number of rounds; None repeats without end, and a loader then needs `steps=`.

    Raises:
        ArgumentError: `times` is below 0.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence("ab").repeat(2))
        ['a', 'b', 'a', 'b']
    """
    return pipe.then(Repeat(times))


@dataclass(frozen=True, eq=False, repr=False)
class Repeat(SameRows):
    kind: ClassVar[str] = "repeat"
    order: ClassVar[Order] = Order.ROW_LOCAL
    trait: ClassVar[Trait | None] = Trait.REPEATS
    moves_skipped: ClassVar[bool] = True
    blind: ClassVar[bool] = True

    times: int | None = None

    def __post_init__(self) -> None:
        if self.times is not None:
            object.__setattr__(self, "times", check_int("times", self.times, least=0))

    def indexed(self, inputs: Sequence[bool]) -> bool:
        return inputs[0] and self.times is not None

    def length(self, stage: StageView) -> int | None:
        rows = stage.input.length
        if self.times is None or rows is None:
            return 0 if 0 in (rows, self.times) else None
        return rows * self.times

    def trace(self, stage: StageView, index: int, context: Context) -> Iterator[tuple[Input, int, Context]]:
        number, place = divmod(index, stage.input.length or 1)
        yield stage.input, place, context.round(number)

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        length = stage.input.length or 0
        bounds = np.arange((self.times or 0) + 1, dtype=np.int64) * length
        return gather(indices, bounds, lambda k, places: stage.input.rows(places, context.round(k)))

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        number, source = at.numbered()
        check_numbers(number)
        yield stage.input, source.plain

    def amount_before(self, stage: StageView, at: Cursor, context: Context) -> Amount | None:
        number, source = at.numbered()
        amount = stage.input.amount_before(source.advance(at.skip).plain, context.round(number))
        if amount is None or self.times is None:
            return None
        return Amount((number + amount.fraction) * amount.total, self.times * amount.total)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        first, start = at.numbered()
        row = at.row
        for number in range(first, self.times) if self.times is not None else counting(first):
            before = row
            for block in stage.input.blocks(start, context.round(number)):
                yield block.numbered(number, row)
                row += len(block)
            if row == before and start is START and self.times is None:
                return  # the pipe is empty, and so is every round
            start = START
