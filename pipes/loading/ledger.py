"""`Ledger`: the rows of each named source that a job has taken; how states hold it, and how an indexed pipe finds it.

A progress holds the numbers packed, so that to add those of an element is one sum.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from ..core.context import Context
from ..core.origins import PACKED, Account, Ints, in_order, pack, pack_each, unpacked
from ..core.rows import index_array
from ..core.taken import Taken

if TYPE_CHECKING:
    from ..engine.stage import Stage


class Seen(NamedTuple):
    """What was taken of a named source.

    Attributes:
        rows: the rows, in all passes over the data.
        pass_rows: those of the pass that is under way.
        tokens: the tokens, in all passes; None if no `mix(by=...)` counts them.
        pass_tokens: those of the pass that is under way.
    """

    rows: int
    pass_rows: int
    tokens: int | None = None
    pass_tokens: int | None = None


@dataclass(frozen=True)
class Ledger(Mapping[str, Seen]):
    """The rows of each named source in the elements that were taken: `ledger["web"].rows`.

    A source is an input that `fp.mix({"web": web, ...})` names; one of a mixture within "web" is "web/de". It is what
    the consumer has got: nothing that was read ahead, filtered out, skipped, left out at the end of an epoch, or
    repeated as padding.

    Attributes:
        sources: what was taken of each.
        ranks: the ranks whose rows it counts.
    """

    sources: Mapping[str, Seen]
    ranks: int = 1

    def __getitem__(self, name: str) -> Seen:
        return self.sources[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.sources)

    def __len__(self) -> int:
        return len(self.sources)

    def __hash__(self) -> int:
        return hash((tuple(sorted(self.sources.items())), self.ranks))

    def __repr__(self) -> str:
        heads = ["source", "rows", "of this pass"]
        has_tokens = any(seen.tokens is not None for seen in self.values())
        heads += ["tokens", "of this pass"] if has_tokens else []
        table = [heads]
        for name, seen in self.items():
            numbers = seen if has_tokens else seen[:2]
            table.append([name, *("-" if number is None else f"{number:,}" for number in numbers)])
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  ".join([first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]).rstrip()
            for first, *others in table
        ]
        ranks = "1 rank" if self.ranks == 1 else f"{self.ranks} ranks"
        return "\n".join([f"Ledger of {ranks}", *(f"  {line}" for line in lines)])

    @property
    def plain(self) -> dict[str, dict[str, int]]:
        """The numbers as JSON, by source."""
        return {
            name: {unit: number for unit, number in seen._asdict().items() if number is not None}
            for name, seen in self.items()
        }


class Numbers(NamedTuple):
    """The packed numbers of a ledger.

    Attributes:
        accounts: what they count.
        of_pass: those of the pass that is under way.
        before: those of all passes before.
    """

    accounts: tuple[Account, ...] = ()
    of_pass: int = 0
    before: int = 0

    @property
    def text(self) -> str:
        """The numbers as JSON: by unit and source, those of the pass and those of all passes before."""
        return NumbersText().of(self)

    @staticmethod
    def of(text: str) -> Numbers:
        """The numbers that `text` was made of."""
        plain = cast("dict[str, dict[str, list[int]]]", json.loads(text))
        accounts = tuple(Account(name, unit) for unit, names in plain.items() for name in names)
        pairs = [plain[account.unit][account.name] for account in accounts]
        return Numbers(accounts, _pack(now for now, _ in pairs), _pack(before for _, before in pairs))

    def ledger(self, ranks: int) -> Ledger:
        now, before = unpacked(self.of_pass, len(self.accounts)), unpacked(self.before, len(self.accounts))
        found = {account: (a + b, a) for account, a, b in zip(self.accounts, now, before, strict=True)}
        names = dict.fromkeys(account.name for account in self.accounts)
        none = None, None
        seen = {name: Seen(*found[Account(name)], *found.get(Account(name, "tokens"), none)) for name in names}
        return Ledger(seen, ranks)

    def in_accounts(self, accounts: Sequence[Account]) -> Numbers:
        """The same numbers in these accounts, and then in its own that are not among them."""
        if self.accounts == tuple(accounts) or not self.accounts:
            return self._replace(accounts=tuple(accounts))
        every = in_order((*accounts, *self.accounts))
        return Numbers(every, self._moved(self.of_pass, every), self._moved(self.before, every))

    def _moved(self, packed: int, accounts: Sequence[Account]) -> int:
        values = dict(zip(self.accounts, unpacked(packed, len(self.accounts)), strict=True))
        return _pack(values.get(account, 0) for account in accounts)

    def in_pass_before(self) -> Numbers:
        """The same numbers, none of which are of the pass that is under way."""
        return Numbers(self.accounts, 0, self.of_pass + self.before)

    @staticmethod
    def sum(several: Sequence[Numbers]) -> Numbers:
        accounts = in_order(account for one in several for account in one.accounts)
        moved = [one.in_accounts(accounts) for one in several]
        return Numbers(accounts, sum(one.of_pass for one in moved), sum(one.before for one in moved))

    def share(self, rank: int, world_size: int) -> Numbers:
        """The share of one rank; those of all ranks add up to the numbers."""
        now, total = (unpacked(packed, len(self.accounts)) for packed in (self.of_pass, self.of_pass + self.before))
        own_now, own_total = ([len(range(rank, n, world_size)) for n in numbers] for numbers in (now, total))
        before = _pack(a - b for a, b in zip(own_total, own_now, strict=True))
        return Numbers(self.accounts, _pack(own_now), before)


NO_NUMBERS = Numbers()


def _pack(numbers: Iterable[int]) -> int:
    return pack(np.array([*numbers], PACKED))


class NumbersText:
    """Makes the JSON texts of numbers, in which those of all passes before rarely differ."""

    def __init__(self) -> None:
        self._accounts: tuple[Account, ...] = ()
        self._before = 0
        self._form = "{}"  # with a place for each number of the pass

    def of(self, numbers: Numbers) -> str:
        """The text of `numbers`."""
        accounts, now, before = numbers
        if accounts is not self._accounts or before != self._before:
            self._accounts, self._before = accounts, before
            units: dict[str, list[str]] = {}
            for account, number in zip(accounts, unpacked(before, len(accounts)), strict=True):
                name = json.dumps(account.name).replace("%", "%%")
                units.setdefault(account.unit, []).append(f"{name}: [%d, {number}]")
            parts = [f'"{unit}": {{{", ".join(names)}}}' for unit, names in units.items()]
            self._form = f"{{{', '.join(parts)}}}"
        return self._form % unpacked(now, len(accounts))


# An indexed pipe: its elements may be taken without being read, so their rows are found by their positions.

STEP = 1024
"""The elements whose rows are found at once."""


class RowsOfElements:
    """The rows of named sources in the elements of a pass over an indexed pipe, by position.

    A loop may save a state after each element, so the numbers of some elements ahead are kept.
    """

    def __init__(self, stage: Stage, accounts: Sequence[Account], context: Context) -> None:
        self.length = stage.length or 0
        self._stage = stage
        self._accounts = accounts
        self._context = context
        self._start = 0
        self._sums = [0]  # those of the elements from `_start` on

    def between(self, before: Taken, after: Taken) -> int:
        """The packed numbers of `after`, less those of `before`."""
        if before.beyond or after.beyond:
            old, new = _rows_of(before), _rows_of(after)
            come, gone = np.setdiff1d(new, old), np.setdiff1d(old, new)
            return self._sum(come[come < self.length]) - self._sum(gone[gone < self.length])
        first, stop = min(before.total, self.length), min(after.total, self.length)
        return self._of_range(first, stop) if first <= stop else -self._of_range(stop, first)

    def _of_range(self, first: int, stop: int) -> int:
        if stop - first > STEP:
            return sum(self._sum(np.arange(at, min(at + STEP, stop))) for at in range(first, stop, STEP))
        if not self._start <= first <= stop < self._start + len(self._sums):
            self._start = first
            self._sums = pack_each(self._summed(np.arange(first, min(first + STEP, self.length))))
        return self._sums[stop - self._start] - self._sums[first - self._start]

    def _sum(self, elements: Ints) -> int:
        return pack(self._summed(elements)[-1])

    def _summed(self, elements: Ints) -> Ints:
        """The sums of the numbers of the first elements: of none, of one, of two ..."""
        sums = np.zeros((len(elements) + 1, len(self._accounts)), PACKED)
        if len(elements) and (counts := self._stage.counts(elements, self._context)) is not None:
            np.cumsum(counts.numbers(self._accounts), axis=0, out=sums[1:])
        return sums


def _rows_of(taken: Taken) -> Ints:
    """The numbers of the rows that are taken."""
    return np.concatenate([np.arange(taken.first), *map(index_array, taken.beyond)])
