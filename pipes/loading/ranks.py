"""The rank of a loader, and its messages to the same loader on the other ranks."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from ..core.checks import check_int
from ..core.process import differences_in_words, ranks_in_words
from ..errors import ArgumentError, FeedpipeError, PlanError, PlanWarning, RankError, text_of, warn
from ..plan.fingerprint import differences

if TYPE_CHECKING:
    from ..core.times import Times
    from ..torch.ranks import Group, GroupExchange, SideGroup


class Rank(NamedTuple):
    """The number of a rank, and the number of ranks."""

    number: int
    world_size: int

    def __str__(self) -> str:
        return f"rank {self.number} of {self.world_size}"


def on_rank(error: Exception, rank: Rank) -> Exception:
    """`error` with the rank in its message, if there are several."""
    if rank.world_size > 1 and isinstance(error, FeedpipeError) and not isinstance(error, RankError):
        error.args = (f"{error}\n  on {rank}",)
    return error


class RankSource:
    """The source of the rank of this process.

    It is that of the arguments, else of `group`, else of the initialised process group, else of `RANK` and
    `WORLD_SIZE`; else rank 0 of 1. A loader may be made before the process group exists, so it may change until it is
    needed.

    Ranks of a process group communicate. Those of the arguments or the environment alone never do.

    Raises:
        ArgumentError, ArgumentTypeError: the arguments are no rank and world size, or no group that this process
            belongs to.
    """

    def __init__(self, rank: int | None, world_size: int | None, group: Group | None) -> None:
        if (rank is None) != (world_size is None):
            raise ArgumentError(f"`rank` and `world_size` must be given together but got: {rank!r} and {world_size!r}")
        if rank is not None and group is not None:
            raise ArgumentError(
                "`group` and `rank` must not be given together, because `group` has a rank; leave out one of them"
            )
        self._arguments: Rank | None = None
        if rank is not None and world_size is not None:
            self._arguments = _checked(check_int("rank", rank, least=0), check_int("world_size", world_size, least=1))
        self.group = group
        if group is not None:
            self.ask()

    @property
    def is_explicit(self) -> bool:
        """Whether the rank is that of the arguments."""
        return self._arguments is not None

    def certain(self) -> Rank | None:
        """The rank, or None while a launcher or a process group may still set another."""
        if self.is_explicit or self.group is not None or _process_group() is not None or "RANK" in os.environ:
            return self.ask()
        return None

    def ask(self) -> Rank:
        """The rank as it is now.

        Raises:
            ArgumentError: the environment has only one of `RANK` and `WORLD_SIZE`, or no numbers.
        """
        if self._arguments is not None:
            return self._arguments
        if self.group is not None:
            return _of_group(self.group)
        return _process_group() or _from_environment()

    def side_group(self) -> SideGroup | None:
        """The means of this rank to send messages to the others; None if they do not communicate."""
        if self.is_explicit or (self.group is None and _process_group() is None):
            return None
        from ..torch.ranks import side_group

        return side_group(self.group)

    def check_mesh(self) -> None:
        """Warns if some ranks of this job may need the same rows, and `group` does not say which."""
        if self.group is not None or self.is_explicit or _process_group() is None:
            return
        from ..torch.ranks import mesh_dimensions

        if names := mesh_dimensions():
            warn(
                f"this job has a device mesh with the dimensions {', '.join(names)}, and without `group` each of its "
                'ranks gets rows of its own; give `group=mesh["dp"]` with the dimension of data parallelism, or '
                "`group=torch.distributed.group.WORLD` if that is meant",
                PlanWarning,
            )


def _checked(number: int, world_size: int) -> Rank:
    if number >= world_size:
        raise ArgumentError(f"`rank` must be below the world size of {world_size} but got: {number}")
    return Rank(number, world_size)


def _process_group() -> Rank | None:
    """The rank in the initialised process group, if there is one."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return Rank(distributed.get_rank(), distributed.get_world_size())


def _of_group(group: Group) -> Rank:
    from ..torch.ranks import members

    ranks, rank = members(group)
    return Rank(rank, len(ranks))


def _from_environment() -> Rank:
    rank, world_size = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if rank is None and world_size is None:
        return Rank(0, 1)
    if not (rank and world_size and rank.isdecimal() and world_size.isdecimal()):
        raise ArgumentError(
            f"`RANK` and `WORLD_SIZE` must both be whole numbers but are: {rank!r} and {world_size!r}; set "
            "both, or give `rank=` and `world_size=`"
        )
    return _checked(int(rank), int(world_size))


# Messages to the same loader on the other ranks


MAX_SHARE_OF_LOOKS = 0.01
"""The largest share of time for checks of the other ranks."""
MAX_REASON = 4000
"""The most characters of an error that reach other ranks."""


