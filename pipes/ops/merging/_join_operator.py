"""`Join`: the operator of `join`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ...core.block import Block
from ...core.context import Context
from ...core.cursor import Cursor, Json
from ...core.operator import Operator, Order, StageView
from ...core.per_process import PerProcess
from ...core.rows import BlockRows, Indices, take
from ...errors import UnfitError
from .._data_error import data_error
from .._unfit_rows import plan_error
from ..grouping._tokens import TokenOfInput
from ._join_columns import join_rows, join_schemas
from ._join_source import JoinSource
from ._other_side import NO_ROW, Matches, OtherSide

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class Join(TokenOfInput):
    """A token is the input's cursor at the first row of a block; the rows that it gives before are skipped."""

    kind: ClassVar[str] = "join"
    order: ClassVar[Order] = Order.ROW_LOCAL

    other: JoinSource = field(repr=False)
    on: tuple[str, ...] = field(kw_only=True)
    how: str = field(default="inner", kw_only=True)
    multiple: str = field(default="error", kw_only=True)
    suffix: str = field(default="_right", kw_only=True)
    memory: PerProcess[OtherSide] = field(default_factory=PerProcess, repr=False, compare=False)

    @property
    def _one_to_one(self) -> bool:
        """Whether each row of the input gives one row."""
        return self.how != "inner" and self.multiple != "all"

    def call(self) -> str:
        arguments: dict[str, object] = {"on": _shortest(self.on)}
        if self.other.key not in ((), self.on):
            arguments["other_on"] = _shortest(self.other.key)
        options = {"how": "inner", "multiple": "error", "suffix": "_right"}
        arguments |= {name: getattr(self, name) for name, default in options.items() if getattr(self, name) != default}
        return f"join({self.other.code}, {', '.join(f'{name}={value!r}' for name, value in arguments.items())})"

    def identity(self) -> Json:
        return {"other": self.other.identity()}

    def indexed(self, inputs: Sequence[bool]) -> bool:
        return inputs[0] and self._one_to_one

    def length(self, stage: StageView) -> int | None:
        return stage.input.length if self._one_to_one else None

    def resolve(self, stage: StageView) -> Operator:
        resolved = replace(self, other=self.other.resolved())
        resolved.schema(stage)  # so that a wrong name fails here
        return resolved

    def schema(self, stage: StageView) -> pa.Schema | None:
        schema, other = stage.input.schema, self.other.schema()
        try:
            if schema is not None:
                self.other.check_key(self.on, schema, other)
            return None if schema is None or other is None else join_schemas(schema, other, self.other.key, self.suffix)
        except UnfitError as error:
            raise plan_error(self, stage, error) from None

    def remark(self, stage: StageView) -> str:
        return "each process that runs it reads the other side once, and keeps it in memory"

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        rows = stage.input.rows(indices, context)
        matches, tested, error = self._match(stage, rows)
        if error is None:
            try:
                return self._join(stage, rows, matches)
            except UnfitError as unfit:
                error, tested = unfit, 0
        raise data_error(self, stage.failed_at(error, int(indices[tested]) if len(indices) else 0, context))

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        row = at.row
        block_size = context.block_size()
        for block in stage.input.blocks(Cursor.of(at.token), context):
            matches, tested, error = self._match(stage, block.rows)
            end = block.end if tested == len(block) else block.at.advance(tested)
            start = 0
            while start < len(matches.left):
                # Many rows of the other side may have the key of one row.
                stop = min(len(matches.left), start + max(block_size.rows(), len(block)))
                part = Matches(matches.left[start:stop], matches.right[start:stop])
                here = self._cursor(block, matches, start, row)
                try:
                    rows = self._join(stage, block.rows, part)
                except UnfitError as unfit:
                    at_row = block.at.advance(int(part.left[0]))
                    raise data_error(self, stage.failed(unfit, at_row, context)) from None
                after = Cursor(end.plain, 0, row + len(rows))
                if stop < len(matches.left):
                    after = self._cursor(block, matches, stop, row + len(rows))
                block_size.produced(rows)
                origins = block.origins and [block.origins[k] for k in part.left.tolist()]
                yield Block(rows, here, after, origins)
                row += len(rows)
                start = stop
            if error is not None:
                raise data_error(self, stage.failed(error, end, context))

    def _cursor(self, block: Block, matches: Matches, place: int, row: int) -> Cursor:
        """The cursor of the pair at `place`, which is row `row` of the output."""
        left = int(matches.left[place])
        skipped = place - int(np.searchsorted(matches.left, left))
        return Cursor(block.at.advance(left).plain, skipped, row - skipped)

    def _match(self, stage: StageView, rows: BlockRows) -> tuple[Matches, int, Exception | None]:
        """The pairs of the rows before the first that fails, how many rows these are, and its error."""
        side = self._side(stage)
        numbers, error = side.find(rows, self.on)
        missing = np.flatnonzero(numbers == NO_ROW)
        if self.how == "error" and len(missing):
            numbers = numbers[: missing[0]]
            error = self.other.no_match(take(rows, range(len(numbers), len(numbers) + 1)), self.on)
        matches = side.match(numbers, keeps_all=self.how == "left", gives_all=self.multiple == "all")
        return matches, len(numbers), error

    def _join(self, stage: StageView, rows: BlockRows, matches: Matches) -> BlockRows:
        return join_rows(rows, self._side(stage), matches, self.suffix, nulls=self.how == "left")

    def _side(self, stage: StageView) -> OtherSide:
        def read() -> OtherSide:
            return self.other.read(self, stage, nulls=self.how == "left", one_row=self.multiple == "error")

        return self.memory.get(read)


def _shortest(names: tuple[str, ...]) -> str | list[str]:
    return names[0] if len(names) == 1 else list(names)
