"""`MultiProcess`: runs a plan in worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from functools import partial

from ..core.checks import check_int, methods_explain_wrong_arguments
from ..core.process import element_memory
from .base import PlanService, check_arguments


@methods_explain_wrong_arguments
@dataclass(frozen=True)
class MultiProcess:
    """Runs a pipe in worker processes on this machine.

    A server without threads forks the processes from a clean interpreter. Elements come in the order of the plan,
    whatever the number of workers. Arrays, tensors and Arrow tables arrive in shared memory; the consumer may keep them
    and write to them. Functions and classes travel by value: the script needs no `if __name__ == "__main__"`, and
    workers never import it. The processes live as long as the loader.

    Args:
        workers: the number of processes.
        prefetch: finished elements that each worker keeps ready. By default two; up to 64, but at most 32 MiB, if
            elements are produced in bursts, as by a windowed shuffle.
        memory: bytes for all elements that are on their way or still in use, such as "4GiB". By default a quarter of
            the memory of the machine or its control group, divided by `LOCAL_WORLD_SIZE`. Further elements take a
            slower way.
        init: called once in each worker process, with the worker's number.
        timeout: seconds without any element after which a worker counts as stuck. The error shows its stack.
        threads: threads of torch, OpenMP, BLAS and Arrow's computations in each worker.
        io_threads: threads of Arrow's readers in each worker.

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
    prefetch: int | None = None
    memory: int | str | None = None
    init: Callable[[int], object] | None = None
    timeout: float | None = None
    threads: int = 1
    io_threads: int = 4

    def __post_init__(self) -> None:
        for name in ("workers", "threads", "io_threads"):
            check_int(name, getattr(self, name), least=1)
        check_arguments(prefetch=self.prefetch, memory=self.memory, init=self.init, timeout=self.timeout)

    @property
    def global_generators(self) -> bool:
        return True

    def prepare(self, values: Iterable[object]) -> None:
        """Start the server of workers, which imports what these functions need while the program goes on."""
        from .processes.start import begin_server

        begin_server(self.threads, self.io_threads, values)

    def start(self) -> PlanService:
        from .processes.pool import PoolSettings
        from .processes.runs import plan_service
        from .processes.start import ForkServer

        settings = PoolSettings(
            workers=self.workers,
            memory=element_memory(self.memory),
            prefetch=self.prefetch,
            init=self.init,
            timeout=self.timeout,
            launcher=partial(ForkServer, self.threads, self.io_threads),
        )
        return plan_service(settings)
