"""`parse_parquet`: the rows of Parquet files, a row group at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ...core.block_size import BlockSize
from ...core.context import Context
from ...core.operator import StageView
from ...core.rows import Row
from ...formats.parquet.options import Parquet
from ._counted_units import ParseCounted
from ._open_files import has_fixed_order
from ._row_groups import RowGroup, RowGroupReader, RowGroups

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from ...pipe import Pipe
    from ...storage.file import File


@dataclass(frozen=True, eq=False)
class ParseParquet(ParseCounted[Parquet, RowGroup]):
    kind: ClassVar[str] = "parse_parquet"

    def length(self, stage: StageView) -> int | None:
        return super().length(stage) if self.format.filter is None else None

    def remark(self, stage: StageView) -> str | None:
        fixed = self.format.fixed_schema
        names = () if fixed is None else self.format.names_to_read()
        if fixed is None or names == fixed.names:
            return None
        return f"reads {len(names)} of {len(fixed.names)} columns, because a later `select` keeps no others"

    def reader(self, context: Context, block_size: BlockSize) -> RowGroupReader:
        return RowGroupReader(self.format, context)


def parse_parquet(
    pipe: Pipe[File],
    /,
    *,
    columns: Sequence[str] | None = None,
    filter: pc.Expression | None = None,
    path_column: str | None = None,
    row_column: str | None = None,
    unify_schemas: bool = False,
) -> Pipe[Row]:
    """Give the rows of each Parquet file, as a table.

    Element: a dict of Python scalars, None for a missing value; grouped, a `Rows`, which holds columns. Order: that of
    the files, and within each that of its rows. Length: known from the footers if files come in a fixed order and there
    is no `filter`; streamed. State: a row group and a place in it. A resume reads that row group up to the place.

    Shards divide row groups, so a single file serves many workers. A `shuffle` behind this shuffles the order of row
    groups as well. The footers of all files are read once per pipe, in threads; with a manifest, once for all runs. If
    files come in a new order in each epoch, as with `list_files(...).shuffle()`, shards divide files.

    Names and types are those of the first file (the first of `for x in pipe`); a column of nothing but nulls there has
    the type of the next file with values. Other files must have the same columns, in any order, of the same types, or
    of types that convert without loss: narrower integers and floats, nothing but nulls, text and bytes with offsets of
    any width or as dictionaries. With `unify_schemas=True` the columns are those of all files, and a file that lacks
    one has nulls there; types are the narrowest that hold the values of all files, as Arrow computes them: float64 for
    int64 and float64, and for structs one with the fields of both. The footers of all files are then read before the
    first row. Folders named as in `year=2024` give columns too, int64 if all values are such integers, string
    otherwise, unless the files have a column of that name. Dictionaries are read as their values.

    Memory: a row group is read in batches of about 4 MiB, and 4 KiB for each column, whatever its size. A remote row
    group of up to 64 MiB is fetched whole. Each process keeps up to 256 MiB of footers, so that row groups in any order
    cost no more bytes than in the order of the file.

    Args:
        columns: reads only these columns, in this order; a dot selects a field of a struct, as in "address.city".
        filter: an expression of `pyarrow.compute` over columns of files and folders; these need not be in `columns`. It
            leaves out row groups whose statistics show that no row matches, then rows.
        path_column: the name of an added column with the path of the file.
        row_column: the name of an added column with the number of the row in its file, from 0.
        unify_schemas: takes the columns of all files and folders together.

    Raises:
        SourceError: a file is missing, cannot be read, or has changed since its footer was read.
        DataError: names file and column of what does not fit: a missing column, columns or types unlike the first
            file's, types that cannot be unified; a file that is not Parquet, or is damaged or encrypted. The rows
            before the error come first.

    Example:
        >>> import feedpipe as fp, pyarrow as pa, pyarrow.compute as pc, pyarrow.parquet
        >>> pa.parquet.write_table(pa.table({"id": [1, 2, 3], "said": ["well", "yes", None]}), "a.parquet")
        >>> list(fp.list_files("a.parquet").open_files().parse_parquet(filter=pc.field("id") > 1, row_column="row"))
        [{'id': 2, 'said': 'yes', 'row': 1}, {'id': 3, 'said': None, 'row': 2}]
    """
    options = Parquet(
        columns=columns, filter=filter, path_column=path_column, row_column=row_column, unify_schemas=unify_schemas
    )
    return pipe.then(RowGroups(options, has_fixed_order(pipe))).then(ParseParquet(options))
