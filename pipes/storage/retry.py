"""Calls to storage that are repeated after a transient error: with growing pauses, within limits, and counted."""

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
Cancellation = SimpleQueue[None]
"""Holds an item when nobody waits for the result any longer. The garbage collector may call `put` at any time."""

_LOG = logging.getLogger("feedpipe")


def _sleep(seconds: float, cancellation: Cancellation | None) -> None:
    if cancellation is None:
        time.sleep(seconds)
        return
    with suppress(Empty):
        cancellation.put(cancellation.get(timeout=seconds))  # other calls look at it too


@dataclass(frozen=True)
class RetryPolicy:
    """How often a call is repeated, and with which pauses.

    Each attempt here may be three of pyarrow's S3 client, which pauses for up to a second or two between them and gives
    up each after three to ten seconds without data. So a server that is down for some ten seconds costs a pause, and
    one that never answers costs a minute.

    Attributes:
        max_attempts: attempts, the first one included.
        max_seconds: seconds after the first attempt in which another one may begin.
        first_pause: seconds before the second attempt at most; the limit doubles with each further attempt.
        max_pause: seconds of any pause at most. Each pause is drawn between 0 and its limit (full jitter), so that
            clients that failed together do not come back together.
        counts: repeated attempts by host.
    """

    max_attempts: int = 6
    max_seconds: float = 60.0
    first_pause: float = 0.2
    max_pause: float = 10.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float, Cancellation | None], None] = _sleep
    draw: Callable[[], float] = random.SystemRandom().random  # has no state that a fork would copy
    counts: Counter[str] = field(default_factory=Counter)

    def run(self, call: Callable[[int], T], path: str, cancellation: Cancellation | None = None) -> T:
        """Returns the result of `call`, whose argument is the number of failed attempts.

        Args:
            call: raises an `OSError` if storage fails.
            path: a path or URL for the log.
            cancellation: ends a pause and all further attempts.

        Raises:
            OSError: the first error that is not transient; or one that says how many attempts there were.
        """
        start = self.clock()
        failures = 0
        while True:
            try:
                return call(failures)
            except OSError as error:
                if not is_transient(error):
                    raise
                failures += 1
                pause = self.draw() * min(self.max_pause, self.first_pause * 2 ** (failures - 1))
                spent = self.clock() - start
                cancelled = cancellation is not None and not cancellation.empty()
                if failures == self.max_attempts or spent + pause > self.max_seconds or cancelled:
                    raise OSError(f"{describe(error)}; {failures} attempts in {spent:.1f} s") from error
                self._count(path, error)
            self.sleep(pause, cancellation)

    def _count(self, path: str, error: OSError) -> None:
        """Counts an attempt, and logs the first one for a host, the 10th, the 100th and so on."""
        host = _host(path)
        self.counts[host] += 1
        count = self.counts[host]
        if str(count).strip("0") == "1":
            note = f" (attempt {count} that is made again there)" if count > 1 else ""
            _LOG.warning("%s: %s; trying again%s", redacted(path), describe(error), note)


_policy = RetryPolicy()


def with_retries(call: Callable[[], T], path: str, cancellation: Cancellation | None = None) -> T:
    """Returns the result of `call`, which is repeated after transient errors; see `RetryPolicy.run`."""
    return _policy.run(lambda failures: call(), path, cancellation)


def with_other_retries(
    first: Callable[[], T], again: Callable[[], T], path: str, cancellation: Cancellation | None = None
) -> T:
    """Returns the result of `first`; or of `again` if that fails, which opens anew what it needs."""
    return _policy.run(lambda failures: again() if failures else first(), path, cancellation)


def retry_count() -> int:
    """How many attempts of this process were repeated ones."""
    return _policy.counts.total()


def _host(path: str) -> str:
    scheme, separator, rest = redacted(path).rpartition("://")
    return scheme + separator + rest.split("/", 1)[0]
