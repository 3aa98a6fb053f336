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
from ...core.rows import Indices
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

Mask = npt.NDArray[np.bool_]


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
    """Knows its rows by position. They are found once, before the first row, and sent to the workers as bits."""

    rows_of_part: RowSet | None = field(default=None, kw_only=True, repr=False, compare=False)

    def division(self) -> str:
        return "their position" if self.key is None else _described(self.key)

    def identity(self) -> Json:
        bits = b"" if self.rows_of_part is None else self.rows_of_part.bits.tobytes()
        return {"part": value_code(self.part), "rows": crc32(bits)}

    def resolve(self, stage: StageView) -> Operator:
        for key in (self.key, self.stratify):
            check_named_key(self, stage, key)
        return replace(self, rows_of_part=RowSet.of(self._masks(stage)))

    def length(self, stage: StageView) -> int | None:
        return len(self._rows_of_part)

    def places(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        return self._rows_of_part.positions(indices)

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
        elif self.key is not None:
            yield self.contains(self._key_digests(stage, self.key))
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
        """Deals the rows class by class, in a random order within each class, so that each part gets its size.

        The parts take turns as in the method of Webster, so each class is divided in the proportions of the whole.
        """
        sizes = list(self.parts.values())
        if self.has_counts:
            self._check_counts(stage, rows)
            counts = np.array(sizes, np.int64)
        else:
            counts = _whole(rows, np.array(sizes))
        assert self.stratify is not None
        classes = self._key_digests(stage, self.stratify)
        by_class = np.lexsort((np.argsort(self._order(rows)[range(rows)]), classes))
        places = np.concatenate([(np.arange(count) + 0.5) / count for count in counts])
        turns = np.repeat(np.arange(len(counts)), counts)[np.argsort(places, kind="stable")]
        mask = np.zeros(rows, np.bool_)
        mask[by_class[turns == list(self.parts).index(self.part)]] = True
        return mask

    def _order(self, rows: int) -> Permutation:
        return Permutation(Context(seed=self.seed).key(self.kind), rows)

    def _key_digests(self, stage: StageView, key: RowKey) -> Digests:
        """The digests of the keys of all rows."""
        parts: list[Digests] = [np.zeros(0, np.uint64)]
        context = Context()
        for block in stage.input.blocks(START, context):
            digests, error = key_digests(block.rows, key)
            if error is not None:
                raise data_error(self, stage.failed(error, block.at.advance(len(digests)), context))
            parts.append(digests)
        return np.concatenate(parts)

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
