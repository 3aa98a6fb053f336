"""`Plan`: what one rank runs of a pipe, for a seed, a world size and a number of shards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from ..core.context import Context
from ..core.cursor import START, Cursor, Json
from ..core.graph import Node, names, walk, with_inputs
from ..core.operator import Boundary, Operator, Order
from ..core.rows import BlockRows
from ..engine.run import length_of
from ..engine.stage import Stage, bind
from ..errors import PlanError
from ..ops.concat import Concat
from .shard_operators import Deal, Leftover
from .sharding import Common, Dealing, reorders, user_deals


class ShardState(NamedTuple):
    """Where one shard stands: its cursor, or where its leftover begins once it has ended; plain values."""

    cursor: Json = None
    ended: bool = False
    leftover: Json = None


class Position(NamedTuple):
    """Where a rank stands in a pass over the data.

    Attributes:
        start: of an indexed pipe: elements that all ranks together have taken.
        shards: of a streamed pipe, by shard; a shard that is missing has not begun. What is made of the
            leftovers is one more shard, `Plan.tail_shard`.
    """

    start: int = 0
    shards: Mapping[int, ShardState] = MappingProxyType({})

    def of(self, shard: int) -> ShardState:
        return self.shards.get(shard, ShardState())

    def after(self, ended: Mapping[int, Json]) -> Position:
        """The position once these shards have ended, each with the cursor of its leftover."""
        return self._replace(shards={**self.shards, **{n: ShardState(None, True, left) for n, left in ended.items()}})


@dataclass(frozen=True)
class Part:
    """What a reading service runs: one shard's graph, from a cursor on."""

    shard: int
    stage: Stage
    at: Cursor


