"""`map_columns`: calls a function with the columns of each batch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, Union, cast, overload

import numpy as np

from ..core.checks import check_choice, check_torch
from ..core.lazy import pa
from ..core.rows import Column, Rows
from ..errors import UnfitError
from ..formats.columns import first_duplicate
from ._shared import as_rows, check_name, column_of_array, column_of_values, numpy_columns
from .collate import tensors
from .map import BatchMap

if TYPE_CHECKING:
    import numpy.typing as npt
    import torch

    from ..pipe import Pipe

Arrays: TypeAlias = Mapping[str, Union["npt.NDArray[Any]", list[Any]]]
"""The columns that a function may return: arrays whose first axis counts the rows, or lists."""
Tensors: TypeAlias = Mapping[str, Union["torch.Tensor", list[Any]]]
Batches: TypeAlias = "Pipe[Sequence[Mapping[str, object]]]"


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


def check_format(name: str, format: str, *formats: str) -> None:
    """Checks the argument `format` of an operator."""
    check_choice("format", format, formats)
    if format == "torch":
        check_torch(f"`{name}` makes tensors")


@dataclass(frozen=True, eq=False, repr=False)
class MapColumns(BatchMap):
    kind: ClassVar[str] = "map_columns"

    format: Literal["numpy", "arrow", "torch"] = "numpy"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_format("map_columns", self.format, *FORMATS)

    @property
    def row_function(self) -> Callable[..., object]:
        return partial(FORMATS[self.format], self.function)


def _on_arrays(function: Callable[..., object], batch: object, *rng: object) -> Rows:
    rows = as_rows(batch)
    columns = numpy_columns(rows)
    return _rows_of_columns(function(dict(columns), *rng), columns, rows)


def _on_arrow(function: Callable[..., object], batch: object, *rng: object) -> Rows:
    return _rows_of_record_batch(function(as_rows(batch).arrow, *rng))


def _on_tensors(function: Callable[..., object], batch: object, *rng: object) -> Rows:
    rows = as_rows(batch)
    return _rows_of_columns(function(tensors(rows), *rng), {}, rows)


FORMATS: dict[str, Callable[..., Rows]] = {"numpy": _on_arrays, "arrow": _on_arrow, "torch": _on_tensors}
"""By the form of the columns: how a function of columns is called with a batch of rows."""


def _rows_of_columns(result: object, arguments: Mapping[str, object], rows: Rows) -> Rows:
    """The rows of the columns that a function returned. One of its read-only `arguments` keeps its type in `rows`."""
    if not isinstance(result, Mapping) or not result:
        what = "an empty dict" if isinstance(result, Mapping) else f"a value of type {type(result).__name__}"
        raise UnfitError(f"the function must return a dict of columns by name but returned {what}")
    columns: dict[str, Column] = {}
    for name, value in result.items():
        unchanged = name in arguments and value is arguments[name]
        columns[check_name(name)] = rows.columns[name] if unchanged else column_of_result(value, name)
    first = next(iter(columns))
    length = len(columns[first])
    for name, column in columns.items():
        if len(column) != length:
            raise UnfitError(
                f"the function must return columns of one length but {first!r} has {length} rows and {name!r} has "
                f"{len(column)}"
            )
    return Rows(columns, length)


def _rows_of_record_batch(result: object) -> Rows:
    """The rows of the record batch that a function returned."""
    if not isinstance(result, pa.RecordBatch):
        raise UnfitError(f"the function must return a RecordBatch but returned a value of type {type(result).__name__}")
    if twice := first_duplicate(result.schema.names):
        raise UnfitError(f"the function must return columns of different names but returned {twice!r} twice")
    return Rows.from_arrow(result)


def column_of_result(value: object, name: object) -> Column:
    """The column `name` that a function returned."""
    if isinstance(value, getattr(sys.modules.get("torch"), "Tensor", ())):
        try:
            value = cast("Any", value).numpy(force=True)
        except TypeError as error:  # a dtype that NumPy does not have, such as bfloat16
            raise UnfitError(f"field `{name}`: {error}; convert the tensor") from error
    if isinstance(value, list):
        return column_of_values(value, name)
    if not isinstance(value, np.ndarray) or not value.ndim:
        raise UnfitError(
            f"field `{name}`: the function must return an array or a list with a value for each row but returned a "
            f"value of type {type(value).__name__}"
        )
    return column_of_array(value, name)
