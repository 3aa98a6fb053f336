"""`Plan`: the shards of a pipe that one rank runs, with their lengths and graphs; `worker_graph`: those of workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple, cast

import numpy as np

from ..core.block import Block
from ..core.context import Context
from ..core.cursor import START, Cursor, Json
from ..core.graph import Node, find_remote, names, numbers, sent, walk, with_inputs
from ..core.operator import READS_FOR_ALL_EPOCHS, Amount, Grouping, Operator, Order, StageView, Trait
from ..core.origins import Account, in_order
from ..core.rows import BlockRows
from ..core.taken import Taken
from ..engine.run import position_count
from ..engine.stage import Stage, bind
from ..errors import PlanError
from ..ops.concat import Concat
from .divide import Numbers
from .division import SharedRead
from .growth import in_parts
from .lengths import Lengths, varies
from .rests import ROOT, Edge, GraphOfPass, Redivision, Rest, Start
from .sharding import Sharding, has_starts, reorders, start_at
from .shards import RemainingShard, RestOfShard
from .spans import ShardSpans, spans_of

SHUFFLED_SHARDS = 8
"""The shards of each rank if rows are shuffled and the user gives no number."""


_NONE: Mapping[int, Json] = {}


class Position(NamedTuple):
    """The place of a rank in a pass over the data.

    Attributes:
        taken: of an indexed pipe, the elements that all ranks together have taken.
        cursors: of a streamed pipe, the plain cursors of the shards that have begun. The groups made of leftover rows
            count as one more shard, `Plan.tail_shard`.
        ended: the shards that have ended, each with the plain cursor of its leftover rows.
        redivision: the rests that take the place of shards, if the number of ranks or the pipe has changed in this
            pass. Of an indexed pipe it has one, of all ranks.
    """

    taken: Taken = Taken()
    cursors: Mapping[int, Json] = _NONE
    ended: Mapping[int, Json] = _NONE
    redivision: Redivision | None = None

    def cursor(self, shard: int) -> Cursor:
        """The cursor of the graph of a shard that has not ended."""
        return Cursor.of(self.cursors.get(shard))

    @property
    def over(self) -> Mapping[int, Json]:
        """The shards that have nothing left to run, each with the plain cursor of its leftover rows."""
        rests = {} if self.redivision is None else self.redivision.rests
        return {n: rest.top.cursor for n, rest in rests.items() if rest.waits} | {**self.ended}


@dataclass(frozen=True)
class ShardRun:
    """A run of one shard: its graph, from a cursor on. A reading service runs several of these."""

    shard: int
    stage: Stage
    at: Cursor


class Plan:
    """The work of rank `rank` of `world_size`.

    The elements of an indexed pipe are divided one by one among ranks and then among workers. A streamed pipe runs as
    `shards` virtual shards: a rank has each `world_size`-th of them, and a worker each `workers`-th of its rank's, or
    each `workers`-th span of its only shard.

    Attributes:
        root: the graph; its listings and types are fixed.
        shards: the number of virtual shards of all ranks; 0 if the pipe is indexed.
        has_positions: whether the pipe is indexed; `indexed` says whether ranks divide it by position.
        has_remote: whether workers run only the part of the graph before a `remote`.
        unsharded: the graph as one run, which knows lengths.
        accounts: what a ledger counts: rows, and perhaps tokens, of each named source.
        joined: the nodes that join the parts of sources that have grown in a pass.
    """

    def __init__(
        self,
        root: Node,
        *,
        seed: int,
        rank: int,
        world_size: int,
        shards: int | None,
        parts: Mapping[int, Sequence[int]] = MappingProxyType({}),
    ) -> None:
        self.root, self.joined = root, _ = in_parts(root, parts, by_position=shards is None)
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
        self.names = names(root)
        self._stages: dict[Node, Stage] = {}
        self.unsharded = bind(root, self.names, self._stages)
        self.has_positions = root.indexed and not root.has_user_boundary
        self.accounts = accounts_of(root)
        # Only a run can say which rows were skipped.
        is_countable = not (self.accounts and self.unsharded.may_skip)
        # Ranks that skip different numbers of elements do not stand at one place of an indexed pipe.
        self.indexed = self.has_positions and not self.unsharded.loses_elements and is_countable
        self.has_remote = find_remote(root) is not None
        self.shards = 0 if self.indexed else _count(root, world_size, shards)
        self._lengths: tuple[int, list[int] | None] | None = None  # of all ranks, in one pass
        self._sharding = Sharding(self.shards, world_size, self._stages, self.names)
        self._tail = None if self.indexed else self._find_tail()
        self._tail_edge: Edge = ROOT if self._tail is None else (numbers(root)[self._tail], 0)
        self._main = root
        if self._tail is not None:
            self._main = self._with_tail(cast("Grouping", self._tail.op).dropping(), self._tail.inputs, self.names)
        self._numbers = {**numbers(root), **numbers(self._main)}
        self._redivision: tuple[Redivision, Sharding] | None = None  # the last one, and its rules
        self._parts = parts
        self._grown: Plan | None = None  # of the last pass in which sources have grown
        self._spans: ShardSpans | str | None = None

    @property
    def varies(self) -> bool:
        """Whether a rank's length may differ between epochs."""
        return not self.indexed and varies(self.root, self._stages)

    @property
    def depends_on_ranks(self) -> bool:
        """Whether the rows of a shard depend on the number of ranks: those of a rank divide its windows and units."""
        return not self.indexed and any(
            node.op.order is Order.REORDERS and not node.indexed for node in walk(self.root) if node.inputs
        )

    @property
    def rank_shards(self) -> range:
        """The shards of this rank."""
        return range(self.rank, self.shards, self.world_size)

    def shards_of_rank(self, redivision: Redivision | None) -> Sequence[int]:
        """The shards of this rank, or the rests that take their place."""
        return self.rank_shards if redivision is None else sorted(redivision.rests)

    def draws_of(self, shard: int) -> int | None:
        """The key of the draws of a shard; None if it is the only one, whose draws are those of the pipe."""
        return None if self.shards <= 1 else shard

    @property
    def tail_shard(self) -> int:
        """The number of the shard that makes groups of this rank's leftover rows."""
        return self.shards + self.rank

    @property
    def tail_name(self) -> str | None:
        """The name of the operator that leaves rows over."""
        return None if self._tail is None else self.names[self._tail]

    def parts(self, position: Position, worker: int = 0, workers: int = 1) -> list[ShardRun]:
        """The runs that are left for worker `worker` of `workers` of this rank, without the tail."""
        if self.indexed:
            part, parts = self.rank + self.world_size * worker, self.world_size * workers
            return [ShardRun(worker, self.indexed_stage(part, parts, position), START)]
        running = self.running(position, worker, workers)
        return [ShardRun(shard, self.shard_stage(shard, position.redivision), at) for shard, at in running.items()]

    def running(self, position: Position, worker: int = 0, workers: int = 1) -> dict[int, Cursor]:
        """The shards of `parts`, each with its cursor."""
        if self.indexed:
            return {worker: START}
        shards = self.shards_of_rank(position.redivision)
        over = position.over
        return {shard: position.cursor(shard) for shard in shards[worker::workers] if shard not in over}

    def spans(self) -> ShardSpans | str | None:
        """The spans of the only shard of this rank, or the reason why one worker makes all of it.

        None if a rank has several shards or none.
        """
        if len(self.rank_shards) != 1:
            return None
        if self.has_remote:
            return "`remote()` reads the rows of a shard in their order"
        if self._spans is None:
            self._spans = spans_of(self.rank, self.shard_stage(self.rank))
        return self._spans

    @property
    def most_workers(self) -> int | None:
        """The most workers of a rank that have work; None if any number has."""
        return None if self.indexed or isinstance(self.spans(), ShardSpans) else len(self.rank_shards)

    def busy_workers(self, workers: int) -> int:
        """The workers of a rank that have work, of so many."""
        return workers if self.most_workers is None else min(workers, self.most_workers)

    def running_spans(self, position: Position) -> ShardSpans | None:
        """The spans that are left to run for this rank, if several workers can make them."""
        if position.redivision is not None or not isinstance(spans := self.spans(), ShardSpans):
            return None
        return None if spans.shard in position.ended else spans

    def tail(self, position: Position, rows: Mapping[int, BlockRows] = MappingProxyType({})) -> ShardRun | None:
        """The run that makes groups of the leftover rows, after all shards of this rank have ended.

        `rows` are the leftover rows of the shards that ran in this process.
        """
        over = position.over
        if self._tail is None or self.tail_shard in over:
            return None
        shards = self.shards_of_rank(position.redivision)
        cursors = {shard: cursor for shard in shards if (cursor := over.get(shard)) is not None}
        if not cursors:
            return None
        redivision = position.redivision
        if redivision is not None:
            origin = redivision.base + self.tail_shard
            plan = self.in_pass(redivision.graph)
            waiting = tuple(plan.waiting(redivision.rests[s], cursor) for s, cursor in cursors.items())
            stage = self._rest_stage(redivision, Rest(-1, {ROOT: Start(origin)}, waiting))
        else:
            # A tail holds rows, so its stages are not kept with those of the plan: they are freed after the epoch.
            waiting = tuple(self.waiting(Rest.of_shard(s, None), cursor) for s, cursor in cursors.items())
            names = dict(self.names)
            root = self._tail_node(waiting, self._sharding, names, [rows.get(s) for s in cursors])
            stage = bind(root, names, dict(self._stages))
        return ShardRun(self.tail_shard, stage, position.cursor(self.tail_shard))

    def in_pass(self, graph: GraphOfPass) -> Plan:
        """The plan of the graph of a pass, in which sources may have grown."""
        if graph.parts == self._parts:
            return self
        if self._grown is None or self._grown._parts != graph.parts:
            of_rank = {"seed": self.seed, "rank": self.rank, "world_size": self.world_size}
            self._grown = Plan(self.root, **of_rank, shards=self.shards or None, parts=graph.parts)
        return self._grown

    def runs_per_shard(self, node: Node) -> bool:
        """Whether each shard runs `node` on its own rows."""
        return self._sharding.runs_per_shard(node)

    @property
    def numbered_names(self) -> dict[int, str]:
        """The names of operators by number."""
        return {n: self.names[node] for node, n in numbers(self.root).items() if node.op.trait is not Trait.TRANSPARENT}

    @property
    def tail_number(self) -> int | None:
        """The number of the operator that leaves rows over."""
        return None if self._tail is None else self._numbers[self._tail]

    def waiting(self, rest: Rest, cursor: Json) -> Rest:
        """The rows that a rest leaves over, from a cursor of these on."""
        return rest if rest.waits else rest.waiting(self._tail_edge, cursor)

    def indexed_stage(self, part: int, parts: int, position: Position) -> Stage:
        """Part `part` of `parts` of an indexed pipe: each `parts`-th of the elements that are left."""
        stage = self.indexed_pass(position.redivision)
        if parts == 1 and position.taken.total == 0:
            return stage
        node = Node(RemainingShard(parts, part, position.taken), (stage.node,))
        return bind(node, {**self.names, stage.node: stage.name}, {**self._stages, stage.node: stage})

    def indexed_pass(self, redivision: Redivision | None) -> Stage:
        """All elements of a pass over an indexed pipe, or of the rest of a pass in which the pipe has changed."""
        if redivision is None:
            return self.unsharded
        (rest,) = redivision.rests.values()
        return self._rest_stage(redivision, rest)

    def shard_stage(self, shard: int, redivision: Redivision | None = None) -> Stage:
        """The graph of one shard, bound."""
        if redivision is not None:
            return self._rest_stage(redivision, redivision.rests[shard])
        return self._bound(self._sharding.subgraph(self._main_of(self.shards), shard))

    def _rest_stage(self, redivision: Redivision, rest: Rest) -> Stage:
        """The graph of a rest, bound. Its stages are freed with the redivision."""
        if (plan := self.in_pass(redivision.graph)) is not self:
            return plan._rest_stage(redivision, rest)
        sharding = self._sharding_of(redivision)
        start = rest.starts[ROOT]
        if self.indexed:
            root = sharding.once((ROOT,), lambda: sharding.begun(start, sharding.rest(self.root, rest, self._numbers)))
            return bind(root, sharding.names, cast("dict[Node, Stage]", sharding.stages))
        of_rank = redivision.first // redivision.ranks
        if rest.tail_of:
            node = self._tail_node(rest.tail_of, sharding, sharding.names)
            op = RestOfShard(start, redivision.first, of_rank)
        else:
            node = sharding.rest(self._main_of(redivision.first), rest, self._numbers)
            together = {number: one.shard for number, one in redivision.rests.items() if one.runs}
            op = RestOfShard(start, redivision.first, of_rank, together, self.tail_name)
        root = Node(op, (node,))
        sharding.names[root] = "items"
        return bind(root, sharding.names, cast("dict[Node, Stage]", sharding.stages))

    def _sharding_of(self, redivision: Redivision) -> Sharding:
        """The first division of a pass."""
        if self._redivision is None or self._redivision[0] is not redivision:
            names, stages = dict(self.names), dict(self._stages)
            if redivision.graph.names:  # the graph as it is bound has others
                names |= {node: name for node, n in self._numbers.items() if (name := redivision.graph.names.get(n))}
                stages = {}
                bind(self.root, names, stages)
            self._redivision = redivision, Sharding(redivision.first, redivision.ranks, stages, names)
        return self._redivision[1]

    def length(self, rank: int, start: int = 0, data_pass: int = 0, redivision: Redivision | None = None) -> int | None:
        """The number of elements of `rank` in a pass over the data, from `start` on; None if it is not known.

        `redivision` is that of an indexed pipe, if the pipe has changed in the pass.
        """
        if self.unsharded.may_skip and not self.indexed:
            return None
        if self.indexed:
            return len(range(start + rank, position_count(self.indexed_pass(redivision)), self.world_size))
        data_pass = data_pass if self.varies else 0
        if self._lengths is None or self._lengths[0] != data_pass:
            of_shards = Lengths(self._sharding, self.seed, data_pass)
            rows = of_shards.of_shards(self.main)
            self._lengths = data_pass, None if rows is None else self._by_rank(rows, of_shards)
        lengths = self._lengths[1]
        return None if lengths is None else lengths[rank]

    def lengths_left(self, position: Position, data_pass: int) -> list[int] | None:
        """The number of elements that each rank has left in a pass after `position`; None if it is not known.

        `position` has the places of all shards, or a redivision with the rests of all ranks, which have just begun.
        """
        if self.unsharded.may_skip:
            return None
        if position.redivision is not None:
            return self._lengths_of_rests(position.redivision, data_pass)
        lengths = Lengths(self._sharding, self.seed, data_pass)
        rows = lengths.of_shards(self.main)
        if rows is None:
            return None
        left = [0 if s in position.ended else n - position.cursor(s).position for s, n in enumerate(rows.tolist())]
        return self._by_rank(np.array(left), lengths)

    def _lengths_of_rests(self, redivision: Redivision, data_pass: int) -> list[int] | None:
        """The number of elements of the rests of each rank; None if it is not known."""
        if (plan := self.in_pass(redivision.graph)) is not self:
            return plan._lengths_of_rests(redivision, data_pass)
        lengths = Lengths(self._sharding_of(redivision), self.seed, data_pass)
        tail = self._tail if redivision.first > 1 else None
        totals = [0] * self.world_size
        left: list[list[int]] = [[] for _ in range(self.world_size)]  # the rows of shards whose leftovers a rank has
        begun: list[tuple[int, list[int], int]] = []  # groups of leftover rows: rank, rows of shards, elements given
        for number, rest in redivision.rests.items():
            rank, top = number % self.world_size, rest.top
            before = [self._rows_before(tail, one, lengths) for one in rest.tail_of or [rest]]
            if (known := [rows for rows in before if rows is not None]) != before:
                return None
            if rest.tail_of:
                begun.append((rank, known, top.taken))
                continue
            rows = self._rows_of_rest(self._main_of(redivision.first), rest, lengths)
            if rows is None:
                return None
            if rest.runs:
                totals[rank] += top.count(rows) - top.taken
            if top.owns(rows):
                left[rank] += known
        groups = self._groups(lengths, [*left, *(rows for _, rows, _ in begun)])
        if groups is None:
            return None
        for rank, count in enumerate(groups[: self.world_size]):
            totals[rank] += count
        for (rank, _, position), count in zip(begun, groups[self.world_size :], strict=True):
            totals[rank] += count - position
        return totals

    def _rows_before(self, tail: Node | None, rest: Rest, lengths: Lengths) -> int | None:
        """The number of rows before the operator that leaves rows over; None if it is not known."""
        if tail is None:
            return 0
        if rest.is_edited and (not rest.runs or tail.op.from_row(1) is not tail.op):
            return None
        rows = self._rows_of_rest(tail.inputs[0], rest, lengths)
        start = rest.starts.get(self._tail_edge) if rest.runs else None
        return rows if rows is None or start is None else start.count(rows) - start.taken

    def _rows_of_rest(self, node: Node, rest: Rest, lengths: Lengths) -> int | None:
        """The number of rows of `node` in a rest whose last edge has its beginning; None if it is not known."""

        def rows_of(node: Node, shard: int, given: int) -> int | None:
            if not has_starts(node, rest.starts, self._numbers):
                rows = lengths.of_shards(node) if 0 <= shard < lengths.shards else None
                return None if rows is None else int(rows[shard])
            inputs: list[Numbers | None] = []
            for place, source in enumerate(node.inputs):
                start = start_at(node, place, rest.starts, self._numbers)
                count = rows_of(source, *((shard, given) if start is None else (start.origin, start.given or 0)))
                if count is not None and start is not None:
                    count = start.count(count) - start.taken
                inputs.append(None if count is None else np.array([count]))
            if all(rows is None for rows in inputs):
                return None
            op = node.op.in_shard(lengths.shards)
            rows = lengths.after(node, inputs, [op.from_row(given) or op])
            return None if rows is None else int(rows[0])

        return rows_of(node, rest.shard, rest.top.given or 0)

    def _groups(self, lengths: Lengths, shards: Sequence[Sequence[int]]) -> list[int] | None:
        """The number of elements that are made of the leftover rows of some shards together."""
        if self._tail is None:
            return [0] * len(shards)
        op = self._op_of_tail(lengths.shards)
        over = [[(rows, left) for rows in own if (left := op.left_over(rows))] for own in shards]
        ops = [op.after(max((rows - left for rows, left in own), default=0)) for own in over]
        output: Numbers | None = np.array([sum(left for _, left in own) for own in over], np.int64)
        path = [self.root]
        while path[-1] is not self._tail:
            path.append(path[-1].inputs[0])
        for node in reversed(path):
            output = lengths.after(node, [output], ops if node is self._tail else None)
        if output is None:
            return None
        return [count if own else 0 for count, own in zip(output.tolist(), over, strict=True)]

    def _op_of_tail(self, shards: int) -> Grouping:
        """The operator that leaves rows over, as one of these shards runs it."""
        assert self._tail is not None, "only an operator with a tail leaves rows over"
        return cast("Grouping", self._tail.op.in_shard(shards))

    def fraction_before(self, position: Position, data_pass: int) -> float | None:
        """The fraction of this rank's part of a pass before `position`, from 0 to 1; None if it is not known.

        Of an indexed pipe, by elements; of shards, by the weights of their units. It reads nothing.
        """
        if self.indexed:
            return Amount(position.taken.total, position_count(self.indexed_pass(position.redivision))).fraction
        amounts: list[Amount] = []
        redivision = position.redivision
        for shard in self.shards_of_rank(redivision):
            if redivision is not None and redivision.rests[shard].waits:
                continue  # all of the shard is read
            stage, at = self.shard_stage(shard, redivision), position.cursor(shard).plain
            amount = stage.amount_before(at, Context(seed=self.seed, epoch=data_pass, shard=shard))
            if amount is None:
                return None
            amounts.append(amount._replace(done=amount.total) if shard in position.ended else amount)
        return Amount.sum(amounts).fraction

    def _by_rank(self, rows: Numbers, lengths: Lengths) -> list[int] | None:
        """The lengths of all ranks: of their shards, and of the groups of rows that these leave over."""
        totals: Numbers = rows.reshape(-1, self.world_size).sum(0)
        if self._tail is not None and self.shards > 1:
            before = lengths.of_shards(self._tail.inputs[0])
            groups = None if before is None else self._groups(lengths, before.reshape(-1, self.world_size).T.tolist())
            if groups is None:
                return None
            totals = totals + groups
        return cast("list[int]", totals.tolist())

    def shared_reads(self) -> dict[Node, SharedRead]:
        """The inputs that several shards or processes read, by the node that makes their rows."""
        if self.shards > 1:
            self.shard_stage(self.rank)
        reads = {
            node: SharedRead(
                f"`{node.op.kind}` holds all of its rows in the memory of each process",
                repair=f"give fewer workers, or leave out `{node.op.kind}()`, so that its rows are divided",
            )
            for node in walk(self.root)
            if node.op.trait is Trait.EACH_PROCESS
        }
        reads |= {**self._sharding.shared_reads, **self._shared_units(self.shards)}
        return {node: read._replace(size=self._bytes_below(node)) for node, read in reads.items()}

    def _shared_units(self, shards: int) -> dict[Node, SharedRead]:
        """The units that several shards would read if there were `shards`, by the nodes that expand them."""
        context = Context(seed=self.seed)
        reads = {
            node: replace(op, shards=shards).division(self._stages[node], context).shared_read()
            for node, op in self._sharding.expanded.items()
        }
        return {node: read for node, read in reads.items() if read is not None}

    def shards_for_whole_units(self, workers: int, most: float) -> int | None:
        """A smaller number of shards with which no more than `most` of an input is read again, if there is one."""
        of_rank = self.shards // self.world_size // 2
        while of_rank >= max(1, workers):
            shards = of_rank * self.world_size
            if all(read.repeated(self.world_size, workers) <= most for read in self._shared_units(shards).values()):
                return shards
            of_rank //= 2
        return None

    def _bytes_below(self, node: Node) -> int | None:
        """The bytes of all files that `node` reads; None if they are not known."""
        sizes = [
            weights.values
            for source in walk(node)
            if not source.inputs
            if (weights := self._stages[source].weights(Context())) is not None and not weights.are_rows
        ]
        return int(sum(size.sum() for size in sizes)) if sizes and all((size >= 0).all() for size in sizes) else None

    def stage_named(self, name: str) -> Stage:
        """The stage of that name in the graph without shards."""
        return next(self._stages[node] for node in walk(self.root) if self.names[node] == name)

    def stage_of(self, node: Node) -> Stage:
        """The stage of `node` in the graph without shards."""
        return self._stages[node]

    def length_of(self, node: Node) -> int | None:
        """The number of rows of `node` in the graph without shards, if it is known."""
        return self._stages[node].length

    def shard_points(self) -> set[Node]:
        """The nodes whose output is divided among the shards."""
        return {self.root} if self.indexed else self._sharding.shard_points(self.root)

    def _bound(self, node: Node) -> Stage:
        return bind(node, self.names, self._stages)

    def _find_tail(self) -> Node | None:
        """The last operator that regroups, if a rank can make groups of the rows that its shards leave over.

        It cannot if an operator after it looks at positions or runs it several times, or if the shard is indexed: its
        length already counts an incomplete last group.
        """
        node = self.root
        while self._sharding.runs_per_shard(node) and not node.indexed:
            if node.op.order is Order.REGROUPS:
                return node
            if len(node.inputs) != 1 or node.op.order is Order.GLOBAL or node.op.trait is Trait.REPEATS:
                return None
            node = node.inputs[0]
        return None

    def _tail_node(
        self,
        waiting: Sequence[Rest],
        sharding: Sharding,
        names: dict[Node, str],
        at_hand: Sequence[BlockRows | None] = (),
    ) -> Node:
        """The graph that makes groups of leftover rows.

        Args:
            waiting: the rests whose rows they are.
            sharding: the rules of the shards that left them over.
            names: takes the names of the nodes.
            at_hand: the rows of each rest, if this process still has them.
        """
        assert self._tail is not None, "only an operator with a tail leaves rows over"
        (source,) = self._tail.inputs
        parts = tuple(
            Node(
                RestOfShard(rest.top, sharding.shards, None, at_hand=rows),
                (sharding.rest(source, rest, self._numbers),),
            )
            for rest, rows in zip(waiting, at_hand or [None] * len(waiting), strict=True)
        )
        names.update(sharding.names)
        before = max((rest.top.given or 0) + Cursor.of(rest.top.cursor).position for rest in waiting)
        op = self._op_of_tail(sharding.shards).after(before)
        return self._with_tail(op, (parts[0] if len(parts) == 1 else Node(Concat(), parts),), names)

    @property
    def main(self) -> Node:
        """The graph that shards run: its operator that leaves rows over drops an incomplete last group."""
        return self._main_of(self.shards)

    def _main_of(self, shards: int) -> Node:
        """The graph of each of `shards` shards; a single one makes its incomplete last group itself."""
        return self.root if shards == 1 else self._main

    def _with_tail(self, op: Operator, inputs: tuple[Node, ...], names: dict[Node, str]) -> Node:
        """The graph in which another operator with other inputs replaces the one that leaves rows over."""
        above = []
        node = self.root
        while node is not self._tail:
            above.append(node)
            node = node.inputs[0]
        rebuilt = Node(op, inputs, node.call_site)
        names[rebuilt] = self.names[node]
        for node in reversed(above):
            rebuilt = with_inputs(node, (rebuilt,))
            names[rebuilt] = self.names[node]
        return rebuilt


