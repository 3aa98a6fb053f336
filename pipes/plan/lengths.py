"""The lengths of shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import cast

import numpy as np

from ..core.context import Context
from ..core.graph import Node, walk
from ..core.operator import Operator, Order, StageView, Trait
from ..engine.stage import Stage, bind, check_row_count
from ..errors import PlanError
from .divide import Numbers
from .sharding import Sharding, expanded_units, shuffled_after

MAX_UNITS_COUNTED = 10**8
"""The most units of all rounds of a `repeat`, each of which divides them again."""
UNKNOWN = -1
"""An unknown length in an array."""


class Lengths:
    """The lengths of all shards in one pass over the data, as arrays with an item for each shard.

    An operator is asked for its length once for each length that its inputs have in some shard.
    """

    def __init__(self, sharding: Sharding, seed: int, data_pass: int) -> None:
        self._sharding = sharding
        self._runs = self.shards = sharding.shards  # the items of the arrays
        self._context = Context(seed=seed, epoch=data_pass)
        self._lengths: dict[tuple[Node, tuple[int, ...], bool], Numbers | None] = {}

    def of_shards(self, node: Node, rounds: tuple[int, ...] = (), *, shuffled_later: bool = False) -> Numbers | None:
        """The number of rows of `node` in each shard, in one round of the `repeat`s around; None if it is not known."""
        key = (node, rounds, shuffled_later)
        if key not in self._lengths:
            self._lengths[key] = self._of_shards(node, rounds, shuffled_later)
        return self._lengths[key]

    def _of_shards(self, node: Node, rounds: tuple[int, ...], shuffled_later: bool) -> Numbers | None:
        sharding = self._sharding
        if node.op.trait is Trait.SHARD:
            return self._of_divided(node.inputs[0], rounds, shuffled_later)
        if not sharding.runs_per_shard(node):
            return self._of_divided(node, rounds, shuffled_later)
        if node.op.expands and (units := expanded_units(node)) is not None:
            return self._of_units(node, units, rounds, shuffled_later)
        if node.op.trait is Trait.REPEATS and (times := self._rounds_of(node)) is not None and self._varies(node):
            return self._of_rounds(node, times, rounds, shuffled_later)
        inputs: list[Numbers | None] = []
        for source in node.inputs:
            if node.op.order is Order.GLOBAL and not source.has_user_boundary:
                rows = sharding.stages[source].length
                inputs.append(None if rows is None else np.full(self._runs, rows))
            else:
                later = shuffled_after(node, shuffled_later)
                inputs.append(self.of_shards(source, rounds, shuffled_later=later))
        return self.after(node, inputs)

    def after(
        self, node: Node, inputs: Sequence[Numbers | None], ops: Sequence[Operator] | None = None
    ) -> Numbers | None:
        """The lengths of `node` for inputs of these lengths."""
        count = next((len(lengths) for lengths in inputs if lengths is not None), self._runs)
        rows = [[UNKNOWN] * count if lengths is None else lengths.tolist() for lengths in inputs]
        columns = list(zip(*rows, strict=True)) if rows else [()] * count
        own = ops or [node.op.in_shard(self._sharding.shards)] * count
        outputs: dict[tuple[int, tuple[int, ...]], int] = {}
        keys = [(id(op), column) for op, column in zip(own, columns, strict=True)]
        for key, op, column in zip(keys, own, columns, strict=True):
            if key in outputs:
                continue
            try:
                length = op.length(_view(op, self._sharding.names[node], node, column))
            except AttributeError:
                return None if ops else self._of_bound(node)  # it asks for more than lengths
            if length is None:
                return None
            outputs[key] = check_row_count(length, node)
        return np.array([outputs[key] for key in keys], np.int64)

    def _of_divided(self, node: Node, rounds: tuple[int, ...], shuffled_later: bool) -> Numbers | None:
        rows = self._sharding.stages[node].length
        if rows is None:
            return None
        op = self._sharding.shard_operator(node, 0, shuffled_later=shuffled_later)
        return op.count(rows, op.shards, np.arange(op.shards))

    def _of_units(self, node: Node, units: Node, rounds: tuple[int, ...], shuffled_later: bool) -> Numbers | None:
        stage = self._sharding.stages[node]
        if stage.length is None:
            return None
        op = self._sharding.units_shard(node, units, 0, shuffled_later=shuffled_later)
        context = Context(self._context.seed, self._context.epoch, rounds)
        division = op.division(stage, context)
        return division.lengths() if division.knows_rows else None

    def _varies(self, node: Node) -> bool:
        return varies(node, self._sharding.stages)

    def _of_rounds(self, node: Node, times: int, rounds: tuple[int, ...], shuffled_later: bool) -> Numbers | None:
        """The sum over the rounds of a `repeat`, each of which divides units again."""
        (source,) = node.inputs
        later = shuffled_after(node, shuffled_later)
        total = np.zeros(self._runs, np.int64)
        for number in range(times):
            lengths = self._of_shards(source, (*rounds, number), later)
            if lengths is None:
                return None
            if number == 0:
                self._check_rounds(node, times)
            total += lengths
        return total

    def _check_rounds(self, node: Node, times: int) -> None:
        indexed = [self._sharding.stages[below] for below in walk(node) if below.indexed]
        units = max((stage.length or 0 for stage in indexed), default=0)
        if times * units > MAX_UNITS_COUNTED:
            raise PlanError(
                f"`{node.op.kind}` divides {units} units again in each of {times} rounds, so computing the "
                "lengths of the ranks would take too long; give the loader `steps=`, and `repeat()` no number",
                at=node.call_site,
            )

    def _rounds_of(self, node: Node) -> int | None:
        """The number of rounds of a `repeat`; None if it has no end."""
        return node.op.length(_view(node.op, self._sharding.names[node], node, [1]))  # of one row

    def _of_bound(self, node: Node) -> Numbers | None:
        """The lengths that the bound graphs of all shards know; for operators that run their input for that."""
        sharding = self._sharding
        names, stages = sharding.names, dict(sharding.stages)
        graphs = (sharding.subgraph(node, shard) for shard in range(sharding.shards))
        lengths = [bind(graph, names, stages).length for graph in graphs]
        return None if None in lengths else np.array(lengths, np.int64)


def varies(root: Node, stages: Mapping[Node, Stage]) -> bool:
    """Whether shards may have other lengths in another round or pass, because they read other units there."""
    return any(node.op.expands and not node.indexed and stages[node].length is not None for node in walk(root))


def _view(op: Operator, name: str, node: Node, lengths: Sequence[int]) -> StageView:
    """The view of an operator that is asked for its length: the lengths of its inputs, and nothing that runs."""
    inputs = tuple(
        SimpleNamespace(op=source.op, indexed=source.indexed, length=None if length == UNKNOWN else length)
        for source, length in zip(node.inputs, lengths, strict=True)
    )
    alone = {"input": inputs[0]} if len(inputs) == 1 else {}
    return cast("StageView", SimpleNamespace(op=op, name=name, call_site=node.call_site, inputs=inputs, **alone))
