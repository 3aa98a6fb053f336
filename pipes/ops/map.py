"""`map`: a function of each row, one after the other or for several rows at the same time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict, TypeVar, Unpack, overload

import numpy as np

from ..core.block import Block, Parted, has_skipped, parted
from ..core.checks import check_callable, check_choice, check_int, is_coroutine_function
from ..core.context import Context, Generators, generator
from ..core.cursor import Cursor
from ..core.operator import Ahead, Columns, StageView, Trait
from ..core.rows import BlockRows, Indices, index_array, index_list
from ..core.skips import OnError, Retry, Skipped, check_on_error, check_retry, skips
from ..engine.ahead import CALLS_AHEAD, Limit, in_order
from ..engine.calls import CallPool, PendingCall, begun_calls, done, map_until_error
from ..engine.retrying import retrying, shared_call_pool
from ..engine.seeds import global_generators
from ..errors import ArgumentError
from ._shared import RowByRow, data_error

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")
U = TypeVar("U")


class CallOptions(TypedDict, total=False):
    """The options of calls of a user's function that all overloads have."""

    concurrency: int
    on_error: OnError | None
    retry: int | Retry
    name: str | None


@overload
def map(
    pipe: Pipe[T],
    /,
    function: Callable[[T, np.random.Generator], Awaitable[U]],
    *,
    rng: Literal[True],
    **options: Unpack[CallOptions],
) -> Pipe[U]: ...
@overload
def map(
    pipe: Pipe[T],
    /,
    function: Callable[[T, np.random.Generator], U],
    *,
    rng: Literal[True],
    **options: Unpack[CallOptions],
) -> Pipe[U]: ...
@overload
def map(
    pipe: Pipe[T],
    /,
    function: Callable[[T], Awaitable[U]],
    *,
    rng: Literal[False] = False,
    **options: Unpack[CallOptions],
) -> Pipe[U]: ...
@overload
def map(
    pipe: Pipe[T],
    /,
    function: Callable[[T], U],
    *,
    rng: Literal[False, "global"] = False,
    **options: Unpack[CallOptions],
) -> Pipe[U]: ...
def map(
    pipe: Pipe[T],
    /,
    function: Callable[..., object],
    *,
    rng: Literal[False, True, "global"] = False,
    concurrency: int = 1,
    on_error: OnError | None = None,
    retry: int | Retry = 0,
    name: str | None = None,
) -> Pipe[Any]:
    """Replace each row with `function(row)`.

        a b c   ->   map(str.upper): A B C

    Element: what `function` returns. Order and length are the input's. Indexed if the input is. State: none.

    Args:
        function: called once for each row; its errors come with file, line and row (`RowError`). Of an `async def`
            function the result is awaited, on an event loop that a thread of this process runs.
        rng: how `function` gets random numbers. True calls `function(row, rng)`, where `rng` is a NumPy generator keyed
            by the seed, the epoch, the shard and the row's position. So the draws are the same after a resume and on
            any number of workers; in an indexed pipe, and in a streamed one with fixed `shards=`, also on any number of
            ranks. "global" is for functions that draw from Python's `random`, or from the global generators of NumPy or
            torch: it seeds these from the same key before each call of `function(row)` and restores them afterwards.
        concurrency: the number of calls that run at the same time in each process, in threads or on the event loop. For
            functions that wait, such as for a server, or that let other threads run, such as most of NumPy. Rows keep
            their order. Up to four times as many rows are called ahead of the one that is used, fewer if they hold more
            than 256 MiB; a resume calls them again.
        on_error: the policy for a row on which `function` fails: "raise" (the default) ends the run; "skip" leaves the
            row out; `Quarantine(folder)` also records it. None takes the policy of the next `on_error()` in the chain.
            See [rows that fail](guides/rows-that-fail.md).
        retry: the number of further calls for a row that failed with an `OSError`, before `on_error` applies; `Retry`
            also sets the errors, the waits, and a timeout of coroutines.
        name: identifies the operator in that key, instead of its kind and count.

    Raises:
        ArgumentError: `concurrency` is below 1, or `on_error` no policy; `rng="global"` comes with calls that run at
            the same time, or a `timeout` with a plain function.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence([1, 2, 3]).map(lambda x: x * 10))
        [10, 20, 30]
        >>> pipe = fp.from_sequence([1, 2, 3]).map(lambda x, rng: x + rng.random(), rng=True)
        >>> list(pipe) == list(pipe)
        True
        >>> async def fetch(x):
        ...     return 10 * x
        >>> list(fp.from_sequence([1, 2, 3]).map(fetch, concurrency=100))
        [10, 20, 30]
    """
    return pipe.then(ConcurrentMap(function, rng, name, concurrency=concurrency, on_error=on_error, retry=retry))


