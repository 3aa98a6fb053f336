"""`read_delta`: the rows of a version of a Delta table."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from ..core.arrow import arrow_array, numpy_array
from ..core.checks import Package, check_int
from ..core.code import value_code
from ..core.context import Context
from ..core.cursor import Json
from ..core.lazy import pa, pc
from ..core.operator import Columns, Operator, StageView, UnitSource, Weights
from ..core.rows import BlockRows, Indices, Row, index_list
from ..errors import ArgumentTypeError, DataError, Origin, SourceError, redacted, text_of
from ..files.open_files import at_call_site
from ..files.parquet import Parquet
from ..files.parquet_footer import may_match
from ..files.units import InputFiles, ParseCounted, Units
from ..formats.columns import FlatHead, TableHead, decoded_type
from ..formats.table_format import DeclaredSchema
from ..pipe import Pipe
from ..storage.file import File, TableFile
from ..storage.file_units import FileContents, UnitTable
from ..storage.filesystem import split_options, with_retries
from ..storage.manifest import join_path

PACKAGE = Package("deltalake", "deltalake", "delta", "Delta tables are read")


def read_delta(
    uri: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    filter: pc.Expression | None = None,  # noqa: A002 - as in pyarrow
    version: int | None = None,
) -> Pipe[Row]:
    """Begin a pipe with the rows of a Delta table.

    Element: a dict of Python scalars; a batch of them is `Rows`, which keeps columns. Names and types are those of the
    table; a file that was written before a column was added has nulls there. Order: the data files by their paths, and
    the rows of each file in order. Length: known from the footers, unless there is a `filter`; streamed. State: the
    version, a row group and a position in it. Workers share the work by row groups, and a later `shuffle` shuffles the
    row groups too. Errors name file and column, or file and row.

    The first look at the pipe reads the log of the table and fixes the version. A state keeps it: a loader that loads
    the state reads the same version, however far the table has grown, as long as no vacuum has removed its files.
    Several ranks need a process group, or a `version`, so that all read the same one.

    The package deltalake reads the log, once per pipe; `pip install 'feedpipe[delta]'` installs it. It and the Parquet
    reader reach local disks, and S3 with the credentials of the environment. Tables with column mapping, deletion
    vectors or other features of Delta's protocol that readers must know are refused.

    Args:
        uri: the path or URL of the table.
        columns: reads only these, in this order.
        filter: an expression of `pyarrow.compute`. It leaves out files by the values of the columns that the table is
            partitioned by, then row groups by their statistics, then rows.
        version: of the table; without it, the newest one.

    Raises:
        ArgumentError, ArgumentTypeError: an argument is of the wrong type; deltalake is not installed.
        SourceError: there is no such table or version, its log cannot be read, or a file is missing.
        DataError: the table cannot be read as described, lacks a column, or a file is damaged or has values that do not
            fit the types of the table.

    Source: Delta Transaction Log Protocol, https://github.com/delta-io/delta/blob/master/PROTOCOL.md

    Example:
        >>> import deltalake, feedpipe as fp, pyarrow as pa, pyarrow.compute as pc
        >>> table = pa.table({"year": [2023, 2024, 2024], "x": [1, 2, 3]})
        >>> deltalake.write_deltalake("points", table, partition_by=["year"])
        >>> deltalake.write_deltalake("points", table, mode="append")
        >>> list(fp.read_delta("points", columns=["x"], filter=pc.field("year") == 2024, version=0))
        [{'x': 2}, {'x': 3}]
        >>> len(fp.read_delta("points"))
        6
    """
    PACKAGE.check()
    if not isinstance(uri, (str, os.PathLike)):
        raise ArgumentTypeError(f"`uri` must be a path or URL but got: {uri!r}")
    number = None if version is None else check_int("version", version, least=0)
    form = DeltaFormat(columns=columns, filter=filter)
    files = DeltaFiles(str(os.fspath(uri)), form, number)
    return Pipe[Row].source(files).then(Units(form, has_fixed_order=True)).then(DeltaRows(form))


@dataclass(frozen=True, eq=False, kw_only=True)
class DeltaFormat(Parquet):
    """The options of Parquet files whose columns are those of the log, in its order.

    A file is not opened if its values of the columns by which the table is partitioned do not pass the filters.
    """

    kind: ClassVar[str] = "read_delta"
    arguments: ClassVar[tuple[str, ...]] = ("columns", "filter")
    int96_unit: ClassVar[str | None] = "us"  # nanoseconds reach no further than 2262

    def fix(self, heads: Iterable[TableHead | None], paths: Iterable[str]) -> DeltaFormat:
        fixed = super().fix(heads, paths)
        schema = fixed.require_fixed_schema(self.kind)
        return replace(fixed, fixed_schema=DeclaredSchema.of(schema))  # type: ignore[return-value]

    def folder_types(self, first: str, paths: Iterable[str], taken: Sequence[str]) -> dict[str, pa.DataType]:
        return {}

    def resolved(self, files: InputFiles) -> tuple[DeltaFormat, UnitTable]:
        table = cast("DeltaFiles", files.source)
        form = self.fix([table.head()], ())
        return form, form.find_units(files)

    def contents(self, file: File) -> FileContents:
        values = cast("TableFile", file).values
        if all(may_match(expression, types, values) for expression, types in self.filters()):
            return super().contents(file)
        return FileContents(pa.schema([]), 0, [], [])


@dataclass(frozen=True, eq=False, repr=False)
class DeltaFiles(UnitSource):
    """The data files of a version, which `resolve` fixes: it reads the log of the table."""

    kind: ClassVar[str] = "read_delta"
    columns: ClassVar[Columns] = Columns.LOSES

    # The table may be in another place tomorrow; `saved` has the version.
    uri: str = field(repr=False)
    format: DeltaFormat = field(repr=False)
    version: int | None = field(default=None, repr=False)
    saved_version: int | None = field(default=None, repr=False)
    """The version of a state."""
    resolved: DeltaVersion | None = field(default=None, repr=False)

    def call(self) -> str:
        arguments = [value_code(redacted(self.uri))]
        arguments += filter(None, [self.format.call().removeprefix("read_delta(").removesuffix(")")])
        arguments += [f"version={self.version}"] if self.version is not None else []
        return f"read_delta({', '.join(arguments)})"

    def one_view_repair(self) -> str | None:
        return "give all ranks the same `version`" if self.version is None else None

    def resolve(self, stage: StageView) -> Operator:
        if self.resolved is not None:
            return self
        version = self.saved_version if self.version is None else self.version
        try:
            return replace(self, resolved=open_delta(self.uri, version))
        except (SourceError, DataError) as error:
            raise at_call_site(error, stage) from error.__cause__

    def length(self, stage: StageView) -> int:
        return len(self._resolved_version().paths)

    def weights(self, stage: StageView, context: Context) -> Weights:
        return Weights(numpy_array(self._resolved_version().sizes))

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        version = self._resolved_version()
        return [self._file(version, place) for place in index_list(indices)]

    def origin(self, stage: StageView, index: int, context: Context) -> Origin:
        return Origin(redacted(str(self._resolved_version().paths[index])), index + 1, "file")

    def identity(self) -> Json:
        version = self.resolved
        return {} if version is None else {"version": version.number, "files": len(version.paths)}

    def saved(self) -> str | None:
        return None if self.resolved is None else str(self.resolved.number)

    def restored(self, saved: str) -> Operator:
        return replace(self, saved_version=int(saved), resolved=None)

    def head(self) -> FlatHead:
        """Names and types of the columns."""
        return FlatHead(self._name(), self._resolved_version().schema)

    def _file(self, version: DeltaVersion, place: int) -> TableFile:
        values = {name: version.values[name][place] for name in version.values.column_names}
        return TableFile(str(version.paths[place]), compression=None, values=values, table=self._name())

    def _name(self) -> str:
        return f"version {self._resolved_version().number} of {redacted(self.uri)}"

    def _resolved_version(self) -> DeltaVersion:
        assert self.resolved is not None, "a run begins with `resolve`"
        return self.resolved


@dataclass(frozen=True, eq=False, repr=False)
class DeltaRows(ParseCounted):
    """The rows of their row groups."""

    kind: ClassVar[str] = "delta_rows"  # pyright: ignore[reportIncompatibleMethodOverride]

    def call(self) -> None:
        return None


# The log of a table


_FEATURES = frozenset({"columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""Features of the protocol that do not change how data files are read, or that are checked below."""
_ABSOLUTE = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?/")
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_BACKTRACE = re.compile(r"\s+0: <unknown>.*", re.DOTALL)