class Plan:
    """What rank `rank` of `world_size` runs.

    An indexed pipe is dealt at its output, element by element, to ranks and then to workers. A streamed pipe runs as
    `shards` virtual shards, of which the rank has each `world_size`-th and a worker each `workers`-th of these.

    Attributes:
        root: the graph, listings and types fixed.
        shards: virtual shards of all ranks; 0 where the pipe is indexed.
    """

    def __init__(self, root: Node, *, seed: int, rank: int, world_size: int, workers: int, shards: int | None) -> None:
        self.root = root
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
        self.names = names(root)
        self._stages: dict[Node, Stage] = {}
        self.undealt = bind(root, self.names, self._stages)
        self.indexed = root.indexed and not user_deals(root)
        self.shards = 0 if self.indexed else _count(root, world_size, workers, shards)
        self._counted: tuple[int, dict[Node, Stage]] = (-1, {})
        self._dealing = Dealing(self.shards, self._stages, self.names)
        self._tail = None if self.indexed else self._find_tail()
        self._main = (
            root if self._tail is None else self._with_tail(self._tail.op.dropping(), self._tail.inputs, self.names)
        )

    @property
    def varies(self) -> bool:
        """Whether a rank's length may differ between epochs: units of unlike length go to other shards in each."""
        return not self.indexed and any(
            node.op.expands and not node.indexed and self._stages[node].length is not None for node in walk(self.root)
        )

    @property
    def mine(self) -> range:
        """The shards of this rank."""
        return range(self.rank, self.shards, self.world_size)

    @property
    def tail_shard(self) -> int:
        """The number under which this rank's leftovers run."""
        return self.shards + self.rank

    @property
    def tail_name(self) -> str | None:
        """The name of the operator whose leftovers are put together."""
        return None if self._tail is None else self.names[self._tail]

    def parts(self, position: Position, worker: int = 0, workers: int = 1) -> list[Part]:
        """What worker `worker` of `workers` of this rank has still to run, the tail left out."""
        if self.indexed:
            share, shares = self.rank + self.world_size * worker, self.world_size * workers
            return [Part(worker, self.indexed_stage(share, shares, position.start), START)]
        running = self.running(position, worker, workers)
        return [Part(shard, self.shard_stage(shard), at) for shard, at in running.items()]

    def running(self, position: Position, worker: int = 0, workers: int = 1) -> dict[int, Cursor]:
        """The shards of `parts`, and where they stand."""
        if self.indexed:
            return {worker: START}
        states = {shard: position.of(shard) for shard in self.mine[worker::workers]}
        return {shard: Cursor.of(state.cursor) for shard, state in states.items() if not state.ended}

    def tail(self, position: Position, held: Mapping[int, BlockRows] = MappingProxyType({})) -> Part | None:
        """What is made of this rank's leftovers, once its shards have ended; `held` are rows of those at hand."""
        at, ended, _ = position.of(self.tail_shard)
        if self._tail is None or ended:
            return None
        left = {s: state.leftover for s, state in position.shards.items() if state.leftover is not None}
        if not left:
            return None
        stage = self._tail_stage([Leftover(shard, left[shard], None, held.get(shard)) for shard in sorted(left)])
        return Part(self.tail_shard, stage, Cursor.of(at))

    def indexed_stage(self, share: int, shares: int, start: int = 0) -> Stage:
        """One share of an indexed pipe: its elements from `start` on, dealt one by one."""
        if shares == 1 and start == 0:
            return self.undealt
        node = Node(Deal(shares, share, start=start), (self.root,))
        return bind(node, self.names, dict(self._stages))

    def shard_stage(self, shard: int) -> Stage:
        return self._bound(self._dealing.deal(self._main, shard))

    def length(self, rank: int, start: int = 0, lap: int = 0) -> int | None:
        """How many elements `rank` gives in pass `lap` over the data, if known."""
        if self.indexed:
            return len(range(start + rank, length_of(self.undealt), self.world_size))
        total = 0
        left: list[Leftover] = []
        for shard in range(rank, self.shards, self.world_size):
            length = self._counting(self._main, shard, lap).length
            if length is None:
                return None
            total += length
            if self._tail is not None:
                rows = self._counting(self._tail.inputs[0], shard, lap).length
                if rows is None:
                    return None
                count = self._tail.op.left_over(rows)
                if count:
                    left.append(Leftover(shard, None, count))
        if not left:
            return total
        tail = self._tail_stage(left).length
        return None if tail is None else total + tail

    def common(self) -> list[Common]:
        """What all shards or processes read."""
        if self.shards > 1:
            self.shard_stage(self.rank)
        held = [node.op.kind for node in walk(self.root) if node.op.boundary is Boundary.EACH_PROCESS]
        whole = [Common(f"`{kind}` holds all of its rows in the memory of each process") for kind in held]
        return whole + list(self._dealing.common.values())

    def stage_named(self, name: str) -> Stage:
        """The undealt operator of that name."""
        return next(self._stages[node] for node in walk(self.root) if self.names[node] == name)

    def stage_of(self, node: Node) -> Stage:
        """An undealt operator, bound."""
        return self._stages[node]

    def edges(self) -> set[Node]:
        """The nodes right behind which the work is dealt."""
        return {self.root} if self.indexed else self._dealing.edges(self.root)

    def _counting(self, node: Node, shard: int, lap: int) -> Stage:
        """What `shard` runs of the graph below `node`, to ask for its length in that pass."""
        dealt = self._dealing.deal(node, shard)
        if not self.varies:
            return self._bound(dealt)
        if self._counted[0] != lap:
            self._counted = lap, {node: self._stages[node] for node in walk(self.root)}
        return bind(dealt, self.names, self._counted[1], Context(seed=self.seed, epoch=lap))

    def _bound(self, node: Node) -> Stage:
        return bind(node, self.names, self._stages)

    def _find_tail(self) -> Node | None:
        """The operator whose incomplete last groups are put together.

        It is the last that regroups, where nothing after it counts rows or runs it again, and where it does not know
        the length of its shard: an indexed shard is a whole of its own.
        """
        node = self.root
        while self._dealing.passes(node) and not node.indexed:
            if node.op.order is Order.REGROUPS:
                return node
            if len(node.inputs) != 1 or node.op.order is Order.GLOBAL or node.op.repeats:
                return None
            node = node.inputs[0]
        return None

    def _tail_stage(self, left: list[Leftover]) -> Stage:
        assert self._tail is not None
        parts = tuple(Node(leftover, (self._dealing.deal(self._tail.inputs[0], leftover.shard),)) for leftover in left)
        source = parts[0] if len(parts) == 1 else Node(Concat(), parts)
        # Names and stages of their own: a tail holds rows, and goes with its epoch.
        own = dict(self.names)
        root = self._with_tail(self._tail.op, (source,), own)
        return bind(root, own, dict(self._stages))

    def _with_tail(self, op: Operator, inputs: tuple[Node, ...], names: dict[Node, str]) -> Node:
        """The graph with another operator and other inputs in the place where leftovers arise."""
        assert self._tail is not None

        def above(node: Node) -> Node:
            if node is self._tail:
                made = Node(op, inputs, node.call_site)
            else:
                made = with_inputs(node, (above(node.inputs[0]),))
            names[made] = self.names[node]
            return made

        return above(self.root)


def _count(root: Node, world_size: int, workers: int, shards: int | None) -> int:
    """How many virtual shards.

    With a shuffle so many that 0 to 8 workers see one order; else as few as there are workers, so that one process
    keeps the source's order.
    """
    if shards is not None:
        if shards % world_size:
            raise PlanError(
                f"`shards` must be a multiple of the {world_size} ranks, for each to have as many, but got: {shards}"
            )
        return shards
    return world_size * max(8 if reorders(root) else 1, workers)
