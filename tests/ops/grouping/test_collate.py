"""`collate`: the rules of torch's `default_collate`, for lists of rows and for tables."""

from __future__ import annotations

import collections
from collections import UserDict, defaultdict, namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch.utils.data import default_collate

import feedpipe as fp
from feedpipe.errors import DataError
from feedpipe.testing import check_operator

from .collating import Plain, Runs, collated, here_and_sent, table

Point = namedtuple("Point", ["x", "y"])


def assert_same_tensors(ours: Any, theirs: torch.Tensor) -> None:
    assert type(ours) is type(theirs) and ours.dtype == theirs.dtype and torch.equal(ours, theirs)


def assert_same(ours: Any, theirs: Any, check: Callable[[Any, torch.Tensor], None] = assert_same_tensors) -> None:
    """Both have the same types at every depth and the same values; `check` compares with tensors."""
    if isinstance(theirs, torch.Tensor):
        check(ours, theirs)
        return
    assert type(ours) is type(theirs)
    if isinstance(theirs, collections.abc.Mapping):
        assert list(ours) == list(theirs)
        for key in theirs:
            assert_same(ours[key], theirs[key], check)
    elif isinstance(theirs, collections.abc.Sequence) and not isinstance(theirs, (str, bytes)):
        assert len(ours) == len(theirs)
        for our_item, their_item in zip(ours, theirs, strict=True):
            assert_same(our_item, their_item, check)
    else:
        assert ours == theirs


CASES: dict[str, list[Any]] = {
    "ints": [1, -2, 3],
    "bools": [True, False],
    "ints and bools": [1, True],
    "floats": [1.0, 2.5],
    "floats and ints": [1.0, 2],
    "ints and floats": [1, 2.5],
    "tensors": [torch.arange(3), torch.arange(3) + 1],
    "tensors without axes": [torch.tensor(1), torch.tensor(2)],
    "bfloat16": [torch.ones(2, dtype=torch.bfloat16)] * 2,
    "tensors of two dtypes": [torch.ones(2), torch.ones(2, dtype=torch.float64)],
    "arrays": [np.arange(6).reshape(2, 3), np.ones((2, 3), np.int64)],
    "arrays without axes": [np.array(1.5, np.float32), np.array(2, np.float32)],
    "arrays without items": [np.zeros((0, 3)), np.zeros((0, 3))],
    "arrays of two dtypes": [np.ones(2, np.float32), np.ones(2, np.float64)],
    "strided arrays": [np.arange(10)[::2], np.arange(10)[1::2]],
    "NumPy floats": [np.float32(1), np.float32(2)],
    "NumPy doubles": [np.float64(1), np.float64(2)],
    "NumPy ints": [np.int8(1), np.int8(2)],
    "NumPy bools": [np.bool_(True), np.bool_(False)],
    "NumPy scalars of two types": [np.int32(1), np.float64(2.5)],
    "text": ["a", "b"],
    "bytes": [b"a", b"b"],
    "NumPy text": [np.str_("a"), np.str_("b")],
    "dicts": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}],
    "dicts with more keys later": [{"a": 1}, {"a": 2, "b": 3}],
    "dicts of arrays": [{"a": np.ones(2), 1: 1.0}, {"a": np.zeros(2), 1: 2.0}],
    "dicts in dicts": [{"a": {"b": (1, "x")}}, {"a": {"b": (2, "y")}}],
    "defaultdicts": [defaultdict(int, a=1), defaultdict(int, a=2)],
    "user dicts": [UserDict(a=1), UserDict(a=2)],
    "ordered dicts": [collections.OrderedDict(a=1), collections.OrderedDict(a=2)],
    "tuples": [(1, "a", 1.5), (2, "b", 2.5)],
    "lists": [[1, 2], [3, 4]],
    "named tuples": [Point(1, np.ones(2)), Point(2, np.zeros(2))],
    "ranges": [range(2), range(1, 3)],
    "deques": [collections.deque([1, 2]), collections.deque([3, 4])],
    "empty tuples": [(), ()],
    "one row": [{"a": np.ones(1)}],
}


