"""The parts of all writers: a run of a pipe in chunks, and the folder for its files."""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ..core.checks import check_bytes, check_int
from ..core.graph import Node, walk
from ..engine.stage import bind, resolve
from ..errors import ArgumentError, ArgumentTypeError, SourceError, StateError, with_call_site
from ..loader import Loader
from ..loading.replay import Info
from ..pipe import Pipe
from ..sources.list_files import ListFiles
from ..storage.filesystem import Location, check_filesystem, describe, locate
from ..storage.manifest import (
    TEMPORARY_SUFFIX,
    Manifest,
    Output,
    join_path,
    manifest_schema,
    open_output,
    write_manifest,
)

if TYPE_CHECKING:
    from tqdm import tqdm  # type: ignore[import-untyped]

FILE_SIZE = "256MiB"


class Limits:
    """The most rows or bytes of a file.

    Attributes:
        rows: of each file but the last; None if bytes decide.
        bytes: of each file; None if rows decide.
    """

    def __init__(self, rows_per_file: int | None, file_size: int | str | None) -> None:
        if rows_per_file is not None and file_size is not None:
            raise ArgumentError(
                with_call_site("`rows_per_file` and `file_size` both say when a file is full: give one")
            )
        self.rows = None if rows_per_file is None else check_int("rows_per_file", rows_per_file, least=1)
        self.bytes = None if self.rows is not None else check_bytes("file_size", file_size or FILE_SIZE)


def progress_bar(title: str, rows: int | None, *, shown: bool) -> tqdm[Any]:
    """A bar that counts rows; if `shown` is true, on a terminal."""
    from tqdm import tqdm

    return tqdm(total=rows, desc=title, unit=" rows", unit_scale=True, disable=None if shown else True)


def check_pipe(value: object) -> None:
    if not isinstance(value, Pipe):
        raise ArgumentTypeError(with_call_site(f"`pipe` must be a Pipe but got: {value!r}"))


class ChunkedRun:
    """One run of a pipe, in chunks of rows.

    Attributes:
        root: the graph, with its listings and types resolved.
        length: the number of rows, if known.
        chunk: the number of rows of a chunk.
    """

    def __init__(self, pipe: Pipe[object], chunk: int, workers: int) -> None:
        check_pipe(pipe)
        check_int("workers", workers, least=0)
        self.root = resolve(pipe)
        self.length = bind(self.root).length
        self.chunk = chunk
        self._workers = workers
        self._loader: Loader[Sequence[object]] | None = None

    def __iter__(self) -> Iterator[Sequence[object]]:
        for chunk, _ in self.with_info():
            yield chunk

    def with_info(self) -> Iterator[tuple[Sequence[object], Info]]:
        """The chunks, each with its info."""
        with self._new_loader() if self._loader is None else self._loader as loader:
            for chunk, info in loader.with_info():
                if info.epoch:  # the state was that of the end, after which the loader begins again
                    return
                yield chunk, info

    def load(self, state: Mapping[str, object], chunk: int) -> None:
        """Begin behind the chunks of an earlier run, which had `chunk` rows each.

        Raises:
            StateError: the state is of another pipe.
        """
        before, self.chunk = self.chunk, chunk
        self._loader = self._new_loader()
        try:
            self._loader.load_state_dict(state)
        except StateError:
            self.chunk, self._loader = before, None
            raise

    def _new_loader(self) -> Loader[Sequence[object]]:
        pipe: Pipe[object] = Pipe(self.root.op, self.root.inputs, self.root.call_site)
        return Loader(pipe.batch(self.chunk), workers=self._workers, rank=0, world_size=1)


class OutputFile(io.RawIOBase):
    """A file that is being written; counts and digests its bytes.

    Attributes:
        bytes, rows: their number so far.
    """

    def __init__(self, stream: Output, bar: tqdm[Any]) -> None:
        self.bytes = 0
        self.rows = 0
        self.digest = hashlib.sha256()
        self._stream = stream
        self._bar = bar

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.digest.update(data)
        self.bytes += self._stream.write(data)
        return len(data)

    def count_rows(self, rows: int) -> None:
        """Count rows that are in the file or about to be written."""
        self.rows += rows
        self._bar.update(rows)


class DatasetWriter:
    """Writes the files of a run into a folder, one after another, then their manifest; shows a progress bar.

    Args:
        run: is written.
        folder: a path or URL; it is made, or the files of an earlier run in it are removed.
        made_by: the name of the function that writes.
        ending: of the files' names.
        filesystem: of `folder`.
        progress: shows a bar if stderr is a terminal.
        overwrite: allows removing the files of an earlier run.
    """

    def __init__(
        self,
        run: ChunkedRun,
        folder: object,
        made_by: str,
        ending: str,
        *,
        filesystem: object,
        progress: bool,
        overwrite: bool,
    ) -> None:
        if not isinstance(folder, (str, os.PathLike)):
            raise ArgumentTypeError(with_call_site(f"`folder` must be a path but got: {folder!r}"))
        check_filesystem(filesystem)
        self._folder = str(os.fspath(folder))
        self._filesystem = filesystem
        self._made_by = made_by
        self._ending = ending
        self._files: list[dict[str, object]] = []
        self._opened = 0
        self._bytes = 0
        prepare(self._folder, filesystem, run.root, overwrite=overwrite)
        self._bar = progress_bar(made_by, run.length, shown=progress)

    def __enter__(self) -> DatasetWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()

    @contextmanager
    def next_file(self, folder: str = "") -> Generator[OutputFile]:
        """Open the next file, perhaps in a folder below. It is in the manifest if the block ends without an error."""
        name = f"part-{self._opened:05d}.{self._ending}"
        self._opened += 1
        if folder:
            make_folder(join_path(self._folder, folder, self._filesystem), self._filesystem)
            name = f"{folder}/{name}"
        with open_output(join_path(self._folder, name, self._filesystem), self._filesystem) as stream:
            written = OutputFile(stream, self._bar)
            yield written
        checksum = written.digest.hexdigest()
        self._files.append({"path": name, "bytes": written.bytes, "rows": written.rows, "sha256": checksum})
        self._bytes += written.bytes
        self._bar.set_postfix_str(f"{len(self._files)} files, {self._bytes / 1e6:.0f} MB")

    def write_beside(self, ending: str, data: bytes) -> None:
        """Write a file with the name of the last one and another ending. It is not in the manifest."""
        name = f"{str(self._files[-1]['path']).removesuffix(self._ending)}{ending}"
        with open_output(join_path(self._folder, name, self._filesystem), self._filesystem) as stream:
            stream.write(data)

    def finish(self) -> str:
        """Write the manifest, and return its path."""
        import pyarrow as pa

        path = join_path(self._folder, MANIFEST, self._filesystem)
        in_order = sorted(
            self._files, key=lambda file: "".join(str(file["path"]).rpartition("/")[:2])
        )  # as a listing has them
        files = pa.Table.from_pylist(in_order, manifest_schema())
        write_manifest(Manifest(self._made_by, files), path, self._filesystem)
        return path


