"""`read_sql`: the rows of a query to a database, in ranges of keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Any, ClassVar, Literal, cast

import numpy as np

from ..core.block import Block, BlockSize
from ..core.checks import check_choice, check_int, digest
from ..core.code import value_code
from ..core.context import Context, NoWork
from ..core.cursor import Cursor, Json
from ..core.lazy import pa
from ..core.operator import Columns, Operator, StageView, UnitSource, Weights
from ..core.rows import BlockRows, Indices, Row, Rows, index_list
from ..core.times import measured_blocks
from ..databases.connection import QueryPlan, RangeUnit, check_key_type, check_keys, key_of, plain_key
from ..databases.database import Connected, Database, LostConnectionError, Snapshot, exported_snapshot
from ..databases.driver import Key, SqlDriver, SqlQuery
from ..engine.prefetch import in_thread
from ..errors import ArgumentError, ArgumentTypeError, DataError, Origin, SourceError
from ..files.open_files import at_call_site
from ..files.units import ParseUnits, Place, Section, UnitReader
from ..formats.columns import decoded_type, first_duplicate, suggest_name, to_column, widens_to
from ..pipe import Pipe


def read_sql(
    query: str,
    uri: str | Sequence[str] | Callable[[], object],
    *,
    partition_on: str | None = None,
    partitions: int | None = None,
    parameters: Sequence[object] | None = None,
    snapshot: Literal["auto"] | None = "auto",
    session: Sequence[str] = (),
    driver: Literal["adbc", "connectorx", "dbapi"] | SqlDriver | None = None,
) -> Pipe[Row]:
    """Begin a pipe with the rows of a query to a database.

    Element: a dict of Python scalars; a batch of them is `Rows`, which keeps columns, in Arrow from the wire on.
    Order: that of `partition_on`; without it, that of the query. Length: known with `partition_on`, unless `snapshot`
    is None; streamed. State: all ranges of keys, once; the range and the last key in it. A resume reads the rows with
    greater keys. Without `partition_on`, the query is one range, and a resume reads it again up to the place. Units:
    ranges of keys, which workers share; a later `shuffle` shuffles them too.

    The first look at the pipe reads the keys, in order, and divides the rows into ranges of equal length. A state keeps
    these ranges: a loader that loads it reads the same ones. PostgreSQL gives one snapshot to all connections of all
    ranks, which lives as long as the pipe in the first process of the job. Where there is no snapshot, and after a
    restart, each range must have as many rows as were counted, with the same first and last key. So rows may be added
    after the last key in the meantime; they are read by jobs that begin later. Several ranks need a process group,
    unless `snapshot` is None.

    Args:
        query: a SELECT, without ORDER BY if `partition_on` is given. It becomes a subquery.
        uri: `postgresql://`, `sqlite://`, `duckdb://` with a path, `mysql://` or `grpc://` (Flight SQL); several of
            them, which must hold the same rows, share the ranges, and stand in for each other; or a function that
            returns a URI, which keeps secrets out of the program, or a DB-API connection.
        partition_on: a column of the query that is unique and has no nulls, such as the primary key.
        partitions: how many ranges; by default a power of two, at most 4,096, so that none has more than 65,536 rows.
        parameters: values of the placeholders in the query, as the driver writes them.
        snapshot: "auto" uses a snapshot if the database has them; None neither uses one nor checks that the rows stay
            the same.
        session: statements that each connection runs first, such as `SET SESSION wsrep_sync_wait = 1`.
        driver: "adbc", "connectorx" or "dbapi" instead of the usual one for the URI, or a `SqlDriver` of your own.

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
        raise ArgumentTypeError(f"`query` must be a string but got: {query!r:.80}")
    text = query.strip().rstrip(";").rstrip()
    if not text:
        raise ArgumentError(f"`query` must be a SELECT but got: {query!r}")
    if partition_on is not None and not isinstance(partition_on, str):
        raise ArgumentTypeError(f"`partition_on` must name a column but got: {partition_on!r:.80}")
    if partitions is not None:
        check_int("partitions", partitions, least=1)
        if partition_on is None:
            raise ArgumentError("`partitions` needs `partition_on`, the column by which rows are divided")
    if isinstance(parameters, str) or not (parameters is None or isinstance(parameters, Sequence)):
        raise ArgumentTypeError("`parameters` must be a list of values")
    check_choice("snapshot", snapshot, ("auto", None))
    ranges = KeyRanges(
        text, partition_on, partitions, tuple(parameters or ()), Database.of(uri, session, driver), snapshot
    )
    return Pipe[Row].source(ranges).then(ReadRanges())


