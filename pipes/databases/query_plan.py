"""`QueryPlan`: the columns and the ranges of a query, found once for a job and all states of it."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

from ..core.cursor import Json
from .driver import Key, KeyRange
from .keys import key_of, plain_key

if TYPE_CHECKING:
    import pyarrow as pa


class RangeUnit(NamedTuple):
    """The rows behind `after`, up to the row with the key `high`. What is None sets no bound.

    Without a gap between ranges, a row that is new somewhere changes the number of rows of a range.

    Attributes:
        number: of the range.
        first: how many rows the ranges before it have.
        after: the last key of the range before it.
        low, high: the keys of its first and last row; None for the rows of a query without a key.
        rows: how many it has; -1 if that is not known.
    """

    number: int
    first: int
    after: Key | None
    low: Key | None
    high: Key | None
    rows: int


WHOLE_QUERY = RangeUnit(0, 0, None, None, None, -1)


@dataclass(frozen=True, eq=False)
class QueryPlan:
    """What is read, and in which units.

    Attributes:
        schema: of the query, as the driver gives it.
        units: the ranges; the whole query if it has no key.
    """

    schema: pa.Schema
    units: Sequence[RangeUnit]

    @staticmethod
    def of(schema: pa.Schema, ranges: Sequence[KeyRange] | None) -> QueryPlan:
        if ranges is None:
            return QueryPlan(schema, [WHOLE_QUERY])
        units: list[RangeUnit] = []
        first, after = 0, None
        for number, (low, high, rows) in enumerate(ranges):
            units.append(RangeUnit(number, first, after, low, high, rows))
            first, after = first + rows, high
        return QueryPlan(schema, units)

    @property
    def rows(self) -> int | None:
        """How many rows there are, if the ranges say it."""
        counts = [unit.rows for unit in self.units]
        return None if -1 in counts else sum(counts)

    def text(self) -> str:
        """The plan for a state."""
        schema = base64.b64encode(self.schema.serialize().to_pybytes()).decode()
        ranges = None
        if self.rows is not None:
            ranges = [[plain_key(unit.low), plain_key(unit.high), unit.rows] for unit in self.units]
        plain = json.dumps([schema, ranges], separators=(",", ":"))
        return base64.b85encode(zlib.compress(plain.encode(), 9)).decode()

    @staticmethod
    def of_text(text: str) -> QueryPlan:
        """The plan that `text` was made of.

        Raises:
            ValueError: it is no such text.
        """
        import pyarrow as pa

        try:
            schema, entries = json.loads(zlib.decompress(base64.b85decode(text)))
            fields = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema)))
            key_ranges = None if entries is None else [_range(*entry) for entry in entries]
        except (zlib.error, pa.ArrowException, TypeError, KeyError, OSError) as error:
            raise ValueError("it is no plan of a query") from error
        return QueryPlan.of(fields, key_ranges)


def _range(low: Json, high: Json, rows: int) -> KeyRange:
    return KeyRange(cast("Key", key_of(low)), cast("Key", key_of(high)), rows)
