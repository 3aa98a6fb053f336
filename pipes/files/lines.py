"""`parse_lines` and `parse_bytes`: the lines of text files, and whole files."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, TypedDict, Unpack, cast

from ..core.block import Block
from ..core.context import Context, NoWork
from ..core.cursor import Cursor, Json
from ..core.operator import Ahead, Columns, CursorOfInput, Order, StageView
from ..core.rows import BlockRows, Indices, index_list
from ..core.skips import OnError
from ..engine.ahead import REQUESTS, read_ahead
from ..engine.calls import extend_until_error, map_until_error
from ..errors import ArgumentError, DataError, SourceError
from ..formats.table_format import options_of
from ..formats.text import (
    FEW_RECORDS,
    REPAIR,
    Chunk,
    ChunkReader,
    ParseChunk,
    ParsedPart,
    TextPlace,
    check_encoding,
    line_ends,
    parse_parts,
    shorten,
)
from ..storage.file import File
from .open_files import OpenTask, at_call_site, check_file, read_whole_files
from .ranges import TextFormat
from .units import parse

if TYPE_CHECKING:
    from ..pipe import Pipe


class LinesOptions(TypedDict, total=False):
    """The options of `parse_lines`."""

    encoding: str


def parse_lines(pipe: Pipe[File], /, *, on_error: OnError | None = None, **options: Unpack[LinesOptions]) -> Pipe[str]:
    r"""Give the lines of each file.

    Element: a line, without its `\n` or `\r\n`; an empty line is an empty string. Order: that of the files, and within
    each that of its lines. Length: unknown, streamed. State: a place in a file. A resume seeks to it, or reads a
    compressed file up to it, and reads at most 1 MiB again.

    Shards divide ranges of files, so a single file serves many workers: about 1,024 ranges of all files, of 256 KiB to
    32 MiB each. A `shuffle` after this shuffles the order of the ranges as well. A file is not split if it is
    compressed, or if files come in a new order in each epoch, as with `list_files(...).shuffle()`.

    Args:
        encoding: of the text; a newline must be the byte 0x0A in it. A byte order mark of UTF-8 is left out.
        on_error: what happens to a line that is not in that encoding; see `map`.

    Raises:
        SourceError: a file is missing, cannot be read, or ends before the place to resume from.
        DataError: a line is not in that encoding, or compressed bytes are damaged; the lines before it come first.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> _ = pathlib.Path("a.txt").write_text("one\ntwo\n")
        >>> list(fp.list_files("a.txt").open_files().parse_lines())
        ['one', 'two']
    """
    return parse(pipe, Lines(**options), on_error)


@options_of(parse_lines, LinesOptions)
@dataclass(frozen=True)
class Lines(TextFormat):
    r"""The arguments of `parse_lines`. Lines end with `\n` or `\r\n`; the last may lack its end."""

    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        check_encoding(self.encoding)
        if "\n".encode(self.encoding) != b"\n":
            raise ArgumentError(
                f"`encoding` must be one in which a newline is the byte 0x0A, such as 'utf-8' or 'latin-1', "
                f"but got: {self.encoding!r}"
            )

    def identity(self) -> dict[str, Json]:
        return {"call": self.call(), "types": None}

    def start_reading(self, reader: ChunkReader) -> tuple[TextPlace, ParseChunk]:
        def parse_chunk(chunk: Chunk, before: int) -> Iterator[ParsedPart]:
            return parse_parts(chunk, self._split, line_ends, lambda line: self._explain(line, reader), _named)

        return TextPlace(), parse_chunk

    def row_lines(self, chunk: Chunk) -> list[int]:
        return list(range(chunk.at.line, chunk.end.line + (not chunk.data.endswith(b"\n"))))

    def _explain(self, line: Chunk, reader: ChunkReader) -> DataError:
        place, data = reader.describe(line.at), line.data
        try:
            data.decode(self.encoding)
            problem = "cannot be decoded"
        except UnicodeDecodeError as error:
            problem = f"byte 0x{data[error.start]:02x} is not {self.encoding}"
        return DataError(f"{place}: {problem}: {shorten(data)}; {REPAIR}")

    def _split(self, data: bytes) -> list[object]:
        text = data.decode(self.encoding)
        rows: list[object] = []
        rows.extend(text.split("\n"))
        if text.endswith("\n") or not text:
            rows.pop()
        if "\r" in text:
            rows = [row.removesuffix("\r") for row in rows]  # type: ignore[attr-defined]
        return rows


def _named(error: ValueError, part: Chunk, ends: list[int]) -> list[int]:
    """The line that cannot be decoded."""
    if len(ends) > FEW_RECORDS or not isinstance(error, UnicodeDecodeError):
        return []
    return [bisect_right(ends, error.start)]


def parse_bytes(pipe: Pipe[File], /) -> Pipe[dict[str, object]]:
    """Give each file whole: its path and its bytes.

    Element: `{"path": str, "bytes": bytes}`; a compressed file is decompressed, see `open_files`. `.decode()` turns the
    bytes into images, text and numbers. Order and length are the input's; indexed if the input is. State: none. Up to
    16 remote files are fetched ahead, one by one; those of a batch are fetched together.

    Raises:
        SourceError: a file is missing or cannot be read.
        DataError: its compression is damaged, or it is compressed and holds more than 2 GiB. Both errors name the file;
            the files before it come first.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> _ = pathlib.Path("a.txt").write_text("hello")
        >>> list(fp.list_files("a.txt").open_files().parse_bytes())
        [{'path': 'a.txt', 'bytes': b'hello'}]
    """
    return pipe.then(ParseBytes())


@dataclass(frozen=True, eq=False, repr=False)
class ParseBytes(CursorOfInput):
    kind: ClassVar[str] = "parse_bytes"
    order: ClassVar[Order] = Order.ROW_LOCAL
    needs_positions: ClassVar[bool] = False  # type: ignore[misc]
    columns: ClassVar[Columns] = Columns.LOSES
    seeks: ClassVar[bool] = True

    def length(self, stage: StageView) -> int | None:
        return stage.input.length

    def ahead(self) -> Ahead:
        return REQUESTS

    def begin(self, stage: StageView, indices: Indices, context: Context) -> Iterator[OpenTask | None]:
        for index in index_list(indices):  # one by one, so that nothing after a row that fails is made
            (value,) = stage.input.rows(range(index, index + 1), context)
            file = check_file(stage, self.kind, value)
            yield None if file.is_local() else OpenTask(file)

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        tasks = cast("list[OpenTask | None]", context.take_started(stage.name, indices))
        begun = [task.file for task in tasks if task is not None]
        values: Sequence[object] = begun if len(begun) == len(tasks) else stage.input.rows(indices, context)
        return list[object](self._read(stage, values, tasks, context))

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        block_size = context.block_size()
        parts = self._parts(stage, stage.input.blocks(at, context), context)
        with read_ahead(parts, lambda part, early: part[1] or NoWork(), lambda part: part[1] is not None) as started:
            for (block, task), _ in started:
                reading = self._read(stage, block.rows, () if task is None else (task,), context)
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

    def _parts(
        self, stage: StageView, blocks: Iterator[Block], context: Context
    ) -> Iterator[tuple[Block, OpenTask | None]]:
        """The blocks of local files as they are, and those of remote files one file at a time, with its task."""
        for block in blocks:
            first = block.rows[0]
            if not context.process.threads or not isinstance(first, File) or first.is_local():
                yield block, None
                continue
            for index, value in enumerate(block.rows):
                yield block.slice(index, index + 1), OpenTask(check_file(stage, self.kind, value))

    def _read(
        self, stage: StageView, values: Sequence[object], tasks: Sequence[OpenTask | None], context: Context
    ) -> Iterator[dict[str, object]]:
        files, failure = map_until_error(partial(check_file, stage, self.kind), values)
        try:
            for file, data in zip(files, read_whole_files(files, tasks, threads=context.process.threads), strict=True):
                yield {"path": file.path, "bytes": data}
        except (SourceError, DataError) as error:
            raise at_call_site(error, stage) from error.__cause__
        if failure is not None:
            raise failure
