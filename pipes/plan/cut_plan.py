"""`CutPlan`: the graphs of the shards of one cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..core.cursor import Json
from ..core.graph import Node
from ..engine.stage import Stage, bind
from .items import Cut, Item, items_ended
from .part_operators import ItemsInTurn
from .shard_operators import Leftover

if TYPE_CHECKING:
    from .plan import Plan


class CutPlan:
    """The graphs of the shards of one cut. They are kept apart from those of the plan, and freed with the cut."""

    def __init__(self, plan: Plan, cut: Cut) -> None:
        self._plan = plan
        self._cut = cut
        self._sharding = plan.sharding_of(cut)

    def shard_stage(self, shard: int) -> Stage:
        """The items of a shard, one after the other."""
        return self._stage(self._cut.items.get(shard, ()))

    def tail_stage(self, tail_shard: int, leftovers: Sequence[tuple[int, Json]]) -> Stage:
        """The groups of the leftover rows of shards that have ended: as an item with a number of its own."""
        left = [item for shard, plain in leftovers for item in items_ended(self._cut.items[shard], plain)]
        return self._stage([Item(self._cut.base + tail_shard, leftovers=tuple(left))])

    def _stage(self, items: Sequence[Item]) -> Stage:
        names = self._sharding.names
        nodes = tuple(self._node(item) for item in items)
        root = Node(ItemsInTurn(tuple(items), self._plan.tail_name), nodes)
        names[root] = "items"
        return bind(root, names, dict(self._sharding.stages))

    def _node(self, item: Item) -> Node:
        if item.leftovers is None:
            return self._sharding.subgraph(self._plan.main, item.origin)
        left = [Leftover(one.origin, one.leftover) for one in item.leftovers]
        return self._plan.tail_node(left, self._sharding, self._sharding.names)
