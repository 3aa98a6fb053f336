"""`from_table`: the rows of a table in memory, in Arrow's terms."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

import numpy as np

from ..core.context import Context
from ..core.cursor import Json
from ..core.operator import Columns, Operator
from ..core.rows import BlockRows, Indices, Row
from ..engine.stage import Stage
from ..errors import ArgumentTypeError, DataError, FeedpipeError, Origin, SourceError, with_call_site
from ..pipe import Pipe

if TYPE_CHECKING:
    import pyarrow as pa

    from ..formats.tables.chunked import ChunkedTable


class ArrowStream(Protocol):
    """What `from_table` takes: most data frames and Arrow's own tables."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class _Memory:
    """The table, once it has been read; a stream that can be read only once is read only once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.table: pa.Table | None = None
        self.chunks: ChunkedTable | None = None
        self.positions: np.ndarray[Any, np.dtype[np.int64]] | None = None


@dataclass(frozen=True, eq=False)
class FromTable(Operator):
    kind: ClassVar[str] = "from_table"
    columns: ClassVar[Columns] = Columns.MAKES

    table: object = field(repr=False)
    memory: _Memory = field(default_factory=_Memory, repr=False)

    def resolve(self, stage: Stage) -> Operator:
        self._read(stage)
        return self

    def length(self, stage: Stage) -> int:
        memory = self._read(stage)
        return _chunks(memory).length if memory.positions is None else len(memory.positions)

    def origin(self, stage: Stage, index: int, context: Context) -> Origin:
        return Origin(f"from_table({type(self.table).__name__})", index + 1)

    def rows(self, stage: Stage, indices: Indices, context: Context) -> BlockRows:
        memory = self._read(stage)
        if memory.positions is not None:
            cut = slice(indices.start, indices.stop, indices.step) if isinstance(indices, range) else indices
            indices = memory.positions[cut]
        return _chunks(memory).rows(indices)

    def identity(self) -> Json:
        if self.memory.chunks is None:
            return None
        schema = self.memory.chunks.schema
        length = self.memory.chunks.length if self.memory.positions is None else len(self.memory.positions)
        return {"rows": length, "columns": {name: str(schema.field(name).type) for name in schema.names}}

    def call(self) -> str:
        return f"from_table(<{type(self.table).__name__}>)"

    def _read(self, stage: Stage | None = None) -> _Memory:
        memory = self.memory
        with memory.lock:
            if memory.chunks is None:
                from ..formats.tables.chunked import ChunkedTable

                where = stage.node.call_site if stage else None
                try:
                    memory.table = _as_table(self.table)
                    names = memory.table.schema.names
                    double = sorted({name for name in names if names.count(name) > 1})
                    if double:
                        raise DataError(
                            with_call_site(
                                f"`from_table` needs one column of each name but got several of: {double}", where
                            )
                        )
                    memory.positions = _positions(self.table)
                    memory.chunks = ChunkedTable.from_table(memory.table)
                except FeedpipeError:
                    raise
                except Exception as error:
                    kind = type(self.table).__name__
                    raise SourceError(
                        with_call_site(f"`from_table` could not read the {kind}: {error}", where)
                    ) from error
        return memory

    def __reduce__(self) -> tuple[object, ...]:
        if _is_hugging_face(self.table):  # pickles a memory-mapped table as its path
            return FromTable, (self.table,)
        import pyarrow as pa

        table = self._read().table
        assert table is not None
        if table.get_total_buffer_size() <= 1.25 * table.nbytes:
            return FromTable, (table,)
        # A slice, of which Arrow's own pickle would hold all of the parent.
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        return _restored, (sink.getvalue(),)


def _restored(data: pa.Buffer) -> FromTable:
    import pyarrow as pa

    return FromTable(pa.ipc.open_stream(data).read_all())


def from_table(table: ArrowStream) -> Pipe[Row]:
    """Begin a pipe with the rows of a table in memory.

    Element: a dict of Python scalars; a batch of them is `Rows`, which keeps the columns as they are. Order is the
    table's; its length; indexed; columns. State: a position. The table is not copied, nor are its chunks joined (text
    that Arrow holds as views, as polars hands it over, is copied once). What can be read only once, and a query, is
    read into memory once. A pandas index without a name is left out.

    Args:
        table: anything that speaks Arrow's stream protocol (`__arrow_c_stream__`): frames of pandas and polars, DuckDB
            relations, pyarrow's tables, batches and readers; or a Hugging Face `Dataset`, whose Arrow table is read as
            it is stored: images and sounds as bytes and path, where `from_dataset` decodes them.

    Raises:
        ArgumentTypeError: `table` is none of these.
        SourceError: it could not be read; found at the first look at the pipe, as a `DataError` is.
        DataError: two columns have one name.

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
                with_call_site(
                    "`table` has a transform, which its Arrow table knows nothing of; `from_dataset` applies it"
                )
            )
    elif not hasattr(table, "__arrow_c_stream__") or isinstance(table, type):
        raise ArgumentTypeError(
            with_call_site(
                "`table` must be a data frame, an Arrow table, or anything else with `__arrow_c_stream__` but got: "
                f"{type(table).__name__}; for arrays there is `from_arrays`, for a list of dicts `from_sequence`"
            )
        )
    return cast("Pipe[Row]", Pipe.source(FromTable(table)))


def _chunks(memory: _Memory) -> ChunkedTable:
    assert memory.chunks is not None
    return memory.chunks


def _is_hugging_face(table: object) -> bool:
    return type(table).__module__.startswith("datasets.") and hasattr(table, "data") and hasattr(table, "_indices")


def _as_table(table: Any) -> pa.Table:
    import pyarrow as pa

    if _is_hugging_face(table):
        return cast("pa.Table", table.data.table.select(table.format["columns"]))
    if isinstance(table, pa.Table):
        return table
    read = pa.RecordBatchReader.from_stream(table).read_all()
    if type(table).__module__.startswith("pandas."):
        read = read.select([name for name in read.schema.names if not name.startswith("__index_level_")])
    return read


def _positions(table: Any) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    """Where the rows of a Hugging Face dataset that has been shuffled, filtered or sorted lie in its table."""
    indices = table._indices if _is_hugging_face(table) else None
    return None if indices is None else np.asarray(indices.column(0)).astype(np.int64)
