"""`parse_avro`: the records of Avro files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ...core.operator import Columns
from ...core.policy import OnError
from ...formats.avro import Avro
from ._byte_ranges import ByteRanges
from ._open_files import has_fixed_order
from ._record_ranges import ParseRecords

if TYPE_CHECKING:
    from ...pipe import Pipe
    from ...storage.file import File


@dataclass(frozen=True, eq=False)
class ParseAvro(ParseRecords):
    kind: ClassVar[str] = "parse_avro"
    columns: ClassVar[Columns] = Columns.LOSES


def parse_avro(
    pipe: Pipe[File], /, *, path_column: str | None = None, on_error: OnError | None = None
) -> Pipe[dict[str, object]]:
    """Give the records of each Avro file.

    Element: a dict, with the values that fastavro makes: Python scalars, dates, decimals, lists, dicts. Records of all
    files have the schema of the first file (the first of `for x in pipe`): Avro's rules turn those of other schemas
    into it, where a field may be missing if it has a default. Order: that of the files, and within each that of its
    records. Length: unknown, streamed. State: the byte at which a block of records begins. A resume seeks to it, and
    decodes at most 1 MiB again.

    Shards divide ranges of files, so a single file serves many workers: about 1,024 ranges of all files, of 256 KiB to
    32 MiB each. A `shuffle` behind this shuffles the order of the ranges as well. Blocks may be compressed by deflate,
    snappy, zstandard, bzip2 or xz. Memory: 1 MiB of blocks, or one block. The format is that of Apache's specification
    of Avro. `pip install 'feedpipe[avro]'` installs fastavro.

    Args:
        path_column: the name of an added key with the path of the file, without a password.
        on_error: what happens to a record that cannot be read; see `map`. Only reading tells where a record ends, so
            the rest of its block is left out with it, and both count as one row.

    Raises:
        ArgumentError: fastavro is not installed.
        SourceError: a file is missing, cannot be read, or ends before the place to resume from.
        DataError: names file and byte of a block that is damaged or cut short, or of a record that does not fit the
            schema; a file that is not Avro. The rows before the error come first.

    Example:
        >>> import feedpipe as fp, fastavro
        >>> schema = {"type": "record", "name": "row", "fields": [{"name": "id", "type": "int"}]}
        >>> with open("a.avro", "wb") as file:
        ...     fastavro.writer(file, schema, [{"id": 1}, {"id": 2}])
        >>> list(fp.list_files("a.avro").open_files().parse_avro())
        [{'id': 1}, {'id': 2}]
    """
    options = Avro(path_column)
    return pipe.then(ByteRanges(options, has_fixed_order(pipe))).then(ParseAvro(options, on_error=on_error))
