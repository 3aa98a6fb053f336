"""The Parquet files that a run has open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ...core.block import Block
from ...engine.readahead import begun_ahead
from ...errors import DataError, SourceError
from ...formats.parquet.file import BatchSize, ParquetFile, RowGroupPart
from ...formats.parquet.footer import ParquetFooter, read_parquet_footer
from ...formats.parquet.options import Parquet
from ...storage.file import Stream
from ...storage.remote import RemoteRanges
from ...storage.tasks import Task
from ._open_files import OpenFileCache, at_call_site
from ._row_groups import RowGroup

if TYPE_CHECKING:
    from ...engine.stage import Stage

_NEAR, _FAR = 2**16, 2**22
"""Bytes of a column that are read at a time where they are not there already, by what a request costs."""


class _Open(NamedTuple):
    file: ParquetFile
    stream: Stream


class _Source(NamedTuple):
    """What Arrow reads a row group from, and how many bytes of a column at a time."""

    file: ParquetFile
    stream: Any
    buffer: int


class _Begun(Task[_Source]):
    """Opens a file; a row group is then on its way, as far as the budget has room."""

    def start(self) -> None:
        source = self.result_if_done
        if source is None:
            super().start()
        elif isinstance(source.stream, RemoteRanges):
            source.stream.fetch(needed=False)


class OpenFiles:
    """Reads row groups; keeps the files of the last few open, and closes them in the end."""

    def __init__(self, options: Parquet, stage: Stage, *, threads: bool) -> None:
        self._options = options
        self._stage = stage
        self._threads = threads
        self._batch_size = BatchSize()
        self._open = OpenFileCache(partial(_open, options), lambda opened: opened.stream.close())

    def __enter__(self) -> OpenFiles:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def begun(
        self, blocks: Iterator[Block]
    ) -> AbstractContextManager[Iterator[tuple[tuple[Block, int, RowGroup], Task[_Source]]]]:
        """The row groups in blocks, each with its block and its place there; those that lie far are fetched ahead."""
        groups = ((block, index, cast("RowGroup", group)) for block in blocks for index, group in enumerate(block.rows))
        return begun_ahead(groups, self._begin, lambda item: self._threads and not item[2].file.is_local())

    def pieces(self, group: RowGroup, source: Task[_Source], inside: int) -> Iterator[RowGroupPart]:
        """The rows of a row group without the first `inside`."""
        try:
            file, stream, buffer = source.result()
            if isinstance(stream, RemoteRanges):
                stream.fetch(needed=True)
            try:
                yield from file.read_row_group(
                    stream, group.number, group.first, inside, self._batch_size, buffer=buffer, threads=self._threads
                )
            finally:
                if isinstance(stream, RemoteRanges):
                    stream.close()
        except (SourceError, DataError) as error:
            raise at_call_site(error, self._stage) from error

    def _begin(self, item: tuple[Block, int, RowGroup], ahead: bool) -> Task[_Source]:
        group = item[2]
        opened = self._open.task(group)

        def source() -> _Source:
            file, stream = opened.result()
            if stream.remote is None:
                return _Source(file, stream.raw, _NEAR)
            parts = file.byte_ranges(group.number)
            if parts is None:
                return _Source(file, stream.raw, _FAR)
            ranges = RemoteRanges(stream.remote.file, parts)
            ranges.fetch(needed=False)
            return _Source(file, ranges, 0)

        return _Begun(source)


def _open(options: Parquet, group: RowGroup) -> _Open:
    stream = group.file.open(None)
    try:
        return _Open(ParquetFile(options, _same(stream, group)), stream)
    except BaseException:
        stream.close()
        raise


def _same(stream: Stream, group: RowGroup) -> ParquetFooter:
    """The footer of the file, if it is the one that told of the row group."""
    reason = "it is another one now"
    try:
        footer = read_parquet_footer(stream, group.file.path)
        if footer.seal == group.seal:
            return footer
    except DataError as error:
        reason = str(error)
    raise SourceError(
        f"{group.file.path} has changed since its footer was read: {reason}; a pipe and a loader read footers once, so "
        "make those anew"
    )
