"""`StatementConnection`: the base of connections that run SQL statements and give their rows as Arrow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .dialect import SqlDialect
from .driver import Key, KeyRange, SqlQuery
from .key_ranges import key_ranges
from .keys import key_values

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLE_ROWS = 1024
"""So many rows show the types of columns, if the database has no types for columns."""


class StatementConnection(ABC):
    """Plans and reads a query with the statements of a dialect."""

    def __init__(self, dialect: SqlDialect) -> None:
        self.dialect = dialect

    @abstractmethod
    def execute(self, statement: str, parameters: Sequence[object] = ()) -> Iterator[pa.RecordBatch]:
        """Runs a statement: its rows in batches. If there are none, a batch without rows says the types."""

    def cancel(self) -> None:
        """Ends the statement that another thread runs, if the driver can do that."""
        return

    @abstractmethod
    def close(self) -> None: ...

    def run(self, statement: str) -> None:
        """Runs a statement, and drops its rows."""
        for _ in self.execute(statement):
            pass

    def begin(self) -> None:
        """Begins a transaction in which all queries see the same rows, if the database has such."""
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
        """Begins a transaction that sees a snapshot of another one."""
        self.begin()
        self.run(self.dialect.use_snapshot.format(name.replace("'", "''")))

    def describe(self, query: SqlQuery) -> pa.Schema:
        """Names and types by the first rows; of a column without values there, by a value further on."""
        import pyarrow as pa

        sample = pa.Table.from_batches(list(self.execute(self.dialect.head(query, SAMPLE_ROWS), query.parameters)))
        fields: list[pa.Field[pa.DataType]] = []
        for column, field in zip(sample.columns, sample.schema, strict=True):
            if sample.num_rows and column.null_count == sample.num_rows:
                for batch in self.execute(self.dialect.value(query, field.name), query.parameters):
                    field = batch.schema.field(0) if batch.num_rows else field
            fields.append(field)
        return pa.schema(fields)

    def ranges(self, query: SqlQuery, count: int | None) -> list[KeyRange]:
        return key_ranges(self, query, count)

    def read(self, query: SqlQuery, after: Key | None, high: Key | None) -> Iterator[pa.RecordBatch]:
        return self.execute(self.dialect.between(query, after, high), query.parameters)

    def values(self, statement: str, query: SqlQuery) -> Iterator[tuple[Key, ...]]:
        for batch in self.execute(statement, query.parameters):
            yield from zip(*map(key_values, batch.columns), strict=True)

    def has_order(self, statement: str, query: SqlQuery) -> bool:
        return False


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """A batch without rows."""
    import pyarrow as pa

    # Other ways, such as `from_pylist`, import pandas if it is installed.
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
