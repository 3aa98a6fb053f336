"""`worker_graph`: the graph as workers get it, without what runs in the training process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..core.block import Block
from ..core.context import Context
from ..core.cursor import Cursor
from ..core.graph import Node, find_remote, sent, walk, with_inputs
from ..core.operator import Boundary, Operator, Order, StageView
from ..engine.stage import Stage


class Traits(NamedTuple):
    """What a plan asks an operator for. `Operator` explains the values."""

    kind: str
    name: str | None
    order: Order | None
    boundary: Boundary | None
    expands: bool
    repeats: bool
    reshuffles: bool
    needs_whole_units: bool
    indexed: bool


@dataclass(frozen=True)
class LocalOperator(Operator):
    """Stands in a worker for an operator of the training process. Plans are the same with it, and nothing runs it."""

    traits: Traits

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self.traits.kind

    @property
    def name(self) -> str | None:  # type: ignore[override]
        return self.traits.name

    @property
    def order(self) -> Order | None:  # type: ignore[override]
        return self.traits.order

    @property
    def boundary(self) -> Boundary | None:  # type: ignore[override]
        return self.traits.boundary

    @property
    def expands(self) -> bool:  # type: ignore[override]
        return self.traits.expands

    @property
    def repeats(self) -> bool:  # type: ignore[override]
        return self.traits.repeats

    def reshuffles(self) -> bool:
        return self.traits.reshuffles

    def needs_whole_units(self) -> bool:
        return self.traits.needs_whole_units

    def indexed(self, inputs: Sequence[bool]) -> bool:
        return self.traits.indexed

    def length(self, stage: StageView) -> int | None:
        return None

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        raise AssertionError(f"{self.kind} runs in the training process")


def worker_graph(root: Node) -> Node:
    """The graph to send to workers: what stands before `remote`, and stand-ins for the rest.

    What comes after `remote` may be unable to travel. The plans of both graphs are the same. Without `remote`, the
    graph stays as it is.
    """
    if find_remote(root) is None:
        return root
    nodes = list(walk(root))
    readers = Counter(child for node in nodes for child in node.inputs)
    forks = max(readers.values()) > 1
    before = {below for node in nodes if _is_remote(node) for below in walk(node)}
    rebuilt: dict[Node, Node] = {}
    for node in nodes:
        inputs = tuple(rebuilt[child] for child in node.inputs)
        if node not in before:
            rebuilt[node] = Node(_stand_in(node), inputs, node.call_site)
        elif _is_remote(node) and not forks:  # a node that others read too would become two, with other names
            rebuilt[node] = with_inputs(node, (sent(*inputs),))
        else:
            rebuilt[node] = node
    return rebuilt[root]


def remote_stages(root: Stage) -> list[Stage]:
    """The stages of `remote` in a bound graph, in the order in which each process finds them."""
    return [stage for stage in walk(root) if stage.op.boundary is Boundary.WORKERS]


def _is_remote(node: Node) -> bool:
    return node.op.boundary is Boundary.WORKERS


def _stand_in(node: Node) -> LocalOperator:
    op = node.op
    return LocalOperator(
        Traits(
            kind=op.kind,
            name=op.name,
            order=getattr(op, "order", None),
            boundary=op.boundary,
            expands=op.expands,
            repeats=op.repeats,
            reshuffles=bool(node.inputs) and op.reshuffles(),
            needs_whole_units=op.needs_whole_units(),
            indexed=node.indexed,
        )
    )
