from __future__ import annotations

import fsspec
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


def test_on_another_file_system(folder):
    memory = fsspec.filesystem("memory")
    memory.pipe("/read_orc/a.orc", (folder / "a.orc").read_bytes())
    assert check_operator(fp.read_orc("/read_orc", filesystem=memory)) == rows(30)
    pipe = fp.read_orc("memory://read_orc/*.orc", path_column="path")
    assert pipe.head(1) == [{**rows(1)[0], "path": "memory://read_orc/a.orc"}]
    memory.rm("/read_orc", recursive=True)


def test_shown_as_the_chain_that_it_is():
    assert repr(fp.read_orc("data/*.orc", columns=["x"])) == (
        "fp.list_files('data/*.orc').open_files().parse_orc(columns=['x'])"
    )


def test_the_plan_shows_stripes(folder, capsys):
    fp.read_orc(folder).shuffle(window=100).batch(8).collate().explain()
    message = capsys.readouterr().out
    assert "stripes()" in message and "16 indexed" in message and "60 streamed" in message
    assert "Python rows" not in message


@pytest.mark.parametrize("shards", [1, 3])
def test_through_a_loader_and_back(folder, shards):
    pipe = fp.read_orc(folder).shuffle(window=16).batch(4)
    loader = fp.Loader(pipe, seed=3, shards=shards)
    steps = [([*batch], info.state_dict()) for batch, info in loader.with_info()]
    assert sorted(row["x"] for batch, _ in steps for row in batch) == list(range(60))
    for place in range(0, len(steps) - 1, 2):
        again = fp.Loader(pipe, seed=3, shards=shards)
        again.load_state_dict(steps[place][1])
        assert [[*batch] for batch in again] == [batch for batch, _ in steps[place + 1 :]]


@pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")  # few stripes, so some are read by both
def test_in_workers(folder):
    pipe = fp.read_orc(folder, row_column="row").shuffle(window=16).batch(4).collate()
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
