"""`Stage`: an operator bound to its inputs for runs. This is the engine."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from threading import Lock
from types import MappingProxyType
from typing import TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..core.block import AdaptiveBlockSize, Block, parted, skip_rows
from ..core.context import Context, Tracer
from ..core.cursor import START, Cursor, Json
from ..core.graph import Node, names, node_code, walk
from ..core.lazy import pa
from ..core.operator import READS_FOR_ALL_EPOCHS, Ahead, Amount, Operator, Order, Source, Trait, Weights, fill_unknown
from ..core.origins import Origins, RowCounts
from ..core.rows import BlockRows, Indices, concat, index_array
from ..core.skips import Skipped, covers, skips
from ..core.times import here, measured_blocks
from ..errors import CallSite, FeedpipeError, Origin, PlanError, RowError, raise_interrupt, text_of
from .ahead import rows_ahead
from .prefetch import in_thread
from .skips import blocks_around, code_without_policy, lost_of, parted_cursor, rows_around

T = TypeVar("T")

MAX_MEMO_BYTES = 2**26
"""The size of the values that a stage remembers for its operator: 16 permutations of 2**20 rows, one for each round."""
MEMO_BYTES = 2**24
"""The size of a value that does not tell its own."""

MAX_PART_OF_UNITS = 8
"""A block of units of work has at most this part of those that are left."""

_UNASKED = object()


class Stage:
    """One node of a graph, bound: an `Input` for the operators that read from it, a `StageView` for its own.

    Code that makes blocks keeps no reference to a block that it has yielded (`yield block.pop()`). So a block is freed
    while it is in the cache, and a chain holds one block, not one for each operator.

    Attributes:
        node, op, name: the node, its operator, and its name for keys of randomness.
        root: the end of the graph in which the node was bound first.
        inputs: the stages it reads from.
        indexed: it has rows by position.
        begins: the stages whose work for its rows begins before `rows` asks for them: itself, or some before it.
        may_skip: a policy may leave out rows here or before.
        one_for_one: each row is made of the row of the input at the same position.
        leaves_out: skipped rows end here, because its operator does not know of them; its cursors then count them.
        loses_elements: it may leave out rows of the output; else these are regrouped, and only become shorter.
        counted: named sources are at it or before, and a ledger counts their rows.
        main_thread: it, or an input, must run in the consumer's thread.
    """

    def __init__(self, node: Node, name: str, inputs: tuple[Stage, ...], root: Node | None = None) -> None:
        op = node.op
        self.node = node
        self.root = node if root is None else root
        self.op = op
        self.name = name
        self.inputs = inputs
        self.indexed = node.indexed
        self.main_thread: bool = op.trait is Trait.MAIN_THREAD or any(stage.main_thread for stage in inputs)
        # An operator that regroups asks for several rows, which are then fetched together.
        regroups = bool(inputs) and op.order is Order.REGROUPS
        self._begins_itself: bool = self.indexed and op.ahead() is not None
        self._begins_before = self._find_begins(regroups)
        skips_rows = skips(op.on_error)
        meets_skipped = any(stage.may_skip for stage in inputs)
        # Rows that are kept for all epochs come without a count.
        self.counted: bool = op.trait not in READS_FOR_ALL_EPOCHS and (
            bool(op.input_names) or any(stage.counted for stage in inputs)
        )
        self.may_skip: bool = skips_rows or meets_skipped
        self.loses_elements: bool = not regroups and (skips_rows or any(s.loses_elements for s in inputs))
        self.one_for_one: bool = len(inputs) == 1 and type(op).trace is Operator.trace and (op.seeks or self.indexed)
        self._guards: bool = not op.moves_skipped and (
            meets_skipped or (skips_rows and bool(inputs) and not self.one_for_one)
        )
        self.leaves_out: bool = self._guards and not self.one_for_one
        # A group that some rows are left out of is made of any number of rows.
        groups = regroups or not (op.moves_skipped or self.one_for_one)
        self._seeks: bool = op.seeks and not (meets_skipped and groups)
        self._buffer: int = max([op.buffer, *(stage._buffer for stage in inputs if self.indexed)])
        self._last_size: AdaptiveBlockSize | None = None  # of the last producer that reads it by index
        self._length: object = _UNASKED
        self._schema: object = _UNASKED
        self._memos: dict[Hashable, tuple[object, int]] = {}  # each with its size
        self._memo_bytes = 0
        self._lock = Lock()

    def _find_begins(self, regroups: bool) -> frozenset[Stage]:
        if not self.indexed or self._begins_itself or self.op.trait in READS_FOR_ALL_EPOCHS:
            return frozenset()
        begins = frozenset[Stage]().union(*(stage.begins for stage in self.inputs))
        return frozenset(s for s in begins if cast("Ahead", s.op.ahead()).together) if regroups else begins

    @property
    def begins(self) -> frozenset[Stage]:
        """The stages that begin work ahead for rows of this one."""
        # A stage that kept itself would not be freed at once, and neither would the files that its operator keeps open.
        return frozenset((self,)) if self._begins_itself else self._begins_before

    @property
    def call_site(self) -> CallSite | None:
        """The user's line that put the operator into the chain."""
        return self.node.call_site

    @property
    def input(self) -> Stage:
        """The only input."""
        try:
            (stage,) = self.inputs
        except ValueError:
            raise PlanError(
                f"`{node_code(self.node)}` must have one input but has {len(self.inputs)}, because its code reads "
                "`stage.input`; chain it to one pipe, or let it read `stage.inputs`",
                at=self.call_site,
            ) from None
        return stage

    @property
    def length(self) -> int | None:
        """The number of rows, if it is known without a run; an indexed stage must know it."""
        # No `cached_property`: up to Python 3.11 that holds one lock for all instances, and `load` runs a pipe here.
        if self._length is _UNASKED:
            length = self.op.length(self)
            if self.indexed and length is None:
                raise no_length(self.node)
            self._length = length if length is None else check_row_count(length, self.node)
        return cast("int | None", self._length)

    @property
    def schema(self) -> pa.Schema | None:
        """Names and types of the columns, if the rows are those of a table and a run is not needed to know them."""
        if self._schema is _UNASKED:
            self._schema = self.op.schema(self)
        return cast("pa.Schema | None", self._schema)

    def weights(self, context: Context) -> Weights | None:
        """The weights of the rows of an indexed stage, if they are known; one for each row or granule."""
        weights = self.op.weights(self, context) if self.indexed else None
        if weights is None or self.length is None:
            return None
        return weights if len(weights.values) == -(-self.length // weights.granule) else None

    def amount_before(self, plain: Json, context: Context) -> Amount | None:
        """The data that is read before a plain cursor, by the weights of units; None if it is not known."""
        at = Cursor.of(plain)
        if self.leaves_out:
            at, _ = parted_cursor(at, len(self.inputs))
        if not self.indexed and (amount := self.op.amount_before(self, at, context)) is not None:
            return amount
        if (length := self.length) is None:
            return None
        position = min(at.position, length)
        before = self.memo(
            ("weights before", context.seed, context.epoch, context.rounds), lambda: self._weights_before(context)
        )
        if before is None:
            return Amount(position, length)
        return Amount(float(before[position]), float(before[-1]))

    def _weights_before(self, context: Context) -> npt.NDArray[np.float64] | None:
        weights = self.weights(context)
        if weights is None or weights.granule > 1:
            return None
        return np.concatenate([[0.0], np.cumsum(fill_unknown(weights.values), dtype=np.float64)])

    def memo(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result of `make()` for `key`, kept for the last few keys; for costly functions of the key."""
        memo = self._memos.get(key)
        if memo is None:
            value = make()
            memo = value, 1024 + int(getattr(value, "nbytes", MEMO_BYTES - 1024))
            with self._lock:  # not held by `make`: two threads then make the value twice
                self._memo_bytes += memo[1] - self._memos.get(key, (None, 0))[1]
                self._memos[key] = memo
                while len(self._memos) > 1 and self._memo_bytes > MAX_MEMO_BYTES:
                    self._memo_bytes -= self._memos.pop(next(iter(self._memos)))[1]
        return cast("T", memo[0])

    def rows(self, indices: Indices, context: Context) -> BlockRows:
        """The rows at `indices`; indexed stages only."""
        if context.tracing.tracer is not None:
            return self._traced_rows(indices, context, context.tracing.tracer)
        if (measured := here.measured) is None:
            return self._own_rows(indices, context)
        return measured.measure(self.name, self._own_rows, indices, context)

    def _own_rows(self, indices: Indices, context: Context) -> BlockRows:
        return rows_around(self, indices, context) if self._guards else self.op.rows(self, indices, context)

    def blocks(self, at: Cursor, context: Context) -> Iterator[Block]:
        """The rows from `at` on."""
        if (given := context.process.given.get(self)) is not None:
            blocks = given(at, context)
            if context.tracing.tracer is not None:
                blocks = self._traced_blocks(blocks, context.tracing.tracer)
            return context.running.add(blocks)
        if self._buffer and not self.main_thread:
            blocks = in_thread(lambda inner: self._blocks(at, inner), self._buffer, context, self.name)
        else:
            blocks = self._blocks(at, context)
        if context.tracing.tracer is not None and not self.indexed:
            blocks = self._traced_blocks(blocks, context.tracing.tracer)
        if context.pacing.cut is not None:
            blocks = _slice_blocks(blocks, context.pacing.cut)
        return context.running.add(blocks)

    def _blocks(self, at: Cursor, context: Context) -> Iterator[Block]:
        if self.indexed:
            return self._by_index(at, context)
        seeks = self._seeks
        start = at if seeks else Cursor(at.token, 0, at.row)
        blocks = blocks_around(self, start, context) if self._guards else self.op.blocks(self, start, context)
        if not isinstance(blocks, Iterator):
            raise PlanError(
                f"`blocks` of `{node_code(self.node)}` must return an iterator of blocks but returned a value "
                f"of type {type(blocks).__name__}; write it as a generator that yields blocks",
                at=self.call_site,
            )
        blocks = context.running.add(blocks)
        blocks = skip_rows(blocks, at.skip) if at.skip and not seeks else blocks
        return context.running.add(measured_blocks(self.name, blocks))

    def _traced_rows(self, indices: Indices, context: Context, tracer: Tracer) -> BlockRows:
        parts: list[BlockRows] = []
        code = node_code(self.node)
        for index in indices:
            origin = self.origin(int(index), context)
            tracer.enter(code, self.call_site, origin)
            parts.append(self._own_rows(range(index, index + 1), context))
            tracer.leave(origin)
        return concat(parts) if parts else self._own_rows(indices, context)

    def _traced_blocks(self, blocks: Iterator[Block], tracer: Tracer) -> Iterator[Block]:
        code = node_code(self.node)
        while True:
            tracer.enter(code, self.call_site)
            block = next(blocks, None)
            tracer.leave(block.origins[-1] if block and block.origins else None)
            if block is None:
                return
            yield block

    def origin(self, index: int, context: Context) -> Origin | None:
        """The origin of row `index` of an indexed stage, traced to a stage that knows it."""
        stage = self
        while not isinstance(op := stage.op, Source):
            first = next(op.trace(stage, index, context), None)
            if first is None:
                return None
            stage, index, context = cast("tuple[Stage, int, Context]", first)
        return op.origin(stage, index, context)

    def origins(self, index: int, context: Context) -> Iterator[Origin | None]:
        """The origin of each row that row `index` of an indexed stage is made of."""
        if isinstance(self.op, Source):
            yield self.op.origin(self, index, context)
            return
        for source, row, inner in self.op.trace(self, index, context):
            yield from cast("Stage", source).origins(row, inner)

    def counts(self, indices: Indices, context: Context, lost: Lost = MappingProxyType({})) -> RowCounts | None:
        """The rows of named sources that the rows at `indices` of an indexed stage are made of; it reads nothing.

        Args:
            indices, context: as for `rows`.
            lost: the rows that were skipped, by the operator that did so.
        """
        if not self.counted and not lost:
            return None
        counts = self._counts_of_inputs(indices, context, lost)
        if not lost or (places := lost.get((self.name, context.rounds))) is None:
            return counts
        return RowCounts.without(counts, np.isin(index_array(indices), [*places]))

    def _counts_of_inputs(self, indices: Indices, context: Context, lost: Lost) -> RowCounts | None:
        if self.op.input_names and not lost and not any(stage.counted for stage in self.inputs):
            return RowCounts.of_inputs(self.op.input_names, self.op.inputs_of(self, indices, context))
        own: Indices | None = None
        names, parts, places = self.op.input_names, list[tuple[RowCounts | None, int]](), list[Indices]()
        for number, rows, own, inner in self.op.traced(self, indices, context):
            counts = self.inputs[number].counts(rows, inner, lost)
            if names:
                inputs = np.full(len(rows), number)
                counts = RowCounts.of_inputs(names, inputs, counts and counts.below(names[number]))
            parts.append((counts, len(rows)))
            places.append(range(len(indices)) if own is None else own)
        total = RowCounts.joined(parts)
        if total is None or (len(parts) == 1 and own is None):
            return total
        owners = np.concatenate([*map(index_array, places)])
        order = np.argsort(owners, kind="stable")
        if len(owners) == len(indices) and (owners[order] == np.arange(len(indices))).all():
            return total.select(order)
        return total.summed(np.arange(len(owners)), owners, len(indices))

    def _by_index(self, at: Cursor, context: Context) -> Iterator[Block]:
        # The position is the cursor: no token, `skip` counts from the start.
        length = self.length
        assert length is not None, "an indexed pipe knows its length"
        block_size = context.block_size()
        if isinstance(block_size, AdaptiveBlockSize):
            source = self._source_of_shards()
            if source._last_size is not None:
                block_size.begin_like(source._last_size)
            source._last_size = block_size
        start = at.position
        context = replace(context, started={})  # an operator around may run this while its own work waits
        if self.begins and context.process.threads:
            start = yield from rows_ahead(self, range(start, length), context, block_size)
        while start < length:
            rows = block_size.rows()
            if self.op.trait is Trait.DEALS_UNITS:
                rows = min(rows, 1 + (length - start) // MAX_PART_OF_UNITS)
            stop = min(start + rows, length)
            yield from self.made(start, stop, context, block_size.produced)
            start = stop

    def _source_of_shards(self) -> Stage:
        """The stage that the shards of all epochs share, if this one has the rows of a shard."""
        source = self
        while source.one_for_one:
            source = source.inputs[0]
        return source.inputs[0] if source.inputs and source.op.order is Order.GLOBAL else source

    def made(self, start: int, stop: int, context: Context, note: Callable[[BlockRows], object]) -> Iterator[Block]:
        """Rows `start` to `stop` (exclusive) of an indexed stage, as a block; `note` looks at them first.

        If one of them fails, those before it come one by one, and then its error. If none fails this time, the error
        comes as well: nothing is repaired silently.
        """
        started = context.started.copy()
        block: list[Block] = []
        failure: list[Exception] = []
        try:
            block.append(self._block(start, stop, context))
        except Exception as error:
            raise_interrupt(error)
            if stop - start == 1:
                raise
            failure.append(error)
        if failure:  # not within `except`: the user's error, raised again, would show the first one as its context
            context.started.update(started)  # their results serve again, so no function is called twice
            for index in range(start, stop):
                yield self._block(index, index + 1, context)
            raise failure.pop()
        context.started.clear()
        del started  # only the consumer holds results now
        note(block[0].rows)
        yield block.pop()

    def _block(self, start: int, stop: int, context: Context) -> Block:
        rows = self.rows(range(start, stop), context)
        origins, counts = None, None
        if context.tracing.origins:
            origins = [Origin.joined(self.origins(i, context)) for i in range(start, stop)]
        if context.tracing.counts:
            counts = self.counts(range(start, stop), context, _lost_in(rows) if self.may_skip else {})
        return Block(rows, START.advance(start), START.advance(stop), Origins.of(origins, counts))

    def failed(self, error: Exception, at: Cursor, context: Context) -> Exception:
        """The error to raise if a function failed on the input row at `at`: names operator, line, file and row."""
        return self._row_error(error, lambda: self._origin_at(at, context))

    def failed_at(self, error: Exception, index: int, context: Context) -> Exception:
        """As `failed`, for row `index` of an indexed input."""
        return self._row_error(error, lambda: self.input.origin(index, context))

    def failed_on(self, error: Exception, origin: Origin | None) -> Exception:
        """As `failed`, for a source, which knows the origin of its rows."""
        return self._row_error(error, lambda: origin)

    def skip(
        self, error: Exception, place: Cursor | int, row: object, context: Context, origin: Origin | None = None
    ) -> Skipped | None:
        """The mark of a row that failed; None if the error must be raised."""
        raise_interrupt(error)
        if not skips(self.op.on_error) or not covers(error):
            return None
        position = place.position if isinstance(place, Cursor) else place
        if context.tracing.raises == (self.name, position):
            return None

        def find_origin() -> Origin | None:
            if origin is not None or not self.inputs:
                return origin
            return self._origin_at(place, context) if isinstance(place, Cursor) else self.input.origin(place, context)

        code = self.memo("code", lambda: code_without_policy(self.node))
        return lost_of(self.op.on_error, code, self.name, error, place, row, context, find_origin)

    def _origin_at(self, at: Cursor, context: Context) -> Origin | None:
        with closing(context.replay()) as replay:
            blocks = self.input.blocks(at, replay)
            block = next(blocks, None)
        return block.origins[0] if block and block.origins else None

    def _row_error(self, error: Exception, find_origin: Callable[[], Origin | None]) -> Exception:
        raise_interrupt(error)
        if isinstance(error, FeedpipeError):
            return error
        try:
            origin = (joined := find_origin()) and joined.rows[0]
        except Exception:  # the replay failed too; the first error is the one to show
            origin = None
        code = node_code(self.node)
        where = self.call_site
        message = f"`{code}` failed with {type(error).__name__}: {text_of(error)}"
        if isinstance(error, ValueError) and "read-only" in str(error):
            message += "; arrays in rows are shared with other epochs and rows: write `x = x.copy()` first"
        if origin is not None:
            message += f"\n  on {origin}"
        if where is not None:
            message += f"\n  at {where.file}:{where.line}"
        row_error = RowError(message, operator=code, where=where, origin=origin)
        row_error.__cause__ = error
        return row_error


Lost: TypeAlias = Mapping[tuple[str, tuple[int, ...]], set[int]]
"""The positions of skipped rows, by the name of an operator and the rounds around it."""


def _lost_in(rows: BlockRows) -> Lost:
    """The rows that were skipped in the making of these."""
    lost: dict[tuple[str, tuple[int, ...]], set[int]] = {}
    for mark in parted(rows).skipped.values():
        for skip in mark.skips:
            rounds, position = skip.place
            lost.setdefault((skip.name, rounds), set()).add(position)
    return lost


def no_length(node: Node) -> PlanError:
    """The error of an indexed operator that knows no length."""
    return PlanError(
        f"`{node_code(node)}` gives rows by position and must know how many there are, because nothing else says "
        "where they end; define `length`, or let `indexed` give False",
        at=node.call_site,
    )


def check_row_count(length: object, node: Node) -> int:
    """`length`, which the operator of `node` returned; a `PlanError` if it is no number of rows."""
    try:
        count = operator.index(length)  # type: ignore[arg-type]
    except TypeError:
        count = -1
    if count < 0:
        raise PlanError(
            f"`length` of `{node_code(node)}` must be an int >= 0, or None, but is: {length!r}", at=node.call_site
        )
    return count


def bind(
    root: Node,
    fixed_names: dict[Node, str] | None = None,
    stages: dict[Node, Stage] | None = None,
) -> Stage:
    """The graph below `root`, bound.

    Args:
        fixed_names: names of operators that must stay although the graph around them was rewritten.
        stages: stages to use for nodes that are bound already; new ones are added. Graphs that share nodes then share
            stages.

    Raises:
        PlanError: an operator is indexed and defines no length.
    """
    stages = {} if stages is None else stages
    if root in stages:
        return stages[root]
    new_names: dict[Node, str] = {}
    for node in walk(root):
        if node not in stages:
            if node.indexed and type(node.op).length is Operator.length:
                raise no_length(node)
            if (name := (fixed_names or {}).get(node)) is None:
                new_names = new_names or names(root)
                name = new_names[node]
            stages[node] = Stage(node, name, tuple(stages[child] for child in node.inputs), root)
    return stages[root]


def resolve(
    root: Node,
    resolved_ops: Mapping[Node, Operator] = MappingProxyType({}),
    replaced_ops: Mapping[Node, Operator] = MappingProxyType({}),
) -> Node:
    """The graph, with all fixed that must be known before the first row: listings, column names and types.

    Each node keeps its resolved form. So a pipe looks at its files once, at its first use; all loaders of the pipe,
    and all pipes chained to it, then see the same files.

    Args:
        root: the graph.
        resolved_ops: operators that another rank has resolved, for nodes that have none yet.
        replaced_ops: operators to resolve instead of those of the graph, even if a node keeps others.
    """
    stages: dict[Node, Stage] = {}
    resolved: dict[Node, Node] = {}
    keys: dict[Node, int] = {}  # of the names of a node and those before it, on which draws depend
    all_names = names(root)
    for node in walk(root):
        inputs = tuple(resolved[child] for child in node.inputs)
        keys[node] = key = hash((all_names[node], *(keys[child] for child in node.inputs)))
        input_stages = tuple(stages[child] for child in node.inputs)
        kept_key, kept = node.resolved
        replaced = replaced_ops.get(node)
        if replaced is not None or kept_key != key or (node if kept is None else kept).inputs != inputs:
            same = node if inputs == node.inputs else Node(node.op, inputs, node.call_site)
            stage = Stage(same, all_names[node], input_stages)
            op = resolved_ops.get(node) if replaced is None else replaced.resolve(stage)
            op = op or node.op.resolve(stage)
            kept = same if op is node.op else Node(op, inputs, node.call_site)
            kept = None if kept is node else kept  # a node that held itself would not be freed at once
            object.__setattr__(node, "resolved", (key, kept))
        resolved[node] = node if kept is None else kept
        stages[node] = Stage(resolved[node], all_names[node], input_stages)
    return resolved[root]


def _slice_blocks(blocks: Iterator[Block], sizes: Callable[[int], list[int]]) -> Iterator[Block]:
    for block in blocks:
        start = 0
        for size in sizes(len(block)):
            yield block.slice(start, start + size)
            start += size
