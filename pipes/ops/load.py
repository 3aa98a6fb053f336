"""`load`: a pipe's rows in memory, so that they can be had in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from ..core.checks import check_bytes
from ..core.context import Context
from ..core.cursor import START
from ..core.gather import gather
from ..core.graph import walk
from ..core.operator import Boundary, Operator, Order
from ..core.per_process import PerProcess
from ..core.rows import BlockRows, Indices, nbytes, signature, take
from ..engine.stage import epoch_independent
from ..errors import LimitError, Origin, PlanError, with_call_site

if TYPE_CHECKING:
    from ..engine.stage import Stage
    from ..pipe import Pipe

T = TypeVar("T")


class _Loaded(NamedTuple):
    """All rows: the blocks as they came, at least one, and where each begins and the last one ends."""

    blocks: list[BlockRows]
    bounds: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Load(Operator):
    kind: ClassVar[str] = "load"
    order: ClassVar[Order] = Order.GLOBAL
    boundary: ClassVar[Boundary | None] = Boundary.EACH_PROCESS

    limit: int | str = "1GiB"
    memory: PerProcess[_Loaded] = field(default_factory=PerProcess, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_bytes("limit", self.limit)

    def indexed(self, inputs: Sequence[bool]) -> bool:
        return True

    def length(self, stage: Stage) -> int | None:
        return int(self._loaded(stage).bounds[-1])

    def origin(self, stage: Stage, index: int, context: Context) -> Origin | None:
        block = next(stage.input.blocks(START.advance(index), epoch_independent(context).replay()), None)
        return block.origins[0] if block and block.origins else None

    def rows(self, stage: Stage, indices: Indices, context: Context) -> BlockRows:
        blocks, bounds = self._loaded(stage)
        return gather(indices, bounds, lambda k, places: take(blocks[k], places))

    def _loaded(self, stage: Stage) -> _Loaded:
        return self.memory.get(lambda: self._read(stage))

    def _read(self, stage: Stage) -> _Loaded:
        limit, used = check_bytes("limit", self.limit), 0
        blocks: list[BlockRows] = []
        for block in stage.input.blocks(START, Context()):
            used += nbytes(block.rows)
            if used > limit:
                raise LimitError(
                    with_call_site(
                        f"`load(limit={self.limit!r})` is full after {sum(map(len, blocks))} rows: "
                        "give a larger `limit`, or shuffle with `window=` and hold less",
                        stage.node.call_site,
                    )
                )
            blocks.append(block.rows)
        if len({signature(block) for block in blocks}) > 1:
            blocks = [list(block) for block in blocks]  # all of them as columns, or none
        blocks = blocks or [[]]  # a look at the rows of no position needs a block
        return _Loaded(blocks, np.cumsum([0, *map(len, blocks)], dtype=np.int64))


def load(pipe: Pipe[T], /, limit: int | str = "1GiB") -> Pipe[T]:
    """Read the pipe into memory once, as columns where it is a table, and make it indexed.

    Element, order and length are the input's, as `for x in pipe` gives them: random draws upstream are those of seed 0
    and epoch 0 in every epoch. Each process that runs the pipe reads it for itself. State: a position.

    Args:
        limit: how many bytes it may take, as an int or such as "500MB".

    Raises:
        PlanError: the pipe is dealt already, by `shard_by_rank()`.
        LimitError: the rows take more than `limit`, by an estimate from the first row of each block.

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_sequence(range(6)).filter(lambda x: x % 2).load()
        >>> len(pipe), pipe[1]
        (3, 3)
    """
    if any(node.op.boundary is Boundary.SHARD for node in walk(pipe)):
        raise PlanError(
            with_call_site(
                "`load()` holds all rows, and behind `shard_by_rank()` there are only some; put it before that"
            )
        )
    return pipe.then(Load(limit))
