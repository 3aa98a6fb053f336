"""Errors name operator, row and line, whatever the user's code does."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import feedpipe as fp
from feedpipe.errors import DataError, RowError


class MuteError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def mute(row: int) -> int:
    if row == 7:
        raise MuteError
    return row


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_whose_text_cannot_be_shown_keeps_its_address(workers: int) -> None:
    words = r"`\.map\(mute\)` failed with MuteError: \(its text .* `__str__` raises ValueError\)\n  on .*, row 8\n  at "
    loader = fp.Loader(fp.from_sequence(range(20)).map(mute), workers=workers)
    with loader, pytest.raises(RowError, match=words) as info:
        list(loader)
    assert type(info.value.__cause__) is MuteError


def parse(row: int) -> int:
    return int(f"{row}x")


def frames(error: BaseException | None) -> list[str]:
    """The names of the functions in a traceback."""
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)] if error is not None else []


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("end", [None, "collate"])
def test_a_mistake_shows_the_lines_of_the_user_and_one_of_the_package(workers: int, end: str | None) -> None:
    pipe = fp.from_sequence(range(20)).shuffle().map(parse).batch(4)
    with fp.Loader(pipe if end is None else getattr(pipe, end)(), workers=workers) as loader:
        iterator = iter(loader)
        for _ in range(2):  # the error is raised again as it is
            with pytest.raises(RowError) as info:
                next(iterator)
            here, *ours = frames(info.value)
            if not workers:
                assert ours.pop() == "parse"  # where a debugger stops
            assert here.startswith("test_") and set(ours) <= {"__next__", "_ask", "ask"} and len(ours) <= 3
        text = "".join(traceback.format_exception(info.value))
    assert 'return int(f"{row}x")' in text
    assert len(re.findall("/feedpipe/", text)) <= 4
    if not workers:
        assert frames(info.value.__cause__)[-1] == "parse"


def late(row: int) -> float:
    return 1 / (row - 900)


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_mistake_in_a_later_block_is_as_short(concurrency: int) -> None:
    pipe = fp.from_sequence(range(1000)).map(late, concurrency=concurrency)
    for run in (pipe, pipe.batch(3), fp.Loader(pipe.batch(3).collate())):
        with pytest.raises(RowError, match="row 901") as info:
            list(run)
        text = "".join(traceback.format_exception(info.value))
        assert "During handling" not in text and len(re.findall("/feedpipe/", text)) <= 5


def test_an_interrupt_shows_the_lines_of_the_user_and_the_innermost() -> None:
    def interrupt(row: int) -> None:
        raise KeyboardInterrupt

    pipe = fp.from_sequence(range(20)).map(interrupt).batch(4)
    for run in (lambda: next(iter(pipe)), lambda: next(iter(fp.Loader(pipe)))):
        with pytest.raises(KeyboardInterrupt) as info:
            run()
        _, _, *inside = frames(info.value)
        assert inside[-1] == "interrupt" and len(inside) <= 3


def test_an_error_without_a_cause_keeps_its_frames() -> None:
    def fail(row: int) -> int:
        raise RowError("mine", operator="mine", where=None, origin=None)

    with pytest.raises(RowError, match="mine") as info:
        list(fp.Loader(fp.from_sequence([1]).map(fail)))
    assert frames(info.value)[-1] == "fail"


def test_a_traceback_of_a_reader_has_its_message_once(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n3\n")
    table = pa.table({"x": [1]})
    parquet.write_table(table, tmp_path / "a.parquet")
    parquet.write_table(table.rename_columns(["y"]), tmp_path / "b.parquet")
    wrong = fp.read_parquet(tmp_path, pattern="*.parquet")
    for run in (lambda: list(fp.read_csv(tmp_path / "a.csv")), lambda: wrong.schema, lambda: list(fp.Loader(wrong))):
        with pytest.raises(DataError) as info:
            run()
        text = "".join(traceback.format_exception(info.value))
        assert text.count("feedpipe.errors.DataError") == 1 and text.count(str(tmp_path / "a.")) == 1