@dataclass(frozen=True, eq=False, repr=False)
class KeyRanges(UnitSource):
    """The ranges of a query. `resolve` finds all ranges, once per job."""

    kind: ClassVar[str] = "read_sql"
    columns: ClassVar[Columns] = Columns.LOSES
    expands: ClassVar[bool] = True

    query: str
    partition_on: str | None = None
    partitions: int | None = None
    parameters: tuple[object, ...] = field(default=(), repr=False)
    database: Database = field(default=Database(()), repr=False)
    snapshot: str | None = field(default="auto", repr=False)
    plan: QueryPlan | None = field(default=None, repr=False)
    exported: Snapshot | None = field(default=None, repr=False)
    is_resolved: bool = field(default=False, repr=False)

    @property
    def checked(self) -> bool:
        """Whether each range is checked against the rows that were counted."""
        return self.snapshot is not None

    def one_view_repair(self) -> str | None:
        return "give `snapshot=None` if nobody changes the rows" if self.checked else None

    @property
    def sql_query(self) -> SqlQuery:
        schema = None if self.plan is None else self.plan.schema
        return SqlQuery(self.query, self.partition_on, self.parameters, schema)

    def resolve(self, stage: StageView) -> Operator:
        try:
            return self._resolved()
        except (SourceError, DataError, ArgumentError) as error:
            raise at_call_site(error, stage) from error.__cause__

    def length(self, stage: StageView) -> int:
        return len(self.resolved_plan.units)

    def weights(self, stage: StageView, context: Context) -> Weights:
        rows = np.array([unit.rows for unit in self.resolved_plan.units], np.int64)
        return Weights(rows, are_rows=self.checked)

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        units = self.resolved_plan.units
        return [units[place] for place in index_list(indices)]

    def origin(self, stage: StageView, index: int, context: Context) -> Origin:
        return Origin(repr(self.database), index + 1, "range")

    def identity(self) -> Json:
        facts: dict[str, Json] = {"parameters": digest(list(map(repr, self.parameters)))} if self.parameters else {}
        if self.plan is not None:
            facts |= {"ranges": len(self.plan.units), "rows": self.plan.rows}
            schema = plain_schema(self.plan.schema)
            facts["columns"] = {name: str(kind) for name, kind in zip(schema.names, schema.types, strict=True)}
        return facts

    def saved(self) -> str | None:
        return None if self.plan is None else self.plan.text()

    def restored(self, saved: str) -> Operator:
        return replace(self, plan=QueryPlan.of_text(saved))

    def call(self) -> str:
        arguments = [value_code(self.query), repr(self.database)]
        arguments += [f"partition_on={self.partition_on!r}"] if self.partition_on is not None else []
        arguments += [f"partitions={self.partitions}"] if self.partitions is not None else []
        arguments += [f"parameters=<{len(self.parameters)}>"] if self.parameters else []
        arguments += [f"snapshot={self.snapshot!r}"] if self.snapshot != "auto" else []
        return f"read_sql({', '.join(arguments)})"

    @property
    def resolved_plan(self) -> QueryPlan:
        assert self.plan is not None, "a run begins with `resolve`"
        return self.plan

    def _resolved(self) -> KeyRanges:
        wants_snapshot = self.snapshot is not None and len(self.database.addresses) == 1
        if self.is_resolved or (self.plan is not None and not wants_snapshot):
            return self
        connected = self.database.connect_any()
        exported = exported_snapshot(connected) if wants_snapshot else None
        if exported is not None:
            connected = self.database.connect(0)  # the exporter reads nothing, so it locks no table
        with closing(connected):
            if self.plan is not None:
                return replace(self, exported=exported, is_resolved=True)
            connected.begin(None if exported is None else exported.name)
            plan = QueryPlan(*connected.plan(self.sql_query, self.partitions, self._check))
            return replace(self, plan=plan, exported=exported, is_resolved=True)

    def _check(self, schema: pa.Schema) -> None:
        """Checks the columns of the query."""
        if (name := first_duplicate(schema.names)) is not None:
            raise DataError(
                f"two columns of the query have the name {name!r}, and a row can hold only one of them; rename one of "
                "them in the query, with AS"
            )
        plain_schema(schema)
        key = self.partition_on
        if key is None:
            return
        if key not in schema.names:
            raise ArgumentError(
                f"`partition_on` must name a column of the query but got: {key!r}; {suggest_name(key, schema.names)}"
            )
        check_key_type(key, schema.field(key).type)