class Job:
    """The ranks that run a loader together.

    Each epoch is a run, which begins with `begin`. In a run, ranks hear of the failure of another, and may exchange
    numbers. A rank waits for others only in `begin`, `share`, `compare`, and for an exchange. All methods raise a
    `RankError` if another rank has failed or does not answer.
    """

    def __init__(self, group: SideGroup) -> None:
        self.rank = group.rank
        self.world_size = group.world_size
        self._group = group
        self._name = f"loader {group.number_of_new_loader()}"
        self._run = 0
        self._times: Times | None = None
        self._exchanges = 0  # of this run
        self._process = os.getpid()
        self._has_met = False
        self._is_over = False  # the run has failed, on this rank or another
        self._next_look = 0.0

    def begin(self, times: Times | None = None) -> None:
        """Begins a run. At the first one, the ranks wait for each other."""
        if self._failure in self._group.failed_without_us():
            self._end()
        self._times = times
        self._run += 1
        self._exchanges = 0
        self._is_over = False
        if self._has_met:
            return
        self.hear()
        if missing := self._group.roll_call(f"{self._place}/first element", self.hear):
            raise RankError(
                f"{ranks_in_words(missing)} of {self.world_size} had asked for no element of this loader after "
                f"{self._group.timeout:g} seconds, the timeout of the process group; all ranks must iterate it; if "
                "only one does, make it with `rank=0, world_size=1`"
            )
        self.hear()
        self._has_met = True

    def share(self, name: str, message: bytes | None) -> bytes:
        """The message of the first rank, which alone gives one."""
        return self._group.broadcast(f"{self._name}: {name}", message, self.hear)

    def all_equal(self, name: str, message: bytes) -> bool:
        """Whether all ranks give the same message."""
        digest = int.from_bytes(blake2b(message, digest_size=7).digest(), "big")
        return len({number for (number,) in self.result(self.exchange(name, digest))}) == 1

    def compare(self, start: RankStart) -> None:
        """Checks that all ranks begin the same epoch of the same pipe at the same step."""
        message = json.dumps([start.pipe, start.facts]).encode()
        if self.all_equal("beginning of an epoch", message):
            return
        starts = [
            RankStart(*json.loads(text)) for text in self._group.gather(f"{self._name}: facts", message, self.hear)
        ]
        lines: list[str] = []
        for name in start.facts:
            values = [str(other.facts.get(name)) for other in starts]
            if len(set(values)) > 1:
                lines.append(f"{name}: {differences_in_words(values)}")
        for rank, other in enumerate(starts):
            if other.pipe != starts[0].pipe:
                changes = "; ".join(differences(starts[0].pipe, other.pipe)[:3])
                lines.append(f"rank {rank} has another pipe or other data than rank 0: {changes}")
                break
        raise PlanError("the ranks must begin an epoch alike, but differ in\n  " + "\n  ".join(lines))

    def exchange(self, name: str, *numbers: int) -> Exchange:
        """Begins an exchange of numbers, and does not wait for the others."""
        work = self._group.post(f"{self._name}: {name}", numbers, self.hear)
        self._exchanges += 1
        return Exchange(self._exchanges - 1, work)

    def result(self, exchange: Exchange) -> list[list[int]]:
        """The numbers of all ranks, in order of rank."""

        def hear() -> None:
            self.hear()
            self._check_left(exchange.number)

        with nullcontext() if self._times is None else self._times.waiting("ranks"):
            return exchange.work.result(hear)

    def leave(self, step: int) -> None:
        """Tells the other ranks that this one leaves the run; they may have come to their end too."""
        if not self._is_over and self.is_here:
            self._group.announce(self._departure(self._exchanges), f"{self.rank} {step}")
            self._group.left.append(self._failure)

    def hear_from(self, rank: int) -> NoReturn:
        """Waits for the reason of a rank that is failing."""
        reason = self._group.announced(self._failure, wait=True)
        self._end()
        raise RankError(reason or failure_message(rank, self.world_size, "not told"))

    def look(self) -> None:
        """Checks for a failure of another rank, so rarely that it takes no time."""
        now = time.monotonic()
        if now >= self._next_look:
            with nullcontext() if self._times is None else self._times.waiting("ranks"):
                self.hear()
            end = time.monotonic()
            self._next_look = end + (end - now) / MAX_SHARE_OF_LOOKS

    def hear(self) -> None:
        """Checks for a failure of another rank."""
        reason = self._group.announced(self._failure)
        if reason is not None:
            self._end()
            raise RankError(reason)

    def fail(self, error: BaseException) -> None:
        """Tells the other ranks of the failure of this one, unless the run has failed already."""
        if not self._is_over:
            message = failure_message(self.rank, self.world_size, reason_of(error))
            self._group.announce(self._failure, message, meet=isinstance(error, Exception))
            self._end()

    @property
    def is_here(self) -> bool:
        """Whether this process is the rank, and no fork of it."""
        return self._process == os.getpid()

    def _check_left(self, number: int) -> None:
        """Checks that no rank has left the run before exchange `number`; all have made those before it."""
        departure = self._group.announced(self._departure(number))
        if departure is not None:
            rank, step = departure.split()
            raise RankError(
                f"rank {rank} of {self.world_size} has left the epoch after step {step}, and this rank goes on; all "
                "ranks must take as many elements"
            )

    @property
    def _place(self) -> str:
        return f"{self._name}/run {self._run}"

    @property
    def _failure(self) -> str:
        return f"{self._place}/failure"

    def _departure(self, exchanges: int) -> str:
        return f"{self._place}/left after {exchanges} exchanges"

    def _end(self) -> None:
        """Makes ranks connect again after a failure: some may wait in an exchange that others never join."""
        self._is_over = True
        self._has_met = False
        self._group.disconnect()


class RankStart(NamedTuple):
    """The place at which a rank begins an epoch, and its pipe. All ranks must be alike.

    Attributes:
        pipe: the fingerprint of the pipe.
        facts: all else that must be the same, by its name in messages.
    """

    pipe: str
    facts: Mapping[str, object]


class Exchange(NamedTuple):
    """An exchange of numbers that has begun in a run.

    Attributes:
        number: the number of exchanges of the run before it.
    """

    number: int
    work: GroupExchange


def reason_of(error: BaseException) -> str:
    """The text of an error, for other ranks."""
    return f"{type(error).__name__}: {text_of(error)}"[:MAX_REASON]


def failure_message(rank: int, world_size: int, reason: str) -> str:
    """The message of the error that the other ranks raise when a rank has failed."""
    indented = reason.replace("\n", "\n  ")
    return f"rank {rank} of {world_size} has failed, so all ranks stop\n  its error was {indented}"
