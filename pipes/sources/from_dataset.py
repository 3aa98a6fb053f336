"""`from_dataset`: datasets of torch and of Hugging Face."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Protocol, TypeVar, cast, overload

from ..core.block import Block
from ..core.context import Context
from ..core.cursor import START, Cursor, Json
from ..core.graph import node_code
from ..core.operator import Operator
from ..core.rows import BlockRows, Indices
from ..engine.apply import extend_until_error, map_until_error
from ..engine.stage import Stage
from ..errors import ArgumentTypeError, FeedpipeError, Origin, RowError, StateError, with_call_site
from ..pipe import Pipe

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class MapStyle(Protocol[T_co]):
    """A dataset whose items can be had by number; torch asks no more of one."""

    def __getitem__(self, index: int, /) -> T_co: ...
    def __len__(self) -> int: ...


@dataclass(frozen=True, eq=False)
class FromDataset(Operator):
    """A map-style dataset."""

    kind: ClassVar[str] = "from_dataset"

    dataset: Any

    def length(self, stage: Stage) -> int:
        return len(self.dataset)

    def origin(self, stage: Stage, index: int, context: Context) -> Origin:
        return _origin(self.dataset, index)

    def identity(self) -> Json:
        return {"type": type(self.dataset).__qualname__, "rows": len(self.dataset)}

    def rows(self, stage: Stage, indices: Indices, context: Context) -> BlockRows:
        # Datasets take Python's ints, and some take no others.
        numbers: list[int] = list(indices) if isinstance(indices, range) else indices.tolist()
        many: Callable[[list[int]], Sequence[object]] | None = getattr(self.dataset, "__getitems__", None)
        with _no_worker():
            if many is None:
                made, error = map_until_error(self.dataset.__getitem__, numbers)
            else:
                made, error = self._many(many, numbers)
        if error is not None:
            # Where `__getitems__` failed over several rows, the engine asks again row by row.
            index = numbers[len(made)] if many is None or len(numbers) == 1 else None
            raise _failed(stage, self.dataset, error, index)
        return made

    def _many(
        self, many: Callable[[list[int]], Sequence[object]], numbers: list[int]
    ) -> tuple[list[object], Exception | None]:
        try:
            made = list(many(numbers)) if numbers else []
        except Exception as error:
            return [], error
        if len(made) != len(numbers):
            return [], ValueError(f"`__getitems__` was asked for {len(numbers)} items and gave {len(made)}")
        return made, None


@dataclass(frozen=True, eq=False)
class FromStream(Operator):
    """A dataset that can only be iterated."""

    kind: ClassVar[str] = "from_dataset"

    dataset: Any

    def identity(self) -> Json:
        return {"type": type(self.dataset).__qualname__}

    def blocks(self, stage: Stage, at: Cursor, context: Context) -> Iterator[Block]:
        # Its own state is a token where it has one that is exact; else a token is None, and a resume replays.
        stateful = _keeps_state(self.dataset)
        dataset: Any = self.dataset
        block_size = context.block_size()
        try:
            if stateful or hasattr(dataset, "set_epoch"):
                dataset = copy.deepcopy(dataset)  # runs do not share epoch and position
            if hasattr(dataset, "set_epoch"):
                dataset.set_epoch(context.epoch)
            if at.token is not None:
                dataset.load_state_dict(at.token)
            with _no_worker():
                items = iter(dataset)
        except Exception as error:
            raise _failed(stage, self.dataset, error, at.row) from error
        row, here = at.row, at
        if not stateful:
            here = START.advance(row)
        while True:
            rows: list[object] = []
            wanted = block_size.rows()
            with _no_worker():
                failure = extend_until_error(islice(items, wanted), rows)
            if rows:
                block_size.produced(rows)
                after = row + len(rows)
                # After a failure a state may have counted the item that failed, and after the last item some datasets
                # set it back to the start.
                if stateful and len(rows) == wanted and failure is None:
                    end = Cursor(_state(stage, dataset), 0, after)
                else:
                    end = here.advance(len(rows))
                origins = [_origin(self.dataset, i) for i in range(row, after)] if context.origins else None
                yield Block(rows, here, end, origins)  # type: ignore[arg-type]
                row, here = after, end
            if failure is not None:
                raise _failed(stage, self.dataset, failure, row)
            if len(rows) < wanted:
                return


@overload
def from_dataset(dataset: MapStyle[T]) -> Pipe[T]: ...
@overload
def from_dataset(dataset: Iterable[T]) -> Pipe[T]: ...
def from_dataset(dataset: MapStyle[Any] | Iterable[Any]) -> Pipe[Any]:
    """Begin a pipe with the items of a dataset of torch or of Hugging Face.

    Element: an item, as the dataset gives it. Order is the dataset's. Map-style datasets are indexed, of their length,
    read by `__getitems__` where they have it; state: a position. Iterable ones are streamed, of unknown length; state:
    the dataset's own `state_dict` where it has one, as Hugging Face's do. Else, and where a shuffle buffer makes that
    state inexact, a position: a resume iterates from the start and leaves out the items before it. What has a
    `state_dict` or a `set_epoch` is copied for each run. An iterable dataset cannot be cut: every process that needs a
    part of it reads all of it.

    Inside, `torch.utils.data.get_worker_info()` is None: feedpipe deals the items, not the dataset. `set_epoch` is
    called on iterable datasets that have it. What a dataset draws at random for itself is not keyed, and so neither
    repeats nor resumes: move it into `map(function, rng="global")`. For tables there is `from_table`, which keeps
    columns.

    Args:
        dataset: an object with `__getitem__` and `__len__`, or an iterable one. Its `state_dict`, where used, must give
            plain JSON.

    Raises:
        ArgumentTypeError: it is neither, or a dict of splits.
        RowError: the dataset failed on an item; names its number, after the items before it.

    Example:
        >>> import feedpipe as fp
        >>> import torch
        >>> data = torch.utils.data.TensorDataset(torch.arange(3), torch.arange(3) * 10)
        >>> fp.from_dataset(data)[2]
        (tensor(2), tensor(20))
    """
    given: object = dataset
    if isinstance(given, (Mapping, type)):
        repair = 'choose a split, such as `dataset["train"]`' if isinstance(given, Mapping) else "call it"
        raise ArgumentTypeError(with_call_site(f"`dataset` must be one dataset but got: {given!r:.80}; {repair}"))
    # torch's iterable datasets inherit a `__getitem__` that only raises, and may have a length.
    streamed = any(kind.__name__ == "IterableDataset" for kind in type(dataset).__mro__)
    if not streamed and hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"):
        return Pipe.source(FromDataset(dataset))
    if isinstance(given, Iterable) and not isinstance(given, Iterator):
        return Pipe.source(FromStream(dataset))
    raise ArgumentTypeError(
        with_call_site(
            "`dataset` must have `__getitem__` and `__len__`, or be iterable again and again, but got: "
            f"{type(dataset).__name__}"
        )
    )


def _origin(dataset: object, index: int) -> Origin:
    return Origin(f"from_dataset({type(dataset).__name__})", index + 1)


def _failed(stage: Stage, dataset: object, error: Exception, index: int | None) -> Exception:
    if isinstance(error, FeedpipeError):
        return error
    where, origin = stage.node.call_site, None if index is None else _origin(dataset, index)
    message = f"`{node_code(stage.node)}` failed with {type(error).__name__}: {error}"
    message += f"\n  on {origin}" if origin else ""
    message += f"\n  at {where.file}:{where.line}" if where else ""
    made = RowError(message, operator=node_code(stage.node), where=where, origin=origin)
    made.__cause__ = error
    return made


def _keeps_state(dataset: Any) -> bool:
    """Whether the dataset's own state resumes exactly."""
    if not (hasattr(dataset, "state_dict") and hasattr(dataset, "load_state_dict")):
        return False
    # Hugging Face says which states are not exact: those of a shuffle buffer, and of batched maps over tables.
    formatting = getattr(dataset, "_formatting", None)
    return not (formatting is not None and formatting.is_table) and not _buffers(getattr(dataset, "_ex_iterable", None))


