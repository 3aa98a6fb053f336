"""`PreparedLoader`: a loader that Accelerate can skip in, save and load."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Generic, NoReturn, TypeVar

from ..errors import ArgumentTypeError, PlanWarning, warn
from ..loader import Loader, at_end, gather_state, valid_on_all_ranks
from ..loading.state import State

T = TypeVar("T")


class PreparedLoader(Generic[T]):
    """A feedpipe loader as `accelerator.prepare` would return it: each rank gets its own elements.

    - `skip_first_batches` calls `loader.skip`, which reads nothing of an indexed pipe.
    - `accelerator.register_for_checkpointing` saves the states of all ranks with `save_state`, and `load_state`
      continues from there, on any number of ranks.
    - `accelerator.accumulate` learns of the last element of an epoch, so it takes a step of the optimiser there. If the
      length is not known, each element is read one step ahead.
    - `accelerator.gather_for_metrics` leaves out the rows that `even="pad"` has added to the last elements.
    - The Trainer of Transformers takes it from `get_train_dataloader`, and resumes from its checkpoints.

    Do not iterate the loader itself meanwhile. Elements stay on their device: move them with
    `accelerate.utils.send_to_device`, as the Trainer does by itself.

    Args:
        loader: the loader of this rank, with `even` and `steps` as needed.

    Raises:
        ArgumentTypeError: `loader` is no Loader.

    Example:
        >>> import feedpipe as fp
        >>> from feedpipe.accelerate import PreparedLoader
        >>> prepared = PreparedLoader(fp.Loader(fp.from_sequence(range(6)).batch(2)))
        >>> list(prepared)
        [[0, 1], [2, 3], [4, 5]]
    """

    sampler = None
    prefetch_factor = None

    def __init__(self, loader: Loader[T]) -> None:
        if not isinstance(loader, Loader):
            raise ArgumentTypeError(f"`loader` must be a feedpipe.Loader but got: {loader!r}")
        self.loader = loader
        self.dataset = _Elements(loader)
        self.batch_sampler = _Steps(self.dataset)

    def __iter__(self) -> Iterator[T]:
        return _next_epoch(self.loader)

    def __len__(self) -> int:
        """Return the number of elements of an epoch on this rank."""
        return len(self.loader)

    def __getitem__(self, index: object) -> NoReturn:
        raise ArgumentTypeError(
            "a PreparedLoader takes the place of torch's DataLoader, so it is no dataset for one; return it from "
            "`get_train_dataloader`, or give the trainer `feedpipe.transformers.dataset(pipe)`"
        )

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration begin epoch `epoch`."""
        self.loader.set_epoch(epoch)

    def state_dict(self) -> State:
        """Return one state of all ranks. All ranks must call this together."""
        return gather_state(self.loader)

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Continue from a state, on any number of ranks."""
        self.loader.load_state_dict(state)

    @staticmethod
    def collate_fn(element: T) -> T:
        """Return the element, which the pipe has collated."""
        return element


class _ActiveLoader:
    """What Accelerate asks the loader whose elements are being trained on.

    Attributes:
        end_of_dataloader: whether the element that was handed out last is the last of the epoch.
        remainder: the number of rows of the last elements of all ranks together, if padding follows; 0 if none does,
            and -1 if it is not known.
    """

    end_of_dataloader = False
    remainder = -1


def _next_epoch(loader: Loader[T]) -> Iterator[T]:
    """The elements of the next epoch. If the program uses Accelerate, that learns which one is the last."""
    elements = iter(loader)
    accelerate: Any = sys.modules.get("accelerate")
    return elements if accelerate is None else _reported(loader, elements, accelerate.state.GradientState())


def _reported(loader: Loader[T], elements: Iterator[T], gradients: Any) -> Generator[T]:
    active = _ActiveLoader()
    gradients._add_dataloader(active)
    try:
        for element in elements:
            active.end_of_dataloader = at_end(loader)
            if active.end_of_dataloader:
                active.remainder = _remainder(loader)
            yield element
    finally:
        gradients._remove_dataloader(active)


def _remainder(loader: Loader[Any]) -> int:
    valid = valid_on_all_ranks(loader)
    if valid is None:
        return -1
    rows = int(valid.sum())
    if not valid[:rows].all():
        warn(
            "`gather_for_metrics` leaves out padding only behind all rows, and here rows of another rank follow it; "
            "leave it out by `loader.valid`",
            PlanWarning,
        )
        return -1
    return rows if rows < len(valid) else 0


class _Elements(Generic[T]):
    """The elements of an epoch as a dataset of torch's DataLoader: by the number of their step."""

    def __init__(self, loader: Loader[T]) -> None:
        self.loader = loader
        self._elements: Iterator[T] | None = None

    def begin(self) -> None:
        """Begins an epoch with the next element."""
        self._elements = None

    def __getitems__(self, steps: Sequence[int]) -> T:
        """The next element. If it is the first, elements before its step are skipped."""
        (step,) = steps
        if self._elements is None:
            self._elements = _next_epoch(self.loader)
            self.loader.skip(max(0, step - self.loader.step))
        return next(self._elements)  # its `StopIteration` ends the DataLoader


class _Steps(Generic[T]):
    """The numbers of steps, as a sampler of batches whose first numbers `skip_first_batches` leaves out."""

    def __init__(self, elements: _Elements[T]) -> None:
        self._elements = elements

    def __iter__(self) -> Iterator[list[int]]:
        self._elements.begin()
        for step in count():
            yield [step]

    def __len__(self) -> int:
        return len(self._elements.loader)

    def set_epoch(self, epoch: int) -> None:
        """Begin epoch `epoch`; the Trainer of Transformers calls this for an epoch in which it skips."""
        self._elements.loader.set_epoch(epoch)
