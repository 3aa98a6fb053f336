"""`parse_bytes`: whole files."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, TypeAlias, cast

from ...core.block import Block
from ...core.context import Context
from ...core.cursor import Cursor
from ...core.operator import Columns, Order, StageView
from ...core.rows import BlockRows, Indices
from ...engine.apply import extend_until_error, map_until_error
from ...engine.readahead import WorkGroup, read_ahead
from ...errors import DataError, SourceError
from ...storage.file import File
from ..grouping._tokens import CursorOfInput
from ._open_files import OpenTask, at_call_site, check_file, read_whole_files

if TYPE_CHECKING:
    from ...pipe import Pipe

_Part: TypeAlias = tuple[Block, WorkGroup[int, OpenTask]]


@dataclass(frozen=True, eq=False)
class ParseBytes(CursorOfInput):
    kind: ClassVar[str] = "parse_bytes"
    order: ClassVar[Order] = Order.ROW_LOCAL
    columns: ClassVar[Columns] = Columns.LOSES
    seeks: ClassVar[bool] = True

    def length(self, stage: StageView) -> int | None:
        return stage.input.length

    def start_reading(self, stage: StageView, index: int, context: Context) -> OpenTask | None:
        (value,) = stage.input.rows(range(index, index + 1), context)
        file = check_file(stage, self.kind, value)
        return None if file.is_local() else OpenTask(file)

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        opened = cast("OpenTask | None", context.take_started(stage, int(indices[0])) if len(indices) == 1 else None)
        values: Sequence[object] = stage.input.rows(indices, context) if opened is None else [opened.file]
        return list[object](self._read(stage, values, opened, context))

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        block_size = context.block_size()
        parts = self._parts(stage, stage.input.blocks(at, context), context)
        with read_ahead(parts, lambda part, early: part[1], lambda part: bool(part[1])) as started:
            for (block, _), works in started:
                reading = self._read(stage, block.rows, works.get(0), context)
                start = 0
                while start < len(block):
                    rows: list[object] = []
                    error = extend_until_error(islice(reading, min(block_size.rows(), len(block) - start)), rows)
                    block_size.produced(rows)
                    if rows:
                        yield block.slice(start, start + len(rows)).with_rows(rows)
                    if error is not None:
                        raise error
                    start += len(rows)

    def _parts(self, stage: StageView, blocks: Iterator[Block], context: Context) -> Generator[_Part, None, None]:
        """The blocks of local files as they are, and those of remote files one file at a time, with its task."""
        for block in blocks:
            first = block.rows[0]
            if not context.process.threads or not isinstance(first, File) or first.is_local():
                yield block, WorkGroup()
                continue
            for index, value in enumerate(block.rows):
                yield block.slice(index, index + 1), WorkGroup({0: OpenTask(check_file(stage, self.kind, value))})

    def _read(
        self, stage: StageView, values: Sequence[object], opened: OpenTask | None, context: Context
    ) -> Iterator[dict[str, object]]:
        files, failure = map_until_error(partial(check_file, stage, self.kind), values)
        try:
            for file, data in zip(files, read_whole_files(files, opened, threads=context.process.threads), strict=True):
                yield {"path": file.path, "bytes": data}
        except (SourceError, DataError) as error:
            raise at_call_site(error, stage) from error.__cause__
        if failure is not None:
            raise failure


def parse_bytes(pipe: Pipe[File], /) -> Pipe[dict[str, object]]:
    """Give each file whole: its path and its bytes.

    Element: `{"path": str, "bytes": bytes}`; a compressed file is decompressed, see `open_files`. `.decode()` turns the
    bytes into images, text and numbers. Order and length are the input's; indexed if the input is. State: none. Up to
    16 remote files are fetched ahead, one by one; those of a batch are fetched together.

    Raises:
        SourceError: a file is missing or cannot be read.
        DataError: its compression is damaged, or it is compressed and holds more than 1 GiB. Both errors name the file;
            the files before it come first.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> _ = pathlib.Path("a.txt").write_text("hello")
        >>> list(fp.list_files("a.txt").open_files().parse_bytes())
        [{'path': 'a.txt', 'bytes': b'hello'}]
    """
    return pipe.then(ParseBytes())
