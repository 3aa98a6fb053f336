"""`pad_batch`: batches whose lists or arrays are equally long."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..core.arrow import number_dtype, numpy_array
from ..core.checks import check_int
from ..core.code import value_code
from ..core.lazy import pa
from ..core.rows import Array, Column, Rows, grid, is_grid, read_only
from ..errors import ArgumentError, ArgumentTypeError, UnfitError
from ._shared import not_a_batch
from .map import BatchMap

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")
Ints = npt.NDArray[np.int64]
Fill: TypeAlias = float | Mapping[str, float]
"""The padding: one number, or one for each column by name; a column without one gets 0."""

NUMBERS = "biuf"
"""The kinds of the dtypes of numbers."""

_RULE = "`pad_batch` takes lists or arrays of numbers; convert them before, or leave the column out of `columns`"
_RAGGED = (
    "it is ragged in more than one dimension, and `pad_batch` pads the first one only; pad the others before `.batch`"
)


def pad_batch(
    pipe: Pipe[Sequence[T]],
    /,
    value: float | Mapping[str, float] = 0,
    *,
    columns: Sequence[str] | None = None,
    to: int | None = None,
    multiple_of: int | None = None,
    lengths: str | None = None,
) -> Pipe[Sequence[T]]:
    """Make the lists or arrays in each batch equally long, so that `collate` can make tensors of them.

        [[a a a] [b] [c c]]   ->   pad_batch(): [[a a a] [b - -] [c c -]]

    Element: the batch with arrays instead of its lists; a batch of a table stays columns, and each padded column
    becomes one array. Rows may be dicts, rows of a table, tuples, lists or arrays. Tensors become arrays. Order and
    length are the input's. Indexed if the input is. State: none.

    Args:
        value: the padding, or a dict with that of each column by name, such as `{"labels": -100}`; others get 0.
        columns: the names of the columns to pad; None pads all lists of numbers and one-dimensional arrays, and of a
            table lists of arrays of one shape. Others of more dimensions are padded along the first of them if they are
            named, or if they are rows.
        to: the length of all rows; by default that of the longest row of the batch.
        multiple_of: rounds the length up to a multiple.
        lengths: the name of a new column with the lengths before padding.

    Raises:
        DataError: a row is longer than `to`, items are lists of different lengths, or the dtype of a column cannot hold
            its padding; `value` names a column that is not padded.
        ArgumentError: `to` or `multiple_of` is below 1, or both are given.

    Example:
        >>> import feedpipe as fp
        >>> batches = fp.from_sequence([{"x": [1, 2, 3]}, {"x": [4]}]).batch(2).pad_batch(-1, lengths="n")
        >>> batches.collate()[0]
        {'x': tensor([[ 1,  2,  3],
                [ 4, -1, -1]]), 'n': tensor([3, 1])}
    """
    if isinstance(columns, str) or (columns is not None and not all(isinstance(name, str) for name in columns)):
        raise ArgumentTypeError(f"`columns` must be a list of names but got: {columns!r}")
    names = None if columns is None else tuple(columns)
    return pipe.then(PadBatch(value=value, names=names, to=to, multiple_of=multiple_of, lengths=lengths))


@dataclass(frozen=True, eq=False, repr=False)
class PadBatch(BatchMap):
    kind: ClassVar[str] = "pad_batch"

    function: None = field(default=None, init=False, repr=False)  # type: ignore[assignment]
    value: Fill = 0
    names: tuple[str, ...] | None = None  # the `columns`, which are a declaration here
    to: int | None = None
    multiple_of: int | None = None
    lengths: str | None = None

    def __post_init__(self) -> None:
        for value in self.value.values() if isinstance(self.value, Mapping) else [self.value]:
            check_fill("value", value)
        for name in ("to", "multiple_of"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, check_int(name, getattr(self, name), least=1))
        if self.to is not None and self.multiple_of is not None:
            raise ArgumentError(
                "`multiple_of` must be left out if `to` is given, which alone says how long the rows become"
            )
        if self.lengths is not None and not isinstance(self.lengths, str):
            raise ArgumentTypeError(f"`lengths` must be a name but got: {self.lengths!r}")

    @property
    def row_function(self) -> Callable[..., object]:
        return self._batch

    def call(self) -> str:
        values = {
            "columns": None if self.names is None else list(self.names),
            "to": self.to,
            "multiple_of": self.multiple_of,
            "lengths": self.lengths,
        }
        arguments = [f"{name}={value_code(value)}" for name, value in values.items() if value is not None]
        return f"pad_batch({', '.join([*([value_code(self.value)] if self.value else []), *arguments])})"

    def _batch(self, batch: object) -> object:
        """The padded batch."""
        if isinstance(batch, Rows):
            padded, lengths = self._padded(batch.columns)
            arrays = {name: read_only(array) for name, array in padded.items()}
            return Rows({**batch.columns, **arrays, **lengths}, len(batch))
        if not isinstance(batch, Sequence) or isinstance(batch, (str, bytes)):
            raise not_a_batch(batch)
        rows: list[Any] = list(batch)
        if rows and all(isinstance(row, Mapping) for row in rows):
            names = dict.fromkeys([*rows[0], *(self.names or ())])
            missing = next((name for name in names if not all(name in row for row in rows)), None)
            if missing is not None and (self.names is None or missing in self.names):
                raise UnfitError(f"rows must have a field {missing!r}, but one has only: {list(rows[0])}")
            columns = {name: [row[name] for row in rows] for name in self.names or names}
            padded, lengths = self._padded(columns, [*rows[0]])
            added = {**padded, **{name: values.tolist() for name, values in lengths.items()}}
            return [{**row, **{name: values[i] for name, values in added.items()}} for i, row in enumerate(rows)]
        if self.names is not None or self.lengths is not None or isinstance(self.value, Mapping):
            raise UnfitError(
                "rows must be dicts or rows of a table if `columns`, `lengths` or a `value` by name is given"
            )
        if rows and all(isinstance(row, tuple) for row in rows):
            if len(set(map(len, rows))) > 1 or not rows[0]:
                raise UnfitError("rows that are tuples must have as many items")
            items = {f"[{place}]": list(values) for place, values in enumerate(zip(*rows, strict=True))}
            return list(zip(*({**items, **self._padded(items)[0]}).values(), strict=True))
        return list(self._column(rows, "row")[0]) if rows else rows

    def _padded(
        self, columns: Mapping[str, Column | list[Any]], names: Sequence[str] | None = None
    ) -> tuple[dict[str, Array], dict[str, Ints]]:
        """The padded columns, and the column of lengths, if one is asked for; `names` are those of the rows."""
        padded: dict[str, Array] = {}
        lengths: dict[str, Ints] = {}
        for name in [n for n, c in columns.items() if _is_padded(c)] if self.names is None else self.names:
            if name not in columns:
                raise UnfitError(f"`columns` must name columns of the rows, {list(columns)}, but has: {name!r}")
            padded[name], lengths[name] = self._column(columns[name], name)
        for name in self.value if isinstance(self.value, Mapping) else ():
            if name not in padded:
                raise UnfitError(
                    f"`value` must have names of columns that are padded, which are {[*padded]}, but has: {name!r}"
                )
        return padded, self._lengths(names or list(columns), lengths)

    def _column(self, column: Column | list[Any], field: str) -> tuple[Array, Ints]:
        value = fill_of(self.value, field)
        if isinstance(column, list):
            arrays = [number_array(value, field, _RULE, _RAGGED) for value in column]
            full = [array for array in arrays if len(array)]
            shape, dtype = (full[0].shape[1:], np.result_type(*full)) if full else ((), np.asarray(value).dtype)
            if any(array.shape[1:] != shape for array in full):
                raise UnfitError(f"field `{field}`: {_RAGGED}")
            lengths = np.fromiter(map(len, arrays), np.int64, len(arrays))
            padded = filled((len(arrays), self._width(lengths, field), *shape), value, dtype, field)
            for target, array in zip(padded, arrays, strict=True):
                if len(array):
                    target[: len(array)] = array
            return padded, lengths
        try:
            values, lengths = list_items(column, field, _RULE, _RAGGED)
        except UnfitRowError as error:
            raise UnfitError(f"{error} (row {error.row + 1} of the batch)") from None
        width = self._width(lengths, field)
        padded = filled((len(lengths), width, *values.shape[1:]), value, values.dtype, field)
        padded[np.arange(width) < lengths[:, None]] = values
        return padded, lengths

    def _width(self, lengths: Ints, field: str) -> int:
        longest = int(lengths.max(initial=0))
        if self.to is None:
            return longest + -longest % (self.multiple_of or 1)
        if longest > self.to:
            row = int(np.argmax(lengths)) + 1
            raise UnfitError(
                f"field `{field}`: row {row} of the batch has {longest} items, and `to` is {self.to}; cut longer rows "
                "before, or raise `to`"
            )
        return self.to

    def _lengths(self, names: Sequence[str], lengths: Mapping[str, Ints]) -> dict[str, Ints]:
        if self.lengths is None:
            return {}
        if self.lengths in names:
            raise UnfitError(f"`lengths` must be a new name, but rows have a column {self.lengths!r}")
        first = next(iter(lengths), None)
        if first is None:
            raise UnfitError("`lengths` needs a column that is padded, but rows have no lists of numbers")
        for name, others in lengths.items():
            if (others != lengths[first]).any():
                raise UnfitError(
                    f"`lengths` must hold for all columns that are padded, but the lengths of {first!r} and {name!r} "
                    "differ; name one in `columns`, and pad the other with a second `.pad_batch`"
                )
        return {self.lengths: lengths[first]}


def _is_padded(column: Column | list[Any]) -> bool:
    """True if all values are lists of numbers, one-dimensional arrays or tensors, or in a table lists of arrays."""
    if isinstance(column, list):
        return all(map(_is_list_of_numbers, column))
    if isinstance(column, np.ndarray):
        return False
    kind: Any = column.type
    if not isinstance(kind, (pa.ListType, pa.LargeListType, pa.FixedSizeListType)):
        return False
    values = kind.value_type
    while isinstance(values, pa.FixedSizeListType):  # arrays of one shape, such as boxes
        values = values.value_type
    return number_dtype(values) is not None


def _is_list_of_numbers(value: object) -> bool:
    if isinstance(value, list):
        items = cast("list[object]", value)
        return not items or isinstance(items[0], (bool, int, float, np.number, np.bool_))
    return getattr(value, "ndim", 0) == 1 and hasattr(value, "__array__")


# The padding, in the type of a column. `pack` uses it too.


def check_fill(name: str, value: object) -> None:
    if not isinstance(value, (bool, int, float, np.number, np.bool_)):
        raise ArgumentTypeError(f"`{name}` must be a number but got: {value!r}")


def fill_of(fill: Fill, field: str) -> float:
    """The padding of column `field`."""
    return fill.get(field, 0) if isinstance(fill, Mapping) else fill


def filled(shape: int | tuple[int, ...], value: float, dtype: np.dtype[Any], field: str) -> Array:
    """An array of `value`.

    Raises:
        UnfitError: the dtype of column `field` cannot hold the value.
    """
    try:
        array = np.full(shape, value, dtype)
    except (OverflowError, ValueError):
        raise _no_room(value, dtype, field) from None
    if dtype.kind != "f" and array.size and array.flat[0] != value:
        raise _no_room(value, dtype, field)
    return array


def _no_room(value: float, dtype: np.dtype[Any], field: str) -> UnfitError:
    return UnfitError(
        f"field `{field}`: its dtype {dtype} cannot hold the padding {value!r}; choose another value, or convert the "
        "column before"
    )


# Lists of numbers as arrays, and columns of them as flat arrays. `pack` uses them too.


def number_array(value: object, field: str, rule: str, ragged: str = "", *, least: int = 1) -> Array:
    """A value of a row as an array of numbers with at least so many axes; an error ends with `rule` or `ragged`."""
    if isinstance(value, list) and not value:
        return np.zeros(0, np.int64)  # a float for NumPy
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:
        is_ragged = ragged and isinstance(error, ValueError)
        raise UnfitError(f"field `{field}`: {ragged if is_ragged else f'{error}; {rule}'}") from error
    if array.ndim < least or array.dtype.kind not in NUMBERS:
        raise UnfitError(f"field `{field}`: a value of type {type(value).__name__}, {described(array)}; {rule}")
    return array


class UnfitRowError(UnfitError):
    """Row `row` of a batch does not fit."""

    def __init__(self, message: str, row: int = 0) -> None:
        super().__init__(message)
        self.row = row


def list_items(column: Column, field: str, rule: str, ragged: str) -> tuple[Array, Ints]:
    """The items in all lists of a column, which may be lists or arrays themselves, and the length of each list.

    Raises:
        UnfitRowError: a row is no list of numbers; the message ends with `rule`.
        UnfitError: items differ in length; the message ends with `ragged`.
    """
    if not isinstance(column, np.ndarray):
        if column.null_count:
            raise UnfitRowError(f"field `{field}`: null; {rule}", column.is_null().to_pylist().index(True))
        if is_grid(column):
            column = grid(column)
    if isinstance(column, np.ndarray):
        if column.ndim < 2 or column.dtype.kind not in NUMBERS:
            raise UnfitRowError(f"field `{field}`: a column {described(column)}; {rule}")
        return column.reshape(-1, *column.shape[2:]), np.full(len(column), column.shape[1])
    lists: Any = column
    kind: Any = column.type
    if not isinstance(kind, (pa.ListType, pa.LargeListType, pa.FixedSizeListType)):
        raise UnfitRowError(f"field `{field}`: a column of type {kind}; {rule}")
    size: int | None = getattr(lists.type, "list_size", None)
    lengths = numpy_array(lists.value_lengths()).astype(np.int64) if size is None else np.full(len(lists), size)
    values = lists.flatten()
    if hasattr(kind.value_type, "value_field"):
        items, widths = list_items(values, field, rule, ragged)
        if len(different := np.flatnonzero(widths != widths[:1])):
            raise UnfitError(f"field `{field}`: items of {widths[0]} and {widths[different[0]]} numbers; {ragged}")
        width = int(widths[0]) if len(widths) else getattr(kind.value_type, "list_size", 0)
        return items.reshape(len(widths), width, *items.shape[1:]), lengths
    if values.null_count:
        place = values.is_null().to_pylist().index(True)
        row = int(np.searchsorted(np.cumsum(lengths), place, "right"))
        raise UnfitRowError(f"field `{field}`: null among the numbers; {rule}", row)
    array = numpy_array(values)
    if len(array) and array.dtype.kind not in NUMBERS:
        raise UnfitRowError(f"field `{field}`: a column of type {kind}; {rule}")
    return array, lengths


def described(array: Array) -> str:
    """Dtype and shape, for errors."""
    return f"of dtype {array.dtype} and shape {array.shape}"
