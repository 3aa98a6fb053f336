"""`parse_tar`: the rows of tar files, in WebDataset's form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from ...core.block import Block
from ...core.block_size import BlockSize
from ...core.context import Context
from ...core.cursor import Cursor, Json
from ...core.operator import Columns, Operator, Order
from ...engine.readahead import begun_ahead
from ...errors import ArgumentError, ArgumentTypeError, DataError, Origin, SourceError, with_call_site
from ...formats.tar import KEY, TarGroup, TarReader
from ...storage.file import WHOLE, File
from ._open_files import OpenTask, at_call_site, check_file

if TYPE_CHECKING:
    from ...engine.stage import Stage
    from ...pipe import Pipe

_BYTES = 2**22  # of a block, whatever its block_size: one row may be as large as thousands before it


@dataclass(frozen=True, eq=False)
class ParseTar(Operator):
    """A token is [cursor of the file in the input, byte at which the headers of the row begin]."""

    kind: ClassVar[str] = "parse_tar"
    order: ClassVar[Order] = Order.ROW_LOCAL
    columns: ClassVar[Columns] = Columns.LOSES
    expands: ClassVar[bool] = True

    path_column: str | None = None

    def __post_init__(self) -> None:
        if self.path_column is not None and not isinstance(self.path_column, str):
            raise ArgumentTypeError(
                with_call_site(f"`path_column` must be the name of a key but got: {self.path_column!r}")
            )
        if self.path_column == KEY:
            raise ArgumentError(with_call_site(f"`path_column` must be another key than {KEY!r}, which every row has"))

    def blocks(self, stage: Stage, at: Cursor, context: Context) -> Iterator[Block]:
        source, offset = cast("tuple[Json, int] | None", at.token) or (None, 0)
        row = at.row
        block_size = context.block_size()
        blocks = stage.input.blocks(Cursor.of(source), context)
        files = ((block, k, check_file(stage, self.kind, v)) for block in blocks for k, v in enumerate(block.rows))
        with begun_ahead(files, _begin, lambda item: context.threads and not item[2].is_local()) as begun:
            for (block, index, file), opened in begun:
                here = block.at.advance(index).plain
                after = block.at.advance(index + 1) if index + 1 < len(block) else block.end
                for groups, last in self._parts(stage, opened, offset, block_size):
                    start = Cursor([here, groups[0].at], 0, row)
                    row += len(groups)
                    token: Json = [after.plain, 0] if last else [here, groups[-1].end]
                    origins = _origins(file, groups) if context.origins else None
                    yield Block([group.row for group in groups], start, Cursor(token, 0, row), origins)
                offset = 0

    def _parts(
        self, stage: Stage, opened: OpenTask, offset: int, block_size: BlockSize
    ) -> Iterator[tuple[list[TarGroup], bool]]:
        """The groups of a file from `offset` on, as many at a time as make a block, and whether the file ends there."""
        groups: list[TarGroup] = []
        size, most = 0, block_size.rows()
        beside = {} if self.path_column is None else {self.path_column: opened.file.path}
        try:
            with opened.result() as stream:
                for group in TarReader(stream, opened.file.name, beside).groups(offset):
                    groups.append(group)
                    size += group.size
                    if len(groups) >= most or size >= _BYTES:
                        block_size.produced([group.row for group in groups])
                        yield groups, False
                        groups = []
                        size, most = 0, block_size.rows()
        except (SourceError, DataError) as error:
            if groups:
                yield groups, False
            raise at_call_site(error, stage) from error
        if groups:
            yield groups, True


def _begin(item: tuple[Block, int, File], ahead: bool) -> OpenTask:
    return OpenTask(item[2], WHOLE if ahead else None)  # the first file of a run may be all that is looked at


def _origins(file: File, groups: list[TarGroup]) -> list[Origin | None]:
    return [Origin(file.path, group.at, f"{group.row[KEY]} at byte") for group in groups]


def parse_tar(pipe: Pipe[File], /, *, path_column: str | None = None) -> Pipe[dict[str, object]]:
    """Give the rows of each tar file, in WebDataset's form.

    Element: a dict of the key and of `bytes` by extension: `train/7.jpg` and `train/7.seg.png` make one row,
    `{"__key__": "train/7", "jpg": ..., "seg.png": ...}`. The extension is what follows the first dot of the file's
    name, in lower case. Only neighbours make a row together. `.decode()` makes images, numbers and text of the bytes.
    Order: the files' and in each the rows'. Length: unknown, streamed. State: the byte at which a row begins, which a
    resume seeks; a compressed file (see `open_files`) is read over up to there.

    Files are the units that shards are dealt. Folders are left out, as are members whose name has no dot or begins with
    one, and those in folders such as `__meta__`. Nothing is written to disk. Memory: a block of about 4 MiB, or one
    row, of at most 2 GiB.

    Args:
        path_column: the name of a further key with the path of the tar file.

    Raises:
        SourceError: a file is missing, cannot be read, or ends before the place to resume from.
        DataError: names file and byte: no tar file, a damaged header, a file that is cut short or goes on behind its
            end; two members of one key and extension; a name that is absolute, has `..` in it, or is not UTF-8; a link,
            a device, a file with holes. The rows before come first.

    Example:
        >>> import feedpipe as fp, io, tarfile
        >>> with tarfile.open("a.tar", "w") as tar:
        ...     for name, data in {"7.txt": b"seven", "7.cls": b"7", "8.txt": b"eight", "8.cls": b"8"}.items():
        ...         member = tarfile.TarInfo(name)
        ...         member.size = len(data)
        ...         tar.addfile(member, io.BytesIO(data))
        >>> for row in fp.list_files("a.tar").open_files().parse_tar():
        ...     print(row)
        {'__key__': '7', 'txt': b'seven', 'cls': b'7'}
        {'__key__': '8', 'txt': b'eight', 'cls': b'8'}
    """
    return pipe.then(ParseTar(path_column))
