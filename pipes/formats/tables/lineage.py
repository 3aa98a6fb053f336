"""`Lineage`: the columns that say where a row comes from."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...core.column import Column
from ...errors import ArgumentError, ArgumentTypeError, DataError, redacted, with_call_site


class Lineage(NamedTuple):
    """The names of the columns with the path of the file and the number of the row in it; None for no such column."""

    path_column: str | None
    row_column: str | None

    def check(self) -> None:
        """Check the user's arguments."""
        for argument, name in self._asdict().items():
            if name is not None and not isinstance(name, str):
                raise ArgumentTypeError(with_call_site(f"`{argument}` must be the name of a column but got: {name!r}"))
        if self.path_column is not None and self.path_column == self.row_column:
            raise ArgumentError(
                with_call_site(f"`path_column` and `row_column` must differ but got: {self.path_column!r} for both")
            )

    def check_free(self, names: Container[str], source: str) -> None:
        """Raise a `DataError` if the rows of `source` already have a column with one of these names."""
        for argument, name in self._asdict().items():
            if name in names:
                raise DataError(f"{source} has a column {name!r} already; `{argument}` needs another name")

    def columns_for(self, path: str, numbers: npt.NDArray[np.int64] | range) -> dict[str, Column]:
        """The columns for the rows with these numbers, counted from 0; the path without its password."""
        import pyarrow as pa

        columns: dict[str, Column] = {}
        if self.path_column is not None:
            columns[self.path_column] = pa.repeat(pa.scalar(redacted(path), pa.string()), len(numbers))
        if self.row_column is not None:
            if isinstance(numbers, range):
                numbers = np.arange(numbers.start, numbers.stop, dtype=np.int64)
            numbers.flags.writeable = False
            columns[self.row_column] = numbers
        return columns
