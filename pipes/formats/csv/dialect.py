"""`Dialect`: how values are delimited and quoted, where records end, and how Arrow reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ..tables.arrow import BLOCK_BYTES, arrow_source
from ..text.chunks import Chunk
from .quotes import RecordEnds, record_ends, unclosed_lines

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.csv as pc


class UnclosedQuote(NamedTuple):
    """A quote that is not closed in its record.

    Attributes:
        start, stop: where the record begins and ends.
        problem: what is wrong, and what the user can do.
    """

    start: int
    stop: int
    problem: str


class Dialect(NamedTuple):
    """How values are delimited and quoted, and which of them are null."""

    delimiter: bytes
    quote: bytes | None
    nulls: tuple[str, ...]
    newlines: bool
    """Whether quoted values may hold line breaks."""

    @property
    def multiline(self) -> bytes | None:
        """The quote, if values in quotes may hold line breaks."""
        return self.quote if self.newlines else None

    def ends(self, data: bytes) -> RecordEnds:
        return record_ends(data, self.delimiter, self.multiline)

    def record_ends(self, data: bytes) -> list[int]:
        """Where each record ends; the last one may lack its line break."""
        ends = self.ends(data).ends.tolist()
        return ends if ends and ends[-1] == len(data) else [*ends, len(data)]

    def unclosed_quotes(self, data: bytes, *, last: bool) -> list[UnclosedQuote]:
        """The records with a quote that is not closed within them, in order.

        Args:
            data: whole records; the last one may lack its end if it is the `last` of the file.
        """
        if self.quote is None or self.quote not in data or (self.newlines and not last):
            return []
        ends, quoted_breaks, unclosed = record_ends(data, self.delimiter, self.quote)
        opened = "a quote is opened in the record that begins here, and"
        plain = "`quote=None` takes quotes for plain characters"
        if not self.newlines:
            problem = f"{opened} not closed on its line; `newlines_in_values=True` reads such values, {plain}"
            lines = unclosed_lines(data, self.delimiter, self.quote) if unclosed or len(quoted_breaks) else []
            return [UnclosedQuote(start, stop, problem) for start, stop in lines]
        if not unclosed:
            return []
        start = int(ends[-1]) if len(ends) else 0
        problem = f"{opened} never closed; {plain}"
        if b"\n" in data[start:].rstrip():
            problem += ", `newlines_in_values=False` ends each record with its line"
        return [UnclosedQuote(start, len(data), problem)]

    def records(self, chunk: Chunk) -> Iterator[tuple[int, int, int]]:
        """Line, start and end of each record; empty lines are no records."""
        line, start = chunk.at.line, 0
        for end in [*self.ends(chunk.data).ends.tolist(), len(chunk.data)]:
            if chunk.data[start:end].strip(b"\r\n"):
                yield line, start, end
            line += chunk.data.count(b"\n", start, end)
            start = end

    def parse_options(self) -> pc.ParseOptions:
        from pyarrow.csv import ParseOptions

        options = ParseOptions(delimiter=self.delimiter.decode(), newlines_in_values=True)
        options.quote_char = self.quote.decode() if self.quote else False
        return options


def table_reader(
    dialect: Dialect, names: list[str], selected: Sequence[str], types: Mapping[str, pa.DataType]
) -> Callable[[bytes], pa.Table]:
    """A function that reads the columns `selected` from bytes."""
    import pyarrow as pa
    from pyarrow.csv import ConvertOptions

    if not selected:  # Arrow would read all; reading one counts the rows
        selected, types = names[:1], dict.fromkeys(names[:1], pa.binary())
    convert_options = ConvertOptions(
        column_types=dict(types), include_columns=list(selected), null_values=list(dialect.nulls)
    )
    return partial(read_records, names, dialect.parse_options(), convert_options)


def read_records(
    names: list[str], parse_options: pc.ParseOptions, convert_options: pc.ConvertOptions, data: bytes
) -> pa.Table:
    """Read bytes without a header as one block."""
    from pyarrow.csv import ReadOptions, open_csv

    reader = open_csv(  # `read_csv` hands the work to a thread, which takes longer than to parse some lines
        arrow_source(data),
        read_options=ReadOptions(use_threads=False, column_names=names, block_size=BLOCK_BYTES),
        parse_options=parse_options,
        convert_options=convert_options,
    )
    return reader.read_all()
