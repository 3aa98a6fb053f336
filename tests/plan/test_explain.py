"""The text of `explain()`: look-back, remarks, and inputs that several shards read."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import feedpipe as fp
from feedpipe.extensions import Operator, Order

from ..support.core import process as memory
from ..support.engine import resolve
from ..support.operators import PassThrough
from ..support.plan import explained


def lines(pipe: fp.Pipe[object], *, world_size: int = 1, workers: int = 0, shards: int | None = None) -> list[str]:
    return explained(resolve(pipe), world_size=world_size, workers=workers, shards=shards).splitlines()


def double(x: int) -> int:
    return 2 * x


def add(x: int) -> int:
    return x + 1


def streamed() -> fp.Pipe[int]:
    return fp.from_sequence(range(20)).filter(lambda x: True)


@dataclasses.dataclass(frozen=True)
class Window(PassThrough):
    """Looks back at 1,000 rows."""

    kind: ClassVar[str] = "window"
    order: ClassVar[Order] = Order.ROW_LOCAL

    def lookback(self) -> int:
        return 1000


@dataclasses.dataclass(frozen=True)
class GlobalWindow(Window):
    order: ClassVar[Order] = Order.GLOBAL


@pytest.mark.parametrize("op", [Window(), GlobalWindow()])
def test_look_back_is_shown_whatever_the_order(op: Operator) -> None:
    resume = next(line for line in lines(streamed().then(op).batch(4)) if line.startswith("resume"))
    assert resume == "resume: runs again at most 1000 rows of `window`, 4 rows of `batch`, one block, in each shard"


def test_the_rows_that_windows_hold() -> None:
    def windows(pipe: fp.Pipe[object], **options: int) -> list[str]:
        return [line for line in lines(pipe, **options) if line.startswith("memory")]

    pipe = streamed().shuffle(window=10)
    assert windows(pipe, world_size=2) == [
        "memory: a rank holds up to 80 rows for `shuffle(window=10)`, 10 in each of 8 shards"
    ]
    assert windows(pipe, shards=1) == [
        "memory: a rank holds up to 10 rows for `shuffle(window=10)`, 10 in each of 1 shard"
    ]
    assert windows(streamed()) == windows(fp.from_sequence(range(20)).shuffle()) == []


@pytest.mark.parametrize("rows", [0, 1, 20])
@pytest.mark.parametrize("world_size", [1, 4])
def test_a_window_before_the_division_holds_rows_of_each_process(rows: int, world_size: int) -> None:
    window = fp.from_iterable(range(rows)).shuffle(window=10)
    for pipe in (window.load(), window.load().filter(bool), window.dispatch()):
        (line,) = [line for line in lines(pipe, world_size=world_size) if line.startswith("memory")]
        assert line.startswith(f"memory: each process holds up to {min(rows, 10)} rows for `shuffle(window=10)`")
        assert line.endswith("which it runs on all rows")


def test_the_bytes_that_windows_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def line(table: pa.Table, window: int) -> str:
        parquet.write_table(table, tmp_path / "x.parquet")
        (shown,) = [x for x in lines(fp.read_parquet(tmp_path).shuffle(window=window)) if x.startswith("memory")]
        return shown.partition("`, ")[2]

    numbers = pa.table({"x": np.arange(400), "y": np.zeros(400, np.float32), "z": np.zeros(400, bool)})
    assert line(numbers, 10) == "10 in each of 8 shards, 1.02 KiB in all"
    assert line(numbers, 10_000) == "50 in each of 8 shards, 5.08 KiB in all"  # there are no more rows
    assert line(numbers.append_column("s", pa.array(["a"] * 400)), 10) == "10 in each of 8 shards"
    monkeypatch.setattr(memory, "memory_budget", lambda: 4096)
    assert "1.02 KiB in all; this is more than a quarter of the 4 KiB that a rank may use" in line(numbers, 10)


def test_an_indexed_pipe_runs_nothing_again() -> None:
    text = lines(fp.from_sequence(range(20)).shuffle().batch(8))
    assert text[0] == "indexed, 3 elements; divided at the end, element by element"
    assert text[-1] == "resume: by index, runs nothing again"


def test_the_place_where_rows_are_divided() -> None:
    assert "  -- divided here among 4 shards, by index --" in lines(streamed(), shards=4)
    assert "  -- divided here among 1 shard, row by row --" in lines(streamed().take(3))


@pytest.mark.parametrize(
    ("options", "times"),
    [({"world_size": 2}, "2 times"), ({"workers": 3}, "3 times"), ({"shards": 3}, "once, by this process")],
)
def test_how_often_a_shared_input_is_read(options: dict[str, int], times: str) -> None:
    assert lines(streamed().take(3), **options)[-1] == (
        f"several shards read: the rows of `take` cannot be divided without reading all of them; it is read {times}"
    )


def test_a_dispatched_input_is_read_by_one_process() -> None:
    pipe = fp.from_iterable(range(9)).dispatch()
    assert lines(pipe, workers=3)[-1].endswith("it is read once, for all workers, by one process")


def test_columns_that_become_rows_are_named() -> None:
    pipe = fp.from_arrays({"x": np.arange(4)}).batch(2).map(str)
    assert [line.strip().split()[0] for line in lines(pipe) if "columns become Python rows here" in line] == [
        ".map(str)"
    ]


def tree(pipe: fp.Pipe[object]) -> list[str]:
    """The lines of the operators, without the places where rows are divided."""
    return [line for line in lines(pipe) if line.startswith("  ") and " -- " not in line]


def test_further_inputs_stand_behind_a_bar() -> None:
    source = fp.from_sequence(range(3))
    assert tree(source.filter(bool).concat(source.map(str)).batch(2)) == [
        "  from_sequence(range(0, 3))    3 indexed",
        "  .filter(bool)                 ? streamed",
        "  | from_sequence(range(0, 3))  the one above",
        "  | .map(str)                   3 indexed",
        "  .concat()                     ? streamed",
        "  .batch(2)                     ? streamed",
    ]


def test_merges_of_merges_have_bars_of_their_own() -> None:
    a, b, c = (fp.from_sequence(range(number)) for number in (1, 2, 3))
    assert [line.split("  ")[1] for line in tree(a.zip(b.zip(c)))] == [
        "from_sequence(range(0, 1))",
        "| from_sequence(range(0, 2))",
        "| | from_sequence(range(0, 3))",
        "| .zip()",
        ".zip()",
    ]


def test_a_thing_is_said_once() -> None:
    parts = [streamed().shuffle(window=10) for _ in range(3)]
    text = lines(parts[0].concat(*parts[1:]))
    assert "resume: runs again at most 10 rows of `shuffle` (3 of them), one block, in each shard" in text
    assert len([line for line in text if line.startswith("memory")]) == 1


def test_how_even_the_ranks_are():
    pipe = fp.from_sequence(range(21)).batch(4)
    assert "ranks: 3 elements each" in lines(pipe, world_size=2)
    assert "ranks: 1 to 2 elements each" in lines(pipe, world_size=4)
    assert not any(line.startswith("ranks:") for line in lines(pipe))
    (ranks,) = (line for line in lines(streamed().map(add), world_size=2) if line.startswith("ranks:"))
    assert ranks.startswith("ranks: their lengths are not known before a run, because of `.filter(")
    assert ranks.endswith("so they need a process group, `steps=` or `even=None`")


def test_a_cut_behind_a_shuffle_that_changes():
    source = fp.from_sequence(range(9))
    text = "gives other rows in each epoch"
    assert any(line.startswith(f"`take(3)`, `skip(2)`: {text}") for line in lines(source.shuffle().take(3).skip(2)))
    for fixed in (source.shuffle(each_epoch=False).take(3), source.shuffle().load().take(3), source.take(3).shuffle()):
        assert text not in "\n".join(lines(fixed))


@pytest.mark.parametrize("numbers", [{"world_size": 0}, {"workers": -1}, {"shards": 0}])
def test_a_number_that_is_too_small_is_an_error(numbers: dict[str, int]) -> None:
    (name,) = numbers
    with pytest.raises(fp.errors.ArgumentError, match=rf"`{name}` must be >= \d but got: "):
        fp.from_sequence(range(3)).explain(**numbers)  # type: ignore[arg-type]
