"""Each operator in one line, on rows that a reader checks by eye."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import feedpipe as fp

numbers = fp.from_sequence([1, 2, 3, 4])
letters = fp.from_sequence("abc")


def test_rows() -> None:
    assert list(numbers.map(math.sqrt)) == [1, math.sqrt(2), math.sqrt(3), 2]
    assert list(numbers.map(lambda x: 6 // (x - 2)).on_error("skip")) == [-6, 6, 3]
    assert list(numbers.map_batches(lambda rows: [10 * x for x in rows], 2)) == [10, 20, 30, 40]
    assert list(numbers.filter(lambda x: x % 2)) == [1, 3]
    assert list(numbers.flat_map(range)) == [0, 0, 1, 0, 1, 2, 0, 1, 2, 3]
    assert list(numbers.interleave(range, cycle=2)) == [0, 0, 1, 0, 1, 0, 2, 1, 2, 3]
    assert list(letters.enumerate()) == [(0, "a"), (1, "b"), (2, "c")]
    assert fp.from_sequence([{"cls": b"7", "json": b"[1]"}]).decode()[0] == {"cls": 7, "json": [1]}


def test_selection_and_order() -> None:
    assert sorted(numbers.shuffle()) == sorted(numbers.filter(bool).shuffle(window=2)) == [1, 2, 3, 4]
    assert (
        list(numbers.take(3)) == [1, 2, 3] and list(numbers.skip(3)) == [4] and list(numbers.slice(1, 4, 2)) == [2, 4]
    )
    assert list(numbers.take_while(lambda x: x < 3)) == [1, 2]
    assert list(fp.from_sequence("abacb").distinct()) == ["a", "b", "c"]
    assert list(fp.from_sequence("abacb").filter(str.isalpha).distinct(last=1000)) == ["a", "b", "c"]
    assert len(numbers.sample(2)) == 2 and set(numbers.sample(9, weights=[1, 0, 0, 1], replacement=True)) <= {1, 4}
    assert list(letters.repeat(2)) == ["a", "b", "c", "a", "b", "c"]

    animals = fp.from_sequence(["cat"] * 900 + ["dog"] * 100)
    even = animals.resample(lambda row: row, target="uniform", source={"cat": 0.9, "dog": 0.1})
    assert 400 < list(even).count("dog") < 600


def test_parts() -> None:
    train, val = fp.from_sequence(range(1000)).split({"train": 0.9, "val": 0.1}).values()
    assert sorted([*train, *val]) == list(range(1000)) and 50 < len(val) < 150

    folds = fp.from_sequence(range(20)).split(5)
    assert len(folds[0]) == 4 and sorted([*folds[0], *folds.others(0)]) == list(range(20))

    odd, even = numbers.route(lambda x: 1 - x % 2, 2)
    assert list(odd) == [1, 3] and list(even) == [2, 4]
    left, right = numbers.filter(bool).fork()  # one run for both
    assert list(left.zip(right.map(str))) == [(1, "1"), (2, "2"), (3, "3"), (4, "4")]


def test_several_pipes() -> None:
    assert list(letters.concat(numbers)) == ["a", "b", "c", 1, 2, 3, 4]
    assert list(numbers.mix(letters, weights=[2, 1])) == [1, "a", 2, 3, "b", 4, "c"]
    assert list(numbers.mix(letters, weights={0: [1, 0], 2: [1, 1]})) == [1, 2, 3, "a", 4, "b", "c"]
    assert list(fp.mix({"n": numbers, "a": letters}, weights={"n": 2, "a": 1})) == [1, "a", 2, 3, "b", 4, "c"]
    words = fp.from_sequence(["bb", "cc", "dd"])
    assert list(letters.mix(words, by=len)) == ["a", "bb", "b", "c", "cc", "dd"]
    assert list(letters.round_robin(numbers)) == ["a", 1, "b", 2, "c", 3, 4]
    assert list(letters.zip(numbers)) == [("a", 1), ("b", 2), ("c", 3)]

    rows = fp.from_sequence([{"id": 2}, {"id": 1}])
    assert next(iter(rows.join({1: {"name": "cat"}, 2: {"name": "dog"}}, on="id"))) == {"id": 2, "name": "dog"}
    texts = fp.from_sequence(["b2", "a1", "c3"])
    assert next(iter(letters.zip_by_key(texts, key=str, other_key=lambda text: text[0]))) == ("a", "a1")


def test_groups() -> None:
    words = fp.from_sequence(["a", "ccc", "bb", "d", "ee", "fff"])

    assert list(numbers.batch(3)) == [[1, 2, 3], [4]] and list(numbers.batch(3).unbatch()) == [1, 2, 3, 4]
    assert list(numbers.batch({0: 1, 2: 3})) == [[1], [2], [3, 4]]
    assert list(words.batch_by_size(4, len)) == [["a", "ccc"], ["bb", "d"], ["ee"], ["fff"]]
    assert list(words.group_by(len)) == [["a", "d"], ["ccc", "fff"], ["bb", "ee"]]
    assert list(words.bucket_by_length(2, len)) == [["a", "d"], ["ccc", "fff"], ["bb", "ee"]]
    assert list(numbers.sliding(3)) == [[1, 2, 3], [2, 3, 4]]
    assert list(numbers.sliding(2, key=lambda n: n > 2)) == [[1, 2], [3, 4]]
    assert numbers.batch(3).collate()[0].tolist() == [1, 2, 3]

    documents = fp.from_sequence([[1, 2, 3], [4, 5]])
    assert documents.batch(2).pad_batch().collate()[0].tolist() == [[1, 2, 3], [4, 5, 0]]
    assert documents.batch(2).collate(ragged="nested")[0].offsets().tolist() == [0, 3, 5]
    assert numbers.batch(3).collate(format="numpy")[0].sum() == 6
    pack = documents.pack(6).head(1)[0]
    assert pack["tokens"].tolist() == [1, 2, 3, 4, 5, 0] and pack["segment_ids"].tolist() == [1, 1, 1, 2, 2, 0]


def test_columns_of_tables() -> None:
    table = fp.from_table(pa.table({"x": [1, 2, 3], "y": [10, 20, 30], "at": [{"lat": 1.5}] * 3}))

    assert table.select("x")[0] == {"x": 1} and table.drop("x", "at")[0] == {"y": 10}
    assert table.rename({"x": "z"}).schema.names == ["z", "y", "at"]
    assert table.cast({"x": "float32"}).schema.field("x").type == pa.float32()
    assert table.with_columns(sum=pc.add(pc.field("x"), pc.field("y")))[2]["sum"] == 33
    assert table.unnest()[0] == {"x": 1, "y": 10, "at.lat": 1.5}
    assert list(table.filter(pc.field("x") > 2).select("y")) == [{"y": 30}]

    batches = table.select("x").batch(2)
    assert list(batches.map_columns(lambda columns: {"half": columns["x"] / 2}).unbatch())[2] == {"half": 1.5}
    assert batches.to_arrow()[1].to_pydict() == {"x": [3]}


def test_values_of_columns() -> None:
    people = fp.from_table(pa.table({"age": [3.0, None, 70.0], "city": [" Rome", "Oslo", None]}))

    assert [row["age"] for row in people.clip("age", low=18, high=65)] == [18, None, 65]
    assert [row["age"] for row in people.fill_null({"age": 40})] == [3, 40, 70]
    assert len(list(people.drop_null("age"))) == 2 and len(list(people.drop_null())) == 1
    assert [row["age"] for row in people.bucketize("age", boundaries=[18, 65])] == [0, None, 2]
    cities = people.normalize_text("city", lower=True)
    assert [row["city"] for row in cities.index_of("city", values=["oslo", "rome"])] == [1, 0, -1]
    assert cities.one_hot("city", values=["oslo", "rome"])[0]["city"].tolist() == [0, 1]

    stats = fp.fit(people, {"age": fp.stats.mean_std(), "city": fp.stats.vocabulary()})
    assert [row["age"] for row in people.standardize(stats)] == [-1, None, 1]
    assert people.index_of("city", values=stats["city"])[1]["city"] == 1
    assert people.scale(fp.fit(people, {"age": fp.stats.min_max()}))[2]["age"] == 1


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("x,y\n1,a\n2,b\n")
    Path("rows.jsonl").write_text('{"x": 1}\n{"x": 2}\n')
    fp.write_parquet(fp.from_arrays({"x": np.arange(3)}), "parquet")
    fp.write_tar(fp.from_sequence([{"__key__": "0", "txt": "a"}]), "tar")
    fp.write_tfrecord(fp.from_sequence([{"x": 1}, {"x": 2}]), "records")
    config = {"version": 2, "format": "mds", "column_names": ["x"], "column_encodings": ["int"], "column_sizes": [8]}
    text = json.dumps(config).encode()
    head = struct.pack("<3I", 1, 12 + len(text), 20 + len(text))
    Path("shard.mds").write_bytes(head + text + struct.pack("<q", 5))
    with pa.OSFile("rows.arrow", "wb") as sink, pa.ipc.new_file(sink, pa.schema([("x", pa.int64())])) as writer:
        writer.write_table(pa.table({"x": [1, 2]}))

    def opened(paths):
        return fp.list_files(paths).open_files()

    assert list(opened("parquet").parse_parquet(columns=["x"])) == [{"x": 0}, {"x": 1}, {"x": 2}]
    assert list(opened("rows.arrow").parse_arrow()) == [{"x": 1}, {"x": 2}]
    assert list(opened("rows.csv").parse_csv()) == [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}]
    assert list(opened("rows.jsonl").parse_jsonl()) == [{"x": 1}, {"x": 2}]
    assert list(opened("rows.csv").parse_lines().skip(2)) == ["2,b"]
    assert list(opened("tar").parse_tar().map(lambda sample: sample["txt"])) == [b"a"]
    assert list(opened("shard.mds").parse_mds()) == [{"x": 5}]
    assert list(opened("records").parse_tfrecord()) == [{"x": 1}, {"x": 2}]
    assert opened("rows.csv").parse_bytes()[0]["bytes"] == b"x,y\n1,a\n2,b\n"


def test_memory_and_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    slow = numbers.filter(bool).map(lambda x: x * x)

    assert slow.load()[3] == 16
    assert list(slow.cache("squares")) == list(slow.cache("squares")) == [1, 4, 9, 16]  # computed once
    assert list(slow.prefetch(2)) == [1, 4, 9, 16]
    assert list(slow.dispatch()) == [1, 4, 9, 16]
    assert list(slow.remote()) == [1, 4, 9, 16]
    assert sorted(fp.Loader(slow.shard_by_rank().batch(2), shards=2)) == [[1, 9], [4, 16]]