@here_and_sent
@pytest.mark.parametrize("rows", CASES.values(), ids=CASES.keys())
def test_gives_what_default_collate_gives(rows: list[Any], run: Runs) -> None:
    assert_same(collated(rows, run), default_collate(rows))


@here_and_sent
@pytest.mark.parametrize(
    "dtype", ["?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "q", "f2", "f4", "f8", "c8", "c16"]
)
def test_dtypes_are_kept(dtype: str, run: Runs) -> None:
    array = np.arange(6).astype(dtype)
    expected = torch.from_numpy(array.copy())
    assert_same(collated([{"x": item} for item in array], run)["x"], expected)
    assert_same(run(fp.from_arrays({"x": array}).batch(6).collate())[0]["x"], expected)
    assert run(fp.from_arrays({"x": array}).shuffle().batch(6).collate())[0]["x"].dtype == expected.dtype


@here_and_sent
@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([1, 2, 3], pa.uint8()), torch.tensor([1, 2, 3], dtype=torch.uint8)),
        (pa.array([1, 2, 3], pa.float32()), torch.tensor([1.0, 2, 3])),
        (pa.array([True, False, True]), torch.tensor([True, False, True])),
        (pa.array(["a", None, "c"]), ["a", None, "c"]),
        (pa.array([b"a", b"b", b"c"], pa.large_binary()), [b"a", b"b", b"c"]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        (pa.array([5, 6, 5]).dictionary_encode(), torch.tensor([5, 6, 5])),
        (pa.array([[1, 2]] * 3, pa.list_(pa.int16(), 2)), torch.tensor([[1, 2]] * 3, dtype=torch.int16)),
        (pa.array([[1.0, 2.0]] * 3), torch.tensor([[1.0, 2.0]] * 3, dtype=torch.float64)),
        (pa.array([[]] * 3, pa.list_(pa.float32())), torch.zeros(3, 0)),
        (pa.array([[[1], [2]]] * 3), torch.tensor([[[1], [2]]] * 3)),
        (pa.array([["a"], ["b", "c"], []]), [["a"], ["b", "c"], []]),
        (
            pa.array([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"a": 3, "b": "z"}]),
            {"a": torch.tensor([1, 2, 3]), "b": ["x", "y", "z"]},
        ),
        (
            pa.array([[{"a": 1, "b": "x"}], [{"a": 2, "b": "y"}], [{"a": 3, "b": "z"}]]),
            {"a": torch.tensor([[1], [2], [3]]), "b": [["x"], ["y"], ["z"]]},
        ),
        (
            pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(12.0).reshape(3, 2, 2)),
            torch.arange(12.0, dtype=torch.float64).reshape(3, 2, 2),
        ),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_columns_of_a_table(column: pa.Array, expected: Any, run: Runs) -> None:
    assert_same(run(table({"x": column}))[0]["x"], expected)
    # A slice must not see its parent's values.
    padded = pa.concat_arrays([column, column])
    assert_same(run(table({"x": padded}, size=3))[1]["x"], expected)


WINDOWED: dict[str, Any] = {
    "x": np.arange(9.0, dtype="float32"),
    "flags": [i % 2 == 0 for i in range(9)],
    "text": list("abcdefghi"),
    "kinds": pa.array(list("ababababa")).dictionary_encode(),
    "lists": [[i, i + 1] for i in range(9)],
    "grids": pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(36).reshape(9, 2, 2)),
    "structs": [{"a": i, "b": str(i)} for i in range(9)],
}


def stacked(parts: list[Any]) -> Any:
    """What tensors of several windows become together."""
    if isinstance(parts[0], dict):
        return {name: stacked([part[name] for part in parts]) for name in parts[0]}
    return torch.stack(parts) if isinstance(parts[0], torch.Tensor) else parts


@here_and_sent
@pytest.mark.parametrize("size", [1, 3])
def test_windows_of_a_table(run: Runs, size: int) -> None:
    windows = fp.from_table(pa.table(WINDOWED)).sliding(4)
    for pipe in (windows, windows.shuffle(), windows.filter(len)):
        expected = [stacked(list(batch)) for batch in pipe.collate().batch(size)]
        for ours, theirs in zip(run(pipe.batch(size).collate()), expected, strict=True):
            assert_same(ours, theirs)
    one, two = run(windows.zip(windows.map(lambda window: {"w": window})).batch(6).collate())[0]
    assert_same(one, two["w"])
    assert one["x"].shape == (6, 4) and one["grids"].shape == (6, 4, 2, 2)


