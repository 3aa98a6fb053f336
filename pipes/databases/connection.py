"""Connections that run SQL and divide the rows of a query into ranges of keys."""

from __future__ import annotations

import base64
import json
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple, cast

from ..core.cursor import Json
from ..core.lazy import pa, pc
from ..errors import DataError
from .driver import Key, KeyRange, SqlDialect, SqlQuery

SAMPLE_ROWS = 1024
"""The rows that show the types of columns, if the database has none for columns."""


class StatementConnection(ABC):
    """Plans and reads a query with the statements of a dialect."""

    def __init__(self, dialect: SqlDialect) -> None:
        self.dialect = dialect

    @abstractmethod
    def execute(self, statement: str, parameters: Sequence[object] = ()) -> Iterator[pa.RecordBatch]:
        """Run a statement, and give its rows in batches. If there are none, a batch without rows says the types."""

    def cancel(self) -> None:
        """End the statement that another thread runs, if the driver can do that."""
        return

    @abstractmethod
    def close(self) -> None: ...

    def run(self, statement: str) -> None:
        """Run a statement, and drop its rows."""
        for _ in self.execute(statement):
            pass

    def begin(self) -> None:
        """Begin a transaction in which all queries see the same rows, if the database has such."""
        if self.dialect.begin is not None:
            self.run(self.dialect.begin)

    def export_snapshot(self) -> str | None:
        """The name of a snapshot of this transaction, which lives as long as the transaction; None if there is none."""
        if self.dialect.export_snapshot is None:
            return None
        self.run("SET LOCAL idle_in_transaction_session_timeout TO 0")  # else the server may end the connection
        (name,) = (str(value) for batch in self.execute(self.dialect.export_snapshot) for value in batch[0].to_pylist())
        return name

    def use_snapshot(self, name: str) -> None:
        """Begin a transaction that sees a snapshot of another one."""
        self.begin()
        self.run(self.dialect.use_snapshot.format(name.replace("'", "''")))

    def describe(self, query: SqlQuery) -> pa.Schema:
        """Names and types by the first rows; of a column without values there, by a value further on."""
        sample = pa.Table.from_batches(list(self.execute(self.dialect.head(query, SAMPLE_ROWS), query.parameters)))
        fields: list[pa.Field[pa.DataType]] = []
        for column, field in zip(sample.columns, sample.schema, strict=True):
            if sample.num_rows and column.null_count == sample.num_rows:
                for batch in self.execute(self.dialect.value(query, field.name), query.parameters):
                    field = batch.schema.field(0) if batch.num_rows else field
            fields.append(field)
        return pa.schema(fields)

    def ranges(self, query: SqlQuery, count: int | None) -> list[KeyRange]:
        """Ranges of equal length. All keys come once, in order: one column of the rows that will be read."""
        batches = self.execute(self.dialect.count(query), query.parameters)
        (rows,) = [int(cast("Any", number)) for batch in batches for number in batch.column(0).to_pylist()]
        size = max(1, -(-rows // (default_count(rows) if count is None else count)))
        ranges: list[KeyRange] = []
        last: Key | None = None
        for batch in self.execute(self.dialect.keys(query), query.parameters):
            keys: Any = batch.column(0)
            while len(keys):
                length = ranges[-1].rows % size if ranges else 0  # of the range that has begun
                part = keys[: size - length]
                first, last = check_keys(part, query.key or "", last)
                ranges.append(KeyRange(ranges.pop().low if length else first, last, length + len(part)))
                keys = keys[len(part) :]
        return ranges

    def read(self, query: SqlQuery, after: Key | None, high: Key | None) -> Iterator[pa.RecordBatch]:
        return self.execute(self.dialect.between(query, after, high), query.parameters)


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """A batch without rows."""
    # Other ways, such as `from_pylist`, import pandas if it is installed.
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


MAX_RANGES = 4096
ROWS_OF_RANGE = 65_536
"""A range has no more rows, unless there are very many ranges, or the user says how many."""


def default_count(rows: int) -> int:
    """The number of ranges: a power of two, so that the usual numbers of shards divide them."""
    return min(1 << max(0, -(-rows // ROWS_OF_RANGE) - 1).bit_length(), MAX_RANGES)


# Keys


def check_key_type(name: str, kind: pa.DataType) -> None:
    """Check that values of this type identify rows."""
    types: Any = pa.types
    storage: Any = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    # A column without values may have no type.
    is_exact = types.is_integer(storage) or types.is_decimal(storage) or types.is_null(storage)
    is_text = types.is_string(storage) or types.is_large_string(storage) or types.is_string_view(storage)
    is_time = types.is_date(storage) or types.is_time(storage) or types.is_timestamp(storage)
    if not (is_exact or is_text or is_time or _is_bytes(storage)):
        raise DataError(
            f"`partition_on` must name a column of integers, decimals, text, bytes, times or UUIDs, because a state "
            f"keeps its values exactly, but {name!r} is of type {kind}; name another column, or convert it in the query"
        )


def key_values(column: Any) -> list[Key]:
    """The values of an Arrow column without nulls as keys."""
    if isinstance(column.type, pa.UuidType):
        return [str(value) for value in column.to_pylist()]
    column = getattr(column, "storage", column)
    types: Any = pa.types
    if types.is_integer(column.type) or types.is_decimal(column.type) or _is_bytes(column.type):
        return cast("list[Key]", column.to_pylist())
    return cast("list[Key]", column.cast(pa.string()).to_pylist())


def plain_key(key: Key | None) -> Json:
    """A key as JSON."""
    if isinstance(key, bytes):
        return {"bytes": key.hex()}
    return {"decimal": str(key)} if isinstance(key, Decimal) else key


def key_of(plain: Json) -> Key | None:
    """The key that `plain` was made of."""
    if isinstance(plain, dict):
        ((kind, text),) = plain.items()
        return bytes.fromhex(str(text)) if kind == "bytes" else Decimal(str(text))
    return cast("Key | None", plain)


def check_keys(column: Any, name: str, before: Key | None) -> tuple[Key, Key]:
    """The first and the last key of a batch that the database has ordered, which must follow the key `before`."""
    if column.null_count:
        count = column.null_count
        raise DataError(
            f"`partition_on` must name a column without nulls, because rows are read in the order of its values, but "
            f"{count} {'row has' if count == 1 else 'rows have'} no {name}; name the primary key, or leave such rows "
            "out in the query"
        )
    storage = getattr(column, "storage", column)
    if len(storage) > 1:
        equal: Any = pc.equal(storage[1:], storage[:-1])
        if pc.any(equal).as_py():
            raise duplicate_error(name, key_values(column.slice(pc.index(equal, True).as_py(), 1))[0])
    first, last = key_values(column.slice(0, 1))[0], key_values(column.slice(len(column) - 1))[0]
    if first == before:
        raise duplicate_error(name, first)
    return first, last


def duplicate_error(name: str, key: Key) -> DataError:
    return DataError(
        f"`partition_on` must name a column whose values are unique, because a resume goes on after the last of them, "
        f"but several rows have {name} = {key!r}; name the primary key, or leave `partition_on` out"
    )


def _is_bytes(kind: Any) -> bool:
    types: Any = pa.types
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))


class RangeUnit(NamedTuple):
    """The rows after `after`, up to the row with the key `high`. None sets no bound.

    Without a gap between ranges, a row that is new somewhere changes the number of rows of a range.

    Attributes:
        number: of the range.
        first: the number of rows before it.
        after: the last key of the range before it.
        low, high: the keys of its first and last row; None for the rows of a query without a key.
        rows: their number; -1 if it is not known.
    """

    number: int
    first: int
    after: Key | None
    low: Key | None
    high: Key | None
    rows: int


@dataclass(frozen=True, eq=False)
class QueryPlan:
    """The columns of a query, as the driver gives them, and its ranges; None for the whole query if it has no key."""

    schema: pa.Schema
    ranges: Sequence[KeyRange] | None

    @cached_property
    def units(self) -> Sequence[RangeUnit]:
        if self.ranges is None:
            return [RangeUnit(0, 0, None, None, None, -1)]
        firsts = accumulate((each.rows for each in self.ranges), initial=0)
        befores = [None, *(each.high for each in self.ranges)]
        return [
            RangeUnit(k, first, after, *each)
            for k, (first, after, each) in enumerate(zip(firsts, befores, self.ranges, strict=False))
        ]

    @property
    def rows(self) -> int | None:
        """The number of rows, if the ranges tell it."""
        return None if self.ranges is None else sum(each.rows for each in self.ranges)

    def text(self) -> str:
        """The plan for a state."""
        schema = base64.b64encode(self.schema.serialize().to_pybytes()).decode()
        ranges = None
        if self.ranges is not None:
            ranges = [[plain_key(each.low), plain_key(each.high), each.rows] for each in self.ranges]
        plain = json.dumps([schema, ranges], separators=(",", ":"))
        return base64.b85encode(zlib.compress(plain.encode(), 9)).decode()

    @staticmethod
    def of_text(text: str) -> QueryPlan:
        """The plan that `text` was made of; a `ValueError` if it was made of none."""
        try:
            schema, entries = json.loads(zlib.decompress(base64.b85decode(text)))
            fields = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema)))
            key_ranges = None if entries is None else [_range(*entry) for entry in entries]
        except (zlib.error, pa.ArrowException, TypeError, KeyError, OSError) as error:
            raise ValueError("it is no plan of a query") from error
        return QueryPlan(fields, key_ranges)


def _range(low: Json, high: Json, rows: int) -> KeyRange:
    return KeyRange(cast("Key", key_of(low)), cast("Key", key_of(high)), rows)
