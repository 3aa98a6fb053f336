"""`parse_tar`: the rows of tar files, in WebDataset's form.

Members are read one after the other, each whole. Nothing is extracted. The standard library's `tarfile` takes as much
memory as a header asks for, recurses as deep as headers are stacked, and takes three times as long per header.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, ClassVar, NamedTuple, TypedDict, Unpack, cast

from ..core.block import BlockSize
from ..core.context import Context
from ..core.skips import OnError
from ..errors import ArgumentError, DataError, FeedpipeError, Origin, SourceError, redacted
from ..formats.streams import MAX_ROW_BYTES, STREAM_ERRORS, Unpacking, stream_error
from ..formats.table_format import options_of
from ..formats.text import shorten
from ..storage.file import WHOLE, File
from .open_files import OpenTask, check_path_column
from .units import Format, Malformed, Place, Section, UnitReader, parse

if TYPE_CHECKING:
    from ..pipe import Pipe

KEY = "__key__"

_BLOCK = 512
_ZEROS = bytes(_BLOCK)
_MAX_EXTENDED_BYTES = 2**20  # of an extended header, such as one with a long name
_PIECE_BYTES = 2**20  # read at a time, for a header may claim any size

_REGULAR = (b"0", b"\0", b"7")
_FOLDER = b"5"
_LONG_NAME, _LONG_LINK = b"L", b"K"
_PAX, _PAX_GLOBAL = (b"x", b"X"), b"g"
_REFUSED = {
    b"1": "is a hard link, which holds no bytes; pack it with `--hard-dereference`",
    b"2": "is a symbolic link, which holds no bytes; pack it with `--dereference`",
    b"3": "is a device",
    b"4": "is a device",
    b"6": "is a pipe",
    b"S": "is a file with holes; pack it without `--sparse`",
}
_MAX_BLOCK_BYTES = 2**22  # whatever the block size: one row may be as large as thousands before it


class TarOptions(TypedDict, total=False):
    """The options of `parse_tar`."""

    path_column: str | None


def parse_tar(
    pipe: Pipe[File], /, *, on_error: OnError | None = None, **options: Unpack[TarOptions]
) -> Pipe[dict[str, object]]:
    """Give the rows of each tar file, in WebDataset's form.

    Element: a dict of the key and of `bytes` by extension: `train/7.jpg` and `train/7.seg.png` make one row,
    `{"__key__": "train/7", "jpg": ..., "seg.png": ...}`. The extension is what follows the first dot of the file name,
    in lower case. Only neighbours make a row together. `.decode()` turns the bytes into images, numbers and text.
    Order: that of the files, and within each that of its rows. Length: unknown, streamed. State: the byte at which a
    row begins. A resume seeks to it, or reads a compressed file (see `open_files`) up to it.

    Shards divide files. Folders are left out, and so are members whose name has no dot or begins with one, and those in
    folders such as `__meta__`.  Nothing is written to disk. Memory: a block of about 4 MiB, or one row,
    of at most 2 GiB.

    Args:
        path_column: the name of an added key with the path of the tar file, without a password.
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
    return parse(pipe, Tar(**options), on_error)


@options_of(parse_tar, TarOptions)
@dataclass(frozen=True)
class Tar(Format):
    """The arguments of `parse_tar`."""

    path_column: str | None = None

    def __post_init__(self) -> None:
        check_path_column(self.path_column)
        if self.path_column == KEY:
            raise ArgumentError(f"`path_column` must be another key than {KEY!r}, which every row has")

    def fraction_before(self, unit: File, place: Place) -> float:
        offset: int = place[0]
        return offset / unit.listed if unit.listed else 0.0

    def reader(self, context: Context, block_size: BlockSize) -> _TarFileReader:
        return _TarFileReader(self.path_column, block_size)


