"""`Origins`: where the rows of a block come from, for errors and the ledger; `RowCounts`: the rows of named sources.

They go with the rows through windows, filters and groups: an element's are those of the rows that it is made of.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import NamedTuple, cast, overload

import numpy as np
import numpy.typing as npt

from ..errors import Origin
from .rows import Indices, index_array, index_list

Ints = npt.NDArray[np.int64]


PACKED = np.dtype("<i8")
"""A number of the ledger in a sum of all of them: they are packed as one int, the first in the lowest 64 bits."""


def pack(numbers: npt.NDArray[np.int64]) -> int:
    """Numbers of the type `PACKED` as one number."""
    return int.from_bytes(numbers.tobytes(), "little")


def pack_each(numbers: Ints) -> list[int]:
    """Each row as one number."""
    size, values = PACKED.itemsize * numbers.shape[1], numbers.astype(PACKED).tobytes()
    return [int.from_bytes(values[at : at + size], "little") for at in range(0, len(values), size)]


def unpacked(packed: int, count: int) -> tuple[int, ...]:
    """The `count` numbers that were packed."""
    return struct.unpack(f"<{count}q", packed.to_bytes(PACKED.itemsize * count, "little"))


class Account(NamedTuple):
    """A number of the ledger: the rows or the tokens of a named source."""

    name: str
    unit: str = "rows"


LOST = Account("", "lost")
"""Marks rows that were skipped, which no named input counts, until they are summed."""


def in_order(accounts: Iterable[Account]) -> tuple[Account, ...]:
    """The accounts, each once: first those of rows."""
    return tuple(sorted(dict.fromkeys(accounts), key=lambda account: account.unit))


@dataclass(slots=True)
class RowCounts:
    """The number of rows, and of tokens, of each named source that each row is made of.

    Attributes:
        accounts: what the columns of `kinds` count.
        kinds: the numbers that rows have; few differ before rows are put into groups.
        codes: for each row its row of `kinds`.
    """

    accounts: tuple[Account, ...]
    kinds: Ints
    codes: Ints

    @staticmethod
    def each(accounts: tuple[Account, ...], kinds: Ints) -> RowCounts:
        """A row of `kinds` for each row."""
        return RowCounts(accounts, kinds, np.arange(len(kinds)))

    @staticmethod
    def of_inputs(
        names: Sequence[str], numbers: Indices, inner: RowCounts | None = None, sizes: Ints | None = None
    ) -> RowCounts | None:
        """Those of rows that come from inputs with these names.

        Args:
            names: of the inputs; none if they have no names.
            numbers: the input of each row.
            inner: those that the rows have already, with the names of the inputs.
            sizes: the tokens of each row, if they are counted.
        """
        if not names:
            return inner
        accounts = tuple(map(Account, names))
        numbers = index_array(numbers)
        own = RowCounts(accounts, _identity(len(names)), numbers)
        if inner is not None and LOST in inner.accounts:
            own = own.where(inner.dense[:, inner.accounts.index(LOST)] == 0)
        if sizes is not None:
            tokens = np.zeros((len(numbers), len(names)), np.int64)
            tokens[np.arange(len(numbers)), numbers] = sizes
            accounts += tuple(Account(name, "tokens") for name in names)
            own = RowCounts.each(accounts, np.concatenate([own.dense, tokens], axis=1))
        return own if inner is None else own.plus(inner)

    @property
    def dense(self) -> Ints:
        """The numbers of each row."""
        return self.kinds[self.codes]

    def below(self, name: str) -> RowCounts:
        """The same, in the input of that name."""
        accounts = (own if own == LOST else Account(f"{name}/{own.name}", own.unit) for own in self.accounts)
        return replace(self, accounts=tuple(accounts))

    @staticmethod
    def without(counts: RowCounts | None, lost: npt.NDArray[np.bool_]) -> RowCounts:
        """The same, with nothing for rows that were skipped, which are marked."""
        mark = RowCounts((LOST,), np.array([[0], [1]]), lost.astype(np.int64))
        return mark if counts is None else counts.where(~lost).plus(mark)

    def select(self, places: Indices) -> RowCounts:
        return RowCounts(self.accounts, self.kinds, self.codes[index_array(places)])

    def where(self, counts: npt.NDArray[np.bool_]) -> RowCounts:
        """The same, with nothing for the other rows."""
        kinds = np.concatenate([np.zeros((1, len(self.accounts)), np.int64), self.kinds])
        return RowCounts(self.accounts, kinds, np.where(counts, self.codes + 1, 0))

    def plus(self, other: RowCounts) -> RowCounts:
        """The sum of both for each row."""
        accounts = _all_accounts([self, other])
        return RowCounts.each(accounts, self._in(accounts).dense + other._in(accounts).dense)

    def grouped(self, groups: Iterable[Iterable[int]]) -> RowCounts:
        """The sum of each group; `groups` has the numbers of its rows."""
        groups = [*groups]
        if all(type(group) is range and group.step == 1 for group in groups):
            spans = cast("list[range]", groups)
            if all(before.stop == after.start for before, after in pairwise(spans)):
                owners = np.repeat(np.arange(len(spans)), [len(span) for span in spans])
                return self.summed(np.arange(spans[0].start, spans[-1].stop), owners, len(spans))
        rows = [_numbers(group) for group in groups]
        sizes = np.array([len(group) for group in rows], np.int64)
        owners = np.repeat(np.arange(len(rows)), sizes)
        return self.summed(np.concatenate([np.zeros(0, np.int64), *rows]), owners, len(rows))

    def summed(self, rows: Ints, owners: Ints, count: int) -> RowCounts:
        """The sums of the rows `rows` for each of `count` owners."""
        kinds = len(self.kinds)
        if kinds <= 64:
            of_kinds = np.bincount(owners * kinds + self.codes[rows], minlength=count * kinds)
            return RowCounts.each(self.accounts, of_kinds.reshape(count, kinds) @ self.kinds)
        sums = np.zeros((count, len(self.accounts)), np.int64)
        np.add.at(sums, owners, self.kinds[self.codes[rows]])
        return RowCounts.each(self.accounts, sums)

    def numbers(self, accounts: Sequence[Account]) -> Ints:
        """The numbers of each row in these accounts."""
        return self._in(accounts).dense

    def packed(self, accounts: Sequence[Account]) -> list[int]:
        """The same, each row packed as one number."""
        if len(self.kinds) >= len(self.codes):
            return pack_each(self.numbers(accounts))
        packed = pack_each(self._in(accounts).kinds)
        return [packed[code] for code in self.codes.tolist()]

    def _in(self, accounts: Sequence[Account]) -> RowCounts:
        """With these accounts, which include its own."""
        if tuple(accounts) == self.accounts:
            return self
        kinds = np.zeros((len(self.kinds), len(accounts)), np.int64)
        places = {account: place for place, account in enumerate(accounts)}
        for own, account in enumerate(self.accounts):
            if account in places:
                kinds[:, places[account]] += self.kinds[:, own]
        return RowCounts(tuple(accounts), kinds, self.codes)

    @staticmethod
    def joined(parts: Sequence[tuple[RowCounts | None, int]]) -> RowCounts | None:
        """Those of several parts, one after the other; a part without any has a number of rows."""
        known = [part for part, _ in parts if part is not None]
        if not known:
            return None
        first = known[0]
        if len(known) == len(parts) and all(p.kinds is first.kinds and p.accounts == first.accounts for p in known):
            return RowCounts(first.accounts, first.kinds, np.concatenate([part.codes for part in known]))
        accounts = _all_accounts(known)
        kinds, codes, start = [np.zeros((1, len(accounts)), np.int64)], list[Ints](), 1
        for part, rows in parts:
            if part is None:
                codes.append(np.zeros(rows, np.int64))
                continue
            kinds.append(part._in(accounts).kinds)
            codes.append(part.codes + start)
            start += len(part.kinds)
        joined = RowCounts(accounts, np.concatenate(kinds), np.concatenate(codes))
        return joined if start <= len(joined.codes) else RowCounts.each(accounts, joined.dense)


def _numbers(group: Iterable[int]) -> Ints:
    return index_array(group) if isinstance(group, (range, np.ndarray)) else np.array([*group], np.int64)


def _all_accounts(counts: Sequence[RowCounts]) -> tuple[Account, ...]:
    return tuple(dict.fromkeys(account for one in counts for account in one.accounts))


@cache  # the same object for equal sizes, so that blocks are joined without a look
def _identity(size: int) -> Ints:
    return np.identity(size, np.int64)


@dataclass(slots=True)
class Origins:
    """Where the rows of a block come from. It is the sequence of their `Origin`s.

    Attributes:
        rows: file and row of each; only in a replay that looks for it.
        counts: the rows of named sources that each is made of; only in a run of a loader.
    """

    rows: Sequence[Origin | None] | None = None
    counts: RowCounts | None = None

    @staticmethod
    def of(rows: Sequence[Origin | None] | None, counts: RowCounts | None = None) -> Origins | None:
        """The origins, if there are any."""
        return None if rows is None and counts is None else Origins(rows, counts)

    def __len__(self) -> int:
        return len(self.rows) if self.rows is not None else 0 if self.counts is None else len(self.counts.codes)

    def __iter__(self) -> Iterator[Origin | None]:
        return iter(self.rows if self.rows is not None else [None] * len(self))

    @overload
    def __getitem__(self, index: int) -> Origin | None: ...
    @overload
    def __getitem__(self, index: slice) -> Origins: ...
    def __getitem__(self, index: int | slice) -> Origin | Origins | None:
        if isinstance(index, int):
            return None if self.rows is None else self.rows[index]
        counts = self.counts
        if counts is not None:
            counts = RowCounts(counts.accounts, counts.kinds, counts.codes[index])
        return Origins(None if self.rows is None else self.rows[index], counts)

    def select(self, places: Indices) -> Origins:
        """Those of the rows at `places`; a place may come several times."""
        rows = None if self.rows is None else [self.rows[place] for place in index_list(places)]
        return Origins(rows, None if self.counts is None else self.counts.select(places))

    def counted(self, where: npt.NDArray[np.bool_]) -> Origins:
        """The same, in which only some rows count: others are made of rows that have counted before."""
        return self if self.counts is None else replace(self, counts=self.counts.where(where))

    def grouped(self, groups: Iterable[Iterable[int]]) -> Origins:
        """The origins of groups; `groups` has the numbers of the rows of each."""
        groups = [*groups]
        rows = self.rows
        joined = None if rows is None else [Origin.joined(rows[row] for row in group) for group in groups]
        return Origins(joined, None if self.counts is None else self.counts.grouped(groups))

    @staticmethod
    def joined(parts: Sequence[tuple[Origins | None, int]]) -> Origins | None:
        """Those of several parts, one after the other; a part without any has a number of rows."""
        if all(part is None for part, _ in parts):
            return None
        if len(parts) == 1:
            return parts[0][0]
        rows: list[Origin | None] | None = None
        if any(part is not None and part.rows is not None for part, _ in parts):
            rows = [row for part, count in parts for row in (part or [None] * count)]
        counts = RowCounts.joined([(None if part is None else part.counts, count) for part, count in parts])
        return Origins.of(rows, counts)

    @staticmethod
    def zipped(parts: Sequence[Origins | None]) -> Origins | None:
        """Those of elements made of one row of each part."""
        rows = [part.rows for part in parts if part is not None and part.rows is not None]
        counts = [part.counts for part in parts if part is not None and part.counts is not None]
        total = counts[0] if counts else None
        for other in counts[1:]:
            total = None if total is None else total.plus(other)
        return Origins.of([Origin.joined(own) for own in zip(*rows, strict=True)] if rows else None, total)
