"""`from_arrays`: the rows of arrays that share their first axis."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, Union, cast

import numpy as np

from ..core.context import Context
from ..core.cursor import Json
from ..core.lazy import pa
from ..core.operator import Columns, Operator, Source, StageView
from ..core.rows import Array, BlockRows, Indices, Row, Rows, read_only, take
from ..errors import ArgumentError, ArgumentTypeError, Origin, SourceError
from ..pipe import Pipe
from .from_sequence import check_no_table

if TYPE_CHECKING:
    import torch


def from_arrays(arrays: Mapping[str, np.ndarray[Any, Any] | torch.Tensor]) -> Pipe[Row]:
    """Begin a pipe with the rows of arrays: row i holds item i of each.

    Element: a dict with a value for each name: a Python scalar, or a NumPy array if the array has more than one
    dimension. Order: the arrays'. Length: the arrays'; indexed; columns. State: a position. Nothing is copied or read
    early: a memory-mapped array stays on disk, and travels to another process as its path. Rows are read-only, so a
    function that writes into one gets an error instead of changing the source. `torch.from_numpy(row["x"])` shares the
    memory of the array all the same: copy with `torch.tensor(row["x"])` to write. Do not change the arrays while the
    pipe is in use.

    Args:
        arrays: NumPy arrays or CPU tensors by name, all with the same length of their first axis: numbers, bools, text
            or bytes of fixed width.

    Raises:
        ArgumentError: lengths differ, there is no array, or one has no axis.
        ArgumentTypeError: a value is neither an array nor a tensor, or its dtype cannot be a column.

    Example:
        >>> import feedpipe as fp, numpy as np
        >>> pipe = fp.from_arrays({"x": np.array([[1, 2], [3, 4]]), "y": np.array([0, 1])})
        >>> pipe[1]
        {'x': array([3, 4]), 'y': 1}
        >>> pipe.batch(2).collate()[0]["x"].shape
        torch.Size([2, 2])
    """
    check_no_table("from_arrays", arrays)
    if not isinstance(arrays, Mapping):
        raise ArgumentTypeError(
            f'`arrays` must be a dict of arrays, such as {{"x": X}}, but got: {type(arrays).__name__}'
        )
    if not arrays:
        raise ArgumentError("`arrays` must hold at least one array but got: {}")
    columns = {_name(name): _column(name, value) for name, value in arrays.items()}
    first, *others = columns
    for name in others:
        if len(columns[name]) != len(columns[first]):
            raise ArgumentError(
                f"`arrays` must be of one length but `{first}` has {len(columns[first])} rows and `{name}` "
                f"{len(columns[name])}"
            )
    return cast("Pipe[Row]", Pipe.source(FromArrays(columns)))


@dataclass(frozen=True, eq=False, repr=False)
class FromArrays(Source):
    kind: ClassVar[str] = "from_arrays"
    columns: ClassVar[Columns] = Columns.MAKES

    arrays: Mapping[str, Array]

    def length(self, stage: StageView) -> int:
        return len(next(iter(self.arrays.values())))

    def schema(self, stage: StageView) -> pa.Schema:
        return arrays_schema({name: (array.dtype, array.shape) for name, array in self.arrays.items()})

    def origin(self, stage: StageView, index: int, context: Context) -> Origin:
        return Origin("from_arrays", index + 1)

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        return rows_at(self.arrays, self.length(stage), indices)

    def identity(self) -> Json:
        return {name: [str(array.dtype), list(array.shape)] for name, array in self.arrays.items()}

    @classmethod
    def rows_of(cls, facts: Mapping[str, Json]) -> int | None:
        shapes = (cast("Any", value[1]) for value in facts.values() if isinstance(value, list))
        return next((int(shape[0]) for shape in shapes), None)

    def within(self, rows: range) -> Operator:
        return FromArrays({name: array[rows.start : rows.stop] for name, array in self.arrays.items()})

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, ({name: pickled_array(array) for name, array in self.arrays.items()},)


def _restored(parts: dict[str, PickledArray]) -> FromArrays:
    arrays = {k: part.array() if isinstance(part, MappedArray) else read_only(part) for k, part in parts.items()}
    return FromArrays(arrays)


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise ArgumentTypeError(f"the names of `arrays` must be of type str but got: {name!r}")
    return name


def _column(name: str, value: object) -> Array:
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentTypeError(f"`{name}` is a masked array, and a column has no mask; fill it with `.filled(...)`")
    if not isinstance(value, np.ndarray):
        if not type(value).__module__.startswith("torch") or not hasattr(value, "numpy"):
            raise ArgumentTypeError(
                f"`{name}` must be a NumPy array or a tensor but got: {type(value).__name__}; convert it with "
                "`np.asarray`, or give data frames and Arrow tables to `from_table`"
            )
        try:
            value = cast("torch.Tensor", value).detach().numpy()
        except TypeError as error:  # it is not on the CPU, is sparse, or of a type such as bfloat16
            raise ArgumentTypeError(f"`{name}` is a tensor that NumPy cannot read: {error}") from error
    if value.ndim == 0:
        raise ArgumentError(f"`{name}` must have at least one axis, for the rows, but has none")
    if value.dtype.kind not in "biufcSU":
        raise ArgumentTypeError(
            f"`{name}` has dtype {value.dtype}, and a column holds numbers, bools, text or bytes of fixed width; "
            f"{_REPAIRS.get(value.dtype.kind, 'give its fields one by one')}"
        )
    return read_only(value)


_REPAIRS = {
    "O": "convert it with `np.stack` or `.astype(str)`, or give a table to `from_table`",
    "M": 'give its numbers with `.view("int64")`, or a table to `from_table`',
    "m": 'give its numbers with `.view("int64")`, or a table to `from_table`',
}


# Arrays as columns


def rows_at(columns: Mapping[str, Array], length: int, indices: Indices) -> Rows:
    """The rows at `indices`: views if these are evenly spaced, else gathered when they are read."""
    if isinstance(indices, range):
        rows = take(Rows(columns, length), indices)
    else:
        rows = Rows.selected(columns, indices)
    assert isinstance(rows, Rows)
    if all(column.dtype.isnative for column in columns.values()):
        return rows
    # Neither torch nor Arrow reads a foreign byte order.
    return Rows({name: _native(column) for name, column in rows.columns.items()}, len(rows))


def _native(column: object) -> Array:
    array = np.asarray(column)
    return read_only(array.astype(array.dtype.newbyteorder("=")))


def arrays_schema(heads: Mapping[str, tuple[np.dtype[np.generic], tuple[int, ...]]]) -> pa.Schema:
    """Names and types of the columns of arrays, given the dtype and the shape of each."""
    columns = {name: np.empty((0, *shape[1:]), dtype.newbyteorder("=")) for name, (dtype, shape) in heads.items()}
    return Rows(columns, 0).arrow.schema


# Arrays on their way to another process


PickledArray: TypeAlias = Union["MappedArray", "Array"]


def pickled_array(array: Array) -> PickledArray:
    """The form in which an array is pickled: a mapped file travels as its path."""
    root: object = array
    while isinstance(root, np.ndarray) and not (isinstance(root, np.memmap) and isinstance(root.base, mmap.mmap)):
        root = root.base
    # No file has the changes to a copy-on-write map. Structured dtypes do not come back from their name.
    if not isinstance(root, np.memmap) or root.filename is None or root.mode == "c" or min(array.strides) < 0:
        return array if array.flags.forc else np.ascontiguousarray(array)
    offset = root.offset + array.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    return MappedArray(str(root.filename), offset, array.dtype.str, array.shape, array.strides)


class MappedArray(NamedTuple):
    """An array in a memory-mapped file, which another process maps as well."""

    path: str
    offset: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def array(self) -> Array:
        try:
            whole = np.memmap(self.path, np.uint8, "r")
            return read_only(np.ndarray(self.shape, self.dtype, whole, self.offset, self.strides))
        except (OSError, ValueError, TypeError) as error:
            raise SourceError(
                f"{self.path} cannot be mapped in this process as in the one that made the pipe: {error}"
            ) from error
