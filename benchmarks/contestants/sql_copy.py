"""The limit: the binary format of COPY, read as a NumPy array by hand, which only works for fixed widths without nulls.

Format: https://www.postgresql.org/docs/current/sql-copy.html, "Binary Format".
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import psycopg

from .sql_tasks import COLUMNS, described, in_connections, query, tensors, timed

HEADER_BYTES = 19
TYPES = ("i8", "f8", "f8", "f8", "f8", "f4", "i4", "i8")
FIELDS = [(("length of " + name, ">i4"), (name, f">{kind}")) for name, kind in zip(COLUMNS, TYPES, strict=True)]
ROW = np.dtype([("fields", ">i2"), *chain.from_iterable(FIELDS)])
READ_BYTES = 2**20


def read(uri: str, rows: int, connections: int) -> Iterator[Any]:
    def part(first: int, stop: int) -> Iterator[Any]:
        copying = f"COPY ({query(stop)} AND id >= {first}) TO STDOUT (FORMAT BINARY)"
        with psycopg.connect(uri) as connection, connection.cursor() as cursor, cursor.copy(copying) as copy:
            data = bytearray()
            start = HEADER_BYTES
            for piece in copy:
                data += piece
                if len(data) >= READ_BYTES:
                    end = start + (len(data) - start) // ROW.itemsize * ROW.itemsize
                    yield decoded(bytes(data[start:end]))
                    data, start = data[end:], 0
            end = start + (len(data) - start) // ROW.itemsize * ROW.itemsize  # two more bytes end the format
            yield decoded(bytes(data[start:end]))

    return in_connections(part, rows, connections)


def decoded(data: bytes) -> dict[str, Any]:
    table = np.frombuffer(data, ROW)
    return tensors({name: table[name].astype(type_) for name, type_ in zip(COLUMNS, TYPES, strict=True)})


def measure(uri: str, rows: int, connections: int) -> dict[str, Any]:
    return timed(lambda: read(uri, rows, connections))


def check(uri: str, rows: int, connections: int) -> dict[str, Any]:
    return described(read(uri, rows, connections))
