from __future__ import annotations

import fastavro
import fsspec
import pytest

import feedpipe as fp
from feedpipe.errors import SourceError
from feedpipe.testing import check_operator

from ..support.files import ranges as _byte_ranges

SCHEMA = {"type": "record", "name": "row", "fields": [{"name": "x", "type": "int"}]}


def rows(first, count):
    return [{"x": number} for number in range(first, first + count)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(_byte_ranges, "MAX_RANGE_BYTES", 300)
    for name, first in (("b.avro", 90), ("a.avro", 0)):
        with open(tmp_path / name, "wb") as file:
            fastavro.writer(file, SCHEMA, rows(first, 90), sync_interval=20)
    return tmp_path


def test_law(folder):
    assert check_operator(fp.read_avro(folder / "*.avro"), samples=6) == rows(0, 180)


def test_every_argument_arrives(folder):
    (folder / "a.txt").write_bytes(b"not this")
    pipe = fp.read_avro(folder, pattern="a.av*", recursive=True, path_column="path")
    assert list(pipe) == [{**row, "path": str(folder / "a.avro")} for row in rows(0, 90)]
    memory = fsspec.filesystem("memory")
    memory.pipe("/read_avro/a.avro", (folder / "a.avro").read_bytes())
    assert list(fp.read_avro("/read_avro", filesystem=memory)) == rows(0, 90)
    memory.rm("/read_avro", recursive=True)
    assert repr(fp.read_avro("a.avro", path_column="p")) == (
        "fp.list_files('a.avro').open_files().parse_avro(path_column='p')"
    )


def test_bad_input(tmp_path):
    with pytest.raises(SourceError, match=r"none is not there(.|\n)*test_read_avro\.py"):
        list(fp.read_avro(tmp_path / "none"))
