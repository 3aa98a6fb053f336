"""Where rows are divided among shards, and which rows each shard gets."""

from __future__ import annotations

import gzip
import io
import tarfile
import warnings
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import feedpipe as fp
from feedpipe.errors import PlanWarning
from feedpipe.extensions import START, Context, Plan
from feedpipe.testing import check_operator

from ..support.core import ProcessContext
from ..support.engine import resolve
from ..support.examples import examples
from ..support.files import ParquetFile
from ..support.plan import PermutedShard, StreamedShard, division


def plan(pipe: fp.Pipe[object], *, shards: int | None = None, world_size: int = 1) -> Plan:
    return Plan(resolve(pipe), seed=0, rank=0, world_size=world_size, shards=shards)


def calls(pipe: fp.Pipe[object], shards: int = 4) -> list[str]:
    stage = plan(pipe, shards=shards).shard_stage(1)
    kinds = []
    while stage is not None:
        kinds.append(stage.op.kind)
        stage = stage.inputs[0] if stage.inputs else None
    return kinds[::-1]


def test_the_length_of_ranges_depends_on_the_data_alone():
    order = list(fp.from_sequence(range(4096)).then(PermutedShard(1, 0)))
    for shards in (2, 7):
        parts = [list(fp.from_sequence(range(4096)).then(PermutedShard(shards, shard))) for shard in range(shards)]
        assert sum(parts, []) == order
    assert all(order[k : k + 4] == list(range(order[k], order[k] + 4)) for k in range(0, 4096, 4))


def test_data_that_repeats_is_divided_evenly():
    odd = fp.from_sequence(range(1000)).filter(lambda x: x % 2)
    parts = [list(fp.Loader(odd, rank=rank, world_size=2, even=None)) for rank in range(2)]
    assert sorted(sum(parts, [])) == list(range(1, 1000, 2))
    assert {len(part) for part in parts} == {250}


@pytest.mark.parametrize("count", [1, 4])
def test_a_sharded_input_of_a_shuffled_concat(count, tmp_path):
    np.save(tmp_path / "x.npy", np.arange(10, 17))
    arrays = fp.from_arrays({"x": np.arange(count)}).shard_by_rank()
    both = arrays.concat(fp.read_numpy({"x": tmp_path / "x.npy"})).shuffle()
    ranks = [[row["x"] for row in fp.Loader(both, rank=rank, world_size=2, even=None)] for rank in range(2)]
    assert sorted(ranks[0] + ranks[1]) == [*range(count), *range(10, 17)]


@given(st.integers(0, 60), st.integers(1, 5))
def test_streamed_shards_are_all_rows_once(count, shards):
    source = fp.from_sequence(range(count)).filter(lambda x: True)
    for shard in range(shards):
        rows = check_operator(source.then(StreamedShard(shards, shard)), samples=2)
        assert rows == list(range(shard, count, shards))


def test_shared_input_is_read_once_whichever_shard_begins():
    runs = []

    def numbers():
        runs.append(1)
        yield from range(7)

    whole_plan = plan(fp.from_iterable(numbers), shards=3)
    context = Context(process=ProcessContext(shards=(0, 1, 2)))
    for shard in (2, 0, 1):
        blocks = whole_plan.shard_stage(shard).blocks(START, replace(context, shard=shard))
        assert [row for block in blocks for row in block.rows] == list(range(shard, 7, 3))
    assert len(runs) == 1


def test_shared_input_that_fails_fails_for_each_shard():
    def numbers():
        yield from range(7)
        raise OSError("gone")

    whole_plan = plan(fp.from_iterable(numbers), shards=3)
    context = Context(process=ProcessContext(shards=(0, 1, 2)))
    for shard in (2, 0, 1):  # a shard that asks later must not take the failure for the end
        got = []
        with pytest.raises(fp.RowError, match="gone"):
            for block in whole_plan.shard_stage(shard).blocks(START, replace(context, shard=shard)):
                got.extend(block.rows)
        assert got == list(range(shard, 7, 3))


