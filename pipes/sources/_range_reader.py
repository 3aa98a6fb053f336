"""`RangeReader`: the rows of key ranges, over connections that may be lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, cast

from ..core.context import Context
from ..core.rows import Rows
from ..databases.database import Connected, Database, LostConnectionError
from ..databases.driver import Key, SqlQuery
from ..databases.keys import check_keys, key_of, plain_key
from ..databases.query_plan import RangeUnit
from ..errors import DataError, Origin, SourceError
from ..formats.tables.arrow import to_column
from ..formats.tables.arrow_types import decoded_type, widens_to
from ..ops.parsing._parse_units import Piece, Place, UnitReader

if TYPE_CHECKING:
    import pyarrow as pa


class NoWork:
    """Nothing to do before the rows of a range are read."""

    def start(self) -> None:
        return

    def cancel(self) -> None:
        return


class OpenConnections:
    """The connections by which a process reads ranges. At the end of a run, threads may still wait for their rows.

    Attributes:
        is_closed: whether the run has ended.
    """

    def __init__(self) -> None:
        self.is_closed = False
        self._connections: set[Connected] = set()
        self._lock = Lock()

    def add(self, connected: Connected) -> None:
        """Notes a connection.

        Raises:
            SourceError: the run has ended.
        """
        with self._lock:
            if self.is_closed:
                raise SourceError("the run has ended, and needs no connection")
            self._connections.add(connected)

    def discard(self, connected: Connected) -> None:
        with self._lock:
            self._connections.discard(connected)

    def close(self) -> None:
        """Cancels what is being read."""
        with self._lock:
            self.is_closed = True
            for connected in self._connections:
                connected.cancel()


class RangeReader(UnitReader[RangeUnit, NoWork]):
    """Reads ranges, one after the other, over one connection.

    A place is [the key of the last row before it, the rows of the range before it]. Behind a lost connection, reading
    goes on over another one, behind the last row that has come.
    """

    beginning: ClassVar[Place] = (None, 0)

    def __init__(
        self, database: Database, query: SqlQuery, snapshot: str | None, context: Context, *, is_checked: bool
    ) -> None:
        self._database = database
        self._query = query
        self._snapshot = snapshot
        self._is_checked = is_checked
        self._origins = context.tracing.origins
        self._open_connections = context.process.resources.get(OpenConnections, OpenConnections)
        self._connected: Connected | None = None
        self._address = -1  # of the connection
        self._lost: set[int] = set()
        assert query.schema is not None, "`resolve` finds the columns"
        self._schema = plain_schema(query.schema)

    def is_remote(self, unit: RangeUnit) -> bool:
        return False

    def start_reading(self, unit: RangeUnit, early: bool) -> NoWork:
        return NoWork()

    def pieces(self, unit: RangeUnit, opened: NoWork, place: Place) -> Iterator[Piece]:
        last, count = key_of(place[0]), cast("int", place[1])
        waiting: tuple[pa.RecordBatch, Place, Place] | None = None  # the last batch tells that it is the last
        for batch, first, until in self._batches(unit, last, count):
            if waiting is not None:
                yield self._piece(unit, *waiting)
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
            yield self._piece(unit, batch, before, None)

    def close(self) -> None:
        connected, self._connected = self._connected, None
        if connected is not None:
            self._open_connections.discard(connected)
            connected.close()

    def _batches(
        self, unit: RangeUnit, last: Key | None, count: int
    ) -> Iterator[tuple[pa.RecordBatch, Key | None, Key | None]]:
        """The batches behind a row, each with its first and last key.

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
                    "job; begin the job anew, and load its state"
                ) from error
        self._connected = connected
        self._open_connections.add(connected)

    def _check(self, unit: RangeUnit, count: int, first: Key | None, last: Key | None, *, is_end: bool = False) -> None:
        """Checks that a range has the rows that were counted.

        Raises:
            DataError: it has not.
        """
        if not self._is_checked:
            return
        is_same = first == unit.low and (count == unit.rows and last == unit.high if is_end else count <= unit.rows)
        if not is_same:
            rows = f"{count}" if is_end else f"at least {count}"
            raise DataError(
                f"the rows of {self._database!r} must stay the same while a job reads them, but the range with "
                f"{self._query.key} from {unit.low!r} to {unit.high!r} had {unit.rows} rows and now has others: {rows}"
                "; read rows that do not change, such as those of a version, begin anew without a state, or accept the "
                "change with `snapshot=None`"
            )

    def _piece(self, unit: RangeUnit, batch: pa.RecordBatch, at: Place, end: Place | None) -> Piece:
        origins: list[Origin | None] | None = None
        if self._origins:
            origins = self._row_origins(unit, batch, cast("int", at[1]))
        return Piece(rows_of(batch, self._schema), at, end, origins)

    def _row_origins(self, unit: RangeUnit, batch: pa.RecordBatch, before: int) -> list[Origin | None]:
        import pyarrow as pa

        key, shown = self._query.key, repr(self._database)
        if key is not None and pa.types.is_integer(batch.column(key).type):
            return [Origin(shown, cast("int", value), key) for value in batch.column(key).to_pylist()]
        first = unit.first + before + 1
        return [Origin(shown, first + k, f"row by {key}" if key else "row") for k in range(batch.num_rows)]


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Names and types of the rows: types of a database in their plain form, such as text for JSON and numeric.

    Raises:
        DataError: a column has a type that the driver gives as the bytes of the database.
    """
    import pyarrow as pa

    fields: list[pa.Field[Any]] = []
    for column in schema:
        kind: Any = column.type
        if isinstance(kind, pa.OpaqueType) and not pa.types.is_string(kind.storage_type):
            raise DataError(
                f"column {column.name!r} is of type {kind.type_name}, which the driver cannot convert; convert it in "
                f"the query, as in CAST({column.name} AS text)"
            )
        fields.append(pa.field(column.name, decoded_type(_storage_type(kind))))
    return pa.schema(fields)


def rows_of(batch: pa.RecordBatch, schema: pa.Schema) -> Rows:
    """The rows of a batch, with the types of `schema`.

    Raises:
        DataError: a column has values of another type.
    """
    if batch.schema.names != schema.names:
        raise DataError(
            f"the query must give the columns {schema.names} but gave {batch.schema.names}; name each column of the "
            "query once, and list them in place of *"
        )
    return Rows({k.name: to_column(_cast(k.name, batch.column(k.name), k.type)) for k in schema}, batch.num_rows)


def _storage_type(kind: Any) -> Any:
    import pyarrow as pa

    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _cast(name: str, array: Any, kind: Any) -> Any:
    import pyarrow as pa

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
