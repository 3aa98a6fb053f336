"""`from_arrays`: the rows of arrays that share their first axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from ..core.column import Array, read_only
from ..core.context import Context
from ..core.cursor import Json
from ..core.operator import Columns, Operator, StageView
from ..core.rows import BlockRows, Indices, Row
from ..errors import ArgumentError, ArgumentTypeError, Origin, with_call_site
from ..pipe import Pipe
from ._arrays import PickledArray, arrays_schema, describe_columns, pickled_array, rows_at, unpickled_arrays
from ._right_source import check_right_source
from ._write_guard import WriteGuard

if TYPE_CHECKING:
    import pyarrow as pa
    import torch


@dataclass(frozen=True, eq=False)
class FromArrays(Operator):
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
        guard = stage.memo("guard", lambda: WriteGuard(self.arrays.values()))
        guard.check(indices, stage.call_site)
        return rows_at(self.arrays, self.length(stage), indices)

    def identity(self) -> Json:
        return describe_columns(self.arrays)

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, ({name: pickled_array(array) for name, array in self.arrays.items()},)


def _restored(parts: dict[str, PickledArray]) -> FromArrays:
    return FromArrays(unpickled_arrays(parts))


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
        DataError: the arrays have changed while a run reads them; it looks at a few values only.

    Example:
        >>> import feedpipe as fp, numpy as np
        >>> pipe = fp.from_arrays({"x": np.array([[1, 2], [3, 4]]), "y": np.array([0, 1])})
        >>> pipe[1]
        {'x': array([3, 4]), 'y': 1}
        >>> pipe.batch(2).collate()[0]["x"].shape
        torch.Size([2, 2])
    """
    check_right_source("from_arrays", arrays)
    if not isinstance(arrays, Mapping):
        raise ArgumentTypeError(
            with_call_site(f'`arrays` must be a dict of arrays, such as {{"x": X}}, but got: {type(arrays).__name__}')
        )
    if not arrays:
        raise ArgumentError(with_call_site("`arrays` must hold at least one array but got: {}"))
    columns = {_name(name): _column(name, value) for name, value in arrays.items()}
    first, *others = columns
    for name in others:
        if len(columns[name]) != len(columns[first]):
            raise ArgumentError(
                with_call_site(
                    f"`arrays` must be of one length but `{first}` has {len(columns[first])} rows and `{name}` "
                    f"{len(columns[name])}"
                )
            )
    return cast("Pipe[Row]", Pipe.source(FromArrays(columns)))


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise ArgumentTypeError(with_call_site(f"the names of `arrays` must be of type str but got: {name!r}"))
    return name


def _column(name: str, value: object) -> Array:
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentTypeError(
            with_call_site(f"`{name}` is a masked array, and a column has no mask; fill it with `.filled(...)`")
        )
    if not isinstance(value, np.ndarray):
        if not type(value).__module__.startswith("torch") or not hasattr(value, "numpy"):
            raise ArgumentTypeError(
                with_call_site(
                    f"`{name}` must be a NumPy array or a tensor but got: {type(value).__name__}; convert it with "
                    "`np.asarray`, or give data frames and Arrow tables to `from_table`"
                )
            )
        value = _tensor_memory(name, cast("torch.Tensor", value))
    if value.ndim == 0:
        raise ArgumentError(with_call_site(f"`{name}` must have at least one axis, for the rows, but has none"))
    if value.dtype.kind not in "biufcSU":
        raise ArgumentTypeError(
            with_call_site(
                f"`{name}` has dtype {value.dtype}, and a column holds numbers, bools, text or bytes of fixed width; "
                f"{_REPAIRS.get(value.dtype.kind, 'give its fields one by one')}"
            )
        )
    return read_only(value)


_REPAIRS = {
    "O": "convert it with `np.stack` or `.astype(str)`, or give a table to `from_table`",
    "M": 'give its numbers with `.view("int64")`, or a table to `from_table`',
    "m": 'give its numbers with `.view("int64")`, or a table to `from_table`',
}


def _tensor_memory(name: str, tensor: torch.Tensor) -> Array:
    """The memory of a tensor as an array."""
    if tensor.device.type != "cpu":
        raise ArgumentTypeError(
            with_call_site(f"`{name}` is on {tensor.device}, and rows are read from CPU memory; give `{name}.cpu()`")
        )
    try:
        return tensor.detach().numpy()
    except TypeError as error:  # bfloat16 and float8 have no NumPy dtype; a sparse tensor has no dense memory
        if "strided" in str(tensor.layout):
            repair = f"give `{name}.float()`, or its bits with `{name}.view(torch.int{8 * tensor.element_size()})`"
        else:
            repair = f"give `{name}.to_dense()`"
        raise ArgumentTypeError(
            with_call_site(
                f"`{name}` is a tensor of {tensor.dtype} and {tensor.layout}, which NumPy cannot read; {repair}"
            )
        ) from error
