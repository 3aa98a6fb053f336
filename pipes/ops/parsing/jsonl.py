"""`parse_jsonl`: the objects of JSON-lines files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ...core.policy import OnError
from ...core.rows import Row
from ...formats.jsonl import Jsonl
from ...formats.tables.columns import Schema
from ._byte_ranges import ByteRanges
from ._open_files import has_fixed_order
from ._text import TextTableParser

if TYPE_CHECKING:
    from ...pipe import Pipe
    from ...storage.file import File


@dataclass(frozen=True, eq=False)
class ParseJsonl(TextTableParser):
    kind: ClassVar[str] = "parse_jsonl"


def parse_jsonl(
    pipe: Pipe[File],
    /,
    *,
    schema: Schema | None = None,
    columns: Sequence[str] | None = None,
    path_column: str | None = None,
    row_column: str | None = None,
    unify_schemas: bool = False,
    on_error: OnError | None = None,
) -> Pipe[Row]:
    r"""Give the objects of each JSON Lines file, as a table: one object on each line.

    Element: a dict with the same keys in each row, None if a line lacks the field; values may be nested lists and
    dicts; grouped, a `Rows`, which holds columns. Names and types are fixed before the first row and hold for all
    files: from `schema`, and for other fields from the first 1 MiB of the first file that has lines (the first of `for
    x in pipe`, whatever is shuffled later). A field that appears only later is an error, so nothing is left out
    silently. With `unify_schemas=True` the first 1 MiB of every file is read: the fields are those of all files, and
    types are the narrowest for all values. Folders named as in `year=2024` give columns too, int64 if all values are
    such integers, string otherwise, unless the files have a field of that name. Order: that of the files, and within
    each that of its lines. Length: unknown, streamed. State: a place in a file. A resume seeks to it, or reads a
    compressed file up to it, and parses at most 1 MiB again.

    Shards divide ranges of files, so a single file serves many workers: about 1,024 ranges of all files, of 256 KiB to
    32 MiB each. A `shuffle` behind this shuffles the order of the ranges as well. A file is not split if it is
    compressed, if `row_column` is given, or if files come in a new order in each epoch, as with
    `list_files(...).shuffle()`. An error in a range counts its line by reading the file up to there; beyond 256 MiB it
    names the byte instead.

    Empty lines are left out. The text is UTF-8. Strings stay strings, even if they look like dates. If the values of a
    field have no common type, `.parse_lines().map(json.loads)` reads the lines as they are.

    Args:
        schema: types by name, as Arrow types or their names, such as {"id": "int32", "tags": pa.list_(pa.string())}, or
            a pyarrow schema; the types of other fields are inferred.
        columns: reads only these fields, in this order; columns of folders may be among them. All others are left out,
            and so are fields of nested objects that are not in their type.
        path_column: the name of an added column with the path of the file, without a password.
        row_column: the name of an added column with the number of the row in its file, from 0.
        unify_schemas: takes the fields of all files and folders together, from the first 1 MiB of each file.
        on_error: what happens to a line that is no such object; see `map`. It keeps its number.

    Raises:
        SourceError: a file is missing, cannot be read, or ends before the place to resume from.
        DataError: names file, line and field of a line that is no JSON object, or is nested more than 100 deep, a value
            that does not fit its type, an unknown field; a file in other folders; damaged compressed bytes. The rows
            before the error come first.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> _ = pathlib.Path("a.jsonl").write_text('{"id": 1, "tags": ["x"]}\n{"id": 2}\n')
        >>> list(fp.list_files("a.jsonl").open_files().parse_jsonl())
        [{'id': 1, 'tags': ['x']}, {'id': 2, 'tags': None}]
    """
    options = Jsonl(
        schema=schema, columns=columns, path_column=path_column, row_column=row_column, unify_schemas=unify_schemas
    )
    return pipe.then(ByteRanges(options, has_fixed_order(pipe))).then(ParseJsonl(options, on_error=on_error))
