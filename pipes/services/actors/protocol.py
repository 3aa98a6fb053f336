"""The calls between actors and their owner, and the stacks of their processes.

    hello() -> ActorPlace                        once
    start(graph) -> ActorFailure | None          once
    begin(request)                               each run
    next_burst(run) -> Burst                     as often as the owner has room
    stop(run)                                    ends a run
    serve(request)                               each run of a pipe with `remote`
    open_stream(run, number, request)            begins a stream of rows
    next_block(run, number, closed) -> Burst     one block of a stream, after the streams that are closed have ended
    begin_fetching(request)                      each run in which the owner sends keys
    fetch(number, key) -> Burst                  one element of such a run

Some calls of `next_burst` always wait in an actor: they are its credits. An actor that has none produces nothing.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import platform
import signal
import time
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import ray  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]

from ..transport.channel import RemoteFailure, pack_error
from ..transport.graph_file import begin_worker
from ..transport.memory import create_shared_file
from ..transport.packing import Packer, unpack
from ..turns import Assignment
from ..workers import PlanArguments

LOST: tuple[type[Exception], ...] = (
    ray.exceptions.RayActorError,
    ray.exceptions.ObjectLostError,
    ray.exceptions.OutOfMemoryError,
    ray.exceptions.NodeDiedError,
    ray.exceptions.RaySystemError,
)
"""What Ray raises if an actor, its node or what it has sent is gone."""


class ActorPlace(NamedTuple):
    """Where an actor runs.

    Attributes:
        node: Ray's name of the node.
        address: of the node.
        process: its number there.
        versions: of what must be equal everywhere.
        stacks: the descriptor of the file to which the process writes its stacks; -1 if it does not.
    """

    node: str
    address: str
    process: int
    versions: Mapping[str, str]
    stacks: int = -1

    def __str__(self) -> str:
        return f"process {self.process} on node {self.address} ({self.node[:8]})"


class ActorRequest(NamedTuple):
    """What an actor runs next.

    Attributes:
        run: its number, which each call for a burst repeats.
        arguments: of the plan.
        epoch: the pass over the data.
        assignment: what of the plan to run, and where to start.
        leftovers: for the tail, the packed rows of shards that had theirs at hand.
        notes: the actor that keeps notes of each row that runs, to learn which one ends the process; None for no notes.
    """

    run: int
    arguments: PlanArguments
    epoch: int
    assignment: Assignment
    leftovers: dict[int, tuple[bytes, ...]]
    notes: Any = None


class ActorFailure(NamedTuple):
    """An error of an actor.

    Attributes:
        doing: what the actor did.
        parts: the packed error.
    """

    doing: str
    parts: tuple[bytes, ...]

    def to_exception(self) -> BaseException:
        return cast("RemoteFailure", unpack_parts(self.parts)).to_exception()


def pack_failure(doing: str, error: BaseException, packer: Packer) -> ActorFailure:
    """The parts of an error of this process that can be packed."""
    return ActorFailure(doing, tuple(map(bytes, pack_error(error, str(place_here()), packer).body())))


def unpack_parts(parts: tuple[bytes | memoryview, ...]) -> object:
    """What is packed as a stream and its regions, with memory of its own."""
    stream, *regions = parts
    return unpack(stream, map(bytearray, regions))


def place_here() -> ActorPlace:
    """The place of this process."""
    address = ray.util.get_node_ip_address()
    return ActorPlace(ray.get_runtime_context().get_node_id(), address, os.getpid(), versions())


def versions() -> dict[str, str]:
    """What must be equal where a pipe is written and where it runs."""
    return {"Python": ".".join(platform.python_version_tuple()[:2]), "Ray": ray.__version__}


def read_graph(graph: npt.NDArray[np.uint8]) -> tuple[object, dict[type, int]]:
    """What `write_graph_file` has written, and the classes in it. Arrays are in memory of this process."""
    fd = create_shared_file()
    try:
        with os.fdopen(os.dup(fd), "wb") as file:
            file.write(graph.data)
        return begin_worker(fd)
    finally:
        os.close(fd)


# The stacks of an actor that is stuck. Python writes them on a signal, also while other code is running.


_WRITE_SECONDS = 2.0
_CHECK_SECONDS = 0.05


def write_stacks_on_signal() -> int:
    """Have this process write its stacks to a file when it gets a signal; return the descriptor of the file."""
    fd = create_shared_file()
    faulthandler.register(signal.SIGUSR1, fd)
    return fd


def stacks_of(process: int, fd: int) -> str:
    """The stacks of another process of this machine; empty if they cannot be had.

    Args:
        process: its number.
        fd: what `write_stacks_on_signal` has returned there.
    """
    text = b""
    with contextlib.suppress(OSError):  # the process has ended, or there is no `/proc`
        os.kill(process, signal.SIGUSR1)
        deadline = time.monotonic() + _WRITE_SECONDS
        while time.monotonic() < deadline:
            time.sleep(_CHECK_SECONDS)
            with open(f"/proc/{process}/fd/{fd}", "rb") as file:
                before, text = text, file.read()
            if text and text == before:
                break
    return text.decode(errors="replace").rstrip()
