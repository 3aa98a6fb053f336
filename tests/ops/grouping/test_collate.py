"""`collate`: the rules of torch's `default_collate`, for lists of rows and for tables."""

from __future__ import annotations

import collections
import copy
import dataclasses
import subprocess
import sys
from collections import UserDict, defaultdict, namedtuple
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch.utils.data import default_collate

import feedpipe as fp
from feedpipe.core.graph import chain_code, names, sent
from feedpipe.core.rows import Rows
from feedpipe.core.tensor_data import TensorData
from feedpipe.engine.run import elements
from feedpipe.engine.stage import bind, resolve
from feedpipe.errors import ArgumentError, DataError, RowError
from feedpipe.testing import check_operator

Point = namedtuple("Point", ["x", "y"])


@dataclasses.dataclass
class Plain:
    x: int


def as_sent(pipe: Any) -> list[Any]:
    """The elements that a worker sends for `pipe`, with a tensor in place of each `TensorData`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            TensorData, "__deepcopy__", lambda self, memo: torch.from_numpy(np.array(self.array)), raising=False
        )
        return [copy.deepcopy(batch) for batch in elements(bind(resolve(sent(pipe))))]


here_and_sent = pytest.mark.parametrize("run", [list, as_sent])
"""Runs a pipe in this process, and as a worker does."""

Runs = Callable[[Any], list[Any]]


def collated(rows: Sequence[Any], run: Runs = list) -> Any:
    (batch,) = run(fp.from_sequence(rows).batch(len(rows)).collate())
    return batch


def table(columns: dict[str, Any], size: int | None = None) -> Any:
    data = pa.table(columns)
    return fp.from_table(data).batch(size or data.num_rows).collate()


def assert_same(ours: Any, theirs: Any) -> None:
    """Both have the same types at every depth, the same dtypes and the same values."""
    assert type(ours) is type(theirs)
    if isinstance(theirs, torch.Tensor):
        assert ours.dtype == theirs.dtype
        assert torch.equal(ours, theirs)
    elif isinstance(theirs, collections.abc.Mapping):
        assert list(ours) == list(theirs)
        for key in theirs:
            assert_same(ours[key], theirs[key])
    elif isinstance(theirs, collections.abc.Sequence) and not isinstance(theirs, (str, bytes)):
        assert len(ours) == len(theirs)
        for our_item, their_item in zip(ours, theirs, strict=True):
            assert_same(our_item, their_item)
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
def test_a_foreign_byte_order_becomes_native(run: Runs) -> None:
    array = np.arange(3, dtype=">i4")
    assert collated([array, array], run).tolist() == [[0, 1, 2]] * 2
    assert run(fp.from_arrays({"x": array}).batch(3).collate())[0]["x"].dtype == torch.int32


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


def test_a_table_becomes_tensors_without_a_dict_for_any_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(self: Rows) -> Any:
        raise AssertionError("a row became a dict")

    monkeypatch.setattr(Rows, "__iter__", never)
    batches = list(table({"x": np.arange(5.0), "y": list("abcde")}, size=2))
    assert [batch["y"] for batch in batches] == [["a", "b"], ["c", "d"], ["e"]]


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


def test_lists_of_rows_after_a_map_become_tensors() -> None:
    pipe = fp.from_arrays({"x": np.arange(8).reshape(4, 2)}).map(lambda row: {"x": row["x"] * 2}).batch(2).collate()
    assert torch.equal(torch.cat([b["x"] for b in pipe]), torch.arange(8).reshape(4, 2) * 2)


def test_a_function_of_the_user() -> None:
    assert list(fp.from_sequence([1, 2, 3]).batch(2).collate(sum)) == [3, 3]
    assert repr(fp.from_sequence([1]).batch(2).collate(sum)).endswith(".batch(2).collate(sum)")
    assert repr(fp.from_sequence([1]).batch(2).collate()).endswith(".batch(2).collate()")


def test_is_indexed_if_its_input_is() -> None:
    pipe = fp.from_sequence(range(10)).batch(4).collate()
    assert len(pipe) == 3
    assert pipe[-1].tolist() == [8, 9]


def test_keeps_the_law_of_cursors() -> None:
    rows = [{"x": np.full(2, i), "y": str(i)} for i in range(23)]
    check_operator(fp.from_sequence(rows).batch(4).collate())
    check_operator(fp.from_sequence(rows).filter(lambda row: int(row["y"]) % 3).batch(4).collate())
    check_operator(fp.from_arrays({"x": np.arange(46).reshape(23, 2)}).shuffle().batch(5).collate())
    check_operator(fp.from_table(pa.table({"x": range(23)})).batch(5, drop_last=True).collate())
    check_operator(fp.from_table(pa.table({"x": [None, *range(22)]})).batch(5).collate(nulls="nan"))


WRONG: dict[str, tuple[Any, str]] = {
    "shapes": (
        [{"x": np.ones(3)}, {"x": np.ones(3)}, {"x": np.ones(4)}],
        r"field `x`: shapes \(3,\) and \(4,\) differ at row 3",
    ),
    "shapes of equal size": ([np.ones((3, 2)), np.ones((5, 2)), np.ones((1, 2))], r"shapes .* differ at row 2"),
    "shapes of tensors": ([{"x": torch.ones(1)}, {"x": torch.ones(2)}], r"field `x`: shapes .* differ at row 2"),
    "a missing field": ([{"x": 1}, {"y": 1}], r"field `x`: missing at row 2"),
    "None": ([{"x": 1}, {"x": None}], r"field `x`: null at row 2 of the batch, .* `.collate\(nulls=\"nan\"\)`"),
    "None among floats": ([{"x": 1.0}, {"x": None}], r"field `x`: null at row 2"),
    "None among NumPy's": ([{"x": np.int8(1)}, {"x": None}], r"field `x`: null at row 2"),
    "None first": ([{"x": None}, {"x": 1}], r"field `x`: null at row 1"),
    "nothing but None": ([{"x": None}, {"x": None}], r"field `x`: null at row 1"),
    "None for a tuple": ([{"x": (1,)}, {"x": None}], r"field `x`: types tuple and NoneType differ at row 2"),
    "None for an array": ([{"x": None}, {"x": np.ones(2)}], r"field `x`: .*NoneType"),
    "None among numbers and text": ([{"x": 1}, {"x": None}, {"x": "a"}], r"field `x`: Could not convert 'a'"),
    "lengths": ([{"x": (1, [1])}, {"x": (1, [1, 2])}], r"field `x.1`: lengths 1 and 2 differ at row 2"),
    "a dataclass": ([Plain(1), Plain(2)], r"Plain"),
    "text in an array": ([{"x": np.array(["a"])}] * 2, r"field `x`: arrays of dtype <U1 cannot become a tensor"),
    "objects in an array": ([{"x": np.array([None])}] * 2, r"field `x`: arrays of dtype object cannot become a tensor"),
    "an array among numbers": ([{"x": np.ones(2)}, {"x": 1.0}], r"field `x`: types ndarray and float differ at row 2"),
    "an int of 65 bits": ([{"x": 1}, {"x": 2**64}], r"field `x`: Overflow"),
    "sparse tensors": ([{"x": torch.ones(2).to_sparse()}] * 2, r"field `x`: Batches of sparse tensors"),
}


@here_and_sent
@pytest.mark.parametrize(("rows", "message"), WRONG.values(), ids=WRONG.keys())
def test_rows_that_do_not_fit_are_named(rows: list[Any], message: str, run: Runs) -> None:
    with pytest.raises(DataError, match=message) as caught:
        collated(rows, run)
    assert "`.collate()`" in str(caught.value)
    assert "batch that begins at from_sequence, row 1" in str(caught.value)
    assert __file__ in str(caught.value)


WRONG_COLUMNS: dict[str, tuple[Any, str]] = {
    "null": (pa.array([1, 2, None]), r"field `x`: null at row 3 of the batch"),
    "null in a list": (pa.array([[1, 2], [3, None], [4, 5]]), r"field `x`: null at row 2 of the batch"),
    "null for a list": (pa.array([[1], None, [4]]), r"field `x`: null at row 2 of the batch"),
    "null in a struct": (pa.array([{"a": 1}, {"a": None}, {"a": 1}]), r"field `x.a`: null at row 2 of the batch"),
    "only nulls": (pa.nulls(3), r"field `x`: null at row 1"),
    "lengths": (pa.array([[1], [2], [3, 4]]), r"field `x`: lengths 1 and 2 differ at row 3"),
    "times": (
        pa.array([0, 1, 2], pa.timestamp("us")),
        r"field `x`: a column of type timestamp\[us\] cannot become a tensor",
    ),
}


@here_and_sent
@pytest.mark.parametrize(("column", "message"), WRONG_COLUMNS.values(), ids=WRONG_COLUMNS.keys())
def test_columns_that_do_not_fit_are_named(column: pa.Array, message: str, run: Runs) -> None:
    with pytest.raises(DataError, match=message):
        run(table({"x": column}))


def doubles(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


NAN = float("nan")
NULLS: dict[str, tuple[pa.Array, torch.Tensor]] = {
    "int64": (pa.array([1, None, 3]), doubles(1, NAN, 3)),
    "uint8": (pa.array([None, 2, 3], pa.uint8()), doubles(NAN, 2, 3)),
    "bool": (pa.array([True, None, False]), doubles(1, NAN, 0)),
    "float64": (pa.array([None, 0.5, NAN]), doubles(NAN, 0.5, NAN)),
    "float32": (pa.array([1, None, 3], pa.float32()), torch.tensor([1, NAN, 3])),
    "float16": (pa.array([1, None, 3], pa.float16()), torch.tensor([1, NAN, 3], dtype=torch.float16)),
    "nothing but nulls": (pa.nulls(3), doubles(NAN, NAN, NAN)),
    "nothing but nulls of float32": (pa.nulls(3, pa.float32()), torch.full((3,), NAN)),
    "dictionary": (pa.array([5, None, 5]).dictionary_encode(), doubles(5, NAN, 5)),
    "no nulls": (pa.array([1, 2, 3]), torch.tensor([1, 2, 3])),
    "lists": (pa.array([[1, None], [None, 4], [5, 6]]), doubles(1, NAN, NAN, 4, 5, 6).reshape(3, 2)),
    "lists of one length": (
        pa.array([[1, None], [3, 4], [5, 6]], pa.list_(pa.float32(), 2)),
        torch.tensor([[1, NAN], [3, 4], [5, 6]]),
    ),
    "tensors": (
        pa.ExtensionArray.from_storage(
            pa.fixed_shape_tensor(pa.int16(), (2, 1)), pa.array([[1, 2], [3, None]], pa.list_(pa.int16(), 2))
        ),
        doubles(1, 2, 3, NAN).reshape(2, 2, 1),
    ),
}


def assert_equal_with_nan(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


@here_and_sent
@pytest.mark.parametrize(("column", "expected"), NULLS.values(), ids=NULLS.keys())
def test_nan_in_place_of_nulls(column: pa.Array, expected: torch.Tensor, run: Runs) -> None:
    pipe = fp.from_table(pa.table({"x": column, "in": pa.StructArray.from_arrays([column], ["a"])})).batch(3)
    (batch,) = run(pipe.collate(nulls="nan"))
    assert_equal_with_nan(batch["x"], expected)
    assert_equal_with_nan(batch["in"]["a"], expected)
    if column.null_count or column.type.id != pa.int64().id:
        batch["x"].zero_()  # it shares no memory
        assert_equal_with_nan(run(pipe.collate(nulls="nan"))[0]["x"], expected)


@here_and_sent
@pytest.mark.parametrize("name", ["int64", "bool", "float64", "nothing but nulls", "no nulls"])
def test_nulls_are_the_same_in_lists_of_rows(name: str, run: Runs) -> None:
    column, expected = NULLS[name]
    rows = fp.from_sequence([{"x": value} for value in column.to_pylist()]).batch(3)
    assert_equal_with_nan(run(rows.collate(nulls="nan"))[0]["x"], expected)


@here_and_sent
def test_nulls_among_numpy_scalars_and_text(run: Runs) -> None:
    rows = [{"x": np.float32(1), "t": None, "in": (None, 1)}, {"x": None, "t": "a", "in": (2.5, None)}]
    (batch,) = run(fp.from_sequence(rows).batch(2).collate(nulls="nan"))
    assert_equal_with_nan(batch["x"], torch.tensor([1, NAN]))
    assert batch["t"] == [None, "a"]
    assert_equal_with_nan(batch["in"][0], doubles(NAN, 2.5))
    assert_equal_with_nan(batch["in"][1], doubles(1, NAN))
    assert run(fp.from_sequence([{"t": None}, {"t": b"a"}]).batch(2).collate()) == [{"t": [None, b"a"]}]


NOT_NAN: dict[str, tuple[pa.Array, str]] = {
    "a list": (pa.array([[1], None]), r"field `x`: null at row 2 .* before `.batch`\n"),
    "a struct": (pa.array([{"a": 1}, None]), r"field `x`: null at row 2 .* before `.batch`\n"),
    "a time": (
        pa.array([0, None], pa.timestamp("s")),
        r"field `x`: a column of type timestamp\[s\] cannot become a tensor",
    ),
    "beside an int of 54 bits": (pa.array([2**53 + 1, None]), r"field `x`: .* beyond 2\*\*53"),
}


@here_and_sent
@pytest.mark.parametrize(("column", "message"), NOT_NAN.values(), ids=NOT_NAN.keys())
def test_nulls_that_cannot_become_nan(column: pa.Array, message: str, run: Runs) -> None:
    with pytest.raises(DataError, match=message):
        run(fp.from_table(pa.table({"x": column})).batch(2).collate(nulls="nan"))


def test_a_null_in_a_permuted_tensor_names_its_row() -> None:
    kind = pa.fixed_shape_tensor(pa.int16(), (2, 2), permutation=[1, 0])
    column = pa.ExtensionArray.from_storage(kind, pa.array([[1, 2, 3, 4], [1, 2, 3, None]], pa.list_(pa.int16(), 4)))
    with pytest.raises(DataError, match="field `x`: null at row 2"):
        list(table({"x": column}))


def test_nulls_is_checked() -> None:
    pipe = fp.from_sequence([1, None]).batch(2)
    with pytest.raises(ArgumentError, match=r"`nulls` must be one of 'error', 'nan' but got: 'zero'"):
        pipe.collate(nulls="zero")  # type: ignore[call-overload]
    with pytest.raises(ArgumentError, match="`nulls` must be left out if `function` is given but got: 'nan'"):
        pipe.collate(list, nulls="nan")  # type: ignore[call-overload]
    assert repr(pipe.collate(nulls="nan")).endswith(".batch(2).collate(nulls='nan')")


@here_and_sent
def test_a_dtype_without_tensors_is_an_error_of_torch(run: Runs) -> None:
    with pytest.raises(RowError, match=r"collate\(\)` failed with TypeError: can't convert np.ndarray of type"):
        collated([np.longdouble(1), np.longdouble(2)], run)


def test_the_batches_before_a_failing_one_come_first() -> None:
    batches = iter(table({"x": pa.array([1, 2, None, 4])}, size=1))
    assert next(batches)["x"].tolist() == [1]
    assert next(batches)["x"].tolist() == [2]
    for _ in range(2):
        with pytest.raises(DataError, match="null at row 1 of the batch"):
            next(batches)


@pytest.mark.parametrize("rows", [[{"x": 1}], [1], ["text"]])
def test_an_element_that_is_not_a_batch_is_an_error(rows: list[Any]) -> None:
    with pytest.raises(DataError, match=r"must be a batch of rows .* put `.batch\(n\)` before it"):
        list(fp.from_sequence(rows).collate())


def test_an_empty_batch_is_an_error() -> None:
    with pytest.raises(DataError, match="a batch is empty"):
        list(fp.from_sequence([[]]).collate())


def test_an_error_of_the_users_function_is_a_row_error() -> None:
    with pytest.raises(RowError, match=r"collate\(len\)` failed with TypeError"):
        list(fp.from_sequence([1]).collate(len))


def test_an_error_upstream_is_not_changed() -> None:
    with pytest.raises(RowError, match=r"map\(.*ZeroDivisionError"):
        list(fp.from_sequence([0]).map(lambda x: 1 // x).batch(1).collate())


def test_a_type_registered_with_torch_is_collated_by_its_function(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.utils.data._utils import collate

    def total(batch: list[Plain], *, collate_fn_map: Any = None) -> int:
        return sum(plain.x for plain in batch)

    monkeypatch.setitem(collate.default_collate_fn_map, Plain, total)
    assert collated([{"a": Plain(1)}, {"a": Plain(2)}]) == {"a": 3}


NO_TORCH = """
import sys

