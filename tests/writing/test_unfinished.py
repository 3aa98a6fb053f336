"""Runs of the writers of files that are killed or fail, and those that go on with them."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, RowError, SourceError

from ..loading.resumes import status_of_fork
from ..support.writing import MANIFEST, DatasetWriter, Output, OutputFile

ROWS = 700
PAYLOADS = [random.Random(k).randbytes(40).hex() for k in range(64)]

FAILING: set[int] = set()
"""The rows at which `row` fails."""


@pytest.fixture(autouse=True)
def _nothing_fails() -> Iterator[None]:
    yield
    FAILING.clear()


LATE_NULLS = 130, 131
"""The rows with a null: a file has row groups without nulls before."""


def row(number: int) -> dict[str, Any]:
    if number in FAILING:
        raise ValueError("no")
    return {
        "id": number,
        "word": f"w{number * 7 % 5}",
        "x": PAYLOADS[number % 64] * (number % 4),
        "late": None if number in LATE_NULLS else number / 2,
    }


def tar_row(number: int) -> dict[str, Any]:
    return {"__key__": f"{number:06}", "txt": row(number)["x"], "cls": number}


def numbers() -> Iterator[int]:
    yield from range(ROWS)


def is_odd(item: dict[str, Any]) -> bool:
    return item["id"] % 2 == 1


INDEXED = fp.from_sequence(range(ROWS)).map(row)
STREAMED = fp.from_iterable(numbers).map(row).filter(is_odd).shuffle(window=50)
TAR = fp.from_sequence(range(ROWS)).map(tar_row)

CASES: dict[str, Callable[..., str]] = {
    "parquet by rows": partial(fp.write_parquet, INDEXED, rows_per_file=90, row_group_rows=40),
    "parquet by size": partial(fp.write_parquet, INDEXED, file_size="6KB", row_group_rows=50),
    "parquet of a stream": partial(fp.write_parquet, STREAMED, rows_per_file=60),
    "arrow": partial(fp.write_arrow, INDEXED, rows_per_file=100, batch_rows=33),
    "tfrecord": partial(fp.write_tfrecord, INDEXED, rows_per_file=100, index=True),
    "tfrecord compressed": partial(fp.write_tfrecord, INDEXED, rows_per_file=100, compression="gzip"),
    "tar": partial(fp.write_tar, TAR, file_size="100KB"),
}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def killed_at(write: Callable[[], object], moment: int) -> int:
    """Kills this process at a moment: before or after bytes are written, a place is noted, or files get names or go.

    Returns:
        the number of moments, if the process has not come to that one.
    """
    moments = itertools.count(1)

    def pass_moment() -> None:
        if next(moments) == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    with ExitStack() as stack:
        for kind, name in (
            (Output, "write"),
            (DatasetWriter, "note_place"),
            (DatasetWriter, "_write_list"),
            (DatasetWriter, "_forget_saved"),
            (DatasetWriter, "_remove"),
        ):
            original = getattr(kind, name)

            def between_moments(*arguments: Any, function: Callable[..., Any] = original) -> Any:
                pass_moment()
                result = function(*arguments)
                pass_moment()
                return result

            stack.enter_context(mock.patch.object(kind, name, between_moments))
        write()
    return next(moments)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_runs_that_are_killed_leave_the_files_of_one_run(tmp_path: Path, name: str) -> None:
    """Each run is killed at a random moment, until one comes to its end; then all bytes are those of a whole run."""
    write = CASES[name]
    moments = killed_at(partial(write, tmp_path / "whole"), 0)
    draw = random.Random(name)
    kills = 0
    while status := status_of_fork(partial(killed_at, partial(write, tmp_path / "out"), draw.randint(1, moments // 3))):
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        kills += 1
    assert kills > 2
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    fp.verify(tmp_path / "out" / MANIFEST)


WITH_WORKERS = """
import os, sys
import feedpipe as fp
from feedpipe.core import progress_bar

_, folder, paths, workers, left = sys.argv
left = int(left)
original = progress_bar.ProgressBar.update

