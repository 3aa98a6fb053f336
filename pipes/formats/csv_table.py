"""CSV by Arrow: chunks with names and types fixed, and what is wrong where a chunk cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ..errors import ArgumentError, DataError
from ..rows import RowList
from ._arrow import ONE_BLOCK, as_rows, source
from .chunks import Chunk, brief, first_failing
from .quotes import Ends, record_ends

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.csv as pc


class Dialect(NamedTuple):
    """How values are set apart."""

    delimiter: bytes
    quote: bytes | None
    nulls: tuple[str, ...]

    def ends(self, data: bytes) -> Ends:
        return record_ends(data, self.delimiter, self.quote)

    def records(self, chunk: Chunk) -> Iterator[tuple[int, int, int]]:
        """Line, start and end of each record that is no empty line."""
        line, start = chunk.at.line, 0
        for end in [*self.ends(chunk.data).ends.tolist(), len(chunk.data)]:
            if chunk.data[start:end].strip(b"\r\n"):
                yield line, start, end
            line += chunk.data.count(b"\n", start, end)
            start = end

    def options(self) -> pc.ParseOptions:
        from pyarrow.csv import ParseOptions

        options = ParseOptions(delimiter=self.delimiter.decode(), newlines_in_values=True)
        options.quote_char = self.quote.decode() if self.quote else False
        return options


@dataclass(frozen=True)
class Types:
    """Names and types, fixed once for all files."""

    names: tuple[str, ...]
    """All columns of the first file."""
    types: dict[str, pa.DataType]
    """Those that are read, in their order."""
    inferred: frozenset[str]
    """Those whose type the user did not give."""
    source: str
    """The first file."""


def infer(
    dialect: Dialect,
    names: list[str],
    columns: Sequence[str] | None,
    given: Mapping[str, pa.DataType],
    chunk: Chunk | None,
    file: str,
) -> tuple[Types, bool]:
    """The types of `columns`, from the head of a file, and whether there were rows to infer them from.

    Where the head is malformed, the rows before that are what counts: a run delivers them, then it tells the error.
    """
    import pyarrow as pa

    wanted = list(columns if columns is not None else names)
    found = {name: given.get(name, pa.string()) for name in wanted}
    typed = {name: kind for name, kind in given.items() if name in found}
    table = None if chunk is None else _readable(dialect, _reader(dialect, names, wanted, typed), chunk.data)
    for field in table.schema if table is not None and table.num_rows else ():
        unknown = pa.types.is_null(field.type) or (pa.types.is_binary(field.type) and field.name not in given)
        if not unknown:
            found[field.name] = field.type
    inferred = frozenset(name for name in wanted if name not in given)
    return Types(tuple(names), found, inferred, file), table is not None and table.num_rows > 0


def _readable(dialect: Dialect, read: Callable[[bytes], pa.Table], data: bytes) -> pa.Table | None:
    """The table of `data` up to its first malformed record, if there is one before."""
    import pyarrow as pa

    try:
        return read(data)
    except pa.ArrowInvalid:
        ends = [*dialect.ends(data).ends.tolist(), len(data)]
        bad = first_failing(ends, lambda end: read(data[:end]))
        return read(data[: ends[bad - 1]]) if bad else None
    except pa.ArrowNotImplementedError as error:
        raise ArgumentError(f"`schema` gives a type that text cannot have: {error}") from None


def fields(dialect: Dialect, record: bytes) -> list[bytes]:
    """The values of one record, as they are.

    Raises:
        DataError: it is no record.
    """
    import pyarrow as pa
    from pyarrow.csv import ConvertOptions, ReadOptions, read_csv

    most = record.count(dialect.delimiter) + 1
    ended = record if record.endswith((b"\r", b"\n")) else record + b"\n"
    try:
        table = read_csv(
            source(ended),
            read_options=ReadOptions(use_threads=False, autogenerate_column_names=True, block_size=ONE_BLOCK),
            parse_options=dialect.options(),
            convert_options=ConvertOptions(column_types={f"f{i}": pa.binary() for i in range(most)}),
        )
    except pa.ArrowInvalid as error:
        raise DataError(f"{error}: {brief(record)}") from error
    return [column[0].as_py() for column in table.columns]


class Table:
    """The table of one file.

    Args:
        dialect: how values are set apart.
        fixed: the columns wanted, and their types.
        names: the names of this file's columns, in its order.
        source: the file.
    """

    def __init__(self, dialect: Dialect, fixed: Types, names: list[str], source: str) -> None:
        self._dialect = dialect
        self._fixed = fixed
        self._names = names
        self._source = source
        self._read = _reader(dialect, names, list(fixed.types), fixed.types)

    def parse(self, chunk: Chunk) -> tuple[RowList, DataError | None]:
        """The rows up to the first malformed one, and what is wrong with that."""
        data = chunk.data
        unclosed: DataError | None = None
        if chunk.last and self._dialect.quote and self._dialect.quote in data:
            found = self._dialect.ends(data)
            if found.unclosed:
                whole = int(found.ends[-1]) if len(found.ends) else 0
                unclosed = DataError(
                    f"{self._place(chunk, whole)}: a quote is opened in the record that begins here, and never closed; "
                    "`quote=None` takes quotes for plain characters"
                )
                data = data[:whole]
        rows, error = self._rows(chunk, data)
        return rows, error or unclosed

    def _rows(self, chunk: Chunk, data: bytes) -> tuple[RowList, DataError | None]:
        import pyarrow as pa

        if not data:
            return [], None
        try:
            return as_rows(self._read(data)), None
        except pa.ArrowInvalid:
            pass
        ends = [*self._dialect.ends(data).ends.tolist(), len(data)]
        bad = first_failing(ends, lambda end: self._read(data[:end]))
        start = ends[bad - 1] if bad else 0
        rows: RowList = as_rows(self._read(data[:start])) if start else []
        return rows, self._explain(data[start : ends[bad]], self._place(chunk, start))

    def _place(self, chunk: Chunk, start: int) -> str:
        return f"{self._source}, line {chunk.place(start).line}"

    def _explain(self, record: bytes, place: str) -> DataError:
        import pyarrow as pa

        try:
            values = fields(self._dialect, record)
            if len(values) != len(self._names):
                said = f"{_counted(len(values), 'value')} where there are {_counted(len(self._names), 'column')}"
                return DataError(
                    f"{place}: {said}: {brief(record)}; values that hold the delimiter or a line break need quotes, "
                    "and `delimiter=` and `quote=` say what those are"
                )
            for name, kind in self._fixed.types.items():
                read = _reader(self._dialect, self._names, [name], {name: kind})
                try:
                    read(record)
                except pa.ArrowInvalid:
                    return self._misfit(place, name, values[self._names.index(name)], kind)
            read = _reader(self._dialect, self._names, list(self._fixed.types), self._fixed.types)
            read(record)
        except DataError as error:
            return DataError(f"{place}: {error}")
        except pa.ArrowInvalid as error:
            return DataError(f"{place}: {error}: {brief(record)}")
        return DataError(f"{place}: this record, or one shortly before it, cannot be read: {brief(record)}")

    def _misfit(self, place: str, name: str, value: bytes, kind: pa.DataType) -> DataError:
        said = f"{place}, column {name!r}: {brief(value)} is not"
        if str(kind) in ("string", "large_string", "string_view"):
            return DataError(f"{said} UTF-8; `schema={{{name!r}: 'binary'}}` takes the bytes as they are")
        wider = "float64" if str(kind) in ("int64", "uint64") or not _is(int, value) else "int64"
        other = wider if str(kind).startswith(("int", "uint")) and _is(float, value) else "string"
        repair = f"`schema={{{name!r}: {other!r}}}` gives another type, `null_values=` names what stands for no value"
        if name in self._fixed.inferred:
            repair = f"its type was inferred from the first rows of {self._fixed.source}; {repair}"
        return DataError(f"{said} {kind}; {repair}")


def _reader(
    dialect: Dialect, names: list[str], wanted: list[str], types: Mapping[str, pa.DataType]
) -> Callable[[bytes], pa.Table]:
    """A function from bytes to a table."""
    from pyarrow.csv import ConvertOptions, ReadOptions, read_csv

    read_options = ReadOptions(use_threads=False, column_names=names, block_size=ONE_BLOCK)
    parse_options = dialect.options()
    convert_options = ConvertOptions(column_types=dict(types), include_columns=wanted, null_values=list(dialect.nulls))

    def read(data: bytes) -> pa.Table:
        return read_csv(
            source(data),
            read_options=read_options,
            parse_options=parse_options,
            convert_options=convert_options,
        )

    return read


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _is(kind: type[int] | type[float], value: bytes) -> bool:
    try:
        kind(value)
    except ValueError:
        return False
    return True