import numpy as np

import feedpipe as fp
from feedpipe.core.graph import sent
from feedpipe.engine.run import elements
from feedpipe.engine.stage import bind, resolve
from feedpipe.core.tensor_data import TensorData

numbers = {"int": 1, "float": 1.5, "bool": True, "text": "a", "list": [1, 2.5], "NumPy": np.float32(1)}
rows = [{"array": np.ones((2, 3)), **numbers}, {"array": np.zeros((2, 3)), **numbers}]
of_rows = fp.from_sequence(rows).batch(2).collate().prefetch(1)
of_arrays = fp.from_arrays({"x": np.arange(6)}).shuffle().batch(3).collate()
of_lists = fp.from_sequence([[np.ones(2), 1], [np.ones(2), 2]]).filter(bool).batch(2).collate()
batches = [batch for pipe in (of_rows, of_arrays, of_lists) for batch in elements(bind(resolve(sent(pipe))))]

assert "torch" not in sys.modules
assert len(batches) == 4
assert all(type(leaf) is TensorData for leaf in [*batches[1].values(), *batches[2].values(), *batches[3]])
first = batches[0]
assert first.pop("text") == ["a", "a"]
assert all(type(leaf) is TensorData for leaf in [*first.pop("list"), *first.values()])
"""


def test_a_worker_needs_no_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", NO_TORCH], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_graph_that_is_sent_is_the_same_pipe() -> None:
    pipe = fp.from_sequence(range(4)).shuffle().batch(2).collate().prefetch(3).prefetch(1)
    graph = sent(pipe)
    assert graph is not pipe
    assert list(names(graph).values()) == list(names(pipe).values())
    assert chain_code(graph) == repr(pipe)
    assert graph.call_site == pipe.call_site


def test_a_pipe_that_does_not_end_in_the_default_collate_is_sent_unchanged() -> None:
    batches = fp.from_sequence([{"x": 1}]).batch(1)
    for pipe in (batches, batches.prefetch(1), batches.collate(list).prefetch(1), batches.collate().map(dict.copy)):
        assert sent(pipe) is pipe
