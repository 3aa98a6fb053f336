"""Sources that grow in the middle of a pass: its graph gives the rows that were there before, and then the new ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from ..core.graph import Node, numbers, walk, with_inputs
from ..core.operator import Operator, Source, Trait
from ..engine.stage import bind
from ..ops.concat import Concat
from .fingerprint import OperatorEntry, entries, facts_of


def grown(root: Node, before: str) -> dict[int, tuple[int, ...]]:
    """Where the parts of sources that have grown begin, by the operator behind which the parts are joined.

    That is the last one that treats each row by itself. A digest of the rows that were there before proves that they
    are the same.

    Args:
        root: the graph now, resolved.
        before: the `pipe` of the fingerprint of the graph of the pass.
    """
    facts = {source: facts_of(source.op, is_source=True) for source in walk(root) if not source.inputs}
    old = [entry for entry in entries(before) if not entry.inputs and entry.facts not in facts.values()]
    if not old:
        return {}
    number = numbers(root)
    readers = Counter(child for node in walk(root) for child in node.inputs)
    above = {node.inputs[0]: node for node in walk(root) if len(node.inputs) == 1 and readers[node.inputs[0]] == 1}
    parts: dict[int, tuple[int, ...]] = {}
    for source in facts:
        if not (starts := tuple(_starts(source, old))):
            continue
        node = top = source
        while (following := above.get(node)) is not None and following.op.within(range(0)) is not None:
            node = following
            top = top if node.op.trait is Trait.TRANSPARENT else node
        parts[number[top]] = starts
    return parts


def _starts(source: Node, old: Sequence[OperatorEntry]) -> Iterator[int]:
    """The row of a source with which each of its parts begins but the first, if the first ones were there before."""
    op = source.op
    if not isinstance(op, Source):
        return
    lengths = [(op.rows_of(entry.facts) or 0, entry.facts) for entry in old if entry.kind == op.kind]
    lengths.sort(key=lambda pair: -pair[0])
    start, rows = 0, bind(source).length or 0
    while start < rows:
        for length, facts in lengths:
            part = op.within(range(start, start + length)) if 0 < length < rows - start + bool(start) else None
            if part is not None and facts_of(part, is_source=True) == facts:
                break
        else:
            return
        start += length
        if start < rows:
            yield start


@dataclass(frozen=True, eq=False, repr=False)
class Append(Concat):
    """Joins the parts of a source in a streamed pipe: shards divide each part by itself."""

    kind: ClassVar[str] = "append"
    rows = Operator.rows


def in_parts(root: Node, parts: Mapping[int, Sequence[int]], *, by_position: bool) -> tuple[Node, frozenset[Node]]:
    """The graph in which each part of a source that has grown comes by itself, and the nodes that join parts."""
    if not parts:
        return root, frozenset()
    op = Concat() if by_position else Append()
    number = numbers(root)
    rebuilt: dict[Node, Node] = {}
    for node in walk(root):
        starts = () if node.op.trait is Trait.TRANSPARENT else parts.get(number[node], ())
        same = with_inputs(node, tuple(rebuilt[child] for child in node.inputs))
        rebuilt[node] = Node(op, tuple(_parts(node, starts)), node.call_site) if starts else same
    return rebuilt[root], frozenset(node for node in rebuilt.values() if node.op is op)


def _parts(top: Node, starts: Sequence[int]) -> Iterator[Node]:
    """The part of a chain of operators for each part of the rows of its source."""
    chain = [top]
    while chain[-1].inputs:
        chain += chain[-1].inputs
    source, *others = reversed(chain)
    before = [0] * len(others)  # the rows of the input of each operator that the parts before have
    for start, stop in pairwise((0, *starts, bind(source).length or 0)):
        node = Node(_part(source, range(start, stop)), (), source.call_site)
        for place, other in enumerate(others):
            rows = range(before[place], before[place] + (bind(node).length or 0))
            before[place] = rows.stop
            node = Node(_part(other, rows), (node,), other.call_site)
        yield node


def _part(node: Node, rows: range) -> Operator:
    part = node.op.within(rows)
    assert part is not None, "`grown` has asked each operator"
    return part
