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
ROWS_OF_STEP = 4096
"""Each step along an index has so many rows, and each range takes half of one more on average."""
STEPS_OF_STATEMENT = 256
"""One statement makes so many steps, for which it takes less than a second."""


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
    is_ordered = connection.has_order(connection.dialect.steps(query, None, ROWS_OF_STEP, STEPS_OF_STATEMENT), query)
    return list((_walk if is_ordered else _number)(connection, query, count))


def default_count(rows: int) -> int:
    """How many ranges: a power of two, so that the usual numbers of shards share them, and none begins within one."""
    return min(1 << (-(-rows // ROWS_OF_RANGE) - 1).bit_length(), MAX_RANGES)


def _lengths(rows: int, count: int | None) -> list[int]:
    if not rows:
        return []
    size = -(-rows // (default_count(rows) if count is None else count))
    return [min(size, rows - first) for first in range(0, rows, size)]


def _walk(connection: Statements, query: SqlQuery, count: int | None) -> Iterator[KeyRange]:
    """Goes along an index, which takes a sixth of the time of counting and numbering all rows.

    The rows are counted in steps. Each range ends a short way behind the end of a step.
    """
    dialect = connection.dialect
    if nulls := _number_of(connection, query, dialect.count_nulls(query)):
        raise nulls_error(query.key or "", nulls)
    steps: list[Key | None] = [None, *_steps(connection, query)]  # the key before each step
    rows = ROWS_OF_STEP * (len(steps) - 1) + _number_of(connection, query, dialect.count_behind(query, steps[-1]))
    low = _keys(connection, query, None, 0, 1)
    last = 0
    for length in _lengths(rows, count):
        last += length
        step, skip = divmod(last - 1, ROWS_OF_STEP)
        keys = _keys(connection, query, steps[step], skip, 2)
        if not (low and keys):
            raise _lost_rows_error()
        yield KeyRange(low[0], keys[0], length)
        low = keys[1:]


def _steps(connection: Statements, query: SqlQuery) -> list[Key]:
    """The last key of each step."""
    keys: list[Key] = []
    is_end = False
    while not is_end:
        after = keys[-1] if keys else None
        statement = connection.dialect.steps(query, after, ROWS_OF_STEP, STEPS_OF_STATEMENT)
        steps = sorted(connection.values(statement, query))  # by their numbers
        for _, key, rows in steps:
            if rows != 1:
                raise duplicate_error(query.key or "", key)
            keys.append(key)
        is_end = len(steps) < STEPS_OF_STATEMENT
    return keys


def _number_of(connection: Statements, query: SqlQuery, statement: str) -> int:
    """The number that a statement gives."""
    ((number,),) = connection.values(statement, query)
    return int(number)


def _keys(connection: Statements, query: SqlQuery, after: Key | None, skip: int, count: int) -> list[Key]:
    """The next keys, behind a key and some more rows; fewer at the end."""
    keys = [key for (key,) in connection.values(connection.dialect.keys(query, after, skip, count), query)]
    if len(keys) > 1 and keys[0] == keys[1]:
        raise duplicate_error(query.key or "", keys[0])
    return keys


def _number(connection: Statements, query: SqlQuery, count: int | None) -> Iterator[KeyRange]:
    """Counts all rows, and numbers them in one statement, for which most databases sort them."""
    ((rows, with_key),) = (map(int, row) for row in connection.values(connection.dialect.count(query), query))
    if with_key < rows:
        raise nulls_error(query.key or "", rows - with_key)
    if not rows:
        return
    lengths = _lengths(rows, count)
    statement = connection.dialect.bounds(query, rows, lengths[0])
    keys = {int(place): key for key, place in connection.values(statement, query)}
    last = 0
    for length in lengths:
        first, last = last + 1, last + length
        if not {first, last} <= keys.keys():
            raise _lost_rows_error()
        if keys.get(last + 1) == keys[last]:
            raise duplicate_error(query.key or "", keys[last])
        yield KeyRange(keys[first], keys[last], length)


def _lost_rows_error() -> DataError:
    return DataError("the query has lost rows while they were counted; read it when nobody deletes")
