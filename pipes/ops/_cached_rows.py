"""The rows in the files of a cache, by position or by unit, and the records of rows that were skipped."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from ..core.block import Parted, has_skipped, nbytes, parted
from ..core.context import Context
from ..core.cursor import Json
from ..core.ending import Ending
from ..core.graph import walk
from ..core.operator import Order
from ..core.rows import Array, BlockRows, Indices, concat, index_array, take
from ..core.skips import Quarantine, Skipped, SkippedRow, skips
from ..engine.skips import code_without_policy
from ..engine.stage import Stage
from ..errors import UnfitError
from ..files.units import ParseUnits
from ..formats.row_buffers import Buffers, Node, StoredRows, snapshot
from ..storage.row_files import RowFile, RowFiles

Numbers = npt.NDArray[np.int64]

Marks: TypeAlias = Mapping[int, Skipped]
"""Skipped rows by their place."""

FILE_BYTES = 2**24
"""The size of a file of rows, about."""
_MISSING, _PENDING = -1, -2
_NO_KEYS = np.zeros(0, np.uint8)
_MAX_OPEN = 1024


class CachedRows:
    """The base: reads and writes files of rows, for all threads of a process."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.files = RowFiles(folder, limit)
        self.lock = threading.RLock()
        self._checked = False
        self._opened: OrderedDict[str, StoredRows] = OrderedDict()

    def check(self, rows: BlockRows) -> None:
        """Look at the first rows that this process makes.

        Raises:
            UnfitRowsError: a value is of a type that no file of a cache holds.
        """
        if not self._checked and len(rows):
            _packed(take(rows, range(1)), Buffers())
            self._checked = True

    def stored(self, file: RowFile) -> StoredRows | None:
        """Return the rows of a file; None if it is gone or damaged."""
        opened = self._opened.get(file.name)
        if opened is None:
            parts = self.files.parts(file.name)
            if parts is None:
                return None
            opened = StoredRows(file.head["rows"], parts, _make_tensor)
            while len(self._opened) >= _MAX_OPEN:
                self._opened.popitem(last=False)
            self._opened[file.name] = opened
        return opened


