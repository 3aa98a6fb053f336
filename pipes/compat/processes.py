"""The worker processes of the look-alike: kept for all epochs, or new for each."""

from __future__ import annotations

from ..core.memory import memory_budget
from ..services.processes.pool import Pool, PoolSettings


class Processes:
    """Hands out the pool of an epoch.

    Args:
        workers: the number of processes; 0 if there are none.
        keep: whether they live as long as the loader. Else each epoch starts new ones, which see the dataset as it is.
        start_method, prefetch, timeout: of the pool.
    """

    def __init__(self, workers: int, *, keep: bool, start_method: str, prefetch: int, timeout: float | None) -> None:
        self._settings = PoolSettings(
            workers=workers,
            memory=memory_budget(),
            start_method=start_method,
            prefetch=prefetch,
            timeout=timeout,
        )
        self.keep = keep
        self._kept: Pool | None = None
        self._runs = 0

    def next_run(self) -> int:
        """A number for a run."""
        self._runs += 1
        return self._runs

    def acquire(self) -> Pool:
        pool = self._kept or Pool(self._settings)
        if self.keep:
            self._kept = pool
        return pool

    def release(self, pool: Pool) -> None:
        """Ends the processes of a pool, unless they are kept."""
        if pool is not self._kept:
            pool.close()

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_kept": None}  # processes belong to the process that started them
