"""`ColumnOutline`: what `profile` keeps of a column of any type, after some of its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from ..core.column import Column, to_arrow
from ..errors import UnfitError
from .distinct_values import CountsStatistic, Tally
from .number_statistics import Moments
from .present_values import missing_rows
from .quantile_statistics import QuantileSketch

MAX_DISTINCT = 100_000
"""Of more distinct values, no value is counted."""
EXAMPLES = 3
NUMBER = r"^\s*[-+]?(\d+([.,]\d*)?|[.,]\d+)([eE][-+]?\d+)?\s*$"
"""Text that a person takes for a number."""


@dataclass
class ColumnOutline:
    """What is known of a column after some of its rows.

    Attributes:
        rows, missing: the number of rows, and of those without a value.
        types: the types of the column, each with the rows of it.
        examples: its first values.
        infinite: how many numbers are infinite.
        moments, sketch: of the other numbers; None if there are none.
        tally: the distinct values; None if their type is not counted, or there are too many.
        number_texts: how many values are text that is a number.
        no_number: a value that is text, and no number.
        span: the first and the last date or time.
    """

    rows: int
    missing: int
    types: Counter[str]
    examples: list[Any]
    infinite: int = 0
    moments: Moments | None = None
    sketch: QuantileSketch | None = None
    tally: Tally | None = None
    number_texts: int = 0
    no_number: str | None = None
    span: tuple[Any, Any] | None = None

    @staticmethod
    def of(column: Column) -> ColumnOutline:
        """The outline of the values of a column."""
        import pyarrow as pa

        array: Any = to_arrow(column)
        if isinstance(array.type, pa.DictionaryType):
            array = array.dictionary_decode()
        present = array.drop_null()
        examples = [value for value in present.slice(0, EXAMPLES).to_pylist() if value == value]
        kind = "decimal" if pa.types.is_decimal(array.type) else str(array.type)
        types = Counter({} if kind == "null" else {kind: len(array)})
        outline = ColumnOutline(len(array), missing_rows(array), types, examples)
        outline._add_numbers(present)
        outline._add_text(present)
        outline._add_span(present)
        try:
            outline.tally = CountsStatistic().summary(array)
        except UnfitError:
            outline.tally = None
        return outline

    @staticmethod
    def merged(parts: Sequence[ColumnOutline]) -> ColumnOutline:
        """The outline of the rows of all parts, at least one."""
        examples = list(islice((value for part in parts for value in part.examples), EXAMPLES))
        types = sum((part.types for part in parts), Counter[str]())
        whole = ColumnOutline(sum(p.rows for p in parts), sum(p.missing for p in parts), types, examples)
        whole.infinite = sum(part.infinite for part in parts)
        whole.number_texts = sum(part.number_texts for part in parts)
        whole.no_number = next((part.no_number for part in parts if part.no_number is not None), None)
        if moments := [part.moments for part in parts if part.moments is not None]:
            merged = Moments.merged(moments)
            assert isinstance(merged, Moments)
            whole.moments = merged
            whole.sketch = QuantileSketch.merged([part.sketch for part in parts if part.sketch is not None])
        if spans := [part.span for part in parts if part.span is not None]:
            whole.span = min(low for low, _ in spans), max(high for _, high in spans)
        tallies = [part.tally for part in parts if part.missing < part.rows]
        if tallies and all(tally is not None for tally in tallies) and len(types) == 1:
            tally = Tally.merged([tally for tally in tallies if tally is not None])
            whole.tally = tally if len(tally.values) <= MAX_DISTINCT else None
        return whole

    def _add_numbers(self, present: Any) -> None:
        import pyarrow as pa

        kind = present.type
        if pa.types.is_decimal(kind):
            present = present.cast(pa.float64())
        elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            return
        numbers = present.to_numpy(zero_copy_only=False).astype(np.float64)
        numbers = numbers[~np.isnan(numbers)]
        finite = numbers[np.isfinite(numbers)]
        self.infinite = len(numbers) - len(finite)
        self.moments = Moments.of(finite)
        self.sketch = QuantileSketch.of(len(finite), finite)

    def _add_text(self, present: Any) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        if not (pa.types.is_string(present.type) or pa.types.is_large_string(present.type)):
            return
        is_number: Any = pc.match_substring_regex(present, NUMBER)
        self.number_texts = int(is_number.true_count)
        others = present.filter(pc.invert(is_number)).slice(0, 1).to_pylist()
        self.no_number = others[0] if others else None

    def _add_span(self, present: Any) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        if len(present) and (pa.types.is_date(present.type) or pa.types.is_timestamp(present.type)):
            bounds: Any = pc.min_max(present).as_py()
            self.span = bounds["min"], bounds["max"]
