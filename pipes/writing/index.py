"""`index`: an index of many files, with what their footers say."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from ..core.checks import check_choice, check_int
from ..core.lazy import pa
from ..core.rows import Rows
from ..errors import ArgumentError
from ..loader import Loader
from ..pipe import Pipe
from ..sources.from_table import from_table
from ..sources.index import FooterReader, Footers, is_index, make_version
from ..storage.file_units import FileContents, FileUnits
from ..storage.index import SUFFIX, Index
from ..storage.listing import Selection

CHUNK_FILES = 256
"""The files whose footers a worker reads at a time."""


def index(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    into: str | os.PathLike[str],
    *,
    pattern: str | None = None,
    recursive: bool = False,
    filesystem: object = None,
    footers: Footers = "infer",
    workers: int = 0,
) -> Index:
    """Make an index of files, or the next version of one, and return it.

    `list_files` and all readers of files take it as their `manifest`. A run with an index lists nothing, and reads no
    footers but those of the files whose rows it reads. It reads some 100 kB for each 4,096 files that it needs, so a
    rank of thousands opens ten million files with a few MB.

    The next version keeps the order of this one, drops files that are gone, and appends new ones; it reads no footer of
    a file whose size and time of change are the same. Runs that have begun stay with their version; a state names it,
    and is resumed with it. Two writers may make a version at once: the second goes on from that of the first.

    Args:
        paths, pattern, recursive, filesystem: as for `list_files`; `filesystem` is also that of `into`.
        into: the path or URL of a folder, which ends with `.index`. It should not be in a folder of `paths`.
        footers: reads what footers say: names and types of columns, the rows of each row group or record batch.
            "infer" reads them if all files end with .parquet or all with .arrow. False reads none, and True
            refuses other files.
        workers: the number of processes that read footers. This process lists the files and writes.

    Returns:
        the version: its `address`, `number` and `digest`; the numbers of its `files`, `units`, `rows` and `bytes`.

    Raises:
        ArgumentError: `into` does not end with `.index`, or is an index of other `paths`, `pattern` or `recursive`;
            `paths` has a password; with `footers=True`, there are other files.
        SourceError: a path is missing or matches no file; the index cannot be written.
        DataError: a file is damaged, or no file of its kind.

    Example:
        >>> import feedpipe as fp, pyarrow as pa, pyarrow.parquet
        >>> for name in ("a", "b"):
        ...     pa.parquet.write_table(pa.table({"x": range(100)}), f"{name}.parquet")
        >>> fp.index("*.parquet", "files.index")
        Index('files.index', version 1: 2 files, 2 row groups, 200 rows, ... bytes)
        >>> len(fp.read_parquet("*.parquet", manifest="files.index").shuffle(window=50))
        200
    """
    selection = Selection(cast("str", paths), pattern, bool(recursive), filesystem, os.fspath(into))
    check_choice("footers", footers, ("infer", True, False))
    address = cast("str", selection.manifest)
    if not is_index(address):
        raise ArgumentError(f"`into` must be the path of a folder that ends with {SUFFIX!r} but got: {into!r}")
    check_int("workers", workers, least=0)
    return make_version(selection, footers, partial(_in_workers, workers) if workers else None)


def _in_workers(workers: int, reader: FooterReader, files: Iterator[pa.Table]) -> Iterator[FileContents]:
    """What footers say, read in other processes, unless there are few files."""
    table = pa.concat_tables(files)
    if len(table) <= CHUNK_FILES:
        yield from reader.contents(iter([table]))
        return
    read: Any = _ReadChunk(reader)
    chunks: Pipe[FileUnits] = from_table(table).batch(CHUNK_FILES).map(read)
    with Loader(chunks, workers=workers, rank=0, world_size=1) as loader:
        for units in loader:
            yield from map(units.contents, range(len(units)))


@dataclass(frozen=True)
class _ReadChunk:
    """What the footers of some files say."""

    reader: FooterReader

    def __call__(self, files: Rows) -> FileUnits:
        return FileUnits.of(self.reader.contents(iter([files.arrow])))
