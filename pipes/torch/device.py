"""Elements on their way to a device: pinned, and copied one element ahead on a stream of their own."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterator, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import torch

from ..core.records import fields_of, replaced
from ..errors import ArgumentError, PlanWarning, warn
from .tensors import jagged_parts, nested_of

I = TypeVar("I")  # noqa: E741 - an item that carries an element
Move: TypeAlias = Callable[[object], object]
"""Moves the tensors of an element to a device."""


class Backend:
    """Copies at once: for devices without streams, or without a device for pinning alone.

    The stage uses only these operations, so tests need no device.
    """

    def __init__(self, device: torch.device | None, *, pin_memory: bool) -> None:
        self._device = device
        self._pin_memory = pin_memory

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor in memory that a device can read by itself; or unchanged."""
        return tensor.pin_memory() if self._pin_memory else tensor

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor on the device. The copy may still be in progress, on a stream of its own."""
        return tensor if self._device is None else tensor.to(self._device)

    def record(self) -> object:
        """An event after the copies so far."""
        return None

    def wait(self, event: object, tensors: Sequence[torch.Tensor]) -> None:
        """Makes the consumer's stream wait for the event, and keep the memory of `tensors` while it uses them."""

    def mark(self) -> object:
        """An event after the work that the device has got from the consumer so far; None if it has no events."""
        return None

    def has_passed(self, event: object) -> bool:
        """Whether the device has done all work before an event of `mark`."""
        return False


class CudaBackend(Backend):
    """Copies from pinned memory, on a stream of its own."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device, pin_memory=True)
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        with torch.cuda.stream(self._stream):
            return tensor.to(self._device, non_blocking=True)

    def record(self) -> object:
        return self._stream.record_event()

    def wait(self, event: object, tensors: Sequence[torch.Tensor]) -> None:
        current = torch.cuda.current_stream(self._device)
        current.wait_event(event)  # type: ignore[arg-type]
        for tensor in tensors:
            tensor.record_stream(current)

    def mark(self) -> object:
        return torch.cuda.current_stream(self._device).record_event()

    def has_passed(self, event: object) -> bool:
        return bool(cast("Any", event).query())


def on_device(
    items: Iterator[I], backend: Backend, moved: Callable[[I, Move], I], count: Callable[[bool], object] | None = None
) -> Iterator[I]:
    """The items with their elements on a device. The next one is copied before the consumer gets this one.

    An error, of the items or of a copy, is raised after the items before it.

    Args:
        items: carry the elements.
        backend: copies tensors.
        moved: returns the item with the function applied to its element, if it has one.
        count: is called when the next item has come, with whether the device has run dry meanwhile.
    """
    ready: deque[tuple[I, object, list[torch.Tensor]]] = deque()
    failure: Exception | None = None
    mark: object = None
    while True:
        try:
            ready.append(_begun(next(items), backend, moved))  # only the consumer holds what it gets
        except StopIteration:
            break
        except Exception as error:
            failure = error
            break
        if len(ready) > 1:
            if count is not None and mark is not None:
                count(backend.has_passed(mark))
            yield _next_ready(ready, backend)
            mark = None if count is None else backend.mark()
    while ready:
        yield _next_ready(ready, backend)
    if failure is not None:
        raise failure


def _begun(item: I, backend: Backend, moved: Callable[[I, Move], I]) -> tuple[I, object, list[torch.Tensor]]:
    """The item, whose copies have begun, with an event after these, and the copies."""
    copies: list[torch.Tensor] = []

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        copies.append(backend.copy(backend.pin(tensor)))
        return copies[-1]

    return moved(item, lambda element: map_tensors(element, copy)), backend.record(), copies


def _next_ready(ready: deque[tuple[I, object, list[torch.Tensor]]], backend: Backend) -> I:
    item, event, tensors = ready.popleft()
    backend.wait(event, tensors)
    return item


def checked_device(device: torch.device | str | int) -> torch.device:
    """The device that the user named."""
    try:
        return torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ArgumentError(f"`device` must be a device of torch but got: {device!r}") from error


def backend_for(device: torch.device | str | int | None, *, pin_memory: bool) -> Backend:
    """The backend for a device; without one, tensors are at most pinned."""
    target = None if device is None else checked_device(device)
    if target is not None and target.type == "cuda":
        if not torch.cuda.is_available():
            raise ArgumentError(
                f'`device` is {str(target)!r}, but torch finds no CUDA device; leave it out, or give "cpu"'
            )
        return CudaBackend(target)
    if pin_memory and not torch.cuda.is_available():
        warn("`pin_memory` is True, but there is no GPU, so nothing is pinned", PlanWarning)
        pin_memory = False
    return Backend(target, pin_memory=pin_memory)


def pinned(element: object) -> object:
    """The element with its tensors in pinned memory; objects with their own `pin_memory` pin themselves."""
    return map_tensors(element, torch.Tensor.pin_memory)


def map_tensors(value: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """`value` with each tensor in containers and records replaced by `function(tensor)`; other objects unchanged.

    Containers keep their type, as in torch's own pinning.
    """
    if isinstance(value, torch.Tensor):
        return _map_tensor(value, function)
    if function is torch.Tensor.pin_memory and hasattr(value, "pin_memory"):
        return value.pin_memory()
    if isinstance(value, (str, bytes)):
        return value
    if isinstance(value, Mapping):
        return _rebuilt(value, {name: map_tensors(part, function) for name, part in value.items()})
    if isinstance(value, Sequence):
        return _rebuilt(value, [map_tensors(part, function) for part in value])
    if (names := fields_of(type(value))) is not None and not isinstance(value, type):
        return replaced(value, {name: map_tensors(getattr(value, name), function) for name in names})
    return value


def _map_tensor(tensor: torch.Tensor, function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Nested and sparse tensors part by part, because pinning and streams know dense memory alone."""
    if tensor.layout is torch.jagged and (parts := jagged_parts(tensor)) is not None:
        return nested_of(*map(function, parts))
    if tensor.layout is torch.sparse_coo:
        whole = tensor.coalesce()
        indices, values = function(whole.indices()), function(whole.values())
        return torch.sparse_coo_tensor(indices, values, whole.shape, is_coalesced=True, check_invariants=False)
    return function(tensor)


def _rebuilt(value: Any, parts: dict[Any, Any] | list[Any]) -> Any:
    """A container like `value` with other parts; the parts alone if its class makes none."""
    cls = type(value)
    if cls in (dict, list):
        return parts
    try:
        if isinstance(value, (MutableMapping, MutableSequence)):
            clone: Any = copy.copy(value)  # it may have more than its items
            for key, part in parts.items() if isinstance(parts, dict) else enumerate(parts):
                clone[key] = part
            return clone
        return cls(*parts) if hasattr(value, "_fields") else cls(parts)
    except TypeError:
        return parts
