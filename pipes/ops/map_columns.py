"""`map_columns`: a function of the columns of each batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, Union, overload

from ..core.checks import check_choice
from ..core.rows import Rows
from ._columns import as_rows, numpy_columns
from ._function_result import rows_of_columns, rows_of_record_batch
from ._map_batches import MapBatches
from .collate import tensors

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    import torch

    from ..pipe import Pipe

Arrays: TypeAlias = Mapping[str, Union["npt.NDArray[Any]", list[Any]]]
"""Columns as a function may return them: arrays whose first axis counts rows, or lists."""
Tensors: TypeAlias = Mapping[str, Union["torch.Tensor", list[Any]]]
Batches: TypeAlias = "Pipe[Sequence[Mapping[str, object]]]"


@dataclass(frozen=True)
class MapColumns(MapBatches):
    kind: ClassVar[str] = "map_columns"

    format: Literal["numpy", "arrow", "torch"] = "numpy"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("format", self.format, tuple(_FORMATS))

    @property
    def row_function(self) -> Callable[..., object]:
        return partial(_FORMATS[self.format], self.function)


def _on_arrays(function: Callable[..., object], batch: object, *rng: object) -> Rows:
    rows = as_rows(batch)
    columns = numpy_columns(rows)
    return rows_of_columns(function(dict(columns), *rng), columns, rows)


def _on_arrow(function: Callable[..., object], batch: object, *rng: object) -> Rows:
    return rows_of_record_batch(function(as_rows(batch).arrow, *rng))


def _on_tensors(function: Callable[..., object], batch: object, *rng: object) -> Rows:
    rows = as_rows(batch)
    return rows_of_columns(function(tensors(rows), *rng), {}, rows)


_FORMATS: dict[str, Callable[..., Rows]] = {"numpy": _on_arrays, "arrow": _on_arrow, "torch": _on_tensors}


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
    """Give a batch with the columns `function(columns)` in place of those of each batch.

    Element: a `Rows` again, with the columns that were returned; no row becomes a Python object, and `collate`,
    `unbatch` and further functions of columns follow as for any batch. Order and length are the input's: one batch for
    each, of as many rows as were returned, even none; indexed where the input is. State: none.

    Args:
        function: called with the columns of each batch; returns columns of one length, in the same form: those it was
            given, others, fewer rows. Its errors come with file, line and row (`RowError`).
        format: what the columns are. "numpy": a dict of arrays, which cannot be written to; what NumPy has no type for,
            such as text, lists and nulls of these, is an array of Python objects, and a column that is handed on keeps
            its type. "arrow": a `pyarrow.RecordBatch`, which holds all types and nulls. "torch": a dict of tensors as
            `collate` makes them, copies that can be written to; text is a list.
        rng, name: as in `map`; with `rng=True` it is `function(columns, rng)`.

    Raises:
        DataError: an element is no batch of rows, what is returned are no columns of one length, or a null stands among
            numbers, for which NumPy and torch have none; names the column.

    Example:
        >>> import feedpipe as fp, pyarrow as pa, pyarrow.compute as pc
        >>> batches = fp.from_table(pa.table({"x": [1, 2, 3], "y": [10, 20, 30]})).batch(2)
        >>> batches.map_columns(lambda c: {"sum": c["x"] + c["y"]}).collate()[0]
        {'sum': tensor([11, 22])}
        >>> list(batches.map_columns(lambda b: b.filter(pc.field("x") > 1), format="arrow").unbatch())
        [{'x': 2, 'y': 20}, {'x': 3, 'y': 30}]
    """
    return pipe.then(MapColumns(function, rng, name, format))