class _TarFileReader(UnitReader[File, OpenTask]):
    """A place is [byte at which the headers of the row begin]."""

    makes_blocks: ClassVar[bool] = True

    def __init__(self, path_column: str | None, block_size: BlockSize) -> None:
        self._path_column = path_column
        self._block_size = block_size

    def begin(self, unit: File, early: bool) -> OpenTask:
        return OpenTask(unit, WHOLE if early else None)  # a user may look at the first rows of a run only

    def sections(self, unit: File, opened: OpenTask, place: Place) -> Iterator[Section]:
        (offset,) = place
        groups: list[TarGroup] = []
        size, room = 0, self._block_size.rows()
        further = {} if self._path_column is None else {self._path_column: redacted(unit.path)}
        try:
            with opened.result() as stream:
                for group in TarReader(stream, unit.name, further).groups(offset):
                    if group.error is not None:
                        yield self._section(unit, groups, (group.end,), group)
                        groups, size = [], 0
                        continue
                    groups.append(group)
                    size += group.size
                    if len(groups) >= room or size >= _MAX_BLOCK_BYTES:
                        yield self._section(unit, groups, (group.end,))
                        groups = []
                        size, room = 0, self._block_size.rows()
        except (SourceError, DataError):
            if groups:
                yield self._section(unit, groups, (groups[-1].end,))
            raise
        if groups:
            yield self._section(unit, groups, None)

    def _section(self, file: File, groups: list[TarGroup], end: Place | None, bad: TarGroup | None = None) -> Section:
        """The rows of some groups, and a malformed one after them."""
        rows: list[object] = [group.row for group in groups]
        self._block_size.produced(rows)
        malformed = None
        if bad is not None and bad.error is not None:
            malformed = Malformed(bad.error, _origin(file, bad), bad.row)
        first = groups[0] if groups else cast("TarGroup", bad)
        return Section(rows, (first.at,), end, lambda: [_origin(file, group) for group in groups], malformed)


def _origin(file: File, group: TarGroup) -> Origin:
    return Origin(file.path, group.at, f"{group.row[KEY]} at byte")


class TarGroup(NamedTuple):
    """The members of one key, as a row.

    Attributes:
        row: the key, and the bytes of each member by its extension.
        at: the byte where the headers of the first member begin.
        end: the byte where those of the next group begin.
        size: the bytes of the members.
        error: of a member that cannot be a part of the row.
    """

    row: dict[str, object]
    at: int
    end: int
    size: int
    error: DataError | None


class _Member(NamedTuple):
    """A file in the archive; `refusal` is the reason why it cannot be a part of a row, if there is one."""

    name: str
    size: int
    at: int
    refusal: str | None


