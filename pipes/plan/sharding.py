"""`Sharding`: where the rows of a pipe are divided among shards, and the graph that each shard runs.

Sharding never changes what a pipe means: all shards together give the rows of `for x in pipe`. The rows are divided
behind the longest indexed part, or behind the last operator that looks at the position of a row among all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..core.context import Context
from ..core.graph import Node, find_remote, walk, with_inputs
from ..core.operator import Boundary, Operator, Order
from ..engine.stage import Stage
from .part_operators import RowsPart, StreamedPart
from .parts import Line, Part
from .shard_operators import NeighboursShard, PermutedShard, RowsShard, StreamedShard
from .unit_shards import SharedRead, UnitsShard

NEAR_FOR_ROWS, NEAR = 64, 10
"""A cut nearer to the border of a unit than 1/64 of a share goes to the border if lengths are known: ranks then differ
by little. If they are not, 1/10 of a share is near, and fewer units are read by several shards."""


class DividedStream(NamedTuple):
    """What is divided at one place of the graph: the rows of `node`, or the `units` that it expands."""

    node: Node
    shuffled_later: bool
    units: Node | None


@dataclass
class Sharding:
    """Builds the graphs of the shards of one graph.

    Attributes:
        shards: the number of shards.
        stages: the stages of the graph without shards; they know its lengths.
        names: the names of operators; nodes of the shards' graphs are added.
        shared_reads: the nodes whose output all shards read; `subgraph` adds them.
        expanded: the nodes that make many rows of each unit, with an operator that divides the units; likewise.
        streams: what is divided, by number; likewise.
        parts: after a cut, what each origin reads of the streams; an origin that is not here is a shard as at first.
        new_shards: after a cut, the origin of the first new shard, and how many there are.
    """

    shards: int
    stages: Mapping[Node, Stage]
    names: dict[Node, str]
    shared_reads: dict[Node, SharedRead] = field(default_factory=dict)
    expanded: dict[Node, UnitsShard] = field(default_factory=dict)
    streams: dict[str, DividedStream] = field(default_factory=dict)
    parts: Mapping[int, Mapping[str, Part]] = field(default_factory=dict)
    new_shards: range = range(0)
    _nodes: dict[tuple[object, ...], Node] = field(default_factory=dict)

    def subgraph(self, node: Node, shard: int, *, shuffled_later: bool = False) -> Node:
        """The graph below `node` that shard `shard` runs. Shards share the nodes that are the same for all of them.

        `shuffled_later` says that a shuffle follows and that no operator before it looks at positions or groups rows:
        units may then come in any order.
        """
        key = (node, shard, shuffled_later)
        return self._once(key, lambda: self._sharded(node, shard, shuffled_later=shuffled_later))

    def runs_per_shard(self, node: Node) -> bool:
        """Whether each shard runs `node` on its own rows."""
        if node.op.boundary is Boundary.SHARD:
            return False
        if has_user_boundary(node):
            return True
        return not (node.indexed or not node.inputs or node.op.order is Order.GLOBAL)

    def shard_points(self, root: Node) -> set[Node]:
        """The nodes whose output is divided among the shards, in the graph below `root`."""
        points: set[Node] = set()
        seen: set[Node] = set()
        stack = [root]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if not self.runs_per_shard(node):
                points.add(node.inputs[0] if node.op.boundary is Boundary.SHARD else node)
                continue
            whole = node.op.order is Order.GLOBAL
            stack += [child for child in node.inputs if not whole or has_user_boundary(child)]
        return points

    def _once(self, key: tuple[object, ...], make: Callable[[], Node]) -> Node:
        if key not in self._nodes:
            self._nodes[key] = make()
        return self._nodes[key]

    def _sharded(self, node: Node, shard: int, *, shuffled_later: bool) -> Node:
        if node.op.boundary is Boundary.SHARD:
            return self._divided(node.inputs[0], shard, shuffled_later=shuffled_later)
        if not self.runs_per_shard(node):
            return self._divided(node, shard, shuffled_later=shuffled_later)
        if node.op.expands and (units := expanded_units(node)) is not None:
            return self._expanded(node, units, shard, shuffled_later=shuffled_later)
        inputs: list[Node] = []
        for source in node.inputs:
            if node.op.order is Order.GLOBAL and not has_user_boundary(source):
                reason = f"`{node.op.kind}` needs all of its rows beside an input that is divided among the shards"
                self.shared_reads[source] = SharedRead(reason)
                inputs.append(source)
            else:
                inputs.append(self.subgraph(source, shard, shuffled_later=shuffled_after(node, shuffled_later)))
        return self.rebuilt(node, tuple(inputs))

    def rebuilt(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """`node` with other inputs, under the same name."""
        rebuilt = with_inputs(node, inputs)
        self.names[rebuilt] = self.names[node]
        return rebuilt

    def shard_operator(
        self, node: Node, shard: int, *, shuffled_later: bool
    ) -> PermutedShard | NeighboursShard | StreamedShard:
        """The operator that gives a shard its rows of `node`."""
        stream = self.stream_name(DividedStream(node, shuffled_later, None))
        if node.indexed:
            permuted = shuffled_later and not reorders(node)
            return (PermutedShard if permuted else NeighboursShard)(self.shards, shard, stream)
        dispatched = any(below.op.boundary is Boundary.ONE_PROCESS for below in walk(node))
        return StreamedShard(self.shards, shard, dispatched, stream)

    def line(self, stream: DividedStream, context: Context) -> Line | None:
        """The places of a stream in the pass and round of `context`; None if they are not known."""
        node, later, units = stream
        if units is not None:
            op = self.units_shard(node, units, 0, shuffled_later=later)
            return op.line(self.stages[node], context)
        return self.shard_operator(node, 0, shuffled_later=later).line(self.stages[node])

    def stream_name(self, stream: DividedStream) -> str:
        """The number of what is divided."""
        for number, other in self.streams.items():
            if other == stream:
                return number
        number = str(len(self.streams))
        self.streams[number] = stream
        return number

    def _part(self, op: RowsShard | StreamedShard, origin: int) -> RowsPart | StreamedPart:
        """The operator that gives an origin its rows, in place of that of a shard."""
        assert op.stream is not None, "what is divided has a number"
        part = self.parts[origin].get(op.stream, Part())
        if isinstance(op, RowsShard):
            return RowsPart(op, part)
        of_shard = origin < self.shards
        shard = self.new_shards.index(origin) if origin in self.new_shards else None
        return StreamedPart(part, op.stream, op.dispatched, of_shard, shard, len(self.new_shards))

    def _divided(self, node: Node, shard: int, *, shuffled_later: bool) -> Node:
        """The rows of `node` that belong to a shard."""
        op = self.shard_operator(node, shard, shuffled_later=shuffled_later)
        if isinstance(op, StreamedShard) and self.shards > 1:
            reason = f"the rows of `{node.op.kind}` cannot be divided without reading all of them"
            self.shared_reads[node] = SharedRead(reason, by_rank=op.dispatched or find_remote(node) is not None)
        return self._named(self._part(op, shard) if shard in self.parts else op, node)

    def units_shard(self, node: Node, units: Node, shard: int, *, shuffled_later: bool) -> UnitsShard:
        """The operator that gives a shard its rows, if `node` makes many rows of each unit."""
        reordered = reorders(units)
        any_order = shuffled_later and not reordered
        near = NEAR_FOR_ROWS if self.stages[node].length is not None else NEAR
        stream = self.stream_name(DividedStream(node, shuffled_later, units))
        part = self.parts[shard].get(stream, Part()) if shard in self.parts else None
        return UnitsShard(self.shards, shard, any_order, any_order or reordered, near, stream, part)

    def _expanded(self, node: Node, units: Node, shard: int, *, shuffled_later: bool) -> Node:
        op = self.units_shard(node, units, shard, shuffled_later=shuffled_later)
        self.expanded[node] = op
        return self._named(op, node)

    def _named(self, op: Operator, *inputs: Node) -> Node:
        # The name is a key of randomness, so it must not depend on which shards a process runs.
        node = Node(op, inputs, inputs[0].call_site)
        self.names[node] = f"{op.kind} of {self.names[inputs[0]]}"
        return node


def has_user_boundary(node: Node) -> bool:
    """Whether the user sets the place where rows are divided, at `node` or below."""
    return any(below.op.boundary is Boundary.SHARD for below in walk(node))


def reorders(node: Node) -> bool:
    """Whether rows are shuffled at `node` or below."""
    return any(below.inputs and (below.op.order is Order.REORDERS or below.op.reshuffles()) for below in walk(node))


def shuffled_after(node: Node, shuffled_later: bool) -> bool:
    if node.op.order is Order.REORDERS and node.op.reshuffles():
        return True
    return shuffled_later and node.op.order in (Order.ROW_LOCAL, Order.REORDERS)


def expanded_units(node: Node) -> Node | None:
    """The indexed rows that `node` expands, if all operators between are row-local."""
    units = node.inputs[0]
    if has_user_boundary(units):
        return None
    while not units.indexed:
        if units.op.boundary is Boundary.WORKERS:
            return None  # its rows come from a worker, in order
        expanded_before = units.op.expands and not node.op.needs_whole_units()
        if len(units.inputs) != 1 or units.op.order is not Order.ROW_LOCAL or expanded_before:
            return None
        units = units.inputs[0]
    return units