@dataclass(frozen=True, eq=False)
class DeltaVersion:
    """A version of a table.

    Attributes:
        number: of the version.
        schema: names and types of the columns.
        paths: of the data files, sorted.
        sizes: of the data files, in bytes.
        values: a column of the table for each by which it is partitioned, with its value in each file.
    """

    number: int
    schema: pa.Schema
    paths: pa.LargeStringArray
    sizes: pa.Int64Array
    values: pa.Table


def open_delta(uri: str, version: int | None) -> DeltaVersion:
    """Reads the log of a table, up to its newest version if `version` is None."""
    name = redacted(uri)
    which = name if version is None else f"{name}, version {version},"
    try:
        table = _table(uri, version)
    except SourceError as error:
        raise SourceError(f"{which} cannot be opened as a Delta table: {error}") from error
    _check_features(table, name)
    return _version(table, uri, name)


def _table(uri: str, version: int | None) -> Any:
    deltalake = PACKAGE.load()
    path, options = _storage(uri)

    def load() -> Any:
        try:
            return deltalake.DeltaTable(path, version=version, storage_options=options)
        except OSError as error:
            # deltalake repeats requests, but not those whose answers are cut off.
            raise ConnectionError(_reason(error)) if "HTTP error" in str(error) else error from error

    try:
        return with_retries(load, uri)
    except Exception as error:
        raise SourceError(_reason(error)) from error
    except BaseException as error:
        if type(error).__name__ == "PanicException":  # of Rust
            raise SourceError(
                "deltalake ran before this process was forked, and its threads do not survive that; look at the pipe "
                "before the fork, as `len(pipe)` does"
            ) from error
        raise


