from __future__ import annotations

import io
import re
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedpipe.errors import DataError, SourceError

from ..support.files import TarGroup, TarReader


def pack(members: list[tuple[str, bytes]], kind: int = tarfile.GNU_FORMAT) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=kind) as tar:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return archive.getvalue()


def special(name: str, kind: bytes, **values: object) -> bytes:
    """A tar file with one ordinary row, then one member of a kind."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        first = tarfile.TarInfo("first.txt")
        first.size = 5
        tar.addfile(first, io.BytesIO(b"hello"))
        member = tarfile.TarInfo(name)
        member.type = kind
        for field, value in values.items():
            setattr(member, field, value)
        tar.addfile(member)
    return archive.getvalue()


def read(data: bytes, at: int = 0) -> tuple[list[TarGroup], Exception | None]:
    groups: list[TarGroup] = []
    try:
        for group in TarReader(io.BytesIO(data), "a.tar", {}).groups(at):
            if group.error is not None:
                return groups, group.error
            groups.append(group)
    except (DataError, SourceError) as error:
        return groups, error
    return groups, None


def rows(data: bytes) -> list[dict[str, object]]:
    groups, error = read(data)
    assert error is None
    return [group.row for group in groups]


def test_groups_are_those_of_webdataset() -> None:
    members = [
        ("a/1.jpg", b"one"),
        ("a/1.Seg.PNG", b"two"),
        ("README", b"has no extension"),
        ("a/1.cls", b"3"),
        ("b/1.cls", b"another folder"),
        ("__meta__/x.json", b"WebDataset's own"),
        (".hidden.txt", b""),
        ("b/._1.cls", b"of a Mac"),
        ("b/1.cls.json", b"the same row"),
        ("./c.d/2.txt", b""),
        ("a/1.jpg", b"again, but not adjacent"),
    ]
    assert rows(pack(members)) == [
        {"__key__": "a/1", "jpg": b"one", "seg.png": b"two", "cls": b"3"},
        {"__key__": "b/1", "cls": b"another folder", "cls.json": b"the same row"},
        {"__key__": "./c.d/2", "txt": b""},
        {"__key__": "a/1", "jpg": b"again, but not adjacent"},
    ]


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("name", ["é/ö.txt", "a" * 90 + "/" + "b" * 90 + ".txt", "x.txt"])
def test_names_of_every_format(kind: int, name: str) -> None:
    assert rows(pack([(name, b"data")], kind)) == [{"__key__": name[:-4], "txt": b"data"}]


def test_folders_and_global_headers_make_no_rows() -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "x" * 700}) as tar:
        folder = tarfile.TarInfo("a.folder")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        member = tarfile.TarInfo("a.folder/1.txt")
        member.size = 1
        member.pax_headers = {"size": "1"}
        tar.addfile(member, io.BytesIO(b"1"))
    assert rows(archive.getvalue()) == [{"__key__": "a.folder/1", "txt": b"1"}]


NAMES = st.sampled_from(["a", "b/c", "é", "long" * 40]).flatmap(
    lambda key: st.sampled_from(["", ".txt", ".seg.png"]).map(lambda extension: key + extension)
)


@given(st.lists(st.tuples(NAMES, st.binary(max_size=1100)), max_size=8), st.sampled_from([0, 1, 2]))
def test_reading_can_begin_with_every_group(members: list[tuple[str, bytes]], kind: int) -> None:
    whole, error = read(pack(members, tarfile.GNU_FORMAT if kind == 0 else tarfile.PAX_FORMAT))
    data = pack(members, tarfile.GNU_FORMAT if kind == 0 else tarfile.PAX_FORMAT)
    for number, group in enumerate(whole):
        rest, again = read(data, group.at)
        assert rest == whole[number:]
        assert str(again) == str(error)
        if number:
            assert whole[number - 1].end == group.at
    assert sum(group.size for group in whole) == sum(
        len(value) for group in whole for value in group.row.values() if isinstance(value, bytes)
    )


GOOD = pack([("a.txt", b"x" * 600), ("a.cls", b"1"), ("b.txt", b"y"), ("c.txt", b"z" * 2000)])


@given(st.integers(0, len(GOOD)))
def test_a_file_cut_short(size: int) -> None:
    groups, error = read(GOOD[:size])
    whole, _ = read(GOOD)
    assert groups == whole[: len(groups)]
    assert error is not None or groups == whole
    ended = whole[-1].end + 512  # a block of zeros ends an archive
    assert (error is None) == (size >= ended)
    if error is not None:
        assert isinstance(error, DataError) and "a.tar" in str(error)


@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=6))
def test_damaged_bytes_give_rows_or_an_error(changes: list[tuple[int, int]]) -> None:
    data = bytearray(GOOD)
    for place, value in changes:
        data[place] = value
    _, error = read(bytes(data))
    assert error is None or "a.tar" in str(error)


def claim(size: int) -> bytes:
    """A tar file with one row, and a header that claims a member of `size` bytes."""
    member = tarfile.TarInfo("huge.bin")
    member.size = size
    return pack([("a.txt", b"1")])[:1024] + member.tobuf(tarfile.GNU_FORMAT) + b"only this"


def extended(kind: bytes, data: bytes, size: int | None = None) -> bytes:
    """A tar file with one row, and an extended header for the next member."""
    member = tarfile.TarInfo("extended")
    member.type = kind
    member.size = len(data) if size is None else size
    return pack([("a.txt", b"1")])[:1024] + member.tobuf(tarfile.GNU_FORMAT) + data + bytes(-len(data) % 512)


DAMAGED: dict[str, tuple[bytes, int, str]] = {
    "empty": (b"", 0, "a.tar is no tar file"),
    "another format": (b"PK\3\4" * 400, 0, "a.tar is no tar file: .*`open_files.compression=....` sets how files are"),
    "garbage between members": (GOOD[:2560] + b"garbage!" * 64 + GOOD[2560:], 0, "byte 2560: .*checksum is wrong"),
    "no end": (GOOD[:2560], 0, "byte 2560: the file is cut short: it ends without the block of zeros"),
    "a member cut short": (GOOD[:1000], 0, "byte 0: member 'a.txt' should have 600 bytes, .* after 488"),
    "two archives": (GOOD + GOOD, 3, "bytes follow the end of the archive"),
    "a claim of 1 GiB": (claim(2**30), 1, "byte 1024: member 'huge.bin' should have 1073741824 bytes, .* after 9"),
    "a claim of 1 TiB": (claim(2**40), 1, "byte 1024: member 'huge.bin' makes a row of 1099511627776 bytes"),
    "one name twice": (pack([("a.txt", b""), ("b.txt", b""), ("b.TXT", b"")]), 1, "'b.TXT' is the second 'txt'"),
    "the name of the key": (pack([("a.txt", b""), ("b.__key__", b"")]), 1, "is the second '__key__'"),
    "an absolute name": (special("/etc/passwd.txt", b"0"), 1, "byte 1024: member '/etc/passwd.txt' has a name"),
    "a name that climbs": (special("a/../../x.txt", b"0"), 1, "leads out of the archive"),
    "a symbolic link": (special("x.txt", b"2", linkname="/etc/passwd"), 1, "'x.txt' is a symbolic link"),
    "a hard link": (special("x.txt", b"1", linkname="first.txt"), 1, "'x.txt' is a hard link"),
    "a device": (special("x.txt", b"3"), 1, "'x.txt' is a device"),
    "a pipe": (special("x.txt", b"6"), 1, "'x.txt' is a pipe"),
    "of many volumes": (special("x.txt", b"M"), 1, "'x.txt' is of kind b'M'"),
    "an old file with holes": (special("x.txt", b"S"), 1, "'x.txt' is a file with holes"),
    "a long name without end": (
        extended(b"L", b"x" * 600, 2**40),
        0,
        "the extended header has 1099511627776 bytes, and",
    ),
    "a long name cut short": (extended(b"L", b"x" * 600, 5000), 0, "cut short within a header"),
    "a long name for nothing": (
        extended(b"L", b"x" * 600) + bytes(1024),
        0,
        "headers describe a member, but",
    ),
    "records that are none": (extended(b"x", b"12 path"), 0, "records of the header before are damaged"),
    "a record of no length": (extended(b"x", b"0 path=x\n"), 0, "records of the header before are damaged"),
    "a size that is none": (extended(b"x", b"13 size=-100\n"), 0, "has no valid size, but b'-100'"),
    "a NUL in a name": (extended(b"x", b"14 path=a\0.txt\n") + GOOD, 0, "records of the header before are damaged"),
    "a new file with holes": (extended(b"x", b"22 GNU.sparse.major=1\n"), 0, "a file with holes"),
}


@pytest.mark.parametrize(("data", "count", "message"), DAMAGED.values(), ids=DAMAGED.keys())
def test_hostile_files(data: bytes, count: int, message: str) -> None:
    groups, error = read(data)
    assert len(groups) == count
    assert isinstance(error, DataError)
    assert re.search(message, str(error)), str(error)


def test_a_name_that_is_not_utf8() -> None:
    member = tarfile.TarInfo("a")
    head = bytearray(member.tobuf())
    head[:5] = b"\xff.txt"
    head[148:156] = b"%06o\0 " % (sum(head) - sum(head[148:156]) + 256)
    _, error = read(bytes(head) + bytes(1024))
    assert r"byte 0: member '\\xff.txt' has a name that is not UTF-8" in str(error)


def test_headers_upon_headers_take_no_memory_and_no_stack() -> None:
    header = extended(b"x", b"10 path=a\n"[:10])[1024:]
    groups, error = read(header * 5000 + pack([("b.txt", b"1")]))
    assert error is None
    assert groups == []  # the last header counts: `a` has no extension
