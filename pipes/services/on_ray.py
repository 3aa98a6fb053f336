"""`Ray`: runs a plan in actors of a Ray cluster."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TYPE_CHECKING

from ..core.checks import check_int, methods_explain_wrong_arguments
from ..core.process import element_memory
from ..errors import ArgumentError, ArgumentTypeError, WorkerError
from .base import PlanService, check_arguments

if TYPE_CHECKING:
    from .processes.pool import PoolSettings


@methods_explain_wrong_arguments
@dataclass(frozen=True)
class Ray:
    """Runs a pipe in actors of a Ray cluster, for work that needs more CPUs than this machine has.

    Elements come in the order of the plan, whatever the number of actors, and have memory of their own. Functions and
    classes of your script travel by value; other modules, and files, must be where the actors are. An actor or a node
    that dies costs no element: another actor continues from its cursor. Actors are spread over the nodes. They live as
    long as the loader. It needs Ray: `pip install 'feedpipe[ray]'`.

    Args:
        actors: the number of actors.
        cpus: CPUs of the cluster that each actor takes; also the threads of its numeric libraries.
        resources: what else each actor takes, such as `{"memory_gb": 4}`, under the names that the nodes have given.
        address: the cluster; by default the one that this process is connected to, else that of `RAY_ADDRESS`, or of
            this machine.
        prefetch: finished elements that each actor keeps ready. By default two; up to 64, but at most 32 MiB, if
            elements are produced in bursts, as by a windowed shuffle.
        memory: bytes that finished elements of all actors may hold, such as "4GiB"; each actor makes one message in any
            case. By default a quarter of the memory of this machine or its control group, divided by
            `LOCAL_WORLD_SIZE`.
        init: called once in each actor, with its number.
        timeout: seconds without an element of the actor whose turn it is, after which it counts as stuck.
        runtime_env: Ray's description of what actors need: packages, variables, a folder with your modules.

    Raises:
        ArgumentError, ArgumentTypeError: an argument is out of its range or of the wrong type.

    Example:
        >>> import feedpipe as fp
        >>> service = fp.Ray(8, cpus=2, runtime_env={"working_dir": "."})
        >>> loader = fp.Loader(fp.from_sequence(range(4)).map(lambda x: x * x), service)
    """

    actors: int
    _: KW_ONLY
    cpus: float = 1.0
    resources: Mapping[str, float] | None = None
    address: str | None = None
    prefetch: int | None = None
    memory: int | str | None = None
    init: Callable[[int], object] | None = None
    timeout: float | None = None
    runtime_env: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        check_int("actors", self.actors, least=1)
        if isinstance(self.cpus, bool) or not isinstance(self.cpus, (int, float)):
            raise ArgumentTypeError(f"`cpus` must be a number but got: {self.cpus!r}")
        if not 0 <= self.cpus < float("inf"):
            raise ArgumentError(f"`cpus` must be >= 0 but got: {self.cpus!r}")
        for name in ("resources", "runtime_env"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Mapping):
                raise ArgumentTypeError(f"`{name}` must be a mapping but got: {value!r}")
        check_arguments(prefetch=self.prefetch, memory=self.memory, init=self.init, timeout=self.timeout)

    @property
    def workers(self) -> int:
        return self.actors

    @property
    def global_generators(self) -> bool:
        return True

    def start(self) -> PlanService:
        from .processes.runs import plan_service

        return plan_service(pool_settings(self))


def pool_settings(service: Ray) -> PoolSettings:
    """The settings of a pool of `service`, whose actors start when they are needed.

    Raises:
        WorkerError: Ray is not installed.
    """
    try:
        importlib.import_module("ray")
    except ImportError as error:
        raise WorkerError("`Ray` needs the package ray; install it with `pip install 'feedpipe[ray]'`") from error
    from .cluster import ClusterLauncher
    from .processes.pool import PoolSettings

    return PoolSettings(
        workers=service.actors,
        memory=element_memory(service.memory),
        prefetch=service.prefetch,
        init=service.init,
        timeout=service.timeout,
        launcher=partial(ClusterLauncher, service.address, service.cpus, service.resources, service.runtime_env),
    )
