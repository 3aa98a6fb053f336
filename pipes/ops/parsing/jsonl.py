"""`parse_jsonl`: the objects of JSON-lines files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ...core.operator import Columns
from ...core.rows import Row
from ...formats.jsonl import Jsonl
from ...formats.tables.columns import Schema
from ._byte_ranges import ByteRanges
from ._open_files import has_fixed_order
from ._text import TextParser

if TYPE_CHECKING:
    from ...pipe import Pipe
    from ...storage.file import File


@dataclass(frozen=True, eq=False)
class ParseJsonl(TextParser):
    kind: ClassVar[str] = "parse_jsonl"
    columns: ClassVar[Columns] = Columns.MAKES


def parse_jsonl(
    pipe: Pipe[File],
    /,
    *,
    schema: Schema | None = None,
    columns: Sequence[str] | None = None,
    path_column: str | None = None,
    row_column: str | None = None,
    unify_schemas: bool = False,
) -> Pipe[Row]:
    r"""Give the objects of each JSON-lines file, as a table: one object on each line.

    Element: a dict with the same keys in each row, None where a line lacks the field; values may be nested lists and
    dicts; grouped, a `Rows`, which holds columns. Names and types are fixed before the first row and hold for all
    files: from `schema`, and for other fields from the first 1 MiB of the first file that has lines (the first of `for
    x in pipe`, whatever is shuffled later). A field that comes up only later is an error, so that nothing is left out
    in silence. With `unify_schemas=True` the first 1 MiB of all files is looked at: the fields are those of all of
    them, and types the narrowest for all values. Folders named as in `year=2024` give columns too, int64 where all
    values are such integers, else string, unless the files have a field of that name. Order: the files' and in each the
    lines'. Length: unknown, streamed. State: a place in a file, which a resume seeks; a compressed file is read over up
    to there. At most 1 MiB is parsed twice.

    The units that shards are dealt are ranges of files, of up to 32 MiB, so a single file serves many workers. A
    `shuffle` behind shuffles their order as well. Compressed files are not cut, nor are any with `row_column`; where
    files come in an order drawn anew, as with `list_files(...).shuffle()`, files are the units. The line of an error in
    a range is counted when it is asked for, by reading the file up to there; behind 256 MiB malformed lines are told by
    their byte.

    Empty lines are left out. The text is UTF-8. Strings stay strings, also those that look like dates. Where the values
    of a field have no common type, `.parse_lines().map(json.loads)` reads the lines as they are.

    Args:
        schema: types by name, as Arrow types or their names, such as {"id": "int32", "tags": pa.list_(pa.string())}, or
            a pyarrow schema; the types of other fields are inferred.
        columns: reads only these fields, in this order, those of folders among them; all others are left out, also
            those of nested objects that are not in their type.
        path_column: the name of a further column with the path of the file, without a password.
        row_column: the name of a further column with the number of the row in its file, from 0.
        unify_schemas: takes the fields of the heads of all files together; those of folders too.

    Raises:
        SourceError: a file is missing, cannot be read, or ends before the place to resume from.
        DataError: names file, line and field of a line that is no JSON object, or is nested more than 100 deep, a value
            that does not fit its type, a field that is not known; a file in other folders; damaged compressed bytes.
            The rows before come first.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> _ = pathlib.Path("a.jsonl").write_text('{"id": 1, "tags": ["x"]}\n{"id": 2}\n')
        >>> list(fp.list_files("a.jsonl").open_files().parse_jsonl())
        [{'id': 1, 'tags': ['x']}, {'id': 2, 'tags': None}]
    """
    options = Jsonl(
        schema=schema, columns=columns, path_column=path_column, row_column=row_column, unify_schemas=unify_schemas
    )
    return pipe.then(ByteRanges(options, has_fixed_order(pipe))).then(ParseJsonl(options))
