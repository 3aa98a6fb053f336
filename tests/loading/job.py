"""Four processes of one job, forked after torch was imported: each runs all checks of this module in turn.

A check is a function of the rank. What it returns, or its error as text, goes to `test_job.py`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sys
import traceback
import warnings
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest import mock

import torch
import torch.distributed as distributed
import torch.distributed.checkpoint as checkpoint
from torch.distributed.device_mesh import init_device_mesh

import feedpipe as fp
from feedpipe.sources.list_files import ListFiles
from feedpipe.torch import ranks
from feedpipe.torch.ranks import SideGroup, side_group

Check = Callable[[int], object]
CHECKS: dict[str, Check] = {}

WORLD_SIZE = 4


def seventh_is_missing(number: int) -> bool:
    return number % 7 != 0 or number in (0, 14)


def fails_at_50(number: int) -> int:
    if number == 50:
        raise ValueError("no fifty")
    return number


def check(function: Check) -> Check:
    CHECKS[function.__name__] = function
    return function


def own_group() -> SideGroup:
    """The group of all ranks."""
    group = side_group()
    assert group is not None
    return group


def error_of(run: Callable[[], object]) -> str:
    """The error of `run`, as text; what it returns, if there is none."""
    try:
        return repr(run())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@check
def ranks_at_different_places(rank: int) -> object:
    group = own_group()
    error = error_of(group.post(f"epoch {rank // 2}").result)
    return [error, len(group.gather("later", b""))]


@check
def uneven_ranks(rank: int) -> object:
    """What each rank takes in an epoch, by `even`, and whether it is padding."""
    pipe = fp.from_sequence(range(100)).filter(seventh_is_missing)
    results: dict[str, object] = {}
    for even in ("drop", "pad", "error"):
        loader = fp.Loader(pipe, even=even)
        taken: list[object] = []
        rows = ((number, bool(info.valid)) for number, info in loader.with_info())
        results[even] = [error_of(partial(taken.extend, rows)), taken, loader.epoch, loader.step]
    return results


@check
def workers_and_breaks(rank: int) -> object:
    """Three epochs from two processes, left after 5 steps, after 11, and not at all."""
    pipe = fp.from_sequence(range(100)).shuffle().filter(seventh_is_missing)
    with fp.Loader(pipe, workers=2) as loader:
        return [list(itertools.islice(loader, steps)) for steps in (5, 11, None)]


@check
def states(rank: int) -> object:
    """Each rank's elements before a state in mid-epoch, and those of a new loader after it."""
    pipe = fp.from_sequence(range(100)).filter(seventh_is_missing)
    loader = fp.Loader(pipe)
    before = list(itertools.islice(loader, 7))
    resumed = fp.Loader(pipe)
    resumed.load_state_dict(loader.state_dict())
    after = list(resumed)
    last = fp.Loader(pipe, even="pad")
    steps = [info for _, info in last.with_info()]
    resumed_at_end = fp.Loader(pipe, even="pad")
    resumed_at_end.load_state_dict(steps[-1].state_dict())
    return [before, after, len(steps), [len(list(resumed_at_end)), resumed_at_end.epoch]]


@check
def a_pipe_that_changes(rank: int) -> object:
    """Each rank's rows before a change of batches and weights, and after it; the states are the ranks' own."""
    one, other = (fp.from_sequence(range(begin, begin + 200)).filter(seventh_is_missing) for begin in (0, 1000))
    loader = fp.Loader(one.mix(other, weights=[1, 1]).batch(3), even="pad")
    before = [row for batch in itertools.islice(loader, 5) for row in batch]
    resumed = fp.Loader(one.mix(other, weights=[1, 3]).batch(8), even="pad")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fp.errors.StateWarning)
        resumed.load_state_dict(loader.state_dict(), edits="order")
    after = [(batch, bool(info.valid.all())) for batch, info in resumed.with_info()]
    return [before, [row for batch, valid in after if valid for row in batch], len(after)]


@check
def a_rank_without_elements(rank: int) -> object:
    pipe = fp.from_sequence(range(4)).filter(lambda number: number != 2)
    return [error_of(partial(list, fp.Loader(pipe, even=even))) for even in ("drop", "pad")]