class TarReader:
    """Reads the groups of a tar file: adjacent members that differ only in their extension."""

    def __init__(self, stream: BinaryIO, name: str, extra: Mapping[str, object]) -> None:
        self._stream = stream
        self._name = name
        self._extra = extra
        self._offset = 0
        self._unpacking = Unpacking(stream)

    def groups(self, at: int) -> Iterator[TarGroup]:
        """The groups from byte `at` on, where a group begins. If the file fails, the groups before come first."""
        self._seek(at)
        row: dict[str, object] = {}
        error: DataError | None = None
        begin = size = 0
        while (member := self._next_member()) is not None:
            key, extension = _split_name(member.name)
            if extension is None and member.refusal is None:
                self._skip(_padded(member.size))
                continue
            if not row or key != row[KEY]:
                if row:
                    yield TarGroup(row, begin, member.at, size, error)
                row = {KEY: key, **self._extra}
                begin, size, error = member.at, 0, None
                self._unpacking.begin()
            if error is None and (problem := _problem(member, extension, row, size)) is not None:
                error = self._member_error(member, problem)
            if error is not None or extension is None:
                if not self._read_over(_padded(member.size)) and error is not None:
                    raise error
                continue
            row[extension] = self._read_content(member, size)
            size += member.size
        if row:
            yield TarGroup(row, begin, self._offset - _BLOCK, size, error)
        del row
        self._check_end()

    def _next_member(self) -> _Member | None:
        """The next member that is no folder; None at the end of the archive."""
        at = self._offset
        extended: dict[bytes, bytes] = {}  # path and size from the headers before that of the member
        while (header := self._read_header()) is not None:
            kind = header[156:157]
            size = self._size_in(header)
            if kind == _LONG_NAME:
                extended[b"path"] = self._read_extended(size).partition(b"\0")[0]
            elif kind in _PAX:
                extended |= self._parse_records(self._read_extended(size))
            elif kind in (_LONG_LINK, _PAX_GLOBAL):
                # A global header holds for all members that follow; a resume would not know it. Nothing here needs it.
                self._skip(_padded(size))
            else:
                name = extended.get(b"path", _name_in(header))
                if kind != _FOLDER and not (kind in _REGULAR and name.endswith(b"/")):
                    refusal = _unsafe(name) if kind in _REGULAR else _REFUSED.get(kind, f"is of kind {kind!r}")
                    size = int(extended.get(b"size", size))
                    return _Member(name.decode("utf-8", "backslashreplace"), size, at, refusal)
                at, extended = self._offset, {}
        if extended:
            raise self._error(at, "headers describe a member, but the archive ends")
        return None

    def _read_header(self) -> bytes | None:
        """The next header; None if a block of zeros ends the archive."""
        at = self._offset
        block = self._read(_BLOCK)
        if block == _ZEROS:
            return None
        if len(block) == _BLOCK and _checksum(block) == _octal(block[148:156]):
            return block
        if at == 0:
            raise DataError(
                f"{self._name} is no tar file: it does not begin with the header of a member; if it is compressed, "
                "`open_files(compression=...)` sets how files are decompressed"
            )
        if len(block) < _BLOCK:
            raise self._error(at, "the file is cut short: it ends without the block of zeros that ends an archive")
        raise self._error(at, "here should be the header of a member, but its checksum is wrong")

    def _size_in(self, header: bytes) -> int:
        size = _octal(header[124:136])
        if size is None:
            raise self._error(self._offset - _BLOCK, "the header has no valid size")
        return size

    def _read_extended(self, size: int) -> bytes:
        """The content of an extended header, which describes the member that follows."""
        at = self._offset
        if size > _MAX_EXTENDED_BYTES:
            raise self._error(at, f"the extended header has {size} bytes, and {_MAX_EXTENDED_BYTES} are most")
        data = self._read(size)
        if len(data) < size:
            raise self._error(at, "the file is cut short within a header")
        self._skip(_padded(size) - size)
        return data

    def _parse_records(self, data: bytes) -> dict[bytes, bytes]:
        r"""Path and size, if they are among the records of a pax header; each record is `length key=value\n`."""
        records: dict[bytes, bytes] = {}
        start = 0
        while start < len(data):
            digits = data[start : start + 8].partition(b" ")[0]
            stop = start + int(digits) if digits.isdigit() else 0
            key, equals, value = data[start + len(digits) + 1 : stop - 1].partition(b"=")
            if not equals or data[stop - 1 : stop] != b"\n":
                raise self._error(self._offset, "the records of the header before are damaged")
            if key.startswith(b"GNU.sparse."):
                raise self._error(self._offset, f"the member here {_REFUSED[b'S']}")
            if key == b"size" and not (value.isdigit() and len(value) < 20):
                raise self._error(self._offset, f"the header before has no valid size, but {value[:99]!r}")
            if key in (b"path", b"size"):
                records[key] = value
            start = stop
        return records

    def _read_content(self, member: _Member, before: int) -> bytes:
        """The bytes of a member; those of its row before it are `before`."""
        data = self._read(member.size, partial(self._check_unpacked, member, before))
        if len(data) < member.size:
            raise self._member_error(member, f"should have {member.size} bytes, and the file ends after {len(data)}")
        self._skip(_padded(member.size) - member.size)
        return data

    def _check_end(self) -> None:
        """Check that only padding follows the archive; anything else would be lost silently."""
        while data := self._read(_PIECE_BYTES):
            if data.count(0) != len(data):
                raise self._error(
                    self._offset - len(data),
                    "bytes follow the end of the archive; join archives by `tar --concatenate`",
                )

    def _seek(self, at: int) -> None:
        if self._stream.seekable():
            exists = self._stream.seek(0, io.SEEK_END) >= at
            self._offset = self._stream.seek(at)
        else:
            exists = self._read_over(at)
        if not exists:
            raise SourceError(f"{self._name} has changed since the state was taken: it ends before byte {at}")

    def _skip(self, size: int) -> None:
        at = self._offset
        if not self._read_over(size):
            raise self._error(at, "the file is cut short within a member")

    def _read_over(self, size: int) -> bool:
        """Read and drop `size` bytes; False if there are fewer."""
        while size > 0 and (data := self._read(min(size, _PIECE_BYTES))):
            size -= len(data)
        return size == 0

    def _check_unpacked(self, member: _Member, before: int, size: int) -> None:
        if problem := self._unpacking.problem(before + size):
            raise self._member_error(member, f"cannot be read: {problem}")

    def _read(self, size: int, check: Callable[[int], None] = lambda size: None) -> bytes:
        """Read `size` bytes; fewer at the end of the file. `check` is called with the number read so far."""
        try:
            if size <= _PIECE_BYTES:
                data = self._stream.read(size)
            else:
                data = b"".join(self._pieces(size, check))
        except FeedpipeError:
            raise
        except STREAM_ERRORS as error:
            raise stream_error(error, self._name, self._stream, self._offset) from error
        self._offset += len(data)
        return data

    def _pieces(self, size: int, check: Callable[[int], None]) -> Iterator[bytes]:
        left = size
        while left > 0 and (data := self._stream.read(min(left, _PIECE_BYTES))):
            left -= len(data)
            check(size - left)
            yield data

    def _member_error(self, member: _Member, problem: str) -> DataError:
        return self._error(member.at, f"member {shorten(member.name, 100)} {problem}")

    def _error(self, at: int, problem: str) -> DataError:
        return DataError(f"{self._name}, byte {at}: {problem}")


