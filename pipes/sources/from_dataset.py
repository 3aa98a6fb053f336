"""`from_dataset`: datasets of torch and of Hugging Face."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from typing import Any, ClassVar, Protocol, TypeVar, cast, overload

from ..core.block import Block
from ..core.context import Context
from ..core.cursor import START, Cursor, Json
from ..core.operator import Operator, Source, StageView
from ..core.origins import Origins
from ..core.rows import BlockRows, Indices
from ..engine.calls import extend_until_error, map_until_error
from ..errors import ArgumentTypeError, Origin, PlanWarning, StateError, warn
from ..pipe import Pipe
from .from_sequence import check_no_table

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@overload
def from_dataset(dataset: MapStyleDataset[T]) -> Pipe[T]: ...
@overload
def from_dataset(dataset: Iterable[T]) -> Pipe[T]: ...
def from_dataset(dataset: MapStyleDataset[Any] | Iterable[Any]) -> Pipe[Any]:
    """Begin a pipe with the items of a dataset of torch or of Hugging Face.

    Element: an item of the dataset. Order: the dataset's. Length: the dataset's, if it has `__getitem__` and `__len__`;
    then the pipe is indexed. Else unknown and streamed. State: a position, or the dataset's own state.

    `__getitems__` of a map-style dataset is called if it has one.

    The state of an iterable dataset is its own `state_dict` if it has one, as those of Hugging Face do. Without one, or
    if a shuffle buffer makes it inexact, the state is a position: a resume iterates from the start and leaves out the
    items before it. `set_epoch` is called if the dataset has it. A dataset with a `state_dict` or a `set_epoch`, and
    an `IterDataPipe`, is copied for each run. An iterable dataset cannot be cut: every process that needs a part of it
    reads all of it. Give it whole: a dataset that was split by node gives a warning.

    In the dataset's code, `torch.utils.data.get_worker_info()` is None: feedpipe shards the items, not the dataset.
    Random draws of a dataset are not keyed, so they neither repeat nor resume: move them into
    `map(function, rng="global")`. `from_table` reads tables, and keeps their columns.

    Args:
        dataset: an object with `__getitem__` and `__len__`, or an iterable one. If its `state_dict` is used, that must
            be plain JSON.

    Raises:
        ArgumentTypeError: `dataset` is neither, or a dict of splits.
        RowError: the dataset failed on an item. The error names its number, and comes after the items before it.

    Example:
        >>> import feedpipe as fp
        >>> import torch
        >>> data = torch.utils.data.TensorDataset(torch.arange(3), torch.arange(3) * 10)
        >>> fp.from_dataset(data)[2]
        (tensor(2), tensor(20))
    """
    value: object = dataset
    check_no_table("from_dataset", value)
    if isinstance(value, (Mapping, type)):
        repair = 'choose a split, such as `dataset["train"]`' if isinstance(value, Mapping) else "call it"
        raise ArgumentTypeError(f"`dataset` must be one dataset but got: {value!r:.80}; {repair}")
    # torch's iterable datasets inherit a `__getitem__` that only raises, and may have a length.
    if not _is_a("IterableDataset", dataset) and hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"):
        return Pipe.source(FromDataset(dataset))
    if isinstance(value, Iterable) and not isinstance(value, Iterator):
        _warn_if_split(dataset)
        return Pipe.source(FromStream(dataset))
    raise ArgumentTypeError(
        "`dataset` must have `__getitem__` and `__len__`, or be iterable again and again, but got: "
        f"{type(dataset).__name__}"
    )


class MapStyleDataset(Protocol[T_co]):
    """A dataset whose items have numbers; torch requires no more of one."""

    def __getitem__(self, index: int, /) -> T_co: ...
    def __len__(self) -> int: ...


@dataclass(frozen=True, eq=False, repr=False)
class FromDataset(Source):
    """A map-style dataset."""

    kind: ClassVar[str] = "from_dataset"

    dataset: Any

    def length(self, stage: StageView) -> int:
        return len(self.dataset)

    def origin(self, stage: StageView, index: int, context: Context) -> Origin:
        return _origin(self.dataset, index)

    def identity(self) -> Json:
        return {"type": type(self.dataset).__qualname__, "rows": len(self.dataset)}

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        # Some datasets take only Python's ints.
        numbers: list[int] = list(indices) if isinstance(indices, range) else indices.tolist()
        get_items: Callable[[list[int]], Sequence[object]] | None = getattr(self.dataset, "__getitems__", None)
        with _no_worker():
            if get_items is None:
                items, error = map_until_error(self.dataset.__getitem__, numbers)
            else:
                items, error = self._get_items(get_items, numbers)
        if error is not None:
            # If `__getitems__` failed for several rows, the engine asks again row by row.
            index = numbers[len(items)] if get_items is None or len(numbers) == 1 else None
            raise stage.failed_on(error, None if index is None else _origin(self.dataset, index))
        return items

    def _get_items(
        self, get_items: Callable[[list[int]], Sequence[object]], numbers: list[int]
    ) -> tuple[list[object], Exception | None]:
        try:
            items = list(get_items(numbers)) if numbers else []
        except Exception as error:
            return [], error
        if len(items) != len(numbers):
            return [], ValueError(f"`__getitems__` was asked for {len(numbers)} items and gave {len(items)}")
        return items, None


@dataclass(frozen=True, eq=False, repr=False)
class FromStream(Operator):
    """A dataset that can only be iterated."""

    kind: ClassVar[str] = "from_dataset"

    dataset: Any

    def identity(self) -> Json:
        return {"type": type(self.dataset).__qualname__}

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        # The token is the dataset's own state if that is exact; else it is None, and a resume replays.
        stateful = _keeps_state(self.dataset)
        dataset: Any = self.dataset
        block_size = context.block_size()
        try:
            # Runs do not share epoch and position, and torch lets only the newest iterator of a data pipe go on.
            if stateful or hasattr(dataset, "set_epoch") or _is_a("IterDataPipe", dataset):
                dataset = _copied(dataset)
            if hasattr(dataset, "set_epoch"):
                dataset.set_epoch(context.epoch)
            if at.token is not None:
                dataset.load_state_dict(at.token)
            with _no_worker():
                items = iter(dataset)
        except Exception as error:
            raise stage.failed_on(error, _origin(self.dataset, at.row)) from error
        row, here = at.row, at
        if not stateful:
            here = START.advance(row)
        while True:
            rows: list[object] = []
            count = block_size.rows()
            with _no_worker():
                failure = extend_until_error(map(next, repeat(items, count)), rows)
            if rows:
                block_size.produced(rows)
                after = row + len(rows)
                # After a failure, the state may count the item that failed. After the last item, some datasets reset it
                # to the start.
                if stateful and len(rows) == count and failure is None:
                    end = Cursor(_state(stage, dataset), 0, after)
                else:
                    end = here.advance(len(rows))
                numbers = range(row, after)
                origins = Origins([_origin(self.dataset, i) for i in numbers]) if context.tracing.origins else None
                yield Block(rows, here, end, origins)
                row, here = after, end
            if failure is not None:
                raise stage.failed_on(failure, _origin(self.dataset, row))
            if len(rows) < count:
                return


def _copied(dataset: object) -> Any:
    try:
        return copy.deepcopy(dataset)
    except RuntimeError:  # in a new thread fsspec adds its file systems to the dict of them that is being copied
        return copy.deepcopy(dataset)


def _warn_if_split(dataset: object) -> None:
    """Warns if a Hugging Face dataset gives only the rows of one rank."""
    parts = getattr(getattr(dataset, "_distributed", None), "world_size", 1)
    if parts > 1:
        warn(
            f"this dataset was split by node into {parts} parts, and a loader divides rows among ranks itself, so each "
            "rank would get a part of its part; give the dataset as it was before `split_dataset_by_node`, or make "
            "the loader with `rank=0, world_size=1`",
            PlanWarning,
        )


def _is_a(name: str, dataset: object) -> bool:
    return any(kind.__name__ == name for kind in type(dataset).__mro__)


def _origin(dataset: object, index: int) -> Origin:
    return Origin(f"from_dataset({type(dataset).__name__})", index + 1)


def _keeps_state(dataset: Any) -> bool:
    """Whether the dataset's own state resumes exactly."""
    if not (hasattr(dataset, "state_dict") and hasattr(dataset, "load_state_dict")):
        return False
    # Hugging Face documents which states are not exact: those of a shuffle buffer, and of batched maps over tables.
    formatting = getattr(dataset, "_formatting", None)
    return not (formatting is not None and formatting.is_table) and not _buffers(getattr(dataset, "_ex_iterable", None))


def _buffers(iterable: Any) -> bool:
    """Whether a Hugging Face dataset has a shuffle buffer anywhere in its chain."""
    if iterable is None:
        return False
    if type(iterable).__name__ == "BufferShuffledExamplesIterable":
        return True
    inner = [getattr(iterable, "ex_iterable", None), *getattr(iterable, "ex_iterables", ())]
    return any(map(_buffers, inner))


def _state(stage: StageView, dataset: Any) -> Json:
    state = dataset.state_dict()
    try:
        plain = json.loads(json.dumps(state))
        if plain == state:
            return cast("Json", plain)
        reason = "does not come back from JSON unchanged"
    except (TypeError, ValueError) as error:
        reason = f"cannot be written as JSON: {error}"
    raise StateError(
        f"`from_dataset` resumes a {type(dataset).__name__} by its `state_dict()`, and that {reason}; give it a "
        "state of plain lists, dicts, numbers and text, or no `state_dict`: then a resume replays it",
        at=stage.call_site,
    )


@contextmanager
def _no_worker() -> Generator[None]:
    """Hides the worker of torch's DataLoader: a dataset would give only the share of that worker."""
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
