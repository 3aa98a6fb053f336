"""ADBC: PostgreSQL, SQLite and Flight SQL, from the wire as Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .dialect import DIALECTS, FLIGHT, POSTGRESQL, SQLITE, SqlDialect
from .driver import SqlQuery
from .packages import require
from .table_connection import TableConnection
from .uris import file_of, scheme_of

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_BYTES = 2**20
"""PostgreSQL's rows come in batches of this size; without it, all of them come as one."""
TYPED_ROWS = 2**17
"""SQLite's types are those of so many rows: of a whole range, unless the user makes longer ones."""

_OPTIONS = {
    POSTGRESQL: {"adbc.postgresql.batch_size_hint_bytes": str(BATCH_BYTES)},
    SQLITE: {"adbc.sqlite.query.batch_rows": str(TYPED_ROWS)},
    FLIGHT: dict[str, str](),
}
_MODULES = {
    POSTGRESQL: "adbc_driver_postgresql",
    SQLITE: "adbc_driver_sqlite",
    FLIGHT: "adbc_driver_flightsql",
}


class AdbcConnection(TableConnection):
    """A connection of an ADBC driver."""

    def __init__(self, dialect: SqlDialect, connection: Any) -> None:
        super().__init__(dialect)
        self._connection = connection

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        # The driver closes no connection that still has a cursor.
        with self._connection.cursor(adbc_stmt_kwargs=_OPTIONS[self.dialect]) as cursor:
            cursor.execute(statement, parameters or None)
            reader: pa.RecordBatchReader = cursor.fetch_record_batch()
            yield pa.RecordBatch.from_pylist([], schema=reader.schema)
            yield from reader

    def describe(self, query: SqlQuery) -> pa.Schema:
        if self.dialect is SQLITE:
            return super().describe(query)
        with self._connection.cursor() as cursor:
            schema: pa.Schema = cursor.adbc_execute_schema(self.dialect.head(query, 0), query.parameters or None)
            return schema

    def create_table(self, name: str, schema: pa.Schema) -> None:
        self._ingest(name, schema.empty_table(), "create")

    def insert(self, name: str, rows: pa.Table) -> None:
        self._ingest(name, rows, "append")

    def column_types(self, name: str) -> Mapping[str, pa.DataType]:
        import pyarrow as pa

        if self.dialect is SQLITE:
            return {}
        # Rows are copied in binary form, which converts nothing.
        schema = self.describe(SqlQuery(f"SELECT * FROM {self.dialect.column(name)}"))
        return {field.name: field.type for field in schema if not isinstance(field.type, pa.BaseExtensionType)}

    def close(self) -> None:
        self._connection.close()

    def _ingest(self, name: str, rows: pa.Table, mode: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.adbc_ingest(name, rows, mode=mode)


class Adbc:
    """Connects with the ADBC driver of a scheme."""

    def check(self, uri: str) -> None:
        """Raises an `ArgumentError` if the package of the driver is not installed."""
        module = _MODULES[DIALECTS[scheme_of(uri)]]
        require(module, module.replace("_", "-"))

    def connect(self, uri: str) -> AdbcConnection:
        return _connect(uri, "ro")

    def connect_for_writing(self, uri: str) -> AdbcConnection:
        return _connect(uri, "rwc")


def _connect(uri: str, file_mode: str) -> AdbcConnection:
    dialect = DIALECTS[scheme_of(uri)]
    module = require(f"{_MODULES[dialect]}.dbapi", _MODULES[dialect].replace("_", "-"))
    place = f"file:{file_of(uri)}?mode={file_mode}" if dialect is SQLITE else uri
    return AdbcConnection(dialect, module.connect(place, autocommit=True))