def _problem(member: _Member, extension: str | None, row: Mapping[str, object], size: int) -> str | None:
    """Why a member cannot be a part of `row`, whose other members have `size` bytes; None if it can."""
    if extension is None or member.refusal is not None:
        return member.refusal
    if extension in row:
        return f"is the second {extension!r} of its row"
    if size + member.size > MAX_ROW_BYTES:
        return f"makes a row of {size + member.size} bytes, and {MAX_ROW_BYTES} are most"
    return None


def _split_name(name: str) -> tuple[str, str | None]:
    """Key and extension, split as WebDataset does; no extension if a member belongs to no row.

    Such members have no dot in their name, begin with one, or are WebDataset's own, as `__meta__/a.txt`.
    """
    folder, slash, base = name.rpartition("/")
    stem, dot, extension = base.partition(".")
    first = name.partition("/")[0]
    if not stem or not dot or (first.startswith("__") and first.endswith("__") and len(first) >= 4):
        return name, None
    return folder + slash + stem, extension.lower()


def _unsafe(name: bytes) -> str | None:
    """Why a name is refused: a program that takes it for a path would leave its folder. None if it is safe."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return "has a name that is not UTF-8"
    if text.startswith("/") or "\0" in text or ".." in text.split("/"):
        return "has a name that leads out of the archive"
    return None


def _name_in(header: bytes) -> bytes:
    name = header[:100].partition(b"\0")[0]
    if header[257:263] != b"ustar\0":  # GNU has other fields where POSIX has the beginning of a long name
        return name
    prefix = header[345:500].partition(b"\0")[0]
    return prefix + b"/" + name if prefix else name


def _checksum(header: bytes) -> int:
    """The checksum of a header: the sum of its bytes, with blanks for the checksum itself."""
    return sum(header) - sum(header[148:156]) + 8 * 0x20


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


def _octal(field: bytes) -> int | None:
    """A number in octal digits, or if they do not suffice in binary after a byte 0x80; None if it is neither."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.partition(b"\0")[0].strip()
    try:
        return int(digits or b"0", 8) if digits.isdigit() or not digits else None
    except ValueError:
        return None
