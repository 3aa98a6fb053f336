"""Manifests, which list files, and outputs, which get their names when they are complete.

A manifest is a text of JSON lines: a head with the number of files, then a line for each file.

    {"format": "feedpipe manifest", "version": 1, "made_by": "write_parquet", "files": 1}
    {"path": "part-00000.parquet", "bytes": 1234, "rows": 100, "sha256": "9f86d081884c7d65..."}
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from ..core.arrow import arrow_scalar
from ..core.cursor import Json
from ..core.lazy import pa, pc
from ..errors import DataError, SourceError, shown_cause, shown_path
from .file import File
from .filesystem import describe, locate, split_options

if TYPE_CHECKING:
    from pyarrow import NativeFile

FORMAT = "feedpipe manifest"
VERSION = 1
MANIFEST = "_manifest.jsonl"
"""The name of a manifest beside its files. It begins with `_`, so that no listing takes it for data."""

_MAX_HEAD_BYTES = 2**24  # of the first line
_BATCH_LINES = 2**14  # lines that are Python objects at the same time


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files that a writer has written, in order.

    Attributes:
        made_by: the name of the function.
        files: a table of `path`, `bytes`, `rows` and `sha256`; null means unknown.
        details: other values that the function puts into the first line.
    """

    made_by: str
    files: pa.Table
    details: Mapping[str, Json] = field(default_factory=lambda: MappingProxyType({}))

    def paths(self, path: str, filesystem: object = None) -> pa.LargeStringArray:
        """The paths or URLs of the files, which are in the folder of the manifest, `path`."""
        plain, options = (path, "") if filesystem is not None else split_options(path)
        parts = [arrow_scalar(part, pa.large_string()) for part in (plain[: plain.rfind("/") + 1], options, "")]
        join: Any = pc.binary_join_element_wise
        names = join(parts[0], self.files["path"], *parts[1:])
        paths: pa.LargeStringArray = pa.concat_arrays([pa.nulls(0, pa.large_string()), *names.chunks])
        return paths


def manifest_schema() -> pa.Schema:
    """The schema of `Manifest.files`."""
    text, number = pa.string(), pa.int64()
    types: dict[str, pa.DataType] = {"path": pa.large_string(), "bytes": number, "rows": number, "sha256": text}
    return pa.schema(types)


def write_manifest(manifest: Manifest, path: str, filesystem: object = None) -> None:
    """Write a manifest. A concurrent reader sees all of it, or no file."""
    with open_output(path, filesystem) as stream:
        for text in _encode(manifest):
            stream.write(text.encode())


def read_manifest(path: str, filesystem: object = None) -> Manifest:
    """Read the manifest at `path`.

    Raises:
        SourceError: it cannot be read; a `MissingError` if there is none.
        DataError: it is no manifest, one of a newer version, or damaged.
    """
    with File(path, filesystem=filesystem).open(None) as stream:
        head = _parse_head(stream.readline(_MAX_HEAD_BYTES), path)
        rest = stream.read()
    made_by, count = head.pop("made_by", None), head.pop("files", None)
    if not isinstance(made_by, str) or type(count) is not int:
        raise DataError(f"{shown_path(path)} is damaged: its first line must have `made_by` and the number of `files`")
    files = _parse_files(rest, path)
    _check_beside(files["path"], path)
    if len(files) != count:
        raise DataError(f"{shown_path(path)} is damaged: it has {len(files)} files, and its first line says {count}")
    return Manifest(made_by, files, head)


def _check_beside(names: Any, path: str) -> None:
    """Check that the files of a writer are in the folder of their manifest."""
    outside = names.filter(pc.match_substring_regex(names, r"^/|://|(^|/)\.\.(/|$)"))
    if len(outside):
        raise DataError(f"{shown_path(path)} is damaged: {outside[0].as_py()!r} is not in the folder of the manifest")


def _encode(manifest: Manifest) -> Iterator[str]:
    head = {"format": FORMAT, "version": VERSION, "made_by": manifest.made_by, "files": len(manifest.files)}
    yield json.dumps(head | dict(manifest.details)) + "\n"
    for batch in manifest.files.to_batches(max_chunksize=_BATCH_LINES):
        rows = cast("list[dict[str, object]]", batch.to_pylist())
        yield "".join(json.dumps({k: v for k, v in row.items() if v is not None}) + "\n" for row in rows)


def _parse_head(line: bytes, path: str) -> dict[str, Any]:
    try:
        head = json.loads(line)
    except (ValueError, RecursionError):
        head = None
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise DataError(f"{shown_path(path)} is no manifest: its first line must be JSON whose `format` is {FORMAT!r}")
    if head.get("version") != VERSION:
        version = f"version {head.get('version')!r}; this feedpipe reads version {VERSION}"
        raise DataError(f"{shown_path(path)} is a manifest of {version}")
    return {key: value for key, value in head.items() if key not in ("format", "version")}


def _parse_files(lines: bytes, path: str) -> pa.Table:
    from pyarrow import json as arrow_json

    schema = manifest_schema()
    if not lines.strip():
        return schema.empty_table()
    options = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    try:
        table = arrow_json.read_json(cast("Any", pa.BufferReader(lines)), parse_options=options)
        table.validate(full=True)
    except pa.ArrowException as error:
        raise DataError(f"{shown_path(path)} is damaged: {' '.join(str(error).split())}") from error
    if table["path"].null_count:
        raise DataError(f"{shown_path(path)} is damaged: each line must have a `path`")
    return table


# Outputs


TEMPORARY_SUFFIX = ".tmp"
"""The end of a temporary name. The name begins with a dot, so that no listing takes the file for data."""


class Output(io.RawIOBase):
    """A stream into a file, whose errors name the file."""

    def __init__(self, stream: NativeFile, path: str) -> None:
        self._stream = stream
        self._path = path

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        try:
            self._stream.write(data)
        except OSError as error:
            raise _write_error(self._path, error) from error
        return len(data)


@contextmanager
def open_output(path: str, filesystem: object = None) -> Generator[Output]:
    """Open a stream into the file `path`. The file appears, complete, when the block ends without an error."""
    place = locate(path, filesystem)
    folder, slash, name = place.path.rpartition("/")
    temporary = f"{folder}{slash}.{name}.{uuid.uuid4().hex[:8]}{TEMPORARY_SUFFIX}"
    try:
        stream = place.filesystem.open_output_stream(temporary, compression=None)
    except OSError as error:
        raise _write_error(path, error) from shown_cause(error, path)
    try:
        yield Output(stream, path)
        try:
            stream.close()
            place.filesystem.move(temporary, place.path)
        except OSError as error:
            raise _write_error(path, error) from shown_cause(error, path)
    except BaseException:
        # Close first: the garbage collector would complete an open upload.
        with suppress(OSError):
            stream.close()
        with suppress(OSError):
            place.filesystem.delete_file(temporary)
        raise


def join_path(folder: str, name: str, filesystem: object = None) -> str:
    """Add a name to the path or URL of a folder, before its options."""
    path, options = (folder, "") if filesystem is not None else split_options(folder)
    return f"{path.rstrip('/')}/{name}{options}"


def _write_error(path: str, error: OSError) -> SourceError:
    return SourceError(f"{shown_path(path)} cannot be written: {describe(error)}")
