"""`Edit`: the rests of a pass after the pipe has changed in the middle of it.

A rest says where it begins at the end of the old graph. `Edit` takes that down through the operators that the pipe no
longer has, to the highest parts of the graph that it still has, and puts it on the edges behind these in the new graph.
Nothing here reads a row or calls a function of the user.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from ..core.context import Context
from ..core.cursor import START, Cursor, Json
from ..core.graph import Node, branches, named, walk
from ..core.operator import ENDED, CursorOfInput, Operator, Order, Past, TokenOfInput, Trait
from ..core.taken import Taken
from .fingerprint import SAVED, fact_differences, values_of
from .fingerprint import entries as entries_of
from .plan import Plan
from .rests import NOTHING, ROOT, Edge, Rest, Share, Start


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
        old: the fingerprint of the old graph: operators, and functions.
        new: that of the new one.
        plan: that of the new graph.
        pass_: the pass.
        kept: the names that operators of the old graph had kept, by number.

    Attributes:
        edges: the edges of the old graph with rows that the new graph has too, and its edge.
        moved: those of them behind an operator that goes on with other arguments.
        stepped: the operators of the old graph behind these edges.
        above: those of the new graph.
        dropped, added: sources that only the old graph has, and parts that only the new one has.

    Raises:
        EditError: a pass cannot go on after this change.
    """

    old_fingerprint: tuple[str, str]
    new_fingerprint: tuple[str, str]
    plan: Plan
    pass_: Passing
    kept: Mapping[int, str]
    edges: dict[Edge, Edge] = field(default_factory=dict)
    moved: set[Edge] = field(default_factory=set)
    stepped: list[int] = field(default_factory=list)
    above: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    added: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._old, self._new = _Graph(*self.old_fingerprint), _Graph(*self.new_fingerprint)
        self.old, self.new = self._old.entries, self._new.entries
        self._names: list[str] = []  # of the old graph
        self.nodes = [node for node in walk(self.plan.root) if node.op.trait is not Trait.TRANSPARENT]
        self._free = list(self._new.edges())
        self._old_contents = {*map(self._old.content, self._old.edges())}
        self._counting = ""  # the call of an operator that counts the rows of the pass
        if not self._match(ROOT):
            self._match_inputs(self._old.child(ROOT))
        if not self.edges:
            raise EditError("the pipes have no rows in common")
        self._claimed = set(self.edges.values())
        self._look_at(ROOT)
        self._check_new()
        self._pairs = dict(self._operators_in_common())
        own: list[str | None] = [None] * len(self.old)
        for old, new in self._pairs.items():
            own[old] = self.nodes[new].op.name
        kinds, inputs = [entry.kind for entry in self.old], [entry.inputs for entry in self.old]
        names = named(kinds, inputs, own, [entry.input_names for entry in self.old])
        self._names = [self.kept.get(number, name) for number, name in enumerate(names)]

    @property
    def is_same(self) -> bool:
        """Whether rows, groups and their order stay as they are."""
        return self.edges.get(ROOT) == ROOT and not self.moved

    @property
    def effect(self) -> Literal["groups", "order", "drop"]:
        """What the rest of the pass has: rows in "groups", or in another "order", or not those of an input ("drop")."""
        if self.dropped:
            return "drop"
        changed = [self._old.edits(number) for number in self.stepped]
        changed += [self.nodes[number].op.edits for number in self.above if not self._new.dresses[number]]
        return "order" if self.added or "order" in changed else "groups"

    def changes(self) -> list[str]:
        """A line for each operator that differs."""
        lines = [f"`{call}` is gone" for call in self.dropped_sources]
        lines += [f"`{call}` has {rows:,} new row{'s' if rows > 1 else ''}" for call, rows in self.grown]
        lines += [f"`{call}` is new" for call in self.added_sources]
        gone, come = self._old.apart_from(self.dropped), self._new.apart_from(self.added)
        common = Counter(map(self._old.own.__getitem__, gone)) & Counter(map(self._new.own.__getitem__, come))
        gone, come = _without(gone, self._old.own, common), _without(come, self._new.own, common)
        appended = self._appended
        come = [number for number in come if self.nodes[number] not in appended]
        for old in gone:
            now = next((n for n in come if self.new[n].kind == self.old[old].kind), None)
            if now is None:
                lines.append(f"`{self.old[old].call}` is gone")
                continue
            come.remove(now)
            lines += fact_differences(self.old[old], self.new[now])
        lines += [f"`{self.new[n].call}` is new" for n in come]
        return lines or ["inputs come in another order"]

    @property
    def grown(self) -> tuple[tuple[str, int], ...]:
        """The calls of sources that have grown, each with the number of new rows, such as files."""
        sources = [[next(walk(part)) for part in node.inputs] for node in self.plan.joined]
        appended = self._appended
        new = [sum(self.plan.length_of(part) or 0 for part in parts if part in appended) for parts in sources]
        calls = [self.new[self.nodes.index(first)].call for first, *_ in sources]
        return tuple((call, rows) for call, rows in zip(calls, new, strict=True) if rows)

    @property
    def _appended(self) -> set[Node]:
        """The operators of new rows of sources that have grown, and those that join the rows."""
        added = {self.nodes[number] for number in self.added}
        parts = [{*walk(part)} for node in self.plan.joined for part in node.inputs]
        return {*self.plan.joined}.union(*(part for part in parts if part & added))

    @property
    def added_sources(self) -> tuple[str, ...]:
        """The names or the sources of inputs that only the new graph has."""
        return tuple(self._new.source_of(n) for n in self.added if self.nodes[n] not in self._appended)

    @property
    def dropped_sources(self) -> tuple[str, ...]:
        """The names or the sources of inputs that only the old graph has."""
        return tuple(self._old.source_of(number) for number in self.dropped)

    def source_of(self, edge: Edge) -> str:
        """The name of the input that the rows of an edge of the new graph go to, or the call of their first source."""
        return self._new.source_of(self._new.child(edge))

    # What the graphs have in common

    def _match(self, edge: Edge) -> bool:
        """Finds the rows of an edge of the old graph in the new one."""
        if (now := self._same_rows(edge)) is None:
            if (now := self._moved_to(self._old.child(edge))) is None:
                return False
            self.moved.add(edge)
        self.edges[edge] = now
        below = self._new.below(self._new.child(now))
        self._free = [free for free in self._free if free != now and free[0] not in below]
        return True

    def _match_inputs(self, number: int) -> None:
        """Finds the rows of the inputs of an operator, or of those of their operators: the highest ones first."""
        inputs = [(number, place) for place in range(len(self.old[number].inputs))]
        for edge in [edge for edge in inputs if not self._match(edge)]:
            self._match_inputs(self._old.child(edge))
        if any(edge in self.edges or self._old.child(edge) in self.stepped for edge in inputs):
            self.stepped.append(number)
        else:
            self.dropped = [one for one in self.dropped if one not in self._old.below(number)] + [number]

    def _same_rows(self, edge: Edge) -> Edge | None:
        """The edge of the new graph with the same rows, or with rows in the same places that the old graph has not."""
        place, content = self._old.place(edge), self._old.content(edge)
        alike = [other for other in self._free if self._new.place(other) == place]
        same = (other for other in alike if self._new.content(other) == content)
        others = (other for other in alike if self._new.content(other) not in self._old_contents)
        return next(same, next(others, None))

    def _moved_to(self, number: int) -> Edge | None:
        """The edge of the new graph behind the same operator with other arguments, which goes on at its place."""
        entry, past = self.old[number], self._past(number, Start(0))
        for edge in self._free:
            now = self.new[self._new.child(edge)]
            alike = entry.kind == now.kind and self._old.of_inputs(number) == self._new.of_inputs(self._new.child(edge))
            if alike and any(cls.token_for(past, now.facts, Cursor()) is not None for cls in classes_of(entry.kind)):
                return edge
        return None

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
        given_to = self._given_to()
        for number in self.above:
            node = self.nodes[number]
            after_a_row = node.op.from_row(1)
            counts = after_a_row is not node.op
            if node.op.edits is None or after_a_row is None or (counts and number not in given_to):
                raise EditError(f"`{self.new[number].call}` must see a pass from its beginning")
            if counts:
                self._counting = self.new[number].call
            if self.pass_.shards and not self.plan.runs_per_shard(node):
                raise EditError(f"rows are divided among the shards after `{self.new[number].call}`")
        for number in self.stepped:
            if self.pass_.shards and self._was_divided(number):
                raise EditError(f"rows were divided among the shards after `{self.old[number].call}`")

    def _given_to(self) -> set[int]:
        """The operators of the new graph to which go the rows that rests say were given: the first ones of groups."""
        found: set[int] = set()
        edge = ROOT
        while edge not in self._claimed:
            number = self._new.child(edge)
            found = {number} if self.nodes[number].op.edits == "groups" else {*found, number}
            if len(self.new[number].inputs) != 1:
                break
            edge = (number, 0)
        return found

    def _rows_given(self, edge: Edge, start: Start, rest: Rest) -> int | None:
        """The rows that a rest of the old graph has given to the first operator of groups; None if nobody knows."""
        given = start.given
        while edge not in self.edges:
            number = self._old.child(edge)
            if self._old.edits(number) != "groups":
                groups = (self._old.edits(below) == "groups" for below in {*self.stepped} & self._old.below(number))
                given = None if any(groups) else given
                break
            (start,) = self._starts_below(number, start, rest.starts)
            edge = (number, 0)
            given = 0 if edge in rest.starts else given
        if given is not None and not start.shares:
            return given + start.taken
        if self._counting:
            raise EditError(f"nobody knows how many rows of the pass were given, which `{self._counting}` counts")
        return None

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

    def _operators_in_common(self) -> Iterator[tuple[int, int]]:
        """The operators before the edges in common, of the old graph and of the new one."""
        waiting = [*self.edges.items()]
        while waiting:
            old, new = (graph.child(edge) for graph, edge in zip((self._old, self._new), waiting.pop(), strict=True))
            yield old, new
            for place in range(len(self.old[old].inputs)):
                waiting.append(((old, place), (new, place)))
                dressed = self.old[old].inputs[place], self.new[new].inputs[place]
                while (
                    self._old.contents[dressed[0]] == self._new.contents[dressed[1]] and self._old.dresses[dressed[0]]
                ):
                    yield dressed
                    dressed = self.old[dressed[0]].inputs[0], self.new[dressed[1]].inputs[0]

    def names(self) -> dict[int, str]:
        """The names that operators of the new graph have for the rest of the pass, where these are not its own."""
        now = self.plan.numbered_names
        kept = {new: self._names[old] for old, new in self._pairs.items() if self.nodes[new].op.name is None}
        names = {new: name for new, name in kept.items() if name != now[new]}
        taken = {*kept.values()}
        names |= {n: f"{name}~" for n, name in now.items() if n not in kept and name in taken}
        if names and any(node.op.trait in (Trait.ONE_PROCESS, Trait.WORKERS) for node in self.nodes):
            raise EditError(
                "`dispatch` and `remote` name rows by the place of their source in the pipe, which has changed"
            )
        return names

    # Rests

    def at_mixtures(self) -> bool:
        """Moves the edges in common to the inputs of mixtures of the graph, if it has any that a rest can go down to.

        A rest of a shard that is cut there, and not behind them, can go on after other edits.
        """
        edges: list[Edge] = []
        above: list[int] = []
        waiting = [ROOT]
        while waiting:
            edge = waiting.pop(0)
            number = self._old.child(edge)
            inputs = [(number, place) for place in range(len(self.old[number].inputs))]
            is_run = self.plan.runs_per_shard(self.nodes[number]) and not self._was_divided(number)
            if is_run and any(
                cls.inputs_at(self._past(number, Start(0)), START) for cls in classes_of(self.old[number].kind)
            ):
                above.append(number)
                waiting += inputs
            else:
                edges.append(edge)
        if all(len(self.old[number].inputs) == 1 for number in above):
            return False
        self.edges = {edge: edge for edge in edges}
        self._claimed, self.stepped, self.above = {*edges}, above, above
        try:
            self._check_new()
        except EditError:
            return False
        return True

    def indexed(self, rest: Rest, taken: Taken, base: int) -> Rest:
        """The rest of a pass over an indexed pipe of which `rest` was taken up to `taken`."""
        starts: dict[Edge, Start] = {}
        before = rest.starts.get(ROOT, Start(-1))
        start = before._replace(cursor=Taken.of_plain(before.cursor).then(taken).plain)
        self._down(ROOT, start, rest.starts, starts)
        if ROOT not in starts:
            starts = {ROOT: Start(base, given=self._rows_given(ROOT, start, rest)), **starts}
        return Rest(0, starts)

    def streamed(self, rest: Rest, origin: int) -> Rest:
        """A rest in terms of the new graph; `origin` is the key of the draws above the edges in common."""
        edge = next(iter(rest.starts))
        starts: dict[Edge, Start] = {}
        if edge != ROOT and self.edges.get(ROOT) == ROOT:
            return self.renumbered(rest)
        self._down(edge, rest.top, rest.starts, starts)
        if ROOT not in starts:
            starts = {ROOT: Start(origin, given=self._rows_given(edge, rest.top, rest)), **starts}
        return Rest(rest.shard, starts)

    def nothing_left(self, shard: int, origin: int) -> Rest:
        """The rest of a shard that has ended; rows that are new can still come."""
        if self._counting:
            raise EditError(f"a shard has ended, so nobody knows the rows of it that `{self._counting}` counts")
        starts = {edge: Start(shard, None, (Share(NOTHING),)) for edge in self.edges.values()}
        return Rest(shard, {ROOT: Start(origin, given=None), **starts})

    def with_added(self, rest: Rest, shard: int | None) -> Rest:
        """A rest that has a shard of the inputs that are new, or nothing of them."""
        start = Start(0, None, (Share(NOTHING),)) if shard is None else Start(shard)
        return replace(rest, starts={**rest.starts, **dict.fromkeys(self.added_edges, start)})

    def renumbered(self, rest: Rest) -> Rest:
        """A rest in terms of the new graph, if the edges of both are the same."""
        starts = {self._edge_now(edge): start for edge, start in rest.starts.items()}
        return replace(rest, starts=starts, tail_of=tuple(map(self.renumbered, rest.tail_of)))

    def _edge_now(self, edge: Edge) -> Edge:
        """The edge of the new graph for one before or on an edge in common."""
        return self.edges[edge] if edge in self.edges else (self._pairs[edge[0]], edge[1])

    def check_tails(self) -> None:
        """Checks that the operator that leaves rows over is none of those in common."""
        tail = self.plan.tail_number
        moved = {self._old.child(edge) for edge in self.moved}
        if self.tail is not None and self.tail not in self.stepped and self.tail not in moved:
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
        # Rows at hand have no blocks, so nobody knows which inputs have ended among them.
        if inner.token is None and inner.position and any(len(entry.inputs) > 1 for entry in self.old):
            raise EditError("a rank is giving out the rows that its shards have left over")
        first, others = rest.tail_of[number], rest.tail_of[number + 1 :]
        start = first.top.begun(inner.plain)
        return replace(first, starts={**first.starts, edge: start}), *others

    def _at_input(self, edge: Edge, start: Start, target: Edge) -> Cursor:
        """The cursor at an edge of a chain of operators."""
        if edge == target:
            return Cursor.of(start.cursor)
        (below,) = self._inputs(self._old.child(edge), start, {})
        return self._at_input((self._old.child(edge), 0), below, target)

    def _down(self, edge: Edge, start: Start, before: Mapping[Edge, Start], starts: dict[Edge, Start]) -> None:
        """Adds the starts on edges of the new graph, for a start at an edge of the old one."""
        number = self._old.child(edge)
        if edge in self.edges:
            starts[self.edges[edge]] = self._in_place(number, start, edge) if edge in self.moved else start
            waiting = [number]
            while waiting:
                number = waiting.pop()
                for place in range(len(self.old[number].inputs)):
                    waiting.append(self._old.child((number, place)))
                    if (own := before.get((number, place))) is not None:
                        starts[self._edge_now((number, place))] = own
            return
        if number in self.dropped:
            return
        for place, below in enumerate(self._starts_below(number, start, before)):
            self._down((number, place), below, before, starts)

    def _starts_below(self, number: int, start: Start, before: Mapping[Edge, Start]) -> list[Start]:
        """The start of each input of an operator of the old graph, from the beginning of the pass on."""
        starts = self._inputs(number, start, before)
        for place, below in enumerate(starts):
            own = before.get((number, place))
            if own is not None and self.pass_.shards:
                first, *others = below.shares or (None,)
                shares = () if first is None else (first.after(own.taken), *others)
                starts[place] = own.begun(below.cursor)._replace(shares=(*own.shares, *shares))
            elif own is not None:
                taken = Taken.of_plain(own.cursor).then(Taken.of_plain(below.cursor))
                starts[place] = own._replace(cursor=taken.plain)
        return starts

    def _inputs(self, number: int, start: Start, before: Mapping[Edge, Start]) -> list[Start]:
        """The start of each input of an operator of the old graph."""
        entry, past = self.old[number], self._past(number, start)
        for cls in classes_of(entry.kind):
            length = cls.run_length(past)
            if start.shares and length is None:
                continue
            if self.pass_.shards:
                shares = tuple(share.of_runs(length or 1) for share in start.shares)
                cursors = cls.inputs_at(past, Cursor.of(start.cursor))
                if cursors is not None:
                    return [_start(start, cursor, shares) for cursor in cursors]
            else:
                lengths = [self._length((number, place), before) for place in range(len(entry.inputs))]
                known = [rows for rows in lengths if rows is not None]
                past = past._replace(lengths=known if len(known) == len(lengths) else None)
                taken = cls.inputs_taken(past, Taken.of_plain(start.cursor))
                if taken is not None:
                    return [
                        Start(start.origin, (rows if n is None else rows.between(0, n)).plain, (), start.given)
                        for rows, n in zip(taken, lengths, strict=True)
                    ]
        if start.shares:
            raise EditError(f"shards were cut after `{entry.call}` when the number of ranks changed")
        raise EditError(
            f"the place of `{entry.call}`, which has changed or has other inputs, does not say what it has read"
        )

    def _in_place(self, number: int, start: Start, edge: Edge) -> Start:
        """The start of an operator that goes on with other arguments."""
        entry, now = self.old[number], self.new[self._new.child(self.edges[edge])]
        if start.shares:
            raise EditError(f"shards were cut after `{entry.call}` when the number of ranks changed")
        past, at = self._past(number, start), Cursor.of(start.cursor)
        tokens = (cls.token_for(past, now.facts, at) for cls in classes_of(entry.kind))
        return start._replace(cursor=[next(token for token in tokens if token is not None), 0, 0])

    def _past(self, number: int, start: Start) -> Past:
        """An operator of the old graph."""
        entry, shards = self.old[number], self.pass_.shards
        context = Context(seed=self.pass_.seed, epoch=self.pass_.epoch, shard=start.draws(shards))
        name = self._names[number] if self._names else ""
        return Past(entry.facts, len(entry.inputs), name, context, max(1, shards), start.given or 0)

    def _length(self, edge: Edge, before: Mapping[Edge, Start]) -> int | None:
        """The number of rows that came along an edge of an indexed old graph; None if nobody knows."""
        number = self._old.child(edge)
        length = self._length_of(number, before)
        if length is None or (start := before.get(edge)) is None:
            return length
        return length - Taken.of_plain(start.cursor).total

    def _length_of(self, number: int, before: Mapping[Edge, Start]) -> int | None:
        entry = self.old[number]
        if number in self._pairs and not any(edge[0] in self._old.below(number) for edge in before):
            return self.plan.length_of(self.nodes[self._pairs[number]])
        known = (cls.rows_of(entry.facts) for cls in classes_of(entry.kind))
        if not entry.inputs or "length" in entry.facts:
            return next((length for length in known if length is not None), None)
        lengths = [self._length((number, place), before) for place in range(len(entry.inputs))]
        rows = [length for length in lengths if length is not None]
        if len(rows) < len(lengths):
            return None
        past = self._past(number, Start(-1))
        size = next((size for cls in classes_of(entry.kind) if (size := cls.run_length(past)) is not None), None)
        if size is not None:
            return rows[0] // size if entry.facts.get("drop_last") == "True" else -(-rows[0] // size)
        keeps_all = self._old.edits(number) == "order"
        return sum(rows) if keeps_all else None

    @property
    def added_edges(self) -> list[Edge]:
        """The edges of the new graph along which rows of new inputs come."""
        return [
            (number, place)
            for number in self.above
            for place in range(len(self.new[number].inputs))
            if self._new.child((number, place)) in self.added and (number, place) not in self._claimed
        ]


