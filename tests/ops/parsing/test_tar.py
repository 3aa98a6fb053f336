from __future__ import annotations

import gzip
import io
import tarfile

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import DataError, SourceError
from feedpipe.testing import check_operator

from ...support.examples import examples


def packed(first: int, count: int, size: int = 20) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for n in range(first, first + count):
            for extension, data in (("txt", b"%d" % n * size), ("cls", b"%d" % n)):
                member = tarfile.TarInfo(f"part/{n:05d}.{extension}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return made.getvalue()


def expected(first: int, count: int, size: int = 20) -> list[dict[str, object]]:
    return [
        {"__key__": f"part/{n:05d}", "txt": b"%d" % n * size, "cls": b"%d" % n} for n in range(first, first + count)
    ]


def parsed(*files, **options):
    return fp.from_sequence([str(file) for file in files]).open_files().parse_tar(**options)


@pytest.mark.parametrize(
    ("ending", "compress"),
    [
        ("tar", bytes),
        ("tar.gz", gzip.compress),
        ("tgz", gzip.compress),
        ("tar.zst", pa.Codec("zstd").compress),
    ],
)
def test_law(tmp_path, ending, compress):
    files, rows = [], []
    for number, count in enumerate([3, 0, 25, 1]):
        files.append(tmp_path / f"{number}.{ending}")
        files[-1].write_bytes(compress(packed(100 * number, count)))
        rows += expected(100 * number, count)
    assert check_operator(parsed(*files)) == rows


def test_rows_before_damage_come_first(tmp_path):
    data = packed(0, 20)
    (tmp_path / "a.tar").write_bytes(data[: 20 * 1024 + 100])
    (tmp_path / "b.tar").write_bytes(packed(20, 20))
    rows = []
    with pytest.raises(DataError, match=r"a\.tar, byte 20480: the file is cut short(.|\n)*test_tar\.py:\d+"):
        rows.extend(parsed(tmp_path / "a.tar", tmp_path / "b.tar"))
    assert rows == expected(0, 9)


@given(st.integers(0, 40_960))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(25))
def test_a_compressed_file_that_is_cut_short(tmp_path, size):
    data = gzip.compress(packed(0, 19, 2000))
    size %= len(data)
    (tmp_path / "a.tar.gz").write_bytes(data[:size])
    rows = []
    with pytest.raises((DataError, SourceError), match=r"a\.tar\.gz"):
        rows.extend(parsed(tmp_path / "a.tar.gz"))
    assert rows == expected(0, 19, 2000)[: len(rows)]
