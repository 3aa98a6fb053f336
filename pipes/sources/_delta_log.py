"""`open_delta`: a version of a Delta table as its log has it, by the package deltalake."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from ..core.packages import Package
from ..core.per_process import PerProcess
from ..errors import DataError, SourceError, redacted, text_of
from ..formats.tables.arrow_types import decoded_type
from ..storage.filesystem import split_options
from ..storage.output import join_path
from ..storage.retry import with_retries
from ._delta_statistics import FileStatistics

if TYPE_CHECKING:
    import pyarrow as pa

PACKAGE = Package("deltalake", "deltalake", "delta", "Delta tables are read")

_FEATURES = frozenset({"columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""Features of the protocol that change nothing for a reader of the data files, or are looked for below."""
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
        sizes: their bytes.
        values: for each file, the values of the columns that the table is partitioned by; a column each.
        statistics: of the other columns in each file, only in the process that read the log.
    """

    number: int
    schema: pa.Schema
    paths: pa.LargeStringArray
    sizes: pa.Int64Array
    values: pa.Table
    statistics: PerProcess[FileStatistics]


def open_delta(uri: str, version: int | None) -> DeltaVersion:
    """Reads the log of a table; None stands for its newest version.

    Raises:
        SourceError: there is no such table or version, or the log cannot be read.
        DataError: the table uses a feature of the protocol that would need another reader of its data files.
    """
    table = _open(uri, version)
    name = redacted(uri)
    _check_features(table, name)
    return _version(table, uri, name)


def _open(uri: str, version: int | None) -> Any:
    name = redacted(uri)
    try:
        return _table(uri, version)
    except SourceError as error:
        if version is not None:
            try:
                newest = _table(uri, None).version()
            except SourceError:
                pass
            else:
                which = "does not go back so far any more" if version < newest else f"ends with version {newest}"
                raise SourceError(f"{name} has no version {version}: its log {which}") from error
        raise SourceError(f"{name} cannot be opened as a Delta table: {error}") from error


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
    """The place of a table as deltalake takes it: without the options and the password of a URL, which stand apart."""
    plain, text = split_options(uri)
    if "://" not in plain:
        return os.path.expanduser(plain), {}
    url = urlsplit(plain)
    if url.scheme != "s3":
        return plain, {}
    given = dict(parse_qsl(text.removeprefix("?")))
    endpoint = given.get("endpoint_override", "")
    if endpoint and "://" not in endpoint:
        endpoint = f"{given.get('scheme', 'https')}://{endpoint}"
    options = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": given.get("region", ""),
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
            "write the table anew with `delta.columnMapping.mode` 'none'"
        )
    if "deletionVectors" in features and _has_deletion_vectors(table, name):
        raise DataError(
            f"{name} has deletion vectors, which are not applied, so deleted rows would come; "
            "`REORG TABLE ... APPLY (PURGE)` writes those files anew"
        )


def _has_deletion_vectors(table: Any, name: str) -> bool:
    import pyarrow as pa

    try:
        return any(batch.num_rows for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors()))
    except Exception as error:  # of deltalake, and of Arrow if the vectors come later
        raise DataError(f"{name} may have deletion vectors, and they cannot be read: {_reason(error)}") from error


def _version(table: Any, uri: str, name: str) -> DeltaVersion:
    import pyarrow as pa
    import pyarrow.compute as pc

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
    listed: Any = pa.array(paths, pa.large_string())
    order = pc.sort_indices(listed)
    files = files.take(order).combine_chunks()
    columns = {column: files[f"partition.{column}"].cast(schema.field(column).type) for column in partitions}
    statistics = PerProcess[FileStatistics]()
    statistics.get(lambda: FileStatistics(files))
    sizes = files["size_bytes"].combine_chunks()
    return DeltaVersion(table.version(), schema, listed.take(order), sizes, pa.table(columns), statistics)
