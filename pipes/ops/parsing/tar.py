"""`parse_tar`: the rows of tar files, in WebDataset's form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, cast

from ...core.block_size import BlockSize
from ...core.context import Context
from ...core.operator import Columns, StageView
from ...core.policy import OnError, check_on_error
from ...errors import ArgumentError, ArgumentTypeError, DataError, Origin, SourceError, with_call_site
from ...formats.tar import KEY, TarGroup, TarReader
from ...storage.file import WHOLE, File
from ._open_files import OpenTask, check_file
from ._parse_units import Malformed, ParseUnits, Piece, Place, UnitReader

if TYPE_CHECKING:
    from ...pipe import Pipe

_MAX_BLOCK_BYTES = 2**22  # whatever the block size: one row may be as large as thousands before it


@dataclass(frozen=True, eq=False)
class ParseTar(ParseUnits[File]):
    kind: ClassVar[str] = "parse_tar"
    columns: ClassVar[Columns] = Columns.LOSES

    path_column: str | None = None
    on_error: OnError | None = field(default=None, kw_only=True, compare=False)

    def __post_init__(self) -> None:
        check_on_error(self.on_error)
        if self.path_column is not None and not isinstance(self.path_column, str):
            raise ArgumentTypeError(
                with_call_site(f"`path_column` must be the name of a key but got: {self.path_column!r}")
            )
        if self.path_column == KEY:
            raise ArgumentError(with_call_site(f"`path_column` must be another key than {KEY!r}, which every row has"))

    def check_unit(self, stage: StageView, value: object) -> File:
        return check_file(stage, self.kind, value)

    def reader(self, context: Context, block_size: BlockSize) -> _TarFileReader:
        return _TarFileReader(self.path_column, block_size, origins=context.tracing.origins)


class _TarFileReader(UnitReader[File, OpenTask]):
    """A place is [byte at which the headers of the row begin]."""

    makes_blocks: ClassVar[bool] = True

    def __init__(self, path_column: str | None, block_size: BlockSize, *, origins: bool) -> None:
        self._path_column = path_column
        self._block_size = block_size
        self._origins = origins

    def is_remote(self, unit: File) -> bool:
        return not unit.is_local()

    def start_reading(self, unit: File, early: bool) -> OpenTask:
        return OpenTask(unit, WHOLE if early else None)  # a user may look at the first rows of a run only

    def pieces(self, unit: File, opened: OpenTask, place: Place) -> Iterator[Piece]:
        (offset,) = place
        groups: list[TarGroup] = []
        size, room = 0, self._block_size.rows()
        further = {} if self._path_column is None else {self._path_column: unit.path}
        try:
            with opened.result() as stream:
                for group in TarReader(stream, unit.name, further).groups(offset):
                    if group.error is not None:
                        yield self._piece(unit, groups, (group.end,), group)
                        groups, size = [], 0
                        continue
                    groups.append(group)
                    size += group.size
                    if len(groups) >= room or size >= _MAX_BLOCK_BYTES:
                        yield self._piece(unit, groups, (group.end,))
                        groups = []
                        size, room = 0, self._block_size.rows()
        except (SourceError, DataError):
            if groups:
                yield self._piece(unit, groups, (groups[-1].end,))
            raise
        if groups:
            yield self._piece(unit, groups, None)

    def _piece(self, file: File, groups: list[TarGroup], end: Place | None, bad: TarGroup | None = None) -> Piece:
        """The rows of some groups, and a malformed one behind them."""
        rows: list[object] = [group.row for group in groups]
        self._block_size.produced(rows)
        origins: list[Origin | None] = [_origin(file, group) for group in groups] if self._origins else []
        malformed = None
        if bad is not None and bad.error is not None:
            malformed = Malformed(bad.error, _origin(file, bad), bad.row)
        first = groups[0] if groups else cast("TarGroup", bad)
        return Piece(rows, (first.at,), end, origins or None, malformed)


def _origin(file: File, group: TarGroup) -> Origin:
    return Origin(file.path, group.at, f"{group.row[KEY]} at byte")


def parse_tar(
    pipe: Pipe[File], /, *, path_column: str | None = None, on_error: OnError | None = None
) -> Pipe[dict[str, object]]:
    """Give the rows of each tar file, in WebDataset's form.

    Element: a dict of the key and of `bytes` by extension: `train/7.jpg` and `train/7.seg.png` make one row,
    `{"__key__": "train/7", "jpg": ..., "seg.png": ...}`. The extension is what follows the first dot of the file name,
    in lower case. Only neighbours make a row together. `.decode()` turns the bytes into images, numbers and text.
    Order: that of the files, and within each that of its rows. Length: unknown, streamed. State: the byte at which a
    row begins. A resume seeks to it, or reads a compressed file (see `open_files`) up to it.

    Shards divide files. Folders are left out, and so are members whose name has no dot or begins with one, and those in
    folders such as `__meta__`. Nothing is written to disk. Memory: a block of about 4 MiB, or one row, of at most 2
    GiB.

    Args:
        path_column: the name of an added key with the path of the tar file.
        on_error: what happens to a row with a member that cannot be a part of it; see `map`.

    Raises:
        SourceError: a file is missing, cannot be read, or ends before the place to resume from.
        DataError: names file and byte: a file that is not tar, is cut short, or goes on after the end of the archive; a
            damaged header; two members of one key and extension; a name that is absolute, contains `..`, or is not
            UTF-8; a link, a device, a sparse file. The rows before the error come first.

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
    return pipe.then(ParseTar(path_column, on_error=on_error))
