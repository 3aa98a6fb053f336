"""`parse_bytes`: whole files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

from ..block import Block
from ..calls import apply, drain
from ..context import Context
from ..cursor import Cursor
from ..errors import DataError, SourceError
from ..rows import Indices, RowList
from ..traits import Columns, Operator
from ._contents import contents
from ._units import check_file, relocated

if TYPE_CHECKING:
    from ..pipe import Pipe
    from ..stage import Stage
    from ..storage.file import File


@dataclass(frozen=True, eq=False)
class ParseBytes(Operator):
    kind: ClassVar[str] = "parse_bytes"
    columns: ClassVar[Columns] = Columns.LOSES
    seeks: ClassVar[bool] = True

    def indexed(self, inputs: Sequence[bool]) -> bool:
        return inputs[0]

    def length(self, stage: Stage) -> int | None:
        return stage.input.length

    def rows(self, stage: Stage, indices: Indices, context: Context) -> RowList:
        return list[object](self._read(stage, stage.input.rows(indices, context), context))

    def blocks(self, stage: Stage, at: Cursor, context: Context) -> Iterator[Block]:
        pace = context.pace()
        for block in stage.input.blocks(at, context):
            reading = self._read(stage, block.rows, context)
            start = 0
            while start < len(block):
                made: list[object] = []
                error = drain(islice(reading, min(pace.rows(), len(block) - start)), made)
                pace.made(made)
                if made:
                    yield block.slice(start, start + len(made)).mapped(made)
                if error is not None:
                    raise error
                start += len(made)

    def _read(self, stage: Stage, values: RowList, context: Context) -> Iterator[dict[str, object]]:
        files, failure = apply(partial(check_file, stage, self.kind), values)
        try:
            for file, data in zip(files, contents(files, threads=context.threads), strict=True):
                yield {"path": file.path, "bytes": data}
        except (SourceError, DataError) as error:
            raise relocated(error, stage) from error
        if failure is not None:
            raise failure


def parse_bytes(pipe: Pipe[File], /) -> Pipe[dict[str, object]]:
    """Give each file whole: its path and its bytes.

    Element: `{"path": str, "bytes": bytes}`; a compressed file is decompressed, see `open_files`. `.decode()` makes
    images, text and numbers of the bytes. Order and length are the input's; indexed where the input is. State: none.
    Of files on other storage than local disks up to 16 are fetched at a time.

    Raises:
        SourceError: a file is missing or cannot be read.
        DataError: its compression is damaged. Both name the file; the files before come first.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> _ = pathlib.Path("a.txt").write_text("hello")
        >>> list(fp.list_files("a.txt").open_files().parse_bytes())
        [{'path': 'a.txt', 'bytes': b'hello'}]
    """
    return pipe.then(ParseBytes())
