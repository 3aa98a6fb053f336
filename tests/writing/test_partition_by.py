"""`write_parquet(partition_by=)`: rows in folders, which come back as columns."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError

from ..support.examples import examples
from ..support.writing import _tables as _folder_files

WORDS = ["a", "", "ü b/c%20=d", None, "\u2028", ".."]


def rows(count: int) -> fp.Pipe[dict[str, object]]:
    return fp.from_sequence([{"id": i, "word": f"w{i % 3}", "year": 2000 + i % 2} for i in range(count)])


def by_id(read: Any) -> list[Any]:
    return sorted(read, key=lambda row: row["id"])


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_folders(tmp_path: Path) -> None:
    manifest = fp.write_parquet(rows(12), tmp_path, partition_by=["year", "word"])
    written = [f"year={year}/word=w{k}" for year in (2000, 2001) for k in range(3)]
    assert [os.path.dirname(name) for name in files(tmp_path)[1:]] == written
    assert pq.ParquetFile(tmp_path / files(tmp_path)[1]).schema_arrow.names == ["id"]
    assert by_id(fp.read_parquet(tmp_path, recursive=True)) == [
        {"id": row["id"], "year": row["year"], "word": row["word"]} for row in rows(12)
    ]
    fp.verify(manifest)
    listed = fp.read_parquet(tmp_path, recursive=True, manifest=manifest)
    assert list(listed) == list(fp.read_parquet(tmp_path, recursive=True))
    fp.Loader(listed).load_state_dict(fp.Loader(fp.read_parquet(tmp_path, recursive=True)).state_dict())


@settings(max_examples=examples(25))
@given(
    st.lists(st.tuples(st.sampled_from(WORDS), st.integers(-1, 1)), min_size=1, max_size=60),
    st.integers(1, 20),
    st.integers(1, 8),
    st.booleans(),
)
def test_every_row_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, keys: list[Any], per_file: int, per_group: int, columns: bool
) -> None:
    folder = tmp_path_factory.mktemp("out")
    source = [{"word": word, "id": i, "n": n} for i, (word, n) in enumerate(keys)]
    schema = {"word": "string", "n": "int32"}
    pipe = fp.from_table(pa.Table.from_pylist(source)) if columns else fp.from_sequence(source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_folder_files, "MAX_OPEN_FILES", 3)
        patch.setattr(_folder_files, "MAX_BUFFERED_BYTES", 200)
        manifest = fp.write_parquet(
            pipe, folder, partition_by=["word", "n"], rows_per_file=per_file, row_group_rows=per_group, schema=schema
        )
    expected = defaultdict(list)
    for row in source:
        expected[row["word"], row["n"]].append(row["id"])
    firsts: dict[str, Any] = {}
    for row in fp.read_parquet(folder, recursive=True, path_column="path"):
        firsts.setdefault(row["path"], row)
    read = defaultdict(list)
    for line in Path(manifest).read_text().splitlines()[1:]:
        entry = json.loads(line)
        row = firsts[f"{folder}/{entry['path']}"]
        assert not entry["path"].startswith(("/", "."))
        table = pq.ParquetFile(folder / entry["path"]).read()
        assert len(table) == entry["rows"] <= per_file
        word = None if "__HIVE" in entry["path"] else row.get("word", "")
        read[word if word is None else str(word), row["n"]] += table["id"].to_pylist()
    assert read == expected
    partitioning = ds.HivePartitioning(pa.schema({"word": pa.string(), "n": pa.int32()}))
    found = ds.dataset(folder, partitioning=partitioning, exclude_invalid_files=False).to_table().to_pylist()
    # pyarrow reads an empty name as it writes it: as the text "".
    assert by_id(found) == [{"id": row["id"], "word": row["word"], "n": row["n"]} for row in source]


def test_other_files_are_never_removed(tmp_path: Path) -> None:
    fp.write_parquet(rows(6), tmp_path, partition_by="word")
    with pytest.raises(ArgumentError, match="holds files that the pipe reads"):
        fp.write_parquet(fp.read_parquet(tmp_path, recursive=True), tmp_path, overwrite=True)
    (tmp_path / "word=w1" / "notes.txt").write_text("mine")
    with pytest.raises(ArgumentError, match="holds 'word=w1/notes.txt'; choose another folder"):
        fp.write_parquet(rows(6), tmp_path, partition_by="word", overwrite=True)
    assert len(files(tmp_path)) == 5


def test_bad_input(tmp_path: Path) -> None:
    def write(keys: Any, **row: object) -> None:
        fp.write_parquet(fp.from_sequence([{"id": 1, **row}]), tmp_path / "out", partition_by=keys, overwrite=True)

    with pytest.raises(ArgumentError, match="names a column 'wort' that the rows do not have; did you mean 'word'?"):
        write("wort", word="x")
    with pytest.raises(ArgumentError, match="names 'x', a column of type double, and names of folders can be text"):
        write("x", x=0.5)
    with pytest.raises(ArgumentError, match="`partition_by` names all columns"):
        write(["id"])
    with pytest.raises(DataError, match="has the text '__HIVE_DEFAULT_PARTITION__', which stands for null"):
        write("word", word="__HIVE_DEFAULT_PARTITION__")
    with pytest.raises(ArgumentError, match="must name each column once but got 'id' twice"):
        write(["id", "id"])
    with pytest.raises(ArgumentTypeError, match="`partition_by` must be a list of names but got: 3"):
        write(3)
