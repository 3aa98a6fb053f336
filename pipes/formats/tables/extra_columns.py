"""Columns that files do not hold: those of their folders, and those that say where a row comes from."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...core.cursor import Json
from ...core.rows import BlockRows, Column, Rows
from ...errors import ArgumentError, ArgumentTypeError, DataError, redacted, with_call_site
from ..text.chunks import Chunk, Parse
from .columns import plain
from .hive import folder_values

if TYPE_CHECKING:
    import pyarrow as pa


class Lineage(NamedTuple):
    """The names of the columns with the path of the file and the number of the row in it; None for no such column."""

    path_column: str | None
    row_column: str | None

    def check(self) -> None:
        for argument, name in self._asdict().items():
            if name is not None and not isinstance(name, str):
                raise ArgumentTypeError(with_call_site(f"`{argument}` must be the name of a column but got: {name!r}"))
        if self.path_column is not None and self.path_column == self.row_column:
            raise ArgumentError(
                with_call_site(f"`path_column` and `row_column` must differ but got: {self.path_column!r} for both")
            )

    def check_free(self, names: Container[str], source: str) -> None:
        """Raises a `DataError` where a row has a column of such a name already."""
        for argument, name in self._asdict().items():
            if name in names:
                raise DataError(f"{source} has a column {name!r} already; `{argument}` needs another name")

    def of(self, path: str, numbers: npt.NDArray[np.int64] | range) -> dict[str, Column]:
        """The columns for the rows of these numbers, from 0; a path goes into data without its password."""
        import pyarrow as pa

        made: dict[str, Column] = {}
        if self.path_column is not None:
            made[self.path_column] = pa.repeat(pa.scalar(redacted(path), pa.string()), len(numbers))
        if self.row_column is not None:
            own = np.arange(numbers.start, numbers.stop, dtype=np.int64) if isinstance(numbers, range) else numbers
            own.flags.writeable = False
            made[self.row_column] = own
        return made


@dataclass(frozen=True)
class Added:
    """The columns of the rows of text files, and which of them the files do not hold.

    Attributes:
        names: all but those of `lineage`, in their order.
        folders: types of those that the names of folders give.
        lineage: says where a row comes from.
        source: the first file.
        unified: whether a file may lack some.
    """

    names: tuple[str, ...]
    folders: Mapping[str, pa.DataType]
    lineage: Lineage
    source: str
    unified: bool = False

    def types(self, inside: Mapping[str, pa.DataType]) -> Json:
        """Names and types as plain values, given those of the columns in the files."""
        whole = {**inside, **self.folders}
        return plain({name: whole[name] for name in self.names})

    def after(
        self,
        parse: Callable[[Chunk], tuple[BlockRows, DataError | None]],
        path: str,
        lacking: Mapping[str, pa.DataType] | None = None,
    ) -> Parse:
        """`parse` for the file at `path`, with the columns that it does not hold, `lacking` among them."""
        values = folder_values(path, {**self.folders, **(lacking or {})}, self.source, unify=self.unified)

        def whole(chunk: Chunk, before: int) -> tuple[BlockRows, DataError | None]:
            rows, error = parse(chunk)
            if isinstance(rows, Rows):
                rows = self._with(rows, values, path, before)
            return rows, error

        return whole

    def _with(self, rows: Rows, values: Mapping[str, Any], path: str, before: int) -> Rows:
        import pyarrow as pa

        count = len(rows)
        columns = {**rows.columns, **{name: pa.repeat(value, count) for name, value in values.items()}}
        chosen = {name: columns[name] for name in self.names}
        return Rows({**chosen, **self.lineage.of(path, range(before, before + count))}, count)


def added(
    inside: Sequence[str],
    given: Mapping[str, pa.DataType],
    columns: Sequence[str] | None,
    lineage: Lineage,
    source: str,
    *,
    unified: bool,
) -> Added:
    """What is added to the columns `inside` of the files, the first of which is `source`.

    Args:
        given: types of the columns that folders give.
        columns: those that are wanted, of files and folders; None for all.
        unified: whether a file may lack some.

    Raises:
        DataError: a name of `lineage` is taken.
    """
    names = tuple([*inside, *given] if columns is None else columns)
    lineage.check_free(names, "one of the files" if unified else source)
    return Added(names, {name: given[name] for name in names if name in given}, lineage, source, unified)
