"""`load`: keeps all rows in memory, so that they can be read in any order."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from ..core.block import nbytes
from ..core.checks import check_bytes
from ..core.code import call_code
from ..core.context import Context
from ..core.cursor import START
from ..core.graph import find_remote, walk
from ..core.operator import Order, Source, StageView, Trait
from ..core.process import PerProcess
from ..core.progress_bar import ProgressBar
from ..core.rows import BlockRows, Indices, gather, signature
from ..core.shared_rows import SharedRows
from ..errors import LimitError, Origin, PlanError
from ._shared import SameRows

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")


def load(pipe: Pipe[T], /, limit: int | str = "1GiB", *, progress: bool = False) -> Pipe[T]:
    """Read the pipe into memory once, as columns if it is a table, and make it indexed.

    Element, order and length are the input's, as in `for x in pipe`: random draws before this operator are those of
    seed 0 and epoch 0 in every epoch. Each process that runs the pipe loads all rows. State: a position. Epochs share
    the arrays of rows, so that these are read-only; dicts and lists may be changed.

    Args:
        limit: the number of bytes that the rows may take, as an int or a string such as "500MB".
        progress: on a terminal, shows the number of rows while they are read.

    Raises:
        PlanError: `shard_by_rank()` or `remote()` comes before it.
        ArgumentError: `limit` is not a size in bytes.
        LimitError: the rows take more than `limit`, by an estimate from the first row of each block. It is raised when
            the rows are read.

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_sequence(range(6)).filter(lambda x: x % 2).load()
        >>> len(pipe), pipe[1]
        (3, 3)
    """
    if any(node.op.trait is Trait.SHARD for node in walk(pipe)):
        raise PlanError(
            "`load()` must come before `shard_by_rank()`, because it loads all rows and a shard has only its "
            "part of them; swap the two"
        )
    if find_remote(pipe) is not None:
        raise PlanError(
            "`load()` must come before `remote()`, because it reads all rows when the plan is made, and workers "
            "run after that; swap the two"
        )
    return pipe.then(Load(limit, progress))


@dataclass(frozen=True)
class Load(SameRows, Source):
    kind: ClassVar[str] = "load"
    order: ClassVar[Order] = Order.GLOBAL
    trait: ClassVar[Trait | None] = Trait.EACH_PROCESS
    moves_skipped: ClassVar[bool] = True

    limit: int | str = "1GiB"
    progress: bool = field(default=False, compare=False)
    memory: PerProcess[_Loaded] = field(default_factory=PerProcess, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_bytes("limit", self.limit)

    def call(self) -> str:
        return call_code(replace(self, progress=False))  # a state does not depend on it

    def indexed(self, inputs: Sequence[bool]) -> bool:
        return True

    def length(self, stage: StageView) -> int | None:
        return int(self._loaded(stage).bounds[-1])

    def origin(self, stage: StageView, index: int, context: Context) -> Origin | None:
        block = next(stage.input.blocks(START.advance(index), context.epoch_independent().replay()), None)
        return block.origins[0] if block and block.origins else None

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        blocks, bounds = self._loaded(stage)
        return gather(indices, bounds, lambda k, places: blocks[k].take(places))

    def _loaded(self, stage: StageView) -> _Loaded:
        return self.memory.get(lambda: self._read(stage))

    def _read(self, stage: StageView) -> _Loaded:
        limit, used = check_bytes("limit", self.limit), 0
        blocks: list[BlockRows] = []
        at = START

        def fraction() -> float | None:
            amount = stage.input.amount_before(at.plain, Context())
            return None if amount is None else amount.fraction

        bar = ProgressBar("load", stage.input.length, fraction=fraction, shown=None if self.progress else False)
        with closing(Context()) as context, bar:
            for block in stage.input.blocks(START, context):
                at = block.end
                bar.update(len(block))
                used += nbytes(block.rows)
                if used > limit:
                    raise LimitError(
                        f"`load(limit={self.limit!r})` is full after {sum(map(len, blocks))} rows; give a larger "
                        "`limit`, or use `.shuffle(window=...)`, which keeps fewer rows in memory",
                        at=stage.call_site,
                    )
                blocks.append(block.rows)
        if len({signature(block) for block in blocks}) > 1:
            blocks = [list(block) for block in blocks]  # all blocks are columns, or none is
        blocks = blocks or [[]]  # reading the rows at no positions needs a block too
        return _Loaded([SharedRows(block) for block in blocks], np.cumsum([0, *map(len, blocks)], dtype=np.int64))


class _Loaded(NamedTuple):
    """All rows: their blocks, at least one, and the positions at which blocks begin and end."""

    blocks: list[SharedRows]
    bounds: npt.NDArray[np.int64]
