from __future__ import annotations

import gzip

import pytest

import feedpipe as fp
from feedpipe.testing import check_operator


@pytest.fixture
def folder(tmp_path):
    for name, start in (("b.csv", 3), ("a.csv", 0)):
        (tmp_path / name).write_text("x,y\n" + "".join(f"{i},{i / 2}\n" for i in range(start, start + 3)))
    return tmp_path


def test_law(folder):
    assert check_operator(fp.read_csv(folder / "*.csv")) == [{"x": i, "y": i / 2} for i in range(6)]


def test_every_argument_arrives(tmp_path):
    (tmp_path / "deep").mkdir()
    data = b"a;b;c\n'1;2';-;3\n"
    (tmp_path / "deep" / "a.dat").write_bytes(gzip.compress(data))
    (tmp_path / "deep" / "a.txt").write_bytes(b"not this")
    pipe = fp.read_csv(
        tmp_path,
        pattern="*.dat",
        recursive=True,
        compression="gzip",
        schema={"z": "float32"},
        columns=["z", "y", "x"],
        delimiter=";",
        header=True,
        column_names=["x", "y", "z"],
        quote="'",
        null_values=["-"],
        newlines_in_values=False,
        path_column="path",
        row_column="row",
    )
    path = str(tmp_path / "deep" / "a.dat")
    assert list(pipe) == [{"z": 3.0, "y": "-", "x": "1;2", "path": path, "row": 0}]
    assert "newlines_in_values=False" in repr(pipe)
