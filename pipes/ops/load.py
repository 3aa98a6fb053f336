"""`load`: keeps all rows in memory or in files, so that they can be read in any order."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..core.block import nbytes
from ..core.checks import check_bytes, check_int
from ..core.code import call_code
from ..core.context import Context
from ..core.cursor import START, Json
from ..core.graph import find_remote, walk
from ..core.lazy import pa
from ..core.operator import Operator, Order, Source, StageView, Trait
from ..core.process import PerProcess, bytes_text
from ..core.progress_bar import ProgressBar
from ..core.rows import Array, BlockRows, Indices, Rows, concat, gather, have_one_signature, signature
from ..core.shared_rows import SharedRows
from ..engine.stage import Stage
from ..errors import ArgumentError, DataError, LimitError, Origin, PlanError, SourceError
from ..files.by_position import IndexedFormat
from ..files.open_files import at_call_site
from ..files.units import OfFormat
from ..formats.row_buffers import Buffers, StoredRows
from ..storage.row_files import NoRoomError, RowFile, RowFiles
from ._cached_rows import UnfitRowsError, make_tensor, packed_rows
from ._shared import SameRows
from .cache import check_place, rows_key

if TYPE_CHECKING:
    from ..formats.chunked import ChunkedTable
    from ..pipe import Pipe

T = TypeVar("T")


def load(
    pipe: Pipe[T],
    /,
    path: str | os.PathLike[str] | None = None,
    *,
    limit: int | str | None = None,
    workers: int = 0,
    version: str = "",
    progress: bool | None = None,
) -> Pipe[T]:
    """Read the pipe once, into memory or into files, and make it indexed.

    Element, order and length are the input's, as in `for x in pipe`: random draws before this operator are those of
    seed 0 and epoch 0 in every epoch. State: a position. Epochs share the arrays of rows, so that these are read-only;
    dicts and lists may be changed.

    **In memory**, without `path`, each process that runs the pipe loads all rows, as columns if it is a table.

    **In files**, with `path`, `shuffle()`, `pipe[i]`, `split` and `batch(balance=)` work on data of any size, such as
    Parquet, JSON lines, CSV and tar. The first process that needs the rows writes them, and the others of the machine
    wait for it. All map the files, so that a row is in memory once for all ranks and workers. If the process is killed,
    the next one goes on after the last complete file, of 32 MiB. A later run finds the rows; the folder has files for
    each pipe, by the fingerprint that `cache` describes. Rows keep their types, which are those that `cache` holds.
    Rows that a policy skips are not loaded. With several workers, a stream has the order of
    `Loader(pipe, workers=workers)`. In a job of several machines, call `len(pipe)` on each before the process group
    is initialised, whose timeout the others might reach.

    Args:
        path: a local folder.
        limit: the number of bytes that the rows may take, as an int or a string such as "500MB"; in memory "1GiB" by
            default, in files what the disk has.
        workers: the number of processes that run the pipe, if this process writes its rows into files.
        version: any text; with another version, rows are written again.
        progress: shows the number of rows while they are read; by default on a terminal, if they go into files.

    Raises:
        PlanError: `shard_by_rank()` or `remote()` comes before it.
        ArgumentError: `limit` is not a size in bytes, `path` is a URL, or `workers` is given without it.
        LimitError: the rows take more than `limit`; in memory by an estimate from the first row of each block. It is
            raised when the rows are read.
        DataError: a row has a value that no file holds.
        SourceError: the folder cannot be written to, or the disk is full. What is written stays for the next run.

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_sequence(range(6)).filter(lambda x: x % 2).load()
        >>> len(pipe), pipe[1]
        (3, 3)
        >>> len(fp.from_sequence(range(6)).filter(lambda x: x % 2).load("odd").shuffle())
        3
    """
    if any(node.op.trait is Trait.SHARD for node in walk(pipe)):
        raise PlanError(
            "`load()` must come before `shard_by_rank()`, because it loads all rows and a shard has only its "
            "part of them; swap the two"
        )
    if find_remote(pipe) is not None:
        raise PlanError(
            "`load()` must come before `remote()`, because it reads all rows when the plan is made, and workers "
            "run after that; swap the two"
        )
    if limit is not None:
        check_bytes("limit", limit)
    check_int("workers", workers, least=0)
    if (place := check_place(path, version)) is not None:
        return pipe.then(LoadFiles(place, limit=limit, workers=workers, version=version, progress=progress))
    if workers or version:
        name = "workers" if workers else "version"
        raise ArgumentError(
            f"`{name}` must be left out without `path`, because each process loads the rows into memory"
        )
    return pipe.then(Load(limit or "1GiB", bool(progress)))


class _AllRows(SameRows, Source):
    """The base: reads its input once, for all epochs."""

    kind: ClassVar[str] = "load"
    order: ClassVar[Order] = Order.GLOBAL
    moves_skipped: ClassVar[bool] = True

    def indexed(self, inputs: Sequence[bool]) -> bool:
        return True

    def remark(self, stage: StageView) -> str | None:
        before = cast("Stage", stage.input)
        if before.indexed:
            return "it is not needed for positions, which its input has; it keeps what is before from running again"
        while before.one_for_one and not isinstance(before.op, OfFormat):
            before = before.input
        form = getattr(before.op, "format", None)
        if not isinstance(form, IndexedFormat) or form.indexed:
            return None
        return f"its files have positions of their own: with `indexed=True`, {form.if_indexed}, `load` is not needed"

    def origin(self, stage: StageView, index: int, context: Context) -> Origin | None:
        block = next(stage.input.blocks(START.advance(index), context.epoch_independent().replay()), None)
        return block.origins[0] if block and block.origins else None


@dataclass(frozen=True, eq=False, repr=False)
class Load(_AllRows):
    """Keeps the rows in memory."""

    trait: ClassVar[Trait | None] = Trait.EACH_PROCESS

    limit: int | str = "1GiB"
    progress: bool = field(default=False, compare=False)
    memory: PerProcess[_Loaded] = field(default_factory=PerProcess, repr=False, compare=False)

    def call(self) -> str:
        return call_code(replace(self, progress=False))  # a state does not depend on it

    def length(self, stage: StageView) -> int | None:
        return int(self._loaded(stage).bounds[-1])

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        blocks, bounds = self._loaded(stage)
        return gather(indices, bounds, lambda k, places: blocks[k].take(places))

    def _loaded(self, stage: StageView) -> _Loaded:
        return self.memory.get(lambda: self._read(stage))

    def _read(self, stage: StageView) -> _Loaded:
        limit, used = check_bytes("limit", self.limit), 0
        blocks: list[BlockRows] = []
        at = START

        def fraction() -> float | None:
            amount = stage.input.amount_before(at.plain, Context())
            return None if amount is None else amount.fraction

        bar = ProgressBar("load", stage.input.length, fraction=fraction, shown=None if self.progress else False)
        with closing(Context()) as context, bar:
            for block in stage.input.blocks(START, context):
                at = block.end
                bar.update(len(block))
                used += nbytes(block.rows)
                if used > limit:
                    raise LimitError(
                        f"`load(limit={self.limit!r})` is full after {sum(map(len, blocks))} rows; give a larger "
                        "`limit`, or a `path` for files, or use `.shuffle(window=...)`, which keeps fewer rows in "
                        "memory",
                        at=stage.call_site,
                    )
                blocks.append(block.rows)
        if len({signature(block) for block in blocks}) > 1:
            blocks = [list(block) for block in blocks]  # all blocks are columns, or none is
        blocks = blocks or [[]]  # reading the rows at no positions needs a block too
        return _Loaded([SharedRows(block) for block in blocks], np.cumsum([0, *map(len, blocks)], dtype=np.int64))


class _Loaded(NamedTuple):
    """All rows: their blocks, at least one, and the positions at which blocks begin and end."""

    blocks: list[SharedRows]
    bounds: npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class LoadFiles(_AllRows):
    """Keeps the rows in files, which the processes of a machine share.

    A file has rows that follow each other, and the place of the run after them, from which another run can go on. The
    last one says that it is.
    """

    trait: ClassVar[Trait | None] = Trait.READS_ONCE

    # Rows do not depend on the place.
    path: str = field(compare=False)
    limit: int | str | None = field(default=None, kw_only=True, compare=False)
    workers: int = field(default=0, kw_only=True, compare=False)
    version: str = field(default="", kw_only=True, compare=False)
    progress: bool | None = field(default=None, kw_only=True, repr=False, compare=False)
    folder: Path | None = field(default=None, kw_only=True, repr=False, compare=False)
    memory: PerProcess[LoadedFiles] = field(default_factory=PerProcess, kw_only=True, repr=False, compare=False)

    def resolve(self, stage: StageView) -> Operator:
        base = Path(os.path.abspath(os.path.expanduser(self.path)))
        key = rows_key(cast("Stage", stage.input).node, self.version)
        return replace(self, folder=base / key, memory=PerProcess())

    def length(self, stage: StageView) -> int | None:
        return int(self._loaded(stage).bounds[-1])

    def remark(self, stage: StageView) -> str | None:
        loaded = self._loaded(stage)
        folder = Path(self.path, loaded.files.folder.name)
        holds = f"holds {loaded.bounds[-1]} rows, {bytes_text(loaded.files.bytes)}, in {folder}"
        return "; ".join(filter(None, [holds, super().remark(stage)]))

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        loaded = self._loaded(stage)
        try:
            return loaded.rows(indices)
        except SourceError as error:
            raise at_call_site(error, stage) from None

    def _loaded(self, stage: StageView) -> LoadedFiles:
        return self.memory.get(lambda: self._open(stage))

    def _open(self, stage: StageView) -> LoadedFiles:
        assert self.folder is not None, "a run begins with `resolve`"
        limit = None if self.limit is None else check_bytes("limit", self.limit)
        try:
            loaded = LoadedFiles(RowFiles(self.folder, limit, sums=False))
            if loaded.is_complete:
                return loaded
            with _locked(self.folder):
                loaded.look()  # another process may have completed it
                if not loaded.is_complete:
                    self._write(stage, loaded)
            return loaded
        except (SourceError, LimitError, DataError) as error:
            raise at_call_site(error, stage) from error.__cause__

    def _write(self, stage: StageView, loaded: LoadedFiles) -> None:
        from ..writing.load_files import write_loaded

        code = f"`{call_code(self)}`"
        try:
            write_loaded(cast("Stage", stage.input).node, loaded, self.workers, progress=self.progress)
        except UnfitRowsError as error:
            raise DataError(str(error)) from error
        except NoRoomError as error:
            rows = f"{code} is full after {loaded.bounds[-1]} rows: {error}"
            if isinstance(error.__cause__, OSError):
                raise SourceError(f"{rows}; free some space, and the next run goes on from there") from error
            raise LimitError(f"{rows}; give a larger `limit`, and the next run goes on from there") from error


class LoadedFiles:
    """The files of all rows, or of the first ones: their heads in order, and the positions at which they begin."""

    def __init__(self, files: RowFiles) -> None:
        self.files = files
        self.pages: list[RowFile] = []
        self.bounds = np.zeros(1, np.int64)
        self._is_open = False
        self._opened: list[StoredRows] = []
        self._table: ChunkedTable | None = None
        self._lock = threading.Lock()
        self.look()

    @property
    def is_complete(self) -> bool:
        return bool(self.pages) and self.pages[-1].head["last"]

    @property
    def place(self) -> str | None:
        """The place of the run after these rows; None at the beginning."""
        return cast("str", self.pages[-1].head["place"]) if self.pages else None

    def look(self) -> None:
        """Look for files of another process."""
        for file in sorted(self.files.new(), key=lambda file: cast("int", file.head["start"])):
            if file.head["start"] == self.bounds[-1] and not self.is_complete:
                self._add(file)

    def write(self, parts: Sequence[BlockRows], place: str, *, last: bool) -> None:
        """Write the next rows, and the place of the run after them."""
        rows = concat(parts) if parts else []
        buffers = Buffers()
        start = int(self.bounds[-1])
        head: dict[str, Json] = {"start": start, "stop": start + len(rows), "place": place, "last": last}
        head["rows"] = packed_rows(rows, buffers, "load")
        self._add(self.files.write(head, np.zeros(0, np.uint8), buffers.parts))

    def rows(self, indices: Indices) -> BlockRows:
        """The rows at these positions."""
        if not self._is_open:
            with self._lock:
                self._open()
        if self._table is not None:
            return self._table.rows(indices)
        return gather(indices, self.bounds, lambda k, places: self._opened[k].rows(places))

    def _open(self) -> None:
        """Map all files. If they are alike, the rows of a thousand are gathered together."""
        if self._is_open:
            return
        for page in self.pages:
            parts = self.files.parts(page.name)
            if parts is None:
                raise SourceError(
                    f"{self.files.folder / page.name} of `load` is gone; make the pipe again, and its rows are written "
                    "again"
                )
            self._opened.append(StoredRows(page.head["rows"], parts, make_tensor))
        tables = [page.table for page in self._opened if page.table is not None and len(page.table)]
        are_all = tables and sum(map(len, tables)) == self.bounds[-1]
        if are_all and have_one_signature(tables) and all(column.ndim == 1 for column in _arrays(tables[0])):
            from ..formats.chunked import ChunkedTable

            self._table = ChunkedTable.from_table(pa.Table.from_batches([table.arrow for table in tables]))
        self._is_open = True

    def _add(self, file: RowFile) -> None:
        self.pages.append(file)
        self.bounds = np.append(self.bounds, np.int64(file.head["stop"]))


def _arrays(table: Rows) -> Iterator[Array]:
    return (column for column in table.columns.values() if isinstance(column, np.ndarray))


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    """Wait until no other process of the machine writes to the folder. A lock ends with its process."""
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
