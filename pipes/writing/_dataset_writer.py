"""The files of a run in a folder, which a later run completes, and their manifest."""

from __future__ import annotations

import hashlib
import io
import os
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from ..core.checks import check_bytes, check_int, digest
from ..core.cursor import Json
from ..core.graph import Node, walk
from ..core.lazy import pa
from ..core.progress_bar import ProgressBar
from ..errors import ArgumentError, ArgumentTypeError, DataError, SourceError, StateError, call_site
from ..sources.index import make_version
from ..sources.list_files import ListFiles
from ..storage.filesystem import check_filesystem, describe, file_infos, locate
from ..storage.listing import Selection
from ..storage.manifest import (
    MANIFEST,
    TEMPORARY_SUFFIX,
    Manifest,
    Output,
    join_path,
    manifest_schema,
    open_output,
    read_manifest,
    write_manifest,
)
from ._run import ChunkedRun, SavedRun

Item = TypeVar("Item")

FILE_SIZE = "256MiB"


class Limits(NamedTuple):
    """The most rows or bytes of a file, as the user says; None if the other decides."""

    rows: int | None
    bytes: int | None

    @staticmethod
    def of(rows_per_file: int | None, file_size: int | str | None) -> Limits:
        """Check the arguments of a user."""
        if rows_per_file is None:
            return Limits(None, check_bytes("file_size", file_size or FILE_SIZE))
        if file_size is not None:
            raise ArgumentError("`rows_per_file` and `file_size` both say when a file is full: give one")
        return Limits(check_int("rows_per_file", rows_per_file, least=1), None)


@dataclass
class Sink(ABC, Generic[Item]):
    """A format of files. An item of the rows is what it writes at once: a record, or a table.

    The fields are the arguments that files depend on.
    """

    made_by: ClassVar[str]

    limits: Limits

    @property
    @abstractmethod
    def ending(self) -> str: ...

    @property
    def schema(self) -> pa.Schema | None:
        """Names and types of the rows, if they are a table and some have come."""
        return None

    def go_on(self, saved: SavedRun) -> None:
        """Begin with the types of an earlier run."""

    @abstractmethod
    def items(self, run: ChunkedRun) -> Iterator[Item]:
        """The items of a run."""

    @abstractmethod
    def open(self, file: OutputFile, first: Item | None) -> AbstractContextManager[Callable[[Item], object]]:
        """Begin a file; the function writes an item, and the end of the block completes the file.

        Args:
            file: is empty.
            first: the first item; None if the run has none.
        """

    def rows(self, item: Item) -> int:
        """The number of rows of an item."""
        return 1

    def is_full(self, file: OutputFile) -> bool:
        """Return True if no item fits into a file that has rows."""
        return file.rows == self.limits.rows or (self.limits.bytes is not None and file.bytes >= self.limits.bytes)

    def fits(self, file: OutputFile, item: Item) -> bool:
        """Return True if an item fits into a file that has rows and is not full."""
        return True


def write_dataset(
    run: ChunkedRun,
    sink: Sink[Any],
    folder: object,
    filesystem: object,
    *,
    progress: bool,
    overwrite: bool,
    index: bool = False,
) -> str:
    """Write the files of a run, then their manifest, then perhaps their index; return the path of the manifest."""
    writer = DatasetWriter(run, sink, folder, filesystem)
    if not writer.begin(overwrite=overwrite):
        with run.progress_bar(sink.made_by, shown=progress, notes=writer.notes) as bar:
            writer.write(bar)
    if index:
        writer.make_index()
    return writer.manifest


class OutputFile(io.RawIOBase):
    """A file that is being written; counts and digests its bytes.

    Attributes:
        bytes, rows: their number so far.
        beside: the content of files that get its name with another ending. They are not in the manifest.
        without_nulls: the columns that cannot hold nulls.
    """

    def __init__(self, stream: Output) -> None:
        self.bytes = 0
        self.rows = 0
        self.beside: dict[str, bytes] = {}
        self.without_nulls: frozenset[str] = frozenset()
        self.digest = hashlib.sha256()
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.digest.update(data)
        self.bytes += self._stream.write(data)
        return len(data)


INDEX = "_files.index"
"""The name of an index beside its files."""
_PROGRESS = "_unfinished-"
_LINE_BYTES = 200  # of a file in a manifest, about

_OURS = re.compile(
    rf"part-\d{{5,}}\.(arrow|parquet|tar|tfrecord|tfrecord\.gz|index)|\..*{re.escape(TEMPORARY_SUFFIX)}"
    rf"|{re.escape(MANIFEST)}|{re.escape(INDEX)}|{_PROGRESS}\d{{5,}}-[0-9a-f]{{8}}\.jsonl"
)


