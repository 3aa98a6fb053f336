"""`OtherSide`: the rows that `join` adds to those of its input, and where each key is among them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ...core.block import Block
from ...core.column import Column, scalars
from ...core.row_bytes import nbytes
from ...core.rows import BlockRows, Rows, column_names, concat, pick, take
from ...engine.apply import map_until_error
from ...errors import LimitError, UnfitError
from ...formats.tables.arrow import to_column
from .._column_arguments import existing_columns
from .._keys import keys_of
from .._unfit_rows import as_mapping

Ints = npt.NDArray[np.int64]

MAX_BYTES = 2**30
"""So much the rows of the other side may take in each process."""
NO_ROW = -1
"""Stands for the number of a key that the other side does not have, and for the place of its row."""


class Matches(NamedTuple):
    """Pairs of rows that belong together: `left` are places among the rows of the input, `right` in the other side."""

    left: Ints
    right: Ints


@dataclass(frozen=True)
class OtherSide:
    """All rows of the other side, and an index of their keys.

    Attributes:
        rows: as columns, or as dicts; without the columns of the key.
        names: those of the columns.
        numbers: of each key; null and NaN are no keys.
        starts: the rows of key number k are at the places `order[starts[k] : starts[k + 1]]`.
    """

    rows: BlockRows
    names: tuple[str, ...]
    numbers: Mapping[Hashable, int]
    starts: Ints
    order: Ints

    def find(self, rows: BlockRows, key: tuple[str, ...]) -> tuple[Ints, Exception | None]:
        """The number of the key of each row, up to the first row that has none; and its error."""
        if not isinstance(rows, Rows) or len(key) > 1:
            keys, error = keys_of(rows, key)
            numbers, unhashable = self._numbers_of(keys)
            return numbers, unhashable or error
        import pyarrow as pa

        try:
            (name,) = existing_columns(key, column_names(rows))
        except UnfitError as error:
            return np.zeros(0, np.int64), error
        column = rows[name]
        if isinstance(column, np.ndarray) and column.ndim > 1:
            return np.zeros(0, np.int64), UnfitError(f"a key must be one value for each row but is: {column[:1]!r:.80}")
        try:
            encoded: Any = (pa.array(column) if isinstance(column, np.ndarray) else column).dictionary_encode()
        except pa.ArrowNotImplementedError:  # of structs and lists
            return self._numbers_of(scalars(column))
        # Each value is looked up once. The last number is that of a null.
        numbers, unhashable = self._numbers_of(scalars(encoded.dictionary))
        places = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
        return (numbers, unhashable) if unhashable else (np.append(numbers, NO_ROW)[places], None)

    def check_one_row_each(self) -> None:
        """Raises an `UnfitError` if two rows have one key."""
        counts = np.diff(self.starts)
        if len(counts) and counts.max() > 1:
            doubled = int(counts.argmax())
            key = next(key for key, number in self.numbers.items() if number == doubled)
            raise UnfitError(
                f'{int(counts[doubled])} rows have the key {key!r:.80}; `multiple="first"` takes the first, and '
                '`multiple="all"` gives a row for each'
            )

    def _numbers_of(self, keys: Sequence[Any]) -> tuple[Ints, Exception | None]:
        numbers, error = map_until_error(lambda key: self.numbers.get(key, NO_ROW), keys)
        if error is not None:
            error = UnfitError(f"a key must be hashable but is: {keys[len(numbers)]!r:.80}; join by another column")
        return np.array(numbers, np.int64), error

    def match(self, numbers: Ints, *, keeps_all: bool, gives_all: bool) -> Matches:
        """The pairs of rows that belong together.

        Args:
            numbers: of the keys of some rows of the input.
            keeps_all: whether a row without a partner stays.
            gives_all: whether a row comes with each row of its key; else with the first.
        """
        left = np.arange(len(numbers)) if keeps_all else np.flatnonzero(numbers != NO_ROW)
        own = numbers[left]
        # Behind the last key stands one that has a single row, `NO_ROW`: that of `numbers` -1.
        starts, order = np.append(self.starts, len(self.order) + 1), np.append(self.order, NO_ROW)
        own = np.where(own == NO_ROW, len(self.starts) - 1, own)
        first = starts[own]
        if not gives_all:
            return Matches(left, order[first])
        counts = starts[own + 1] - first
        inside = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        return Matches(np.repeat(left, counts), order[np.repeat(first, counts) + inside])

    def take_columns(self, places: Ints, *, nulls: bool) -> dict[str, Column]:
        """The columns of the rows at `places`. With `nulls` they are held in Arrow, and null at the place `NO_ROW`."""
        assert isinstance(self.rows, Rows), "only a table has columns"
        if not nulls:
            return dict(cast("Rows", take(self.rows, places)).columns)
        import pyarrow as pa

        indices = pa.array(places, mask=places == NO_ROW)
        return {name: to_column(cast("Any", column).take(indices)) for name, column in self.rows.columns.items()}

    def take_dicts(self, places: Ints) -> list[Mapping[str, object] | None]:
        """The rows at `places` as dicts; None at the place `NO_ROW`."""
        exists = places != NO_ROW
        own = places[exists]
        rows = iter(take(self.rows, own) if isinstance(self.rows, Rows) else pick(self.rows, own.tolist()))
        return [as_mapping(next(rows)) if has_row else None for has_row in exists.tolist()]


def read_rows(blocks: Iterable[Block]) -> BlockRows:
    """All rows of a run.

    Raises:
        LimitError: they take more than `MAX_BYTES`.
    """
    parts: list[BlockRows] = []
    used = 0
    for block in blocks:
        used += nbytes(block.rows)
        if used > MAX_BYTES:
            raise LimitError(
                f"the other side takes more than 1 GiB after {sum(map(len, parts))} rows; `.select` fewer columns of "
                "it, or use `.zip_by_key` if both sides come in nearly the same order"
            )
        parts.append(block.rows)
    return concat(parts) if parts else []


def index_rows(rows: BlockRows, key: tuple[str, ...], *, nulls: bool) -> OtherSide:
    """The other side of these rows.

    Args:
        key: the columns of the key.
        nulls: whether columns must be held in Arrow, where they can be null.

    Raises:
        UnfitError: a row has no key.
    """
    keys, error = keys_of(rows, key)
    if error is not None:
        raise error
    if not isinstance(rows, Rows):
        dicts = [{name: value for name, value in as_mapping(row).items() if name not in key} for row in rows]
        return index_dicts(keys, dicts)
    table = Rows.from_arrow(rows.arrow) if nulls else rows
    columns = {name: column for name, column in table.columns.items() if name not in key}
    return OtherSide(Rows(columns, len(rows)), tuple(columns), *_index(keys))


def index_dicts(keys: Sequence[Hashable], dicts: Sequence[object]) -> OtherSide:
    """The other side of rows that are dicts, without their keys."""
    for row in dicts:
        if not isinstance(row, Mapping):
            raise UnfitError(
                f"a row must be a dict, whose keys name the columns, but one is of type {type(row).__name__}; give "
                "`{'name': value}` in place of a value"
            )
    names = dict.fromkeys(name for row in dicts for name in as_mapping(row))
    return OtherSide(list(dicts), tuple(names), *_index(keys))


def _index(keys: Sequence[Hashable]) -> tuple[dict[Hashable, int], Ints, Ints]:
    """The number of each key, where the rows of each number start, and the rows in the order of these numbers."""
    numbers: dict[Hashable, int] = {}
    own, error = map_until_error(lambda key: NO_ROW if _is_null(key) else numbers.setdefault(key, len(numbers)), keys)
    if error is not None:
        raise UnfitError(f"a key must be hashable but is: {keys[len(own)]!r:.80}; join by another column")
    owners = np.array(own, np.int64)
    order = np.argsort(owners, kind="stable")
    return numbers, np.searchsorted(owners[order], np.arange(len(numbers) + 1)), order


def _is_null(key: object) -> bool:
    if isinstance(key, tuple):
        return any(map(_is_null, cast("tuple[object, ...]", key)))
    return key is None or key != key  # NaN is not equal to itself
