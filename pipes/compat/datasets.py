"""Datasets with the elements of a pipe, for torch's `DataLoader` and torchdata's `StatefulDataLoader`."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from ..core.checks import check_choice, check_int
from ..core.context import Context
from ..engine.run import position_count, present
from ..engine.stage import bind, resolve
from ..errors import ArgumentError, ArgumentTypeError, LoaderError, PlanError, RowError, shown_traceback
from ..loader import Loader
from ..loading.ranks import Rank, RankSource
from ..loading.state import State
from ..ops.shuffle import with_part_of_windows
from ..pipe import Pipe
from ..plan.sharding import reorders

if TYPE_CHECKING:
    from ..torch.ranks import Group


T_co = TypeVar("T_co", covariant=True)

SHARDS_OF_RANK = 8
"""The shards of a rank, or a multiple, if a streamed pipe shuffles: 1, 2, 4 and 8 workers then give one order."""


class PipeIterableDataset(IterableDataset[T_co]):
    """The elements of a pipe in order; each worker of each rank gives its own part.

    Worker w of W on rank r of R is rank `r + R * w` of `R * W`. Since a `DataLoader` takes from its workers in turn,
    it gives the elements of the rank in their order.

    Raises:
        LoaderError: Accelerate would divide the part of a rank among the ranks again.
        PlanError: the ranks of a streamed pipe cannot be made even.
    """

    def __init__(
        self,
        pipe: Pipe[T_co],
        *,
        seed: int,
        rank: int | None,
        world_size: int | None,
        group: Group | None,
        shards: int | None,
        even: Literal["drop"] | None,
    ) -> None:
        super().__init__()
        check_choice("even", even, ("drop", None))
        if shards is not None and pipe.indexed:
            raise ArgumentError("`shards` must be left out if the pipe is indexed, because it has none")
        self._pipe = pipe
        self._seed = check_int("seed", seed, least=0)
        self._ranks = RankSource(rank, world_size, group)
        self._shards = None if shards is None else check_int("shards", shards, least=1)
        self._even: Literal["drop"] | None = even
        self._epoch = _SharedEpoch()
        self._loader: Loader[T_co] | None = None  # of the process that iterates
        self._part: Rank | None = None  # the rank for which it was made
        self._resumes = False  # whether a state from within an epoch was loaded
        self._ranks.certain()

    def __iter__(self) -> Iterator[T_co]:
        loader = self._own_loader()
        if not self._resumes:
            loader.set_epoch(self._epoch.get())
        self._resumes = False
        return iter(loader)

    def __len__(self) -> int:
        """Return the number of elements of this rank, over all workers; for indexed pipes.

        Raises:
            TypeError: the pipe is streamed, so the number depends on the workers.
        """
        if not self._pipe.indexed:
            raise TypeError("a streamed pipe has no length as a dataset: it depends on the number of workers")
        return len(self._pipe) // self._ranks.ask().world_size

    def set_epoch(self, epoch: int) -> None:
        """Make each later `iter` give the order of `epoch`, also in the workers of a loader that keeps them."""
        self._epoch.set(epoch)

    def state_dict(self) -> State:
        """Return the position of this process. `StatefulDataLoader` calls it in each worker."""
        return self._own_loader().state_dict()

    def load_state_dict(self, state: State) -> None:
        """Make the next `iter` in this process continue at `state`.

        Raises:
            StateError: it is the state of another pipe, seed, rank or number of workers.
        """
        loader = self._own_loader()
        loader.load_state_dict(state)
        self._resumes = loader.step > 0

    def _own_loader(self) -> Loader[T_co]:
        """The loader of this process: a worker is a rank of its own."""
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        rank = self._rank()
        part = Rank(rank.number + rank.world_size * worker, rank.world_size * workers)
        if self._loader is None or self._part != part:
            # An indexed pipe is cut. The ranks of a streamed one agree on its end, which workers cannot do.
            agrees = self._even is not None and not self._pipe.indexed and rank.world_size > 1
            if agrees and info is not None:
                raise PlanError(
                    f"the {rank.world_size} ranks of a streamed pipe cannot be made even in the workers of a "
                    "DataLoader; give fp.Loader(pipe, workers=...) in its place, or leave out `num_workers`, or give "
                    "`even=None` if your training loop accepts ranks of different length"
                )
            asks = agrees and not self._ranks.is_explicit
            pipe = self._pipe
            if pipe.indexed and rank.world_size > 1:
                pipe = pipe.take(len(pipe) // rank.world_size * rank.world_size)
            self._part = part
            self._loader = Loader(
                with_part_of_windows(pipe, workers),
                seed=self._seed,
                rank=None if asks else part.number,
                world_size=None if asks else part.world_size,
                group=self._ranks.group if asks else None,
                shards=self._shards_of(rank, workers),
                even=self._even if agrees else None,
            )
        return self._loader

    def _rank(self) -> Rank:
        rank = self._ranks.ask()
        if rank.world_size > 1 and _loader_of_accelerate(self, least_processes=2) is not None:
            raise LoaderError(
                "Accelerate divides this dataset among its processes, and the dataset has divided the pipe among "
                f"{rank.world_size} ranks already, so rows would be lost; give `as_iterable_dataset` rank=0 and "
                "world_size=1, or use feedpipe.accelerate.PreparedLoader"
            )
        return rank

    def _shards_of(self, rank: Rank, workers: int) -> int | None:
        if self._pipe.indexed or self._shards is not None:
            return self._shards
        return rank.world_size * math.lcm(SHARDS_OF_RANK if reorders(self._pipe) else 1, workers)

    def __getstate__(self) -> dict[str, object]:
        # A spawned worker has no process group, so it gets the rank. What has begun stays in this process.
        ranks = RankSource(*self._rank(), None)
        return {**self.__dict__, "_ranks": ranks, "_loader": None, "_part": None, "_resumes": False}


def _loader_of_accelerate(dataset: object, least_processes: int = 1) -> Any:
    """The loader of `accelerator.prepare` that iterates the dataset, in this process or in its workers; else None."""
    accelerate: Any = sys.modules.get("accelerate")
    if accelerate is None or accelerate.PartialState._shared_state.get("num_processes", 1) < least_processes:
        return None
    for loader in accelerate.state.GradientState().dataloader_references:  # None, or a loader that is iterated
        holder = loader
        while (holder := getattr(holder, "dataset", None)) is not None:
            if holder is dataset:
                return loader
    return None


class PipeMapDataset(Dataset[T_co]):
    """The elements of an indexed pipe by number."""

    def __init__(self, pipe: Pipe[T_co], seed: int) -> None:
        if not pipe.indexed:
            raise ArgumentTypeError(
                "`as_map_dataset` needs an indexed pipe, and this one is streamed; use `as_iterable_dataset()`, or "
                "`.load()` before it"
            )
        self._pipe = pipe
        self._seed = check_int("seed", seed, least=0)
        self._stage = bind(resolve(pipe))
        self._epoch = _SharedEpoch()

    def __len__(self) -> int:
        self._follow_accelerate()
        return position_count(self._stage)

    def __getitem__(self, index: int) -> T_co:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> Sequence[T_co]:
        """Return the elements of a batch, which torch's `DataLoader` asks for at once."""
        self._follow_accelerate()
        length = position_count(self._stage)
        positions = np.asarray(indices, np.int64)
        if positions.size and not -length <= positions.min() <= positions.max() < length:
            outside = next(index for index in indices if not -length <= index < length)
            raise IndexError(f"index {outside} is out of range for a pipe of {length} elements")
        try:
            rows = self._stage.rows(positions % length, Context(seed=self._seed, epoch=self._epoch.get()))
        except RowError as error:
            raise error.with_traceback(shown_traceback(error)) from error.__cause__
        return cast("Sequence[T_co]", list(map(present, rows)) if self._stage.may_skip else list(rows))

    def set_epoch(self, epoch: int) -> None:
        """Make shuffles and random draws those of `epoch`, also in the workers of a loader that keeps them."""
        self._epoch.set(epoch)

    def _follow_accelerate(self) -> None:
        """Takes the epoch of Accelerate's loader, which tells it to the sampler alone if it skips, or has two ranks.

        A sampler asks for the length when it begins an epoch, so that workers have the epoch before their first index.
        """
        epoch = None if get_worker_info() else getattr(_loader_of_accelerate(self), "iteration", None)
        if epoch is not None:
            self._epoch.set(epoch)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_stage": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._stage = bind(resolve(self._pipe))


class _SharedEpoch:
    """The epoch that a dataset shares with its copies in workers."""

    def __init__(self) -> None:
        self._value = torch.zeros((), dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]

    def get(self) -> int:
        return int(self._value)

    def set(self, epoch: int) -> None:
        self._value.fill_(check_int("epoch", epoch, least=0))
