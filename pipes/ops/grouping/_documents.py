"""`Documents`: the tokens of many rows as flat arrays. No token becomes a Python object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import itemgetter
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ...core.column import Array
from ...core.rows import BlockRows, Rows, take
from ...engine.apply import map_until_error
from ...errors import UnfitError
from ._fill import Fill, fill_of, filled
from ._list_values import NUMBERS, UnfitRowError, described, list_values

TOKENS = "tokens"
"""The name of the tokens if a row is an array."""
ADDED_COLUMNS = "segment_ids", "position_ids"
"""What `pack` adds."""

_RULE = "`pack` takes one-dimensional arrays or lists of numbers; convert or drop others before"


@dataclass(frozen=True)
class Documents:
    """The tokens of documents, one after the other.

    Attributes:
        columns: for each column the values of all documents; there are none if no document has a token.
        starts: where each document begins, and where the last one ends.
    """

    columns: Mapping[str, Array]
    starts: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def total(self) -> int:
        """How many tokens there are."""
        return int(self.starts[-1])

    @staticmethod
    def of(columns: Mapping[str, Array], lengths: npt.NDArray[np.int64]) -> Documents:
        starts = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=starts[1:])
        return Documents(columns if starts[-1] else {}, starts)

    @staticmethod
    def joined(parts: Sequence[Documents]) -> Documents:
        """All documents of all parts."""
        tables = [part.columns for part in parts if part.columns]
        return Documents.of(joined_columns(tables), np.concatenate([np.diff(part.starts) for part in parts]))


class DocumentReader:
    """Reads the rows of a run as documents, which must have the same columns of the same dtypes.

    Attributes:
        pad: fills packs that are not full.
        dtypes: the columns, the tokens first; empty before the first token.
    """

    def __init__(self, column: str | None, pad: Fill) -> None:
        self.pad = pad
        self.dtypes: dict[str, np.dtype[Any]] = {}
        self._column = column
        self._names: tuple[str, ...] = ()

    def read(self, rows: BlockRows) -> tuple[Documents, Exception | None]:
        """The documents before the first row that is none, and what is wrong with that row."""
        if not isinstance(rows, Rows):
            documents, error = map_until_error(self._document, rows)
            return self._joined(documents), error
        try:
            return self._table(rows), None
        except UnfitError as error:
            row = error.row if isinstance(error, UnfitRowError) else 0
            if not row:
                return Documents.of({}, np.zeros(0, np.int64)), error
            before, earlier_error = self.read(take(rows, range(row)))
            return before, earlier_error or error

    def _table(self, rows: Rows) -> Documents:
        self._check_names(rows.columns)
        lists = {name: list_values(rows.columns[name], name, _RULE) for name in self._names}
        lengths = lists[self._names[0]][1]
        for name, (_, others) in lists.items():
            if (others != lengths).any():
                row = int(np.flatnonzero(others != lengths)[0])
                raise UnfitRowError(_lengths_differ(self._names[0], lengths[row], name, others[row]), row)
        columns = {name: values for name, (values, _) in lists.items()}
        if lengths.any():
            self._check_dtypes(columns, int(np.flatnonzero(lengths)[0]))
        return Documents.of(columns, lengths)

    def _document(self, row: object) -> dict[str, Array]:
        if type(row) is np.ndarray and row.ndim == 1 and row.dtype is self.dtypes.get(TOKENS) and not self._names:
            return {TOKENS: row}  # as the rows before
        if isinstance(row, Mapping):
            self._check_names(cast("Mapping[str, object]", row))
            arrays = {name: _array(row[name], name) for name in self._names}
        elif self._column is not None:
            raise UnfitError(f"rows must be dicts, because `column` is given, but one is of type {type(row).__name__}")
        else:
            arrays = {TOKENS: _array(row, TOKENS)}
        first, *others = arrays
        for name in others:
            if len(arrays[name]) != len(arrays[first]):
                raise UnfitError(_lengths_differ(first, len(arrays[first]), name, len(arrays[name])))
        if len(arrays[first]):  # an empty list has no dtype
            self._check_dtypes(arrays)
        return arrays

    def _joined(self, documents: list[dict[str, Array]]) -> Documents:
        tokens = map(itemgetter(self._names[0] if self._names else TOKENS), documents)
        lengths = np.fromiter(map(len, tokens), np.int64, len(documents))
        return Documents.of(joined_columns(list(compress(documents, lengths.tolist()))), lengths)

    def _check_names(self, columns: Mapping[str, object]) -> None:
        if self._names and self._names == tuple(columns):
            return
        names = self._tokens_first(columns)
        if self._names and set(names) != set(self._names):
            raise UnfitRowError(f"rows must have the same columns but have {list(self._names)} and {list(names)}")
        self._names = names

    def _tokens_first(self, columns: Iterable[str]) -> tuple[str, ...]:
        names = [*columns]
        column = names[0] if self._column is None and len(names) == 1 else self._column
        if column is None:
            raise UnfitRowError(
                f"`column` must be given if rows have several columns; which of {names} has the tokens?"
            )
        if column not in names:
            raise UnfitRowError(f"`column` must be one of {names} but is: {column!r}")
        for name in ADDED_COLUMNS:
            if name in names:
                raise UnfitRowError(f"rows must not have a column `{name}`, because `pack` adds it; rename or drop it")
        return (column, *(name for name in names if name != column))

    def _check_dtypes(self, columns: Mapping[str, Array], row: int = 0) -> None:
        dtypes = {name: values.dtype for name, values in columns.items()}
        if not self.dtypes:
            self._check_pad(list(columns))
            for name, dtype in dtypes.items():
                filled(1, fill_of(self.pad, name), dtype, name)
            self.dtypes = dtypes
        elif dtypes != self.dtypes:
            name = next(name for name in dtypes if dtypes[name] != self.dtypes[name])
            raise UnfitRowError(
                f"field `{name}`: dtypes {self.dtypes[name]} and {dtypes[name]} differ between rows; convert them with "
                "a `.map` before",
                row,
            )

    def _check_pad(self, names: list[str]) -> None:
        unknown = [name for name in self.pad if name not in names] if isinstance(self.pad, Mapping) else []
        if unknown:
            raise UnfitRowError(f"`pad` must have names of columns, which are {names}, but has: {unknown[0]!r}")


def joined_columns(tables: Sequence[Mapping[str, Array]]) -> Mapping[str, Array]:
    """The values of all tables, which have the same columns; none if there is no table."""
    if len(tables) == 1:
        return tables[0]
    return {name: np.concatenate([table[name] for table in tables]) for name in (tables[0] if tables else ())}


def _array(value: object, field: str) -> Array:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:
        raise UnfitError(f"field `{field}`: {error}; {_RULE}") from error
    if array.ndim != 1 or (array.dtype.kind not in NUMBERS):
        raise UnfitError(f"field `{field}`: a value of type {type(value).__name__}, {described(array)}; {_RULE}")
    return array


def _lengths_differ(first: str, length: int, other: str, other_length: int) -> str:
    return (
        f"fields `{first}` and `{other}` of a row must have as many items but have {length} and {other_length}; drop "
        "columns that do not belong to the tokens"
    )
