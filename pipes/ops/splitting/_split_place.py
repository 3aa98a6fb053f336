"""Where in a chain `split` divides the rows: before the shuffles, where positions stay the same."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from ...core.graph import Node, find_reshuffle, node_code, walk
from ...core.operator import Boundary, Operator, Order
from ...errors import PlanError, with_call_site
from ..placement.shard_by_rank import ShardByRank
from ..selection.shuffle import Shuffle

N = TypeVar("N", bound=Node)


class Place(NamedTuple):
    """Where rows are divided.

    Attributes:
        source: the rows that are divided.
        later: the nodes between the source and the end of the chain, the first of them first.
    """

    source: Node
    later: list[Node]

    def behind(self, node: N) -> N:
        """The later operators behind `node`."""
        for later in self.later:
            node = type(node)(later.op, (node,), later.call_site)
        return node


def place_before_shuffles(pipe: Node, *, same_rows: bool) -> Place:
    """The place before the shuffles and the sharding at the end of the chain.

    The operators between give one row for each row; if `same_rows` is set, they give the row itself.
    """
    place = Place(pipe, [])
    later: list[Node] = []
    node = pipe
    while len(node.inputs) == 1 and _keeps_rows(node.op, same_rows=same_rows):
        later.insert(0, node)
        node = node.inputs[0]
        if isinstance(later[0].op, (Shuffle, ShardByRank)):
            place = Place(node, list(later))
    return place


def moving_positions(source: Node) -> str | None:
    """The code of an operator that changes the positions of rows between epochs or shards; None if none does."""
    moving = find_reshuffle(source)
    if moving is None:
        moving = next((n for n in walk(source) if n.op.boundary is Boundary.SHARD or n.op.repeats), None)
    return None if moving is None else node_code(moving).lstrip(".")


def check_no_groups(pipe: Node) -> None:
    """Raises a `PlanError` if the elements are groups: the rows of one group may belong to several parts."""
    node = pipe
    while len(node.inputs) == 1 and not node.op.expands and node.op.order in (Order.ROW_LOCAL, Order.REORDERS):
        node = node.inputs[0]
    if node.inputs and node.op.order is Order.REGROUPS:
        code = node_code(node).lstrip(".")
        raise PlanError(
            with_call_site(
                f"`split` must stand before `{code}`, because it divides rows, and behind it come groups of rows; swap "
                "the two"
            )
        )


def _keeps_rows(op: Operator, *, same_rows: bool) -> bool:
    if isinstance(op, (Shuffle, ShardByRank)) or op.transparent:
        return True
    return not same_rows and op.order is Order.ROW_LOCAL and op.seeks and not op.expands
