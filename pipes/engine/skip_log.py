"""`SkipLog`: counts the rows that were skipped, in the order in which the consumer comes to them, and records them."""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, cast

from ..core.cursor import Json
from ..core.graph import Node, walk
from ..core.policy import Quarantine, skips
from ..core.skipped import SkippedRow
from ..errors import CallSite, DataError, SourceError, text_of, with_call_site
from .skip_record import code_without_policy

log = logging.getLogger("feedpipe")

MIN_ROWS_OF_RATE = 1000
"""A `rate` is looked at from so many rows on."""

_IDENTITY = ("name", "epoch", "rounds", "shard", "part", "position")
"""What identifies a record: two cursors may mean one position, and two operators may have one call.

Before a `cache` of parsed files, positions begin anew in each part of a file.
"""


class SkipCounts(NamedTuple):
    """How many rows an epoch has so far. It is replaced, never changed, so that states of earlier steps may keep it.

    Attributes:
        skipped: those that were skipped, by operator.
        rows: those that came out; they are counted only if a policy has a `rate`.
    """

    skipped: Mapping[str, int] = {}  # a `MappingProxyType` could not be pickled
    rows: int = 0

    @property
    def plain(self) -> Json:
        return [dict(self.skipped), self.rows]


NO_SKIPS = SkipCounts()


def share_of_skips(counts: Iterable[SkipCounts], rank: int, world_size: int) -> SkipCounts:
    """The part of a rank, if all ranks share equally what was counted before: their parts add up to it."""
    skipped: Counter[str] = Counter()
    rows = 0
    for one in counts:
        skipped.update(one.skipped)
        rows += one.rows
    parts = {operator: len(range(rank, count, world_size)) for operator, count in skipped.items()}
    return SkipCounts({operator: part for operator, part in parts.items() if part}, len(range(rank, rows, world_size)))


class SkipLog:
    """The policies of a graph, with the files that a process writes for them.

    Attributes:
        counts_rows: whether a policy needs the number of rows that come out.
    """

    def __init__(self, root: Node) -> None:
        self._policies: dict[str, Quarantine] = {}
        self._call_sites: dict[str, CallSite | None] = {}
        for node in walk(root):
            policy = node.op.on_error
            if isinstance(policy, Quarantine):
                self._policies[code_without_policy(node)] = policy
                self._call_sites[code_without_policy(node)] = node.call_site
        self.counts_rows = any(policy.rate is not None for policy in self._policies.values())
        self._files: dict[str, _RecordFile] = {}

    @staticmethod
    def of(root: Node) -> SkipLog | None:
        """The log of a graph; None if none of its operators skips rows."""
        return SkipLog(root) if any(skips(node.op.on_error) for node in walk(root)) else None

    def open(self) -> None:
        """Looks at the folders of all policies.

        Raises:
            SourceError: one of them cannot be written.
        """
        for code, policy in self._policies.items():
            folder = str(policy.folder)
            if folder not in self._files:
                try:
                    self._files[folder] = _RecordFile(folder)
                except OSError as error:
                    raise SourceError(with_call_site(_unwritable(folder, error), self._call_sites[code])) from error

    def add(
        self, new: Iterable[SkippedRow], counts: SkipCounts, cursor: Callable[[], dict[str, Json]] | None = None
    ) -> SkipCounts:
        """Counts and records rows that were skipped.

        Args:
            new: the rows.
            counts: what was counted before.
            cursor: gives the cursor of the element that they are a part of, or stand before.

        Raises:
            DataError: they are more than a policy allows.
            SourceError: a record cannot be written.
        """
        totals = dict(counts.skipped)
        for skip in new:
            totals[skip.operator] = totals.get(skip.operator, 0) + 1
            if skip.quarantine is not None and skip.record is not None:
                folder = str(skip.quarantine.folder)
                record = dict(skip.record)
                if cursor is not None:
                    place = cursor()
                    place["skipped"] = [record["name"], record["position"]]
                    record["cursor"] = place
                try:
                    self._files[folder].write(record)
                except OSError as error:
                    raise SourceError(_unwritable(folder, error)) from error
                self._check(skip, totals, counts.rows)
        return SkipCounts(totals, counts.rows)

    def report(self, counts: SkipCounts, what: str) -> None:
        """Says in a line how many rows an epoch has skipped, if any."""
        if counts.skipped:
            operators = ", ".join(f"{count} by `{code}`" for code, count in counts.skipped.items())
            log.warning("%s: rows that failed were skipped: %s", what, operators)

    def _check(self, skip: SkippedRow, totals: dict[str, int], rows: int) -> None:
        policy = cast("Quarantine", skip.quarantine)
        skipped = sum(count for code, count in totals.items() if self._policies.get(code) == policy)
        where = f"the records are in {policy.folder}, and the last error is {skip.error}"
        call_site = self._call_sites.get(skip.operator)
        if policy.budget is not None and skipped > policy.budget:
            message = f"{skipped} rows failed in an epoch, and `budget` allows {policy.budget}; {where}"
            raise DataError(with_call_site(message, call_site))
        total = rows + skipped
        if policy.rate is not None and total >= MIN_ROWS_OF_RATE and skipped > policy.rate * total:
            message = f"{skipped} of {total} rows failed in an epoch, and `rate` allows {policy.rate:g}; {where}"
            raise DataError(with_call_site(message, call_site))


class _RecordFile:
    """The file in which this process records rows, beside those of others. It appears with its first record.

    Raises:
        OSError: the folder cannot be written.
    """

    def __init__(self, folder: str) -> None:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        self._path = Path(folder, f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}.jsonl")
        self._written = {_identity(record) for record in _records(folder)}

    def write(self, record: dict[str, Json]) -> None:
        """Appends a record, unless it is there already: a resume comes to some rows again."""
        identity = _identity(record)
        if identity in self._written:
            return
        with open(self._path, "ab", buffering=0) as file:  # few rows fail, so no file stays open
            line = memoryview(json.dumps(record).encode() + b"\n")
            while line:
                line = line[file.write(line) :]
        self._written.add(identity)


def _identity(record: dict[str, Json]) -> str:
    return json.dumps([record.get(name) for name in _IDENTITY])


def _records(folder: str) -> Iterator[dict[str, Json]]:
    """The records in a folder. A line that a killed process has left incomplete is none."""
    for path in sorted(Path(folder).glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                yield cast("dict[str, Json]", record)


def _unwritable(folder: str, error: OSError) -> str:
    return (
        f"the folder {folder} of a `Quarantine` cannot be written ({error.strerror or text_of(error)}); give one that "
        "every rank can write, or make room"
    )