@dataclass(frozen=True, eq=False, repr=False)
class Map(RowByRow):
    kind: ClassVar[str] = "map"
    columns: ClassVar[Columns] = Columns.LOSES
    moves_skipped: ClassVar[bool] = True
    awaits: ClassVar[bool] = False
    """Coroutine functions are accepted."""

    function: Callable[..., object]
    rng: Literal[False, True, "global"] = False
    name: str | None = None

    def __post_init__(self) -> None:
        check_callable("function", self.function, coroutines=self.awaits)
        check_choice("rng", self.rng, (False, True, "global"))

    @property
    def trait(self) -> Trait | None:  # type: ignore[override]
        return Trait.MAIN_THREAD if self.rng == "global" else None

    @property
    def needs_positions(self) -> bool:  # type: ignore[override]
        return self.rng is not False  # the keys of draws

    @property
    def row_function(self) -> Callable[..., object]:
        return self.function

    def called_here(self, stage: StageView, context: Context) -> Callable[..., object]:
        """What is called for each row, in the thread that makes blocks."""
        return self.row_function

    def results(
        self,
        stage: StageView,
        rows: BlockRows,
        positions: Indices,
        place: Callable[[int], Cursor | int],
        context: Context,
    ) -> tuple[BlockRows, Exception | None]:
        """The results up to the first row that fails and may not be skipped, and its error.

        The function is called once for each row: after a row that is skipped, the calls go on with the next.
        """
        marked = stage.input.may_skip and has_skipped(rows)
        results: list[object] = []
        error: Exception | None = None
        if not marked:
            results, error = self._apply(stage, rows, positions, context)
            if error is None or not skips(self.on_error):
                return results, error
        parts = parted(rows) if marked else Parted(rows, range(len(rows)), {}, len(rows))
        while len(results) < len(parts.places):
            if error is not None:
                failed = len(results)
                row = next(iter(parts.values[failed : failed + 1]))
                skipped = stage.skip(error, place(parts.places[failed]), row, context)
                if skipped is None:
                    break
                results.append(skipped)
            done = len(results)
            left = index_array(positions)[np.array(parts.places[done:], np.int64)]
            more, error = self._apply(stage, parts.values[done:], left, context)
            results.extend(more)
        return parts.merged(results), error

    def _apply(
        self, stage: StageView, rows: BlockRows, positions: Indices, context: Context
    ) -> tuple[list[object], Exception | None]:
        """The results for the rows at `positions`, up to the first that fails, and its error."""
        function = self.called_here(stage, context)
        apply = partial(map_until_error, rows=rows, user_function=self.function)
        if self.rng is False:
            return apply(function)
        remaining = iter(index_list(positions))
        generators = Generators(context.key(stage.name))
        if self.rng is True:
            return apply(lambda row: function(row, generators.at(next(remaining))))
        with global_generators() as seed:

            def seed_and_call(row: object) -> object:
                seed(int(generators.at(next(remaining)).integers(2**32)))
                return function(row)

            return apply(seed_and_call)


