"""The readers of files: `list_files`, `open_files` and the parser of a format in one call.

A reader has the options of these three. Each option is documented by one of them, and `_reader` gives a reader the
signature and the documentation of all.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, Signature
from typing import Any, Concatenate, TypeAlias, TypedDict, TypeVar, Unpack

from ..core.checks import explains_wrong_arguments
from ..core.rows import Row
from ..core.skips import OnError
from ..files.arrow import parse_arrow
from ..files.csv import CsvOptions, parse_csv
from ..files.jsonl import JsonlOptions, parse_jsonl
from ..files.lines import LinesOptions, parse_bytes, parse_lines
from ..files.mds import MdsOptions, parse_mds
from ..files.open_files import open_files
from ..files.parquet import ParquetOptions, parse_parquet
from ..files.tar import TarOptions, parse_tar
from ..files.tfrecord import TfRecordOptions, parse_tfrecord
from ..formats.table_format import TableOptions
from ..pipe import Pipe
from ..storage.file import File
from ..storage.file_cache import FileCache
from .list_files import list_files

Paths: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class ListOptions(TypedDict, total=False):
    """The options of `list_files`, and `cache` of `open_files`, which all readers have."""

    pattern: str | None
    recursive: bool
    filesystem: object
    manifest: str | os.PathLike[str] | None
    version: int | None
    cache: FileCache | None


class FileOptions(ListOptions, total=False):
    """Those of readers of files that may be compressed as a whole."""

    compression: str | None


class ErrorOptions(TypedDict, total=False):
    """Those of readers that can leave out a malformed row."""

    on_error: OnError | None


class ArrowFiles(ListOptions, TableOptions): ...


class CsvFiles(FileOptions, CsvOptions, ErrorOptions): ...


class JsonlFiles(FileOptions, JsonlOptions, ErrorOptions): ...


class LinesFiles(FileOptions, LinesOptions, ErrorOptions): ...


class MdsFiles(FileOptions, MdsOptions, ErrorOptions): ...


class ParquetFiles(ListOptions, ParquetOptions): ...


class TarFiles(FileOptions, TarOptions, ErrorOptions): ...


class TfRecordFiles(FileOptions, TfRecordOptions, ErrorOptions): ...


_LISTED, _OPENED = (dict([*inspect.signature(call).parameters.items()][1:]) for call in (list_files, open_files))


def _read(
    parse: Callable[Concatenate[Pipe[File], ...], Pipe[T]], paths: Paths, options: Mapping[str, Any], **fixed: object
) -> Pipe[T]:
    """The pipe of a reader."""
    listed = {name: options[name] for name in _LISTED if name in options}
    opened = {name: options[name] for name in _OPENED if name in options}
    others = {name: value for name, value in options.items() if name not in listed and name not in opened}
    return parse(open_files(list_files(paths, **listed), **opened), **others, **fixed)


def _reader(parse: Callable[..., Any], *without: str, **defaults: object) -> Callable[[F], F]:
    """A decorator of a reader: it gets the signature and the documentation of what it calls.

    Args:
        parse: the parser, which documents the rows and its options.
        without: the options of `open_files` and of the parser that the reader does not have.
        defaults: those of options that have another default here.
    """

    def decorate(read: F) -> F:
        named = {**_LISTED, **_OPENED, **dict([*inspect.signature(parse).parameters.items()][1:])}
        named = {
            k: p.replace(default=defaults[k]) if k in defaults else p for k, p in named.items() if k not in without
        }
        paths = Parameter("paths", Parameter.POSITIONAL_OR_KEYWORD, annotation=read.__annotations__["paths"])
        signature = Signature([paths, *named.values()], return_annotation=read.__annotations__["return"])
        read.__signature__ = signature  # type: ignore[attr-defined]
        if read.__doc__ and parse.__doc__:
            read.__doc__ = _documentation(read.__doc__, parse.__doc__, without)
        return explains_wrong_arguments(read)

    return decorate


def _documentation(own: str, parser: str, without: Iterable[str]) -> str:
    """The first lines and the example of a reader, and between them the text of its parser."""
    first, _, example = inspect.cleandoc(own).partition("Example:\n")
    text = inspect.cleandoc(parser).partition("\n\n")[2].partition("Example:\n")[0]
    opened = [name for name in _OPENED if name not in (*_LISTED, *without)]
    files = f"    paths, {', '.join(_LISTED)}: which files; see `list_files`.\n"
    files += f"    {', '.join(opened)}: how they are opened; see `open_files`.\n"
    text = text if "Args:\n" in text else text.replace("Raises:\n", "Args:\n\nRaises:\n", 1)
    for name in without:
        text = re.sub(rf"^    {name}: .*\n(     .*\n)*", "", text, flags=re.MULTILINE)
    return f"{first}{text.replace('Args:', f'Args:{chr(10)}{files.rstrip()}', 1)}Example:\n{example}"


@_reader(parse_arrow, "compression", "indexed")
def read_arrow(paths: Paths, **options: Unpack[ArrowFiles]) -> Pipe[Row]:
    """Begin a pipe with the rows of Arrow files (IPC, Feather version 2), which can be read in any order.

    It is `list_files`, `open_files` and `parse_arrow(indexed=True)` in one call.

    Example:
        >>> import feedpipe as fp, pyarrow as pa, pyarrow.feather
        >>> pa.feather.write_feather(pa.table({"x": [1, 2, 3], "y": [0.5, 1.5, 2.5]}), "a.arrow")
        >>> pipe = fp.read_arrow("a.arrow", columns=["y"])
        >>> len(pipe), pipe[-1], pipe.shuffle().batch(3).collate()[0]["y"].sum()
        (3, {'y': 2.5}, tensor(4.5000, dtype=torch.float64))
    """
    return _read(parse_arrow, paths, options, indexed=True)


@_reader(parse_bytes)
def read_bytes(paths: Paths, **options: Unpack[FileOptions]) -> Pipe[dict[str, object]]:
    """Begin a pipe with whole files: `list_files`, `open_files` and `parse_bytes` in one call.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> _ = pathlib.Path("a.txt").write_text("hello")
        >>> fp.read_bytes("*.txt").decode()[0]
        {'path': 'a.txt', 'bytes': 'hello'}
    """
    return _read(parse_bytes, paths, options)


@_reader(parse_csv)
def read_csv(paths: Paths, **options: Unpack[CsvFiles]) -> Pipe[Row]:
    r"""Begin a pipe with the rows of CSV files: `list_files`, `open_files` and `parse_csv` in one call.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> _ = pathlib.Path("a.csv").write_text("x,y\n1,2.5\n3,4.5\n")
        >>> list(fp.read_csv("a.csv"))
        [{'x': 1, 'y': 2.5}, {'x': 3, 'y': 4.5}]
        >>> fp.read_csv("a.csv", columns=["y"]).batch(2).head()
        [Rows(2 x ['y'])]
    """
    return _read(parse_csv, paths, options)


@_reader(parse_jsonl)
def read_jsonl(paths: Paths, **options: Unpack[JsonlFiles]) -> Pipe[Row]:
    r"""Begin a pipe with the objects of JSON-lines files: `list_files`, `open_files` and `parse_jsonl` in one call.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> _ = pathlib.Path("a.jsonl").write_text('{"x": 1}\n{"x": 2}\n')
        >>> list(fp.read_jsonl("a.jsonl"))
        [{'x': 1}, {'x': 2}]
    """
    return _read(parse_jsonl, paths, options)


@_reader(parse_lines)
def read_lines(paths: Paths, **options: Unpack[LinesFiles]) -> Pipe[str]:
    r"""Begin a pipe with the lines of text files: `list_files`, `open_files` and `parse_lines` in one call.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> _ = pathlib.Path("a.txt").write_text("one\ntwo\n")
        >>> list(fp.read_lines("a.txt"))
        ['one', 'two']
    """
    return _read(parse_lines, paths, options)


@_reader(parse_mds, pattern="*.mds*")
def read_mds(paths: Paths, **options: Unpack[MdsFiles]) -> Pipe[dict[str, object]]:
    """Begin a pipe with the samples of MosaicML's shards: `list_files`, `open_files` and `parse_mds` in one call.

    Example:
        >>> import feedpipe as fp, json, pathlib, struct
        >>> columns = {"column_names": ["t"], "column_encodings": ["str"], "column_sizes": [None]}
        >>> text = json.dumps({"format": "mds", "version": 2, **columns}).encode()
        >>> begin = 12 + len(text)
        >>> sample = struct.pack("<I", 3) + b"one"
        >>> data = struct.pack("<3I", 1, begin, begin + len(sample)) + text + sample
        >>> _ = pathlib.Path("shard.00000.mds").write_bytes(data)
        >>> list(fp.read_mds("."))
        [{'t': 'one'}]
        >>> len(fp.read_mds(".", indexed=True))
        1
    """
    return _read(parse_mds, paths, {"pattern": "*.mds*", **options})


@_reader(parse_parquet, "compression")
def read_parquet(paths: Paths, **options: Unpack[ParquetFiles]) -> Pipe[Row]:
    """Begin a pipe with the rows of Parquet files: `list_files`, `open_files` and `parse_parquet` in one call.

    Example:
        >>> import feedpipe as fp, pyarrow as pa, pyarrow.parquet
        >>> pa.parquet.write_table(pa.table({"x": [1, 2, 3], "y": [0.5, 1.5, 2.5]}), "a.parquet")
        >>> pipe = fp.read_parquet("a.parquet", columns=["y"])
        >>> len(pipe), pipe.batch(2).collate().head(1)
        (3, [{'y': tensor([0.5000, 1.5000], dtype=torch.float64)}])
    """
    return _read(parse_parquet, paths, options)


@_reader(parse_tar)
def read_tar(paths: Paths, **options: Unpack[TarFiles]) -> Pipe[dict[str, object]]:
    """Begin a pipe with the rows of tar files: `list_files`, `open_files` and `parse_tar` in one call.

    Example:
        >>> import feedpipe as fp, io, tarfile
        >>> with tarfile.open("a.tar", "w") as tar:
        ...     member = tarfile.TarInfo("7.txt")
        ...     member.size = 5
        ...     tar.addfile(member, io.BytesIO(b"seven"))
        >>> list(fp.read_tar("a.tar").decode())
        [{'__key__': '7', 'txt': 'seven'}]
    """
    return _read(parse_tar, paths, options)


@_reader(parse_tfrecord)
def read_tfrecord(paths: Paths, **options: Unpack[TfRecordFiles]) -> Pipe[Row]:
    """Begin a pipe with the records of TFRecord files: `list_files`, `open_files` and `parse_tfrecord` in one call.

    Example:
        >>> import feedpipe as fp
        >>> _ = fp.write_tfrecord(fp.from_sequence(range(3)).map(lambda i: {"x": i / 2, "y": [i, i]}), "records")
        >>> list(fp.read_tfrecord("records"))
        [{'x': 0.0, 'y': [0, 0]}, {'x': 0.5, 'y': [1, 1]}, {'x': 1.0, 'y': [2, 2]}]
    """
    return _read(parse_tfrecord, paths, options)
