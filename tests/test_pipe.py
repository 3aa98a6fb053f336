"""`Pipe`: elements by position, and iteration."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, LimitError, PlanWarning

from .support.operators import MEANT


@pytest.mark.parametrize("kind", [int, np.int64, np.uint8, np.array, torch.tensor])
def test_an_index_is_anything_that_is_an_integer(kind):
    pipe = fp.from_sequence("abcd")
    assert pipe[kind(3)] == "d" and list(pipe[kind(1) : kind(3)]) == ["b", "c"]
    assert pipe[np.int64(-1)] == "d"


@pytest.mark.parametrize("index", [[1, 2], 1.0, "x", None, np.arange(2), torch.arange(2), (0, 1)])
def test_what_is_no_index(index):
    message = (
        r"`pipe\[...\]` takes an int or a slice but got: (.|\n)*`\[pipe\[i\] for i in indices\]`\n  at .*test_pipe.py"
    )
    with pytest.raises(ArgumentTypeError, match=message):
        fp.from_sequence("abcd")[index]


class Iterated(torch.utils.data.IterableDataset):
    """Gives the number of rows and the warnings of one worker."""

    def __init__(self, pipe: fp.Pipe[int], *, divided: bool) -> None:
        self.pipe = pipe
        self.divided = divided

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        info = torch.utils.data.get_worker_info()
        pipe = self.pipe.slice(info.id, None, info.num_workers) if info and self.divided else self.pipe
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            count = len(list(pipe))
        yield count, [str(warning.message) for warning in caught if warning.category is PlanWarning]


@pytest.mark.parametrize(
    ("workers", "divided", "expected"), [(2, False, [12, 12]), (2, True, [6, 6]), (1, False, [12]), (0, False, [12])]
)
def test_a_worker_of_torch_s_data_loader_warns_that_rows_come_several_times(workers, divided, expected):
    data = Iterated(fp.from_sequence(range(12)), divided=divided)
    results = list(torch.utils.data.DataLoader(data, batch_size=None, num_workers=workers))
    assert [count for count, _ in results] == expected
    for _, messages in results:
        if workers == 2 and not divided:
            (message,) = messages
            assert "each row comes 2 times; use `feedpipe.Loader(pipe, workers=2)`" in message
        else:
            assert messages == []


class TestCount:
    def test_a_run_counts_what_the_length_does_not_tell(self):
        pipe = fp.from_sequence(range(5000)).filter(lambda x: x % 3)
        assert pipe.count() == len(list(pipe)) == 3333
        assert pipe.batch(7).count() == 477
        assert pipe.take(0).count() == 0 == fp.from_iterable([]).count()

    def test_nothing_runs_if_the_length_is_known(self):
        assert fp.from_sequence(range(10)).map(lambda x: 1 / 0).batch(4).count() == 3


class TestToTable:
    def test_columns_stay_as_they_are(self, monkeypatch):
        monkeypatch.setattr(fp.Rows, "__iter__", lambda self: 1 / 0)
        table = pa.table({"n": [1, None, 3], "d": pa.array(["u", "v", "u"]).dictionary_encode(), "l": [[1], [], None]})
        assert fp.from_table(table).to_table() == table
        assert fp.from_table(table).filter(pc.field("n") > 1).to_table() == table[2:]
        arrays = {"x": np.arange(5000), "y": np.zeros((5000, 2), "float32")}
        read = fp.from_arrays(arrays).shuffle().to_table()
        assert sorted(read["x"].to_pylist()) == list(range(5000))
        assert read.schema == fp.from_arrays(arrays).schema

    def test_types_come_from_all_dicts(self):
        rows = [{"x": None}] * 3000 + [{"x": 1}, {"x": 1.5, "y": "a"}]
        for pipe in (fp.from_sequence(rows), fp.from_iterable(rows)):
            assert pipe.to_table().schema == pa.schema([("x", pa.float64()), ("y", pa.string())])
            assert pipe.to_table().to_pylist()[-2:] == [{"x": 1.0, "y": None}, {"x": 1.5, "y": "a"}]

    def test_errors(self):
        numbers = fp.from_arrays({"x": np.arange(100_000)})
        with pytest.raises(
            LimitError, match="`to_table` has taken 1000 bytes after .* rows, .*; give a larger `limit`"
        ):
            numbers.to_table("1KB")
        with pytest.raises(DataError, match=r"an element must be a row but is a batch of rows; `.unbatch\(\)` gives"):
            numbers.batch(10).to_table()
        with pytest.raises(DataError, match="`to_table`: rows must be dicts, .* but one is of type int"):
            fp.from_sequence([1]).to_table()
        with pytest.raises(DataError, match="`to_table`: field `x`: its values cannot form a column"):
            fp.from_sequence([{"x": 1}, {"x": "a"}]).to_table()
        texts, lists = fp.from_table(pa.table({"x": ["a"]})), fp.from_table(pa.table({"x": [[1]]}))
        with pytest.raises(DataError, match="`to_table`: .*(.|\n)*test_pipe.py"):
            texts.filter(bool).concat(lists).to_table()
        with pytest.raises(ArgumentError, match="`limit` must be a size such as"):
            numbers.to_table("much")


class TestNamesOfOtherLibraries:
    @pytest.mark.parametrize(("name", "meant"), MEANT.items())
    def test_each_leads_to_what_exists(self, name: str, meant: str) -> None:
        pipe = fp.from_sequence([1])
        assert not hasattr(pipe, name)
        targets = [meant] if meant.isidentifier() else re.findall(r"`\.(\w+)", meant)
        assert all(callable(getattr(fp.Pipe, target, None)) or target in ("schema", "length") for target in targets)
        functions = re.findall(r"`fp\.(\w+)", meant)
        assert all(callable(getattr(fp, function)) for function in functions)
        assert targets or functions or "`list(pipe)`" in meant
        with pytest.raises(AttributeError) as caught:
            getattr(pipe, name)
        repair = f"did you mean `{meant}`?" if meant.isidentifier() else meant
        assert re.fullmatch(rf"a pipe has no `{name}`; {re.escape(repair)}\n  at .*test_pipe.py:\d+", str(caught.value))

    def test_a_slip_gets_the_name_that_is_like_it(self) -> None:
        with pytest.raises(AttributeError, match="a pipe has no `bacth`; did you mean `batch`[?]\n  at "):
            fp.from_sequence([1]).bacth(2)  # type: ignore[attr-defined]
        with pytest.raises(AttributeError, match="a pipe has no `zzz`; `feedpipe ops` in a shell lists the operators"):
            fp.from_sequence([1]).zzz  # type: ignore[attr-defined]  # noqa: B018

    def test_names_that_python_looks_for_are_just_missing(self) -> None:
        pipe = fp.from_sequence([1])
        with pytest.raises(AttributeError, match="'Pipe' object has no attribute '__array__'"):
            pipe.__array__  # type: ignore[attr-defined]  # noqa: B018
        assert list(copy.copy(pipe)) == list(pickle.loads(pickle.dumps(pipe))) == [1]
