"""The reading service of a loader, chosen from its arguments; `OnDevice` moves the elements of another service."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, cast

from ..core.checks import check_choice, check_int
from ..core.code import constructor_code
from ..core.skipped import Skipped
from ..errors import ArgumentError, ArgumentTypeError, with_call_site
from ..plan.plan import Plan, Position
from ..services.base import Executor, ReadingService, Session, ShardEnd, Step
from ..services.inprocess import InProcess
from ..services.multiprocess import MultiProcess

if TYPE_CHECKING:
    import torch

    from ..pipe import Pipe
    from ..torch.device import Backend, Move


def reading_service(
    service: ReadingService | None, workers: int, device: torch.device | str | int | None, *, pin_memory: bool
) -> ReadingService:
    """The service of a loader with these arguments."""
    check_int("workers", workers, least=0)
    check_choice("pin_memory", pin_memory, (True, False))
    if service is not None and (isinstance(service, type) or not hasattr(service, "start")):
        name = service.__name__ if isinstance(service, type) else repr(service)
        message = f"`service` must be a reading service, such as `fp.Threads(2)`, but got: {name}"
        hint = f"; `workers={service}` reads in processes" if isinstance(service, int) and service > 0 else ""
        raise ArgumentTypeError(with_call_site(f"{message}{hint}"))
    if service is not None and workers:
        raise ArgumentError(
            with_call_site(
                f"`workers` and `service` must not be given together; give `workers` to {type(service).__name__}"
            )
        )
    chosen = service or (MultiProcess(workers) if workers else InProcess())
    return chosen if device is None and not pin_memory else OnDevice(chosen, device, pin_memory)


def service_code(service: object) -> str:
    """A service as code, for `repr`."""
    return constructor_code(service) if is_dataclass(service) else repr(service)


def chain_in_one_line(pipe: Pipe[object]) -> str:
    """The code of a chain in one line: of a long one, the source and the last call."""
    code = repr(pipe)
    calls = [line.strip() for line in code.splitlines() if line.startswith(("    fp.", "    ."))] or [code]
    first, last = (call if len(call) <= 60 else f"{call[:56]}...)" for call in (calls[0], calls[-1]))
    return first if len(calls) == 1 else f"{first} ... {last}"


@dataclass(frozen=True)
class OnDevice:
    """Runs plans as `service` does, and moves the elements.

    Args:
        service: where plans run.
        device: where elements are copied to; None if they are only pinned.
        pin_memory: whether they are pinned; those on the way to a CUDA device always are.
    """

    service: ReadingService
    device: torch.device | str | int | None
    pin_memory: bool

    def __post_init__(self) -> None:
        if self.device is not None:
            from ..torch.device import checked_device

            checked_device(self.device)

    @property
    def workers(self) -> int:
        return self.service.workers

    @property
    def ordered(self) -> bool:
        return self.service.ordered

    @property
    def global_generators(self) -> bool:
        return self.service.global_generators

    def start(self) -> Executor:
        from ..torch.device import backend_for

        backend = backend_for(self.device, pin_memory=self.pin_memory)
        return _DeviceExecutor(self.service.start(), backend)


class _DeviceExecutor:
    def __init__(self, executor: Executor, backend: Backend) -> None:
        self._executor = executor
        self._backend = backend

    def open(self, plan: Plan, position: Position, epoch: int) -> Session:
        return _DeviceSession(self._executor.open(plan, position, epoch), self._backend)

    def close(self) -> None:
        self._executor.close()


class _DeviceSession:
    """One run. The step of an element travels with it, so looking ahead changes no state."""

    def __init__(self, session: Session, backend: Backend) -> None:
        from ..torch.device import on_device

        self._session = session
        self._items = cast("Generator[Step | ShardEnd]", on_device(iter(session), backend, _moved))

    def __iter__(self) -> Iterator[Step | ShardEnd]:
        return self._items

    def close(self) -> None:
        self._items.close()
        self._session.close()


def _moved(item: Step | ShardEnd, move: Move) -> Step | ShardEnd:
    if not isinstance(item, Step):
        return item
    if isinstance(item.element, Skipped):
        skipped = item.element
        return item if skipped.is_row else item._replace(element=Skipped(skipped.skips, move(skipped.value), False))
    return item._replace(element=move(item.element))