def _buffers(iterable: Any) -> bool:
    """Whether a Hugging Face dataset shuffles within a buffer, anywhere along the way."""
    if iterable is None:
        return False
    if type(iterable).__name__ == "BufferShuffledExamplesIterable":
        return True
    inner = [getattr(iterable, "ex_iterable", None), *getattr(iterable, "ex_iterables", ())]
    return any(map(_buffers, inner))


def _state(stage: Stage, dataset: Any) -> Json:
    state = dataset.state_dict()
    try:
        plain = json.loads(json.dumps(state))
        if plain == state:
            return cast("Json", plain)
        reason = "does not come back from JSON as it was"
    except (TypeError, ValueError) as error:
        reason = f"cannot be written as JSON: {error}"
    raise StateError(
        with_call_site(
            f"`from_dataset` resumes a {type(dataset).__name__} by its `state_dict()`, and that {reason}; give it a "
            "state of plain lists, dicts, numbers and text, or none: then a resume replays it",
            stage.node.call_site,
        )
    )


@contextmanager
def _no_worker() -> Generator[None]:
    """Hides from the dataset that it runs in a worker of torch's DataLoader, should it: it would deal itself again."""
    worker: Any = sys.modules.get("torch.utils.data._utils.worker")
    info = getattr(worker, "_worker_info", None)
    if worker is None or info is None:
        yield
        return
    worker._worker_info = None
    try:
        yield
    finally:
        worker._worker_info = info
