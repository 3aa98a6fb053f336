"""`read_sql`: the rows of a query to a database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from ..core.checks import check_choice, check_int
from ..core.rows import Row
from ..databases.database import Database
from ..databases.driver import SqlDriver
from ..errors import ArgumentError, ArgumentTypeError, with_call_site
from ..pipe import Pipe
from ._key_ranges import KeyRanges, ReadRanges


def read_sql(
    query: str,
    uri: str | Sequence[str] | Callable[[], object],
    *,
    partition_on: str | None = None,
    partitions: int | None = None,
    parameters: Sequence[object] | None = None,
    snapshot: Literal["auto", "require"] | None = "auto",
    session: Sequence[str] = (),
    driver: Literal["adbc", "connectorx", "dbapi"] | SqlDriver | None = None,
) -> Pipe[Row]:
    """Begin a pipe with the rows of a query to a database.

    Element: a dict of Python scalars; a batch of them is `Rows`, which keeps columns, in Arrow from the wire on.
    Order: that of `partition_on`; without it, that of the query. Length: known with `partition_on`, unless `snapshot`
    is None; streamed. State: all ranges of keys, once; the range and the last key in it. A resume reads the rows with
    greater keys. Without `partition_on`, the query is one range, and a resume reads it again up to the place. Units:
    ranges of keys, which workers share; a later `shuffle` shuffles them too.

    The first look at the pipe counts the rows and divides them into ranges of about equal length, by their keys as they
    are then. A state keeps these ranges: a loader that loads it reads the same ones. PostgreSQL gives one snapshot to
    all connections of all ranks, which lives as long as the pipe in the first process of the job. Where there is no
    snapshot, and after a restart, each range must have as many rows as were counted, with the same first and last key.
    So rows may be added behind the last key in the meantime; they are read by jobs that begin later. Several ranks need
    a process group, unless `snapshot` is None.

    Args:
        query: a SELECT, without ORDER BY if `partition_on` is given. It becomes a subquery.
        uri: `postgresql://`, `sqlite://`, `duckdb://` with a path, `mysql://` or `grpc://` (Flight SQL); several of
            them, which must hold the same rows, share the ranges, and stand in for each other; or a function that
            returns a URI, so that no secret stands in the program, or a DB-API connection.
        partition_on: a column of the query that is unique and has no nulls, such as the primary key.
        partitions: how many ranges; by default a power of two, at most 4,096, so that none has more than 65,536 rows.
        parameters: values of the placeholders in the query, as the driver writes them.
        snapshot: "auto" uses a snapshot if the database has them, "require" fails without one, and None neither uses
            one nor checks that the rows stay the same.
        session: statements that each connection runs first, such as `SET SESSION wsrep_sync_wait = 1`.
        driver: "adbc", "connectorx" or "dbapi" in place of the usual one for the URI, or a `SqlDriver` of your own.

    Raises:
        ArgumentError, ArgumentTypeError: an argument is out of its range or of the wrong type; the driver of the URI is
            not installed; `partition_on` is no column of the query.
        SourceError: the database cannot be reached, or cannot run the query.
        DataError: keys are not unique, null, or of a type that has no exact text; rows have changed; a column has no
            type of Arrow.

    Example:
        >>> import feedpipe as fp, sqlite3
        >>> with sqlite3.connect("points.db") as database:
        ...     _ = database.execute("CREATE TABLE points (id INTEGER PRIMARY KEY, x REAL)")
        ...     _ = database.executemany("INSERT INTO points VALUES (?, ?)", [(1, 0.5), (2, 1.5), (5, 2.5)])
        >>> database.close()
        >>> pipe = fp.read_sql("SELECT * FROM points", "sqlite://points.db", partition_on="id", driver="dbapi")
        >>> len(pipe), pipe.batch(2).collate().head(1)
        (3, [{'id': tensor([1, 2]), 'x': tensor([0.5000, 1.5000], dtype=torch.float64)}])
    """
    if not isinstance(query, str):
        raise ArgumentTypeError(with_call_site(f"`query` must be a string but got: {query!r:.80}"))
    text = query.strip().rstrip(";").rstrip()
    if not text:
        raise ArgumentError(with_call_site(f"`query` must be a SELECT but got: {query!r}"))
    if partition_on is not None and not isinstance(partition_on, str):
        raise ArgumentTypeError(with_call_site(f"`partition_on` must name a column but got: {partition_on!r:.80}"))
    if partitions is not None:
        check_int("partitions", partitions, least=1)
        if partition_on is None:
            raise ArgumentError(
                with_call_site("`partitions` needs `partition_on`, the column by which rows are divided")
            )
    if isinstance(parameters, str) or not (parameters is None or isinstance(parameters, Sequence)):
        raise ArgumentTypeError(with_call_site("`parameters` must be a list of values"))
    check_choice("snapshot", snapshot, ("auto", "require", None))
    ranges = KeyRanges(
        text,
        partition_on,
        partitions,
        tuple(parameters or ()),
        Database.of(uri, session, driver),
        snapshot,
    )
    return Pipe[Row].source(ranges).then(ReadRanges())
