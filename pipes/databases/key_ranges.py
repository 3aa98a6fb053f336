"""`key_ranges`: divides the rows of a query into ranges of keys, by statements that a database runs fast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from ..errors import DataError
from .dialect import SqlDialect
from .driver import Key, KeyRange, SqlQuery
from .keys import duplicate_error, nulls_error

MAX_RANGES = 4096
ROWS_OF_RANGE = 65_536
"""A range has no more rows, unless there are very many ranges, or the user says how many."""


class Statements(Protocol):
    """A connection, as far as ranges of keys need it."""

    @property
    def dialect(self) -> SqlDialect: ...

    def values(self, statement: str, query: SqlQuery) -> Iterator[tuple[Key, ...]]:
        """The rows of a statement as keys and numbers."""
        ...

    def has_order(self, statement: str, query: SqlQuery) -> bool:
        """Whether the database has the rows of a statement in their order, and need not sort all for the first ones.

        False if it cannot tell, or if several statements may see different rows.
        """
        ...


def key_ranges(connection: Statements, query: SqlQuery, count: int | None) -> list[KeyRange]:
    """All rows of a query in ranges of equal length, in the order of the key.

    Args:
        connection: runs the statements.
        query: a query with a key.
        count: how many ranges; None chooses it by the number of rows.

    Raises:
        DataError: a key is null, or two rows have the same key.
    """
    ((rows, keys),) = (map(int, row) for row in connection.values(connection.dialect.count(query), query))
    if keys < rows:
        raise nulls_error(query.key or "", rows - keys)
    if not rows:
        return []
    size = -(-rows // (default_count(rows) if count is None else count))
    lengths = [min(size, rows - first) for first in range(0, rows, size)]
    is_ordered = connection.has_order(connection.dialect.keys(query, None, size - 1, 2), query)
    return list((_walk if is_ordered else _number)(connection, query, lengths))


def default_count(rows: int) -> int:
    """How many ranges: a power of two, so that the usual numbers of shards share them, and none begins within one."""
    return min(1 << (-(-rows // ROWS_OF_RANGE) - 1).bit_length(), MAX_RANGES)


def _walk(connection: Statements, query: SqlQuery, lengths: list[int]) -> Iterator[KeyRange]:
    """Goes from range to range along an index, which takes a quarter of the time of numbering all rows."""
    (low,) = _keys(connection, query, None, 0, 1)
    high: Key | None = None
    for number, rows in enumerate(lengths, 1):
        keys = _keys(connection, query, high, rows - 1, 1 if number == len(lengths) else 2)
        high = keys[0]
        yield KeyRange(low, high, rows)
        low = keys[-1]


def _keys(connection: Statements, query: SqlQuery, after: Key | None, skip: int, count: int) -> list[Key]:
    """The next keys, behind a key and some more rows."""
    keys = [key for (key,) in connection.values(connection.dialect.keys(query, after, skip, count), query)]
    if len(keys) < count:
        raise _lost_rows_error()
    if count > 1 and keys[0] == keys[1]:
        raise duplicate_error(query.key or "", keys[0])
    return keys


def _number(connection: Statements, query: SqlQuery, lengths: list[int]) -> Iterator[KeyRange]:
    """Numbers all rows in one statement, for which most databases sort them."""
    statement = connection.dialect.bounds(query, sum(lengths), lengths[0])
    keys = {int(place): key for key, place in connection.values(statement, query)}
    last = 0
    for rows in lengths:
        first, last = last + 1, last + rows
        if not {first, last} <= keys.keys():
            raise _lost_rows_error()
        if keys.get(last + 1) == keys[last]:
            raise duplicate_error(query.key or "", keys[last])
        yield KeyRange(keys[first], keys[last], rows)


def _lost_rows_error() -> DataError:
    return DataError("the query has lost rows while they were counted; read it when nobody deletes")
