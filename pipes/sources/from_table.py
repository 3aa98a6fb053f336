"""`from_table`: the rows of a table in memory, in Arrow's terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, cast

import numpy as np

from ..core.checks import SAMPLE_VALUE_BYTES, digest, sample_positions
from ..core.context import Context
from ..core.cursor import Json
from ..core.lazy import pa
from ..core.operator import Columns, Operator, Source, StageView
from ..core.process import PerProcess
from ..core.rows import BlockRows, Indices, Row, Rows
from ..errors import ArgumentTypeError, CallSite, DataError, FeedpipeError, Origin, SourceError
from ..pipe import Pipe

if TYPE_CHECKING:
    from ..formats.chunked import ChunkedTable


def from_table(table: ArrowStream) -> Pipe[Row]:
    """Begin a pipe with the rows of a table in memory.

    Element: a dict of Python scalars; a batch of them is `Rows`, which keeps the columns as they are. Order: the
    table's. Length: the table's; indexed; columns. State: a position. The table is not copied, and its chunks are not
    joined; only text that Arrow stores as views, as polars does, is copied once. A query, or a stream that can be read
    only once, is read into memory once. A pandas index without a name is left out.

    Args:
        table: any object with Arrow's stream protocol (`__arrow_c_stream__`): frames of pandas and polars, DuckDB
            relations, pyarrow's tables, batches and readers. Or a Hugging Face `Dataset`, whose Arrow table is read as
            it is stored: images and sounds are bytes and a path, which `from_dataset` would decode.

    Raises:
        ArgumentTypeError: `table` is none of these.
        SourceError: the table cannot be read. The first look at the pipe raises it, and a `DataError` too.
        DataError: two columns have the same name.

    Example:
        >>> import feedpipe as fp, pyarrow as pa
        >>> pipe = fp.from_table(pa.table({"x": [1, 2, 3], "y": ["a", "b", "c"]}))
        >>> pipe[1]
        {'x': 2, 'y': 'b'}
        >>> pipe.batch(2).collate()[0]
        {'x': tensor([1, 2]), 'y': ['a', 'b']}
    """
    if _is_hugging_face(table):
        if getattr(table, "_format_type", None) == "custom":
            raise ArgumentTypeError(
                "`table` has a transform, which its Arrow table does not have; `from_dataset` applies it"
            )
    elif not hasattr(table, "__arrow_c_stream__") or isinstance(table, type):
        raise ArgumentTypeError(
            "`table` must be a data frame, an Arrow table, or anything else with `__arrow_c_stream__` but got: "
            f"{type(table).__name__}; `from_arrays` takes arrays, and `from_sequence` a list of dicts"
        )
    return cast("Pipe[Row]", Pipe.source(FromTable(table)))


class ArrowStream(Protocol):
    """An argument of `from_table`: most data frames, and Arrow's own tables."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class _LoadedTable(NamedTuple):
    """A table that was read, once: a stream may end with that."""

    table: pa.Table
    chunks: ChunkedTable
    positions: np.ndarray[Any, np.dtype[np.int64]] | None
    """Those of the rows of a Hugging Face dataset that was shuffled, filtered or sorted."""

    @property
    def length(self) -> int:
        return self.chunks.length if self.positions is None else len(self.positions)

    def rows(self, indices: Indices) -> Rows:
        if self.positions is not None:
            cut = slice(indices.start, indices.stop, indices.step) if isinstance(indices, range) else indices
            indices = self.positions[cut]
        return self.chunks.rows(indices)


@dataclass(frozen=True, eq=False, repr=False)
class FromTable(Source):
    kind: ClassVar[str] = "from_table"
    columns: ClassVar[Columns] = Columns.MAKES

    table: object = field(repr=False)
    loaded: PerProcess[_LoadedTable] = field(default_factory=PerProcess, repr=False)

    def resolve(self, stage: StageView) -> Operator:
        self._load(stage)
        return self

    def length(self, stage: StageView) -> int:
        return self._load(stage).length

    def schema(self, stage: StageView) -> pa.Schema:
        table = self._load(stage).chunks.schema
        return pa.schema(list(zip(table.names, table.types, strict=True)))

    def origin(self, stage: StageView, index: int, context: Context) -> Origin:
        return Origin(f"from_table({type(self.table).__name__})", index + 1)

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        return self._load(stage).rows(indices)

    def identity(self) -> Json:
        loaded = self._load()
        schema = loaded.chunks.schema
        columns: dict[str, Json] = {name: str(schema.field(name).type) for name in schema.names}
        return {"rows": loaded.length, "columns": columns, "sample": _sample(loaded)}

    @classmethod
    def rows_of(cls, facts: Mapping[str, Json]) -> int | None:
        rows = facts.get("rows")
        return rows if isinstance(rows, int) else None

    def within(self, rows: range) -> Operator | None:
        loaded = self._load()
        return None if loaded.positions is not None else FromTable(loaded.table.slice(rows.start, len(rows)))

    def call(self) -> str:
        return f"from_table(<{type(self.table).__name__}>)"

    def _load(self, stage: StageView | None = None) -> _LoadedTable:
        return self.loaded.get(lambda: _load(self.table, stage.call_site if stage else None))

    def __reduce__(self) -> tuple[object, ...]:
        if _is_hugging_face(self.table):  # pickles a memory-mapped table as its path
            return FromTable, (self.table,)
        table = self._load().table
        if table.get_total_buffer_size() <= 1.25 * table.nbytes:
            return FromTable, (table,)
        # For a slice, Arrow's own pickle would hold the whole parent.
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        return _restored, (sink.getvalue(),)


def _restored(data: pa.Buffer) -> FromTable:
    return FromTable(pa.ipc.open_stream(data).read_all())


def _load(table: object, where: CallSite | None) -> _LoadedTable:
    from ..formats.chunked import ChunkedTable

    try:
        read = _as_table(table)
        names = read.schema.names
        if double := sorted({name for name in names if names.count(name) > 1}):
            raise DataError(f"`from_table` needs one column of each name but got several of: {double}", at=where)
        indices: Any = cast("Any", table)._indices if _is_hugging_face(table) else None
        positions = None if indices is None else np.asarray(indices.column(0)).astype(np.int64)
        return _LoadedTable(read, ChunkedTable.from_table(read), positions)
    except FeedpipeError:
        raise
    except Exception as error:
        raise SourceError(f"`from_table` could not read the {type(table).__name__}: {error}", at=where) from error


def _sample(loaded: _LoadedTable) -> str:
    """A digest of some rows."""
    table = loaded.table
    row_bytes = max(table.nbytes // max(loaded.length, 1), table.num_columns * SAMPLE_VALUE_BYTES)
    columns: dict[str, object] = {}
    for name, column in loaded.rows(np.array(sample_positions(loaded.length, row_bytes), np.int64)).columns.items():
        storage = column.storage if isinstance(column, pa.ExtensionArray) else column
        columns[name] = storage.to_pylist() if isinstance(storage, pa.Array) else storage
    return digest(columns)


def _is_hugging_face(table: object) -> bool:
    return type(table).__module__.startswith("datasets.") and hasattr(table, "data") and hasattr(table, "_indices")


def _as_table(table: Any) -> pa.Table:
    if _is_hugging_face(table):
        return cast("pa.Table", table.data.table.select(table.format["columns"]))
    if isinstance(table, pa.Table):
        return table
    read = pa.RecordBatchReader.from_stream(table).read_all()
    if type(table).__module__.startswith("pandas."):
        read = read.select([name for name in read.schema.names if not name.startswith("__index_level_")])
    return read
