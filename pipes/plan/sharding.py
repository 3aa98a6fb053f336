"""`Sharding`: where the rows of a pipe are divided among shards, and the graph that each shard runs.

Sharding never changes what a pipe means: all shards together give the rows of `for x in pipe`. The rows are divided
behind the longest indexed part, or behind the last operator that looks at the position of a row among all rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..core.graph import Node, walk, with_inputs
from ..core.operator import Boundary, Operator, Order
from ..engine.stage import Stage
from ..ops.concat import Concat
from ..ops.shuffle import Shuffle
from ..ops.slice import Skip, Take
from .shard_operators import IndexedShard, StreamedShard

RANGES = 16  # least number of ranges of rows in a shard: ranks of 8 shards then differ by less than 1 % of their rows
MAX_RANGE_ROWS = 1024


class SharedRead(NamedTuple):
    """An input that several shards read.

    Attributes:
        reason: why its rows are not divided.
        part: which part of the input they read, from 0 to 1.
        groups: the number of groups of shards; the shards of a group, equal modulo `groups`, read the same rows.
        by_rank: whether one process reads it for all workers of a rank.
    """

    reason: str
    part: float = 1.0
    groups: int = 1
    by_rank: bool = False

    def readers(self, world_size: int, workers: int) -> int:
        """How many processes read the same rows."""
        processes = world_size * (1 if self.by_rank else max(1, workers))
        return processes // math.gcd(self.groups, processes)  # shard s runs in process s modulo their number


@dataclass
class Sharding:
    """Builds the graphs of the shards of one graph.

    Attributes:
        shards: the number of shards.
        stages: the stages of the graph without shards; they know its lengths.
        names: the names of operators; nodes of the shards' graphs are added.
        shared_reads: the nodes whose output several shards read; `subgraph` adds them.
    """

    shards: int
    stages: Mapping[Node, Stage]
    names: dict[Node, str]
    shared_reads: dict[Node, SharedRead] = field(default_factory=dict)
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
        if node.op.expands and (units := _units(node)) is not None:
            return self._expanded(node, units, shard, shuffled_later=shuffled_later)
        inputs: list[Node] = []
        for source in node.inputs:
            if node.op.order is Order.GLOBAL and not has_user_boundary(source):
                reason = f"`{node.op.kind}` needs all of its rows beside an input that is divided among the shards"
                self.shared_reads[source] = SharedRead(reason)
                inputs.append(source)
            else:
                inputs.append(self.subgraph(source, shard, shuffled_later=_shuffled_after(node, shuffled_later)))
        return self.rebuilt(node, tuple(inputs))

    def rebuilt(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """`node` with other inputs, under the same name."""
        rebuilt = with_inputs(node, inputs)
        self.names[rebuilt] = self.names[node]
        return rebuilt

    def _divided(self, node: Node, shard: int, *, shuffled_later: bool) -> Node:
        """The rows of `node` that belong to a shard."""
        if not node.indexed:
            dispatched = any(below.op.boundary is Boundary.ONE_PROCESS for below in walk(node))
            if self.shards > 1:
                reason = f"the rows of `{node.op.kind}` cannot be divided without reading all of them"
                self.shared_reads[node] = SharedRead(reason, by_rank=dispatched)
            return self._named(StreamedShard(self.shards, shard, dispatched=dispatched), node)
        permuted = shuffled_later and not reorders(node)
        rows = self.stages[node].length or 0
        size = max(1, min(MAX_RANGE_ROWS, rows // (RANGES * self.shards))) if permuted else 1
        return self._named(IndexedShard(self.shards, shard, size, permuted), node)

    def _expanded(self, node: Node, units: Node, shard: int, *, shuffled_later: bool) -> Node:
        """The rows of a shard, if `node` makes many rows of each unit.

        Full rounds of units are divided, one unit to each shard. Of the units left over, as many as divide the shards
        go to groups of shards, and each group divides the rows of its unit; and so on with the rest. So each shard has
        as many units as any other, and few shards read the same unit.
        """
        count = self.stages[units].length or 0
        order = units
        if shuffled_later and not reorders(units):
            order = self._once((units, "order"), lambda: self._named(Shuffle(), units))
        parts: list[Node] = []
        start = 0
        while start < count or not parts:
            groups = max(n for n in range(1, self.shards + 1) if self.shards % n == 0 and n <= max(1, count - start))
            stop = count - (count - start) % groups
            parts.append(self._rows_of_units(node, units, order, range(start, stop), shard, groups))
            if groups < self.shards:
                left = stop - start
                reason = f"{left} of the {count} inputs of `{node.op.kind}` are no full round of {self.shards} shards"
                self.shared_reads[parts[-1].inputs[0]] = SharedRead(reason, left / count if count else 0.0, groups)
            start = stop
        return parts[0] if len(parts) == 1 else self._named(Concat(), *parts)

    def _rows_of_units(self, node: Node, units: Node, order: Node, places: range, shard: int, groups: int) -> Node:
        """A shard's part of the rows that `node` makes of the units at `places`, divided among groups of shards."""
        chosen = self._once((units, places), lambda: self._slice(order, places))
        group = shard % groups
        group_units = self._once((chosen, groups, group), lambda: self._named(IndexedShard(groups, group), chosen))
        rows = self._once((node, group_units), lambda: self._between(node, units, group_units))
        return rows if groups == self.shards else self._named(StreamedShard(self.shards, shard, groups), rows)

    def _slice(self, order: Node, places: range) -> Node:
        rest = self._named(Skip(places.start), order) if places.start else order
        return self._named(Take(len(places)), rest) if len(places) else rest

    def _named(self, op: Operator, *inputs: Node) -> Node:
        # The name is a key of randomness, so it must not depend on which shards a process runs.
        node = Node(op, inputs, inputs[0].call_site)
        self.names[node] = f"{op.kind} of {self.names[inputs[0]]}"
        return node

    def _between(self, node: Node, units: Node, replacement: Node) -> Node:
        """The path from `units` to `node`, with `replacement` in place of `units`."""
        if node is units:
            return replacement
        return self.rebuilt(node, (self._between(node.inputs[0], units, replacement),))


def has_user_boundary(node: Node) -> bool:
    """Whether the user sets the place where rows are divided, at `node` or below."""
    return any(below.op.boundary is Boundary.SHARD for below in walk(node))


def reorders(node: Node) -> bool:
    """Whether rows are shuffled at `node` or below."""
    return any(below.inputs and below.op.order is Order.REORDERS for below in walk(node))


def _shuffled_after(node: Node, shuffled_later: bool) -> bool:
    if node.op.order is Order.REORDERS:
        return True
    return shuffled_later and node.op.order is Order.ROW_LOCAL


def _units(node: Node) -> Node | None:
    """The indexed rows that `node` expands, if all operators between are row-local."""
    units = node.inputs[0]
    if has_user_boundary(units):
        return None
    while not units.indexed:
        if len(units.inputs) != 1 or units.op.order is not Order.ROW_LOCAL or units.op.expands:
            return None
        units = units.inputs[0]
    return units
