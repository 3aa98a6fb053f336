"""psycopg's server cursor, and pandas over it: rows of Python objects, in chunks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas
import psycopg

from .sql_tasks import BATCH, COLUMNS, described, query, tensors, timed


def read(uri: str, rows: int, library: str) -> Iterator[Any]:
    with psycopg.connect(uri) as connection:
        if library == "pandas":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # it has been tested with other modules
                for frame in pandas.read_sql_query(query(rows), connection, chunksize=BATCH):
                    yield tensors({name: frame[name].to_numpy() for name in frame})
            return
        with connection.cursor("points") as cursor:
            cursor.execute(query(rows))
            while chunk := cursor.fetchmany(BATCH):
                columns = zip(COLUMNS, zip(*chunk, strict=True), strict=True)
                yield tensors({name: np.array(values) for name, values in columns})


def measure(uri: str, rows: int, library: str) -> dict[str, Any]:
    return timed(lambda: read(uri, rows, library))


def check(uri: str, rows: int, library: str) -> dict[str, Any]:
    return described(read(uri, rows, library))
