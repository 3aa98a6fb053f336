"""`ProgressTable`: how far writes into tables have come, in a table beside them."""

from __future__ import annotations

from typing import NamedTuple, cast

from .table_connection import TableConnection

NAME = "feedpipe_writes"


class WriteProgress(NamedTuple):
    """How far the last write into a table has come.

    Attributes:
        run: the run that may go on with it.
        rows: how many rows are written.
        is_finished: whether these are all.
        state: what another run needs to go on.
    """

    run: str
    rows: int
    is_finished: bool
    state: str


class ProgressTable:
    """The progress of the writes into one table, as a connection sees it."""

    def __init__(self, connection: TableConnection, table: str) -> None:
        self._connection = connection
        self._dialect = connection.dialect
        self._where = f"WHERE table_name = {connection.dialect.literal(table)}"
        self._table = table

    def create(self) -> None:
        """Creates the table, if it is missing."""
        if self._connection.has_table(NAME):
            return
        text = self._dialect.types.get("text", "VARCHAR(4000)")
        self._connection.begin_writing()
        self._connection.run(
            f"CREATE TABLE {NAME} (table_name VARCHAR(255) PRIMARY KEY, run VARCHAR(32) NOT NULL, "
            f"written_rows BIGINT NOT NULL, is_finished SMALLINT NOT NULL, state {text} NOT NULL)"
        )
        self._connection.commit_writing()

    def read(self) -> WriteProgress | None:
        """The progress; None if nothing was written."""
        statement = f"SELECT run, written_rows, is_finished, state FROM {NAME} {self._where}"
        rows = [row for batch in self._connection.execute(statement) for row in batch.to_pylist()]
        if not rows:
            return None
        run, count, is_finished, state = rows[0].values()
        return WriteProgress(cast("str", run), int(cast("int", count)), bool(is_finished), cast("str", state))

    def insert(self, progress: WriteProgress) -> None:
        """Begins a write, for which there is no progress yet."""
        literal = self._dialect.literal
        self._connection.run(
            f"INSERT INTO {NAME} (table_name, run, written_rows, is_finished, state) VALUES ({literal(self._table)}, "
            f"{literal(progress.run)}, {progress.rows}, {int(progress.is_finished)}, {literal(progress.state)})"
        )

    def update(self, run: str, progress: WriteProgress) -> bool:
        """Replaces the progress of a run. Returns whether there was some: no other run has gone on with the write."""
        literal = self._dialect.literal
        self._connection.run(
            f"UPDATE {NAME} SET run = {literal(progress.run)}, written_rows = {progress.rows}, "
            f"is_finished = {int(progress.is_finished)}, state = {literal(progress.state)} "
            f"{self._where} AND run = {literal(run)}"
        )
        return self.read() == progress

    def delete(self) -> None:
        self._connection.run(f"DELETE FROM {NAME} {self._where}")
