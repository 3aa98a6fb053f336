"""`write_sql`: the rows of a pipe as a table of a database."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, cast

from ..core.checks import check_choice, check_int
from ..core.lazy import pa
from ..core.rows import Rows
from ..databases.connection import TableConnection
from ..databases.database import Connected, Database, LostConnectionError
from ..errors import ArgumentError, ArgumentTypeError, DataError, SourceError, StateError
from ..formats.columns import Schema, check_schema
from ..pipe import Pipe
from ._run import ChunkedRun, SavedRun
from ._tables import BatchBuilder

IfExists: TypeAlias = Literal["error", "append", "replace"]

_CHUNK_ROWS = 1024  # rows that become columns, or come from a worker, at a time


def write_sql(
    pipe: Pipe[Mapping[str, object]],
    table: str,
    uri: str | Sequence[str] | Callable[[], object],
    *,
    if_exists: IfExists = "error",
    rows_per_transaction: int = 100_000,
    schema: Schema | None = None,
    session: Sequence[str] = (),
    driver: Literal["adbc", "dbapi"] | None = None,
    workers: int = 0,
    progress: bool = True,
) -> int:
    """Write the rows of a pipe into a table of a database; return the number of its rows, of all its runs.

    Each transaction also writes how far the pipe has come, into the table `feedpipe_writes` of the same database. If a
    run fails or is killed, call `write_sql` again with the same pipe and table: it goes on after the rows that are
    there, so each row is in the table exactly once. A run that another one has taken over writes nothing more.

    Element: a dict. The first 1,024 rows fix the columns, and the types of those that `schema` does not name. Other
    columns of a table that is there get their defaults. Columns that come from a file or database stay columns. Arrays
    and tensors of one axis become lists, if the database has such. Order: that of `Loader(pipe, workers=workers)` in
    epoch 0 with seed 0, the same in each run. Memory: the rows of one transaction.

    Args:
        pipe: gives the rows.
        table: the name of the table, without a schema; `session=["SET search_path TO ..."]` chooses one in PostgreSQL.
        uri: `postgresql://`, `sqlite://` or `duckdb://`; several, if one can stand in for another; or a function that
            returns a URI, or a DB-API connection to any database.
        if_exists: "error" refuses a table that is there, unless the same pipe has written it, which then is all done;
            "append" adds the rows to it, "replace" drops it. An unfinished write of the same pipe goes on in any case.
        rows_per_transaction: the maximum number of rows of a transaction.
        schema: types by name, as Arrow types or their names, or a pyarrow schema.
        session: statements that each connection runs first.
        driver: "adbc" or "dbapi" instead of the usual one for the URI.
        workers: the number of processes that run the pipe; this process writes.
        progress: on a terminal, shows rows.

    Raises:
        ArgumentError: the table is there, or it has an unfinished write of another pipe; the driver only reads.
        DataError: a row is no dict, has other columns than the first, or a value of another type; the error names row
            and column. Or the type of a column of a new table is not known: there are no rows, or only None.
        SourceError: the database cannot be reached, or refuses the rows; or another run has taken over.

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_sequence(range(5)).map(lambda i: {"id": i, "square": i * i})
        >>> fp.write_sql(pipe, "squares", "sqlite://squares.db", driver="dbapi")
        5
        >>> fp.read_sql("SELECT * FROM squares", "sqlite://squares.db", partition_on="id", driver="dbapi").head(2)
        [{'id': 0, 'square': 0}, {'id': 1, 'square': 1}]
    """
    if not isinstance(table, str):
        raise ArgumentTypeError(f"`table` must be the name of a table but got: {table!r:.80}")
    if not table:
        raise ArgumentError("`table` must be the name of a table but got: ''")
    check_choice("if_exists", if_exists, ("error", "append", "replace"))
    check_int("rows_per_transaction", rows_per_transaction, least=1)
    types = check_schema(schema)
    run = ChunkedRun(pipe, min(rows_per_transaction, _CHUNK_ROWS), workers)
    database = Database.of(uri, session, driver)
    database.check_writing()
    with closing(TableWriter(database, table)) as writer:
        builder = None
        writer.look()
        saved = _earlier_run(run, writer, table, if_exists)
        if saved is None or writer.last is None:
            _check_new(writer, table, if_exists)
            writer.begin(replaces=if_exists == "replace")
        elif writer.last.is_finished:
            return writer.last.rows
        else:
            writer.go_on(writer.last)
            builder = BatchBuilder({}, "write_sql")
            builder.go_on(saved)
        with run.progress_bar("write_sql", shown=progress) as bar:
            for chunks in _transactions(run, rows_per_transaction):
                if builder is None:
                    builder = BatchBuilder(_types_of(chunks[0], writer) | types, "write_sql")
                rows = database_table([builder.batch(chunk) for chunk in chunks])
                writer.write(rows, run.place(builder.schema, builder.rows).text())
                run.rows = builder.rows
                bar.update(len(rows))
        writer.finish(
            BatchBuilder(types, "write_sql").schema_without_rows() if writer.creates and not writer.rows else None
        )
        return writer.rows


def _earlier_run(run: ChunkedRun, writer: TableWriter, table: str, if_exists: IfExists) -> SavedRun | None:
    """The run of the same pipe that wrote last, with which `run` then goes on; None if a new write begins.

    Raises:
        ArgumentError: the last write has not finished, and is one of another pipe.
    """
    last = writer.last
    if last is None or (last.is_finished and if_exists != "error"):
        return None
    try:
        saved = SavedRun.of_text(last.state)
        run.go_on(saved)
        return saved
    except StateError as error:
        if last.is_finished or if_exists == "replace":
            return None
        raise ArgumentError(
            f"the table {table!r} has an unfinished write of another pipe, with {last.rows} rows; finish it with "
            f"that pipe, drop them with `if_exists='replace'`, or delete its row in {NAME} to keep them: {error}"
        ) from error


def _check_new(writer: TableWriter, table: str, if_exists: IfExists) -> None:
    if writer.has_table and if_exists == "error":
        rows = "" if writer.last is None else f", with {writer.last.rows} rows of another pipe"
        raise ArgumentError(
            f"the table {table!r} exists{rows}: `if_exists='append'` adds to it, and `if_exists='replace'` drops it"
        )


def _transactions(run: ChunkedRun, max_rows: int) -> Iterator[list[Sequence[object]]]:
    """The chunks of each transaction."""
    chunks: list[Sequence[object]] = []
    rows = 0
    for chunk in run:
        chunks.append(chunk)
        rows += len(chunk)
        if rows + run.chunk > max_rows:
            yield chunks
            chunks, rows = [], 0
    if chunks:
        yield chunks


def _types_of(chunk: Sequence[object], writer: TableWriter) -> dict[str, pa.DataType]:
    """The types that the table has for columns of the rows."""
    first = chunk[0] if not isinstance(chunk, Rows) else dict.fromkeys(chunk.arrow.schema.names)
    names = first if isinstance(first, Mapping) else ()
    return {name: kind for name, kind in writer.column_types().items() if name in names}


# Transactions of rows with their progress


T = TypeVar("T")


class TableWriter:
    """Writes the rows of one run.

    Args:
        database: has the table.
        table: its name.

    Attributes:
        has_table: True if there was a table before the run.
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
        """The number of rows written, with those of the runs before."""
        return self._written.rows if self._written is not None else 0

    @property
    def creates(self) -> bool:
        """True if the first rows create the table."""
        return self._drops or not self.has_table

    def look(self) -> None:
        """Look at the table and at its progress."""
        self._call(lambda connection: self._progress(connection).create())
        self.has_table = self._call(lambda connection: connection.has_table(self._table))
        if self.has_table:
            self.last = self._call(lambda connection: self._progress(connection).read())

    def column_types(self) -> Mapping[str, pa.DataType]:
        """The types that values must have to become values of the table that was there."""
        return {} if self.creates else self._call(lambda connection: connection.column_types(self._table))

    def begin(self, *, replaces: bool) -> None:
        """Begin a write. Nothing happens before the first rows come; `replaces` then drops a table that is there."""
        self._drops = replaces and self.has_table

    def go_on(self, last: WriteProgress) -> None:
        """Go on after the rows of the last write, whose run can write nothing from now on."""
        progress = last._replace(run=self._run)
        self._transaction(lambda connection: self._update(connection, last.run, progress))
        self._written = progress

    def write(self, rows: pa.Table, state: str) -> None:
        """Write rows in one transaction, and `state` with them."""
        self._persist(WriteProgress(self._run, self.rows + len(rows), False, state), rows)

    def finish(self, schema: pa.Schema | None = None) -> None:
        """Note that all rows are written; if there are none, `schema` has the columns of a new table."""
        if self._written is not None:
            self._persist(self._written._replace(is_finished=True), None)
        elif schema is not None:
            self._persist(WriteProgress(self._run, 0, True, ""), schema.empty_table())

    def close(self) -> None:
        """End the connection. A transaction that has not ended has no effect."""
        connected, self._connected = self._connected, None
        if connected is not None:
            connected.close()

    def _persist(self, progress: WriteProgress, rows: pa.Table | None) -> None:
        """Write rows and their progress; over another connection, if one is lost."""
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
        """Return the result of a function of the connection, which is made if there is none."""
        if self._connected is None:
            self._connected = self._database.connect_any(self._task)
        return self._connected.call(partial(function, cast("TableConnection", self._connected.connection)))


