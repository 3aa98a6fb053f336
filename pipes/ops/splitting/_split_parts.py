"""The parts of a `split`: which rows are in a part, and the operators that give them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast
from zlib import crc32

import numpy as np
import numpy.typing as npt

from ...core.block import Block
from ...core.code import call_code, value_code
from ...core.context import Context
from ...core.cursor import START, Json
from ...core.digests import Digests, digests_of_column
from ...core.operator import Operator, Order, StageView
from ...core.randomness import mixed
from ...core.rows import BlockRows, Indices, index_array, take
from ...core.skipped import Skipped, SkippedRow
from ...core.skipped_rows import Parted, parted
from ...engine.permutation import Permutation
from ...errors import PlanError, with_call_site
from .._data_error import data_error
from .._key_digests import RowKey, key_digests
from .._keys import check_named_key
from .._same_rows import Rearranged, SameRows
from ..rows._filter_rows import FilterResult, FilterRows
from ._row_set import RowSet

_POSITIONS = 2**20
"""Positions that are looked at together."""
_SCALE = 2**63
_LATE = "it failed when the keys were read, and does not fail now; its key is that of another part"

Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]


def _no_positions() -> Positions:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class SplitPart(SameRows):
    """Gives the rows of one of the parts.

    Attributes:
        parts: the share of each part, or its number of rows.
        key: what decides on the part of a row; None for its position if the input is indexed, else for its content.
        stratify: the key of the classes that are divided each.
        part: the name of the part.
    """

    kind: ClassVar[str] = "split"
    order: ClassVar[Order] = Order.ROW_LOCAL

    parts: Mapping[Any, float]
    key: RowKey = field(default=None, kw_only=True)
    stratify: RowKey = field(default=None, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    part: Hashable = field(kw_only=True, repr=False)

    @property
    def has_counts(self) -> bool:
        """Whether the parts have exact sizes."""
        return all(isinstance(size, int) for size in self.parts.values())

    def call(self) -> str:
        return f"{call_code(self)}[{value_code(self.part)}]"

    def identity(self) -> Json:
        return {"part": value_code(self.part)}

    def remark(self, stage: StageView) -> str | None:
        if self.stratify is not None:
            return f"divides the rows of each class by their position; the classes are {_described(self.stratify)}"
        if self.has_counts:
            return "divides the rows by their position; with more rows in the data, all may change sides"
        return f"divides the rows by {self.division()}; with more rows in the data, none changes sides"

    @abstractmethod
    def division(self) -> str:
        """What decides on the part of a row, in words."""

    def contains(self, digests: Digests) -> Mask:
        """Whether rows are in the part, by the digests of what decides on that."""
        (word,) = mixed(np.array([self.seed], np.uint64) + np.uint64(_SCALE))
        numbers = mixed(digests ^ word) >> np.uint64(1)
        before, share = self._before_and_share()
        total = math.fsum(self.parts.values())
        first, stop = (round(bound / total * _SCALE) for bound in (before, math.fsum([before, share])))
        return (numbers >= np.uint64(first)) & (numbers < np.uint64(stop))

    def _before_and_share(self) -> tuple[float, float]:
        """The shares of the parts before this one together, and its own."""
        names = list(self.parts)
        sizes = list(self.parts.values())
        number = names.index(self.part)
        return math.fsum(sizes[:number]), sizes[number]


@dataclass(frozen=True)
class StreamedSplitPart(FilterRows, SplitPart):
    """Looks at the key or the content of each row."""

    kind: ClassVar[str] = "split"

    def resolve(self, stage: StageView) -> Operator:
        check_named_key(self, stage, self.key)
        return self

    def division(self) -> str:
        return "their content, so equal rows stay together" if self.key is None else _described(self.key)

    def select(self, stage: StageView, block: Block) -> FilterResult:
        digests, error = key_digests(block.rows, self.key)
        return FilterResult(*block.select(np.flatnonzero(self.contains(digests))), len(digests), error)


@dataclass(frozen=True)
class IndexedSplitPart(Rearranged, SplitPart):
    """Knows its rows by position. They are found once, before the first row, and sent to the workers as bits.

    A row that is skipped when the keys are read is in the part of its position, so each of them counts in one part.

    Attributes:
        rows_of_part: the positions of its rows in the input.
        without_key: those of them that were skipped when the keys were read. If such a row does not fail later, its key
            may be that of another part.
    """

    rows_of_part: RowSet | None = field(default=None, kw_only=True, repr=False, compare=False)
    without_key: Positions = field(default_factory=_no_positions, kw_only=True, repr=False, compare=False)

    def division(self) -> str:
        return "their position" if self.key is None else _described(self.key)

    def identity(self) -> Json:
        bits = b"" if self.rows_of_part is None else self.rows_of_part.bits.tobytes()
        return {"part": value_code(self.part), "rows": crc32(bits)}

    def resolve(self, stage: StageView) -> Operator:
        for key in (self.key, self.stratify):
            check_named_key(self, stage, key)
        if self.key is None:
            return replace(self, rows_of_part=RowSet.of(self._masks(stage)))
        digests, skipped = self._key_digests(stage, self.key)
        digests[skipped] = digests_of_column(skipped)
        mask = self.contains(digests)
        return replace(self, rows_of_part=RowSet.of([mask]), without_key=skipped[mask[skipped]])

    def length(self, stage: StageView) -> int | None:
        return len(self._rows_of_part)

    def places(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        return self._rows_of_part.positions(indices)

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        rows = super().rows(stage, indices, context)
        if len(self.without_key):
            places = index_array(self.places(stage, indices, context))
            late = np.flatnonzero(np.isin(places, self.without_key))
            if len(late):
                return self._without_rows_of_others(stage, rows, set(late.tolist()), places, context)
        return rows

    def _without_rows_of_others(
        self, stage: StageView, rows: BlockRows, late: set[int], places: Positions, context: Context
    ) -> BlockRows:
        """Skips rows whose keys were not known, and now are those of other parts: keys would be in two parts."""
        parts = parted(rows)
        numbers = [number for number, place in enumerate(parts.places) if place in late]
        digests, error = key_digests(take(parts.values, np.array(numbers, np.int64)), self.key)
        if error is not None:
            place = parts.places[numbers[len(digests)]]
            raise data_error(self, stage.failed_at(error, int(places[place]), context))
        others = {numbers[number] for number in np.flatnonzero(~self.contains(digests)).tolist()}
        if not others:
            return rows
        own = [number for number in range(len(parts.places)) if number not in others]
        values = take(parts.values, np.array(own, np.int64))
        mark = Skipped((SkippedRow(f".{self.call()}", _LATE),))
        skipped = {**parts.skipped, **{parts.places[number]: mark for number in others}}
        return Parted(values, [parts.places[number] for number in own], skipped, parts.total).merged(values)

    @property
    def _rows_of_part(self) -> RowSet:
        assert self.rows_of_part is not None, "`resolve` finds the rows before a run"
        return self.rows_of_part

    def _masks(self, stage: StageView) -> Iterator[Mask]:
        """For ranges of the input's rows, one after the other, whether they are in the part."""
        rows = stage.input.length
        assert rows is not None, "an indexed pipe knows its length"
        if self.stratify is not None:
            yield self._stratified(stage, rows)
        elif self.has_counts:
            yield self._permuted(stage, rows)
        else:
            for start in range(0, rows, _POSITIONS):
                positions = np.arange(start, min(rows, start + _POSITIONS))
                yield self.contains(digests_of_column(positions))

    def _permuted(self, stage: StageView, rows: int) -> Mask:
        """A stretch of a random order for each part."""
        self._check_counts(stage, rows)
        before, count = map(int, self._before_and_share())
        order = self._order(rows)
        mask = np.zeros(rows, np.bool_)
        for start in range(before, before + count, _POSITIONS):
            mask[order[range(start, min(before + count, start + _POSITIONS))]] = True
        return mask

    def _stratified(self, stage: StageView, rows: int) -> Mask:
        """Divides the rows class by class, in a random order within each class, so that each part gets its size.

        Rows that are skipped when the classes are read are a class of their own.
        The parts take turns as in the method of Webster, so each class is divided in the proportions of the whole.
        """
        sizes = list(self.parts.values())
        if self.has_counts:
            self._check_counts(stage, rows)
            counts = np.array(sizes, np.int64)
        else:
            counts = _whole(rows, np.array(sizes))
        assert self.stratify is not None
        classes, _ = self._key_digests(stage, self.stratify)
        by_class = np.lexsort((np.argsort(self._order(rows)[range(rows)]), classes))
        places = np.concatenate([(np.arange(count) + 0.5) / count for count in counts])
        turns = np.repeat(np.arange(len(counts)), counts)[np.argsort(places, kind="stable")]
        mask = np.zeros(rows, np.bool_)
        mask[by_class[turns == list(self.parts).index(self.part)]] = True
        return mask

    def _order(self, rows: int) -> Permutation:
        return Permutation(Context(seed=self.seed).key(self.kind), rows)

    def _key_digests(self, stage: StageView, key: RowKey) -> tuple[Digests, Positions]:
        """The digests of the keys of all rows, and the positions of those that are skipped, whose digest is 0."""
        digests = np.zeros(stage.input.length or 0, np.uint64)
        skipped = [_no_positions()]
        context = Context()
        for block in stage.input.blocks(START, context):
            parts = parted(block.rows)
            places = np.array(parts.places, np.int64)
            keyed, error = key_digests(parts.values, key)
            if error is not None:
                raise data_error(self, stage.failed(error, block.at.advance(int(places[len(keyed)])), context))
            digests[block.at.position + places] = keyed
            holes = [place for place, mark in parts.skipped.items() if mark.is_row]
            skipped.append(block.at.position + np.array(holes, np.int64))
        return digests, np.concatenate(skipped)

    def _check_counts(self, stage: StageView, rows: int) -> None:
        total = sum(cast("Mapping[Any, int]", self.parts).values())
        if total != rows:
            raise PlanError(
                with_call_site(
                    f"`{call_code(self)}`: the sizes of the parts must sum to the number of rows, {rows}, because each "
                    f"row is in one part, but sum to {total}; shares such as 0.9 and 0.1 fit any number of rows",
                    stage.call_site,
                )
            )


def _whole(rows: int, shares: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Whole numbers in these proportions that sum to `rows`: the largest remainders are rounded up."""
    quotas = shares / shares.sum() * rows
    counts: npt.NDArray[np.int64] = np.floor(quotas).astype(np.int64)
    counts[np.argsort(counts - quotas, kind="stable")[: rows - counts.sum()]] += 1
    return counts


def _described(key: RowKey) -> str:
    if isinstance(key, tuple):
        return f"the column{'s' * (len(key) > 1)} {', '.join(map(repr, key))}"
    return f"the function {value_code(cast('Callable[..., object]', key))}"
