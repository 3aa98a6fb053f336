from __future__ import annotations

import pyarrow as pa
import pyarrow.orc as po
import pytest

import feedpipe as fp
from feedpipe.errors import DataError, SourceError
from feedpipe.testing import check_operator


@pytest.fixture
def folder(tmp_path):
    for name, start in (("b.orc", 30), ("a.orc", 0)):
        numbers = range(start, start + 30)
        po.write_table(
            pa.table({"x": numbers, "y": [i / 2 for i in numbers]}), tmp_path / name, stripe_size=1, batch_size=4
        )
    return tmp_path


def rows(count):
    return [{"x": i, "y": i / 2} for i in range(count)]


def test_law(folder):
    pipe = fp.read_orc(folder / "*.orc")
    assert check_operator(pipe) == rows(60)
    assert len(pipe) == 60


def test_every_argument_arrives(tmp_path):
    deep = tmp_path / "part=3"
    deep.mkdir()
    po.write_table(pa.table({"x": [1, 2, 3], "y": [4, 5, 6]}), deep / "a.dat")
    (deep / "a.txt").write_bytes(b"not this")
    pipe = fp.read_orc(
        tmp_path,
        pattern="*.dat",
        recursive=True,
        columns=["part", "y"],
        path_column="path",
        row_column="row",
    )
    path = str(deep / "a.dat")
    assert check_operator(pipe) == [{"part": 3, "y": y, "path": path, "row": y - 4} for y in (4, 5, 6)]


def test_shown_as_the_chain_that_it_is():
    assert repr(fp.read_orc("data/*.orc", columns=["x"])) == (
        "fp.list_files('data/*.orc').open_files().parse_orc(columns=['x'])"
    )


def test_the_plan_shows_stripes(folder, capsys):
    fp.read_orc(folder).shuffle(window=100).batch(8).collate().explain()
    message = capsys.readouterr().out
    assert "stripes()" in message and "16 indexed" in message and "60 streamed" in message
    assert "Python rows" not in message


def test_a_state_of_other_files_is_refused(folder):
    loader = fp.Loader(fp.read_orc(folder).batch(2))
    next(iter(loader))
    state = loader.state_dict()
    # As many rows, and as many bytes, in other stripes.
    po.write_table(
        pa.table({"x": range(30), "y": [i / 2 for i in range(30)]}), folder / "a.orc", stripe_size=1, batch_size=5
    )
    with pytest.raises(fp.FeedpipeError, match="stripes"):
        fp.Loader(fp.read_orc(folder).batch(2)).load_state_dict(state)


@pytest.mark.parametrize(
    ("name", "content", "kind", "message"),
    [
        ("none", None, SourceError, "none is not there"),
        ("a.orc", b"", DataError, "a.orc is empty"),
        ("a.orc", b"x,y\n1,2\n" * 9, DataError, "a.orc is (no ORC file|damaged)"),
    ],
)
def test_bad_input(tmp_path, name, content, kind, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(kind, match=message) as error:
        list(fp.read_orc(tmp_path / name))
    assert "test_read_orc.py" in str(error.value)
