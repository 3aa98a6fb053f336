"""`map_batches`: a function of many rows at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from ...core.policy import OnError, Retry
from ..columns.map_columns import Arrays, Tensors
from ._grouped_map import GroupedMap

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    import torch

    from ...core.rows import Row
    from ...pipe import Pipe

T = TypeVar("T")
U = TypeVar("U")


@overload
def map_batches(
    pipe: Pipe[T],
    /,
    function: Callable[[Sequence[T]], Iterable[U]],
    size: int,
    *,
    format: Literal["rows"] = "rows",
    rng: Literal[False, "global"] = False,
    concurrency: int = 1,
    on_error: OnError | None = None,
    retry: int | Retry = 0,
    name: str | None = None,
) -> Pipe[U]: ...
@overload
def map_batches(
    pipe: Pipe[T],
    /,
    function: Callable[[Sequence[T], np.random.Generator], Iterable[U]],
    size: int,
    *,
    format: Literal["rows"] = "rows",
    rng: Literal[True],
    concurrency: int = 1,
    on_error: OnError | None = None,
    retry: int | Retry = 0,
    name: str | None = None,
) -> Pipe[U]: ...
@overload
def map_batches(
    pipe: Pipe[T],
    /,
    function: Callable[[dict[str, npt.NDArray[Any]]], Arrays],
    size: int,
    *,
    format: Literal["numpy"],
    rng: Literal[False, "global"] = False,
    concurrency: int = 1,
    on_error: OnError | None = None,
    retry: int | Retry = 0,
    name: str | None = None,
) -> Pipe[Row]: ...
@overload
def map_batches(
    pipe: Pipe[T],
    /,
    function: Callable[[pa.RecordBatch], pa.RecordBatch],
    size: int,
    *,
    format: Literal["arrow"],
    rng: Literal[False, "global"] = False,
    concurrency: int = 1,
    on_error: OnError | None = None,
    retry: int | Retry = 0,
    name: str | None = None,
) -> Pipe[Row]: ...
@overload
def map_batches(
    pipe: Pipe[T],
    /,
    function: Callable[[dict[str, torch.Tensor]], Tensors],
    size: int,
    *,
    format: Literal["torch"],
    rng: Literal[False, "global"] = False,
    concurrency: int = 1,
    on_error: OnError | None = None,
    retry: int | Retry = 0,
    name: str | None = None,
) -> Pipe[Row]: ...
@overload
def map_batches(
    pipe: Pipe[T],
    /,
    function: Callable[[Any, np.random.Generator], Arrays | Tensors | pa.RecordBatch],
    size: int,
    *,
    format: Literal["numpy", "arrow", "torch"],
    rng: Literal[True],
    concurrency: int = 1,
    on_error: OnError | None = None,
    retry: int | Retry = 0,
    name: str | None = None,
) -> Pipe[Row]: ...
def map_batches(
    pipe: Pipe[Any],
    /,
    function: Callable[..., object],
    size: int,
    *,
    format: Literal["rows", "numpy", "arrow", "torch"] = "rows",
    rng: Literal[False, True, "global"] = False,
    concurrency: int = 1,
    on_error: OnError | None = None,
    retry: int | Retry = 0,
    name: str | None = None,
) -> Pipe[Any]:
    """Replace each row with a row that `function` returns for it, calling it with many rows at once.

    It is `batch(size).map(function).unbatch()` for a function that treats each row by itself, such as a model: groups
    are only for speed. So rows keep their positions. Which rows come together depends on how they are read.

    Element: what `function` returns; for a format of columns a row of a table. Order and length are the input's.
    Indexed if the input is. State: a position; a resume calls `function` again for up to `size` rows.

    Args:
        function, size: called with up to `size` rows; returns one row for each, in their order. If it fails, it is
            called with single rows to find the one that fails; errors come with its file, line and row (`RowError`).
        format: the form of rows: "rows", a list, or for rows of a table a `feedpipe.Rows`; or "numpy", "arrow" or
            "torch" for columns, as in `map_columns`, given and returned.
        rng, name: as in `map`; with `rng=True` the call is `function(rows, rng)`. The generator is keyed by the number
            of the group, so each group then begins at a multiple of `size`, and is made as a whole for any row of it.
        concurrency, on_error, retry: as in `map`. Concurrent calls have groups as with `rng=True`.

    Raises:
        ArgumentError: `size` or `concurrency` is below 1.
        DataError: `function` returned another number of rows, or rows cannot form columns.

    Example:
        >>> import feedpipe as fp
        >>> fp.from_sequence([1, 2, 3]).map_batches(lambda rows: [10 * x for x in rows], 2)[2]
        30
    """
    options: dict[str, Any] = {"concurrency": concurrency, "on_error": on_error, "retry": retry}
    return pipe.then(GroupedMap(function, rng, name, size=size, format=format, **options))
