from __future__ import annotations

import gzip

import pytest

import feedpipe as fp
from feedpipe.errors import DataError, SourceError
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


def test_shown_as_the_chain_that_it_is(folder):
    assert repr(fp.read_csv("data/*.csv", columns=["x"])) == (
        "fp.list_files('data/*.csv').open_files().parse_csv(columns=['x'])"
    )


def test_a_state_of_other_files_is_refused(folder):
    loader = fp.Loader(fp.read_csv(folder).batch(2))
    next(iter(loader))
    state = loader.state_dict()
    (folder / "c.csv").write_text("x,y\n9,9\n")
    with pytest.raises(fp.FeedpipeError, match="list_files"):
        fp.Loader(fp.read_csv(folder).batch(2)).load_state_dict(state)


@pytest.mark.parametrize(
    ("name", "content", "kind", "message"),
    [
        ("none", None, SourceError, "none is not there"),
        ("a.csv", "", DataError, "a.csv is empty: it has no line with the names of its columns"),
        ("a.csv", "x,y\n1\n", DataError, "a.csv, line 2: 1 value for 2 columns"),
    ],
)
def test_bad_input(tmp_path, name, content, kind, message):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(kind, match=message) as error:
        list(fp.read_csv(tmp_path / name))
    assert "test_read_csv.py" in str(error.value)
