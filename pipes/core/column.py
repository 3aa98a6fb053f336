"""Columns of rows: NumPy and Arrow arrays that are gathered, joined and converted alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, Union, cast

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa

Array: TypeAlias = npt.NDArray[np.generic]
ArrowArray: TypeAlias = "pa.Array[Any]"
Column: TypeAlias = Union["Array", "ArrowArray"]
"""One column: a NumPy array whose first axis counts rows, or a contiguous Arrow array."""


def scalars(column: Column) -> list[object]:
    """The values of a column as Python objects."""
    if isinstance(column, np.ndarray):
        return cast("list[object]", column.tolist() if column.ndim == 1 else list(column))
    if column.null_count == 0:
        if is_plain_number(column):
            return cast("list[object]", column.to_numpy(zero_copy_only=False).tolist())
        if is_grid(column):
            return list(grid(column))
    return cast("list[object]", column.to_pylist())


def is_grid(column: ArrowArray) -> bool:
    """Whether the column holds tensors of one shape, as `Rows.arrow` makes them of arrays."""
    return hasattr(column, "to_numpy_ndarray")


def grid(column: Any) -> Array:
    """A column of tensors of one shape, without nulls, as one array."""
    import pyarrow as pa

    if not pa.types.is_boolean(column.type.value_type) or column.type.permutation is not None:
        return cast("Array", column.to_numpy_ndarray())
    flat = column.storage.flatten().to_numpy(zero_copy_only=False)  # Arrow refuses bools
    return cast("Array", flat.reshape(len(column), *column.type.shape))


def read_only(array: Array) -> Array:
    """A read-only view of the same memory."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def take_column(column: Column, indices: npt.NDArray[np.int64]) -> Column:
    taken = gather_column(column, indices)
    if isinstance(taken, np.ndarray):
        taken.flags.writeable = False
    return taken


def gather_column(column: Column, indices: npt.NDArray[np.int64]) -> Column:
    if not isinstance(column, np.ndarray):
        return column.take(cast("Any", indices))
    # `take` is faster, but copies all of an array that is not contiguous.
    return column.take(indices, axis=0) if column.flags.c_contiguous else column[indices]


def concat_columns(columns: Sequence[Column]) -> Column:
    joined = join_columns(columns)
    if isinstance(joined, np.ndarray):
        joined.flags.writeable = False
    return joined


def join_columns(columns: Sequence[Column]) -> Column:
    if are_arrays(columns):
        return np.concatenate(columns)
    import pyarrow as pa

    return pa.concat_arrays([to_arrow(column) for column in columns])


def are_arrays(columns: Sequence[Column]) -> TypeGuard[Sequence[Array]]:
    for column in columns:  # noqa: SIM110 - `all` takes three times as long, and there may be thousands of columns
        if not isinstance(column, np.ndarray):
            return False
    return True


def type_of(column: Column) -> object:
    # Numbers in NumPy and in Arrow are one type: results never show which of them holds a column.
    if isinstance(column, np.ndarray):
        return column.dtype.str, column.shape[1:]
    return (np.dtype(column.type.to_pandas_dtype()).str, ()) if is_plain_number(column) else column.type


def is_plain_number(column: ArrowArray) -> bool:
    import pyarrow as pa

    kind = column.type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def to_arrow(column: Column) -> ArrowArray:
    import pyarrow as pa

    if not isinstance(column, np.ndarray):
        return column
    if column.ndim == 1:
        return pa.array(column)
    # As `FixedShapeTensorArray.from_numpy_ndarray` makes it, which refuses bools and an array without rows.
    values = pa.array(np.ascontiguousarray(column).reshape(-1))
    shape = column.shape[1:]
    kind: Any = pa.fixed_shape_tensor(cast("Any", values.type), shape)
    return pa.ExtensionArray.from_storage(kind, pa.FixedSizeListArray.from_arrays(values, math.prod(shape)))
