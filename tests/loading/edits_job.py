"""Random passes that are edited, in a job of real processes: `torchrun -m tests.loading.edits_job SEED COUNT`.

All processes make the same choices. Jobs with fewer ranks leave some of them without work.
"""

from __future__ import annotations

import itertools
import json
import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch.distributed as distributed

import feedpipe as fp
from feedpipe.errors import PlanError, PlanWarning, StateError, StateWarning

from ..support.loading import State
from .edits import Chain, EditedJob, edited_pass
from .test_edits import GROUPS, ORDER, check_refusals

T = TypeVar("T")

TOO_SMALL = ("a rank has no element at all", "this rank has no element that could be repeated as padding")


class Processes:
    """The processes of `torchrun`, of which the first ones are a process group."""

    def __init__(self) -> None:
        self.store, self.rank, self.number = next(distributed.rendezvous("env://"))
        self.ranks = 0  # of the process group
        self._exchanges = itertools.count()

    def gather(self, content: Any) -> list[Any]:
        """What each process has, as JSON."""
        number = next(self._exchanges)
        self.store.set(f"{number}/{self.rank}", json.dumps(content))
        return [json.loads(self.store.get(f"{number}/{other}")) for other in range(self.number)]

    def begin(self, ranks: int) -> None:
        """Begins a process group of other ranks."""
        if ranks == self.ranks:
            return
        self.gather(None)
        if distributed.is_initialized():
            distributed.destroy_process_group()
        self.ranks = ranks
        if self.rank < ranks:
            store = distributed.PrefixStore(f"job {next(self._exchanges)}", self.store)
            distributed.init_process_group("gloo", store=store, rank=self.rank, world_size=ranks)
        else:
            next(self._exchanges)


class JobOfProcesses(EditedJob):
    """The loader of this process, if the job has as many ranks."""

    processes: Processes
    gathered: State | None = None  # the last state of all ranks, if none has come to the end of the epoch

    def __init__(self, chain: Chain, ranks: int, states: Any = None, edits: str = "groups", **options: Any) -> None:
        self.processes.begin(ranks)
        if isinstance(states, list):
            states = JobOfProcesses.gathered or states
        self.loaders = []

        def load() -> None:
            if self.processes.rank < ranks:
                self.loaders.append(fp.Loader(chain.pipe(), even="pad", seed=5, **options))
                self.load(states, edits, self.processes.rank)

        self._together(load)

    def take(self, steps: list[int]) -> tuple[list[Any], list[State]]:
        elements, states = self._together(lambda: super(JobOfProcesses, self).take(steps[self.processes.rank :][:1]))
        all_elements, all_states = self._joined(elements), self._joined(states)
        has_ended = any(self.processes.gather(any(loader.epoch for loader in self.loaders)))
        own = [] if has_ended else [fp.gather_state(loader) for loader in self.loaders]
        JobOfProcesses.gathered = next(iter(self._joined(own)), None)
        return all_elements, all_states

    def rest_and_states(self) -> tuple[list[Any], list[State]]:
        elements, states = self._together(super().rest_and_states)
        return self._joined(elements), self._joined(states)

    def _together(self, work: Callable[[], T]) -> T:
        """What `work` returns; if it was refused on one rank, that is raised on all."""
        result, refusal = None, None
        try:
            result = work()
        except (StateError, PlanError) as error:
            refusal = [type(error).__name__, str(error)]
        refusals = [one for one in self.processes.gather(refusal)[: self.processes.ranks] if one is not None]
        if refusals:
            self.close()
            raise {"StateError": StateError, "PlanError": PlanError}[refusals[0][0]](refusals[0][1])
        return cast("T", result)

    def _joined(self, own: list[Any]) -> list[Any]:
        return [with_tuples(one) for of_rank in self.processes.gather(own) for one in of_rank]


def with_tuples(content: Any) -> Any:
    """An element, whose rows are tuples again after they have gone through JSON."""
    if not isinstance(content, list):
        return content
    inner = [with_tuples(one) for one in content]
    return tuple(inner) if inner and (isinstance(inner[0], str) or type(inner[0]) is int) else inner


def main() -> None:
    """Runs passes, and prints how many and their edits."""
    for kind in (StateWarning, PlanWarning):
        warnings.simplefilter("ignore", kind)
    JobOfProcesses.processes = processes = Processes()
    first, count = map(int, sys.argv[1:])
    edits = refused = passes = 0
    for seed in itertools.count(first):
        if passes == count:
            break
        kinds = GROUPS if seed % 3 == 0 else (*ORDER, "drop")
        try:
            result = edited_pass(
                seed, kinds, ranks_change=True, kind=JobOfProcesses, most_ranks=processes.number, is_even=True
            )
            check_refusals(result)
        except PlanError as error:
            if not any(reason in str(error) for reason in TOO_SMALL):
                raise
            continue
        except BaseException as error:
            error.add_note(f"in pass {seed} on process {processes.rank}")
            raise
        passes += 1
        edits, refused = edits + result.edits, refused + len(result.refused)
    if processes.rank == 0:
        sys.stdout.write(f"{count} passes, {edits} edits, {refused} refused\n")
    processes.begin(0)


if __name__ == "__main__":
    main()
