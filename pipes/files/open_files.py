"""`open_files`, and how operators read files: early, kept open, or whole."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

from ..core.block import Block
from ..core.checks import check_choice
from ..core.code import call_code, value_code
from ..core.context import Context
from ..core.cursor import Cursor
from ..core.graph import walk
from ..core.operator import Columns, CursorOfInput, Operator, Order, StageView, Trait
from ..core.rows import BlockRows, Indices
from ..engine.calls import map_until_error
from ..errors import ArgumentError, ArgumentTypeError, DataError, FeedpipeError, SourceError
from ..formats.streams import STREAM_ERRORS, Unpacking, stream_error
from ..storage.file import COMPRESSIONS, WHOLE, File, Stream
from ..storage.file_cache import FileCache, check_file_cache
from ..storage.filesystem import check_filesystem
from ..storage.index import Index
from ..storage.listing import ListedPath, Listing
from ..storage.tasks import Task, in_threads, in_turn

if TYPE_CHECKING:
    from ..pipe import Pipe


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
        compression: "gzip", "bz2", "xz", "zstd", "lz4", "brotli", "zip" or None for all files; "infer" decides by the
            end of each name: .gz, .tgz, .bz2, .xz, .zst, .zstd, .lz4, .br, .zip. A zip archive must hold one
            file.
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


@dataclass(frozen=True, eq=False, repr=False)
class OpenFiles(CursorOfInput):
    kind: ClassVar[str] = "open_files"
    order: ClassVar[Order] = Order.ROW_LOCAL
    needs_positions: ClassVar[bool] = False  # type: ignore[misc]
    columns: ClassVar[Columns] = Columns.LOSES
    seeks: ClassVar[bool] = True

    compression: str | None = "infer"
    # Not part of a state: the files stay the same on another storage, and with an index.
    filesystem: object = field(default=None, repr=False)
    index: Index | None = field(default=None, repr=False)
    cache: FileCache | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_choice("compression", self.compression, COMPRESSIONS)
        check_filesystem(self.filesystem)
        if self.cache is not None:
            check_file_cache(self.cache)

    def call(self) -> str:
        arguments = [call_code(self).removeprefix(f"{self.kind}(").removesuffix(")")]
        if self.filesystem is not None:
            arguments.append(f"filesystem={value_code(self.filesystem)}")
        if self.cache is not None:
            arguments.append(f"cache={self.cache!r}")
        return f"{self.kind}({', '.join(filter(None, arguments))})"

    @property
    def trait(self) -> Trait | None:  # type: ignore[override]
        return Trait.FOLLOWS if self.cache is None else None

    def resolve(self, stage: StageView) -> Operator:
        index = getattr(stage.input.op, "index", None)  # of `list_files`
        if index is None and self.cache is None:
            return self
        return replace(self, index=index, cache=self.cache and self.cache.renewed())

    def within(self, rows: range) -> Operator | None:
        return self if self.index is None else None

    def length(self, stage: StageView) -> int | None:
        return stage.input.length

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        try:
            return [self._handle(path) for path in stage.input.rows(indices, context)]
        except ArgumentTypeError as error:
            raise at_call_site(error, stage) from None

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        for block in stage.input.blocks(at, context):
            files, error = map_until_error(self._handle, block.rows)
            if files:
                yield block.with_rows(list[object](files))
            if error is not None:
                raise at_call_site(error, stage) if isinstance(error, ArgumentTypeError) else error

    def _handle(self, path: object) -> File:
        if not isinstance(path, (str, os.PathLike)):
            raise ArgumentTypeError(f"`open_files` takes paths but got: {path!r}")
        listed = path if isinstance(path, ListedPath) and path.size >= 0 else None
        return File(
            path if isinstance(path, ListedPath) else str(os.fspath(path)),
            filesystem=self.filesystem,
            compression=self.compression,
            listed=None if listed is None else listed.size,
            changed=0 if listed is None else listed.changed,
            cache=self.cache,
        )


# How operators open and read files, and check them.

_PIECE_BYTES = 2**20


class OpenTask(Task[Stream]):
    """Opens a file. `start` also requests the bytes of `part`, as soon as the budget has room for them."""

    def __init__(self, file: File, part: range | None = WHOLE, compression: str | None = "infer") -> None:
        super().__init__(partial(file.stream, compression, part))
        self.file = file

    def start(self) -> bool:
        stream = self.result_if_done
        if stream is None:
            super().start()
            return False
        return stream.remote is None or stream.remote.start_reading()


class FileVersions:
    """Notices that a remote file was replaced, since each of its ranges opens it again."""

    def __init__(self) -> None:
        self._versions: dict[object, object] = {}

    def check(self, file: File, stream: Stream) -> None:
        """Raise a `SourceError` if an earlier `stream` was of another version of the file."""
        if stream.remote is not None:
            version = stream.remote.file.version
            if self._versions.setdefault(file_key(file), version) != version:
                raise stream.remote.file.changed_error()


def file_key(file: File) -> tuple[int, str]:
    """The identity of a file within a process."""
    return id(file.filesystem), file.path


def changed_error(name: str, part: str = "footer", reason: str = "") -> SourceError:
    """The error of a file whose footer or other `part` is no longer the one that a pipe has read."""
    return SourceError(
        f"{name} has changed since its {part} was read{reason and ': '}{reason}; a pipe reads {part}s once, so make "
        "a new pipe"
    )


def read_whole(file: File, task: OpenTask | None = None) -> bytes:
    """Read a file, decompressed and up to `unpacked_limit`; from the stream of `task` if that was started early."""
    with file.stream(part=WHOLE) if task is None else task.result() as stream:
        try:
            return _read_decompressed(stream, file.name) if file.is_compressed() else stream.read()
        except FeedpipeError:
            raise
        except STREAM_ERRORS as error:
            raise stream_error(error, file.name, stream, 0) from error


def _read_decompressed(stream: Stream, name: str) -> bytes:
    pieces: list[bytes] = []
    size, unpacking = 0, Unpacking(stream)
    while piece := stream.read(_PIECE_BYTES):
        pieces.append(piece)
        size += len(piece)
        if problem := unpacking.problem(size):
            raise DataError(f"{name}: {problem}; `compression=None` reads it as it is")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def read_whole_files(files: Sequence[File], tasks: Sequence[OpenTask | None] = (), *, threads: bool) -> Iterator[bytes]:
    """Read each file, in order, as `read_whole` does; remote ones several at a time, if `threads` may."""
    map_files = in_threads if threads and files and not files[0].is_local() else in_turn
    if not any(tasks):
        return map_files(read_whole, files)
    return map_files(lambda item: read_whole(*item), zip(files, tasks, strict=False))


def listed_files(listing: Listing, filesystem: object, cache: FileCache | None = None) -> list[File]:
    """Handles on the files of a listing. They are read as they are, without decompression."""
    paths, sizes = cast("list[str]", listing.paths.to_pylist()), cast("list[int]", listing.sizes.to_pylist())
    return [
        File(path, filesystem=filesystem, compression=None, listed=None if size < 0 else size, cache=cache)
        for path, size in zip(paths, sizes, strict=True)
    ]


def has_fixed_order(pipe: Pipe[File]) -> bool:
    """Whether files have positions, the same in each run."""
    operators = [node.op for node in walk(pipe) if node.inputs]
    drawn = any(op.order is Order.REORDERS or op.reshuffles() or op.trait is Trait.SHARD for op in operators)
    return pipe.indexed and not drawn


def check_fixed_order(pipe: Pipe[File], parser: str) -> None:
    """Raise an `ArgumentError` if the files have no fixed order, so that their rows have no positions."""
    if not has_fixed_order(pipe):
        raise ArgumentError(
            "`indexed` must be left out here: rows have positions only if files come in a fixed order; "
            f"put the `shuffle` after `{parser}` instead"
        )


def check_path_column(value: object) -> None:
    """Check the argument of a parser whose rows are dicts."""
    if value is not None and not isinstance(value, str):
        raise ArgumentTypeError(f"`path_column` must be the name of a key but got: {value!r}")


def check_file(stage: StageView, kind: str, value: object) -> File:
    """Return `value`, which must be a file; `kind` names the parser in the error."""
    if isinstance(value, File):
        return value
    message = f"`{kind}` reads files but got: {value!r}; put `.open_files()` before it"
    raise ArgumentTypeError(message, at=stage.call_site)


def at_call_site(error: FeedpipeError, stage: StageView) -> FeedpipeError:
    """Add the line of the user's code that made the operator to an error.

    Raise it from the cause of `error`, not from `error`: its message and its traceback would be printed twice.
    """
    return type(error)(str(error), at=stage.call_site)
