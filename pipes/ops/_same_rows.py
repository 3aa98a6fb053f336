"""`SameRows`, `Rearranged`: the bases of operators that give rows of their input unchanged: `shuffle`, `take`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..core.context import Context
from ..core.operator import Input, Operator, StageView, Weights
from ..core.rows import BlockRows, Indices, index_array

if TYPE_CHECKING:
    import pyarrow as pa


class SameRows(Operator):
    """Gives rows of its only input as they are: some or all of them, in any order, perhaps repeatedly."""

    def schema(self, stage: StageView) -> pa.Schema | None:
        return stage.input.schema


class Rearranged(SameRows, ABC):
    """Of an indexed input, gives the rows at positions that can be computed."""

    def moves_skipped(self) -> bool:
        return True

    @abstractmethod
    def places(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        """The positions in the input of the rows at `indices`."""

    def trace(self, stage: StageView, index: int, context: Context) -> Iterator[tuple[Input, int, Context]]:
        yield stage.input, int(self.places(stage, range(index, index + 1), context)[0]), context

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        return stage.input.rows(self.places(stage, indices, context), context)

    def weights(self, stage: StageView, context: Context) -> Weights | None:
        weights = stage.input.weights(context)
        if weights is None:
            return None
        places = self.places(stage, range(self.length(stage) or 0), context)
        return Weights(weights.values[index_array(places)], weights.are_rows)