def test_rows_are_divided_behind_the_indexed_part():
    source = fp.from_sequence(range(100)).map(abs)
    assert calls(source.filter(bool).map(abs)) == ["from_sequence", "deal", "map", "filter", "map"]
    assert calls(source.shuffle().filter(bool)) == ["from_sequence", "map", "shuffle", "deal", "filter"]
    assert calls(source.batch(4).filter(bool)) == ["from_sequence", "map", "batch", "deal", "filter"]


def test_a_shard_calls_functions_of_single_rows_over_many_of_its_ranges():
    source = fp.from_sequence(range(100))
    batches = source.batch(4).collate().shuffle(window=10)
    assert calls(batches) == ["from_sequence", "batch", "deal", "collate", "shuffle"]
    keyed = source.map(lambda row, rng: row, rng=True).map(abs).shuffle(window=10)
    assert calls(keyed) == ["from_sequence", "map", "deal", "map", "shuffle"]


@pytest.mark.parametrize("shards", [1, 3])
def test_the_order_does_not_depend_on_where_functions_are_called(shards):
    source = fp.from_sequence(range(5000))

    def order(function, **options):
        one, other = (source.map(function, **options).shuffle(window=100) for _ in range(2))
        return list(fp.Loader(one.mix(other).batch(7), shards=shards))

    assert order(abs) == order(lambda row, rng: row, rng=True)


def test_rows_are_divided_behind_an_operator_that_looks_at_positions():
    source = fp.from_sequence(range(100)).filter(bool)
    assert calls(source.take(5).map(abs)) == ["from_sequence", "filter", "take", "deal_rows", "map"]
    assert calls(source.enumerate().map(str))[-2:] == ["deal_rows", "map"]


def test_each_input_of_concat_is_divided_by_itself():
    a = fp.from_sequence(range(100)).filter(bool)
    b = fp.from_iterable(range(10))
    stage = plan(a.concat(b).map(abs), shards=4).shard_stage(1)
    concat = stage.input
    assert [source.op.kind for source in concat.inputs] == ["filter", "deal_rows"]


@pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")
def test_units_without_a_full_round_are_shared():
    files = [list(range(10 * k, 10 * k + 10)) for k in range(10)]
    pipe = fp.from_sequence(files).flat_map(lambda rows: rows)
    parts = [list(fp.Loader(pipe, rank=r, world_size=4, even=None)) for r in range(4)]
    assert sorted(sum(parts, [])) == list(range(100))
    assert {len(part) for part in parts} == {25}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(fp.Loader(fp.from_sequence(files[:8]).flat_map(lambda rows: rows), rank=0, world_size=4, even=None))
    with pytest.warns(PlanWarning, match="2 of the 2 inputs of `flat_map` are divided row by row"):
        list(fp.Loader(fp.from_sequence(files[:2]).flat_map(lambda rows: rows), rank=0, world_size=4, even=None))


@given(st.integers(1, 70), st.integers(1, 24))
def test_units_are_divided_evenly_and_few_are_shared(units, shards):
    readers: Counter[int] = Counter()

    def rows(unit: int) -> list[tuple[int, int]]:
        readers[unit] += 1
        return [(unit, k) for k in range(shards)]

    pipe = fp.from_sequence(range(units)).flat_map(rows)
    whole_plan = plan(pipe, shards=shards)
    parts = [
        sum((b.rows for b in whole_plan.shard_stage(s).blocks(START, Context(shard=s))), []) for s in range(shards)
    ]
    assert sorted(sum(parts, [])) == [(unit, k) for unit in range(units) for k in range(shards)]
    assert max(map(len, parts)) <= 1.2 * units + 2  # a cut goes to the border of a unit within a tenth of a share
    assert sum(count > 1 for count in readers.values()) <= units % shards
    assert sum(readers.values()) <= units + shards


def test_processes_that_share_no_unit_read_nothing_twice():
    pipe = fp.from_sequence(range(4)).flat_map(range).shuffle(window=4)
    (shared,) = plan(pipe).shared_reads().values()
    assert sum(len(unit.shards) for unit in shared.units) == 8
    assert shared.times(1, 1) == 1 and shared.repeated(1, 1) == 0
    assert shared.times(1, 8) == 2 and shared.repeated(1, 8) == 1


