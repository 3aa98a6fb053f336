from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError
from feedpipe.testing import check_operator

LISTS = [[1, 2, 3], [], [4], [5, 6]]
PADDED = [[1, 2, 3], [-1, -1, -1], [4, -1, -1], [5, 6, -1]]


def one(pipe: fp.Pipe[Any]) -> Any:
    (batch,) = pipe.batch(100).pad_batch(-1)
    return batch


@pytest.mark.parametrize("make", [list, np.array, torch.tensor])
def test_rows_that_are_dicts_tuples_or_lists(make):
    values = [make(row) if row else make([1])[:0] for row in LISTS]
    batch = one(fp.from_sequence([{"x": value, "y": 7, "z": "text"} for value in values]))
    assert [row["x"].tolist() for row in batch] == PADDED and batch[0]["y"] == 7 and batch[0]["z"] == "text"
    batch = one(fp.from_sequence([(value, "label") for value in values]))
    assert [(x.tolist(), y) for x, y in batch] == [(row, "label") for row in PADDED]
    assert [row.tolist() for row in one(fp.from_sequence(values))] == PADDED


@pytest.mark.parametrize("is_table", [True, False])
def test_a_value_for_each_column(is_table):
    table = pa.table({"x": LISTS, "labels": LISTS, "weight": [[0.5] * len(row) for row in LISTS]})
    rows = fp.from_table(table) if is_table else fp.from_sequence(table.to_pylist())
    (batch,) = rows.batch(4).pad_batch({"labels": -1, "weight": 2}).collate()
    assert batch["labels"].tolist() == PADDED
    assert batch["x"].tolist() == [[max(0, x) for x in row] for row in PADDED]
    assert batch["weight"].tolist() == [[0.5 if x >= 0 else 2 for x in row] for row in PADDED]
    with pytest.raises(DataError, match=r"`value` must have names of columns that are padded, .* but has: 'label'"):
        list(rows.batch(4).pad_batch({"label": -1}))
    with pytest.raises(ArgumentTypeError, match="`value` must be a number but got: None"):
        rows.batch(4).pad_batch({"labels": None})


def test_a_value_by_name_needs_names():
    with pytest.raises(DataError, match="rows must be dicts or rows of a table if .* a `value` by name is given"):
        list(fp.from_sequence(LISTS).batch(4).pad_batch({"labels": -1}))


def test_the_law_and_the_index():
    source = fp.from_sequence([{"x": list(range(n % 5))} for n in range(23)])
    for pipe in (source, source.filter(lambda row: True)):
        batches = check_operator(pipe.batch(4).pad_batch(lengths="n"))
        assert [row["n"] for batch in batches for row in batch] == [n % 5 for n in range(23)]
    table = pa.table({"x": [list(range(n % 5)) for n in range(23)]})
    for pipe in (fp.from_table(table), fp.from_table(table).filter(lambda row: True)):
        assert check_operator(pipe.batch(4).pad_batch())[1]["x"].tolist() == [
            [0, 1, 2, 3],
            [0, 0, 0, 0],
            [0, 0, 0, 0],
            [0, 1, 0, 0],
        ]


@pytest.mark.parametrize(("arguments", "width"), [({}, 3), ({"to": 5}, 5), ({"multiple_of": 8}, 8), ({"to": 3}, 3)])
def test_width_lengths_and_collate(arguments, width):
    rows = [{"x": row} for row in LISTS]
    for pipe in (fp.from_sequence(rows), fp.from_table(pa.Table.from_pylist(rows))):
        tensors = pipe.batch(4).pad_batch(lengths="n", **arguments).collate()[0]
        assert tensors["x"].shape == (4, width) and tensors["n"].tolist() == [3, 0, 1, 2]


@pytest.mark.parametrize(
    ("rows", "arguments", "message"),
    [
        (
            [{"x": [1, 2]}, {"x": [1, 2, 3]}],
            {"to": 2},
            "`x`: row 2 of the batch has 3 items, and `to` is 2; cut longer",
        ),
        ([{"x": [[1], [2, 3]]}], {"columns": ["x"]}, "`x`: .*ragged in more than one dimension"),
        ([{"x": [[1]]}, {"x": [[1, 2]]}], {"columns": ["x"]}, "`x`: .*ragged in more than one dimension"),
        ([{"x": [1]}], {"columns": ["y"]}, "'y'"),
        ([{"x": ["a"]}], {"columns": ["x"]}, "`x`: .*`pad_batch` takes lists or arrays of numbers"),
        ([{"x": 3}], {"columns": ["x"]}, "`x`: .*`pad_batch` takes lists or arrays of numbers"),
        ([{"x": [1]}], {"value": 0.5}, "`x`: its dtype int64 cannot hold the padding 0.5"),
        ([{"x": [1]}], {"lengths": "x"}, "`lengths` must be a new name, but rows have a column 'x'"),
        ([{"x": 1}], {"lengths": "n"}, "`lengths` needs a column that is padded"),
        ([{"x": [1], "y": [1, 2]}], {"lengths": "n"}, "the lengths of 'x' and 'y' differ; name one in `columns`"),
    ],
)
def test_batches_that_do_not_fit(rows, arguments, message):
    for pipe in (fp.from_sequence(rows), fp.from_table(pa.Table.from_pylist(rows))):
        with pytest.raises(DataError, match=message) as error:
            list(pipe.batch(2).pad_batch(**arguments))
        assert "in the batch that begins at" in str(error.value) and "test_pad_batch.py" in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"to": 0}, ArgumentError, "`to` must be >= 1"),
        ({"multiple_of": 0}, ArgumentError, "`multiple_of` must be >= 1"),
        ({"to": 4, "multiple_of": 2}, ArgumentError, "`multiple_of` must be left out if `to` is given"),
        ({"columns": "x"}, ArgumentTypeError, "`columns` must be a list of names"),
        ({"lengths": 3}, ArgumentTypeError, "`lengths` must be a name"),
        ({"value": "x"}, ArgumentTypeError, "`value` must be a number"),
    ],
)
def test_arguments(arguments, kind, message):
    with pytest.raises(kind, match=message):
        fp.from_sequence([[1]]).batch(1).pad_batch(**arguments)