def accounts_of(root: Node) -> tuple[Account, ...]:
    """What a ledger counts: rows, and perhaps tokens, of each source that a mixture in the graph names."""
    accounts: list[Account] = []
    seen: set[tuple[Node, str]] = set()
    waiting = [(root, "")]
    while waiting:
        node, branch = waiting.pop()
        if (node, branch) in seen or node.op.trait in READS_FOR_ALL_EPOCHS:
            continue
        seen.add((node, branch))
        units = ("rows", "tokens") if getattr(node.op, "by", None) is not None else ("rows",)
        names = [branch + name for name in node.op.input_names]
        accounts += [Account(name, unit) for name in names for unit in units]
        below = [f"{name}/" for name in names] or [branch] * len(node.inputs)
        waiting += reversed([*zip(node.inputs, below, strict=True)])
    return in_order(accounts)


def _count(root: Node, world_size: int, shards: int | None) -> int:
    """The number of virtual shards: with a shuffle enough for some workers, without one those that keep the order."""
    if shards is None:
        # A single rank can read the rows of an indexed pipe in their order, however it shuffles them.
        return world_size * (SHUFFLED_SHARDS if reorders(root) and not (root.indexed and world_size == 1) else 1)
    if shards % world_size:
        raise PlanError(
            f"`shards` must be a multiple of the {world_size} ranks, because all ranks have the same number of shards, "
            f"but got: {shards}"
        )
    return shards