class RowsByPosition(CachedRows):
    """The rows of an indexed pipe. A process writes those that it has made, in the order in which it made them."""

    def __init__(self, folder: Path, limit: int, length: int, *, outlives: bool) -> None:
        super().__init__(folder, limit)
        self._files: list[RowFile] = []
        self._run_ends: list[int] = []  # after the last position of a file of adjacent rows
        self._file_of = np.full(length, _MISSING, np.int32)
        self._place_of = np.zeros(length, np.int32)
        self._pending = _Pending()
        if outlives:
            self._ending = Ending(self, partial(_flush_at_end, self.files, self._pending))
        self._scan()

    @property
    def count(self) -> int:
        """The number of rows in files."""
        self._scan()
        return int((self._file_of >= 0).sum())

    def has(self, index: int) -> bool:
        """Return whether the row is in a file, or will be as soon as it is asked for."""
        number = int(self._file_of[index])
        return number >= 0 or (number == _PENDING and self.files.usable)

    def rows(self, indices: Indices, make: Callable[[Indices], BlockRows]) -> BlockRows:
        """Return the rows at `indices`; `make` makes those that are in no file."""
        if not len(indices):
            return make(indices)
        if (adjacent := self._adjacent(indices)) is not None:
            return adjacent
        positions = index_array(indices)
        with self.lock:
            owners, stored = self._owners(positions)
            order = np.argsort(owners, kind="stable")  # rows of one file side by side, and those of no file first
            groups = np.split(order, np.flatnonzero(np.diff(owners[order])) + 1)
            missing = groups.pop(0) if owners[order[0]] < 0 else order[:0]
            parts = [self._stored_rows(stored[int(owners[group[0]])], positions[group]) for group in groups]
        if len(missing):
            rows = make(indices if not parts else positions[missing])
            self._add(positions[missing], rows)
            parts.insert(0, rows)
        joined = concat(parts)
        if len(parts) == 1 or (np.diff(order) == 1).all():
            return joined
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        return take(joined, places)

    def _adjacent(self, indices: Indices) -> BlockRows | None:
        """Return the rows at `indices` if one file has all of them, side by side."""
        if not isinstance(indices, range) or indices.step != 1:
            return None
        owner = int(self._file_of[indices.start])
        if owner < 0 or indices.stop > self._run_ends[owner]:
            return None
        with self.lock:
            stored = self.stored(self._files[owner])
        first = int(self._place_of[indices.start])
        return None if stored is None else stored.rows(range(first, first + len(indices)))

    def flush(self) -> None:
        """Write the rows that this process has made."""
        with self.lock:
            pending, rows = self._pending.taken()
            if len(pending):
                self._enter(_write(self.files, {}, pending.view(np.uint8), rows))

    def _owners(self, positions: Numbers) -> tuple[npt.NDArray[np.integer[Any]], dict[int, StoredRows]]:
        """Return the number of the file of each row, `_MISSING` if it is in none, and the rows of these files."""
        owners = self._file_of[positions]
        if (owners == _PENDING).any():
            self.flush()
        if (owners < 0).any():
            self._scan()
            owners = self._file_of[positions]
        opened: dict[int, StoredRows] = {}
        for number in np.flatnonzero(np.bincount(owners[owners >= 0])).tolist():
            rows = self.stored(self._files[number])
            if rows is not None:
                opened[number] = rows
            else:
                self._file_of[self._file_of == number] = owners[owners == number] = _MISSING
        owners = np.maximum(owners, _MISSING)  # a row whose file could not be written is still pending
        # NumPy sorts numbers of 16 bits in linear time.
        return (owners.astype(np.int16) if len(self._files) < 2**15 else owners), opened

    def _stored_rows(self, stored: StoredRows, positions: Numbers) -> BlockRows:
        at = self._place_of[positions].astype(np.int64)
        adjacent = len(at) == 1 or bool((np.diff(at) == 1).all())
        return stored.rows(range(int(at[0]), int(at[-1]) + 1) if adjacent else at)

    def _add(self, positions: Numbers, rows: BlockRows) -> None:
        if has_skipped(rows):  # a row that failed is tried again in each epoch
            parts = parted(rows)
            good = [k for k, place in enumerate(parts.places) if place not in parts.skipped]
            positions = positions[np.array(parts.places, np.int64)[good]]
            rows = take(parts.values, np.array(good, np.int64))
        with self.lock:
            fresh = np.flatnonzero(self._file_of[positions] == _MISSING)
            if not self.files.usable or not len(fresh):
                return
            self.check(rows)
            rows = snapshot(rows if len(fresh) == len(positions) else take(rows, fresh))
            self._file_of[positions[fresh]] = _PENDING
            self._pending.add(positions[fresh], rows)
            if self._pending.bytes >= FILE_BYTES:
                self.flush()

    def _scan(self) -> None:
        with self.lock:
            for file in self.files.new():
                self._enter(file)

    def _enter(self, file: RowFile | None) -> None:
        if file is None:
            return
        positions = file.keys.view(np.int64)
        if len(positions) and positions.min() >= 0 and positions.max() < len(self._file_of):
            self._files.append(file)
            adjacent = bool((np.diff(positions) == 1).all())
            self._run_ends.append(int(positions[-1]) + 1 if adjacent else _MISSING)
            self._file_of[positions] = len(self._files) - 1
            self._place_of[positions] = np.arange(len(positions))


class _Pending:
    """Rows that are not written yet."""

    def __init__(self) -> None:
        self._parts: list[tuple[Numbers, BlockRows]] = []
        self.bytes = 0

    def add(self, positions: Numbers, rows: BlockRows) -> None:
        self._parts.append((positions, rows))
        self.bytes += nbytes(rows)

    def taken(self) -> tuple[Numbers, BlockRows]:
        """Return all of them, and forget them."""
        parts, self._parts, self.bytes = self._parts, [], 0
        positions = np.concatenate([np.zeros(0, np.int64), *(positions for positions, _ in parts)])
        return positions, concat([rows for _, rows in parts]) if parts else []