def update(self, rows):
    global left
    original(self, rows)
    left -= 1
    if left == 0:
        os.kill(os.getpid(), 9)

def row(line):
    return {"id": int(line), "x": line * 100}

progress_bar.ProgressBar.update = update
fp.write_parquet(fp.read_lines(paths).map(row), folder, rows_per_file=200, workers=int(workers))
"""


@pytest.mark.slow
def test_a_run_goes_on_with_other_workers(tmp_path: Path) -> None:
    """The order stays that of the first run."""
    for number in range(4):
        lines = "".join(f"{number * 1000 + k}\n" for k in range(1000))
        (tmp_path / f"{number}.txt").write_text(lines)

    def run(folder: str, workers: int, kill: int) -> int:
        arguments = [str(tmp_path / folder), str(tmp_path / "*.txt"), str(workers), str(kill)]
        return subprocess.run([sys.executable, "-c", WITH_WORKERS, *arguments], check=False).returncode

    assert run("whole", 2, 0) == 0
    for workers in (2, 0, 3):
        assert run("out", workers, 6) == -signal.SIGKILL
    assert run("out", 1, 0) == 0
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    ids = [row["id"] for row in fp.read_parquet(tmp_path / "out")]
    assert ids == list(range(4000))


def write_a_part(folder: Path) -> None:
    FAILING.add(600)  # with all rows from 512 on
    with pytest.raises(RowError, match="no"):
        fp.write_parquet(INDEXED, folder, rows_per_file=100)
    FAILING.clear()
    assert len(list(folder.glob("part*"))) == 5


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_run_that_fails_goes_on(tmp_path: Path, overwrite: bool) -> None:
    write_a_part(tmp_path)
    before = contents(tmp_path)
    with mock.patch.object(OutputFile, "write", autospec=True, side_effect=OutputFile.write) as write:
        fp.write_parquet(INDEXED, tmp_path, rows_per_file=100, overwrite=overwrite)
    assert len({id(call.args[0]) for call in write.mock_calls}) == 2, "two files are written"
    after = contents(tmp_path)
    assert all(after[name] == data for name, data in before.items() if name.startswith("part"))
    assert sorted(after) == [MANIFEST, *(f"part-0000{k}.parquet" for k in range(7))]
    assert list(fp.read_parquet(tmp_path)) == list(INDEXED)


@pytest.mark.parametrize(
    ("pipe", "options", "reason"),
    [
        (fp.from_sequence(range(ROWS - 1)).map(row), {}, "is now .from_sequence"),
        (INDEXED, {"compression": None}, "compression='auto'.*compression=None"),
    ],
    ids=["pipe", "compression"],
)
def test_another_run(tmp_path: Path, pipe: fp.Pipe[Any], options: dict[str, Any], reason: str) -> None:
    write_a_part(tmp_path)
    with pytest.raises(ArgumentError, match=f"holds a run that was not finished: `overwrite=True` .*{reason}"):
        fp.write_parquet(pipe, tmp_path, rows_per_file=100, **options)
    fp.write_parquet(pipe, tmp_path, rows_per_file=100, overwrite=True, **options)
    read = fp.read_parquet(tmp_path, recursive=True)
    assert sorted(row["id"] for row in read) == list(range(len(pipe)))
    assert not list(tmp_path.glob("_unfinished*"))


def test_a_run_that_was_taken_over_ends(tmp_path: Path) -> None:
    """The second run begins when the first has written some files, and ends before the first goes on."""
    original = DatasetWriter.note_place

    def note_place(self: DatasetWriter) -> None:
        original(self)
        if len(self.files) == 3:
            with mock.patch.object(DatasetWriter, "note_place", original):
                fp.write_parquet(INDEXED, tmp_path, rows_per_file=100)

    with (
        mock.patch.object(DatasetWriter, "note_place", note_place),
        pytest.raises(SourceError, match="another run has gone on with the write into"),
    ):
        fp.write_parquet(INDEXED, tmp_path, rows_per_file=100)
    assert list(fp.read_parquet(tmp_path)) == list(INDEXED)
    fp.verify(tmp_path / MANIFEST)
