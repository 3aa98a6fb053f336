"""`CutPlan`: the graphs of the shards of one cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core.cursor import Json
from ..core.graph import Node
from ..engine.stage import Stage, bind
from .items import Cut, Item, items_ended
from .part_operators import ItemsInTurn
from .shard_operators import Leftover
from .sharding import Sharding


class CutPlan:
    """The graphs of the shards of one cut. They are kept apart from those of the plan, and freed with the cut.

    Args:
        cut: says which items each shard has.
        sharding: the rules for the items.
        main: the graph that the shards run.
        tail_name: the operator that leaves rows over.
        tail_node: makes the graph that groups leftover rows.
    """

    def __init__(
        self,
        cut: Cut,
        sharding: Sharding,
        main: Node,
        tail_name: str | None,
        tail_node: Callable[[Sequence[Leftover], Sharding, dict[Node, str]], Node],
    ) -> None:
        self._cut = cut
        self._sharding = sharding
        self._main = main
        self._tail_name = tail_name
        self._tail_node = tail_node

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
        root = Node(ItemsInTurn(tuple(items), self._tail_name), nodes)
        names[root] = "items"
        return bind(root, names, dict(self._sharding.stages))

    def _node(self, item: Item) -> Node:
        if item.leftovers is None:
            return self._sharding.subgraph(self._main, item.origin)
        left = [Leftover(one.origin, one.leftover) for one in item.leftovers]
        return self._tail_node(left, self._sharding, self._sharding.names)
