"""`TableWriter`: writes rows into a table of a database, each transaction with the progress that it makes."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from ..databases.database import Connected, Database, LostConnectionError
from ..databases.table_connection import TableConnection
from ..databases.write_progress import NAME, ProgressTable, WriteProgress
from ..errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class TableWriter:
    """Writes the rows of one run.

    Args:
        database: has the table.
        table: its name.

    Attributes:
        has_table: whether there was a table before the run.
        last: the progress of the last write into it; None if there is none.
    """

    def __init__(self, database: Database, table: str) -> None:
        self._database = database
        self._table = table
        self._task = f"write the table {table!r}"
        self._run = uuid.uuid4().hex
        self._connected: Connected | None = None
        self._written: WriteProgress | None = None  # by this run, or by those that it goes on with
        self._drops = False
        self.has_table = False
        self.last: WriteProgress | None = None

    @property
    def rows(self) -> int:
        """How many rows are written, with those of the runs before."""
        return self._written.rows if self._written is not None else 0

    @property
    def creates(self) -> bool:
        """Whether the first rows create the table."""
        return self._drops or not self.has_table

    def look(self) -> None:
        """Looks at the table and at its progress."""
        self._call(lambda connection: self._progress(connection).create())
        self.has_table = self._call(lambda connection: connection.has_table(self._table))
        if self.has_table:
            self.last = self._call(lambda connection: self._progress(connection).read())

    def column_types(self) -> Mapping[str, pa.DataType]:
        """The types that values must have to become values of the table that was there."""
        return {} if self.creates else self._call(lambda connection: connection.column_types(self._table))

    def begin(self, *, replaces: bool) -> None:
        """Begins a write. Nothing happens before the first rows come; `replaces` then drops a table that is there."""
        self._drops = replaces and self.has_table

    def go_on(self, last: WriteProgress) -> None:
        """Goes on behind the rows of the last write, whose run can write nothing from now on."""
        progress = last._replace(run=self._run)
        self._transaction(lambda connection: self._update(connection, last.run, progress))
        self._written = progress

    def write(self, rows: pa.Table, state: str) -> None:
        """Writes rows in one transaction, and `state` with them."""
        self._persist(WriteProgress(self._run, self.rows + len(rows), False, state), rows)

    def finish(self, schema: pa.Schema | None = None) -> None:
        """Notes that all rows are written; if there are none, `schema` has the columns of a new table."""
        if self._written is not None:
            self._persist(self._written._replace(is_finished=True), None)
        elif schema is not None:
            self._persist(WriteProgress(self._run, 0, True, ""), schema.empty_table())

    def close(self) -> None:
        """Ends the connection. A transaction that has not ended has no effect."""
        connected, self._connected = self._connected, None
        if connected is not None:
            connected.close()

    def _persist(self, progress: WriteProgress, rows: pa.Table | None) -> None:
        """Writes rows and their progress; over another connection, if one is lost."""
        for is_last in [False] * len(self._database.addresses) + [True]:
            try:
                self._transaction(partial(self._advance, progress=progress, rows=rows))
                break
            except LostConnectionError:
                self.close()
                if is_last:
                    raise
                # The connection may have been lost before the transaction took effect, or after.
                if self._call(lambda connection: self._progress(connection).read()) == progress:
                    break
        self._written = progress

    def _advance(self, connection: TableConnection, progress: WriteProgress, rows: pa.Table | None) -> None:
        if self._written is None:
            assert rows is not None, "a run begins with rows"
            table = self._progress(connection)
            table.delete()
            if self._drops and connection.has_table(self._table):
                connection.drop_table(self._table)
            if self.creates and not connection.has_table(self._table):  # MySQL keeps it if the transaction is lost
                connection.create_table(self._table, rows.schema)
            table.insert(progress)
        else:
            self._update(connection, self._run, progress)
        if rows is not None:
            connection.insert(self._table, rows)

    def _update(self, connection: TableConnection, run: str, progress: WriteProgress) -> None:
        if not self._progress(connection).update(run, progress):
            raise SourceError(
                f"another run has gone on with the write of the table {self._table!r}, or its progress in the table "
                f"{NAME} was removed; this run ends, so that no row is written twice"
            )

    def _transaction(self, function: Callable[[TableConnection], None]) -> None:
        self._call(lambda connection: connection.begin_writing())
        try:
            self._call(function)
            self._call(lambda connection: connection.commit_writing())
        except BaseException:
            with suppress(SourceError):
                self._call(lambda connection: connection.roll_back())
            raise

    def _progress(self, connection: TableConnection) -> ProgressTable:
        return ProgressTable(connection, self._table)

    def _call(self, function: Callable[[TableConnection], T]) -> T:
        """What a function returns for the connection, which is made if there is none."""
        if self._connected is None:
            self._connected = self._database.connect_any(self._task)
        return self._connected.call(partial(function, cast("TableConnection", self._connected.connection)))