class Page(NamedTuple):
    """Adjacent rows of a unit.

    Attributes:
        start, stop: their numbers in the unit.
        at, end: the plain cursors of the input at the first of them and after the last.
        last: whether the unit ends after them.
        file: the file of those that were not skipped.
        skipped: those that were skipped, by their place in the page.
    """

    start: int
    stop: int
    at: Json
    end: Json
    last: bool
    file: RowFile
    skipped: Marks

    def rows(self, stored: StoredRows, row: int) -> BlockRows:
        """Return the rows of the page from row `row` of the unit on."""
        first, count = row - self.start, self.stop - row
        if not self.skipped:
            return stored.rows(range(first, first + count))
        skipped = {place - first: mark for place, mark in self.skipped.items() if place >= first}
        places = [place for place in range(count) if place not in skipped or not skipped[place].is_row]
        before = first - sum(place < first and mark.is_row for place, mark in self.skipped.items())
        values = stored.rows(range(before, before + len(places)))
        return Parted(values, places, skipped, count).merged(values)


class RowsByUnit(CachedRows):
    """The rows of a streamed pipe, in pages of units. Pages of several processes may overlap.

    A page with skipped rows counts as missing if the policies of `steps` ask for more than it has.
    """

    def __init__(self, folder: Path, limit: int, steps: tuple[SkippingStep, ...]) -> None:
        super().__init__(folder, limit)
        self._steps = steps
        self._pages: dict[int, list[Page]] = {}
        self.scan()

    @property
    def count(self) -> int:
        """The number of rows in files; those of overlapping pages count several times."""
        self.scan()
        pages = [page for pages in self._pages.values() for page in pages]
        skipped = sum(mark.is_row for page in pages for mark in page.skipped.values())
        return sum(page.stop - page.start for page in pages) - skipped

    def scan(self) -> None:
        """Look for files of other processes."""
        with self.lock:
            for file in self.files.new():
                self._enter(file)

    def snapshot(self, rows: BlockRows) -> BlockRows:
        """Return the rows as they are now, whatever the consumer does to them later."""
        self.check(rows)
        return snapshot(rows)

    def find(self, unit: int, row: int) -> tuple[Page, StoredRows] | None:
        """Return the page with a row of a unit, or the last page if the unit has no such row; None if there is none."""
        with self.lock:
            pages = self._pages.get(unit, [])
            while (index := bisect_right(pages, row, key=lambda page: page.start)) > 0:
                page = pages[index - 1]
                if row >= page.stop and not page.last:
                    return None
                stored = self.stored(page.file)
                if stored is not None:
                    return page, stored
                del pages[index - 1]
            return None

    def add(
        self,
        unit: int,
        places: range,
        rows: list[BlockRows],
        skipped: Marks,
        at: Json,
        end: Json,
        *,
        last: bool,
    ) -> None:
        """Write a page; `rows` are those at its places that were not skipped."""
        self.scan()  # what other processes have written counts against the limit
        kept = kept_form(skipped, self._steps)
        if restored(kept, self._steps) is None:
            return  # it could not be read again
        head: dict[str, Json] = {
            "unit": unit,
            "start": places.start,
            "stop": places.stop,
            "skipped": kept,
            "at": at,
            "end": end,
            "last": last,
        }
        file = _write(self.files, head, _NO_KEYS, concat(rows) if rows else [])
        with self.lock:
            if file is not None:
                self._enter(file)

    def _enter(self, file: RowFile) -> None:
        head = file.head
        skipped = restored(head.get("skipped", []), self._steps)
        if skipped is None:
            return
        page = Page(head["start"], head["stop"], head["at"], head["end"], head["last"], file, skipped)
        pages = self._pages.setdefault(head["unit"], [])
        pages.insert(bisect_right(pages, page.start, key=lambda other: other.start), page)


def _flush_at_end(files: RowFiles, pending: _Pending) -> None:
    positions, rows = pending.taken()
    if len(positions):
        with suppress(UnfitRowsError):  # nobody could catch it
            _write(files, {}, positions.view(np.uint8), rows)


def _make_tensor(array: Array) -> object:
    from ..torch.tensors import tensor_at

    return tensor_at(array.shape, array.dtype, array)


def _write(files: RowFiles, head: dict[str, Json], keys: npt.NDArray[np.uint8], rows: BlockRows) -> RowFile | None:
    buffers = Buffers()
    node = _packed(rows, buffers)
    return files.write({**head, "rows": node}, keys, buffers.parts)