class DatasetWriter:
    """The files of a run in a folder.

    The place of the run is saved beside them, as a manifest of the complete files, so that a later run goes on from
    there. Its name has the number of the files and of the run: a run whose file is gone was taken over.

    Attributes:
        run: counts the rows of its items that were taken.
        manifest: its path.
        files: the entries of the complete files.
        bytes: the bytes of these.
    """

    def __init__(self, run: ChunkedRun, sink: Sink[Any], folder: object, filesystem: object) -> None:
        if not isinstance(folder, (str, os.PathLike)):
            raise ArgumentTypeError(f"`folder` must be a path but got: {folder!r}")
        check_filesystem(filesystem)
        self._folder = str(os.fspath(folder))
        self._filesystem = filesystem
        self.run = run
        self._sink = sink
        self._number = uuid.uuid4().hex[:8]
        self._place: tuple[SavedRun, int] | None = None  # that is not saved, and the number of files before it
        self._saved: str | None = None  # the name of the file with the saved place
        self._due = 0  # the bytes at which the place is saved again
        self.manifest = join_path(self._folder, MANIFEST, filesystem)
        self.files: list[dict[str, Any]] = []
        self.bytes = 0
        self._opened = 0

    def begin(self, *, overwrite: bool) -> bool:
        """Make the folder, go on with the run in it, or remove the files of another one.

        Returns:
            True if the folder has all files of the run.
        """
        paths = _made_folder(self._folder, self._filesystem)
        foreign = next((name for name in sorted(paths) if not _OURS.fullmatch(name)), None)
        if foreign is not None:
            raise ArgumentError(
                f"`folder` must be empty, or hold an earlier run, but {self._folder} holds {foreign!r}; choose "
                "another folder"
            )
        leftovers = [name for name in paths if name.endswith(TEMPORARY_SUFFIX)]  # of runs that were killed
        reason = ""
        if MANIFEST in paths:
            if not overwrite and self._is_complete():
                self._remove([*leftovers, *filter(_is_progress, paths)], paths)
                return True
        elif len(paths) > len(leftovers):
            try:
                self._go_on(paths)
            except (StateError, DataError) as error:
                reason = f"; the call cannot go on with it: {error}"
        if paths and self._saved is None:
            if not overwrite and len(paths) > len(leftovers):
                state = "a run that was not finished" if reason else "a run"
                raise ArgumentError(
                    f"{self._folder} holds {state}: `overwrite=True` removes it, or choose another folder{reason}"
                )
            if _reads_folder(self.run.root, self._folder, self._filesystem):
                raise ArgumentError(
                    f"{self._folder} holds files that the pipe reads, so it cannot be emptied; choose another folder"
                )
            # Remove these first: a folder with a manifest has all its files.
            self._remove(sorted(paths, key=lambda name: not name.startswith("_")), paths)
        self._place = self._place or (self.run.place(None), 0)
        self._save()
        return False

    def notes(self) -> str:
        """The complete files, for a line that shows the progress."""
        return f"{len(self.files)} files, {self.bytes / 1e6:.0f} MB"

    def write(self, bar: ProgressBar) -> None:
        """Write the rest of the run, and the manifest."""
        try:
            self._write_files(bar)
        except BaseException:
            with suppress(SourceError):
                self._save()
            if not self.files:
                self._forget_saved()
            raise
        self._write_list(MANIFEST, self.files, {"run": self._identity()})
        self._forget_saved()

    def _write_files(self, bar: ProgressBar) -> None:
        sink, most = self._sink, self._sink.limits.rows
        items = sink.items(self.run)
        item = next(items, None)
        while item is not None or not self.files:  # without rows, one file
            with self.next_file() as file, sink.open(file, item) as write:
                while item is not None and (not file.rows or sink.fits(file, item)):
                    write(item)
                    rows = sink.rows(item)
                    file.rows += rows
                    self.run.rows += rows
                    bar.update(rows)
                    # A file that ended early leaves the next one the rows up to where it would have ended.
                    ends = most is not None and self.run.rows % most == 0
                    item = None if ends or sink.is_full(file) else next(items, None)
            self.note_place()
            item = next(items, None) if item is None else item

    def make_index(self) -> None:
        """Make an index of the files, unless there is one."""
        make_version(Selection(self._folder, filesystem=self._filesystem, manifest=self._path(INDEX)), True)

    @contextmanager
    def next_file(self) -> Generator[OutputFile]:
        """Open the next file. It is in the manifest if the block ends without an error."""
        if self.bytes >= self._due:
            self._save()
        stem = f"part-{self._opened:05d}."
        name = f"{stem}{self._sink.ending}"
        self._opened += 1
        with open_output(self._path(name), self._filesystem) as stream:
            written = OutputFile(stream)
            yield written
        for ending, data in written.beside.items():
            with open_output(self._path(f"{stem}{ending}"), self._filesystem) as stream:
                stream.write(data)
        checksum = written.digest.hexdigest()
        self.files.append({"path": name, "bytes": written.bytes, "rows": written.rows, "sha256": checksum})
        self.bytes += written.bytes

    def note_place(self) -> None:
        """Note the place of the run, all whose rows so far are in complete files.

        It is saved before the next file, unless that would take more bytes than were written since the last time.
        """
        self._place = self.run.place(self._sink.schema), len(self.files)

    def _go_on(self, paths: Mapping[str, str]) -> None:
        """Go on with the run whose place is saved in the folder; a `StateError` or `DataError` if it is another one."""
        saved = max(filter(_is_progress, paths), key=lambda name: (len(name), name), default="")
        if not saved:
            raise StateError("its place was not saved")
        progress = read_manifest(self._path(saved), self._filesystem)
        if progress.details.get("sink") != repr(self._sink):
            raise StateError(f"it is {progress.details.get('sink')}, and this {self._sink!r}")
        files = progress.files.to_pylist()
        if gone := [file["path"] for file in files if file["path"] not in paths]:
            raise StateError(f"{gone[0]} is gone")
        place = SavedRun.of_text(progress.details.get("place"))
        self.run.go_on(place)
        self._sink.go_on(place)
        self._saved, self._place = saved, (place, len(files))
        self.files, self._opened, self.bytes = files, len(files), sum(file["bytes"] for file in files)
        kept = {_stem(file["path"]) for file in files} | {_stem(saved)}
        self._remove([name for name in paths if _stem(name) not in kept], paths)

    def _is_complete(self) -> bool:
        """Return True if the folder has all files of this run."""
        with suppress(DataError):
            return read_manifest(self.manifest, self._filesystem).details.get("run") == self._identity()
        return False

    def _remove(self, names: Iterable[str], paths: Mapping[str, str]) -> None:
        filesystem = locate(self._folder, self._filesystem).filesystem
        for name in names:
            try:
                (filesystem.delete_dir if name == INDEX else filesystem.delete_file)(paths[name])
            except OSError as error:
                message = f"{self._folder}/{name} cannot be removed: {describe(error)}"
                raise SourceError(message, at=call_site()) from error

    def _save(self) -> None:
        """Save the place that was noted; a `SourceError` if another run has gone on with this one."""
        if self._place is None:
            return
        place, files = self._place
        if self._saved is not None:
            at = locate(self._path(self._saved), self._filesystem)
            if file_infos(at.filesystem, [at.path])[0].type.name == "NotFound":
                raise SourceError(
                    f"another run has gone on with the write into {self._folder}, or {self._saved} there was removed; "
                    "this run ends, so that no row is written twice"
                )
        text = place.text()
        saved = f"{_PROGRESS}{files:05d}-{self._number}.jsonl"
        if saved != self._saved:
            self._write_list(saved, self.files[:files], {"sink": repr(self._sink), "place": text})
            self._forget_saved()
        self._saved, self._place = saved, None
        self._due = self.bytes + len(text) + _LINE_BYTES * files

    def _forget_saved(self) -> None:
        if self._saved is not None:
            at = locate(self._path(self._saved), self._filesystem)
            with suppress(OSError):
                at.filesystem.delete_file(at.path)
            self._saved = None

    def _write_list(self, name: str, files: list[dict[str, Any]], details: Mapping[str, Json]) -> None:
        table = pa.Table.from_pylist(files, manifest_schema())
        write_manifest(Manifest(self._sink.made_by, table, details), self._path(name), self._filesystem)

    def _identity(self) -> str:
        return digest([self.run.identity, self._sink.made_by, repr(self._sink)])

    def _path(self, name: str) -> str:
        return join_path(self._folder, name, self._filesystem)


