"""`MultiProcess`: runs a plan in worker processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from ..core.checks import check_bytes, check_callable, check_choice, check_int, check_seconds

if TYPE_CHECKING:
    from .processes.executor import MultiProcessExecutor

StartMethod: TypeAlias = Literal["forkserver", "spawn", "fork"]


@dataclass(frozen=True)
class MultiProcess:
    """Runs a pipe in worker processes of this machine.

    The order of elements is the plan's, whatever the number of workers. Arrays, tensors and Arrow tables come through
    shared memory and are the consumer's own, to keep and to write to. Functions and classes travel by value: no
    `if __name__ == "__main__"` is needed, and workers never import the script. The processes last as long as the
    loader.

    Args:
        workers: how many processes.
        start_method: "forkserver" forks them from a clean process, "spawn" starts interpreters, "fork" copies this
            process, which is safe only while it has no threads.
        prefetch: finished elements that each worker keeps ready; by default two, and up to 64, but not beyond 32 MiB,
            where they are made in bursts, as a windowed shuffle does.
        memory: bytes for all elements on their way or still in use, such as "4GiB"; by default a quarter of what the
            machine, or its control group, has, divided by `LOCAL_WORLD_SIZE`. Elements beyond that go a slower way.
        init: called once in each worker process, with the worker's number.
        timeout: seconds without any element after which a worker counts as stuck; the error shows its stack.
        ordered: False hands out elements as they come, so that a slow one holds back no other; there is then no state.
        threads: of torch, OpenMP, BLAS and Arrow's calculations, in each worker.
        io_threads: of Arrow's readers, in each worker.

    Raises:
        ArgumentError, ArgumentTypeError: an argument is out of its range or of the wrong type.

    Example:
        >>> import feedpipe as fp
        >>> with fp.Loader(fp.from_sequence(range(4)).map(lambda x: x * x), fp.MultiProcess(2)) as loader:
        ...     list(loader)
        [0, 1, 4, 9]
    """

    workers: int
    _: KW_ONLY
    start_method: StartMethod = "forkserver"
    prefetch: int | None = None
    memory: int | str | None = None
    init: Callable[[int], object] | None = None
    timeout: float | None = None
    ordered: bool = True
    threads: int = 1
    io_threads: int = 4

    def __post_init__(self) -> None:
        for name in ("workers", "threads", "io_threads"):
            check_int(name, getattr(self, name), least=1)
        if self.prefetch is not None:
            check_int("prefetch", self.prefetch, least=1)
        check_choice("start_method", self.start_method, get_args(StartMethod))
        check_choice("ordered", self.ordered, (True, False))
        if self.memory is not None:
            check_bytes("memory", self.memory)
        if self.init is not None:
            check_callable("init", self.init)
        if self.timeout is not None:
            check_seconds("timeout", self.timeout)

    def start(self) -> MultiProcessExecutor:
        from .processes.executor import MultiProcessExecutor
        from .processes.pool import Pool

        memory = default_memory() if self.memory is None else check_bytes("memory", self.memory)
        return MultiProcessExecutor(Pool(self, memory), ordered=self.ordered)


def default_memory() -> int:
    """A quarter of the memory that this process may use, divided by the ranks of this machine."""
    available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            available = min(available, int(Path(name).read_text()))
        except (OSError, ValueError):  # no such control group, or one without a limit: "max"
            continue
    return available // 4 // max(1, int(os.environ.get("LOCAL_WORLD_SIZE", 1)))
