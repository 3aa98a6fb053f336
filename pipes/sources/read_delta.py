"""`read_delta`: the rows of a version of a Delta table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..core.checks import check_int
from ..core.rows import Row
from ..errors import ArgumentTypeError, with_call_site
from ..pipe import Pipe
from ._delta_files import DeltaFiles, DeltaFormat, DeltaRowGroups, DeltaRows
from ._delta_log import PACKAGE

if TYPE_CHECKING:
    import pyarrow.compute as pc


def read_delta(
    uri: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    filter: pc.Expression | None = None,  # noqa: A002 - as in pyarrow
    version: int | None = None,
) -> Pipe[Row]:
    """Begin a pipe with the rows of a Delta table.

    Element: a dict of Python scalars; a batch of them is `Rows`, which keeps columns. Names and types are those of the
    table; a file that was written before a column was added has nulls there. Order: the data files by their paths, and
    the rows of each file in order. Length: known from the footers, unless there is a `filter`; streamed. State: the
    version, a row group and a position in it. Workers share the work by row groups, and a later `shuffle` shuffles the
    row groups too. Errors name file and column, or file and row.

    The first look at the pipe reads the log of the table and fixes the version. A state keeps it: a loader that loads
    the state reads the same version, however far the table has grown, as long as no vacuum has removed its files.
    Several ranks need a process group, or a `version`, so that all read the same one.

    The package deltalake reads the log, once per pipe; `pip install 'feedpipe[delta]'` installs it. The data files are
    read as `read_parquet` reads them. Both must reach the table: they do on local disks and on S3, with the credentials
    of the environment. Tables with column mapping, deletion vectors or other features of Delta's protocol that readers
    must know are refused.

    Args:
        uri: the path or URL of the table.
        columns: reads only these, in this order.
        filter: an expression of `pyarrow.compute`. It leaves out files by what the log says of them, the values of the
            columns that the table is partitioned by and the minima and maxima of others; then row groups by their
            statistics, then rows.
        version: of the table; without it, the newest one.

    Raises:
        ArgumentError, ArgumentTypeError: an argument is of the wrong type; deltalake is not installed.
        SourceError: there is no such table or version, its log cannot be read, or a file is missing.
        DataError: the table cannot be read as described, lacks a column, or a file is damaged or has values that do not
            fit the types of the table.

    Source: Delta Transaction Log Protocol, https://github.com/delta-io/delta/blob/master/PROTOCOL.md

    Example:
        >>> import deltalake, feedpipe as fp, pyarrow as pa, pyarrow.compute as pc
        >>> table = pa.table({"year": [2023, 2024, 2024], "x": [1, 2, 3]})
        >>> deltalake.write_deltalake("points", table, partition_by=["year"])
        >>> deltalake.write_deltalake("points", table, mode="append")
        >>> list(fp.read_delta("points", columns=["x"], filter=pc.field("year") == 2024, version=0))
        [{'x': 2}, {'x': 3}]
        >>> len(fp.read_delta("points"))
        6
    """
    PACKAGE.check()
    if not isinstance(uri, (str, os.PathLike)):
        raise ArgumentTypeError(with_call_site(f"`uri` must be a path or URL but got: {uri!r}"))
    number = None if version is None else check_int("version", version, least=0)
    form = DeltaFormat(columns=columns, filter=filter)
    files = DeltaFiles(str(os.fspath(uri)), form, number)
    units = DeltaRowGroups(form, has_fixed_order=True)
    return Pipe[Row].source(files).then(units).then(DeltaRows(form))