def test_windows_that_do_not_fit() -> None:
    rows = fp.from_arrays({"x": np.arange(7.0)})
    with pytest.raises(DataError, match="lengths 3 and 1 differ at row 3 of the batch; make them agree"):
        list(rows.batch(3).batch(3).collate())
    nulls = fp.from_table(pa.table({"x": [1, 2, 3, 4, None, 6]})).batch(2).map(lambda window: {"w": window}).batch(3)
    with pytest.raises(DataError, match=r"field `w\.x`: null at row 3 of the batch"):
        list(nulls.collate())
    assert nulls.collate(nulls="nan")[0]["w"]["x"].isnan().tolist() == [[False] * 2, [False] * 2, [True, False]]
    with pytest.raises(DataError, match="windows have no rows, and so no shape"):
        list(rows.batch(3).map(lambda window: window[:0]).batch(2).collate())
    with pytest.raises(DataError, match="types Rows and int differ at row 2"):
        fp.from_sequence([rows.batch(2)[0], 3]).batch(2).collate()[0]


@pytest.mark.parametrize("shuffled", [False, True])
def test_tensors_can_be_written_to_and_share_no_memory(shuffled: bool) -> None:
    source = np.arange(12.0).reshape(6, 2)
    table = pa.table({"a": np.arange(6), "n": [None, *range(5)], "l": [[1, 2]] * 6, "b": [True] * 6})
    for pipe in (fp.from_arrays({"x": source}), fp.from_table(table.drop_columns("n"))):
        rows = pipe.shuffle() if shuffled else pipe
        batches = rows.batch(2).flat_map(lambda batch: [batch, batch]).collate()
        before = [{name: tensor.clone() for name, tensor in batch.items()} for batch in batches]
        for batch, copies in zip(batches, before, strict=True):
            for name, tensor in batch.items():
                assert torch.equal(tensor, copies[name])
                tensor.zero_()
    assert source.sum() == 66
    assert table["a"].to_pylist() == list(range(6))


def test_keeps_the_law_of_cursors() -> None:
    rows = [{"x": np.full(2, i), "y": str(i)} for i in range(23)]
    check_operator(fp.from_sequence(rows).batch(4).collate())
    check_operator(fp.from_sequence(rows).filter(lambda row: int(row["y"]) % 3).batch(4).collate())
    check_operator(fp.from_arrays({"x": np.arange(46).reshape(23, 2)}).shuffle().batch(5).collate())
    check_operator(fp.from_table(pa.table({"x": range(23)})).batch(5, drop_last=True).collate())
    check_operator(fp.from_table(pa.table({"x": [None, *range(22)]})).batch(5).collate(nulls="nan"))


class Stackable:
    """As a TensorDict, it has tensors and is none, and torch's functions ask it what to do."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, arguments: Any, keywords: Any = None) -> Any:
        assert function is torch.stack
        return cls(torch.stack([value.x for value in arguments[0]]))


@here_and_sent
def test_objects_that_torch_stacks(run: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.utils.data._utils import collate

    rows = [{"td": Stackable(torch.full((2,), i))} for i in range(3)]
    assert collated(rows, run)["td"].x.tolist() == [[0, 0], [1, 1], [2, 2]]
    with pytest.raises(DataError, match="field `td`: stack expects each tensor to be equal size"):
        collated([*rows, {"td": Stackable(torch.zeros(3))}], run)
    monkeypatch.setitem(collate.default_collate_fn_map, Stackable, lambda batch, *, collate_fn_map: len(batch))
    assert collated(rows, run)["td"] == 3


def test_a_type_registered_with_torch_is_collated_by_its_function(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.utils.data._utils import collate

    def total(batch: list[Plain], *, collate_fn_map: Any = None) -> int:
        return sum(plain.x for plain in batch)

    monkeypatch.setitem(collate.default_collate_fn_map, Plain, total)
    assert collated([{"a": Plain(1)}, {"a": Plain(2)}]) == {"a": 3}
