from __future__ import annotations

import lance
import numpy as np
import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, SourceError
from feedpipe.testing import check_operator


def table(first, count):
    numbers = range(first, first + count)
    vectors = pa.FixedSizeListArray.from_arrays(np.repeat(np.asarray(numbers, np.float32), 3), 3)
    words = [None if n % 3 == 0 else f"süd {n}" for n in numbers]
    return pa.table({"x": pa.array(numbers, pa.int64()), "word": pa.array(words, pa.string()), "v": vectors})


@pytest.fixture
def uri(tmp_path):
    path = str(tmp_path / "a.lance")
    lance.write_dataset(table(0, 70), path, max_rows_per_file=30)
    lance.write_dataset(table(70, 50), path, mode="append")
    return path


def test_law(uri):
    pipe = fp.read_lance(uri)
    assert check_operator(pipe) == table(0, 120).to_pylist()
    assert len(pipe) == 120 and pipe.indexed and pipe.schema == table(0, 1).schema
    assert pipe[-1] == table(119, 1).to_pylist()[0]
    assert check_operator(fp.read_lance(uri, columns=["word", "x"], version=1)) == (
        table(0, 70).select(["word", "x"]).to_pylist()
    )


def test_rows_that_were_deleted_have_no_position(uri):
    lance.dataset(uri).delete("x < 100")
    assert [row["x"] for row in check_operator(fp.read_lance(uri))] == list(range(100, 120))


def test_in_workers(uri):
    pipe = fp.read_lance(uri, columns=["x", "v"]).shuffle().batch(8).collate()
    here = [{name: value.tolist() for name, value in batch.items()} for batch in fp.Loader(pipe, seed=3)]
    assert sorted(x for batch in here for x in batch["x"]) == list(range(120))
    with fp.Loader(pipe, workers=2, seed=3) as loader:
        batches = iter(loader)
        head = [next(batches) for _ in range(5)]
        state = loader.state_dict()
        got = [{name: value.tolist() for name, value in batch.items()} for batch in [*head, *batches]]
        assert got == here
        loader.load_state_dict(state)
        assert [{name: value.tolist() for name, value in batch.items()} for batch in loader] == here[5:]


def test_the_version_is_fixed_at_the_first_look(uri):
    pipe = fp.read_lance(uri)
    loader = fp.Loader(pipe)
    state = loader.state_dict()
    lance.write_dataset(table(120, 5), uri, mode="append")
    assert len(pipe) == 120 == len(list(pipe))
    with pytest.raises(fp.FeedpipeError, match="read_lance"):
        fp.Loader(fp.read_lance(uri)).load_state_dict(state)
    fp.Loader(fp.read_lance(uri, version=2)).load_state_dict(state)


def test_bad_input(uri, tmp_path, monkeypatch):
    with pytest.raises(
        SourceError, match=r"a\.lance, version 9, cannot be opened as a Lance dataset(.|\n)*test_read_lance"
    ):
        len(fp.read_lance(uri, version=9))
    with pytest.raises(SourceError, match=r"none cannot be opened as a Lance dataset: .*was not found"):
        len(fp.read_lance(tmp_path / "none"))
    with pytest.raises(
        DataError, match=r"a\.lance has no column 'words', which `columns` names; did you mean 'word'\?"
    ):
        len(fp.read_lance(uri, columns=["words"]))
    with pytest.raises(ArgumentTypeError, match="`uri` must be a path or URL but got: 3"):
        fp.read_lance(3)
    with pytest.raises(ArgumentError, match="`version` must be >= 0 but got: -1"):
        fp.read_lance(uri, version=-1)
    monkeypatch.setattr("feedpipe.core.checks.find_spec", lambda name: None)
    with pytest.raises(
        ArgumentError, match=r"package pylance, which is not installed; `pip install 'feedpipe\[lance\]'"
    ):
        fp.read_lance(uri)
