"""`operator`: an operator made of a generator function of rows."""

from __future__ import annotations

import functools
import inspect
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

from ..core.block import Block, OneRow
from ..core.checks import check_callable, check_choice, check_int
from ..core.code import value_code
from ..core.context import Context
from ..core.cursor import Cursor, Json, check_numbers
from ..core.graph import Node
from ..core.operator import Columns, Input, Operator, Order, StageView
from ..core.origins import Origins, RowCounts
from ..errors import ArgumentTypeError, Origin

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")
U = TypeVar("U")
P = ParamSpec("P")


@overload
def operator(
    function: Callable[Concatenate[Iterator[T], P], Iterator[U]], /
) -> Callable[Concatenate[Pipe[T], P], Pipe[U]]: ...
@overload
def operator(*, lookback: int | None = None, order: Order = Order.GLOBAL) -> OperatorDecorator: ...
def operator(
    function: Callable[..., Iterator[Any]] | None = None,
    /,
    *,
    lookback: int | None = None,
    order: Order = Order.GLOBAL,
) -> Any:
    """Make an operator of a generator function that takes an iterator of rows and yields elements.

    The decorated function takes a pipe in place of the iterator, then the other arguments; it returns a pipe.

    Element: an item that the generator yields. Order: the generator's. Length: unknown; streamed. Columns become Python
    rows. State: a position. A resume calls the generator again, with rows from before that position, and leaves out the
    items of these: with all rows from the start of the shard, unless `lookback` says that fewer are enough. `explain()`
    prints how many, and `feedpipe.testing.check_operator` tests it. The generator must not draw at random. For a
    generator that begins anew with each n rows, `pipe.batch(n).flat_map(function)` does this.

    Args:
        function: the generator function; its errors come with file, line and row (`RowError`).
        lookback: the items that follow a row depend on it and on the `lookback` rows before it alone. No argument of
            the function may change that number.
        order: `Order.ROW_LOCAL` promises that rows may be divided among shards before the generator, so that each shard
            has one of its own. Otherwise each process reads all rows before it.

    Raises:
        ArgumentError: `lookback` is below 1.

    Example:
        >>> from collections.abc import Iterator
        >>> import feedpipe as fp
        >>> @fp.operator(lookback=1)
        ... def differences(rows: Iterator[float], factor: float = 1.0) -> Iterator[float]:
        ...     previous = next(rows, 0.0)
        ...     for row in rows:
        ...         yield factor * (row - previous)
        ...         previous = row
        >>> list(differences(fp.from_sequence([1.0, 3.0, 4.0]), factor=10))
        [20.0, 10.0]
    """
    lookback = None if lookback is None else check_int("lookback", lookback, least=1)
    check_choice("order", order, (Order.GLOBAL, Order.ROW_LOCAL))
    kind = RowLocalGenerator if order is Order.ROW_LOCAL else RowGenerator

    def decorate(function: Callable[..., Iterator[Any]]) -> Callable[..., Any]:
        check_callable("function", function)
        signature = inspect.signature(function)

        @functools.wraps(function)
        def chained(pipe: Pipe[Any], /, *args: Any, **kwargs: Any) -> Pipe[Any]:
            if not isinstance(pipe, Node):
                raise ArgumentTypeError(f"the first argument must be a pipe but got: {pipe!r:.80}")
            signature.bind(None, *args, **kwargs)  # a wrong argument is an error here, not in the run
            return pipe.then(kind(function, args, kwargs, window=lookback))

        return chained

    return decorate if function is None else decorate(function)


class OperatorDecorator(Protocol):
    """The result of `operator` with arguments."""

    def __call__(
        self, function: Callable[Concatenate[Iterator[T], P], Iterator[U]], /
    ) -> Callable[Concatenate[Pipe[T], P], Pipe[U]]: ...