@check
def a_rank_that_fails(rank: int) -> object:
    """How many steps each rank takes before row 50 fails, and its error: lengths are not known."""
    taken: list[int] = []
    pipe = fp.from_sequence(range(100)).filter(seventh_is_missing).map(fails_at_50)
    error = error_of(lambda: taken.extend(fp.Loader(pipe)))
    error_again = error_of(lambda: taken.extend(fp.Loader(pipe)))
    return [len(taken), error, error == error_again]


@check
def a_rank_that_fails_while_others_run(rank: int) -> object:
    """Lengths are known, so ranks run apart; the others go on until they hear of it."""
    pipe = fp.from_sequence([0, 1, 50, 3]).map(fails_at_50)
    return error_of(lambda: deque(fp.Loader(pipe, steps=10**9), maxlen=0))


@check
def ranks_that_disagree(rank: int) -> object:
    numbers = fp.from_sequence(range(20)).shuffle()
    advanced = fp.Loader(numbers)
    deque(itertools.islice(advanced, 1 + rank // 3), maxlen=0)
    behind = fp.Loader(numbers)
    behind.load_state_dict(advanced.state_dict())
    return [
        error_of(lambda: next(iter(fp.Loader(numbers, seed=rank // 2)))),
        error_of(lambda: next(iter(fp.Loader(numbers.batch(1 + rank // 3))))),
        error_of(lambda: next(iter(behind))),
        error_of(lambda: next(iter(fp.Loader(numbers)))),
    ]


@check
def a_rank_that_does_not_ask(rank: int) -> object:
    loader = fp.Loader(fp.from_sequence(range(20)))
    distributed.barrier()  # three ranks ask at one time, and wait for the fourth
    with mock.patch.object(own_group(), "timeout", 1.0):
        first = error_of(lambda: next(iter(loader))) if rank != 2 else ""
    distributed.barrier()
    return [first, error_of(lambda: next(iter(loader))) if rank == 2 else "", error_of(lambda: list(loader))]


@check
def a_rank_that_leaves_early(rank: int) -> object:
    """Rank 1 leaves its loop after three elements, with `break`, and waits for the others by other means."""
    loader = fp.Loader(fp.from_sequence(range(400)).filter(seventh_is_missing))
    error = error_of(lambda: deque(itertools.islice(loader, 3 if rank == 1 else None), maxlen=0))
    state = loader.state_dict()
    distributed.barrier()
    first = loader.peek()
    return [error, loader.epoch, state["step"], [first, *itertools.islice(loader, 5)]]


@check
def a_rank_that_stops_asking(rank: int) -> object:
    """Rank 1 keeps its iterator, and asks it for no further element."""
    loader = fp.Loader(fp.from_sequence(range(400)).filter(seventh_is_missing))
    elements = iter(loader)
    with mock.patch.object(own_group(), "timeout", 0.5), mock.patch.object(ranks, "PATIENCE_SECONDS", 0.0):
        error = error_of(lambda: deque(itertools.islice(elements, 3 if rank == 1 else None), maxlen=0))
    distributed.barrier()
    return [error, error_of(lambda: list(elements)) if rank == 1 else "", len(list(loader))]


@check
def padding_goes_on_after_a_state(rank: int) -> object:
    """What each rank takes with padding of unknown length, and what loaders take that load the state of each step."""
    pipe = fp.from_sequence(range(100)).filter(seventh_is_missing)
    whole = [(row, bool(info.valid), info.state_dict()) for row, info in fp.Loader(pipe, even="pad").with_info()]
    rests: list[object] = []
    for _, _, state in whole[-4:-1]:
        loader = fp.Loader(pipe, even="pad")
        loader.load_state_dict(state)
        rests.append([(row, bool(info.valid)) for row, info in loader.with_info()])
    return [[pair[:2] for pair in whole], rests]


@check
def a_cut_of_unknown_length(rank: int) -> object:
    """Four ranks agree on the end of an epoch that three ranks have begun, and that goes on on two."""
    pipe = fp.from_sequence(range(300)).filter(seventh_is_missing).shuffle(window=8)
    first = [fp.Loader(pipe, rank=number, world_size=3, even=None) for number in range(3)]
    begun = [list(itertools.islice(loader, 4)) for loader in first]
    states = [loader.state_dict() for loader in first]
    answers: list[object] = []
    for even in ("drop", "pad"):
        loader = fp.Loader(pipe, even=even)
        loader.load_state_dict(states)
        elements = ((row, bool(info.valid)) for row, info in loader.with_info())
        taken = list(itertools.islice(elements, 20))
        state = fp.gather_state(loader)
        pairs = list(elements)
        resumed = [fp.Loader(pipe, rank=number, world_size=2, even=None) for number in range(2)]
        for one in resumed:
            one.load_state_dict(state)
        answers.append([taken, taken + pairs, [row for one in resumed for row in one]])
    return [begun, *answers]


@check
def files_are_listed_once(rank: int) -> object:
    """Only rank 0 may look at files."""
    pipe = fp.read_csv("*.csv")
    refused = mock.patch.object(ListFiles, "resolve", side_effect=AssertionError("this rank has listed files"))
    with refused if rank else contextlib.nullcontext():
        rows = [row["x"] for row in fp.Loader(pipe, even=None)]
        missing = error_of(lambda: next(iter(fp.Loader(fp.read_csv("missing/*.csv")))))
    return [rows, missing]


@check
def dimensions_of_a_mesh(rank: int) -> object:
    """Two data-parallel groups of two tensor-parallel ranks each."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    pipe = fp.from_sequence(range(30)).filter(seventh_is_missing)
    three = distributed.new_group([0, 1, 2])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fp.Loader(pipe)
        fp.Loader(pipe, group=distributed.group.WORLD)
    return {
        "dp": list(fp.Loader(pipe, group=mesh["dp"])),
        "mesh": error_of(lambda: fp.Loader(pipe, group=mesh)),
        "three": error_of(lambda: list(fp.Loader(pipe, group=three))),
        "text": error_of(lambda: fp.Loader(pipe, group="dp")),
        "warnings": [str(warning.message) for warning in caught],
    }


def streamed() -> fp.Pipe[int]:
    return fp.from_sequence(range(240)).shuffle(window=8)


def indexed() -> fp.Pipe[int]:
    return fp.from_sequence(range(240)).shuffle()


def named(is_streamed: bool) -> fp.Pipe[int]:
    web, code = fp.from_sequence(range(300)), fp.from_sequence(range(1000, 1200))
    pipe = fp.mix({"web": web, "code": code.filter(seventh_is_missing) if is_streamed else code})
    return pipe.shuffle(window=32) if is_streamed else pipe.shuffle()


@check
def ledgers(rank: int) -> object:
    """The rows of each rank, which has taken another number of elements, and the ledger of all."""
    taken: list[object] = []
    for is_streamed in (False, True):
        loader = fp.Loader(named(is_streamed).batch(4), even=None)
        rows = [row for batch in itertools.islice(loader, 5 + 3 * rank) for row in batch]
        ledger = fp.gather_ledger(loader)
        state = fp.gather_state(loader)
        again = fp.Loader(named(is_streamed).batch(4), even=None)
        again.load_state_dict(state)
        all_again = fp.gather_ledger(again)
        assert fp.gather_ledger(json.loads(json.dumps(state))) == ledger == all_again and ledger.ranks == WORLD_SIZE
        taken.append([rows, ledger.plain])
    return taken


@check
def states_are_gathered(rank: int) -> object:
    """What each rank takes, the state on all ranks, and whether rank 2 alone has it if that is asked for."""
    answers: list[object] = []
    for pipe, count in ((streamed(), 4), (indexed(), 4), (indexed(), 2 + 3 * rank)):
        loader = fp.Loader(pipe, seed=5)
        taken = list(itertools.islice(iter(loader), count))
        state = fp.gather_state(loader)
        answers.append([taken, state, fp.gather_state(loader, rank=2) == (state if rank == 2 else None)])
    alone = fp.Loader(indexed(), rank=0, world_size=2)
    return [*answers, error_of(lambda: fp.gather_state(loader, rank=4)), error_of(lambda: fp.gather_state(alone))]


@check
def states_of_other_loaders_are_not_gathered(rank: int) -> object:
    seeds = fp.Loader(streamed(), seed=5 + rank // 3)
    pipes = fp.Loader(streamed() if rank % 2 else indexed(), even=None)
    return [error_of(lambda: fp.gather_state(seeds)), error_of(lambda: fp.gather_state(pipes))]


@check
def places_alone_are_sent(rank: int) -> object:
    """The bytes that a rank gives to an exchange, for a state of 30 kB."""
    first, *others = [fp.from_sequence([number, number]) for number in range(200)]
    chain = first.concat(*others).filter(seventh_is_missing)
    loader = fp.Loader(chain, even=None)
    list(itertools.islice(iter(loader), 3))
    sent: list[int] = []

    def gather(group: SideGroup, topic: str, message: bytes, **options: object) -> list[bytes]:
        sent.append(len(message))
        return whole(group, topic, message, **options)  # type: ignore[arg-type]

    whole = SideGroup.gather
    with mock.patch.object(SideGroup, "gather", gather):
        state = fp.gather_state(loader)
    return [len(json.dumps(loader.state_dict())), *sent, len(json.dumps(state))]


def job_state(loader: fp.Loader[int]) -> dict[str, object]:
    """What to put into a checkpoint: the state of any rank of an indexed pipe, else that of the job."""
    return dict(loader.state_dict() if loader.dataset.indexed else fp.gather_state(loader))


@check
def checkpoints(rank: int) -> object:
    """Three ranks save with `torch.distributed.checkpoint`, and three and two go on."""
    groups = {count: distributed.new_group(list(range(count))) for count in (3, 2)}
    answers: dict[str, object] = {}
    for name, pipe in (("indexed", indexed()), ("streamed", streamed())):
        for count, group in groups.items():
            if rank >= count:
                continue
            loader = fp.Loader(pipe, seed=5, group=group, even=None)
            if count == 3:
                answers[f"{name} taken"] = list(itertools.islice(loader, 4))
                state = {"loader": job_state(loader)}
                checkpoint.save(state, checkpoint_id=name, process_group=group)
                torch.save(state, f"{name}.pt")
                loader = fp.Loader(pipe, seed=5, group=group, even=None)
            template = {"loader": job_state(loader)}
            checkpoint.load(template, checkpoint_id=name, process_group=group)
            assert template == torch.load(f"{name}.pt")
            loader.load_state_dict(template["loader"])
            answers[f"{name} on {count}"] = list(loader)
    if rank < 3:
        loader = fp.Loader(streamed(), seed=5, group=groups[3])
        list(itertools.islice(loader, 4 + rank))
        mixture = {"loader": loader.state_dict()}
        checkpoint.save(mixture, checkpoint_id="mixture", process_group=groups[3])
        checkpoint.load(mixture, checkpoint_id="mixture", process_group=groups[3])
        answers["mixture"] = error_of(lambda: loader.load_state_dict(mixture["loader"]))
    return answers


@check
def statistics(rank: int) -> object:
    """The statistics of rows that the ranks read together, each its share."""
    pipe = fp.read_csv([f"{number}.csv" for number in range(8)]).filter(lambda row: row["x"] != 3)
    asked = {"x": fp.stats.mean_std()}
    stats = fp.fit(pipe, asked)
    few = fp.fit(pipe.take(2), {"x": fp.stats.counts()})  # fewer rows than ranks
    none = error_of(lambda: fp.fit(pipe.take(0), asked))
    return [stats.rows, stats["x"].mean, stats["x"].std, dict(few["x"]) == {0: 1, 10: 1}, none.partition("\n")[0]]


def run(rank: int, folder: Path) -> None:
    distributed.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=WORLD_SIZE)
    os.chdir(folder)
    if rank == 0:
        for number in range(8):
            Path(f"{number}.csv").write_text(f"x\n{number}\n{number + 10}\n")
    results: dict[str, object] = {}
    for name, function in CHECKS.items():
        try:
            results[name] = function(rank)
        except Exception as error:
            results[name] = f"{type(error).__name__}: {error}"
        distributed.barrier()
    (folder / f"{rank}.json").write_text(json.dumps(results))
    distributed.destroy_process_group()


def start(rank: int, folder: Path) -> int:
    """Starts the process of a rank, a copy of this one."""
    if pid := os.fork():
        return pid
    code = 1
    try:
        run(rank, folder)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    processes = [start(rank, Path(sys.argv[1])) for rank in range(WORLD_SIZE)]
    statuses = [os.waitpid(pid, 0)[1] for pid in processes]
    sys.exit(any(statuses))
