"""`collate`: batches of rows to tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

from ..block import Block
from ..context import Context
from ..cursor import Cursor
from ..errors import DataError, RowError
from ..graph import shown
from ..rows import Indices, RowList
from ..torch import UnfitError
from ..traits import Columns
from . import _collating
from .map import Map

if TYPE_CHECKING:
    import numpy as np
    import torch

    from ..pipe import Pipe
    from ..stage import Stage

T = TypeVar("T")
U = TypeVar("U")


@cache
def _from_array() -> _collating.Leaf:
    from ..torch.collate import from_array

    return from_array


def tensors(batch: object) -> object:
    """`batch` as tensors, by torch's default rules. torch is imported by the first call."""
    return _collating.collate(batch, _from_array())


def tensor_data(batch: object) -> object:
    """As `tensors`, with `TensorData` in their place: torch is imported only where it alone has the rule."""
    return _collating.collate(batch, _collating.tensor_data)


@dataclass(frozen=True)
class Collate(Map):
    """A `map` over batches, whose own function names field and row where rows do not fit together."""

    kind: ClassVar[str] = "collate"
    columns: ClassVar[Columns] = Columns.KEEPS

    function: Callable[..., object] = tensors

    def rows(self, stage: Stage, indices: Indices, context: Context) -> RowList:
        try:
            return super().rows(stage, indices, context)
        except RowError as error:
            raise self._told(error) from error.__cause__

    def blocks(self, stage: Stage, at: Cursor, context: Context) -> Iterator[Block]:
        try:
            yield from super().blocks(stage, at, context)
        except RowError as error:
            raise self._told(error) from error.__cause__

    def _told(self, error: RowError) -> Exception:
        if not isinstance(error.__cause__, UnfitError):
            return error
        begin = f"\n  in the batch that begins at {error.origin}" if error.origin else ""
        line = f"\n  at {error.where.file}:{error.where.line}" if error.where else ""
        return DataError(f"`.{self.call()}`: {error.__cause__}{begin}{line}")

    def sent(self) -> Collate:
        return replace(self, function=tensor_data) if self.function is tensors else self

    def remark(self) -> None:
        return None

    def call(self) -> str:
        return "collate()" if self.function in (tensors, tensor_data) else f"collate({shown(self.function)})"


@overload
def collate(pipe: Pipe[Sequence[Mapping[str, object]]], /) -> Pipe[dict[str, torch.Tensor]]: ...
@overload
def collate(
    pipe: Pipe[Sequence[torch.Tensor]] | Pipe[Sequence[float]] | Pipe[Sequence[np.ndarray[Any, Any]]], /
) -> Pipe[torch.Tensor]: ...
@overload
def collate(pipe: Pipe[Sequence[tuple[object, ...]]], /) -> Pipe[list[Any]]: ...
@overload
def collate(pipe: Pipe[Sequence[object]], /) -> Pipe[Any]: ...
@overload
def collate(pipe: Pipe[T], /, fn: Callable[[T], U]) -> Pipe[U]: ...
def collate(pipe: Pipe[Any], /, fn: Callable[[Any], object] | None = None) -> Pipe[Any]:
    """Turn each batch of rows into tensors, or into what `fn(batch)` returns.

    Element: by the rules of torch's `default_collate`: numbers, arrays and tensors become one tensor with the batch as
    its first dimension; dicts, tuples and lists become one of tensors; text and bytes stay lists. A batch of table rows
    becomes a dict of tensors, column by column, without a dict for any row: dtypes are the columns' own, a column of
    lists of one length, or of arrays, becomes a tensor of more dimensions. Tensors can be written to and share memory
    with nothing. Order and length are the input's; indexed where the input is. State: none.

    Args:
        fn: called with each batch, a list of rows or `Rows`; its errors come with file, line and row (`RowError`).

    Raises:
        DataError: the rows of a batch do not fit together, or a null stands where a number should; names field and row.

    Source: `torch.utils.data.default_collate`, whose results it gives.

    Example:
        >>> import feedpipe as fp
        >>> fp.from_sequence([{"x": 1.0, "y": "a"}, {"x": 2.0, "y": "b"}]).batch(2).collate()[0]
        {'x': tensor([1., 2.], dtype=torch.float64), 'y': ['a', 'b']}
        >>> fp.from_sequence([1, 2, 3]).batch(2).collate(sum)[0]
        3
    """
    return pipe.then(Collate(tensors if fn is None else fn))
