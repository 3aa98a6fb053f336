"""`to_arrow`: batches of rows as Arrow record batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ._columns import as_rows
from ._map_batches import MapBatches

if TYPE_CHECKING:
    import pyarrow as pa

    from ..pipe import Pipe


def record_batch(batch: object) -> pa.RecordBatch:
    """`batch` in Arrow's terms; what is held so already is not copied."""
    return as_rows(batch).arrow


@dataclass(frozen=True)
class ToArrow(MapBatches):
    kind: ClassVar[str] = "to_arrow"

    function: Callable[..., object] = record_batch

    def remark(self) -> None:
        return None

    def call(self) -> str:
        return "to_arrow()"


def to_arrow(pipe: Pipe[Sequence[Mapping[str, object]]], /) -> Pipe[pa.RecordBatch]:
    """Turn each batch of rows into an Arrow record batch.

    Element: a `pyarrow.RecordBatch` with the rows of the batch. Of table rows it has the columns as they are held,
    without a copy; columns of more than one dimension become fixed-shape tensors. Of lists of dicts, Arrow infers the
    types from the values of that batch; a name that a row lacks is a null there. Order and length are the input's;
    indexed where the input is. State: none.

    Raises:
        DataError: an element is no batch of rows, or values of one name make no column; names it.

    Example:
        >>> import feedpipe as fp, numpy as np
        >>> batches = fp.from_arrays({"x": np.arange(1, 4), "y": np.arange(3) / 2}).batch(2).to_arrow()
        >>> batches[1].to_pydict()
        {'x': [3], 'y': [1.0]}
    """
    return pipe.then(ToArrow())
