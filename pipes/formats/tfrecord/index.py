"""The index beside a TFRecord file: a line for each record with its first byte and how many bytes it takes.

DALI's `tfrecord2idx` writes this format, and so does the package `tfrecord`.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from ...errors import DataError
from .records import Offsets

_ENDINGS = ".index", ".idx"


def is_index(path: str) -> bool:
    """Whether a file that lies among TFRecord files is an index, by its name."""
    return path.endswith(_ENDINGS)


def index_paths(path: str) -> tuple[str, str]:
    """Where the index of a file may be, as users of the package `tfrecord` and of DALI name it."""
    return f"{path.removesuffix('.tfrecord')}{_ENDINGS[0]}", f"{path}{_ENDINGS[1]}"


def index_line(begin: int, size: int) -> bytes:
    """The line of a record."""
    return b"%d %d\n" % (begin, size)


def read_bounds(data: bytes, name: str, size: int) -> Offsets:
    """The byte at which each record begins, and that behind the last one.

    Args:
        data: of the index.
        name: of the index, for errors.
        size: of the file that it belongs to.

    Raises:
        DataError: it is no index, or does not list all records of the file.
    """
    import pyarrow as pa
    from pyarrow import csv

    if not data:
        table = pa.table({"begin": pa.array([], pa.int64()), "size": pa.array([], pa.int64())})
    else:
        form = csv.ReadOptions(column_names=["begin", "size"])
        types: Any = {"begin": pa.int64(), "size": pa.int64()}
        try:
            table = csv.read_csv(
                io.BytesIO(data), form, csv.ParseOptions(delimiter=" "), csv.ConvertOptions(column_types=types)
            )
        except pa.ArrowInvalid as error:
            raise DataError(f"{name} is no index of TFRecord, which has two numbers in each line: {error}") from error
    begins, sizes = (np.asarray(column.to_numpy(), np.int64) for column in table.columns)
    bounds = np.append(begins, size)
    if bounds[0] != 0 or (bounds[1:] - begins != sizes).any():
        raise DataError(
            f"{name} does not list the records of a file of {size} bytes, one behind the other; it belongs to another "
            "file, so make it anew"
        )
    return bounds
