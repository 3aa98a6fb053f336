"""`map`: a function of each row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar, overload

import numpy as np

from ..core.block import Block
from ..core.checks import check_callable, check_choice
from ..core.context import Context
from ..core.cursor import Cursor
from ..core.operator import Columns, Operator, Order
from ..core.randomness import Generators
from ..core.rows import BlockRows, Indices
from ..engine.apply import map_until_error
from ..engine.global_seeds import global_generators

if TYPE_CHECKING:
    from ..engine.stage import Stage
    from ..pipe import Pipe

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class Map(Operator):
    kind: ClassVar[str] = "map"
    order: ClassVar[Order] = Order.ROW_LOCAL
    columns: ClassVar[Columns] = Columns.LOSES
    seeks: ClassVar[bool] = True

    function: Callable[..., object]
    rng: Literal[False, True, "global"] = False
    name: str | None = None

    def __post_init__(self) -> None:
        check_callable("function", self.function)
        check_choice("rng", self.rng, (False, True, "global"))

    @property
    def main_thread(self) -> bool:  # type: ignore[override]
        return self.rng == "global"

    @property
    def called(self) -> Callable[..., object]:
        """What is called with each row."""
        return self.function

    def length(self, stage: Stage) -> int | None:
        return stage.input.length

    def remark(self) -> str | None:
        if self.rng is False:
            return "not keyed: random draws of its own would differ after a resume; see `rng=`"
        return None

    def rows(self, stage: Stage, indices: Indices, context: Context) -> BlockRows:
        made, error = self._call(stage, stage.input.rows(indices, context), indices, context)
        if error is not None:
            raise stage.failed_at(error, int(indices[len(made)]), context)
        return made

    def blocks(self, stage: Stage, at: Cursor, context: Context) -> Iterator[Block]:
        for block in stage.input.blocks(at, context):
            start = block.at.position
            rows, error = self._call(stage, block.rows, range(start, start + len(block)), context)
            after = block.at.advance(len(rows))
            made = [block.mapped(rows)] if rows else []
            del block, rows  # handed on
            if made:
                yield made.pop()
            if error is not None:
                raise stage.failed(error, after, context)

    def _call(
        self, stage: Stage, rows: BlockRows, positions: Indices, context: Context
    ) -> tuple[list[object], Exception | None]:
        function = self.called
        if self.rng is False:
            return map_until_error(function, rows)
        places = iter(positions if isinstance(positions, range) else positions.tolist())
        generators = Generators(context.key(stage.name))
        if self.rng is True:
            return map_until_error(lambda row: function(row, generators.at(next(places))), rows)
        with global_generators() as seed:

            def seeded(row: object) -> object:
                seed(int(generators.at(next(places)).integers(2**32)))
                return function(row)

            return map_until_error(seeded, rows)


@overload
def map(
    pipe: Pipe[T],
    /,
    function: Callable[[T, np.random.Generator], U],
    *,
    rng: Literal[True],
    name: str | None = None,
) -> Pipe[U]: ...
@overload
def map(
    pipe: Pipe[T],
    /,
    function: Callable[[T], U],
    *,
    rng: Literal[False, "global"] = False,
    name: str | None = None,
) -> Pipe[U]: ...
def map(
    pipe: Pipe[T],
    /,
    function: Callable[..., U],
    *,
    rng: Literal[False, True, "global"] = False,
    name: str | None = None,
) -> Pipe[U]:
    """Give `function(row)` in place of each row.

    Element: what `function` returns. Order and length are the input's; indexed where the input is. State: none.

    Args:
        function: called once for each row; its errors come with file, line and row (`RowError`).
        rng: True calls `function(row, rng)` with a NumPy generator keyed by seed, epoch, shard and the row's position:
            the same draws after a resume and on any number of workers, of an indexed pipe also on any number of ranks
            (of a streamed one, with `shards=` fixed). "global" calls `function(row)` after
            seeding Python's `random`, NumPy's and torch's global generators from that key, for transforms that draw
            from those; they are set back afterwards.
        name: names the operator for that key, in place of its kind and count.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence([1, 2, 3]).map(lambda x: x * 10))
        [10, 20, 30]
        >>> pipe = fp.from_sequence([1, 2, 3]).map(lambda x, rng: x + rng.random(), rng=True)
        >>> list(pipe) == list(pipe)
        True
    """
    return pipe.then(Map(function, rng, name))