def _is_progress(name: str) -> bool:
    return name.startswith(_PROGRESS)


def _stem(name: str) -> str:
    """The name without its ending, which those of a file and of the files beside it differ in."""
    return re.sub(r"\.[^/]*$", "", name)


def _made_folder(folder: str, filesystem: object) -> dict[str, str]:
    """Make a folder unless it is there; the paths of all its entries, by their names."""
    from pyarrow.fs import FileSelector

    place = locate(folder, filesystem)
    try:
        place.filesystem.create_dir(place.path)
        return {info.base_name: info.path for info in place.filesystem.get_file_info(FileSelector(place.path))}
    except OSError as error:
        raise SourceError(f"{folder} cannot be written to: {describe(error)}", at=call_site()) from error


def _reads_folder(root: Node, folder: str, filesystem: object) -> bool:
    """Return True if a listing of the pipe has files of the folder."""
    where = _real_place(folder, filesystem)
    for node in walk(root):
        if isinstance(node.op, ListFiles) and node.op.listing is not None:
            for read in node.op.listing.folders():
                kind, path = _real_place(read or ".", node.op.selection.filesystem)
                if kind == where[0] and f"{path}/".startswith(f"{where[1]}/"):
                    return True
    return False


def _real_place(folder: str, filesystem: object) -> tuple[str, str]:
    place = locate(folder, filesystem)
    kind = str(place.filesystem.type_name)
    return kind, os.path.realpath(place.path) if kind == "local" else place.path
