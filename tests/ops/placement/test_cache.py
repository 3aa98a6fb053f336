"""Rows that are kept in files."""

from __future__ import annotations

import errno
import io
import json
import logging
import multiprocessing
import os
import resource
import signal
from collections.abc import Callable, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.core.rows import Rows
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, PlanError, SourceError
from feedpipe.formats.row_buffers import Buffers, StoredRows
from feedpipe.ops.placement import _cache_operator, _cached_rows
from feedpipe.storage import row_files
from feedpipe.testing import check_operator

from ...soak import SOAK

ROWS = 250


def row_of(x: int) -> dict[str, object]:
    return {"x": x, "a": np.full(3, x), "text": str(x), "some": None if x % 3 else [x] * (x % 5)}


class Counted:
    """A function that notes each call in a file, whatever process makes it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, row: Any) -> Any:
        with open(self.path, "a") as file:
            file.write(".")
        return row

    def count(self) -> int:
        """The calls since the last time."""
        size = self.path.stat().st_size if self.path.exists() else 0
        self.path.unlink(missing_ok=True)
        return size


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (_cache_operator, _cached_rows):
        monkeypatch.setattr(module, "FILE_BYTES", 2000)


@pytest.fixture
def calls(tmp_path: Path) -> Counted:
    return Counted(tmp_path / "calls")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.rows"))


def csv_of(folder: Path, count: int = 4) -> str:
    data = folder / "data"
    for i in range(0 if data.exists() else count):
        data.mkdir(exist_ok=True)
        lines = "".join(f"{i * ROWS + j},{j}.5,text {j}\n" for j in range(ROWS))
        (data / f"{i}.csv").write_text(f"x,y,z\n{lines}")
    return str(data)


Kind = Callable[[Path, Callable[[Any], Any]], "fp.Pipe[Any]"]


def indexed(folder: Path, function: Callable[[Any], Any]) -> fp.Pipe[Any]:
    return fp.from_sequence(range(4 * ROWS)).map(row_of).map(function)


def by_files(folder: Path, function: Callable[[Any], Any]) -> fp.Pipe[Any]:
    return fp.read_csv(csv_of(folder)).map(function)


def streamed(folder: Path, function: Callable[[Any], Any]) -> fp.Pipe[Any]:
    return fp.from_iterable(range(4 * ROWS)).map(row_of).filter(lambda row: row["x"] % 7).map(function)


KINDS = pytest.mark.parametrize("kind", [indexed, by_files, streamed])


def shown(rows: Sequence[Any]) -> list[str]:
    return [repr(row) for row in rows]


def same(row: Any) -> Any:
    return row


@KINDS
class TestEachKind:
    def test_rows_are_made_once(self, kind: Kind, tmp_path: Path, folder: Path, calls: Counted) -> None:
        expected = shown(list(kind(tmp_path, same)))
        pipe = kind(tmp_path, calls).cache(folder)
        assert pipe.indexed == (kind is indexed)
        for again in (pipe, pipe, kind(tmp_path, calls).cache(folder)):
            assert shown(list(again)) == expected
        assert calls.count() == len(expected)

    @pytest.mark.filterwarnings("ignore:.* read the same data")
    def test_loaders_with_and_without_workers_share_it(
        self, kind: Kind, tmp_path: Path, folder: Path, calls: Counted
    ) -> None:
        expected = sorted(shown(list(kind(tmp_path, same))))
        pipe = kind(tmp_path, calls).cache(folder)
        for workers in (2, 0):
            assert sorted(shown(list(fp.Loader(pipe, workers=workers, shards=None if pipe.indexed else 4)))) == expected
            count = calls.count()
            assert count == 0 if workers != 2 else count >= len(expected)

    def test_a_run_that_ends_early_leaves_what_it_made(
        self, kind: Kind, tmp_path: Path, folder: Path, calls: Counted
    ) -> None:
        expected = shown(list(kind(tmp_path, same)))
        loader = fp.Loader(kind(tmp_path, calls).cache(folder))
        elements = iter(loader)
        for _ in range(300):
            next(elements)
        loader.close()
        del elements, loader
        count = calls.count()
        assert count >= 300
        assert shown(list(kind(tmp_path, calls).cache(folder))) == expected
        assert calls.count() <= len(expected) - 300

    @pytest.mark.parametrize("what", ["full", "gone", "damaged"])
    def test_a_resume_is_exact_whatever_became_of_the_cache(
        self, kind: Kind, tmp_path: Path, folder: Path, what: str
    ) -> None:
        pipe = kind(tmp_path, same).cache(folder)
        loader = fp.Loader(pipe, shards=None if pipe.indexed else 3)
        expected = shown(list(loader))
        fresh = fp.Loader(kind(tmp_path, same).cache(folder), shards=None if pipe.indexed else 3)
        elements = iter(fresh)
        for _ in range(311):
            next(elements)
        state = json.loads(json.dumps(fresh.state_dict()))
        for number, path in enumerate(files(folder)):
            if what == "gone":
                path.unlink()
            elif what == "damaged" and number % 2:
                damage(path, 100 + 37 * number)
        resumed = fp.Loader(kind(tmp_path, same).cache(folder), shards=None if pipe.indexed else 3)
        resumed.load_state_dict(state)
        assert shown(list(resumed)) == expected[311:]

    def test_damage(self, kind: Kind, tmp_path: Path, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
        expected = shown(list(kind(tmp_path, same)))
        list(kind(tmp_path, same).cache(folder))
        paths = files(folder)
        assert len(paths) > 6
        for place, path in enumerate(paths):
            if place % 3 == 0:
                damage(path, place * 61)
            elif place % 3 == 1:
                os.truncate(path, path.stat().st_size * (place % 5) // 5)
        assert shown(list(kind(tmp_path, same).cache(folder))) == expected
        assert "is damaged and was removed; its rows are made anew" in caplog.text
        assert shown(list(kind(tmp_path, same).cache(folder))) == expected

    def test_a_full_disk(
        self,
        kind: Kind,
        tmp_path: Path,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        expected = shown(list(kind(tmp_path, same)))
        monkeypatch.setattr(row_files.os, "rename", full_after(3, os.rename))
        with caplog.at_level(logging.WARNING):
            pipe = kind(tmp_path, same).cache(folder)
            for _ in range(2):
                assert shown(list(pipe)) == expected
        (record,) = caplog.records
        assert "takes no more rows: No space left on device; rows that are not in it are made in each epoch" in (
            record.getMessage()
        )
        assert len(files(folder)) == 3
        assert not list(folder.glob("*/*.part"))

    def test_a_limit(
        self, kind: Kind, tmp_path: Path, folder: Path, calls: Counted, caplog: pytest.LogCaptureFixture
    ) -> None:
        expected = shown(list(kind(tmp_path, same)))
        for _ in range(2):
            assert shown(list(kind(tmp_path, calls).cache(folder, limit=12_000))) == expected
        assert sum(path.stat().st_size for path in files(folder)) <= 12_000
        assert len(expected) < calls.count() < 2 * len(expected)
        assert "and its `limit` is 12000" in caplog.text

    def test_processes_fill_it_at_once_and_one_is_killed(self, kind: Kind, tmp_path: Path, folder: Path) -> None:
        expected = shown(list(kind(tmp_path, same)))
        context = multiprocessing.get_context("fork")
        processes = [context.Process(target=fill, args=(kind, tmp_path, folder, n)) for n in (None, 450, None)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(60)
        assert [process.exitcode for process in processes] == [0, -signal.SIGKILL, 0]
        assert shown(list(kind(tmp_path, same).cache(folder))) == expected

    @pytest.mark.parametrize("writes", [4 * turn + 3 for turn in range(SOAK)])
    def test_a_process_is_killed_while_it_writes(self, kind: Kind, tmp_path: Path, folder: Path, writes: int) -> None:
        assert in_process(fill_and_die, kind, tmp_path, folder, writes) == -signal.SIGKILL
        unfinished = list(folder.glob("*/*.part"))
        assert shown(list(kind(tmp_path, same).cache(folder))) == shown(list(kind(tmp_path, same)))
        assert list(folder.glob("*/*.part")) == unfinished, "another process may be writing them"
        for path in unfinished:
            os.utime(path, (0, 0))
        assert shown(list(kind(tmp_path, same).cache(folder))) == shown(list(kind(tmp_path, same)))
        assert not list(folder.glob("*/*.part"))

    def test_a_process_that_may_write_no_more(self, kind: Kind, tmp_path: Path, folder: Path) -> None:
        """The limit on the size of a file is met in the middle of a write, as the end of a disk is."""
        expected = shown(list(kind(tmp_path, same)))
        assert in_process(fill_with_small_files, kind, tmp_path, folder) == 0
        assert not list(folder.glob("*/*.part"))
        assert shown(list(kind(tmp_path, same).cache(folder))) == expected

    def test_law(self, kind: Kind, tmp_path: Path, folder: Path) -> None:
        pipe = kind(tmp_path, same)
        check_operator((pipe.take(90) if pipe.indexed else pipe).cache(folder), samples=2)


def fill(kind: Kind, tmp_path: Path, folder: Path, kill_after: int | None) -> None:
    expected = shown(list(kind(tmp_path, same)))
    pipe = kind(tmp_path, same).cache(folder)
    seen = []
    for row in pipe:
        seen.append(repr(row))
        if len(seen) == kill_after:
            os.kill(os.getpid(), signal.SIGKILL)
    assert seen == expected


def in_process(function: Callable[..., None], *arguments: object) -> int | None:
    """The exit code of a process that runs a function."""
    process = multiprocessing.get_context("fork").Process(target=function, args=arguments)
    process.start()
    process.join(60)
    return process.exitcode


class DyingFile(io.FileIO):
    """A file whose process is killed half-way through one of its writes."""

    writes_left = 0

    def write(self, data: Any) -> int:
        DyingFile.writes_left -= 1
        if DyingFile.writes_left == 0:
            super().write(memoryview(data)[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return super().write(data)


def fill_and_die(kind: Kind, tmp_path: Path, folder: Path, writes: int) -> None:
    DyingFile.writes_left = writes
    row_files.open = DyingFile  # type: ignore[attr-defined]
    fill(kind, tmp_path, folder, None)


def fill_with_small_files(kind: Kind, tmp_path: Path, folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
    fill(kind, tmp_path, folder, None)


def damage(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at % len(content)] ^= 4
    path.write_bytes(content)


def full_after(count: int, function: Callable[..., Any]) -> Callable[..., Any]:
    left = [count]

    def call(*arguments: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return function(*arguments)

    return call


def test_ranks_keep_only_their_rows(folder: Path, calls: Counted) -> None:
    for rank in range(2):
        loader = fp.Loader(fp.from_sequence(range(ROWS)).map(calls).cache(folder), rank=rank, world_size=2)
        assert list(loader) == list(range(rank, ROWS, 2))
        assert calls.count() == ROWS // 2


def test_a_shuffle_behind_it(folder: Path, calls: Counted) -> None:
    loader = fp.Loader(fp.from_sequence(range(ROWS)).map(calls).cache(folder).shuffle().batch(32))
    epochs = [[row for batch in loader for row in batch] for _ in range(2)]
    assert epochs[0] != epochs[1]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(ROWS))
    assert calls.count() == ROWS


def test_tables_stay_columns_and_arrays_stay_arrays(folder: Path) -> None:
    columns = {
        "x": np.arange(90),
        "y": np.arange(360.0, dtype="f4").reshape(90, 2, 2),
        "z": np.arange(90) % 2 == 0,
        "u": np.array([f"é{i}" for i in range(90)]),
    }
    pipe = fp.from_arrays(columns).cache(folder)
    for _ in range(2):
        (batch,) = pipe.batch(90)
        assert isinstance(batch, Rows)
        for name, column in columns.items():
            array = batch[name]
            assert isinstance(array, np.ndarray)
            assert array.dtype == column.dtype
            np.testing.assert_array_equal(array, column)
            assert not array.flags.writeable


def test_arrow_columns(tmp_path: Path, folder: Path, calls: Counted) -> None:
    table = pa.table({"x": [1, None, 3] * 100, "s": ["a", None, "ccc"] * 100, "l": [[1], [], None] * 100})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=70)
    pipe = fp.read_parquet(tmp_path / "a.parquet").cache(folder)
    assert len(pipe) == 300
    for _ in range(2):
        assert pipe.to_table().equals(table)
        assert [len(batch) for batch in fp.Loader(pipe.batch(32), workers=2)][:2] == [32, 32]


def test_the_consumer_may_change_rows(folder: Path) -> None:
    pipe = fp.from_sequence(range(20)).map(lambda x: {"a": np.full(2, x), "l": [x]}).cache(folder)
    for _ in range(3):
        for x, row in enumerate(pipe):
            assert row["a"].tolist() == [x, x]
            assert row["l"] == [x]
            row["a"] += 1
            row["l"].append(None)


def test_tensors(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    pipe = fp.from_sequence(range(9)).map(lambda x: (torch.full((2, 3), x), torch.tensor(x > 4))).cache(folder)
    for _ in range(2):
        for x, (matrix, flag) in enumerate(pipe):
            assert torch.equal(matrix, torch.full((2, 3), x))
            assert flag.dtype == torch.bool
            assert bool(flag) == (x > 4)


def test_memory_is_shared_by_workers_and_removed(calls: Counted) -> None:
    pipe = fp.from_sequence(range(ROWS)).map(calls).cache()
    for workers in (2, 0):
        assert sorted(fp.Loader(pipe, workers=workers)) == list(range(ROWS))
    assert calls.count() == ROWS
    temporary = Path(explanation(pipe).rpartition(", in ")[2].strip()).parent
    assert temporary.exists()
    del pipe
    assert not temporary.exists()


def explanation(pipe: fp.Pipe[Any]) -> str:
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()) as output:
        pipe.explain()
    return output.getvalue()


def test_explain_says_what_it_holds(folder: Path) -> None:
    pipe = fp.from_sequence(range(50)).cache(folder, limit="1MiB")
    assert "holds 0 rows, 0 bytes of 1 MiB, in" in explanation(pipe)
    list(fp.Loader(pipe))
    assert "holds 50 rows, " in explanation(pipe)


def test_another_version_and_another_pipe_begin_anew(
    folder: Path, calls: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    def pipe(factor: int = 1, **options: Any) -> fp.Pipe[int]:
        return fp.from_sequence(range(9)).map(calls).map(lambda x: x * factor).cache(folder, **options)

    assert list(fp.Loader(pipe())) == list(range(9))
    assert not caplog.records
    for other in (pipe(version="2"), pipe(factor=2)):
        caplog.clear()
        list(fp.Loader(other))
        assert "begins anew" in caplog.text
        assert "of another pipe, of other code or of another `version`" in caplog.text
    assert calls.count() == 27
    caplog.clear()
    for again in (pipe(), pipe(version="2"), pipe(factor=2, limit="1GiB")):
        list(fp.Loader(again))
    assert not caplog.records
    assert calls.count() == 0


def test_a_state_fits_a_cache_elsewhere(folder: Path, tmp_path: Path) -> None:
    loader = fp.Loader(fp.from_sequence(range(9)).cache(folder))
    elements = iter(loader)
    next(elements)
    other = fp.Loader(fp.from_sequence(range(9)).cache(tmp_path / "other", version="2", limit="1MiB"))
    other.load_state_dict(loader.state_dict())
    assert list(other) == list(range(1, 9))


def test_frozen_draws_are_those_of_the_first_epoch(folder: Path) -> None:
    def pipe() -> fp.Pipe[int]:
        return fp.from_sequence(range(99)).shuffle().map(lambda x, rng: x + rng.random(), rng=True)

    expected = list(pipe())
    loader = fp.Loader(pipe().cache(folder, freeze=True), seed=7)
    assert [list(loader) for _ in range(2)] == [expected, expected]


def test_frozen_order_of_files(tmp_path: Path, folder: Path) -> None:
    files = fp.list_files(csv_of(tmp_path)).shuffle()
    expected = shown(list(files.open_files().parse_csv()))
    loader = fp.Loader(files.open_files().parse_csv().cache(folder, freeze=True), seed=7)
    assert [shown(list(loader)) for _ in range(2)] == [expected, expected]


def test_draws_before_load_are_fixed_already(folder: Path) -> None:
    pipe = fp.from_sequence(range(9)).shuffle().load()
    assert list(pipe.cache(folder)) == list(pipe)
    assert list(pipe.cache(folder, freeze=True).map(same).cache(folder)) == list(pipe)


def test_draws_are_refused(folder: Path) -> None:
    numbers = fp.from_sequence(range(9))
    with pytest.raises(PlanError, match=r"must not follow `shuffle\(\)`, which draws at random.*`freeze=True` to have"):
        numbers.shuffle().map(same).cache(folder)
    with pytest.raises(PlanError, match=r"must not follow `shuffle\(each_epoch=False\)`"):
        numbers.shuffle(each_epoch=False).cache(folder)
    with pytest.raises(PlanError, match="must not follow `map"):
        numbers.map(lambda x, rng: x, rng=True).cache(folder)
    with pytest.raises(PlanError, match=r"`cache\(\)` must stand before `shard_by_rank\(\)`"):
        numbers.shard_by_rank().cache(folder)


def test_arguments() -> None:
    numbers = fp.from_sequence(range(9))
    with pytest.raises(ArgumentError, match="`path` must be the path of a local folder but got: 's3://a'"):
        numbers.cache("s3://a")
    with pytest.raises(ArgumentTypeError, match="`path` must be the path of a folder but got: 3"):
        numbers.cache(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="`version` must be a str but got: 3"):
        numbers.cache(version=3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="`limit` must be a size"):
        numbers.cache(limit="much")


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        SourceError, match=r"the folder .* of a `cache` cannot be written to: .*; give a folder"
    ) as error:
        list(fp.from_sequence(range(9)).cache(tmp_path / "file"))
    assert "test_cache.py" in str(error.value)


class Thing:
    pass


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Thing(), r"`row` is of type .*\.Thing"),
        ({"a": [1, {2: Thing()}]}, r"`row\['a'\]\[...\]\[1\]` is of type"),
        ((1, np.array([Thing()])), r"`row\[1\]` is an array of dtype object"),
        ([[]], None),
    ],
)
def test_values_that_no_file_holds(folder: Path, value: object, message: str | None) -> None:
    for pipe in (fp.from_sequence([value]), fp.from_iterable([value])):
        if message is None:
            assert list(pipe.cache(folder)) == [value]
            continue
        with pytest.raises(DataError, match=rf"`cache` cannot hold these rows: {message}.*`map` the rows") as error:
            list(pipe.cache(folder))
        assert "test_cache.py" in str(error.value)


def test_what_is_read_is_never_code(folder: Path, calls: Counted) -> None:
    """A file that asks for Python objects is no file of rows."""
    node = {"is": "array", "dtype": "|O", "shape": [1], "part": 0, "of": "scalar"}
    with pytest.raises(ValueError, match="has no dtype object"):
        StoredRows(node, [np.zeros(8, np.uint8)], same).rows(range(1))


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(st.characters()),
    st.binary(),
    st.dates(),
    st.datetimes(),
    st.decimals(allow_nan=False),
    st.uuids(),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(max_size=3), inner, max_size=4),
        st.dictionaries(st.integers(0, 5), inner, max_size=4),
    ),
    max_leaves=12,
)


@given(st.lists(VALUES, min_size=1, max_size=12), st.data())
def test_values_come_back_as_they_were(values: list[Any], data: st.DataObject) -> None:
    buffers = Buffers()
    node = json.loads(json.dumps(buffers.rows(values)))
    indices = data.draw(st.lists(st.integers(0, len(values) - 1)))
    rows = StoredRows(node, buffers.parts, same).rows(np.array(indices, np.int64))
    assert repr(rows) == repr([values[index] for index in indices])


def test_arrays_of_any_shape_come_back() -> None:
    values: list[Any] = [
        np.float32(1.5), np.zeros((2, 0)), np.asfortranarray(np.arange(6).reshape(2, 3)), np.array(3), np.int64(3),
        np.arange(5)[::-2], np.array(["a", "bc"]), np.array([1j]), np.arange(3).astype("M8[s]"), bytearray(b"xy"),
        datetime(2024, 1, 1, tzinfo=timezone.utc), date(2024, 2, 3), Decimal("1.50"),
        Rows({"x": np.arange(3)}), Rows({"x": np.arange(2), "s": pa.array(["a", None])}),
    ]  # fmt: skip
    buffers = Buffers()
    node = json.loads(json.dumps(buffers.rows(values)))
    for value, row in zip(values, StoredRows(node, buffers.parts, same).rows(range(len(values))), strict=True):
        assert type(row) is type(value)
        assert repr(list(row) if isinstance(row, Rows) else row) == repr(
            list(value) if isinstance(value, Rows) else value
        )
