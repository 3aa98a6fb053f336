"""`Edit`: the rests of a pass after the pipe has changed in the middle of it.

A rest says where it begins at the end of the old graph. `Edit` takes that down through the operators that the pipe no
longer has, to the highest parts of the graph that it still has, and puts it on the edges behind these in the new graph.
Nothing here reads a row or calls a function of the user.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ..core.context import Context, ProcessContext
from ..core.cursor import Cursor, Json
from ..core.graph import Node, walk
from ..core.operator import CursorOfInput, Operator, Order, Past, TokenOfInput, Trait
from ..core.taken import Taken
from .fingerprint import SAVED, OperatorEntry, fact_differences
from .rests import ROOT, Edge, Rest, Start


class EditError(ValueError):
    """A change of the pipe after which nobody knows the rest of the pass."""


class Passing(NamedTuple):
    """The pass in which the pipe has changed.

    Attributes:
        seed: of all draws.
        epoch: the number of the pass.
        shards: the number of shards of its first division; 0 if the pipe is indexed.
    """

    seed: int
    epoch: int
    shards: int


@dataclass
class Edit:
    """What two graphs have in common.

    Args:
        old: the operators of the old graph.
        new: those of the new one.
        root: the new graph, resolved.
        runs_per_shard: whether each shard runs a node on its own rows.
        pass_: the pass.

    Attributes:
        edges: the edges of the old graph with rows that the new graph has too, and its edge.
        stepped: the operators of the old graph behind these edges.
        above: those of the new graph.
        dropped, added: sources that only the old graph has, and parts that only the new one has.

    Raises:
        EditError: a pass cannot go on after this change.
    """

    old: Sequence[OperatorEntry]
    new: Sequence[OperatorEntry]
    root: Node
    runs_per_shard: Callable[[Node], bool]
    pass_: Passing
    edges: dict[Edge, Edge] = field(default_factory=dict)
    stepped: list[int] = field(default_factory=list)
    above: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    added: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.nodes = [node for node in walk(self.root) if node.op.trait is not Trait.TRANSPARENT]
        self._old, self._new = _Graph(self.old), _Graph(self.new)
        self._free: dict[str, list[Edge]] = {}
        for edge in self._new.edges():
            self._free.setdefault(self._new.place(edge), []).append(edge)
        self._match(ROOT)
        if not self.edges:
            raise EditError("the pipes have no rows in common")
        self._claimed = set(self.edges.values())
        self._look_at(ROOT)
        self._check_new()
        self._below = dict(self._edges_below())

    @property
    def is_same(self) -> bool:
        """Whether rows, groups and their order stay as they are."""
        return self.edges.get(ROOT) == ROOT

    @property
    def effect(self) -> str:
        """What the rest of the pass is: the same rows in the same "groups" or others, or in another "order"; or
        "drop"."""
        if self.dropped:
            return "drop"
        changed = [self._old.edits(number) for number in self.stepped]
        changed += [self.nodes[number].op.edits for number in self.above if not self._new.dresses[number]]
        return "order" if self.added or "order" in changed else "groups"

    def changes(self) -> list[str]:
        """A line for each operator that differs."""
        lines = [f"`{self.old[n].call}` is gone" for n in self.dropped]
        lines += [f"`{self.new[n].call}` is new" for n in self.added]
        gone, come = self._old.apart_from(self.dropped), self._new.apart_from(self.added)
        common = Counter(map(self._old.own.__getitem__, gone)) & Counter(map(self._new.own.__getitem__, come))
        gone, come = _without(gone, self._old.own, common), _without(come, self._new.own, common)
        for old in gone:
            now = next((n for n in come if self.new[n].kind == self.old[old].kind), None)
            if now is None:
                lines.append(f"`{self.old[old].call}` is gone")
                continue
            come.remove(now)
            lines += fact_differences(self.old[old], self.new[now])
        lines += [f"`{self.new[n].call}` is new" for n in come]
        return lines or ["inputs come in another order"]

    def calls(self, numbers: Sequence[int]) -> tuple[str, ...]:
        """The calls of operators of the new graph."""
        return tuple(self.new[number].call for number in numbers)

    def old_calls(self, numbers: Sequence[int]) -> tuple[str, ...]:
        """The calls of operators of the old graph."""
        return tuple(self.old[number].call for number in numbers)

    def call_at(self, edge: Edge) -> str:
        """The call that makes the rows of an edge of the new graph."""
        return self.new[self._new.child(edge)].call

    # What the graphs have in common

    def _match(self, edge: Edge) -> None:
        """Finds the rows of an edge of the old graph in the new one, or those of the inputs of its operator."""
        if edges := self._free.get(self._old.place(edge)):
            self.edges[edge] = edges.pop(0)
            return
        number = self._old.child(edge)
        inputs = self._old.entries[number].inputs
        for place in range(len(inputs)):
            self._match((number, place))
        if any((number, place) in self.edges or self._old.child((number, place)) in self.stepped for place in range(len(inputs))):
            self.stepped.append(number)
        else:
            self.dropped = [one for one in self.dropped if one not in self._old.below(number)] + [number]

    def _look_at(self, edge: Edge) -> bool:
        """Whether rows of the old graph come in at an edge of the new one or below; notes what is above these."""
        if edge in self._claimed:
            return True
        number = self._new.child(edge)
        found = [self._look_at((number, place)) for place in range(len(self._new.entries[number].inputs))]
        if not any(found):
            return False
        if number not in self.above:
            self.above.append(number)
            self.added += [self._new.child((number, place)) for place, is_old in enumerate(found) if not is_old]
        return True

    def _check_new(self) -> None:
        reached = {edge for edge in self._claimed if edge == ROOT or edge[0] in self.above}
        if reached != self._claimed:
            raise EditError("rows of an input now come in at two places, of which one was there before")
        for number in self.above:
            node = self.nodes[number]
            if node.op.edits is None:
                raise EditError(f"`{self.new[number].call}` depends on the rows that came before")
            if self.pass_.shards and not self.runs_per_shard(node):
                raise EditError(f"rows are divided among the shards after `{self.new[number].call}`")
        for number in self.stepped:
            if self.pass_.shards and self._was_divided(number):
                raise EditError(f"rows were divided among the shards after `{self.old[number].call}`")

    def _was_divided(self, number: int) -> bool:
        """Whether an operator of the old graph was indexed in a streamed pipe."""
        inputs = [(number, place) for place in range(len(self.old[number].inputs))]
        of_class = any(cls.rows is not Operator.rows for cls in classes_of(self.old[number].kind))
        return of_class and all(self._is_indexed(edge) for edge in inputs)

    @property
    def tail(self) -> int | None:
        """The operator of the old graph that left rows over, by the rule of `Plan`."""
        edge = ROOT
        while True:
            number = self._old.child(edge)
            orders = {getattr(cls, "order", None) for cls in classes_of(self.old[number].kind)}
            if Order.REGROUPS in orders:
                return None if self._was_divided(number) else number
            if len(self.old[number].inputs) != 1 or edge in self.edges or orders & {Order.GLOBAL}:
                return None
            edge = (number, 0)

    def _is_indexed(self, edge: Edge) -> bool:
        if edge in self.edges:
            return self.nodes[self._new.child(self.edges[edge])].indexed
        number = self._old.child(edge)
        return self._was_divided(number)

    def _edges_below(self) -> Iterator[tuple[Edge, Edge]]:
        """The edges below those in common, of the old graph and of the new one."""
        waiting = [*self.edges.items()]
        while waiting:
            old, new = (graph.child(edge) for graph, edge in zip((self._old, self._new), waiting.pop(), strict=True))
            for place in range(len(self.old[old].inputs)):
                yield (old, place), (new, place)
                waiting.append(((old, place), (new, place)))

    # Rests

    def indexed(self, rest: Rest, taken: Taken, base: int) -> Rest:
        """The rest of a pass over an indexed pipe of which `rest` was taken up to `taken`."""
        starts: dict[Edge, Start] = {}
        before = rest.starts.get(ROOT, Start(-1))
        start = before._replace(cursor=Taken.of_plain(before.cursor).then(taken).plain)
        self._down(ROOT, start, rest.starts, starts)
        if ROOT not in starts:
            starts = {ROOT: Start(base), **starts}
        return Rest(0, starts)

    def streamed(self, rest: Rest, origin: int) -> Rest:
        """A rest in terms of the new graph."""
        edge = next(iter(rest.starts))
        starts: dict[Edge, Start] = {}
        self._down(edge, rest.top, rest.starts, starts)
        return Rest(rest.shard, starts if ROOT in starts else {ROOT: Start(origin), **starts})

    def renumbered(self, rest: Rest) -> Rest:
        """A rest in terms of the new graph, if the edges of both are the same."""
        starts = {edge if edge == ROOT else self._below[edge]: start for edge, start in rest.starts.items()}
        return replace(rest, starts=starts, tail_of=tuple(map(self.renumbered, rest.tail_of)))

    def check_tails(self, tail: int | None) -> None:
        """Checks that the operator that leaves rows over is none of those in common.

        Args:
            tail: the operator of the new graph that leaves rows over.

        Raises:
            EditError: it is, so rows that wait for others would be grouped by another operator.
        """
        if self.tail is not None and self.tail not in self.stepped:
            raise EditError(f"`{self.old[self.tail].call}` has left rows over, and it is not what has changed")
        if tail is not None and tail not in self.above and ROOT not in self.edges.values():
            raise EditError(f"`{self.new[tail].call}` now leaves rows over, and it was there before")

    def at_tail(self, rest: Rest) -> tuple[Rest, ...]:
        """What is left of rows that waited for others to complete a group, if some of the groups are given."""
        assert self.tail is not None, "an operator has left rows over"
        edge: Edge = (self.tail, 0)
        at = self._at_input(ROOT, rest.top, edge)
        number, inner = 0, at
        if len(rest.tail_of) > 1:
            number, inner = at.numbered()
            inner = inner.advance(at.skip)
        first, *others = rest.tail_of[number:]
        start = first.top.begun(inner.plain)
        return replace(first, starts={**first.starts, edge: start}), *others

    def _at_input(self, edge: Edge, start: Start, target: Edge) -> Cursor:
        """The cursor at an edge of a chain of operators."""
        if edge == target:
            return Cursor.of(start.cursor)
        (below,) = self._inputs(self._old.child(edge), start)
        return self._at_input((self._old.child(edge), 0), below, target)

    def _down(self, edge: Edge, start: Start, before: Mapping[Edge, Start], starts: dict[Edge, Start]) -> None:
        """Adds the starts on edges of the new graph, for a start at an edge of the old one."""
        if edge in self.edges:
            starts[self.edges[edge]] = start
            waiting = [edge]
            while waiting:
                number = self._old.child(waiting.pop())
                for place in range(len(self.old[number].inputs)):
                    waiting.append((number, place))
                    if (own := before.get((number, place))) is not None:
                        starts[self._below[number, place]] = own
            return
        number = self._old.child(edge)
        if number in self.dropped:
            return
        for place, below in enumerate(self._inputs(number, start)):
            own = before.get((number, place))
            if own is not None and self.pass_.shards:
                first, *others = below.shares or (None,)
                shares = () if first is None else (first.after(own.taken), *others)
                below = own.begun(below.cursor)._replace(shares=(*own.shares, *shares))
            elif own is not None:
                taken = Taken.of_plain(own.cursor).then(Taken.of_plain(below.cursor))
                below = own._replace(cursor=taken.plain)
            self._down((number, place), below, before, starts)

    def _inputs(self, number: int, start: Start) -> list[Start]:
        """The start of each input of an operator of the old graph."""
        entry = self.old[number]
        shards = self.pass_.shards
        process = ProcessContext(all_shards=shards)
        context = Context(seed=self.pass_.seed, epoch=self.pass_.epoch, shard=start.origin if shards else None)
        past = Past(entry.facts, len(entry.inputs), self._old.names[number], replace(context, process=process))
        for cls in classes_of(entry.kind):
            if start.shares:
                if (length := cls.run_length(past)) is None:
                    continue
                at = Cursor.of(start.cursor)
                cut = tuple(share.of_runs(length) for share in start.shares)
                return [Start(start.origin, cursor, cut) for cursor in cls.inputs_at(past, at) or ()]
            if shards:
                cursors = cls.inputs_at(past, Cursor.of(start.cursor))
            else:
                taken = cls.inputs_taken(past, Taken.of_plain(start.cursor))
                cursors = None if taken is None else [one.plain for one in taken]
            if cursors is not None:
                return [Start(start.origin, cursor) for cursor in cursors]
        if start.shares:
            raise EditError(f"shards were cut after `{entry.call}` when the number of ranks changed")
        raise EditError(f"`{entry.call}` has changed or what is before it, and its place does not say what it has taken")


def _without(numbers: Sequence[int], own: Sequence[str], common: Counter[str]) -> list[int]:
    """The operators without some."""
    left, others = Counter(common), list[int]()
    for number in numbers:
        if left[own[number]]:
            left[own[number]] -= 1
        else:
            others.append(number)
    return others


class _Graph:
    """The operators of a graph by their entries in a fingerprint.

    Edges and children skip the operators that dress rows: these give a row for each row, in its place.

    Attributes:
        dresses: which operators are such.
        own: a digest of each operator alone.
        contents: of all that its rows depend on.
        places: of all that their number and order depend on.
    """

    def __init__(self, entries: Sequence[OperatorEntry]) -> None:
        self.entries = entries
        self.names = [entry.kind for entry in entries]
        self.dresses = [dresses(entry.kind) for entry in entries]
        self.own: list[str] = []
        self.contents: list[str] = []
        self.places: list[str] = []
        for entry, dresses_rows in zip(entries, self.dresses, strict=True):
            facts = {name: value for name, value in entry.facts.items() if name != SAVED}
            contents = [self.contents[number] for number in entry.inputs]
            places = [self.places[number] for number in entry.inputs]
            classes = classes_of(entry.kind)
            is_blind = bool(classes) and all(cls.blind for cls in classes)
            self.own.append(_digest(entry.kind, facts))
            self.contents.append(_digest(entry.kind, facts, *contents))
            self.places.append(
                places[0] if dresses_rows else _digest(entry.kind, facts, *(places if is_blind else contents))
            )

    def edits(self, number: int) -> str | None:
        return next((cls.edits for cls in classes_of(self.entries[number].kind)), None)

    def child(self, edge: Edge) -> int:
        """The operator whose rows come along an edge."""
        number = len(self.entries) - 1 if edge == ROOT else self.entries[edge[0]].inputs[edge[1]]
        while self.dresses[number]:
            (number,) = self.entries[number].inputs
        return number

    def place(self, edge: Edge) -> str:
        return self.places[self.child(edge)]

    def edges(self) -> Iterator[Edge]:
        """All edges, those near the root first."""
        seen: set[int] = set()
        waiting = [ROOT]
        while waiting:
            edge = waiting.pop(0)
            yield edge
            number = self.child(edge)
            if number not in seen:
                seen.add(number)
                waiting += [(number, place) for place in range(len(self.entries[number].inputs))]

    def apart_from(self, tops: Sequence[int]) -> list[int]:
        """The operators that are none of these and not before them."""
        left_out = {number for top in tops for number in self.below(top)}
        return [number for number in range(len(self.entries)) if number not in left_out]

    def below(self, number: int) -> set[int]:
        """An operator and all before it."""
        found = {number}
        waiting = [number]
        while waiting:
            new = set(self.entries[waiting.pop()].inputs) - found
            found |= new
            waiting += new
        return found


def _digest(*content: Json | Mapping[str, Json]) -> str:
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=12).hexdigest()


def classes_of(kind: str) -> list[type[Operator]]:
    """The classes of the operators of a kind."""
    found: list[type[Operator]] = []
    waiting = [*Operator.__subclasses__()]
    while waiting:
        cls = waiting.pop(0)
        waiting += cls.__subclasses__()
        if getattr(cls, "kind", None) == kind and cls not in found:
            found.append(cls)
    return found


def dresses(kind: str) -> bool:
    """Whether operators of a kind give a row for each row, in its place."""
    classes = classes_of(kind)
    return bool(classes) and all(
        issubclass(cls, CursorOfInput)
        and not issubclass(cls, TokenOfInput)
        and cls.seeks
        and getattr(cls, "order", None) is Order.ROW_LOCAL
        and cls.trait not in (Trait.SHARD, Trait.WORKERS)
        for cls in classes
    )
