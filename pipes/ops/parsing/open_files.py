"""`open_files`: a handle for each path."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from ...core.block import Block
from ...core.checks import check_choice
from ...core.code import call_code, value_code
from ...core.context import Context
from ...core.cursor import Cursor
from ...core.operator import Columns, Operator, Order, StageView
from ...core.rows import BlockRows, Indices
from ...engine.apply import map_until_error
from ...errors import ArgumentTypeError, with_call_site
from ...storage.file import COMPRESSIONS, File
from ...storage.file_cache import FileCache, check_file_cache
from ...storage.filesystem import check_filesystem
from ...storage.listing import ListedPath
from ...storage.manifest import FromManifest, ManifestPlace
from ..grouping._tokens import CursorOfInput

if TYPE_CHECKING:
    from ...pipe import Pipe


@dataclass(frozen=True, eq=False)
class OpenFiles(CursorOfInput):
    kind: ClassVar[str] = "open_files"
    order: ClassVar[Order] = Order.ROW_LOCAL
    columns: ClassVar[Columns] = Columns.LOSES
    seeks: ClassVar[bool] = True

    compression: str | None = "infer"
    # Not part of a state: the files stay the same on another storage, and with another manifest.
    filesystem: object = field(default=None, repr=False)
    listed_in: ManifestPlace | None = field(default=None, repr=False)
    cache: FileCache | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_choice("compression", self.compression, COMPRESSIONS)
        check_filesystem(self.filesystem)
        check_file_cache(self.cache)

    def call(self) -> str:
        arguments = [call_code(self).removeprefix(f"{self.kind}(").removesuffix(")")]
        if self.filesystem is not None:
            arguments.append(f"filesystem={value_code(self.filesystem)}")
        if self.cache is not None:
            arguments.append(f"cache={self.cache!r}")
        return f"{self.kind}({', '.join(filter(None, arguments))})"

    def resolve(self, stage: StageView) -> Operator:
        source = stage.input.op
        listed_in = source.listed_in if isinstance(source, FromManifest) else None
        if listed_in is None and self.cache is None:
            return self
        return replace(self, listed_in=listed_in, cache=self.cache and self.cache.renewed())

    def length(self, stage: StageView) -> int | None:
        return stage.input.length

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        files, error = map_until_error(self._handle, stage.input.rows(indices, context))
        if error is not None:
            raise self._refused(stage, error)
        return list[object](files)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        for block in stage.input.blocks(at, context):
            files, error = map_until_error(self._handle, block.rows)
            if files:
                yield block.with_rows(list[object](files))
            if error is not None:
                raise self._refused(stage, error)

    def _handle(self, path: object) -> File:
        if not isinstance(path, (str, os.PathLike)):
            raise ArgumentTypeError(f"`open_files` takes paths but got: {path!r}")
        listed = path.size if isinstance(path, ListedPath) and path.size >= 0 else None
        return File(
            str(os.fspath(path)),
            filesystem=self.filesystem,
            compression=self.compression,
            listed=listed,
            cache=self.cache,
        )

    def _refused(self, stage: StageView, error: Exception) -> Exception:
        return ArgumentTypeError(with_call_site(str(error), stage.call_site))


def open_files(
    pipe: Pipe[str] | Pipe[os.PathLike[str]],
    /,
    *,
    compression: str | None = "infer",
    filesystem: object = None,
    cache: FileCache | None = None,
) -> Pipe[File]:
    """Give a `File` for each path: a handle that is opened when it is read.

    Element: a `File`, with `open()`, `size()` and `path`; small and picklable, so that files can be shuffled, divided
    among shards and sent to other processes. Order and length are the input's; indexed if the input is. State: none.

    Args:
        compression: "gzip", "bz2", "zstd", "lz4", "brotli" or None for all files; "infer" decides by the end of each
            name: .gz, .tgz, .bz2, .zst, .lz4, .br.
        filesystem: a pyarrow or fsspec file system that the paths are on; without it they are local paths or URLs.
        cache: keeps what is read of remote files on a local disk; see `FileCache`.

    Raises:
        ArgumentTypeError: an element is not a path.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> _ = pathlib.Path("a.txt").write_text("hello")
        >>> list(fp.list_files("a.txt").open_files().map(lambda file: file.open().read()))
        [b'hello']
    """
    return pipe.then(OpenFiles(compression, filesystem, cache=cache))
