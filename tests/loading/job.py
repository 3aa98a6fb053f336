"""Three processes of one job: each runs all checks of this module in turn, so torch is started once for all of them.

A check is a function of the rank. What it returns, or its error as text, goes to `test_job.py`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import torch.distributed as distributed

import feedpipe as fp
from feedpipe.torch.ranks import side_group

Check = Callable[[int], object]
CHECKS: dict[str, Check] = {}

WORLD_SIZE = 3


def check(function: Check) -> Check:
    CHECKS[function.__name__] = function
    return function


def error_of(run: Callable[[], object]) -> str:
    """The error of `run`, as text; what it returns, if there is none."""
    try:
        return repr(run())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@check
def messages(rank: int) -> object:
    group = side_group()
    assert group is not None and group is side_group()
    gathered = group.gather("names", b"abc"[:rank])
    sent = group.broadcast("text", b"of rank 0" if rank == 0 else None)
    numbers = group.post("numbers", [rank, 2**40]).result()
    return [*map(bytes.decode, gathered), sent.decode(), numbers]


@check
def ranks_at_different_places(rank: int) -> object:
    group = side_group()
    assert group is not None
    error = error_of(group.post(f"epoch {rank // 2}").result)
    return [error, len(group.gather("later", b""))]


@check
def a_rank_that_does_not_come(rank: int) -> object:
    group = side_group()
    assert group is not None
    return group.roll_call("one comes", seconds=0) if rank == 1 else None


def streamed() -> fp.Pipe[int]:
    return fp.from_sequence(range(240)).shuffle(window=8)


def indexed() -> fp.Pipe[int]:
    return fp.from_sequence(range(240)).shuffle()


@check
def states_are_gathered(rank: int) -> object:
    answers: list[object] = []
    for pipe, count in ((streamed(), 4), (indexed(), 4), (indexed(), 2 + 3 * rank)):
        loader = fp.Loader(pipe, seed=5)
        taken = list(islice(iter(loader), count))
        answers.append([taken, fp.gather_state(loader)])
    alone = fp.Loader(indexed(), rank=0, world_size=2)
    return [*answers, error_of(lambda: fp.gather_state(alone))]


def main(rank: int, folder: Path) -> None:
    distributed.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=WORLD_SIZE)
    results: dict[str, object] = {}
    for name, function in CHECKS.items():
        try:
            results[name] = function(rank)
        except Exception as error:
            results[name] = f"{type(error).__name__}: {error}"
        distributed.barrier()
    (folder / f"{rank}.json").write_text(json.dumps(results))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
