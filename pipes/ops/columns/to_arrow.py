"""`to_arrow`: batches of rows as Arrow record batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ...core.operator import StageView
from .._columns import as_rows
from ..rows._batch_map import BatchMap

if TYPE_CHECKING:
    import pyarrow as pa

    from ...pipe import Pipe


def record_batch(batch: object) -> pa.RecordBatch:
    """`batch` as an Arrow record batch; columns that are Arrow arrays already are not copied."""
    return as_rows(batch).arrow


@dataclass(frozen=True)
class ToArrow(BatchMap):
    kind: ClassVar[str] = "to_arrow"

    function: Callable[..., object] = record_batch

    def remark(self, stage: StageView) -> None:
        return None

    def call(self) -> str:
        return "to_arrow()"


def to_arrow(pipe: Pipe[Sequence[Mapping[str, object]]], /) -> Pipe[pa.RecordBatch]:
    """Turn each batch of rows into an Arrow record batch.

    Element: a `pyarrow.RecordBatch` with the rows of the batch. Columns of a table are not copied; columns of more than
    one dimension become fixed-shape tensors. For lists of dicts, Arrow infers the types from the values of the batch,
    and a name that a row lacks is a null there. Order and length are the input's. Indexed if the input is. State: none.

    Raises:
        DataError: an element is not a batch of rows, or the values of a name cannot form a column; the error names it.

    Example:
        >>> import feedpipe as fp, numpy as np
        >>> batches = fp.from_arrays({"x": np.arange(1, 4), "y": np.arange(3) / 2}).batch(2).to_arrow()
        >>> batches[1].to_pydict()
        {'x': [3], 'y': [1.0]}
    """
    return pipe.then(ToArrow())
