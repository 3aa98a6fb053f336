"""`map`: a function of each row."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np

from ...core.policy import OnError, Retry
from ._concurrent_map import ConcurrentMap

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")
U = TypeVar("U")


@overload
def map(
    pipe: Pipe[T],
    /,
    function: Callable[[T, np.random.Generator], Awaitable[U]],
    *,
    rng: Literal[True],
    concurrency: int = 1,
    on_error: OnError | None = None,
    retry: int | Retry = 0,
    name: str | None = None,
) -> Pipe[U]: ...
@overload
def map(
    pipe: Pipe[T],
    /,
    function: Callable[[T, np.random.Generator], U],
    *,
    rng: Literal[True],
    concurrency: int = 1,
    on_error: OnError | None = None,
    retry: int | Retry = 0,
    name: str | None = None,
) -> Pipe[U]: ...
@overload
def map(
    pipe: Pipe[T],
    /,
    function: Callable[[T], Awaitable[U]],
    *,
    rng: Literal[False] = False,
    concurrency: int = 1,
    on_error: OnError | None = None,
    retry: int | Retry = 0,
    name: str | None = None,
) -> Pipe[U]: ...
@overload
def map(
    pipe: Pipe[T],
    /,
    function: Callable[[T], U],
    *,
    rng: Literal[False, "global"] = False,
    concurrency: int = 1,
    on_error: OnError | None = None,
    retry: int | Retry = 0,
    name: str | None = None,
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

    Element: what `function` returns. Order and length are the input's. Indexed if the input is. State: none.

    Args:
        function: called once for each row; its errors come with file, line and row (`RowError`). Of an `async def`
            function the result is awaited, on an event loop that a thread of this process runs.
        rng: how `function` gets random numbers. True calls `function(row, rng)`, where `rng` is a NumPy generator keyed
            by the seed, the epoch, the shard and the row's position. So the draws are the same after a resume and on
            any number of workers; in an indexed pipe, and in a streamed one with fixed `shards=`, also on any number of
            ranks. "global" is for functions that draw from Python's `random`, or from the global generators of NumPy or
            torch: it seeds these from the same key before each call of `function(row)` and restores them afterwards.
        concurrency: how many calls run at the same time in each process, in threads or on the event loop. For functions
            that wait, such as for a server, or that let other threads run, such as most of NumPy. Rows keep their
            order. Up to four times as many rows are called ahead of the one that is used, fewer if they hold more than
            256 MiB; a resume calls them again.
        on_error: what happens to a row on which `function` fails: "raise" (the default) ends the run; "skip" leaves the
            row out; `Quarantine(folder)` also records it. None takes the policy of the next `on_error()` in the chain.
            See [Errors](errors.md).
        retry: how often `function` is called again for a row that failed with an `OSError`, before `on_error` applies;
            `Retry` also says which errors, the waits, and a timeout of coroutines.
        name: identifies the operator in that key, in place of its kind and count.

    Raises:
        ArgumentError: `concurrency` is below 1, or `on_error` no policy; `rng="global"` stands beside calls that run at
            the same time, or a `timeout` beside a plain function.

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
