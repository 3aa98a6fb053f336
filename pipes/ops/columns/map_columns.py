"""`map_columns`: calls a function with the columns of each batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, Union, overload

from ...core.checks import check_choice
from ...core.rows import Rows
from .._columns import as_rows, numpy_columns
from ..grouping.collate import tensors
from ..rows._batch_map import BatchMap
from ._function_result import rows_of_columns, rows_of_record_batch

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    import torch

    from ...pipe import Pipe

Arrays: TypeAlias = Mapping[str, Union["npt.NDArray[Any]", list[Any]]]
"""The columns that a function may return: arrays whose first axis counts the rows, or lists."""
Tensors: TypeAlias = Mapping[str, Union["torch.Tensor", list[Any]]]
Batches: TypeAlias = "Pipe[Sequence[Mapping[str, object]]]"


@dataclass(frozen=True)
class MapColumns(BatchMap):
    kind: ClassVar[str] = "map_columns"

    format: Literal["numpy", "arrow", "torch"] = "numpy"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("format", self.format, tuple(FORMATS))

    @property
    def row_function(self) -> Callable[..., object]:
        return partial(FORMATS[self.format], self.function)


def _on_arrays(function: Callable[..., object], batch: object, *rng: object) -> Rows:
    rows = as_rows(batch)
    columns = numpy_columns(rows)
    return rows_of_columns(function(dict(columns), *rng), columns, rows)


def _on_arrow(function: Callable[..., object], batch: object, *rng: object) -> Rows:
    return rows_of_record_batch(function(as_rows(batch).arrow, *rng))


def _on_tensors(function: Callable[..., object], batch: object, *rng: object) -> Rows:
    rows = as_rows(batch)
    return rows_of_columns(function(tensors(rows), *rng), {}, rows)


FORMATS: dict[str, Callable[..., Rows]] = {"numpy": _on_arrays, "arrow": _on_arrow, "torch": _on_tensors}
"""What calls a function of columns with a batch of rows, by the form of the columns."""


@overload
def map_columns(
    pipe: Batches,
    /,
    function: Callable[[dict[str, npt.NDArray[Any]]], Arrays],
    *,
    format: Literal["numpy"] = "numpy",
    rng: Literal[False, "global"] = False,
    name: str | None = None,
) -> Pipe[Rows]: ...
@overload
def map_columns(
    pipe: Batches,
    /,
    function: Callable[[pa.RecordBatch], pa.RecordBatch],
    *,
    format: Literal["arrow"],
    rng: Literal[False, "global"] = False,
    name: str | None = None,
) -> Pipe[Rows]: ...
@overload
def map_columns(
    pipe: Batches,
    /,
    function: Callable[[dict[str, torch.Tensor]], Tensors],
    *,
    format: Literal["torch"],
    rng: Literal[False, "global"] = False,
    name: str | None = None,
) -> Pipe[Rows]: ...
@overload
def map_columns(
    pipe: Batches,
    /,
    function: Callable[[Any, np.random.Generator], Arrays | Tensors | pa.RecordBatch],
    *,
    format: Literal["numpy", "arrow", "torch"] = "numpy",
    rng: Literal[True],
    name: str | None = None,
) -> Pipe[Rows]: ...
def map_columns(
    pipe: Batches,
    /,
    function: Callable[..., Arrays | Tensors | pa.RecordBatch],
    *,
    format: Literal["numpy", "arrow", "torch"] = "numpy",
    rng: Literal[False, True, "global"] = False,
    name: str | None = None,
) -> Pipe[Rows]:
    """Replace the columns of each batch with `function(columns)`.

    Element: a `feedpipe.Rows` with the columns that `function` returned. No row becomes a Python object; `collate`,
    `unbatch` or another `map_columns` may follow as after any batch. Order and length are the input's: each batch
    becomes one batch, with as many rows as the columns that were returned, even none. Indexed if the input is. State:
    none.

    Args:
        function: called with the columns of each batch; returns columns of one length in the same form. They may be the
            columns that it was called with or new ones, and may have fewer rows. Its errors come with file, line and
            row (`RowError`).
        format: the form of the columns. "numpy": a dict of read-only arrays. Values that NumPy has no type for, such as
            text, lists and their nulls, are in arrays of Python objects; a column that is returned unchanged keeps its
            type. "arrow": a `pyarrow.RecordBatch`, which has all types and nulls. "torch": a dict of tensors as
            `collate` makes them, copies that can be written to; text is a list.
        rng, name: as in `map`; with `rng=True` the call is `function(columns, rng)`.

    Raises:
        DataError: an element is not a batch of rows, `function` did not return columns of one length, or there is a
            null among numbers, and the format is not "arrow". The error names the column.

    Example:
        >>> import feedpipe as fp, pyarrow as pa, pyarrow.compute as pc
        >>> batches = fp.from_table(pa.table({"x": [1, 2, 3], "y": [10, 20, 30]})).batch(2)
        >>> batches.map_columns(lambda c: {"sum": c["x"] + c["y"]}).collate()[0]
        {'sum': tensor([11, 22])}
        >>> list(batches.map_columns(lambda b: b.filter(pc.field("x") > 1), format="arrow").unbatch())
        [{'x': 2, 'y': 20}, {'x': 3, 'y': 30}]
    """
    return pipe.then(MapColumns(function, rng, name, format))
