"""`collect_table`: all rows of a run as one Arrow table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..core.block import Block
from ..core.row_bytes import nbytes
from ..core.rows import Rows
from ..errors import DataError, LimitError, UnfitError, with_call_site
from ._columns import as_rows

if TYPE_CHECKING:
    import pyarrow as pa


def collect_table(blocks: Iterable[Block], schema: pa.Schema | None, limit: int) -> pa.Table:
    """The rows of all blocks. Columns stay as they are; rows that are dicts become columns together.

    Args:
        blocks: of a run.
        schema: that of a table without rows, if it is known.
        limit: how many bytes the rows may take.

    Raises:
        LimitError: they take more.
        DataError: a row is no dict, or the values of one name have several types.
    """
    import pyarrow as pa

    tables: list[pa.Table] = []
    dicts: list[object] = []  # the rows behind the last table
    count, used = 0, 0
    try:
        for block in blocks:
            used += nbytes(block.rows)
            if used > limit:
                raise LimitError(
                    with_call_site(
                        f"`to_table` has taken {limit} bytes after {count} rows, and there are more; give a larger "
                        "`limit`, `.select` fewer columns, or write files with `fp.write_parquet`"
                    )
                )
            count += len(block)
            if not isinstance(block.rows, Rows):
                dicts += block.rows
                continue
            tables += [_table(dicts)] if dicts else []
            dicts = []
            tables.append(_table(block.rows))
        tables += [_table(dicts)] if dicts else []
        if not tables:
            return pa.table({}) if schema is None else schema.empty_table()
        return pa.concat_tables(tables, promote_options="permissive")
    except (UnfitError, pa.ArrowException) as error:
        raise DataError(with_call_site(f"`to_table`: {' '.join(str(error).split())}")) from error


def _table(rows: object) -> pa.Table:
    import pyarrow as pa

    if isinstance(rows, list) and any(isinstance(row, Rows) for row in rows):
        raise UnfitError("an element must be a row but is a batch of rows; `.unbatch()` gives its rows")
    return pa.Table.from_batches([as_rows(rows).arrow])
