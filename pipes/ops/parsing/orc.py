"""`parse_orc`: the rows of ORC files, a stripe at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ...core.block_size import BlockSize
from ...core.context import Context
from ...core.rows import Row
from ...formats.orc import Orc
from ._counted_units import ParseCounted
from ._open_files import has_fixed_order
from ._stripes import Stripe, StripeReader, Stripes

if TYPE_CHECKING:
    from ...pipe import Pipe
    from ...storage.file import File


@dataclass(frozen=True, eq=False)
class ParseOrc(ParseCounted[Orc, Stripe]):
    kind: ClassVar[str] = "parse_orc"

    def reader(self, context: Context, block_size: BlockSize) -> StripeReader:
        return StripeReader(self.format, context)


def parse_orc(
    pipe: Pipe[File],
    /,
    *,
    columns: Sequence[str] | None = None,
    path_column: str | None = None,
    row_column: str | None = None,
    unify_schemas: bool = False,
) -> Pipe[Row]:
    """Give the rows of each ORC file, as a table.

    Element: a dict of Python scalars, None for a missing value; grouped, a `Rows`, which holds columns. Order: that of
    the files, and within each that of its rows. Length: known from the footers if files come in a fixed order;
    streamed. State: a stripe and a place in it. A resume reads that stripe again.

    Shards divide stripes, so a single file serves many workers. A `shuffle` behind this shuffles the order of stripes
    as well. The footers of all files are read once per pipe, in threads; with a manifest, once for all runs. Names and
    types are those of the first file, by the rules of `parse_parquet`, also for folders named as in `year=2024` and
    with `unify_schemas=True`. Memory: one stripe, of the columns that are read. The format is ORC version 1, as Apache
    specifies it; it has no checksums, so damaged values may go unnoticed.

    Args:
        columns: reads only these columns, in this order.
        path_column: the name of an added column with the path of the file.
        row_column: the name of an added column with the number of the row in its file, from 0.
        unify_schemas: takes the columns of all files together; a file that lacks one has nulls there.

    Raises:
        SourceError: a file is missing, cannot be read, or has changed since its footer was read.
        DataError: names file and column of what does not fit: a missing column, columns or types unlike the first
            file's, types that cannot be unified; a file that is not ORC, or is damaged. The rows before the error come
            first.

    Example:
        >>> import feedpipe as fp, pyarrow as pa, pyarrow.orc
        >>> pa.orc.write_table(pa.table({"id": [1, 2, 3], "said": ["well", "yes", None]}), "a.orc")
        >>> list(fp.list_files("a.orc").open_files().parse_orc(columns=["said"], row_column="row"))
        [{'said': 'well', 'row': 0}, {'said': 'yes', 'row': 1}, {'said': None, 'row': 2}]
    """
    options = Orc(columns=columns, path_column=path_column, row_column=row_column, unify_schemas=unify_schemas)
    return pipe.then(Stripes(options, has_fixed_order(pipe))).then(ParseOrc(options))