@dataclass(frozen=True, eq=False, repr=False)
class RowGenerator(Operator):
    """Gives the outputs of a generator.

    An output belongs to the last row that the generator took before it, or to no row yet. A token is [the input's
    cursor at the first row that the generator takes, the rows that it takes before its outputs count, the outputs of
    the last of these rows that were given].
    """

    kind: ClassVar[str] = "pipe"
    order: ClassVar[Order] = Order.GLOBAL
    columns: ClassVar[Columns] = Columns.LOSES

    function: Callable[..., Iterator[object]]
    arguments: tuple[object, ...] = ()
    keywords: Mapping[str, object] = field(default_factory=dict[str, object])
    window: int | None = field(default=None, kw_only=True)

    def call(self) -> str:
        keywords = [f"{name}={value_code(value)}" for name, value in self.keywords.items()]
        return f"pipe({', '.join([value_code(self.function), *map(value_code, self.arguments), *keywords])})"

    def lookback(self) -> int:
        return self.window or 0

    def remark(self, stage: StageView) -> str | None:
        if self.window is not None:
            return None
        return "a resume calls it with all rows from the start of the shard again; see `lookback=`"

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        source, taken, emitted = cast("tuple[Json, int, int]", at.token or (None, 0, 0))
        check_numbers(taken, emitted)
        yield stage.input, source

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        source, taken, emitted = cast("tuple[Json, int, int]", at.token or (None, 0, 0))
        begin = Cursor.of(source)
        feed = _Feed(stage.input.blocks(begin, context), begin, self.window)
        row = at.row  # of the next output
        # A skipped row counts before the output that comes next.
        size = OneRow(context.pacing.clock) if stage.input.may_skip else context.block_size()
        outputs: list[object] = []
        origins: list[Origins | None] = []
        token: Json = None  # of the first output
        here = -1, 0  # the rows taken before the last output, and the outputs of that row
        error: Exception | None = None
        try:
            generator = context.running.add(iter(self.function(feed, *self.arguments, **self.keywords)))
            for output in generator:
                here = (feed.taken, here[1] + 1) if here[0] == feed.taken else (feed.taken, 1)
                own = feed.take_origins()
                if here <= (taken, emitted):
                    continue
                if not outputs:
                    token = feed.token(here[1] - 1)
                outputs.append(output)
                origins.append(own)
                if len(outputs) >= size.rows():
                    size.produced(outputs)
                    first, row = row, row + len(outputs)
                    end = Cursor(feed.token(here[1]), 0, row)
                    block = [Block(outputs, Cursor(token, 0, first), end, _joined(origins))]
                    outputs, origins = [], []
                    yield block.pop()
        except Exception as raised:
            error = raised
        if outputs:
            emitted = here[1] if here[0] == feed.taken else 0
            end = Cursor(feed.token(emitted), 0, row + len(outputs))
            yield Block(outputs, Cursor(token, 0, row), end, _joined(origins))
        if error is not None:
            raise stage.failed(error, feed.last, context)


class RowLocalGenerator(RowGenerator):
    """A `RowGenerator` whose author promises that rows may be divided before it."""

    order: ClassVar[Order] = Order.ROW_LOCAL


class _Feed:
    """The rows of an input, one at a time, with the cursors of those that may be needed again.

    Attributes:
        taken: the number of rows that were taken.
    """

    def __init__(self, blocks: Iterator[Block], begin: Cursor, window: int | None) -> None:
        self._blocks = blocks
        self._begin = begin
        self._window = window
        self._block: Block | None = None
        self._rows: list[object] = []
        self._place = 0  # of the next row in the block
        self._starts: deque[tuple[int, Cursor]] = deque()  # of blocks: the rows before them, and a cursor
        self.taken = 0
        self._origins: list[Origins] = []  # of the rows that were taken since the last output
        self._last: Origin | None = None  # that of the last row

    def __iter__(self) -> Iterator[object]:
        return self

    def __next__(self) -> object:
        if self._place == len(self._rows) and not self._next_block():
            raise StopIteration
        row = self._rows[self._place]
        if self._block is not None and self._block.origins:
            self._origins.append(self._block.origins[self._place : self._place + 1])
        self._place += 1
        self.taken += 1
        return row

    def take_origins(self) -> Origins | None:
        """Return the origins of an output: the last row taken, and the counts of the rows since the last output."""
        if not self._origins and self._last is None:
            return None
        taken, self._origins = self._origins, []
        if taken:
            self._last = taken[-1][0]
        counts = RowCounts.joined([(one.counts, 1) for one in taken])
        total = None if counts is None else counts.grouped([range(len(taken))])
        return Origins.of(None if self._last is None else [self._last], total)

    def token(self, emitted: int) -> Json:
        """Return the token of the output after `emitted` outputs of the last row taken."""
        first = max(0, self.taken - 1 - self._window) if self._window is not None else 0
        return [self._cursor(first).plain, self.taken - first, emitted]

    @property
    def last(self) -> Cursor:
        """The cursor of the last row taken."""
        return self._cursor(max(0, self.taken - 1))

    def _cursor(self, number: int) -> Cursor:
        """Return the input's cursor at a row that was taken."""
        if not self._starts:
            return self._begin
        before, cursor = next(start for start in reversed(self._starts) if start[0] <= number)
        return cursor.advance(number - before)

    def _next_block(self) -> bool:
        self._block = next(self._blocks, None)
        self._rows, self._place = [], 0
        if self._block is None:
            return False
        self._rows = list(self._block.rows)
        self._starts.append((self.taken, self._block.at))
        if self._window is None:  # the first row is all that a token needs, and the last that an error does
            while len(self._starts) > 2:
                del self._starts[1]
        else:
            while len(self._starts) > 1 and self._starts[1][0] <= self.taken - 1 - self._window:
                self._starts.popleft()
        return True


def _joined(origins: Sequence[Origins | None]) -> Origins | None:
    return Origins.joined([(one, 1) for one in origins])
