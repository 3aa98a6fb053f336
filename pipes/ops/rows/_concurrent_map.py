"""`ConcurrentMap`: a `map` whose function runs for several rows at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from ...core.block import Block
from ...core.checks import check_int, is_coroutine_function
from ...core.context import Context
from ...core.cursor import Cursor
from ...core.operator import StageView
from ...core.policy import OnError, Retry, check_on_error, check_retry, skips
from ...core.randomness import generator
from ...core.rows import BlockRows, Indices, index_array
from ...core.skipped import Skipped
from ...engine.call_pool import CALLS_AHEAD, AheadLimit, BegunCall, CallPool, begun_calls, done
from ...engine.retrying import retrying
from ...engine.shared_call_pool import shared_call_pool
from ...errors import ArgumentError, with_call_site
from ._map import Map


@dataclass(frozen=True)
class ConcurrentMap(Map):
    """Calls the function for up to `concurrency` rows at a time; results keep the order of the rows.

    Functions run in threads, coroutine functions on one event loop. Only they do: rows are read, and results handed
    out, by the thread that runs the pipe.
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
                with_call_site(
                    "`timeout` needs a coroutine function, because Python cannot end the call of another one; the "
                    "clients of servers have a timeout of their own"
                )
            )
        if self.rng == "global" and self.calls_ahead():
            raise ArgumentError(
                with_call_site(
                    '`rng="global"` needs `concurrency=1` and no coroutine, because all threads share the global '
                    "generators; `rng=True` gives each call a generator of its own"
                )
            )

    def calls_ahead(self) -> int:
        return CALLS_AHEAD * self.concurrency if self.concurrency > 1 or is_coroutine_function(self.function) else 0

    @property
    def called(self) -> Callable[..., object]:
        """The function, with the further calls of `retry`."""
        return retrying(self.function, check_retry(self.retry)) if self.retry else self.function

    @property
    def row_function(self) -> Callable[..., object]:
        called = self.called
        if not is_coroutine_function(called):
            return called
        from ...engine.coroutines import complete

        return partial(complete, called)

    def start_calls(self, stage: StageView, indices: Indices, context: Context) -> Sequence[BegunCall]:
        pool = self._pool(stage, context)
        function = self.called
        calls: list[BegunCall] = []
        for row, index in zip(stage.input.rows(indices, context), index_array(indices).tolist(), strict=True):
            if isinstance(row, Skipped) and row.is_row:
                calls.append(BegunCall(done(None), skipped=row))
                continue
            skipped, value = (row, row.value) if isinstance(row, Skipped) else (None, row)
            call = pool.submit(function, *self._arguments(stage, value, index, context))
            calls.append(BegunCall(call, skipped=skipped, row=value if skips(self.on_error) else None))
        return calls

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        if not self.calls_ahead() or not context.process.threads:
            return super().rows(stage, indices, context)
        positions: list[int] = index_array(indices).tolist()
        begun = begun_calls(lambda missing: self.start_calls(stage, missing, context), stage, positions, context)
        pool = self._pool(stage, context)
        results: list[object] = []
        for position, call in zip(positions, begun, strict=True):
            result, error = pool.result(call.future)
            if error is not None:
                result = stage.skip(error, position, call.row, context)
                if result is None:
                    for later in begun[len(results) + 1 :]:
                        later.cancel()
                    raise stage.failed_at(error, position, context)
            results.append(_with_skipped(call.skipped, result))
        return results

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        if not self.calls_ahead() or not context.process.threads:
            return super().blocks(stage, at, context)
        return self._called_ahead(stage, at, context)

    def _called_ahead(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        calls = (
            ((block, index, row), self._arguments_unless_skipped(stage, row, block.at.position + index, context))
            for block in stage.input.blocks(at, context)
            for index, row in enumerate(block.rows)
        )
        limit = AheadLimit(self.calls_ahead(), context)
        pool = self._pool(stage, context)
        for (block, index, row), call in pool.in_order(self.called, calls, limit):
            result, error = pool.result(call)
            limit.measure([result], 1)
            skipped, value = (row, row.value) if isinstance(row, Skipped) else (None, row)
            if error is not None:
                result = stage.skip(error, block.at.advance(index), value, context)
                if result is None:
                    raise stage.failed(error, block.at.advance(index), context)
            output = [block.with_row(index, _with_skipped(skipped, result))]
            del block, row, value, skipped, result, call  # only the consumer holds them now
            yield output.pop()

    def _pool(self, stage: StageView, context: Context) -> CallPool:
        return shared_call_pool(stage.name, self.function, self.concurrency, context)

    def _arguments_unless_skipped(
        self, stage: StageView, row: object, position: int, context: Context
    ) -> tuple[object, ...] | None:
        if isinstance(row, Skipped):
            return None if row.is_row else self._arguments(stage, row.value, position, context)
        return self._arguments(stage, row, position, context)

    def _arguments(self, stage: StageView, row: object, position: int, context: Context) -> tuple[object, ...]:
        return (row,) if self.rng is False else (row, generator(context.key(stage.name), position))


def _with_skipped(skipped: Skipped | None, result: object) -> object:
    """The result of a row, with what stands before it or in its place."""
    if skipped is None:
        return result
    return skipped if skipped.is_row else skipped.before(result)