# The graph that workers get, without what runs in the training process.


def worker_graph(root: Node) -> Node:
    """The graph to send to workers: the operators before `remote`, and stand-ins for the rest, which may not travel.

    The plans of both graphs are the same. Without `remote`, the graph stays as it is.
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
    return [stage for stage in walk(root) if stage.op.trait is Trait.WORKERS]


def _is_remote(node: Node) -> bool:
    return node.op.trait is Trait.WORKERS


def _stand_in(node: Node) -> LocalOperator:
    op = node.op
    return LocalOperator(
        kind=op.kind,
        name=op.name,
        order=getattr(op, "order", None),
        trait=op.trait,
        expands=op.expands,
        has_new_order=bool(node.inputs) and op.reshuffles(),
        is_indexed=node.indexed,
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LocalOperator(Grouping):
    """Replaces an operator of the training process in workers. Plans are the same with it, and nothing runs it."""

    kind: str  # type: ignore[misc]
    name: str | None
    order: Order | None  # type: ignore[assignment, misc]
    trait: Trait | None  # type: ignore[misc]
    expands: bool  # type: ignore[misc]
    has_new_order: bool
    is_indexed: bool

    def reshuffles(self) -> bool:
        return self.has_new_order

    def indexed(self, inputs: Sequence[bool]) -> bool:
        return self.is_indexed

    def length(self, stage: StageView) -> int | None:
        return None

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        raise AssertionError(f"{self.kind} runs in the training process")
