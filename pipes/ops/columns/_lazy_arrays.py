"""`LazyArrays`: the columns of rows as NumPy arrays, made when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...core.column import Array
from ...core.rows import Rows, column_names, select_columns
from ...errors import UnfitError
from .._columns import numpy_columns


class LazyArrays(Mapping[str, Array]):
    """Read-only arrays by name; a column that nobody asks for is neither gathered nor converted."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._arrays: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        if name not in self._arrays:
            names = column_names(self._rows)
            if name not in names:
                raise KeyError(f"{name!r} is none of the columns: {', '.join(map(repr, names))}")
            try:
                self._arrays |= numpy_columns(select_columns(self._rows, {name: name}))
            except UnfitError as error:
                raise UnfitError(
                    f"column {name!r} has a null, and NumPy has no null for numbers; use an expression, or fill "
                    f"it before: `.with_columns({name}=pc.coalesce(pc.field({name!r}), pc.scalar(0)))`"
                ) from error
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(column_names(self._rows))

    def __len__(self) -> int:
        return len(column_names(self._rows))
