"""`parse_csv`: the rows of CSV files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ...core.policy import OnError
from ...core.rows import Row
from ...formats.csv.options import NULL_VALUES, Csv
from ...formats.tables.columns import Schema
from ._byte_ranges import ByteRanges
from ._open_files import has_fixed_order
from ._text import TextTableParser

if TYPE_CHECKING:
    from ...pipe import Pipe
    from ...storage.file import File


@dataclass(frozen=True, eq=False)
class ParseCsv(TextTableParser):
    kind: ClassVar[str] = "parse_csv"


def parse_csv(
    pipe: Pipe[File],
    /,
    *,
    schema: Schema | None = None,
    columns: Sequence[str] | None = None,
    delimiter: str = ",",
    header: bool | None = None,
    column_names: Sequence[str] | None = None,
    quote: str | None = '"',
    null_values: Sequence[str] = NULL_VALUES,
    newlines_in_values: bool = True,
    encoding: str = "utf-8",
    path_column: str | None = None,
    row_column: str | None = None,
    unify_schemas: bool = False,
    on_error: OnError | None = None,
) -> Pipe[Row]:
    r"""Give the rows of each CSV file, as a table.

    Element: a dict of Python scalars, None for a missing value; grouped, a `Rows`, which holds columns. Names and types
    are fixed before the first row and hold for all files: names come from the first file, types from `schema` or from
    the first 1 MiB of the first file that has rows (the first of `for x in pipe`, whatever is shuffled later). Each
    file must have the same columns, in any order. With `unify_schemas=True` the first 1 MiB of every file is read: the
    columns are those of all files, null if a file lacks one, and types are the narrowest for all values. Folders named
    as in `year=2024` give columns too, int64 if all values are such integers, string otherwise, unless the files have a
    column of that name. Order: that of the files, and within each that of its rows. Length: unknown, streamed. State: a
    place in a file. A resume seeks to it, or reads a compressed file up to it, and parses at most 1 MiB again.

    If a single value keeps a column from being numbers or dates, the column is text, and the log names value and line.

    A quoted value may hold delimiters, line breaks and doubled quotes; empty lines are left out.

    Shards divide files. If no value can hold a line break (`newlines_in_values=False`, or `quote=None`), they divide
    ranges of files, so a single file serves many workers: about 1,024 ranges of all files, of 256 KiB to 32 MiB each. A
    `shuffle` behind this shuffles the order of files or ranges as well. A file is not split if it is compressed or has
    another encoding than UTF-8, if `row_column` is given, or if files come in a new order in each epoch, as with
    `list_files(...).shuffle()`. An error in a range counts its line by reading the file up to there; beyond 256 MiB it
    names the byte instead.

    Args:
        schema: types by name, as Arrow types or their names, such as {"id": "int32", "text": "string"}, or a pyarrow
            schema; the types of other columns are inferred.
        columns: reads only these columns, in this order; columns of folders may be among them.
        delimiter: the character between values.
        header: whether the first line of each file has the names; by default it does unless `column_names` is given.
        column_names: names for all columns, in place of the header's; without both they are f0, f1, and so on.
        quote: the character around a value; None treats quotes as plain characters.
        null_values: texts that mean a missing value, in columns that are not text; text is never missing.
        newlines_in_values: False says that each record is one line, so that files can be split; this is checked.
        encoding: of the files, any that Python knows. Text that is not UTF-8 is decoded by blocks; a resume decodes it
            from the beginning of its file.
        path_column: the name of an added column with the path of the file, without a password.
        row_column: the name of an added column with the number of the row in its file, from 0.
        unify_schemas: takes the columns of all files and folders together.
        on_error: what happens to a row with too few or too many values, with one that does not fit its column, or with
            a quote that is not closed on its line; see `map`. It keeps its number.

    Raises:
        SourceError: a file is missing, cannot be read, or ends before the place to resume from.
        DataError: names file, line and column of a row with too few or too many values, a value that does not fit its
            column, a quote that is never closed, or not on its line if it must be; a file without a header, with other
            columns or in other folders; damaged compressed bytes. The rows before the error come first.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> _ = pathlib.Path("a.csv").write_text('id,said\n1,"well, yes"\n2,no\n')
        >>> list(fp.list_files("a.csv").open_files().parse_csv())
        [{'id': 1, 'said': 'well, yes'}, {'id': 2, 'said': 'no'}]
    """
    options = Csv(
        schema=schema,
        columns=columns,
        delimiter=delimiter,
        header=header,
        column_names=column_names,
        quote=quote,
        null_values=null_values,
        newlines_in_values=newlines_in_values,
        encoding=encoding,
        path_column=path_column,
        row_column=row_column,
        unify_schemas=unify_schemas,
    )
    return pipe.then(ByteRanges(options, has_fixed_order(pipe))).then(ParseCsv(options, on_error=on_error))
