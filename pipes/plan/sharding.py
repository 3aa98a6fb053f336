"""Where the work is dealt to shards, and the graph that one shard runs.

Dealing never changes what a pipe means: the union over all shards is the rows of `for x in pipe`. The deal stands at
the end of the longest part that can be had by index, or behind the last operator that looks at positions among
all rows.
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
from .shard_operators import Deal, DealRows

UNITS = 16  # ranges of rows for each shard, at least: ranks of 8 shards then differ by less than 1 % of their rows
UNIT = 1024  # rows in a range, at most


class Common(NamedTuple):
    """What several shards read.

    Attributes:
        reason: why.
        share: of the input.
        groups: of shards, each of which reads another part of that: shard modulo this number.
        by_rank: whether one process reads it for all workers of a rank.
    """

    reason: str
    share: float = 1.0
    groups: int = 1
    by_rank: bool = False

    def readers(self, world_size: int, workers: int) -> int:
        """How many processes read the same."""
        processes = world_size * (1 if self.by_rank else max(1, workers))
        return processes // math.gcd(self.groups, processes)  # shard s runs in process s modulo their number


@dataclass
class Dealing:
    """Deals the graph below one sink to `shards` shards.

    Attributes:
        shards: how many.
        stages: the undealt graph, bound: it knows lengths.
        names: the names of operators; new nodes are added under the names of those they stand for.
        common: nodes whose output several shards read, with the reason; filled by `deal`.
    """

    shards: int
    stages: Mapping[Node, Stage]
    names: dict[Node, str]
    common: dict[Node, Common] = field(default_factory=dict)
    _made: dict[tuple[object, ...], Node] = field(default_factory=dict)

    def deal(self, node: Node, shard: int, *, mixed: bool = False) -> Node:
        """What shard `shard` runs of the graph below `node`; what all shards have in common is the same node for all.

        `mixed` says that a shuffle follows with nothing global or regrouping between, so units may come in any order.
        """
        return self._once((node, shard, mixed), lambda: self._dealt(node, shard, mixed=mixed))

    def passes(self, node: Node) -> bool:
        """Whether `node` stands behind the deal and so runs for each shard by itself."""
        if node.op.boundary is Boundary.SHARD:
            return False
        if user_deals(node):
            return True
        return not (node.indexed or not node.inputs or node.op.order is Order.GLOBAL)

    def edges(self, root: Node) -> set[Node]:
        """The nodes right behind which the graph below `root` is dealt."""
        found: set[Node] = set()
        seen: set[Node] = set()
        waiting = [root]
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            if not self.passes(node):
                found.add(node.inputs[0] if node.op.boundary is Boundary.SHARD else node)
                continue
            whole = node.op.order is Order.GLOBAL
            waiting += [below for below in node.inputs if not whole or user_deals(below)]
        return found

    def _once(self, key: tuple[object, ...], make: Callable[[], Node]) -> Node:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def _dealt(self, node: Node, shard: int, *, mixed: bool) -> Node:
        if node.op.boundary is Boundary.SHARD:
            return self._edge(node.inputs[0], shard, mixed=mixed)
        if not self.passes(node):
            return self._edge(node, shard, mixed=mixed)
        if node.op.expands and (units := _units(node)) is not None:
            return self._expanded(node, units, shard, mixed=mixed)
        inputs: list[Node] = []
        for source in node.inputs:
            if node.op.order is Order.GLOBAL and not user_deals(source):
                self.common[source] = Common(f"`{node.op.kind}` needs all of its rows beside an input that is dealt")
                inputs.append(source)
            else:
                inputs.append(self.deal(source, shard, mixed=_mixes(node, mixed)))
        return self.rebuilt(node, tuple(inputs))

    def rebuilt(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """`node` with other inputs, under its old name."""
        made = with_inputs(node, inputs)
        self.names[made] = self.names[node]
        return made

    def _edge(self, node: Node, shard: int, *, mixed: bool) -> Node:
        """`node`, dealt right behind it."""
        if not node.indexed:
            dispatched = any(below.op.boundary is Boundary.ONE_PROCESS for below in walk(node))
            if self.shards > 1:
                reason = f"the rows of `{node.op.kind}` cannot be dealt without reading all of them"
                self.common[node] = Common(reason, by_rank=dispatched)
            return self._new(DealRows(self.shards, shard, dispatched=dispatched), node)
        permuted = mixed and not reorders(node)
        rows = self.stages[node].length or 0
        unit = max(1, min(UNIT, rows // (UNITS * self.shards))) if permuted else 1
        return self._new(Deal(self.shards, shard, unit, permuted), node)

    def _expanded(self, node: Node, units: Node, shard: int, *, mixed: bool) -> Node:
        """Deals behind `node`, which makes many rows of each unit.

        Full rounds of units are dealt. Of those left over, as many as divide the shards are dealt to groups of shards,
        each of which deals the rows of its unit; and so on with the rest. So each shard has as much as any other, and
        few shards read the same unit.
        """
        count = self.stages[units].length or 0
        order = units
        if mixed and not reorders(units):
            order = self._once((units, "order"), lambda: self._new(Shuffle(), units))
        dealt: list[Node] = []
        place = 0
        while place < count or not dealt:
            groups = max(n for n in range(1, self.shards + 1) if self.shards % n == 0 and n <= max(1, count - place))
            stop = count - (count - place) % groups
            dealt.append(self._shared(node, units, order, range(place, stop), shard, groups))
            if groups < self.shards:
                left = stop - place
                reason = f"{left} of the {count} inputs of `{node.op.kind}` are no full round of {self.shards} shards"
                self.common[dealt[-1].inputs[0]] = Common(reason, left / count if count else 0.0, groups)
            place = stop
        return dealt[0] if len(dealt) == 1 else self._new(Concat(), *dealt)

    def _shared(self, node: Node, units: Node, order: Node, places: range, shard: int, groups: int) -> Node:
        """A shard's part of what `node` makes of the units at `places`, which are dealt to groups of shards."""
        some = self._once((units, places), lambda: self._cut(order, places))
        group = shard % groups
        mine = self._once((some, groups, group), lambda: self._new(Deal(groups, group), some))
        made = self._once((node, mine), lambda: self._between(node, units, mine))
        return made if groups == self.shards else self._new(DealRows(self.shards, shard, groups), made)

    def _cut(self, order: Node, places: range) -> Node:
        rest = self._new(Skip(places.start), order) if places.start else order
        return self._new(Take(len(places)), rest) if len(places) else rest

    def _new(self, op: Operator, *inputs: Node) -> Node:
        # The name must not depend on which shards a process runs, for it is a key of randomness.
        made = Node(op, inputs, inputs[0].call_site)
        self.names[made] = f"{op.kind} of {self.names[inputs[0]]}"
        return made

    def _between(self, node: Node, units: Node, replacement: Node) -> Node:
        """The path from `units` to `node`, with `replacement` in place of `units`."""
        if node is units:
            return replacement
        return self.rebuilt(node, (self._between(node.inputs[0], units, replacement),))


def user_deals(node: Node) -> bool:
    """Whether the user's own word on where to deal stands at `node` or below."""
    return any(below.op.boundary is Boundary.SHARD for below in walk(node))


def reorders(node: Node) -> bool:
    """Whether rows are shuffled at `node` or below."""
    return any(below.inputs and below.op.order is Order.REORDERS for below in walk(node))


def _mixes(node: Node, mixed: bool) -> bool:
    if node.op.order is Order.REORDERS:
        return True
    return mixed and node.op.order is Order.ROW_LOCAL


def _units(node: Node) -> Node | None:
    """The indexed rows that `node` expands, if only row-local operators stand between."""
    below = node.inputs[0]
    if user_deals(below):
        return None
    while not below.indexed:
        if len(below.inputs) != 1 or below.op.order is not Order.ROW_LOCAL or below.op.expands:
            return None
        below = below.inputs[0]
    return below
