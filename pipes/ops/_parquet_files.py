"""The Parquet files that a run has open."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from ..errors import DataError, SourceError
from ..formats.parquet import Parquet
from ..formats.parquet_file import ParquetFile, Piece, Width
from ..formats.parquet_footer import Footer, read_footer
from ..storage.filesystem import locate
from ._row_groups import RowGroup, relocated

if TYPE_CHECKING:
    from ..stage import Stage

_OPEN = 8  # row groups in a random order come back to the same few files


class OpenFiles:
    """Reads row groups; keeps the files of the last few open, and closes them in the end."""

    def __init__(self, options: Parquet, stage: Stage, *, threads: bool) -> None:
        self._options = options
        self._stage = stage
        self._threads = threads
        self._width = Width()
        self._open: OrderedDict[tuple[int, str, int], tuple[ParquetFile, BinaryIO, bool]] = OrderedDict()

    def __enter__(self) -> OpenFiles:
        return self

    def __exit__(self, *error: object) -> None:
        while self._open:
            self._open.popitem()[1][1].close()

    def pieces(self, group: RowGroup, inside: int) -> Iterator[Piece]:
        """The rows of a row group without the first `inside`."""
        try:
            file, stream, near = self._opened(group)
            yield from file.pieces(
                stream, group.number, group.first, inside, self._width, near=near, threads=self._threads
            )
        except (SourceError, DataError) as error:
            raise relocated(error, self._stage) from error

    def _opened(self, group: RowGroup) -> tuple[ParquetFile, BinaryIO, bool]:
        key = id(group.file.filesystem), group.file.path, group.seal
        if key in self._open:
            self._open.move_to_end(key)
            return self._open[key]
        while len(self._open) >= _OPEN:
            self._open.popitem(last=False)[1][1].close()
        stream = group.file.open(None)
        try:
            file = ParquetFile(self._options, _same(stream, group))
        except BaseException:
            stream.close()
            raise
        near = locate(group.file.path, group.file.filesystem).filesystem.type_name == "local"
        self._open[key] = file, stream, near
        return self._open[key]


def _same(stream: BinaryIO, group: RowGroup) -> Footer:
    """The footer of the file, if it is the one that told of the row group."""
    reason = "it is another one now"
    try:
        footer = read_footer(stream, group.file.path)
        if footer.seal == group.seal:
            return footer
    except DataError as error:
        reason = str(error)
    raise SourceError(
        f"{group.file.path} has changed since its footer was read: {reason}; a pipe and a loader read footers once, so "
        "make those anew"
    )