def _reason(error: Exception) -> str:
    return " ".join(_BACKTRACE.sub("", _STYLE.sub("", text_of(error))).replace("↳", "").split())


def _storage(uri: str) -> tuple[str, dict[str, str]]:
    """The place of a table as deltalake takes it: options and password of a URL are separate from it."""
    plain, text = split_options(uri)
    if "://" not in plain:
        return os.path.expanduser(plain), {}
    url = urlsplit(plain)
    if url.scheme != "s3":
        return plain, {}
    settings = dict(parse_qsl(text.removeprefix("?")))
    endpoint = settings.get("endpoint_override", "")
    if endpoint and "://" not in endpoint:
        endpoint = f"{settings.get('scheme', 'https')}://{endpoint}"
    options = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": settings.get("region", ""),
        "AWS_ACCESS_KEY_ID": unquote(url.username or ""),
        "AWS_SECRET_ACCESS_KEY": unquote(url.password or ""),
    }
    endpoint = endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    if endpoint.startswith("http:"):
        options["AWS_ALLOW_HTTP"] = "true"
    bucket = url.netloc.rpartition("@")[2]
    return f"s3://{bucket}{url.path}", {name: value for name, value in options.items() if value}


def _check_features(table: Any, name: str) -> None:
    features = table.protocol().reader_features or ()
    if unknown := sorted({*features} - _FEATURES):
        raise DataError(
            f"{name} needs a reader with the feature {unknown[0]!r} of the Delta protocol, which is missing"
        )
    mode = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    if mode != "none":
        raise DataError(
            f"{name} has column mapping by {mode}, so its files have other names of columns, which are not translated; "
            "rewrite the table with `delta.columnMapping.mode` 'none'"
        )
    if "deletionVectors" not in features:
        return
    try:
        is_whole = not any(batch.num_rows for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors()))
    except Exception as error:  # of deltalake, and of Arrow if the vectors come later
        raise DataError(f"{name} may have deletion vectors, and they cannot be read: {_reason(error)}") from error
    if not is_whole:
        raise DataError(
            f"{name} has deletion vectors, which are not applied, so deleted rows would come; "
            "`REORG TABLE ... APPLY (PURGE)` rewrites those files"
        )


def _version(table: Any, uri: str, name: str) -> DeltaVersion:
    schema = pa.schema(table.schema().to_arrow())
    schema = pa.schema([(field.name, decoded_type(field.type)) for field in schema])
    partitions = table.metadata().partition_columns
    for column in partitions:
        if pa.types.is_binary(schema.field(column).type):
            raise DataError(
                f"{name} is partitioned by {column!r}, whose values are bytes; these have no one form as text"
            )
    files: Any = pa.table(table.get_add_actions(flatten=True))
    paths = [
        path if _ABSOLUTE.match(path) else join_path(uri, path) for path in map(unquote, files["path"].to_pylist())
    ]
    listed: Any = arrow_array(paths, pa.large_string())
    order = pc.sort_indices(listed)
    files = files.take(order).combine_chunks()
    columns = {column: files[f"partition.{column}"].cast(schema.field(column).type) for column in partitions}
    sizes = files["size_bytes"].combine_chunks()
    return DeltaVersion(table.version(), schema, listed.take(order), sizes, pa.table(columns))
