"""`parse_lines`: the lines of text files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ...core.operator import Columns
from ...core.policy import OnError
from ...formats.text.lines import Lines
from ._byte_ranges import ByteRanges
from ._open_files import has_fixed_order
from ._text import TextParser

if TYPE_CHECKING:
    from ...pipe import Pipe
    from ...storage.file import File


@dataclass(frozen=True, eq=False)
class ParseLines(TextParser):
    kind: ClassVar[str] = "parse_lines"
    columns: ClassVar[Columns] = Columns.LOSES


def parse_lines(pipe: Pipe[File], /, *, encoding: str = "utf-8", on_error: OnError | None = None) -> Pipe[str]:
    r"""Give the lines of each file.

    Element: a line, without its `\n` or `\r\n`; an empty line is an empty string. Order: that of the files, and within
    each that of its lines. Length: unknown, streamed. State: a place in a file. A resume seeks to it, or reads a
    compressed file up to it, and reads at most 1 MiB again.

    Shards divide ranges of files, so a single file serves many workers: about 1,024 ranges of all files, of 256 KiB to
    32 MiB each. A `shuffle` behind this shuffles the order of the ranges as well. A file is not split if it is
    compressed, or if files come in a new order in each epoch, as with `list_files(...).shuffle()`.

    Args:
        encoding: of the text; a newline must be the byte 0x0A in it. A byte order mark of UTF-8 is left out.
        on_error: what happens to a line that is not in that encoding; see `map`.

    Raises:
        SourceError: a file is missing, cannot be read, or ends before the place to resume from.
        DataError: a line is not in that encoding, or compressed bytes are damaged; the lines before it come first.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> _ = pathlib.Path("a.txt").write_text("one\ntwo\n")
        >>> list(fp.list_files("a.txt").open_files().parse_lines())
        ['one', 'two']
    """
    options = Lines(encoding)
    return pipe.then(ByteRanges(options, has_fixed_order(pipe))).then(ParseLines(options, on_error=on_error))