def _start(above: Start, cursor: Json, shares: tuple[Share, ...]) -> Start:
    cursor, shares = (None, (Share(NOTHING),)) if cursor == ENDED else (cursor, shares)
    return Start(above.origin, cursor, shares, above.given)


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
        branches: the names of the inputs on the way from the last operator to each.
        own: a digest of each operator alone.
        contents: of all that its rows depend on.
        places: of all that their number and order depend on.
    """

    def __init__(self, pipe: str, code: str) -> None:
        self.entries = entries = entries_of(pipe)
        self.dresses = [dresses(entry.kind) for entry in entries]
        self.branches = branches([entry.inputs for entry in entries], [entry.input_names for entry in entries])
        self.own: list[str] = []
        self.contents: list[str] = []
        self.places: list[str] = []
        for entry, dresses_rows, values in zip(entries, self.dresses, values_of(code), strict=True):
            facts = {name: value for name, value in entry.facts.items() if name != SAVED}
            contents = [self.contents[number] for number in entry.inputs]
            places = [self.places[number] for number in entry.inputs]
            classes = classes_of(entry.kind)
            is_blind = bool(classes) and all(cls.blind for cls in classes)
            self.own.append(_digest(entry.kind, facts))
            self.contents.append(_digest(entry.kind, facts, values, *contents))
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

    def of_inputs(self, number: int) -> list[str]:
        """A digest of the rows of each input."""
        return [self.contents[child] for child in self.entries[number].inputs]

    def source_of(self, number: int) -> str:
        """The name of the input that the rows of an operator go to, or the call of their first source."""
        if self.branches[number]:
            return self.branches[number].removesuffix("/")
        while self.entries[number].inputs:
            number = self.entries[number].inputs[0]
        return self.entries[number].call

    def content(self, edge: Edge) -> str:
        """A digest of all that the rows of an edge depend on."""
        return self.contents[-1] if edge == ROOT else self.of_inputs(edge[0])[edge[1]]

    def place(self, edge: Edge) -> str:
        """A digest of all that the number of rows of an edge and their order depend on."""
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