@dataclass(frozen=True, eq=False, repr=False)
class ReadRanges(ParseUnits[RangeUnit]):
    """The rows of each range, in the order of the key."""

    kind: ClassVar[str] = "sql_rows"
    columns: ClassVar[Columns] = Columns.MAKES

    source: KeyRanges | None = field(default=None, repr=False)

    def call(self) -> None:
        return None

    def resolve(self, stage: StageView) -> Operator:
        source = stage.input.op
        assert isinstance(source, KeyRanges)
        return replace(self, source=source)

    def length(self, stage: StageView) -> int | None:
        source = self._source
        return source.resolved_plan.rows if source.checked else None

    def schema(self, stage: StageView) -> pa.Schema | None:
        plan = None if self.source is None else self.source.plan
        return None if plan is None else plain_schema(plan.schema)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        # The next range is asked for while the last block of this one is used. A loader waits for its threads at the
        # end; a run without a loader would not.
        def make(inner: Context) -> Iterator[Block]:
            return measured_blocks(stage.name, super(ReadRanges, self).blocks(stage, at, inner))

        return in_thread(make, 1 if context.process.shards else 0, context, stage.name)

    def reader(self, context: Context, block_size: BlockSize) -> KeyRangeReader:
        source = self._source
        name = source.exported.name if source.exported is not None else None
        return KeyRangeReader(source.database, source.sql_query, name, context, is_checked=source.checked)

    @property
    def _source(self) -> KeyRanges:
        assert self.source is not None, "a run begins with `resolve`"
        return self.source


# Reading, over connections that may be lost


class KeyRangeReader(UnitReader[RangeUnit, NoWork]):
    """Reads ranges, one after the other, over one connection.

    A place is [the key of the last row before it, the rows of the range before it]. After a lost connection, another
    one continues after the last row that came.
    """

    beginning: ClassVar[Place] = (None, 0)

    def __init__(
        self, database: Database, query: SqlQuery, snapshot: str | None, context: Context, *, is_checked: bool
    ) -> None:
        self._database = database
        self._query = query
        self._snapshot = snapshot
        self._is_checked = is_checked
        self._open_connections = context.process.resources.get(OpenConnections, OpenConnections)
        self._connected: Connected | None = None
        self._address = -1  # of the connection
        self._lost: set[int] = set()
        assert query.schema is not None, "`resolve` finds the columns"
        self._schema = plain_schema(query.schema)

    def is_remote(self, unit: RangeUnit) -> bool:
        return False

    def begin(self, unit: RangeUnit, early: bool) -> NoWork:
        return NoWork()

    def sections(self, unit: RangeUnit, opened: NoWork, place: Place) -> Iterator[Section]:
        last, count = key_of(place[0]), cast("int", place[1])
        waiting: tuple[pa.RecordBatch, Place, Place] | None = None  # the last batch tells that it is the last
        for batch, first, until in self._batches(unit, last, count):
            if waiting is not None:
                yield self._section(unit, *waiting)
            before = plain_key(last), count
            last, count = until, count + batch.num_rows
            if self._query.key is not None:
                self._check(unit, count, first if before[1] == 0 else unit.low, None)
            waiting = batch, before, (plain_key(last), count)
            del batch
        if self._query.key is not None:
            self._check(unit, count, unit.low, last if count else unit.high, is_end=True)
        if waiting is not None:
            batch, before, _ = waiting
            del waiting
            yield self._section(unit, batch, before, None)

    def close(self) -> None:
        connected, self._connected = self._connected, None
        if connected is not None:
            self._open_connections.discard(connected)
            connected.close()

    def _batches(
        self, unit: RangeUnit, last: Key | None, count: int
    ) -> Iterator[tuple[pa.RecordBatch, Key | None, Key | None]]:
        """The batches after a row, each with its first and last key.

        Args:
            unit: the range.
            last: the key of the row; None at the beginning of the range.
            count: the rows of the range up to this row.
        """
        key = self._query.key
        skip = 0 if key is not None else count
        failures = 0
        after = last if last is not None else unit.after
        if len(self._database.addresses) > 1:
            self.close()  # each range has an address of its own
        while True:
            is_new = has_rows = False
            try:
                if self._connected is None:
                    is_new = True
                    self._connect(unit)
                assert self._connected is not None
                for batch in self._connected.read(self._query, after, unit.high):
                    has_rows = True
                    if skip:
                        skip, batch = max(0, skip - batch.num_rows), batch.slice(skip)
                    if batch.num_rows:
                        first = None
                        if key is not None:
                            first, after = check_keys(batch.column(key), key, after)
                        yield batch, first, after
                return
            except LostConnectionError:
                self.close()
                if self._open_connections.is_closed:
                    raise
                self._lost.add(self._address)
                # A connection that has given rows, or was open before, may have ended for any reason.
                failures = failures + 1 if is_new and not has_rows else 0
                if failures >= len(self._database.addresses) or (key is None and has_rows):
                    raise

    def _connect(self, unit: RangeUnit) -> None:
        """Connects to the address of the unit, or to the next that has not been lost."""
        count = len(self._database.addresses)
        order = [(unit.number + k) % count for k in range(count)]
        if len(self._lost) == count:
            self._lost.clear()
        self._address = next(number for number in order if number not in self._lost)
        connected = self._database.connect(self._address)
        if self._snapshot is not None:
            try:
                connected.begin(self._snapshot)
            except SourceError as error:
                connected.close()
                if isinstance(error, LostConnectionError):
                    raise
                raise SourceError(
                    f"{error}; a snapshot ends with the connection that has exported it, in the first process of the "
                    "job; start the job again, and load its state"
                ) from error
        self._connected = connected
        self._open_connections.add(connected)

    def _check(self, unit: RangeUnit, count: int, first: Key | None, last: Key | None, *, is_end: bool = False) -> None:
        """Checks that a range has the rows that were counted."""
        if not self._is_checked:
            return
        is_same = first == unit.low and (count == unit.rows and last == unit.high if is_end else count <= unit.rows)
        if not is_same:
            rows = f"{count}" if is_end else f"at least {count}"
            raise DataError(
                f"the rows of {self._database!r} must stay the same while a job reads them, but the range with "
                f"{self._query.key} from {unit.low!r} to {unit.high!r} had {unit.rows} rows and now has others: {rows}"
                "; read rows that do not change, such as those of a version, start again without a state, or accept "
                "the change with `snapshot=None`"
            )

    def _section(self, unit: RangeUnit, batch: pa.RecordBatch, at: Place, end: Place | None) -> Section:
        origins = partial(self._origins, unit, batch, cast("int", at[1]))
        return Section(rows_of(batch, self._schema), at, end, origins)

    def _origins(self, unit: RangeUnit, batch: pa.RecordBatch, before: int) -> list[Origin]:
        key, shown = self._query.key, repr(self._database)
        if key is not None and pa.types.is_integer(batch.column(key).type):
            return [Origin(shown, cast("int", value), key) for value in batch.column(key).to_pylist()]
        first = unit.first + before + 1
        return [Origin(shown, first + k, f"row by {key}" if key else "row") for k in range(batch.num_rows)]


