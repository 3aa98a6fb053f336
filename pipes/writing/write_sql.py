"""`write_sql`: the rows of a pipe as a table of a database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Literal, TypeAlias

from ..core.checks import check_choice, check_int
from ..core.rows import Rows
from ..databases.database import Database
from ..databases.write_progress import NAME
from ..errors import ArgumentError, ArgumentTypeError, StateError, with_call_site
from ..formats.tables.columns import Schema, check_schema
from ..loading.info import Info
from ..pipe import Pipe
from ._columns import BatchBuilder
from ._database_columns import database_table
from ._dataset_writer import ChunkedRun, progress_bar
from ._saved_run import SavedRun
from ._table_writer import TableWriter

if TYPE_CHECKING:
    import pyarrow as pa

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
    """Write the rows of a pipe into a table of a database; returns how many rows the write has, of all its runs.

    Each transaction also writes how far the pipe has come, into the table `feedpipe_writes` of the same database. If a
    run fails or is killed, call `write_sql` again with the same pipe and table: it goes on behind the rows that are
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
        driver: "adbc" or "dbapi" in place of the usual one for the URI.
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
        raise ArgumentTypeError(with_call_site(f"`table` must be the name of a table but got: {table!r:.80}"))
    if not table:
        raise ArgumentError(with_call_site("`table` must be the name of a table but got: ''"))
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
            builder = BatchBuilder({field.name: field.type for field in saved.schema}, "write_sql", writer.rows)
        with progress_bar("write_sql", run.length, shown=progress) as bar:
            bar.update(writer.rows)
            for chunks, info in _transactions(run, rows_per_transaction):
                if builder is None:
                    builder = BatchBuilder(_types_of(chunks[0], writer) | types, "write_sql")
                rows = database_table([builder.batch(chunk) for chunk in chunks])
                assert builder.schema is not None, "the first rows fix it"
                writer.write(rows, SavedRun(info.state_dict(), run.chunk, builder.schema).text())
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
        run.load(saved.loader, saved.chunk)
        return saved
    except StateError as error:
        if last.is_finished or if_exists == "replace":
            return None
        raise ArgumentError(
            with_call_site(
                f"the table {table!r} has an unfinished write of another pipe, with {last.rows} rows; finish it with "
                f"that pipe, drop them with `if_exists='replace'`, or delete its row in {NAME} to keep them: {error}"
            )
        ) from error


def _check_new(writer: TableWriter, table: str, if_exists: IfExists) -> None:
    if writer.has_table and if_exists == "error":
        rows = "" if writer.last is None else f", with {writer.last.rows} rows of another pipe"
        raise ArgumentError(
            with_call_site(
                f"the table {table!r} exists{rows}: `if_exists='append'` adds to it, and `if_exists='replace'` drops it"
            )
        )


def _transactions(run: ChunkedRun, max_rows: int) -> Iterator[tuple[list[Sequence[object]], Info]]:
    """The chunks of each transaction, with the info of the last of them."""
    chunks: list[Sequence[object]] = []
    rows = 0
    info: Info | None = None
    for chunk, info in run.with_info():
        chunks.append(chunk)
        rows += len(chunk)
        if rows + run.chunk > max_rows:
            yield chunks, info
            chunks, rows = [], 0
    if chunks and info is not None:
        yield chunks, info


def _types_of(chunk: Sequence[object], writer: TableWriter) -> dict[str, pa.DataType]:
    """The types that the table has for columns of the rows."""
    first = chunk[0] if not isinstance(chunk, Rows) else dict.fromkeys(chunk.arrow.schema.names)
    names = first if isinstance(first, Mapping) else ()
    return {name: kind for name, kind in writer.column_types().items() if name in names}
