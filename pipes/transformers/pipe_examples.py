"""`PipeExamples`: the rows of a pipe, as the iterable datasets of Hugging Face divide, shuffle and read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import ArgumentTypeError, PlanError
from ..loader import Loader
from ..loading.ranks import Rank
from ..pipe import Pipe, torch_workers

if TYPE_CHECKING:

    class Examples:
        """The base class of what such a dataset reads: pairs of a key and a row, with a state that they keep."""

        _state_dict: dict[str, Any] | None

    class IterableDataset:
        """Hugging Face's iterable dataset."""

        def __init__(self, ex_iterable: Examples) -> None: ...

else:
    from datasets import IterableDataset as IterableDataset
    from datasets import __version__ as version
    from datasets.iterable_dataset import _BaseExamplesIterable as Examples

    if int(version.partition(".")[0]) < 5:
        raise ImportError(f"`dataset` needs datasets 5, because version {version} does not tell a source the epoch")


class PipeExamples(Examples):
    """The rows of one part of a pipe in one epoch, as Hugging Face's datasets divide, shuffle and read them."""

    PARTS: ClassVar[int] = 40_320
    """Of what a dataset believes the pipe to consist; the usual numbers of processes divide it."""

    ENDLESS: ClassVar[int] = 2**62
    """The rows of an epoch that consists of passes without end."""

    sleep_on_threads_shutdown: ClassVar[bool] = False

    def __init__(self, pipe: Pipe[Any], seed: int, repeat: bool, part: Rank, epoch: int) -> None:
        super().__init__()
        self._pipe, self._seed, self._repeat, self._part, self._epoch = pipe, seed, repeat, part, epoch

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any]]]:
        number, world_size = self._part
        steps = self.ENDLESS if self._repeat else None
        loader = Loader(self._whole(), seed=self._seed, rank=number, world_size=world_size, even=None, steps=steps)
        loader.set_epoch(self._epoch)
        state = self._state_dict
        done = state["rows"] if state else 0
        loader.skip(done)
        for place, row in enumerate(loader, done):
            if not isinstance(row, Mapping):
                raise ArgumentTypeError(f"the rows of `pipe` must be dicts for a trainer but one is: {row!r}")
            if state:
                state["rows"] = place + 1
            yield place, dict(row)  # a copy, because functions of `map` may change their row

    def _whole(self) -> Pipe[Any]:
        """The pipe, whose parts have equally many rows on all processes unless they have no end."""
        processes = self._part.world_size // torch_workers()
        if self._repeat or processes == 1:
            return self._pipe
        if not self._pipe.indexed:
            raise PlanError(
                f"{processes} processes divide a streamed pipe unevenly, and a trainer waits for ever for the process "
                "that has fewer batches; give `dataset(pipe, repeat=True)` and end by steps, or give the trainer "
                "fp.Loader(pipe), or `.load()` the pipe, as for an evaluation",
                at=self._pipe.call_site,
            )
        return self._pipe.take(len(self._pipe) // processes * processes)

    @property
    def num_shards(self) -> int:
        return max(1, self.PARTS // self._part.world_size)

    def split_shard_indices_by_worker(self, num_shards: int, index: int, contiguous: bool = True) -> list[int]:
        return [index]

    def shard_data_sources(self, num_shards: int, index: int, contiguous: bool = True) -> PipeExamples:
        number, world_size = self._part
        part = Rank(number + world_size * index, world_size * num_shards)
        return PipeExamples(self._pipe, self._seed, self._repeat, part, self._epoch)

    def reshard_data_sources(self) -> PipeExamples:
        return self

    def shuffle_data_sources(self, generator: Any) -> PipeExamples:
        """The rows of another epoch. Datasets call this with a generator that depends on their epoch."""
        epoch = int(deepcopy(generator).integers(2**31))
        return PipeExamples(self._pipe, self._seed, self._repeat, self._part, epoch)

    def _init_state_dict(self) -> dict[str, Any]:
        self._state_dict = {"rows": 0, "type": type(self).__name__}
        return self._state_dict