def _packed(rows: BlockRows, buffers: Buffers) -> Node:
    try:
        return buffers.rows(rows)
    except (UnfitError, RecursionError) as error:
        raise UnfitRowsError(
            f"`cache` cannot hold these rows: {error}; it holds numbers, text, bytes, dates, NumPy arrays, tensors, "
            "and lists, tuples and dicts of these, because reading them back must run no code; `map` the rows to such "
            "values before `cache()`, and back after it"
        ) from error


class UnfitRowsError(UnfitError):
    """Rows that no file of a cache holds; the operator adds its line and makes it a `DataError`."""


# Records of rows that were skipped.


class SkippingStep(NamedTuple):
    """An operator before a cache.

    Attributes:
        code: its call without policies.
        name: its name in the pipe.
        policy: its policy for errors.
    """

    code: str
    name: str
    policy: Quarantine | str | None


def steps_before(source: Stage) -> tuple[SkippingStep, ...]:
    """Return the operators up to `source`. All pipes with the same cache have the same, in this order."""
    return tuple(
        SkippingStep(code_without_policy(stage.node), stage.name, stage.op.on_error)
        for stage in walk(source)
        if not stage.op.transparent
    )


def find_renumbering(source: Stage) -> Stage | None:
    """Return an operator that renumbers the rows after one that fails, if there is one.

    A record that a parser skips is malformed each time, but a function that fails may work the next time.
    """
    may_pass: set[Stage] = set()
    for stage in walk(source):
        is_behind = any(before in may_pass for before in stage.inputs)
        may_fail = skips(stage.op.on_error) and not isinstance(stage.op, ParseUnits)
        regroups = not stage.op.moves_skipped() or stage.op.order is Order.REGROUPS
        if stage.inputs and not stage.indexed and not stage.one_for_one and (may_fail or (is_behind and regroups)):
            return stage
        if may_fail or is_behind:
            may_pass.add(stage)
    return None


def kept_form(marks: Marks, steps: Iterable[SkippingStep]) -> Json:
    """Return the marks as JSON, with the number of the step that skipped each row; -1 for other steps."""
    numbers = {step.name: number for number, step in enumerate(steps)}
    return [
        [place, mark.is_row, [[numbers.get(row.name, -1), row.error, row.record] for row in mark.skips]]
        for place, mark in marks.items()
    ]


def restored(kept: Json, steps: tuple[SkippingStep, ...]) -> dict[int, Skipped] | None:
    """Return the marks as these steps make them now; None if a policy asks for more than was kept."""
    marks: dict[int, Skipped] = {}
    for place, is_row, rows in cast("list[tuple[int, bool, list[tuple[int, str, dict[str, Json] | None]]]]", kept):
        skipped: list[SkippedRow] = []
        for number, error, record in rows:
            if not 0 <= number < len(steps) or not skips(steps[number].policy):
                return None
            code, name, policy = steps[number]
            if not isinstance(policy, Quarantine):
                skipped.append(SkippedRow(code, error, name=name))
            elif record is None:
                return None
            else:
                skipped.append(SkippedRow(code, error, policy, {**record, "operator": code, "name": name}, name))
        marks[place] = Skipped(tuple(skipped), None, is_row)
    return marks


def skipped_in(rows: BlockRows, context: Context, part: int | None = None) -> BlockRows:
    """Return the rows, with this run in the records of those that an earlier run skipped.

    Args:
        rows: as the input makes them, which does not depend on the run.
        context: of this run.
        part: the unit in which positions begin at 0.
    """
    parts = parted(rows)
    if not parts.skipped:
        return rows
    run: dict[str, Json] = {"epoch": context.epoch, "rounds": list(context.rounds), "shard": context.shard}
    if part is not None:
        run["part"] = part
    marks = {place: Skipped(_in_run(mark, run), mark.value, mark.is_row) for place, mark in parts.skipped.items()}
    return parts._replace(skipped=marks).merged(parts.values)


def _in_run(mark: Skipped, run: dict[str, Json]) -> tuple[SkippedRow, ...]:
    return tuple(row if row.record is None else row._replace(record={**row.record, **run}) for row in mark.skips)
