"""One run of a pipe in chunks of rows, and its place, from which a later run goes on."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from ..core.checks import check_int
from ..core.lazy import pa
from ..core.progress_bar import ProgressBar
from ..engine.stage import bind, resolve
from ..errors import StateError
from ..loader import PassLoader
from ..loading.state import State
from ..pipe import Pipe, check_pipe


class SavedRun(NamedTuple):
    """The place of a run, for another run of the same pipe.

    Attributes:
        loader: the state of its loader, before a chunk.
        chunk: the number of rows that the loader gives at a time.
        rows: the rows before the place.
        written: those of them that are in the chunk.
        schema: names and types of the rows; None if the rows are no table, or none has come.
    """

    loader: Mapping[str, object]
    chunk: int
    rows: int
    written: int
    schema: pa.Schema | None

    def text(self) -> str:
        schema = None if self.schema is None else base64.b64encode(self.schema.serialize().to_pybytes()).decode()
        return json.dumps([*self[:-1], schema], separators=(",", ":"))

    @staticmethod
    def of_text(text: object) -> SavedRun:
        """The run that `text` was made of."""
        try:
            loader, chunk, rows, written, schema = json.loads(cast("str", text))
            kept = None if schema is None else pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema)))
            return SavedRun(loader, chunk, rows, written, kept)
        except (ValueError, TypeError, OSError, pa.ArrowException) as error:
            raise StateError("the saved progress is damaged") from error


class ChunkedRun:
    """One run of a pipe, in chunks of rows. It may go on with an earlier run, in the order of that one.

    Attributes:
        root: the graph, with its listings and types resolved.
        length: the number of rows, if known.
        chunk: the number of rows of a chunk.
        rows: the number of rows that are written or about to be, with those of the runs before.
    """

    def __init__(self, pipe: Pipe[object], chunk: int, workers: int) -> None:
        check_pipe(pipe)
        check_int("workers", workers, least=0)
        self.root = resolve(pipe)
        self.length = bind(self.root).length
        self.chunk = chunk
        self.rows = 0
        self._workers = workers
        self._loader = self._new_loader(chunk)
        # The number of the first row of each chunk that is not written yet, and the state before it.
        self._chunks: deque[tuple[int, Callable[[], State]]] = deque([(0, self._loader.state_dict)])

    @property
    def identity(self) -> str:
        """A digest of the pipe and its code."""
        state = self._chunks[0][1]()
        return hashlib.blake2b(json.dumps([state["pipe"], state["code"]]).encode(), digest_size=16).hexdigest()

    def __iter__(self) -> Iterator[Sequence[object]]:
        first, state = self._chunks[0]
        start = state()
        self._chunks[0] = first, lambda: start
        written, stop = self.rows - first, first
        with self._loader as loader:
            for chunk, info in loader.with_info():
                if info.epoch:  # the place was the end, after which the loader begins again
                    return
                stop += len(chunk)
                self._chunks.append((stop, info.state_dict))
                yield chunk[written:] if written else chunk
                written = 0
                self._forget()

    def progress_bar(self, title: str, *, shown: bool, notes: Callable[[], str] | None = None) -> ProgressBar:
        """A line that counts rows from the place of the run; if `shown`, on a terminal."""
        return ProgressBar(
            title,
            self.length,
            initial=self.rows,
            fraction=lambda: self._loader.progress,
            notes=notes,
            shown=None if shown else False,
        )

    def place(self, schema: pa.Schema | None) -> SavedRun:
        """The place after the rows that are written."""
        self._forget()
        first, state = self._chunks[0]
        return SavedRun(state(), self.chunk, self.rows, self.rows - first, schema)

    def go_on(self, saved: SavedRun) -> None:
        """Begin at the place of an earlier run; a `StateError` if that is of another pipe."""
        try:
            loader = self._new_loader(saved.chunk)
            loader.load_state_dict(saved.loader)
        except (TypeError, ValueError) as error:
            raise error if isinstance(error, StateError) else StateError("the saved progress is damaged") from error
        self._loader, self.chunk, self.rows = loader, saved.chunk, saved.rows
        self._chunks = deque([(saved.rows - saved.written, loader.state_dict)])

    def _forget(self) -> None:
        """Forget the chunks that are written."""
        while len(self._chunks) > 1 and self._chunks[1][0] <= self.rows:
            self._chunks.popleft()

    def _new_loader(self, chunk: int) -> PassLoader[Sequence[object]]:
        pipe: Pipe[object] = Pipe(self.root.op, self.root.inputs, self.root.call_site)
        return PassLoader(pipe.batch(chunk), workers=self._workers, rank=0, world_size=1)
