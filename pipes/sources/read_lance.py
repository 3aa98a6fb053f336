"""`read_lance`: the rows of a Lance dataset, by position."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

from ..core.checks import Package, check_int
from ..core.code import value_code
from ..core.context import Context
from ..core.cursor import Json
from ..core.lazy import pa
from ..core.operator import Columns, Operator, Source, StageView
from ..core.process import PerProcess
from ..core.rows import BlockRows, Indices, Row, index_array
from ..errors import ArgumentTypeError, DataError, FeedpipeError, Origin, SourceError, redacted
from ..files.open_files import at_call_site
from ..formats.columns import check_names, plain_types, suggest_name, to_rows
from ..pipe import Pipe

_PACKAGE = Package("lance", "pylance", "lance", "Lance datasets are read")


def read_lance(
    uri: str | os.PathLike[str], *, columns: Sequence[str] | None = None, version: int | None = None
) -> Pipe[Row]:
    """Begin a pipe with the rows of a Lance dataset, which can be read in any order.

    Element: a dict of Python scalars; a batch of them is `Rows`, which keeps columns. Order: the dataset's. Length:
    that of the version; indexed. State: a position. The version is fixed at the first look at the pipe; a state belongs
    to its version. Each process opens the dataset for itself, and reads the rows of a block in one call. Lance reads
    local paths and the URLs of S3, Google and Azure with its own storage, so there is no `filesystem=`.
    `pip install 'feedpipe[lance]'` installs it.

    Args:
        uri: the path or URL of the dataset.
        columns: reads only these, in this order.
        version: of the dataset; without it, the newest one.

    Raises:
        ArgumentError: Lance is not installed.
        SourceError: there is no such dataset or version, or rows cannot be read.
        DataError: the dataset lacks a column that `columns` names.

    Example:
        >>> import feedpipe as fp, lance, pyarrow as pa
        >>> _ = lance.write_dataset(pa.table({"x": [1, 2, 3], "y": ["a", "b", "c"]}), "a.lance")
        >>> pipe = fp.read_lance("a.lance", columns=["y"])
        >>> len(pipe), pipe[-1]
        (3, {'y': 'c'})
    """
    _PACKAGE.check()
    if not isinstance(uri, (str, os.PathLike)):
        raise ArgumentTypeError(f"`uri` must be a path or URL but got: {uri!r}")
    names = check_names("columns", columns)
    number = None if version is None else check_int("version", version, least=0)
    return cast("Pipe[Row]", Pipe.source(ReadLance(str(os.fspath(uri)), names, number)))


@dataclass(frozen=True, eq=False, repr=False)
class ReadLance(Source):
    kind: ClassVar[str] = "read_lance"
    columns: ClassVar[Columns] = Columns.MAKES

    uri: str
    names: Sequence[str] | None = None
    version: int | None = None
    rows_in_all: int | None = field(default=None, repr=False)
    """With names and types, fixed at the first look, as the version is."""
    names_and_types: pa.Schema | None = field(default=None, repr=False)
    dataset: PerProcess[Any] = field(default_factory=PerProcess, repr=False)

    def call(self) -> str:
        options = {"columns": self.names, "version": self.version}
        arguments = [f", {name}={value_code(value)}" for name, value in options.items() if value is not None]
        return f"read_lance({value_code(redacted(self.uri))}{''.join(arguments)})"

    def resolve(self, stage: StageView) -> Operator:
        if self.rows_in_all is not None:
            return self
        try:
            opened = _open(self.uri, self.version)
            schema = _selected(opened.schema, self.names, redacted(self.uri))
            return replace(
                self,
                version=opened.version,
                rows_in_all=opened.count_rows(),
                names_and_types=schema,
                dataset=PerProcess(),
            )
        except (SourceError, DataError) as error:
            raise at_call_site(error, stage) from error.__cause__

    def length(self, stage: StageView) -> int:
        assert self.rows_in_all is not None, "a run begins with `resolve`"
        return self.rows_in_all

    def schema(self, stage: StageView) -> pa.Schema | None:
        return self.names_and_types

    def identity(self) -> Json:
        schema = self.names_and_types
        types = None if schema is None else plain_types(dict(zip(schema.names, schema.types, strict=True)))
        return {"version": self.version, "rows": self.rows_in_all, "types": types}

    def origin(self, stage: StageView, index: int, context: Context) -> Origin:
        return Origin(redacted(self.uri), index + 1)

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        from ..formats.chunked import with_takeable_types

        schema = self.names_and_types
        assert schema is not None, "a run begins with `resolve`"
        try:
            dataset = self.dataset.get(lambda: _open(self.uri, self.version))
            table = _take(dataset, index_array(indices), schema.names, redacted(self.uri))
        except (SourceError, DataError) as error:
            raise at_call_site(error, stage) from error.__cause__
        return to_rows(with_takeable_types(table))


def _open(uri: str, version: int | None) -> Any:
    lance = _PACKAGE.load()
    try:
        return lance.dataset(uri, version=version)
    except Exception as error:  # Lance raises ValueError and OSError for all that can be wrong
        which = "" if version is None else f", version {version},"
        raise SourceError(f"{redacted(uri)}{which} cannot be opened as a Lance dataset: {_reason(error)}") from error


def _take(dataset: Any, indices: Any, names: Sequence[str], name: str) -> pa.Table:
    try:
        table = dataset.take(indices, columns=list(names))
    except FeedpipeError:
        raise
    except Exception as error:
        raise SourceError(f"{name}: rows cannot be read: {_reason(error)}") from error
    if len(table) != len(indices):
        raise DataError(f"{name}: {len(indices)} rows were asked for, and {len(table)} came")
    return cast("pa.Table", table)


def _selected(schema: Any, columns: Sequence[str] | None, name: str) -> pa.Schema:
    for column in columns or ():
        if column not in schema.names:
            raise DataError(
                f"{name} has no column {column!r}, which `columns` names; {suggest_name(column, schema.names)}"
            )
    return pa.schema([schema.field(column) for column in columns or schema.names])


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()).partition(", /")[0]
