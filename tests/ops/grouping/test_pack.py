from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError
from feedpipe.testing import check_operator

from ...support.examples import examples

lengths = st.lists(st.integers(0, 25), max_size=25)
sizes = st.integers(1, 12)


def documents(lengths: list[int]) -> list[np.ndarray]:
    """Documents of these lengths; no two tokens are equal, so a token tells its document."""
    ends = np.cumsum(lengths, dtype=np.int64)
    return [np.arange(end - n, end, dtype=np.int32) for end, n in zip(ends, lengths, strict=True)]


def table(docs: list[np.ndarray]) -> fp.Pipe[Any]:
    column = pa.array([doc.tolist() for doc in docs], pa.list_(pa.int32()))
    return fp.from_table(pa.table({"tokens": column}))


def tokens(pack: Any) -> list[int]:
    return pack["tokens"][pack["segment_ids"] > 0].tolist()


def cut_by_hand(docs: list[np.ndarray], length: int, pad: int) -> Iterator[dict[str, list[int]]]:
    """Token by token, as a reference."""
    items = [(int(token), d, place) for d, doc in enumerate(docs) for place, token in enumerate(doc)]
    for first in range(0, len(items), length):
        pack = items[first : first + length]
        order = list(dict.fromkeys(d for _, d, _ in pack))
        rest = length - len(pack)
        yield {
            "tokens": [token for token, _, _ in pack] + [pad] * rest,
            "segment_ids": [order.index(d) + 1 for _, d, _ in pack] + [0] * rest,
            "position_ids": [place for _, _, place in pack] + [0] * rest,
        }


@settings(max_examples=examples(25))
@given(lengths, sizes, st.booleans())
def test_cut(lengths, length, as_table):
    docs = documents(lengths)
    pipe = (table(docs) if as_table else fp.from_sequence(docs)).pack(length, pad=-1)
    packs = check_operator(pipe, samples=4, rows_of=tokens)
    assert [{n: v.tolist() for n, v in pack.items()} for pack in packs] == list(cut_by_hand(docs, length, -1))
    full = fp.from_sequence(docs).pack(length, pad=-1, drop_last=True)
    assert [tokens(pack) for pack in full] == [tokens(pack) for pack in packs if len(tokens(pack)) == length]


@settings(max_examples=examples(25))
@given(lengths, sizes, st.integers(1, 9), st.booleans())
def test_fit_keeps_documents_whole_and_their_order(lengths, length, window, as_table):
    docs = documents(lengths)
    pipe = (table(docs) if as_table else fp.from_sequence(docs)).pack(length, strategy="fit", window=window)
    packs = check_operator(pipe, samples=4, rows_of=tokens)
    owner = np.repeat(np.arange(len(docs)), lengths)
    position = np.concatenate([*map(np.arange, lengths), np.zeros(0, int)])
    assert sorted(token for pack in packs for token in tokens(pack)) == list(range(sum(lengths)))
    pieces = 0
    for pack in packs:
        inside = pack["segment_ids"] > 0
        used = pack["tokens"][inside]
        assert (np.diff(used) > 0).all() and not inside[len(used) :].any()
        assert (pack["position_ids"][inside] == position[used]).all() and (pack["position_ids"][~inside] == 0).all()
        assert (np.diff(pack["segment_ids"][inside]) == np.diff(owner[used])[...].astype(bool)).all()
        pieces += len(set(owner[used]))
    assert pieces == sum(-(-n // length) for n in lengths)
    firsts = [tokens(pack)[0] for pack in packs]
    segment = [owner[first] // window for first in firsts]
    assert firsts == sorted(firsts) and segment == sorted(segment)


@pytest.mark.parametrize("strategy", ["cut", "fit"])
def test_other_columns_are_packed_along(strategy):
    rows = [{"loss": [0.5, 1.5, 2.5], "ids": [1, 2, 3]}, {"ids": [4], "loss": [3.5]}, {"loss": [], "ids": []}]
    types = pa.schema({"loss": pa.list_(pa.float32()), "ids": pa.large_list(pa.uint16())})
    for pipe in (fp.from_sequence(rows), fp.from_table(pa.Table.from_pylist(rows, types))):
        (pack,) = pipe.pack(6, column="ids", strategy=strategy, pad=9)
        assert list(pack) == ["ids", "loss", "segment_ids", "position_ids"]
        assert pack["ids"].tolist() == [1, 2, 3, 4, 9, 9] and pack["loss"].tolist() == [0.5, 1.5, 2.5, 3.5, 9, 9]
        assert pack["segment_ids"].dtype == pack["position_ids"].dtype == np.int32
    assert pack["ids"].dtype == np.uint16 and pack["loss"].dtype == np.float32


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1], "text"], "a value of type str, of dtype .* and shape \\(\\); `pack` takes arrays"),
        ([[1], [[1, 2]]], r"`tokens`: shapes of items \(\) and \(2,\) differ between rows; convert them"),
        ([[1], 2], r"`tokens`: a number, of dtype int64 and shape \(\); `pack` takes arrays"),
        ([[1], [[1], [2, 3]]], "inhomogeneous shape.*`pack` takes arrays"),
        ([[1], [0.5]], "`tokens`: dtypes int64 and float64 differ between rows; convert them"),
        ([[1], ["a"]], "`pack` takes arrays or lists of numbers"),
        ([{"a": [1]}, {"b": [1]}], r"must have the same columns but have \['a'\] and \['b'\]"),
    ],
)
@pytest.mark.parametrize("strategy", ["cut", "fit"])
def test_a_row_that_is_no_document(rows, message, strategy):
    with pytest.raises(DataError, match=message) as error:
        list(fp.from_sequence(rows).pack(4, strategy=strategy))
    assert "on from_sequence, row 2" in str(error.value) and "test_pack.py" in str(error.value)
    assert str(error.value).startswith("`.pack(4")


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"length": 0}, ArgumentError, "`length` must be >= 1"),
        ({"length": 2.5}, ArgumentTypeError, "`length` must be an int"),
        ({"length": 4, "window": 0}, ArgumentError, "`window` must be >= 1"),
        ({"length": 4, "strategy": "first"}, ArgumentError, "`strategy` must be one of 'cut', 'fit'"),
        ({"length": 4, "column": 3}, ArgumentTypeError, "`column` must be a name"),
        ({"length": 4, "pad": "x"}, ArgumentTypeError, "`pad` must be a number"),
        ({"length": 4, "strategy": "fit", "drop_last": True}, ArgumentError, "`drop_last` must be left out"),
    ],
)
def test_arguments(arguments, kind, message):
    with pytest.raises(kind, match=message):
        fp.from_sequence([[1]]).pack(**arguments)