@pytest.mark.parametrize(("units", "shuffled"), [(15, True), (15, False), (3, True)])
def test_a_process_reads_small_units_of_rows_of_fixed_size_once(tmp_path, monkeypatch, units, shuffled):
    rows = np.arange(units * 1000)
    parquet.write_table(pa.table({"x": rows}), tmp_path / "a.parquet", row_group_size=1000)
    pipe = fp.read_parquet(tmp_path)
    pipe = (pipe.shuffle(window=100) if shuffled else pipe).batch(64)
    reads = []
    begin = ParquetFile.read_row_group

    def read_row_group(file: Any, footer: Any, source: Any, group: Any, *args: Any) -> Any:
        reads.append(group.number)
        return begin(file, footer, source, group, *args)

    monkeypatch.setattr(ParquetFile, "read_row_group", read_row_group)
    together = [batch["x"].tolist() for batch in fp.Loader(pipe, shards=8)]
    assert sorted(sum(together, [])) == rows.tolist()
    assert sorted(reads) == [*range(units)]
    (shared,) = plan(pipe, shards=8).shared_reads().values()
    assert shared.repeated(1, 0) == 0
    monkeypatch.setattr(division, "MAX_KEPT_BYTES", 0)
    assert [batch["x"].tolist() for batch in fp.Loader(pipe, shards=8)] == together
    assert len(reads) > 2 * units


@given(units=st.integers(1, 24), ranks=st.integers(1, 4), shards=st.integers(1, 8))
@settings(max_examples=examples(40), deadline=None)
def test_what_is_read_again_is_known_before(units, ranks, shards):
    reads = []

    def rows(unit: int):
        reads.append(unit)
        return range(unit * 100, unit * 100 + 100)

    pipe = fp.from_sequence(range(units)).flat_map(rows).shuffle(window=10)
    options = {"world_size": ranks, "shards": ranks * shards, "even": None}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parts = [list(fp.Loader(pipe, rank=rank, **options)) for rank in range(ranks)]
    assert sorted(sum(parts, [])) == list(range(units * 100))
    again = (len(reads) - units) / units
    expected = [
        read.repeated(ranks, 0) for read in plan(pipe, world_size=ranks, shards=ranks * shards).shared_reads().values()
    ]
    assert sum(expected) == pytest.approx(again)
    assert [f"{again:.0%} of the input is read again" in str(warning.message) for warning in caught] == [True] * (
        again > 0.1001
    )


def test_threads_share_what_their_process_holds():
    reads = []

    def rows():
        reads.append(0)
        return iter(range(40))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with fp.Loader(fp.from_iterable(rows).load().shuffle().batch(4), fp.Threads(2)) as loader:
            assert sorted(sum(loader, [])) == list(range(40))
    assert len(reads) == 1