# Rows for a database


def database_table(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """The rows of batches, with types that drivers know.

    Raises:
        DataError: a column has arrays of several axes, or a type that says nothing.
    """
    table = pa.Table.from_batches(batches)
    for place, field in enumerate(table.schema):
        kind = _database_type(field.name, field.type)
        if kind != field.type:
            table = table.set_column(place, pa.field(field.name, kind), _converted(table.column(place), kind))
    return table


def _database_type(name: str, kind: Any) -> Any:
    if pa.types.is_null(kind):
        raise DataError(f"column {name!r} has only None in the first rows, which have no type; `schema=` gives it one")
    if isinstance(kind, pa.FixedShapeTensorType):
        if len(kind.shape) > 1:
            raise DataError(
                f"column {name!r} has arrays of shape {tuple(kind.shape)}, and databases have lists of one axis; a "
                "`.map` can flatten them"
            )
        return pa.list_(kind.value_type)
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return kind


def _converted(column: pa.ChunkedArray[Any], kind: Any) -> Any:
    chunks: Any = [getattr(chunk, "storage", chunk).cast(kind) for chunk in column.chunks]
    return pa.chunked_array(chunks, kind)


# The progress of a run, in the database


NAME = "feedpipe_writes"


class WriteProgress(NamedTuple):
    """The progress of the last write into a table.

    Attributes:
        run: the run that may go on with it.
        rows: the number of rows written.
        is_finished: True if these are all.
        state: a `SavedRun` as text.
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
        """Create the table, if it is missing."""
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
        """Begin a write, for which there is no progress yet."""
        literal = self._dialect.literal
        self._connection.run(
            f"INSERT INTO {NAME} (table_name, run, written_rows, is_finished, state) VALUES ({literal(self._table)}, "
            f"{literal(progress.run)}, {progress.rows}, {int(progress.is_finished)}, {literal(progress.state)})"
        )

    def update(self, run: str, progress: WriteProgress) -> bool:
        """Replace the progress of a run; return False if another run has gone on with the write."""
        literal = self._dialect.literal
        self._connection.run(
            f"UPDATE {NAME} SET run = {literal(progress.run)}, written_rows = {progress.rows}, "
            f"is_finished = {int(progress.is_finished)}, state = {literal(progress.state)} "
            f"{self._where} AND run = {literal(run)}"
        )
        return self.read() == progress

    def delete(self) -> None:
        self._connection.run(f"DELETE FROM {NAME} {self._where}")
