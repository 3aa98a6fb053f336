"""`Map`: calls a function with each row, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ...core.block import Block
from ...core.checks import check_callable, check_choice
from ...core.context import Context
from ...core.cursor import Cursor
from ...core.operator import Columns, Order, StageView
from ...core.policy import skips
from ...core.randomness import Generators
from ...core.rows import BlockRows, Indices, index_array
from ...core.skipped_rows import Parted, has_skipped, parted
from ...engine.apply import map_until_error
from ...engine.global_seeds import global_generators
from ..grouping._tokens import CursorOfInput


@dataclass(frozen=True)
class Map(CursorOfInput):
    kind: ClassVar[str] = "map"
    order: ClassVar[Order] = Order.ROW_LOCAL
    columns: ClassVar[Columns] = Columns.LOSES
    seeks: ClassVar[bool] = True
    awaits: ClassVar[bool] = False
    """Whether the function may be a coroutine function."""

    function: Callable[..., object]
    rng: Literal[False, True, "global"] = False
    name: str | None = None

    def moves_skipped(self) -> bool:
        return True

    def __post_init__(self) -> None:
        check_callable("function", self.function, coroutines=self.awaits)
        check_choice("rng", self.rng, (False, True, "global"))

    @property
    def main_thread(self) -> bool:  # type: ignore[override]
        return self.rng == "global"

    @property
    def row_function(self) -> Callable[..., object]:
        return self.function

    def row_error(self, error: Exception) -> Exception:
        return error  # `unzip` raises another one

    def length(self, stage: StageView) -> int | None:
        return stage.input.length

    def remark(self, stage: StageView) -> str | None:
        if self.rng or getattr(self.function, "__module__", None) in ("builtins", "math", "operator"):
            return None  # functions of these modules do not draw at random
        return "random draws of its own are not keyed, so they would differ after a resume; see `rng=`"

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        rows, error = self._results(
            stage, stage.input.rows(indices, context), indices, context, lambda row: int(indices[row])
        )
        if error is not None:
            raise self.row_error(stage.failed_at(error, int(indices[len(rows)]), context))
        return rows

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        for block in stage.input.blocks(at, context):
            start = block.at.position
            positions = range(start, start + len(block))
            rows, error = self._results(stage, block.rows, positions, context, block.at.advance)
            end = block.at.advance(len(rows))
            output = [block.with_rows(rows)] if rows else []
            del block, rows  # only the consumer holds them now
            if output:
                yield output.pop()
            if error is not None:
                raise self.row_error(stage.failed(error, end, context))

    def _results(
        self,
        stage: StageView,
        rows: BlockRows,
        positions: Indices,
        context: Context,
        place: Callable[[int], Cursor | int],
    ) -> tuple[BlockRows, Exception | None]:
        """The results up to the first row that fails and may not be skipped, and its error.

        No function is called twice: behind a row that is skipped, the calls go on with the next row.
        """
        marked = stage.input.may_skip and has_skipped(rows)
        results: list[object] = []
        error: Exception | None = None
        if not marked:
            results, error = self._apply(stage, rows, positions, context)
            if error is None or not skips(self.on_error):
                return results, error
        parts = parted(rows) if marked else Parted(rows, range(len(rows)), {}, len(rows))
        while len(results) < len(parts.places):
            if error is not None:
                failed = len(results)
                row = next(iter(parts.values[failed : failed + 1]))
                skipped = stage.skip(error, place(parts.places[failed]), row, context)
                if skipped is None:
                    break
                results.append(skipped)
            done = len(results)
            left = index_array(positions)[np.array(parts.places[done:], np.int64)]
            more, error = self._apply(stage, parts.values[done:], left, context)
            results.extend(more)
        return parts.merged(results), error

    def _apply(
        self, stage: StageView, rows: BlockRows, positions: Indices, context: Context
    ) -> tuple[list[object], Exception | None]:
        """The results for the rows at `positions`, up to the first that fails, and its error."""
        function = self.row_function
        if self.rng is False:
            return map_until_error(function, rows, user_function=self.function)
        remaining = iter(positions if isinstance(positions, range) else positions.tolist())
        generators = Generators(context.key(stage.name))
        if self.rng is True:
            return map_until_error(
                lambda row: function(row, generators.at(next(remaining))), rows, user_function=self.function
            )
        with global_generators() as seed:

            def seed_and_call(row: object) -> object:
                seed(int(generators.at(next(remaining)).integers(2**32)))
                return function(row)

            return map_until_error(seed_and_call, rows, user_function=self.function)
