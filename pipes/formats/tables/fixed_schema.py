"""`FixedSchema`: the names and types of columns that hold for all files of a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import DataError
from .arrow_types import common_type, widens_to
from .columns import missing_column_error, unexpected_column_error
from .heads import TableHead
from .hive import folder_values

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class FixedSchema:
    """Names and types, the same for all files.

    Attributes:
        file_types: types of the columns that are read from the files, those that only a filter needs included.
        folder_types: types of the columns that the names of folders give, likewise.
        names: the columns of the rows, in their order, without path and row number.
        read_columns: the columns to read from files, as the reader is asked for them; None for all.
        filter_columns: the columns in the filter.
        all_columns: all columns of the files, read or not.
        source: the file that names and types come from; the first one if they come from all.
        unified: whether names and types come from all files, so that a file may lack some columns.
    """

    file_types: dict[str, pa.DataType]
    folder_types: dict[str, pa.DataType]
    names: tuple[str, ...]
    read_columns: list[str] | None
    filter_columns: tuple[str, ...]
    all_columns: tuple[str, ...]
    source: str
    unified: bool

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Types of all columns, of files and folders."""
        return {**self.file_types, **self.folder_types}

    @property
    def row_types(self) -> dict[str, pa.DataType]:
        """Types of the columns of the rows, in their order, without path and row number."""
        types = self.types
        return {name: types[name] for name in self.names}

    @property
    def origin(self) -> str:
        """Where names and types come from, for errors."""
        return "all files" if self.unified else self.source

    def columns_in(self, head: TableHead) -> list[str]:
        """The columns that are read from a file.

        Raises:
            DataError: the file lacks a column, has an unexpected one, or its values may not fit the fixed type.
        """
        if head.name == self.source and not self.unified:
            return [*self.file_types]
        existing = None if self.read_columns is None else head.existing(self.read_columns)
        types = {field.name: field.type for field in head.schema_of(existing)}
        if not self.unified:
            names = frozenset(types if existing is None else existing)
            for name in self.file_types if self.read_columns is None else self.read_columns:
                if name not in names:
                    raise missing_column_error(head.name, name, head.schema.names, self.source)
        for name, kind in types.items():
            if name not in self.file_types:
                raise unexpected_column_error(head.name, name, self.source, unified=self.unified)
            fixed = self.file_types[name]
            repair = "" if self.unified else "`unify_schemas=True` looks for a type that can, or "
            if not (common_type(fixed, kind) == fixed if self.unified else widens_to(kind, fixed)):
                raise DataError(
                    f"{head.name}, column {name!r}: its type is {kind}, and {fixed} in {self.source}, "
                    f"which cannot hold all such values; {repair}leave the column out with `columns=`"
                )
        return [*types]

    def constants(self, path: str, columns: Iterable[str], values: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The values of columns that a file does not have, as Arrow scalars; null if nothing else says them.

        Args:
            path: the path of the file.
            columns: the columns that the file has.
            values: of other columns, from the log of a table; None if the names of folders say them.

        Raises:
            DataError: a folder is missing, or its value does not fit.
        """
        existing = frozenset(columns)
        types = {name: kind for name, kind in self.types.items() if name not in existing}
        if values is None:
            return folder_values(path, types, self.source, unify=self.unified)
        import pyarrow as pa

        return {name: values.get(name, pa.scalar(None, kind)) for name, kind in types.items()}

    def cast(self, array: Any, name: str, file: str) -> Any:
        """Cast values of a column of a file to the fixed type."""
        import pyarrow as pa

        kind = self.file_types[name]
        try:
            return array if array.type == kind else array.cast(kind)
        except pa.ArrowException as error:
            raise DataError(
                f"{file}, column {name!r}: values of type {array.type} cannot become {kind}, the type "
                f"{'of all files together' if self.unified else f'in {self.source}'}: {error}"
            ) from error

    def cast_batch(self, batch: pa.RecordBatch, file: str) -> pa.RecordBatch:
        """Cast all columns of a batch of a file to the fixed types."""
        import pyarrow as pa

        names = batch.schema.names
        columns = [self.cast(column, name, file) for name, column in zip(names, batch.columns, strict=True)]
        return pa.RecordBatch.from_arrays(columns, names) if names else batch
