"""What a service does when a worker dies: it warns and goes on, or gives up."""

from __future__ import annotations

from ..errors import WorkerError, WorkerWarning, warn

MAX_DEATHS = 3
"""How many workers in a row may die at one element."""


def report_death(deaths: int, message: str) -> None:
    """Warns of a death, or raises an error if too many workers have died in this place."""
    if deaths >= MAX_DEATHS:
        raise WorkerError(f"{message}; it has died there {deaths} times, so it is not started again")
    warn(f"{message}; it is started again from there, nothing is lost", WorkerWarning)