class TestPadOfEachColumn:
    ROWS = tuple({"tokens": t, "labels": t, "mask": [1] * len(t)} for t in ([1, 2, 3], [4]))

    @pytest.mark.parametrize("strategy", ["cut", "fit"])
    @pytest.mark.parametrize("source", [fp.from_sequence, lambda rows: fp.from_table(pa.Table.from_pylist(list(rows)))])
    def test_columns_without_one_get_0(self, source, strategy):
        pipe = source(self.ROWS).pack(6, column="tokens", strategy=strategy, pad={"tokens": 50, "labels": -100})
        (pack,) = check_operator(pipe, rows_of=tokens)
        assert pack["tokens"].tolist() == [1, 2, 3, 4, 50, 50]
        assert pack["labels"].tolist() == [1, 2, 3, 4, -100, -100]
        assert pack["mask"].tolist() == [1, 1, 1, 1, 0, 0]

    def test_bad_input(self):
        with pytest.raises(ArgumentTypeError, match="`pad` must be a number but got: 'x'"):
            fp.from_sequence(self.ROWS).pack(6, column="tokens", pad={"labels": "x"})
        pipe = fp.from_sequence(self.ROWS).pack(6, column="tokens", pad={"label": -100})
        with pytest.raises(
            DataError, match=r"`pad` must have names of columns, which are \['tokens', 'labels', 'mask'\]"
        ):
            list(pipe)
        with pytest.raises(DataError, match="`pad` must have names of columns"):
            list(fp.from_sequence([[1, 2]]).pack(6, pad={"label": -100}))


@pytest.mark.parametrize("strategy", ["cut", "fit"])
@settings(max_examples=examples(25))
@given(lengths, sizes)
def test_cu_seqlens_are_where_sequences_begin_and_end(strategy: Any, lengths: list[int], size: int) -> None:
    pipe = table(documents(lengths)).pack(size, strategy=strategy, pad=-1, cu_seqlens=True)
    for pack in check_operator(pipe, rows_of=tokens):
        begins = [k for k in range(size) if k == 0 or pack["segment_ids"][k] != pack["segment_ids"][k - 1]]
        assert pack["cu_seqlens"] == [*begins, size]
        assert pack["max_seqlen"] == np.diff(pack["cu_seqlens"]).max()


def test_cu_seqlens_of_a_batch_are_int32() -> None:
    (batch,) = table(documents([3, 2])).pack(8, cu_seqlens=True).batch(1).collate()
    assert batch["cu_seqlens"].dtype == batch["max_seqlen"].dtype == torch.int32
    assert batch["cu_seqlens"].tolist() == [[0, 3, 5, 8]] and batch["max_seqlen"].tolist() == [3]


def test_cu_seqlens_of_columns_with_lengths_of_their_own() -> None:
    rows = [{"inputs": [1, 2], "targets": [3]}, {"inputs": [4], "targets": [5, 6]}]
    pipe = fp.from_sequence(rows).pack({"inputs": 4, "targets": 3}, strategy="fit", cu_seqlens=True)
    (pack,) = pipe
    assert (pack["inputs_cu_seqlens"], pack["inputs_max_seqlen"]) == ([0, 2, 3, 4], 2)
    assert (pack["targets_cu_seqlens"], pack["targets_max_seqlen"]) == ([0, 1, 3], 2)
    with pytest.raises(DataError, match="must not have a column `cu_seqlens`"):
        list(fp.from_sequence([{"x": [1], "cu_seqlens": [1]}]).pack(4, column="x", cu_seqlens=True))
