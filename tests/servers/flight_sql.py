"""A small Flight SQL server in this process: it runs the statements of clients in DuckDB."""

from __future__ import annotations

import duckdb
import pyarrow as pa
from pyarrow import flight

from ..support.formats import read_fields, write_field


class FlightSqlServer(flight.FlightServerBase):
    """Answers statements without parameters, by which all of `read_sql` goes."""

    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self._database = duckdb.connect()

    @property
    def uri(self) -> str:
        return f"grpc://127.0.0.1:{self.port}"

    def execute(self, statement: str) -> None:
        """Runs a statement that gives no rows."""
        self._database.cursor().execute(statement)

    def query(self, statement: str) -> pa.Table:
        return self._database.cursor().sql(statement).to_arrow_table()

    def get_flight_info(
        self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> flight.FlightInfo:
        statement = _statement(descriptor.command)
        endpoint = flight.FlightEndpoint(_any("TicketStatementQuery", statement.encode()), [])
        return flight.FlightInfo(self._schema(statement), descriptor, [endpoint], -1, -1)

    def get_schema(self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        return flight.SchemaResult(self._schema(_statement(descriptor.command)))

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.RecordBatchStream:
        return flight.RecordBatchStream(self.query(_statement(ticket.ticket)))

    def _schema(self, statement: str) -> pa.Schema:
        return self.query(f"FROM ({statement}) LIMIT 0").schema


def _any(kind: str, text: bytes) -> bytes:
    """A message of Flight SQL with a text in its first field, as protobuf's `Any`."""
    url = f"type.googleapis.com/arrow.flight.protocol.sql.{kind}".encode()
    return write_field(1, url) + write_field(2, write_field(1, text))


def _statement(message: bytes) -> str:
    """The text that `_any` has put into a message."""
    for number in (2, 1):
        message = next(text for field, _, text in read_fields(message) if field == number and isinstance(text, bytes))
    return message.decode()
