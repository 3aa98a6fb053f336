"""`SameRows`: the base of the operators that give rows of their input unchanged, such as `shuffle` and `take`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.operator import Operator, StageView

if TYPE_CHECKING:
    import pyarrow as pa


class SameRows(Operator):
    """Gives rows of its only input as they are: some or all of them, in any order, perhaps repeatedly."""

    def schema(self, stage: StageView) -> pa.Schema | None:
        return stage.input.schema
