"""A cache whose files are damaged, lost or cut short, on a full disk, or of processes that are killed."""

from __future__ import annotations

import errno
import io
import json
import logging
import multiprocessing
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import feedpipe as fp
from feedpipe.errors import SourceError

from ...soak import SOAK
from ...support.storage import row_files
from .cached_pipes import KINDS, Kind, files, same, shown

pytestmark = pytest.mark.usefixtures("small_files")


@KINDS
class TestEachKind:
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
        assert "is damaged and was removed; its rows are made again" in caplog.text
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
        assert "takes no more rows: No space left on device; other rows are made in each epoch" in (record.getMessage())
        assert len(files(folder)) == 3
        assert not list(folder.glob("*/*.part"))

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


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SourceError, match=r"the folder .* cannot be written to: .*; give a folder") as error:
        list(fp.from_sequence(range(9)).cache(tmp_path / "file"))
    assert __file__ in str(error.value)


def test_what_a_killed_process_has_left_in_memory_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "_SHARED_MEMORY", tmp_path)
    (tmp_path / "feedpipe-cache-old").mkdir()
    (tmp_path / "feedpipe-cache-old" / "a.rows").write_bytes(b"rows")
    (tmp_path / "feedpipe-cache-old" / ".lock").touch()
    (tmp_path / "another").mkdir()
    first, second = row_files.TemporaryFolder(), row_files.TemporaryFolder()
    assert {path.name for path in tmp_path.iterdir()} == {"another", first.path.name, second.path.name}
