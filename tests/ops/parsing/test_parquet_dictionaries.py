"""`read_parquet(dictionaries=...)`: columns of text that stay codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError
from feedpipe.extensions import Rows
from feedpipe.testing import check_operator

WORDS = ["no", "yes", None, "maybe", "", "ü"]


def table(first: int, rows: int) -> pa.Table:
    words = [WORDS[(first + k) * 7 % len(WORDS)] if first + k < 60 else f"word {(first + k) % 9}" for k in range(rows)]
    return pa.table({"id": range(first, first + rows), "word": words, "blob": [b"%d" % (k % 3) for k in range(rows)]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files, whose row groups have dictionaries of their own; types and writers differ."""
    pq.write_table(table(0, 50), tmp_path / "a.parquet", row_group_size=15)
    large = table(50, 40).set_column(1, "word", table(50, 40)["word"].cast(pa.large_string()))
    pq.write_table(large, tmp_path / "b.parquet", use_dictionary=False)
    coded = table(90, 40)
    pq.write_table(coded.set_column(1, "word", coded["word"].dictionary_encode()), tmp_path / "c.parquet")
    return tmp_path


def test_rows_are_the_same(folder: Path) -> None:
    coded = fp.read_parquet(folder, dictionaries=["word", "blob"])
    assert check_operator(coded, samples=5) == list(fp.read_parquet(folder))
    shuffled = [fp.read_parquet(folder, dictionaries=names).shuffle(window=30, seed=1) for names in (["word"], None)]
    assert list(shuffled[0]) == list(shuffled[1])


def test_columns_are_codes(folder: Path) -> None:
    (batch,) = fp.read_parquet(folder, dictionaries=["word"]).batch(200)
    assert isinstance(batch, Rows)
    assert batch.arrow.schema.types == [pa.int64(), pa.dictionary(pa.int32(), pa.string()), pa.binary()]
    assert batch.arrow["word"].to_pylist() == [row["word"] for row in fp.read_parquet(folder)]


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_codes_and_vocabulary(folder: Path, workers: int) -> None:
    words = fp.read_parquet(folder, columns=["word"], dictionaries=["word"], filter=pc.field("word").is_valid())
    pipe = words.shuffle(window=40, seed=2).batch(16).collate(codes=True, format="numpy")
    plain = fp.read_parquet(folder, columns=["word"], filter=pc.field("word").is_valid())
    expected = [row["word"] for row in fp.Loader(plain.shuffle(window=40, seed=2), workers=workers, seed=3)]
    with fp.Loader(pipe, workers=workers, seed=3) as loader:
        got = [(part["codes"], part["vocabulary"]) for part in (batch["word"] for batch in loader)]
    assert all(codes.dtype == np.int32 for codes, _ in got)
    found = [vocabulary[int(code)].as_py() for codes, vocabulary in got for code in codes]
    assert sorted(found) == sorted(expected) and len(found) == 120
    assert all(len(set(vocabulary.to_pylist())) == len(vocabulary) for _, vocabulary in got)


def test_a_filter_leaves_out_row_groups(tmp_path: Path) -> None:
    words = pa.table({"word": ["a"] * 10 + ["b"] * 10})
    pq.write_table(words, tmp_path / "a.parquet", row_group_size=10)
    pipe = fp.read_parquet(tmp_path, filter=pc.field("word") == "b", dictionaries=["word"])
    assert list(pipe) == [{"word": "b"}] * 10


def test_a_file_without_the_column(tmp_path: Path) -> None:
    pq.write_table(table(0, 5), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": [5, 6]}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"id": [7], "word": pa.nulls(1)}), tmp_path / "c.parquet")
    options: dict[str, Any] = {"unify_schemas": True}
    coded = fp.read_parquet(tmp_path, dictionaries=["word"], **options)
    assert list(coded) == list(fp.read_parquet(tmp_path, **options))
    (batch,) = coded.batch(9)
    assert batch.arrow["word"].null_count == 4  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("dictionaries", "kind", "message"),
    [
        (["wrd"], DataError, "a.parquet has no column 'wrd', which `dictionaries` names; did you mean 'word'"),
        (["id"], DataError, "a.parquet, column 'id': its type is int64, and only text and bytes can be codes"),
        (["word", "word"], ArgumentError, "`dictionaries` must name each column once but got 'word' twice"),
        ([], ArgumentError, "`dictionaries` must name at least one column"),
        ("word", ArgumentTypeError, "`dictionaries` must be a list of names but got: 'word'"),
    ],
)
def test_arguments(folder: Path, dictionaries: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        fp.read_parquet(folder, dictionaries=dictionaries).head(1)