def test_a_warning_says_what_to_give_and_that_reads_nothing_again(tmp_path):
    for number in range(10):
        texts = [np.random.default_rng(number).bytes(2**18).hex() for _ in range(2)]
        parquet.write_table(pa.table({"x": texts * 20}), tmp_path / f"{number}.parquet")
    pipe = fp.read_parquet(tmp_path).shuffle(window=100)
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    with pytest.warns(
        PlanWarning, match=r"80% of the input, .* MiB, is read again .*; give the loader `shards=8`"
    ) as seen:
        list(fp.Loader(pipe, rank=0, world_size=2))
    assert f"{0.8 * size / 2**20:.3g} MiB" in str(seen[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(fp.Loader(pipe, rank=0, world_size=2, shards=8))


def test_what_is_read_several_times_is_named(tmp_path):
    for name, size in (("large.txt.gz", 400_000), ("a.txt", 5), ("b.txt", 5)):
        with (gzip.open if name.endswith("gz") else open)(tmp_path / name, "wb") as file:
            file.write(np.random.default_rng(0).bytes(size // 2).hex().encode() + b"\n")
    pipe = fp.read_lines(tmp_path).shuffle(window=4)
    with pytest.warns(PlanWarning, match=r"700% of the input.*the largest is .*large\.txt\.gz.* with 100% of the work"):
        list(fp.Loader(pipe, rank=0, world_size=8, even=None))


def test_virtual_shards():
    shuffled = fp.from_sequence(range(9)).filter(bool).shuffle(window=3)
    assert [plan(shuffled, world_size=ranks).shards for ranks in (1, 3)] == [8, 24]
    plain = fp.from_sequence(range(9)).filter(bool)
    assert [plan(plain, world_size=ranks).shards for ranks in (1, 3)] == [1, 3]
    assert plan(fp.from_sequence(range(9)).shuffle().batch(2)).shards == 0


def test_units_come_in_another_order_each_epoch_where_a_shuffle_follows():
    pipe = fp.from_sequence(range(4000)).filter(lambda x: True)
    loader = fp.Loader(pipe.shuffle(window=2))
    first, second = (np.array(list(loader)) for _ in range(2))
    assert np.abs(first - second).mean() > 500
    assert list(fp.Loader(pipe)) == list(range(4000))


def test_keys_do_not_depend_on_which_shards_a_process_runs():
    pipe = fp.from_sequence(range(200)).filter(lambda x: True).map(lambda x, rng: (x, rng.random()), rng=True)
    pipe = pipe.shuffle(window=8)
    whole = dict(fp.Loader(pipe, shards=8))
    parts = [list(fp.Loader(pipe, rank=r, world_size=4, even=None, shards=8)) for r in range(4)]
    assert {x: draw for part in parts for x, draw in part} == whole


@pytest.mark.parametrize("shards", [2, 7, 16])
@pytest.mark.parametrize("shuffled", [False, True])
def test_ranges_of_text_are_cut_again_for_many_shards(tmp_path, shards, shuffled):
    rng = np.random.default_rng(0)
    for name, count in (("a.csv", 3000), ("b.csv", 3), ("c.csv", 0)):
        rows = [f"{name}-{k},{'x' * rng.integers(0, 60)}" for k in range(count)]
        (tmp_path / name).write_text("\n".join(["key,text", *rows]) + "\n")
    pipe = fp.read_csv(tmp_path, newlines_in_values=False)
    if shuffled:
        pipe = pipe.shuffle(window=20)
    keys = sorted(row["key"] for row in pipe)
    whole_plan = plan(pipe, shards=shards)
    assert whole_plan.shared_reads() == {}
    loader = fp.Loader(pipe, shards=shards)
    first = iter(loader)
    taken = [next(first)["key"] for _ in range(1000)]
    resumed = fp.Loader(pipe, shards=shards)
    resumed.load_state_dict(loader.state_dict())
    assert sorted(taken + [row["key"] for row in resumed]) == keys
    lengths = [len(list(fp.Loader(pipe, rank=r, world_size=shards, shards=shards, even=None))) for r in range(shards)]
    assert max(lengths) <= 1.2 * len(keys) / shards + 2


def test_one_large_file_beside_small_ones_is_divided(tmp_path):
    for number in range(30):
        with tarfile.open(tmp_path / f"{number:02d}.tar", "w") as tar:
            for k in range(1000 if number == 7 else 10):
                member = tarfile.TarInfo(f"{number}-{k}.txt")
                member.size = 3
                tar.addfile(member, io.BytesIO(b"abc"))
    pipe = fp.read_tar(tmp_path).shuffle(window=10)
    with pytest.warns(PlanWarning, match=r"\d of the 30 inputs .*07\.tar.* with 64% of the work"):
        parts = [list(fp.Loader(pipe, rank=r, world_size=4, even=None)) for r in range(4)]
    assert sorted(row["__key__"] for part in parts for row in part) == sorted(row["__key__"] for row in pipe)
    assert max(map(len, parts)) <= 1.25 * sum(map(len, parts)) / 4  # by bytes; small tar files have more for each row


def test_two_operators_may_expand_the_same_units():
    units = fp.from_sequence(range(5))
    pipe = units.flat_map(lambda x: [x] * 3).concat(units.flat_map(lambda x: [-x] * 2))
    for shuffled in (pipe, pipe.shuffle(window=3)):
        assert sorted(fp.Loader(shuffled, shards=4)) == sorted(pipe)
