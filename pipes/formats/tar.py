"""Tar files as WebDataset has them: neighbouring members that differ in their extension only make one row.

Members are read one after the other, each whole; nothing is ever extracted. The standard library's `tarfile` takes as
much memory as a header asks for, recurses as deep as headers are stacked, and needs three times as long for a header.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import BinaryIO, NamedTuple

from ..errors import DataError, SourceError
from .text.chunks import brief
from .text.streams import FAILURES, broken

KEY = "__key__"

_BLOCK = 512
_ZEROS = bytes(_BLOCK)
_WORDS = 2**20  # bytes of what is said of a member before it, such as a long name
_LARGEST = 2**31  # bytes of a row
_PIECE = 2**20  # bytes asked for at a time: a header may claim any number

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


class Group(NamedTuple):
    """The members of one key, as a row.

    Attributes:
        row: the key, and the bytes of each member by its extension.
        at: where the headers of the first member begin.
        end: where those of the next group begin.
        size: how many bytes the members have.
    """

    row: dict[str, object]
    at: int
    end: int
    size: int


class _Member(NamedTuple):
    """A file in the archive, and why it cannot be a part of a row, if it cannot."""

    name: str
    size: int
    at: int
    why: str | None


class TarReader:
    """Reads the groups of a tar file.

    Args:
        stream: of bytes, not compressed; a place in it is found by seeking, or where it cannot seek by reading over.
        name: the file's, for errors.
        beside: what each row has beside its members.
    """

    def __init__(self, stream: BinaryIO, name: str, beside: Mapping[str, object]) -> None:
        self._stream = stream
        self._name = name
        self._beside = beside
        self._offset = 0

    def groups(self, at: int) -> Iterator[Group]:
        """The groups from byte `at` on, where one begins. Where the file fails, the groups before come first."""
        self._go(at)
        row: dict[str, object] = {}
        begin = size = 0
        while (member := self._next()) is not None:
            key, extension = _split(member.name)
            if extension is None and member.why is None:
                self._skip(_padded(member.size))
                continue
            if not row or key != row[KEY]:
                if row:
                    yield Group(row, begin, member.at, size)
                row = {KEY: key, **self._beside}
                begin, size = member.at, 0
            if extension is None or member.why is not None:
                raise self._unfit(member, str(member.why))
            if extension in row:
                raise self._unfit(member, f"is the second {extension!r} of its row")
            size += member.size
            if size > _LARGEST:
                raise self._unfit(member, f"makes a row of {size} bytes, and {_LARGEST} are most")
            row[extension] = self._content(member)
        if row:
            yield Group(row, begin, self._offset - _BLOCK, size)
        del row
        self._check_end()

    def _next(self) -> _Member | None:
        """The next member that is no folder; None at the end of the archive."""
        at = self._offset
        said: dict[bytes, bytes] = {}  # by headers before that of the member
        while (header := self._header()) is not None:
            kind = header[156:157]
            size = self._number(header)
            if kind == _LONG_NAME:
                said[b"path"] = self._words(size).partition(b"\0")[0]
            elif kind in _PAX:
                said |= self._records(self._words(size))
            elif kind in (_LONG_LINK, _PAX_GLOBAL):
                # What holds for all members that follow could not be known after a resume; nothing here needs it.
                self._skip(_padded(size))
            else:
                name = said.get(b"path", _name(header))
                if kind != _FOLDER and not (kind in _REGULAR and name.endswith(b"/")):
                    why = _hostile(name) if kind in _REGULAR else _REFUSED.get(kind, f"is of kind {kind!r}")
                    size = int(said.get(b"size", size))
                    return _Member(name.decode("utf-8", "backslashreplace"), size, at, why)
                at, said = self._offset, {}
        if said:
            raise self._refused(at, "headers speak of a member, and the archive ends")
        return None

    def _header(self) -> bytes | None:
        """The next header; None where a block of zeros ends the archive."""
        at = self._offset
        block = self._read(_BLOCK)
        if block == _ZEROS:
            return None
        if len(block) == _BLOCK and _sum(block) == _octal(block[148:156]):
            return block
        if at == 0:
            raise DataError(
                f"{self._name} is no tar file: no header of a member stands at its beginning; where it is compressed, "
                "`open_files(compression=...)` names the way"
            )
        if len(block) < _BLOCK:
            raise self._refused(at, "the file is cut short: it ends without the block of zeros that ends an archive")
        raise self._refused(at, "here should be the header of a member, and its checksum is wrong")

    def _number(self, header: bytes) -> int:
        size = _octal(header[124:136])
        if size is None:
            raise self._refused(self._offset - _BLOCK, "the header says no size")
        return size

    def _words(self, size: int) -> bytes:
        """What a header says of the member that follows."""
        at = self._offset
        if size > _WORDS:
            raise self._refused(at, f"{size} bytes are said of one member, and {_WORDS} are most")
        words = self._read(size)
        if len(words) < size:
            raise self._refused(at, "the file is cut short within a header")
        self._skip(_padded(size) - size)
        return words

    def _records(self, words: bytes) -> dict[bytes, bytes]:
        r"""Path and size, where they are among the records of a pax header, each of them `length key=value\n`."""
        found: dict[bytes, bytes] = {}
        start = 0
        while start < len(words):
            digits = words[start : start + 8].partition(b" ")[0]
            stop = start + int(digits) if digits.isdigit() else 0
            key, equals, value = words[start + len(digits) + 1 : stop - 1].partition(b"=")
            if not equals or words[stop - 1 : stop] != b"\n":
                raise self._refused(self._offset, "the records of the header before are damaged")
            if key.startswith(b"GNU.sparse."):
                raise self._refused(self._offset, f"the member here {_REFUSED[b'S']}")
            if key == b"size" and not (value.isdigit() and len(value) < 20):
                raise self._refused(self._offset, f"the header before says no size, but {value[:99]!r}")
            if key in (b"path", b"size"):
                found[key] = value
            start = stop
        return found

    def _content(self, member: _Member) -> bytes:
        data = self._read(member.size)
        if len(data) < member.size:
            raise self._unfit(member, f"should have {member.size} bytes, and the file ends after {len(data)}")
        self._skip(_padded(member.size) - member.size)
        return data

    def _check_end(self) -> None:
        """What follows the archive is padding; anything else would be lost in silence."""
        while data := self._read(_PIECE):
            if data.count(0) != len(data):
                raise self._refused(
                    self._offset - len(data),
                    "bytes follow the end of the archive; join archives by `tar --concatenate`",
                )

    def _go(self, at: int) -> None:
        if self._stream.seekable():
            there = self._stream.seek(0, io.SEEK_END) >= at
            self._offset = self._stream.seek(at)
        else:
            there = self._over(at)
        if not there:
            raise SourceError(f"{self._name} has changed since the state was taken: it ends before byte {at}")

    def _skip(self, size: int) -> None:
        at = self._offset
        if not self._over(size):
            raise self._refused(at, "the file is cut short within a member")

    def _over(self, size: int) -> bool:
        """Reads over so many bytes; False where there are fewer."""
        while size > 0 and (data := self._read(min(size, _PIECE))):
            size -= len(data)
        return size == 0

    def _read(self, size: int) -> bytes:
        """`size` bytes; fewer at the end of the file."""
        try:
            if size <= _PIECE:
                data = self._stream.read(size)
            else:
                data = b"".join(self._pieces(size))
        except FAILURES as error:
            raise broken(self._stream, self._name, error, self._offset) from error
        self._offset += len(data)
        return data

    def _pieces(self, size: int) -> Iterator[bytes]:
        while size > 0 and (data := self._stream.read(min(size, _PIECE))):
            size -= len(data)
            yield data

    def _unfit(self, member: _Member, why: str) -> DataError:
        return self._refused(member.at, f"member {brief(member.name, 100)} {why}")

    def _refused(self, at: int, why: str) -> DataError:
        return DataError(f"{self._name}, byte {at}: {why}")


def _split(name: str) -> tuple[str, str | None]:
    """Key and extension, as WebDataset splits them; no extension where a member belongs to no row.

    That are those without a dot in their name, those that begin with one, and WebDataset's own, as in `__meta__/a.txt`.
    """
    folder, slash, base = name.rpartition("/")
    stem, dot, extension = base.partition(".")
    first = name.partition("/")[0]
    if not stem or not dot or (first.startswith("__") and first.endswith("__") and len(first) >= 4):
        return name, None
    return folder + slash + stem, extension.lower()


def _hostile(name: bytes) -> str | None:
    """Why a name is none for a row: a program might take it for a path, and that leads elsewhere."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return "has a name that is not UTF-8"
    if text.startswith("/") or "\0" in text or ".." in text.split("/"):
        return "has a name that leads out of the archive"
    return None


def _name(header: bytes) -> bytes:
    name = header[:100].partition(b"\0")[0]
    if header[257:263] != b"ustar\0":  # GNU has other things where POSIX has the beginning of a long name
        return name
    prefix = header[345:500].partition(b"\0")[0]
    return prefix + b"/" + name if prefix else name


def _sum(header: bytes) -> int:
    """The checksum of a header: the sum of its bytes, in which those of the checksum count as blanks."""
    return sum(header) - sum(header[148:156]) + 8 * 0x20


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


def _octal(field: bytes) -> int | None:
    """A number in octal digits; one that needs more of them stands in binary behind a byte 0x80. None if it is none."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.partition(b"\0")[0].strip()
    try:
        return int(digits or b"0", 8) if digits.isdigit() or not digits else None
    except ValueError:
        return None
