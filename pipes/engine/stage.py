"""`Stage`: an operator bound to its inputs for runs. This is the engine."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias, TypeVar, cast

from ..core.block import Block, skipping
from ..core.context import Context, Tracer
from ..core.cursor import START, Cursor
from ..core.graph import Node, names, node_code, walk
from ..core.operator import Boundary, Operator, Order
from ..core.rows import BlockRows, Indices, concat
from ..errors import FeedpipeError, Origin, PlanError, RowError, with_call_site
from .prefetch import ahead
from .readahead import Together, Work, begun_ahead

T = TypeVar("T")

_Works: TypeAlias = "Together[tuple[Stage, int], Work]"

_UNASKED = object()


class Stage:
    """One node of a graph, bound: what an operator's code sees of the world.

    The code that makes blocks holds none that it has handed on (`yield made.pop()`): then what the consumer drops is
    freed at once, while it is in the cache, and a chain holds one block, not one for each operator.

    Attributes:
        node, op, name: the node, its operator, and its name for keys of randomness.
        inputs: the stages it reads from.
        indexed: whether `rows` answers.
        waits: whether its rows, made one by one by `rows`, may mostly wait for storage.
        counted: the run whose lengths are asked for, where they are another in each.
    """

    def __init__(self, node: Node, name: str, inputs: tuple[Stage, ...], counted: Context | None = None) -> None:
        self.node = node
        self.op = node.op
        self.name = name
        self.inputs = inputs
        self.indexed = node.indexed
        self.counted = counted or Context()
        self.main_thread: bool = self.op.main_thread or any(stage.main_thread for stage in inputs)
        # Who regroups asks for several rows, which are then fetched together.
        regroups = bool(inputs) and self.op.order is Order.REGROUPS
        passes = self.indexed and self.op.boundary is not Boundary.EACH_PROCESS and not regroups
        self.waits: bool = self.op.waits or (passes and any(stage.waits for stage in inputs))
        self._length: object = _UNASKED
        self._made: dict[Hashable, object] = {}
        self._buffer: int = max([self.op.buffer, *(stage._buffer for stage in inputs)]) if self.indexed else 0

    @property
    def input(self) -> Stage:
        """The only input."""
        (stage,) = self.inputs
        return stage

    @property
    def length(self) -> int | None:
        """How many rows come out, if known without running."""
        # No `cached_property`: up to Python 3.11 that holds one lock for all instances, and `load` runs a pipe here.
        if self._length is _UNASKED:
            length = self.op.length(self)
            if self.indexed and length is None:
                raise _no_length(self.node)
            self._length = length
        return cast("int | None", self._length)

    def memo(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make()` gave for `key`; the last few keys are kept. For what is costly and a function of its key."""
        if key not in self._made:
            made = make()
            while len(self._made) >= 4:
                self._made.pop(next(iter(self._made)), None)
            self._made[key] = made
        return self._made[key]  # type: ignore[return-value]

    def rows(self, indices: Indices, context: Context) -> BlockRows:
        """The rows at `indices`; indexed stages only."""
        if context.note is not None:
            return self._noted_rows(indices, context, context.note)
        return self.op.rows(self, indices, context)

    def blocks(self, at: Cursor, context: Context) -> Iterator[Block]:
        """The rows from `at` on."""
        if self.indexed:
            blocks = ahead(lambda c: self._by_index(at, c), 0 if self.main_thread else self._buffer, context)
        elif self.op.seeks:
            blocks = self.op.blocks(self, at, context)
        else:
            blocks = self.op.blocks(self, Cursor(at.token, 0, at.row), context)
            if at.skip:
                blocks = skipping(blocks, at.skip)
        if context.note is not None and not self.indexed:
            blocks = self._noted_blocks(blocks, context.note)
        return blocks if context.cut is None else _cut(blocks, context.cut)

    def _noted_rows(self, indices: Indices, context: Context, note: Tracer) -> BlockRows:
        parts: list[BlockRows] = []
        for index in indices:
            origin = self.origin(int(index), context)
            note.enter(self, origin)
            parts.append(self.op.rows(self, range(index, index + 1), context))
            note.leave(origin)
        return concat(parts) if parts else self.op.rows(self, indices, context)

    def _noted_blocks(self, blocks: Iterator[Block], note: Tracer) -> Iterator[Block]:
        while True:
            note.enter(self)
            block = next(blocks, None)
            note.leave(block.origins[-1] if block and block.origins else None)
            if block is None:
                return
            yield block

    def origin(self, index: int, context: Context) -> Origin | None:
        """Where row `index` of an indexed stage comes from."""
        if context.begins is None:
            return self.op.origin(self, index, context)
        if self.op.waits:
            context.begins[self, index] = self.op.begin(self, index, replace(context, begins=None))
        elif self.waits:
            self.op.origin(self, index, context)
        return None

    def begun(self, indices: Indices, context: Context) -> Work | None:
        """What `begin` of its operator has made for the only row at `indices`; whoever asks has to use it."""
        return context.begun.pop((self, int(indices[0])), None) if len(indices) == 1 else None

    def _by_index(self, at: Cursor, context: Context) -> Iterator[Block]:
        # The position is the cursor: no token, `skip` counts from the start.
        length = self.length
        assert length is not None, "an indexed pipe knows its length"
        block_size = context.block_size()
        start = at.position
        waits = self.waits and context.threads
        while start < length:
            if waits and start > at.position:  # who wants a second row reads on
                start, waits = yield from self._begun_ahead(range(start, length), context)
                if start == length:
                    return
            stop = min(start + block_size.rows(), length)
            try:
                made = [self._block(start, stop, context)]
            except Exception as error:
                if stop - start > 1:
                    yield from self._one_by_one(range(start, stop), context, error)
                raise
            block_size.produced(made[0].rows)
            yield made.pop()
            start = stop

    def _begun_ahead(self, indices: range, context: Context) -> Generator[Block, None, tuple[int, bool]]:
        """Rows at `indices` one by one, up to the first that waits for nothing; what they wait for is begun ahead.

        Returns the position of that row, and whether others might wait.
        """
        context = replace(context, begun={})
        items = ((index, *self._awaited(index, context)) for index in indices)
        with begun_ahead(items, lambda item, ahead: item[1], lambda item: bool(item[1])) as rows:
            for (index, works, near), _ in rows:
                if not works:
                    return index, not near
                context.begun.update(works)
                del works, _
                made = [self._block(index, index + 1, context)]
                context.begun.clear()
                yield made.pop()
        return indices.stop, False

    def _awaited(self, index: int, context: Context) -> tuple[_Works, bool]:
        """What row `index` waits for, in all stages that it comes from; and whether some of that is near."""
        begins: dict[tuple[Stage, int], Work | None] = {}
        with suppress(Exception):  # it comes in its turn, from `rows`
            self.origin(index, replace(context, begins=begins))
        return Together({place: work for place, work in begins.items() if work is not None}), None in begins.values()

    def _block(self, start: int, stop: int, context: Context) -> Block:
        rows = self.rows(range(start, stop), context)
        origins = [self.origin(i, context) for i in range(start, stop)] if context.origins else None
        return Block(rows, START.advance(start), START.advance(stop), origins)

    def _one_by_one(self, indices: range, context: Context, error: Exception) -> Iterator[Block]:
        # Rows before the failing one are delivered first. The error is raised even when it does not come again:
        # a failure is never repaired in silence.
        for index in indices:
            try:
                rows = self.rows(range(index, index + 1), context)
            except Exception as again:
                raise again from again.__cause__
            yield Block(rows, START.advance(index), START.advance(index + 1))
        raise error

    def failed(self, error: Exception, at: Cursor, context: Context) -> Exception:
        """The error to raise when a function failed on the input row at `at`: names operator, line, file and row."""
        return self._row_error(error, lambda: self._origin_at(at, context))

    def failed_on(self, error: Exception, origin: Origin) -> Exception:
        """As `failed`, for a source that knows where the row comes from."""
        return self._row_error(error, lambda: origin)

    def failed_at(self, error: Exception, index: int, context: Context) -> Exception:
        """As `failed`, for row `index` of an indexed input."""
        return self._row_error(error, lambda: self.input.origin(index, context))

    def _origin_at(self, at: Cursor, context: Context) -> Origin | None:
        block = next(self.input.blocks(at, context.replay()), None)
        return block.origins[0] if block and block.origins else None

    def _row_error(self, error: Exception, find: Callable[[], Origin | None]) -> Exception:
        if isinstance(error, FeedpipeError):
            return error
        try:
            origin = find()
        except Exception:  # a replay may fail as well; the first error is the one to tell
            origin = None
        call = node_code(self.node)
        where = self.node.call_site
        message = f"`{call}` failed with {type(error).__name__}: {error}"
        if origin is not None:
            message += f"\n  on {origin}"
        if where is not None:
            message += f"\n  at {where.file}:{where.line}"
        made = RowError(message, operator=call, where=where, origin=origin)
        made.__cause__ = error
        return made


