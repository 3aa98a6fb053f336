"""Calls to storage that are made again where what failed may pass: with growing pauses, not for ever, and counted."""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TypeVar

from ..errors import redacted
from .error_messages import describe, is_transient

T = TypeVar("T")
Ended = SimpleQueue[None]
"""Holds something when nobody waits for the result any longer; `put` is safe wherever the garbage collector runs."""

_LOG = logging.getLogger("feedpipe")


def _sleep(seconds: float, ended: Ended | None) -> None:
    if ended is None:
        time.sleep(seconds)
        return
    with suppress(Empty):
        ended.put(ended.get(timeout=seconds))  # for others who look at it, too


@dataclass(frozen=True)
class Retry:
    """How often, and how long.

    pyarrow's client of S3 makes three attempts of its own in each of these, with pauses of up to a second or two, and
    each ends when nothing has come for three to ten seconds. So a server that is down for some ten seconds costs a
    pause; one that says nothing at all is given up after a minute.

    Attributes:
        attempts: the most, with the first one.
        seconds: from the first attempt; no other one is begun later.
        pause: seconds, the most before the second attempt; twice that before the third, and so on.
        longest: seconds, the most before any. Each pause is drawn between nothing and its most (full jitter), so that
            those who failed together do not come back together.
        counts: how many attempts were made again, for each host.
    """

    attempts: int = 6
    seconds: float = 60.0
    pause: float = 0.2
    longest: float = 10.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float, Ended | None], None] = _sleep
    draw: Callable[[], float] = random.SystemRandom().random  # no generator that a fork copies
    counts: Counter[str] = field(default_factory=Counter)

    def call(self, call: Callable[[int], T], what: str, ended: Ended | None = None) -> T:
        """The result of `call`, which is told how often it has failed.

        Args:
            call: raises an `OSError` where storage fails.
            what: a path or URL, for what is logged.
            ended: ends a pause, and all further attempts.

        Raises:
            OSError: that of the first attempt which failed for good; or one that says how many there were.
        """
        begun = self.clock()
        failed = 0
        while True:
            try:
                return call(failed)
            except OSError as error:
                if not is_transient(error):
                    raise
                failed += 1
                pause = self.draw() * min(self.longest, self.pause * 2 ** (failed - 1))
                spent = self.clock() - begun
                if failed == self.attempts or spent + pause > self.seconds or (ended and not ended.empty()):
                    raise OSError(f"{describe(error)}; {failed} attempts in {spent:.1f} s") from error
                self._note(what, error)
            self.sleep(pause, ended)

    def _note(self, what: str, error: OSError) -> None:
        """The first for a host is logged, then the 10th, the 100th and so on."""
        host = _host(what)
        self.counts[host] += 1
        count = self.counts[host]
        if str(count).strip("0") == "1":
            before = f" (attempt {count} that is made again there)" if count > 1 else ""
            _LOG.warning("%s: %s; trying again%s", redacted(what), describe(error), before)


_policy = Retry()


def retrying(call: Callable[[], T], what: str, ended: Ended | None = None) -> T:
    """The result of `call`, made again where what failed may pass; see `Retry.call`."""
    return _policy.call(lambda failed: call(), what, ended)


def retrying_anew(first: Callable[[], T], anew: Callable[[], T], what: str, ended: Ended | None = None) -> T:
    """The result of `first`, or else of `anew`, which opens what it needs again."""
    return _policy.call(lambda failed: anew() if failed else first(), what, ended)


def retries() -> int:
    """How many attempts were made again in this process."""
    return sum(_policy.counts.values())


def _host(what: str) -> str:
    scheme, separator, rest = redacted(what).rpartition("://")
    return scheme + separator + rest.split("/", 1)[0]
