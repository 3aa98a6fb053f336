"""`parse_arrow`: Arrow files and streams, in order and by position."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.testing import check_operator

from ...support.core import end_dropped
from ...support.examples import examples
from .arrow_files import FILE, STREAM, WAYS, counted, listed, parsed, write


def test_law_of_streams(tmp_path: Path) -> None:
    files = counted(tmp_path, [3, 0, 40, 1], 7, form=STREAM)
    pipe = parsed(files)
    assert check_operator(pipe) == listed(44)
    with pytest.raises(TypeError):
        len(pipe)


@given(
    st.lists(st.lists(st.none() | st.integers(0, 9), max_size=12), min_size=1, max_size=3),
    st.integers(1, 5),
    st.sampled_from([None, "lz4", "zstd"]),
    st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(25), deadline=None)
def test_law_of_random_files(tmp_path: Path, numbers: list[Any], size: int, compression: Any, indexed: bool) -> None:
    tables = [pa.table({"n": pa.array(n, pa.int64()), "m": pa.array(range(len(n)), pa.int8())}) for n in numbers]
    files = [write(tmp_path / f"{k}.arrow", t, size, compression=compression) for k, t in enumerate(tables)]
    pipe = parsed(files, indexed=indexed)
    got = check_operator(pipe, samples=4)
    assert got == pa.concat_tables(tables).to_pylist() and len(pipe) == len(got)
    shuffled = pipe.shuffle() if indexed else pipe.shuffle(window=9)
    assert Counter(map(str, check_operator(shuffled, samples=2))) == Counter(map(str, got))


@WAYS
def test_files_without_batches(tmp_path: Path, indexed: bool) -> None:
    empty = pa.table({"x": pa.array([], pa.int64()), "t": pa.array([], pa.string())})
    files = [write(tmp_path / "a.arrow", empty), write(tmp_path / "b.arrow", empty, form=FILE if indexed else STREAM)]
    pipe = parsed(files, indexed=indexed)
    assert check_operator(pipe) == []
    assert list(pipe.batch(2).collate()) == []


def test_numbers_of_mapped_files_are_read_in_place(tmp_path: Path) -> None:
    numbers = np.arange(60_000)
    files = [write(tmp_path / f"{k}.arrow", {"x": part}, 6_000) for k, part in enumerate(np.split(numbers, 3))]
    pipe = parsed(files, indexed=True)
    before = pa.total_allocated_bytes()
    column = pipe.batch(6_000)[1].columns["x"]
    assert isinstance(column, np.ndarray)
    assert pa.total_allocated_bytes() - before < 20_000
    with pytest.raises(ValueError, match="read-only"):
        column[0] = 1
    assert sorted(pipe.shuffle().batch(60_000)[0].columns["x"].tolist()) == numbers.tolist()


@pytest.mark.parametrize("form", [FILE, STREAM])
def test_files_are_closed(tmp_path: Path, form: Any) -> None:
    files = counted(tmp_path, [30] * 20, 10, form=form)
    before = len(os.listdir("/proc/self/fd"))
    rows = iter(parsed(files))
    for _ in range(500):
        next(rows)
    assert len(os.listdir("/proc/self/fd")) <= before + 2
    del rows
    end_dropped()
    assert len(os.listdir("/proc/self/fd")) <= before
    if form is FILE:
        pipe = parsed(files, indexed=True)
        assert len(list(pipe.shuffle())) == 600
        assert len(os.listdir("/proc/self/fd")) <= before


def test_a_state_is_refused_if_the_batches_changed(tmp_path: Path) -> None:
    (path,) = counted(tmp_path, [20], 5)
    states = []
    for size in (5, 4):
        write(path, pa.ipc.open_file(path.read_bytes()).read_all(), size)
        loader = fp.Loader(parsed([path]))
        next(iter(loader))
        states.append(loader.state_dict())
    with pytest.raises(fp.FeedpipeError, match="record_batches"):
        fp.Loader(parsed([path])).load_state_dict(states[0])