# The folder


MANIFEST = "_manifest.jsonl"
"""The name of a manifest beside its files. It begins with `_`, so that no listing takes it for data."""

# Readers keep the units of the files beside the manifest.
_OURS = re.compile(
    rf"part-\d{{5,}}\.(arrow|parquet|tar|tfrecord|tfrecord\.gz|index)|\..*{re.escape(TEMPORARY_SUFFIX)}|{re.escape(MANIFEST)}(\.units)?"
)


def prepare(folder: str, filesystem: object, root: Node, *, overwrite: bool) -> None:
    """Make the folder, or remove the files of an earlier run, unless `root` reads them.

    Raises:
        ArgumentError: the folder holds files that must not be removed.
        SourceError: the folder cannot be made, listed or emptied.
    """
    place = make_folder(folder, filesystem)
    paths, folders = _entries(place, folder)
    if not paths:
        return
    foreign = next((name for name in sorted(paths) if not _OURS.fullmatch(name.rpartition("/")[2])), None)
    if foreign is not None:
        raise ArgumentError(
            with_call_site(
                f"`folder` must be empty, or hold an earlier run, but {folder} holds {foreign!r}; choose another folder"
            )
        )
    if not overwrite:
        state = "a run" if MANIFEST in paths else "a run that was not finished"
        raise ArgumentError(
            with_call_site(f"{folder} holds {state}: `overwrite=True` removes it, or choose another folder")
        )
    if _reads_folder(root, folder, filesystem):
        raise ArgumentError(
            with_call_site(f"{folder} holds files that the pipe reads, so it cannot be emptied; choose another folder")
        )
    # Remove the manifest first: a folder with a manifest has all its files.
    for name in sorted(paths, key=lambda name: name != MANIFEST):
        try:
            place.filesystem.delete_file(paths[name])
        except OSError as error:
            raise SourceError(with_call_site(f"{folder}/{name} cannot be removed: {describe(error)}")) from error
    for path in folders:
        with suppress(OSError):  # an object store has no folders
            place.filesystem.delete_dir(path)


def make_folder(folder: str, filesystem: object) -> Location:
    """Make a folder unless it is there.

    Raises:
        SourceError: it cannot be made.
    """
    place = locate(folder, filesystem)
    try:
        place.filesystem.create_dir(place.path)
    except OSError as error:
        raise SourceError(with_call_site(f"{folder} cannot be written to: {describe(error)}")) from error
    return place


def _entries(place: Location, folder: str) -> tuple[dict[str, str], list[str]]:
    """The paths of all entries of the folder, by their names below it, and those of its folders such as `year=2024`.

    Such a folder's files are entries; the folder itself is none.
    """
    from pyarrow.fs import FileSelector, FileType

    paths: dict[str, str] = {}
    folders: list[str] = []
    waiting = [(place.path, "")]
    while waiting:
        path, prefix = waiting.pop()
        try:
            entries = place.filesystem.get_file_info(FileSelector(path))
        except OSError as error:
            raise SourceError(with_call_site(f"{folder} cannot be written to: {describe(error)}")) from error
        for info in entries:
            if info.type == FileType.Directory and "=" in info.base_name:
                waiting.append((info.path, f"{prefix}{info.base_name}/"))
                folders += [] if prefix else [info.path]
            else:
                paths[prefix + info.base_name] = info.path
    return paths, folders


def _reads_folder(root: Node, folder: str, filesystem: object) -> bool:
    """Return True if a listing of the pipe has files of the folder."""
    import pyarrow.compute as pc

    call: Any = pc
    where = _real_place(folder, filesystem)
    for node in walk(root):
        if isinstance(node.op, ListFiles) and node.op.listing is not None:
            folders = call.replace_substring_regex(node.op.listing.paths, "/?[^/]*$", "").unique().to_pylist()
            for read in folders:
                kind, path = _real_place(read or ".", node.op.selection.filesystem)
                if kind == where[0] and f"{path}/".startswith(f"{where[1]}/"):
                    return True
    return False


def _real_place(folder: str, filesystem: object) -> tuple[str, str]:
    place = locate(folder, filesystem)
    kind = str(place.filesystem.type_name)
    return kind, os.path.realpath(place.path) if kind == "local" else place.path
