"""`operator`: makes an operator of a generator function of rows."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from ...core.checks import check_callable, check_choice, check_int
from ...core.graph import Node
from ...core.operator import Order
from ...errors import ArgumentError, ArgumentTypeError, with_call_site
from ._row_generator import RowGenerator, RowLocalGenerator

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")
U = TypeVar("U")
P = ParamSpec("P")


class OperatorDecorator(Protocol):
    """What `operator` with arguments returns."""

    def __call__(
        self, function: Callable[Concatenate[Iterator[T], P], Iterator[U]], /
    ) -> Callable[Concatenate[Pipe[T], P], Pipe[U]]: ...


@overload
def operator(
    function: Callable[Concatenate[Iterator[T], P], Iterator[U]], /
) -> Callable[Concatenate[Pipe[T], P], Pipe[U]]: ...
@overload
def operator(
    *, lookback: int | None = None, segment: int | None = None, order: Order = Order.GLOBAL
) -> OperatorDecorator: ...
def operator(
    function: Callable[..., Iterator[Any]] | None = None,
    /,
    *,
    lookback: int | None = None,
    segment: int | None = None,
    order: Order = Order.GLOBAL,
) -> Any:
    """Make an operator of a generator function that takes an iterator of rows and yields elements.

    The decorated function takes a pipe in place of the iterator, then the other arguments; it returns a pipe.

    Element: what the generator yields. Order: that in which it yields. Length: unknown; streamed. Columns become Python
    rows. State: a position. A resume calls the generator again, with rows from before that position, and leaves out
    what it yields for these: with all rows from the start of the shard, unless `lookback` or `segment` says that fewer
    are enough. `explain()` prints how many. `feedpipe.testing.check_operator` tests what you say here. The generator
    must not draw at random.

    Args:
        function: the generator function; its errors come with file, line and row (`RowError`).
        lookback: what is yielded behind a row depends on the `lookback` rows before it and on the row itself alone. No
            argument of the function may change that number.
        segment: the generator is called anew for each `segment` rows. What it yields at its end belongs to these.
        order: `Order.ROW_LOCAL` promises that rows may be divided among shards before the generator, so that each shard
            has one of its own. Otherwise each process reads all rows before it.

    Raises:
        ArgumentError: both `lookback` and `segment`, or one of them below 1.

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
    if lookback is not None and segment is not None:
        raise ArgumentError(
            with_call_site(
                "`lookback` and `segment` must not be given together, because a segment begins without rows before it; "
                "leave one out"
            )
        )
    lookback = None if lookback is None else check_int("lookback", lookback, least=1)
    segment = None if segment is None else check_int("segment", segment, least=1)
    check_choice("order", order, (Order.GLOBAL, Order.ROW_LOCAL))
    kind = RowLocalGenerator if order is Order.ROW_LOCAL else RowGenerator

    def decorate(function: Callable[..., Iterator[Any]]) -> Callable[..., Any]:
        check_callable("function", function)
        signature = inspect.signature(function)

        @functools.wraps(function)
        def chained(pipe: Pipe[Any], /, *args: Any, **kwargs: Any) -> Pipe[Any]:
            if not isinstance(pipe, Node):
                raise ArgumentTypeError(with_call_site(f"the first argument must be a pipe but got: {pipe!r:.80}"))
            signature.bind(None, *args, **kwargs)  # a wrong argument is an error here, not in the run
            return pipe.then(kind(function, args, kwargs, window=lookback, segment=segment))

        return chained

    return decorate if function is None else decorate(function)