class OpenConnections:
    """The connections by which a process reads ranges. Threads may wait for their rows when the run ends."""

    def __init__(self) -> None:
        self.is_closed = False
        self._connections: set[Connected] = set()
        self._lock = Lock()

    def add(self, connected: Connected) -> None:
        """Notes a connection."""
        with self._lock:
            if self.is_closed:
                raise SourceError("the run has ended, and needs no connection")
            self._connections.add(connected)

    def discard(self, connected: Connected) -> None:
        with self._lock:
            self._connections.discard(connected)

    def close(self) -> None:
        """Cancels all reads."""
        with self._lock:
            self.is_closed = True
            for connected in self._connections:
                connected.cancel()


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Names and types of the rows: types of a database in their plain form, such as text for JSON and numeric."""
    fields: list[pa.Field[Any]] = []
    for column in schema:
        kind: Any = column.type
        if isinstance(kind, pa.OpaqueType) and not pa.types.is_string(kind.storage_type):
            raise DataError(
                f"column {column.name!r} is of type {kind.type_name}, which the driver cannot convert; convert it in "
                f"the query, as in CAST({column.name} AS text)"
            )
        kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
        fields.append(pa.field(column.name, decoded_type(kind)))
    return pa.schema(fields)


def rows_of(batch: pa.RecordBatch, schema: pa.Schema) -> Rows:
    """The rows of a batch, with the types of `schema`."""
    if batch.schema.names != schema.names:
        raise DataError(
            f"the query must give the columns {schema.names} but gave {batch.schema.names}; name each column of the "
            "query once, and list them instead of *"
        )
    return Rows({k.name: to_column(_cast(k.name, batch.column(k.name), k.type)) for k in schema}, batch.num_rows)


def _cast(name: str, array: Any, kind: Any) -> Any:
    array = getattr(array, "storage", array)
    if array.type == kind:
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), kind)
    if widens_to(array.type, kind):
        with suppress(pa.ArrowException):
            return array.cast(kind)
    raise DataError(
        f"column {name!r} has values of type {array.type}, and those of the first rows are of type {kind}; convert it "
        "in the query, with CAST"
    )
