"""`CheckedPipe`: the pipe that rules look at, its plan, and the first rows of its operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from ...core.block import nbytes
from ...core.context import Context
from ...core.cursor import START
from ...core.findings import Finding
from ...core.graph import Node, walk
from ...core.rows import BlockRows
from ...engine.skips import remaining_blocks
from ...engine.stage import Stage, resolve
from ...plan.plan import Plan

SIZED_ROWS = 64
"""The rows whose bytes are counted: images may take long to make."""


class FirstRows(NamedTuple):
    """The first rows of a stage.

    Attributes:
        rows: some of them.
        error: what making the next one has raised.
    """

    rows: list[Any]
    error: Exception | None = None


class CheckedPipe:
    """A pipe that rules look at.

    Attributes:
        world_size, workers: of the loader.
        rows: the number of rows that rules may look at.
        root: the pipe, as if nobody had looked at it before.
        plan: of rank 0.
    """

    def __init__(self, pipe: Node, *, world_size: int, workers: int, shards: int | None, rows: int) -> None:
        self.world_size = world_size
        self.workers = workers
        self.rows = rows
        self.root = resolve(_unseen(pipe))
        self.plan = Plan(self.root, seed=0, rank=0, world_size=world_size, workers=workers, shards=shards)
        self._samples: dict[Stage, FirstRows] = {}

    @cached_property
    def nodes(self) -> list[Node]:
        """All operators, the inputs of one before it."""
        return list(walk(self.root))

    def stages(self) -> Iterator[Stage]:
        """The stages of all operators."""
        return map(self.plan.stage_of, self.nodes)

    def shard_stages(self, name: str, most: int) -> list[Stage]:
        """The stages of that name in some shards, at most so many; they begin at different rows."""
        step = max(1, self.plan.shards // most)
        graphs = [self.plan.shard_stage(shard) for shard in range(0, self.plan.shards, step)][:most]
        return [stage for graph in graphs for stage in walk(graph) if stage.name == name]

    def sample(self, stage: Stage, count: int | None = None) -> FirstRows:
        """The first rows of a stage, as they come with seed 0 in epoch 0; of a graph that fails, those before."""
        count = self.rows if count is None else min(count, self.rows)
        kept = self._samples.get(stage)
        if kept is None or (len(kept.rows) < count and kept.error is None):
            self._samples[stage] = kept = first_rows(stage, count)
        return FirstRows(kept.rows[:count], kept.error if len(kept.rows) < count else None)

    def row_bytes(self, stage: Stage) -> float | None:
        """The mean bytes of the first rows of a stage; None without rows."""
        rows = self.sample(stage, SIZED_ROWS).rows
        return sum(nbytes([row]) for row in rows) / len(rows) if rows else None


Rule: TypeAlias = Callable[[CheckedPipe], Iterator[Finding]]


def _unseen(root: Node) -> Node:
    """A copy of a graph, in which nothing is resolved yet: what an operator warns of once, it says again."""
    copies: dict[Node, Node] = {}
    for node in walk(root):
        copies[node] = Node(node.op, tuple(copies[source] for source in node.inputs), node.call_site)
    return copies[root]


def first_rows(stage: Stage, count: int) -> FirstRows:
    """The first rows of a stage, made now."""
    rows: list[Any] = []
    if not count:
        return FirstRows(rows)
    try:
        with closing(Context()) as context:
            for block in remaining_blocks(stage.blocks(START, context)):
                rows += _listed(block.rows, count - len(rows))
                if len(rows) >= count:
                    break
    except Exception as error:
        return FirstRows(rows, error)
    return FirstRows(rows)


def _listed(rows: BlockRows, count: int) -> list[Any]:
    return list(rows[:count])
