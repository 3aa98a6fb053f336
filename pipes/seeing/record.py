"""`Recorder`: writes what a loader gave into a folder, and `Record` reads it: a digest and a cursor of each step."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import ArgumentError, ArgumentTypeError, DataError, LoaderError, SourceError, call_site
from ..plan.fingerprint import code_differences, differences
from .order_digest import digest_of
from .report import Report

if TYPE_CHECKING:
    from ..loading.replay import ElementCursor, Info
    from ..loading.schedule import Schedule
    from ..loading.state import Progress
    from .verdict import RankTimes

log = logging.getLogger("feedpipe")

VERSION = 1
SECONDS, MAX_LINES = 10.0, 4096
"""The time and the steps between two writes, at most."""
_OF_RUN = ("pipe", "code", "seed", "world_size", "shards", "rank")


class Recorder:
    """Writes the steps of one rank into `<rank>.steps.jsonl`, and its report into `<rank>.json`.

    It holds no file open, and a copy begins with nothing. If the folder cannot be written any more, it says so once: a
    training job does not end because a disk is full.

    Args:
        folder: is made if it is not there.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        if not isinstance(folder, (str, os.PathLike)):
            raise ArgumentTypeError(f"`record` must be the path of a folder but got: {folder!r}")
        self._folder = Path(folder)
        if self._folder.exists() and not self._folder.is_dir():
            raise ArgumentError(f"`record` must be a folder, and {self._folder} is a file")
        self._rank: int | None = None  # once it has begun
        self._lines: list[str] = []
        self._due = 0.0
        self._has_failed = False

    def begin(self, schedule: Schedule, progress: Progress) -> None:
        """Begin the file of this rank, once, or go on with it.

        Raises:
            SourceError: it cannot be written.
            ArgumentError: the folder has the record of another run.
        """
        if self._rank is not None:
            return
        entries, rank = schedule.signature.entries, schedule.rank.number
        header = {"feedpipe_record": VERSION, **{name: entries[name] for name in _OF_RUN}, "rank": rank}
        path = self._folder / f"{rank}.steps.jsonl"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if path.exists() and path.stat().st_size:
                self._check_run(path, header, begins=not (progress.epoch or progress.step))
                _drop_partial_line(path)
            else:
                path.write_text(f"{json.dumps(header)}\n", encoding="utf-8")
        except OSError as error:
            raise SourceError(
                f"`record`: {self._folder} cannot be written: {error.strerror or error}", at=call_site()
            ) from error
        self._rank, self._due = rank, time.monotonic() + SECONDS

    def add(self, element: object, info: Info, times: Callable[[], RankTimes]) -> None:
        """Note a step."""
        if self._has_failed:
            return
        digest = digest_of(element)
        try:
            cursor = info.cursor
        except LoaderError:  # of padding
            cursor = None
        line = [info.epoch, info.step, f"{digest.element:016x}", f"{digest.rows:016x}", digest.size, cursor]
        self._lines.append(f"{json.dumps(line)}\n")
        if len(self._lines) >= MAX_LINES or time.monotonic() >= self._due:
            self.write(times)

    def write(self, times: Callable[[], RankTimes]) -> None:
        """Write what is noted, and the report so far."""
        if self._rank is None or self._has_failed:
            return
        lines, self._lines = self._lines, []
        try:
            with (self._folder / f"{self._rank}.steps.jsonl").open("a", encoding="utf-8") as file:
                file.writelines(lines)
            Report([times()]).save(self._folder / f"{self._rank}.json")
        except OSError as error:
            self._has_failed = True
            reason = error.strerror or error
            log.warning("the run is recorded no more, because %s cannot be written: %s", self._folder, reason)
        self._due = time.monotonic() + SECONDS

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_rank": None, "_lines": [], "_has_failed": False}

    def _check_run(self, path: Path, header: dict[str, Any], *, begins: bool) -> None:
        lines = differences_of(_header_of(path), header)
        if not lines and begins:
            lines = ["this one begins at the first step, which the record has"]
        if lines:
            raise ArgumentError(
                f"`record`: {self._folder} has the record of another run: {'; '.join(lines)}; give another folder"
            )


def _drop_partial_line(path: Path) -> None:
    """Cut off the last line, if a process was killed while it wrote it."""
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        back = min(size, 2**20)
        file.seek(size - back)
        tail = file.read()
        if not tail.endswith(b"\n"):
            file.truncate(size - back + tail.rfind(b"\n") + 1)


class RecordedStep(NamedTuple):
    """A step of a rank, as `Recorder` notes it.

    Attributes:
        element, rows: the parts of an `ElementDigest`, as text.
        size: the number of rows.
        cursor: for `fp.replay`; None for padding.
    """

    epoch: int
    step: int
    element: str
    rows: str
    size: int
    cursor: ElementCursor | None


class Record:
    """The record of a run in a folder.

    Attributes:
        folder: its path.
        headers: what each rank says of the run.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        paths = self.folder.glob("*.steps.jsonl") if self.folder.is_dir() else iter(())
        self._paths = {int(path.name.partition(".")[0]): path for path in paths}
        if not self._paths:
            raise DataError(f"{self.folder} has no record of a loader; `Loader(..., record=folder)` makes one")
        self.headers = {rank: _header_of(path) for rank, path in sorted(self._paths.items())}

    def steps(self, rank: int) -> dict[tuple[int, int], RecordedStep]:
        """The steps of a rank by epoch and step; one that was run again after a resume is the last of its kind."""
        return {(step.epoch, step.step): step for step in self._lines(rank)}

    def report(self) -> Report:
        """The report of all ranks that have one.

        Raises:
            DataError: there is none.
        """
        paths = [path for path in (self.folder / f"{rank}.json" for rank in self.headers) if path.exists()]
        if not paths:
            raise DataError(f"{self.folder} has no report yet; a loader writes it each {SECONDS:.0f} seconds")
        return Report([rank for path in paths for rank in Report.load(path).ranks])

    def _lines(self, rank: int) -> Iterator[RecordedStep]:
        path = self._paths[rank]
        with path.open(encoding="utf-8") as file:
            next(file, None)
            for number, line in enumerate(file, 2):
                if not line.endswith("\n"):
                    return  # the process that wrote it was killed
                try:
                    step = RecordedStep(*json.loads(line))
                except (ValueError, TypeError) as error:
                    raise DataError(f"{path}:{number}: the record is damaged: {error}") from None
                yield step


def _header_of(path: Path) -> dict[str, Any]:
    with path.open(encoding="utf-8") as file:
        line = file.readline()
    try:
        header = json.loads(line)
        if header["feedpipe_record"] != VERSION or not {*_OF_RUN} <= {*header}:
            raise ValueError("of another version")
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{path} is no record of a loader, or of another version of feedpipe") from None
    return dict(header)


def differences_of(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What differs between the headers of two records, in words."""
    lines = differences(before["pipe"], now["pipe"])
    lines += code_differences(before["code"], now["code"], now["pipe"]) if before["pipe"] == now["pipe"] else []
    names = [name for name in ("seed", "world_size", "shards", "rank") if before[name] != now[name]]
    return lines + [f"`{name}` was {before[name]} and is now {now[name]}" for name in names]
