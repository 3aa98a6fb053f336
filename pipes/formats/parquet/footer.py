"""The footer of a Parquet file: its names and types, its row groups, and which of these a filter leaves out."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from ...errors import DataError
from ..tables.arrow import broken, failures
from ..text.streams import tail

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_MAGIC, _ENCRYPTED = b"PAR1", b"PARE"
_TAIL = 2**16  # read at once: most footers are no longer
_FLOATS = 4  # of these columns in a filter, 16 cases are looked at


class Footer:
    """What stands at the end of a Parquet file.

    Attributes:
        name: the file's, for errors.
        seal: a number that is another where the file has changed.
        schema: names and types of the columns, as Arrow has them.
        metadata: the footer as pyarrow holds it.
    """

    def __init__(self, name: str, data: bytes, size: int) -> None:
        from pyarrow import BufferReader
        from pyarrow.parquet import ParquetFile

        self.name = name
        self._data = data
        digest = hashlib.blake2b(data + size.to_bytes(8, "little"), digest_size=8).digest()
        self.seal = int.from_bytes(digest, "little", signed=True)
        try:
            self._file: pq.ParquetFile = ParquetFile(cast("Any", BufferReader(data)))
            self.metadata = self._file.metadata
            self.schema: pa.Schema = self._file.schema_arrow.remove_metadata()
        except failures() as error:
            said = " ".join(str(error).split())
            raise DataError(f"{name} is damaged: its footer cannot be read: {said}") from error

    def rows(self) -> list[int]:
        """The rows of each row group."""
        return [self.metadata.row_group(k).num_rows for k in range(self.metadata.num_row_groups)]

    def knows(self, names: Iterable[str]) -> list[str]:
        """Those of `names` that the file has; a dot leads into a column of structs."""
        known: set[str] = set()
        for column in range(len(self._file.schema)):
            path = self._file.schema.column(column).path
            known.add(path)
            known.update(path[:at] for at, char in enumerate(path) if char == ".")
        return [name for name in names if name in known]

    def reading(self, columns: Sequence[str] | None) -> pa.Schema:
        """Names and types of what is read where only `columns` are."""
        if columns is None:
            return self.schema
        table = self._file.read_row_groups([], columns=list(columns), use_threads=False)
        return table.schema.remove_metadata()

    def parts(self, group: int, columns: Sequence[str] | None) -> list[tuple[int, int]]:
        """Where in the file the columns of a row group begin and end."""
        meta = self.metadata.row_group(group)
        wanted = None if columns is None else tuple(f"{name}." for name in columns)
        found: list[tuple[int, int]] = []
        for part in (meta.column(k) for k in range(meta.num_columns)):
            if wanted is None or f"{part.path_in_schema}.".startswith(wanted):
                begin = part.data_page_offset
                if part.has_dictionary_page:
                    begin = min(begin, part.dictionary_page_offset or begin)
                found.append((begin, begin + part.total_compressed_size))
        return found

    def matching(
        self, expression: Any, needed: Mapping[str, pa.DataType], constants: Mapping[str, Any]
    ) -> list[int] | None:
        """The row groups in which rows may match; None where nothing can be said.

        Arrow compares the expression with the least and the greatest value and the number of nulls. It takes the
        former for bounds of all values, and NaN is beyond all bounds. So each set of float columns is tried as NaN too.
        And where all values are zero, it takes them for -0.0, as the bound says, which `isin` tells from 0.0.

        Args:
            expression: the filter.
            needed: the columns in it, and their types in the table that is filtered.
            constants: of these, those that the file does not have: their values.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        inside = [name for name in needed if name not in constants]
        # Where a column is read as another type than it has here, the filter is about other values than the bounds are.
        if any(self.schema.field(name).type != needed[name] for name in inside):
            return None
        floats = [name for name in inside if pa.types.is_floating(needed[name])]
        if len(floats) > _FLOATS or any(pa.types.is_nested(needed[name]) for name in inside):
            return None
        schema = self.schema
        known: Any = pc.scalar(True)
        for name, value in constants.items():
            schema = schema.append(pa.field(name, needed[name]))
            known &= pc.field(name) == value if value.is_valid else pc.field(name).is_null()
        try:
            found = {group for group in range(self.metadata.num_row_groups) if self._is_zero(group, floats)}
            for count in range(len(floats) + 1):
                for absent in combinations(floats, count):
                    case = known
                    for name in absent:
                        case &= pc.field(name) == pa.scalar(float("nan"), needed[name])
                    found.update(self._satisfiable(expression, case, schema))
        except failures():  # the rows themselves will tell
            return None
        return sorted(found)

    def _is_zero(self, group: int, names: Sequence[str]) -> bool:
        """Whether one of these columns is zero in each row, as far as its bounds say."""
        meta = self.metadata.row_group(group)
        columns = (meta.column(k) for k in range(meta.num_columns))
        bounds = [column.statistics for column in columns if column.path_in_schema in names]
        return any(bound is not None and bound.has_min_max and bound.min == 0 == bound.max for bound in bounds)

    def _satisfiable(self, expression: Any, known: Any, schema: pa.Schema) -> list[int]:
        from pyarrow import BufferReader
        from pyarrow.dataset import ParquetFileFormat

        form: Any = ParquetFileFormat()
        fragment = form.make_fragment(BufferReader(self._data), partition_expression=known)
        return [group.id for group in fragment.subset(filter=expression, schema=schema).row_groups]


def read_footer(stream: BinaryIO, name: str) -> Footer:
    """The footer of the file that `stream` reads.

    Raises:
        SourceError: the file cannot be read.
        DataError: it is no Parquet file, is cut short, damaged or encrypted.
    """
    try:
        size = stream.seek(0, io.SEEK_END)
        data = tail(stream, name, size, _TAIL)
        if not size:
            raise DataError(f"{name} is empty: it has not a byte, where a Parquet file has a footer; leave it out")
        if data[-4:] == _ENCRYPTED:
            raise DataError(f"{name} is encrypted: its footer cannot be read without a key; decrypt it before")
        if data[-4:] != _MAGIC:
            raise DataError(f"{name} is no Parquet file, or is cut short: it does not end with {_MAGIC.decode()!r}")
        length = int.from_bytes(data[-8:-4], "little") + 8
        if size < 12 or length > size - 4:
            raise DataError(f"{name} is damaged: its footer would be longer than the file, which has {size} bytes")
        data = data if length <= len(data) else tail(stream, name, size, length)
    except failures() as error:
        raise broken(error, name) from error
    return Footer(name, _MAGIC + data[-length:], size)
