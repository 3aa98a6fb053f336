"""The contract of database drivers: a `SqlDriver` opens connections, a `SqlConnection` plans and reads a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    import pyarrow as pa

Key: TypeAlias = int | str | bytes | Decimal
"""A value of the key column. Times and UUIDs are the text by which the database finds the same value again."""


class SqlQuery(NamedTuple):
    """A query whose rows are read in ranges.

    Attributes:
        text: the query, without a semicolon at its end.
        key: the column that identifies and orders the rows; None if the rows have no key and come in one range.
        parameters: the values of the placeholders in `text`.
        schema: names and types of its columns; None before they are known.
    """

    text: str
    key: str | None = None
    parameters: Sequence[object] = ()
    schema: pa.Schema | None = None


class KeyRange(NamedTuple):
    """Rows that follow each other in the order of the key. A range is closed: it has the rows of both its keys.

    Attributes:
        low: the key of its first row.
        high: the key of its last row.
        rows: how many rows it has.
    """

    low: Key
    high: Key
    rows: int


class SqlConnection(Protocol):
    """One connection. One thread at a time uses it.

    If it has a method `cancel()`, another thread calls that to end a `read` whose rows nobody needs any more.
    """

    def describe(self, query: SqlQuery) -> pa.Schema:
        """Names and types of the columns of the query."""
        ...

    def ranges(self, query: SqlQuery, count: int | None) -> Sequence[KeyRange]:
        """All rows of the query in ranges of about equal length, in the order of the key.

        The ranges depend on the rows alone: each call gives the same ones.

        Args:
            query: a query with a key.
            count: how many ranges; None leaves it to the driver.
        """
        ...

    def read(self, query: SqlQuery, after: Key | None, high: Key | None) -> Iterator[pa.RecordBatch]:
        """The rows whose key is greater than `after` and at most `high`, in the order of the key.

        None sets no bound. A query without a key is read whole, in the order in which the database gives it.
        """
        ...

    def close(self) -> None:
        """Ends the connection, and what still reads from it."""
        ...


class SqlDriver(Protocol):
    """Opens connections to one kind of database. It is pickled for worker processes, and each connects anew.

    Errors of a driver may be of any class. A `ConnectionError` says that the connection is lost: reading then goes on
    behind the last row, over another connection.
    """

    def connect(self, uri: str) -> SqlConnection:
        """A new connection."""
        ...