def _no_length(node: Node) -> PlanError:
    return PlanError(
        with_call_site(
            f"`{node_code(node)}` gives rows by position and must know how many there are, because nothing else says "
            "where they end; define `length`, or let `indexed` give False",
            node.call_site,
        )
    )


def bind(
    root: Node,
    known: dict[Node, str] | None = None,
    stages: dict[Node, Stage] | None = None,
    counted: Context | None = None,
) -> Stage:
    """The graph below `root`, bound.

    Args:
        known: names of operators, where a rewrite would change them.
        stages: those already bound are used, new ones are added: graphs that share nodes then share stages.
        counted: the run whose lengths will be asked for.
    """
    found = names(root) | (known or {})
    stages = {} if stages is None else stages
    for node in walk(root):
        if node not in stages:
            if node.indexed and type(node.op).length is Operator.length:
                raise _no_length(node)
            stages[node] = Stage(node, found[node], tuple(stages[child] for child in node.inputs), counted)
    return stages[root]


def resolve(root: Node) -> Node:
    """The graph with all that must be fixed before the first row (listings, column names and types) fixed."""
    stages: dict[Node, Stage] = {}
    made: dict[Node, Node] = {}
    found = names(root)
    for node in walk(root):
        inputs = tuple(made[child] for child in node.inputs)
        bound = tuple(stages[child] for child in node.inputs)
        stage = Stage(node if inputs == node.inputs else Node(node.op, inputs, node.call_site), found[node], bound)
        op = node.op.resolve(stage)
        if op is not node.op:
            stage = Stage(Node(op, inputs, node.call_site), found[node], bound)
        made[node], stages[node] = stage.node, stage
    return made[root]


def _cut(blocks: Iterator[Block], sizes: Callable[[int], list[int]]) -> Iterator[Block]:
    for block in blocks:
        start = 0
        for size in sizes(len(block)):
            yield block.slice(start, start + size)
            start += size


def epoch_independent(context: Context) -> Context:
    """`context` for the inner run of an operator that reads its input once and for all, whatever the epoch."""
    return replace(context, seed=0, epoch=0, rounds=(), shard=None, shards=())
