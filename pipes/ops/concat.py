"""`concat`: one pipe after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, cast

import numpy as np

from ..core.block import Block
from ..core.context import Context
from ..core.cursor import START, Cursor, Json, check_numbers
from ..core.lazy import pa
from ..core.operator import ENDED, Amount, Input, Operator, Order, Past, StageView, Weights, each_row
from ..core.rows import BlockRows, Indices, gather, index_array, signature
from ..core.taken import Taken

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")
U = TypeVar("U")


def concat(pipe: Pipe[T], /, *others: Pipe[U]) -> Pipe[T | U]:
    """Give the rows of this pipe, then the rows of each of `others`.

        a b   and   c   ->   concat(): a b c

    Element: those of the inputs. Order: the inputs one after the other; each is sharded by itself. Length: the sum of
    the inputs' lengths. Indexed if all inputs are. State: the number of the input and the position in it.

    Args:
        others: the pipes whose rows follow.

    Raises:
        ArgumentTypeError: one of `others` is not a pipe.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence("ab").concat(fp.from_sequence("c")))
        ['a', 'b', 'c']
    """
    # A `concat` gives its inputs to the next one, so that a chain of them is no deeper than one. `others` do not: a
    # pipe that is concatenated with itself again and again has fewer nodes than inputs.
    parts = pipe.inputs if isinstance(getattr(pipe, "op", None), Concat) else (pipe,)
    first, *rest = cast("tuple[Pipe[Any], ...]", parts)
    return first.then(Concat(), *rest, *others)


@dataclass(frozen=True, eq=False, repr=False)
class Concat(Operator):
    kind: ClassVar[str] = "concat"
    order: ClassVar[Order] = Order.ROW_LOCAL
    moves_skipped: ClassVar[bool] = True
    edits: ClassVar[Literal["groups", "order"] | None] = "order"
    blind: ClassVar[bool] = True

    @classmethod
    def inputs_at(cls, past: Past, at: Cursor) -> list[Json] | None:
        number, inner = at.numbered()
        here: list[Json] = [inner.advance(at.skip).plain]
        return [ENDED] * number + here + [None] * (past.inputs - number - 1)

    @classmethod
    def inputs_taken(cls, past: Past, taken: Taken) -> list[Taken] | None:
        if past.lengths is None:
            return None
        return [taken.between(*part) for part in pairwise(accumulate(past.lengths, initial=0))]

    def length(self, stage: StageView) -> int | None:
        lengths = [source.length for source in stage.inputs]
        return None if None in lengths else sum(n for n in lengths if n is not None)

    def schema(self, stage: StageView) -> pa.Schema | None:
        first, *others = (source.schema for source in stage.inputs)
        return first if all(schema == first for schema in others) else None

    def trace(self, stage: StageView, index: int, context: Context) -> Iterator[tuple[Input, int, Context]]:
        bounds = self._bounds(stage)
        k = int(np.searchsorted(bounds, index, "right")) - 1
        yield stage.inputs[k], index - int(bounds[k]), context

    def traced(
        self, stage: StageView, indices: Indices, context: Context
    ) -> Iterator[tuple[int, Indices, Indices | None, Context]]:
        bounds, rows = self._bounds(stage), index_array(indices)
        numbers = np.searchsorted(bounds, rows, "right") - 1
        for number in np.unique(numbers).tolist():
            places = np.flatnonzero(numbers == number)
            yield number, rows[places] - bounds[number], places, context

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        uniform = self._uniform(stage, context)

        def part(k: int, places: Indices) -> BlockRows:
            rows = stage.inputs[k].rows(places, context)
            return rows if uniform else list(rows)

        return gather(indices, self._bounds(stage), part)

    def weights(self, stage: StageView, context: Context) -> Weights | None:
        parts = [weights for source in stage.inputs if (weights := source.weights(context)) is not None]
        if len(parts) < len(stage.inputs) or len({part.are_rows for part in parts}) > 1 or not each_row(parts):
            return None
        return Weights(np.concatenate([part.values for part in parts]), parts[0].are_rows)

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        number, source = at.numbered()
        check_numbers(number)
        yield stage.inputs[number], source.plain

    def amount_before(self, stage: StageView, at: Cursor, context: Context) -> Amount | None:
        number, source = at.numbered()
        amounts: list[Amount] = []
        for place, one in enumerate(stage.inputs):
            amount = one.amount_before(source.advance(at.skip).plain if place == number else None, context)
            if amount is None:
                return None
            amounts.append(amount._replace(done=amount.total) if place < number else amount)
        return Amount.sum(amounts)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        first, start = at.numbered()
        row = at.row
        for number in range(first, len(stage.inputs)):
            for block in stage.inputs[number].blocks(start, context):
                yield block.numbered(number, row)
                row += len(block)
            start = START

    def _uniform(self, stage: StageView, context: Context) -> bool:
        """Return whether all inputs have the same columns.

        If not, all rows become Python rows: else the ends of blocks would decide whether rows are columns.
        """
        signatures = (signature(source.rows(range(0), context)) for source in stage.inputs)
        return stage.memo("uniform", lambda: len(set(signatures)) == 1)

    def _bounds(self, stage: StageView) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        def make() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
            return np.cumsum([0, *(source.length or 0 for source in stage.inputs)], dtype=np.int64)

        return stage.memo("bounds", make)
