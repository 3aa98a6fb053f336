"""`Job`: what a loader says to the same loader on the other ranks, and hears from it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from ..core.rank_texts import differences_in_words, ranks_in_words
from ..errors import PlanError, RankError, text_of
from ..plan.fingerprint import differences

if TYPE_CHECKING:
    from ..torch.ranks import GroupExchange, SideGroup

MAX_SHARE_OF_LOOKS = 0.01
"""The share of time in which a rank may look whether another has failed."""
MAX_REASON = 4000
"""The characters of an error that reach other ranks."""


class Standing(NamedTuple):
    """Where a rank begins an epoch, and what it runs. All ranks must say the same.

    Attributes:
        pipe: the fingerprint of the pipe.
        facts: what else must be the same, each by the words for it.
    """

    pipe: str
    facts: Mapping[str, object]


class Exchange(NamedTuple):
    """An exchange of numbers that has begun in a run.

    Attributes:
        number: how many exchanges of the run came before.
    """

    number: int
    work: GroupExchange


class Job:
    """The ranks that run a loader together.

    Each epoch is a run, which begins with `begin`. In a run, ranks hear of the failure of another, and may exchange
    numbers. A rank waits for others only in `begin`, `share`, `compare`, and for an exchange.

    Attributes:
        rank: the number of this rank.
        world_size: the number of ranks.
    """

    def __init__(self, group: SideGroup) -> None:
        self.rank = group.rank
        self.world_size = group.world_size
        self._group = group
        self._name = f"loader {group.number_of_new_loader()}"
        self._run = 0
        self._exchanges = 0  # of this run
        self._process = os.getpid()
        self._has_met = False
        self._is_over = False  # the run has failed, on this rank or another
        self._next_look = 0.0

    def begin(self) -> None:
        """Begins a run. At the first one, the ranks wait for each other.

        Raises:
            RankError: some ranks have not asked for an element, or one has failed.
        """
        if self._failure in self._group.failed_without_us():
            self._end()
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
        """The message of the first rank, which alone gives one.

        Raises:
            RankError: a rank has failed or does not answer.
        """
        return self._group.broadcast(f"{self._name}: {name}", message, self.hear)

    def all_equal(self, name: str, message: bytes) -> bool:
        """Whether all ranks give the same message.

        Raises:
            RankError: a rank has failed or does not answer.
        """
        digest = int.from_bytes(blake2b(message, digest_size=7).digest(), "big")
        return len({number for (number,) in self.result(self.exchange(name, digest))}) == 1

    def compare(self, standing: Standing) -> None:
        """Checks that all ranks begin the same epoch of the same pipe at the same step.

        Raises:
            PlanError: they do not; the message says who says what.
            RankError: a rank has failed or does not answer.
        """
        message = json.dumps([standing.pipe, standing.facts]).encode()
        if self.all_equal("beginning of an epoch", message):
            return
        standings = [
            Standing(*json.loads(text)) for text in self._group.gather(f"{self._name}: facts", message, self.hear)
        ]
        lines: list[str] = []
        for name in standing.facts:
            values = [str(other.facts.get(name)) for other in standings]
            if len(set(values)) > 1:
                lines.append(f"{name}: {differences_in_words(values)}")
        for rank, other in enumerate(standings):
            if other.pipe != standings[0].pipe:
                changes = "; ".join(differences(standings[0].pipe, other.pipe)[:3])
                lines.append(f"rank {rank} has another pipe or other data than rank 0: {changes}")
                break
        raise PlanError("the ranks must begin an epoch alike, but differ in\n  " + "\n  ".join(lines))

    def exchange(self, name: str, *numbers: int) -> Exchange:
        """Begins an exchange of numbers, and does not wait for the others."""
        work = self._group.post(f"{self._name}: {name}", numbers, self.hear)
        self._exchanges += 1
        return Exchange(self._exchanges - 1, work)

    def result(self, exchange: Exchange) -> list[list[int]]:
        """The numbers of all ranks, in order of rank.

        Raises:
            RankError: a rank has failed, has left the run before this exchange, or does not answer.
        """

        def hear() -> None:
            self.hear()
            self._check_left(exchange.number)

        return exchange.work.result(hear)

    def leave(self, step: int) -> None:
        """Tells the other ranks that this one takes no further part in the run; they may have come to their end too."""
        if not self._is_over and self.is_here:
            self._group.announce(self._departure(self._exchanges), f"{self.rank} {step}")
            self._group.left.append(self._failure)

    def _check_left(self, number: int) -> None:
        """Checks that no rank has left the run before exchange `number`; all have made those before it."""
        departure = self._group.announced(self._departure(number))
        if departure is not None:
            rank, step = departure.split()
            raise RankError(
                f"rank {rank} of {self.world_size} has left the epoch after step {step}, and this rank goes on; all "
                "ranks must take as many elements"
            )

    def hear_from(self, rank: int) -> NoReturn:
        """Waits for the reason of a rank that fails now.

        Raises:
            RankError: with the reason.
        """
        reason = self._group.announced(self._failure, wait=True)
        self._end()
        raise RankError(reason or failure_message(rank, self.world_size, "not told"))

    def look(self) -> None:
        """Looks whether another rank has failed, if the last look is long enough ago that this takes no time.

        Raises:
            RankError: another rank has failed.
        """
        now = time.monotonic()
        if now >= self._next_look:
            self.hear()
            end = time.monotonic()
            self._next_look = end + (end - now) / MAX_SHARE_OF_LOOKS

    def hear(self) -> None:
        """Looks whether another rank has failed.

        Raises:
            RankError: another rank has failed.
        """
        reason = self._group.announced(self._failure)
        if reason is not None:
            self._end()
            raise RankError(reason)

    def fail(self, error: BaseException) -> None:
        """Tells the other ranks of the failure of this one, unless the run has failed already."""
        if not self._is_over:
            self._group.announce(self._failure, failure_message(self.rank, self.world_size, reason_of(error)))
            self._end()

    @property
    def is_here(self) -> bool:
        """Whether this process is the rank, and no fork of it."""
        return self._process == os.getpid()

    @property
    def _place(self) -> str:
        return f"{self._name}/run {self._run}"

    @property
    def _failure(self) -> str:
        return f"{self._place}/failure"

    def _departure(self, exchanges: int) -> str:
        return f"{self._place}/left after {exchanges} exchanges"

    def _end(self) -> None:
        """After a failure, ranks connect anew: some may wait in an exchange that others never join."""
        self._is_over = True
        self._has_met = False
        self._group.disconnect()


def reason_of(error: BaseException) -> str:
    """An error, for other ranks."""
    return f"{type(error).__name__}: {text_of(error)}"[:MAX_REASON]


def failure_message(rank: int, world_size: int, reason: str) -> str:
    """What the other ranks raise when a rank has failed."""
    indented = reason.replace("\n", "\n  ")
    return f"rank {rank} of {world_size} has failed, so all ranks stop\n  its error was {indented}"
