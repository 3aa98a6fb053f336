"""`vocabulary` and `counts`: how often each value of a column occurs."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from ..core.arrow import arrow_array
from ..core.checks import check_int
from ..core.lazy import pa, pc
from ..core.rows import Column, to_arrow
from ..errors import UnfitError
from .statistics import Fitted, Statistic, Summary


def vocabulary(*, min_count: int = 1, max_size: int | None = None) -> Statistic[Any]:
    """The values of a column by frequency, for `index_of` and `one_hot`: of text, whole numbers, floats or bools.

    Args:
        min_count: rarer values are left out.
        max_size: the number of values that are kept, the most frequent ones.
    """
    check_int("min_count", min_count, least=1)
    return VocabularyStatistic(min_count, None if max_size is None else check_int("max_size", max_size, least=1))


def counts() -> Statistic[Any]:
    """How often each value occurs, for `resample(source=...)`."""
    return CountsStatistic()


@dataclass(frozen=True)
class Vocabulary(Fitted, Sequence[Hashable]):
    """The values of a column, the most frequent first; values of one frequency are sorted.

    Attributes:
        values: the values.
        counts: the rows of each.
        rows: the number of rows.
        missing: the number of rows without a value.
    """

    kind: ClassVar[str] = "vocabulary"

    values: tuple[Hashable, ...]
    counts: tuple[int, ...]
    rows: int
    missing: int

    @property
    def left_out(self) -> int:
        """The number of rows whose value is too rare for the vocabulary."""
        return self.rows - self.missing - sum(self.counts)

    def inverse(self, numbers: Any) -> list[Hashable | None]:
        """The values that `index_of` made these numbers of; None for other numbers."""
        return [self.values[n] if 0 <= n < len(self.values) else None for n in np.asarray(numbers).tolist()]

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Any) -> Any:
        return self.values[index]

    def to_json(self) -> dict[str, object]:
        values, counts = list(self.values), list(self.counts)
        return {"rows": self.rows, "missing": self.missing, "values": values, "counts": counts}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Vocabulary:
        return cls(tuple(values["values"]), tuple(values["counts"]), values["rows"], values["missing"])


@dataclass(frozen=True)
class Counts(Fitted, Mapping[Hashable, int]):
    """How often each value of a column occurs, the most frequent first: a mapping, as `resample` takes it.

    Attributes:
        counts: by value.
        rows: the number of rows.
        missing: the number of rows without a value.
    """

    kind: ClassVar[str] = "counts"

    counts: Mapping[Hashable, int]
    rows: int
    missing: int

    def __getitem__(self, value: Hashable) -> int:
        return self.counts[value]

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.counts)

    def __len__(self) -> int:
        return len(self.counts)

    def to_json(self) -> dict[str, object]:
        return {"rows": self.rows, "missing": self.missing, "counts": [list(pair) for pair in self.counts.items()]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Counts:
        return cls(dict(values["counts"]), values["rows"], values["missing"])


class Tally(Summary):
    """The distinct values of some rows as an Arrow array, and their counts."""

    def __init__(self, rows: int, values: Any, counts: Any) -> None:
        self.rows = rows
        self.values = values
        self.counts = counts
        self.nbytes = int(values.nbytes + counts.nbytes)

    @classmethod
    def merged(cls, parts: Sequence[Tally]) -> Tally:
        rows = sum(part.rows for part in parts)
        filled = [part for part in parts if len(part.values)] or parts[:1]
        types = {part.values.type for part in filled}
        if len(types) > 1:
            if not all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in types):
                raise UnfitError(f"has values of several types: {', '.join(sorted(map(str, types)))}")
            filled = [Tally(0, part.values.cast(pa.float64()), part.counts) for part in filled]
        if len(filled) == 1:
            return cls(rows, filled[0].values, filled[0].counts)
        values: Any = pa.chunked_array([part.values for part in filled])
        counts: Any = pa.chunked_array([part.counts for part in filled])
        table: Any = pa.table({"value": values, "count": counts})
        grouped = table.group_by("value", use_threads=False).aggregate([("count", "sum")]).combine_chunks()
        return cls(rows, _one_chunk(grouped["value"]), _one_chunk(grouped["count_sum"]))

    def ordered(self) -> tuple[list[Any], list[int]]:
        """Values and counts, the most frequent first, and values of one frequency sorted."""
        order = [("count", "descending"), ("value", "ascending")]
        table: Any = pa.table({"value": self.values, "count": self.counts}).sort_by(cast("Any", order))
        return table["value"].to_pylist(), table["count"].to_pylist()

    @property
    def missing(self) -> int:
        return self.rows - int(pc.sum(self.counts).as_py() or 0)

    def to_json(self) -> dict[str, object]:
        values, counts = self.values.to_pylist(), self.counts.to_pylist()
        return {"rows": self.rows, "type": str(self.values.type), "values": values, "counts": counts}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Tally:
        array = arrow_array(values["values"], pa.type_for_alias(values["type"]))
        return cls(values["rows"], array, arrow_array(values["counts"], pa.int64()))


@dataclass(frozen=True)
class DistinctValues(Statistic[Tally]):
    """Statistics that count each value."""

    summary_type: ClassVar[type[Summary]] = Tally

    def summary(self, column: Column) -> Tally:
        if isinstance(column, np.ndarray) and column.ndim > 1:
            raise UnfitError("has arrays, and single values are needed")
        array: Any = to_arrow(column)
        if isinstance(array.type, pa.DictionaryType):
            array = array.dictionary_decode()
        try:
            array = array.cast(_common_type(array.type)).drop_null()
        except pa.ArrowInvalid:
            raise UnfitError("has values of 2**63 or more, which are not counted; `.cast` makes text") from None
        if pa.types.is_floating(array.type):
            array = pc.add(array.filter(pc.invert(pc.is_nan(array))), arrow_array([0.0])[0])  # 0.0 and -0.0 are one
        pairs: Any = pc.value_counts(array)
        return Tally(len(column), pairs.field(0), pairs.field(1))


@dataclass(frozen=True)
class VocabularyStatistic(DistinctValues):
    kind: ClassVar[str] = "vocabulary"

    min_count: int = 1
    max_size: int | None = None

    def result(self, summary: Tally) -> Vocabulary:
        values, counts = summary.ordered()
        size = next((n for n, count in enumerate(counts) if count < self.min_count), len(counts))
        size = size if self.max_size is None else min(size, self.max_size)
        if not size:
            none = "has no value" if not values else f"has no value that occurs {self.min_count} times"
            raise UnfitError(f"{none} in {summary.rows} rows")
        return Vocabulary(tuple(values[:size]), tuple(counts[:size]), summary.rows, summary.missing)


@dataclass(frozen=True)
class CountsStatistic(DistinctValues):
    kind: ClassVar[str] = "counts"

    def result(self, summary: Tally) -> Counts:
        return Counts(dict(zip(*summary.ordered(), strict=True)), summary.rows, summary.missing)


def _common_type(kind: Any) -> Any:
    """The type in which all blocks of a column are counted."""
    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return pa.large_string()
    if types.is_integer(kind):
        return pa.int64()
    if types.is_floating(kind):
        return pa.float64()
    if types.is_boolean(kind) or types.is_null(kind):
        return kind
    raise UnfitError(f"is of type {kind}, and values are counted that are text, numbers or bools; `.cast` makes text")


def _one_chunk(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
