from __future__ import annotations

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import feedpipe as fp
from feedpipe.errors import DataError, SourceError
from feedpipe.testing import check_operator


@pytest.fixture
def folder(tmp_path):
    for name, start in (("b.parquet", 30), ("a.parquet", 0)):
        numbers = range(start, start + 30)
        pq.write_table(pa.table({"x": numbers, "y": [i / 2 for i in numbers]}), tmp_path / name, row_group_size=4)
    return tmp_path


def rows(count):
    return [{"x": i, "y": i / 2} for i in range(count)]


def test_law(folder):
    pipe = fp.read_parquet(folder / "*.parquet")
    assert check_operator(pipe) == rows(60)
    assert len(pipe) == 60


def test_every_argument_arrives(tmp_path):
    deep = tmp_path / "part=3"
    deep.mkdir()
    pq.write_table(pa.table({"x": [1, 2, 3], "y": [4, 5, 6]}), deep / "a.dat")
    (deep / "a.txt").write_bytes(b"not this")
    pipe = fp.read_parquet(
        tmp_path,
        pattern="*.dat",
        recursive=True,
        columns=["part", "y"],
        filter=pc.field("x") > 1,
        path_column="path",
        row_column="row",
    )
    path = str(deep / "a.dat")
    assert check_operator(pipe) == [{"part": 3, "y": y, "path": path, "row": y - 4} for y in (5, 6)]


def test_on_another_file_system(folder):
    memory = fsspec.filesystem("memory")
    memory.pipe("/read_parquet/a.parquet", (folder / "a.parquet").read_bytes())
    assert check_operator(fp.read_parquet("/read_parquet", filesystem=memory)) == rows(30)
    pipe = fp.read_parquet("memory://read_parquet/*.parquet", path_column="path")
    assert pipe.head(1) == [{**rows(1)[0], "path": "memory://read_parquet/a.parquet"}]
    memory.rm("/read_parquet", recursive=True)


def test_shown_as_the_chain_that_it_is():
    assert repr(fp.read_parquet("data/*.parquet", columns=["x"])) == (
        "fp.list_files('data/*.parquet').open_files().parse_parquet(columns=['x'])"
    )


def test_the_plan_shows_row_groups(folder, capsys):
    fp.read_parquet(folder).shuffle(window=100).batch(8).collate().explain()
    message = capsys.readouterr().out
    assert "row_groups()" in message and "16 indexed" in message and "60 streamed" in message
    assert "Python rows" not in message


@pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")  # few row groups, so some are read by both
def test_in_workers(folder):
    pipe = fp.read_parquet(folder, filter=pc.field("x") != 7, row_column="row").shuffle(window=16).batch(4).collate()
    here = [{name: value.tolist() for name, value in batch.items()} for batch in fp.Loader(pipe, seed=3)]
    with fp.Loader(pipe, workers=2, seed=3) as loader:
        batches = iter(loader)
        head = [next(batches) for _ in range(3)]
        state = loader.state_dict()
        got = [{name: value.tolist() for name, value in batch.items()} for batch in [*head, *batches]]
        assert got == here
        loader.load_state_dict(state)
        assert [{name: value.tolist() for name, value in batch.items()} for batch in loader] == here[3:]


def test_a_state_of_other_files_is_refused(folder):
    loader = fp.Loader(fp.read_parquet(folder).batch(2))
    next(iter(loader))
    state = loader.state_dict()
    # As many rows, and as many bytes, in other row groups.
    pq.write_table(pa.table({"x": range(30), "y": [i / 2 for i in range(30)]}), folder / "a.parquet", row_group_size=5)
    with pytest.raises(fp.FeedpipeError, match="row_groups"):
        fp.Loader(fp.read_parquet(folder).batch(2)).load_state_dict(state)


@pytest.mark.parametrize(
    ("name", "content", "kind", "message"),
    [
        ("none", None, SourceError, "none is not there"),
        ("a.parquet", b"", DataError, "a.parquet is empty"),
        ("a.parquet", b"x,y\n1,2\n" * 9, DataError, "a.parquet is no Parquet file"),
    ],
)
def test_bad_input(tmp_path, name, content, kind, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(kind, match=message) as error:
        list(fp.read_parquet(tmp_path / name))
    assert "test_read_parquet.py" in str(error.value)