@dataclass(frozen=True, eq=False, repr=False)
class ConcurrentMap(Map):
    """Calls the function for up to `concurrency` rows at a time; results keep the order of the rows.

    Functions run in threads, coroutine functions on one event loop. The thread that runs the pipe reads the rows and
    gives the results.
    """

    awaits: ClassVar[bool] = True

    concurrency: int = field(default=1, kw_only=True, compare=False)
    on_error: OnError | None = field(default=None, kw_only=True, compare=False)
    retry: int | Retry = field(default=0, kw_only=True, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "concurrency", check_int("concurrency", self.concurrency, least=1))
        check_on_error(self.on_error)
        if check_retry(self.retry).timeout is not None and not is_coroutine_function(self.function):
            raise ArgumentError(
                "`timeout` needs a coroutine function, because Python cannot end the call of another one; the "
                "clients of servers have a timeout of their own"
            )
        if self.rng == "global" and self.calls_ahead:
            raise ArgumentError(
                '`rng="global"` needs `concurrency=1` and no coroutine, because all threads share the global '
                "generators; `rng=True` gives each call a generator of its own"
            )

    @property
    def calls_ahead(self) -> int:
        """The most calls ahead of their consumer; 0 if each is made in its turn."""
        return CALLS_AHEAD * self.concurrency if self.concurrency > 1 or is_coroutine_function(self.function) else 0

    def ahead(self) -> Ahead | None:
        return Ahead(self.calls_ahead, together=True) if self.calls_ahead else None

    def called_here(self, stage: StageView, context: Context) -> Callable[..., object]:
        called = retrying(self.row_function, self.retry, stage.name, context)
        if not is_coroutine_function(called):
            return called
        from ..engine.coroutines import complete

        return partial(complete, called)

    def begin(self, stage: StageView, indices: Indices, context: Context) -> Iterable[PendingCall]:
        begin = self._begin_row(stage, context)
        rows = zip(stage.input.rows(indices, context), index_list(indices), strict=True)
        return (begin(row, position) for row, position in rows)

    def _begin_row(self, stage: StageView, context: Context) -> Callable[[object, int], PendingCall]:
        """A function that begins the call for a row at a position."""
        submit = self._pool(stage, context).submit
        function = retrying(self.function, self.retry, stage.name, context)
        keeps_row = skips(self.on_error)

        def begin(row: object, position: int) -> PendingCall:
            skipped = row if isinstance(row, Skipped) else None
            value = row if skipped is None else skipped.value
            if skipped is not None and skipped.is_row:
                call = done(None)
            elif self.rng is False:
                call = submit(function, value)
            else:
                call = submit(function, value, generator(context.key(stage.name), position))
            call.about = skipped, value if keeps_row else None
            return call

        return begin

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        if not self.calls_ahead or not context.process.threads:
            return super().rows(stage, indices, context)
        calls = begun_calls(self, stage, indices, context)
        pool = self._pool(stage, context)
        results: list[object] = []
        for position, call, (result, error) in zip(
            index_list(indices), calls, (pool.result(call) for call in calls), strict=True
        ):
            skipped, row = call.about
            if error is not None:
                result = stage.skip(error, position, row, context)
                if result is None:
                    for later in calls[len(results) + 1 :]:
                        later.cancel()
                    raise stage.failed_at(error, position, context)
            results.append(_with_skipped(skipped, result))
        return results

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        if not self.calls_ahead or not context.process.threads:
            return super().blocks(stage, at, context)
        return self._called_ahead(stage, at, context)

    def _called_ahead(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        blocks = stage.input.blocks(at, context)
        rows = ((block, index, row) for block in blocks for index, row in enumerate(block.rows))
        begin = self._begin_row(stage, context)
        limit = Limit(self.calls_ahead, context.process.shards)
        calls = in_order(rows, lambda item, early: begin(item[2], item[0].at.position + item[1]), limit)
        pool = self._pool(stage, context)
        for (block, index, _), call in context.running.add(calls):
            result, error = pool.result(call)
            limit.measure([result], 1)
            skipped, row = call.about
            if error is not None:
                result = stage.skip(error, block.at.advance(index), row, context)
                if result is None:
                    raise stage.failed(error, block.at.advance(index), context)
            output = [block.with_row(index, _with_skipped(skipped, result))]
            del block, row, skipped, result, call, _  # only the consumer holds them now
            yield output.pop()

    def _pool(self, stage: StageView, context: Context) -> CallPool:
        return shared_call_pool(stage.name, self.function, self.concurrency, context)


def _with_skipped(skipped: Skipped | None, result: object) -> object:
    """The result of a row, after the skipped rows before it; or the skipped row itself."""
    if skipped is None:
        return result
    return skipped if skipped.is_row else skipped.before(result)


@dataclass(frozen=True, eq=False, repr=False)
class BatchMap(Map):
    """The base of operators that map whole batches, such as `collate` and `map_columns`.

    A batch that does not fit is a `DataError`, not a failure of the user's function.
    """

    columns: ClassVar[Columns] = Columns.KEEPS

    def row_error(self, error: Exception) -> Exception:
        return data_error(self, error, "in the batch that begins at")
