"""`ClusterLauncher`: has the actors of a Ray cluster run workers, which connect to their owner by sockets."""

from __future__ import annotations

import contextlib
import hmac
import itertools
import mmap
import os
import platform
import secrets
import select
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import ray  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]

from ..core.system import create_shared_file
from ..errors import WorkerError
from .processes.dispatch import serve_workers
from .processes.fork_server import Death
from .processes.protocol import DispatchRequest
from .processes.start import DispatcherLink, Started
from .processes.worker import Worker
from .transport.channel import Channel, GoneError

Address: TypeAlias = tuple[str, int]
LOST: tuple[type[Exception], ...] = (
    ray.exceptions.RayActorError,
    ray.exceptions.ObjectLostError,
    ray.exceptions.OutOfMemoryError,
    ray.exceptions.NodeDiedError,
    ray.exceptions.RaySystemError,
)
"""What Ray raises if an actor, its node or what it has sent is gone."""
CONNECT_SECONDS = 10.0
START_SECONDS = 60.0
"""Actors that have not started after this time have no room in the cluster."""
RETRY_SECONDS = 0.5
"""The pause before actors that have died at their start are started again."""
GRACE_SECONDS = 5.0
"""An actor that was killed has this time to end."""
SILENCE_SECONDS = 30.0
"""A node that does not answer for this time is taken for dead."""
KEY_BYTES = 32
DISPATCHER = -1
"""The number with which the dispatcher dials."""


class ActorPlace(NamedTuple):
    """Where an actor runs; `dispatcher` is where workers connect to it, if it dispatches."""

    node: str
    address: str
    process: int
    versions: Mapping[str, str]
    dispatcher: Address | None = None

    def __str__(self) -> str:
        return f"process {self.process} on node {self.address} ({self.node[:8]})"


class Host:
    """An actor. It runs a worker, or the dispatcher, until the owner hangs up."""

    def hello(self, dispatcher_key: bytes | None = None) -> ActorPlace:
        """Where this actor is. With a key it listens for workers, as a dispatcher does."""
        address = ray.util.get_node_ip_address()
        node = ray.get_runtime_context().get_node_id()
        self._place = ActorPlace(node, address, os.getpid(), versions())
        if dispatcher_key is not None:
            self._switchboard = Switchboard(address, dispatcher_key)
            self._place = self._place._replace(dispatcher=self._switchboard.address)
        return self._place

    def serve(
        self, number: int, owner: Address, key: bytes, graph: npt.NDArray[np.uint8], dispatcher: Address | None
    ) -> None:
        """Run worker `number` of the owner at this address, or its dispatcher."""
        file, place = create_shared_file(), str(self._place)
        with os.fdopen(os.dup(file), "wb") as content:
            content.write(graph.data)
        with dial(owner, key, number) as end, contextlib.suppress(GoneError):
            os.register_at_fork(after_in_child=end.close)
            if number == DISPATCHER:
                serve_workers(ClusterControl(Channel(end), self._switchboard), file, place)
            else:
                others = [] if dispatcher is None else [_dial_dispatcher(dispatcher, key, number).detach()]
                Worker(Channel(end), file, others, place).run()


class ClusterControl:
    """Brings the dispatcher the runs of its owner, and the connections of new workers."""

    def __init__(self, owner: Channel, switchboard: Switchboard) -> None:
        self._owner = owner
        self._switchboard = switchboard

    def filenos(self) -> list[int]:
        return [self._owner.fileno(), self._switchboard.fileno()]

    def receive(self) -> tuple[list[socket.socket], DispatchRequest | None] | None:
        poll = select.poll()
        for fd in self.filenos():
            poll.register(fd, select.POLLIN)
        ready = {fd for fd, _ in poll.poll()}
        ends = [call.end for call in self._switchboard.calls()] if self._switchboard.fileno() in ready else []
        if self._owner.fileno() not in ready:
            return ends, None
        try:
            message = self._owner.receive()
        except GoneError:
            return None
        return ends, None if message is None else cast("DispatchRequest", message.head[1])


# The sockets between the owner, its workers and its dispatcher.


class Call(NamedTuple):
    """A connection, and the number of the actor at its other end."""

    number: int
    end: socket.socket


class Switchboard:
    """Accepts connections from those who have the key."""

    def __init__(self, host: str, key: bytes) -> None:
        self._key = key
        self._listener = socket.create_server((host, 0), backlog=1024)
        self._listener.setblocking(False)
        self.address: Address = self._listener.getsockname()[:2]
        self.fileno, self.close = self._listener.fileno, self._listener.close

    def calls(self) -> list[Call]:
        """The connections that have come, without those that lack the key."""
        calls: list[Call] = []
        with contextlib.suppress(BlockingIOError):
            while True:
                end, _ = self._listener.accept()
                end.settimeout(CONNECT_SECONDS)
                with contextlib.suppress(OSError):
                    greeting = end.recv(KEY_BYTES + 4, socket.MSG_WAITALL)
                    if hmac.compare_digest(greeting[:KEY_BYTES], self._key):
                        calls.append(Call(int.from_bytes(greeting[KEY_BYTES:], signed=True), _tuned(end)))
                        continue
                end.close()
        return calls


def dial(address: Address, key: bytes, number: int) -> socket.socket:
    """A connection to a switchboard."""
    end = socket.create_connection(address, CONNECT_SECONDS)
    end.sendall(key + number.to_bytes(4, signed=True))
    return _tuned(end)


def _dial_dispatcher(address: Address, key: bytes, number: int) -> socket.socket:
    try:
        return dial(address, key, number)
    except OSError:  # it has died, so the owner replaces both
        gone, other = socket.socketpair()
        other.close()
        return gone


def _tuned(end: socket.socket) -> socket.socket:
    end.settimeout(None)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 5)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * SILENCE_SECONDS))
    return end


# The owner's side.


class _Actor(NamedTuple):
    handle: Any
    place: ActorPlace
    serving: Any  # the reference of its call


class ClusterDispatcher:
    """The connection to the actor that dispatches."""

    def __init__(self, end: socket.socket, process: int, address: Address | None) -> None:
        self.process = process
        self.address = address
        self._channel = Channel(end)
        self.fileno, self.close = self._channel.fileno, self._channel.close

    def begin(self, request: DispatchRequest) -> None:
        self._channel.post(("run", request))


class ClusterLauncher:
    """Starts actors, and ends them. `Ray` explains what they get of the cluster."""

    shares_memory: ClassVar[bool] = False
    noun: ClassVar[str] = "actor"

    def __init__(
        self,
        address: str | None,
        cpus: float,
        resources: Mapping[str, float] | None,
        runtime_env: Mapping[str, object] | None,
    ) -> None:
        self._address = address
        self._cpus = cpus
        self._resources = dict(resources or {})
        self._runtime_env = runtime_env
        self._owner = os.getpid()
        self._key = secrets.token_bytes(KEY_BYTES)
        self._switchboard: Switchboard | None = None
        self._graph: Any = None  # a reference
        self._actors: dict[int, _Actor] = {}
        self._numbers = itertools.count(1)

    def workers(
        self, fds: Mapping[int, Sequence[int]], graph_file: int, dispatcher: DispatcherLink | None
    ) -> list[Started]:
        address = dispatcher.address if isinstance(dispatcher, ClusterDispatcher) else None
        return self._start([*fds], graph_file, address)

    def dispatcher(self, graph_file: int) -> ClusterDispatcher:
        ((end, process, _),) = self._start([DISPATCHER], graph_file, None)
        return ClusterDispatcher(end, process, self._actors[process].place.dispatcher)

    def _start(self, numbers: Sequence[int], graph_file: int, dispatcher: Address | None) -> list[Started]:
        """Start these workers, all at a time.

        Raises:
            WorkerError: there is no cluster or no room in it, or an actor cannot begin.
        """
        self._connect(graph_file)
        deadline = time.monotonic() + START_SECONDS
        while True:
            new = [self._make() for _ in numbers]
            try:
                return self._serving(numbers, new, dispatcher)
            except LOST as error:  # Ray places actors on a dead node until it learns of its death
                self._kill(new)
                if time.monotonic() > deadline:
                    raise WorkerError(
                        f"actors have died while they started, for {START_SECONDS:g} seconds: {first_line(error)}"
                    ) from error
                time.sleep(RETRY_SECONDS)
            except BaseException:
                self._kill(new)
                raise

    def end(self, process: int) -> Death | str:
        actor = self._actors.pop(process)
        self._kill([actor.handle])
        return "has died"

    def close(self) -> None:
        """End all actors, and wait until they have ended."""
        if self._switchboard is not None:
            self._switchboard.close()
        if os.getpid() != self._owner or not ray.is_initialized():
            return
        handles = [actor.handle for actor in self._actors.values()]
        self._actors.clear()
        self._kill(handles)
        if handles:  # a call to a killed actor fails once the cluster has taken its place back
            calls = [handle.hello.remote() for handle in handles]
            ray.wait(calls, num_returns=len(calls), timeout=GRACE_SECONDS)

    def disown(self) -> None:
        if self._switchboard is not None:
            self._switchboard.close()

    def _connect(self, graph_file: int) -> None:
        if self._graph is None:
            connect(self._address)
            self._switchboard = Switchboard(ray.util.get_node_ip_address(), self._key)
            with mmap.mmap(graph_file, 0, access=mmap.ACCESS_READ) as content:
                self._graph = ray.put(np.frombuffer(content, np.uint8).copy())

    def _serving(self, numbers: Sequence[int], new: Sequence[Any], dispatcher: Address | None) -> list[Started]:
        """Wait until actors have said where they are, and have dialled."""
        switchboard = self._switchboard
        assert switchboard is not None, "the launcher has connected to the cluster"
        keys = [self._key if number == DISPATCHER else None for number in numbers]
        hellos = [actor.hello.remote(key) for actor, key in zip(new, keys, strict=True)]
        places = await_places(hellos, {"CPU": self._cpus, **self._resources})
        serving = [
            actor.serve.remote(number, switchboard.address, self._key, self._graph, dispatcher)
            for number, actor in zip(numbers, new, strict=True)
        ]
        ends: dict[int, socket.socket] = {}
        poll = select.poll()
        poll.register(switchboard, select.POLLIN)
        while len(ends) < len(numbers):
            if not poll.poll(100):
                over, _ = ray.wait(serving, timeout=0)
                try:
                    ray.get(over)  # raises why it has ended
                except ray.exceptions.RayTaskError as error:
                    raise _unreachable(switchboard.address, error) from error
            ends |= dict(switchboard.calls())
        started: list[Started] = []
        for number, actor, place, call in zip(numbers, new, places, serving, strict=True):
            process = next(self._numbers)
            self._actors[process] = _Actor(actor, place, call)
            started.append(Started(ends[number], process, str(place)))
        return started

    def _make(self) -> Any:
        options: dict[str, object] = {
            "num_cpus": self._cpus,
            "resources": dict(self._resources),
            "scheduling_strategy": "SPREAD",  # by default, Ray fills one node first
            "max_restarts": 0,  # the pool starts actors again, from cursors
            "max_task_retries": 0,
        }
        if self._runtime_env is not None:
            options["runtime_env"] = dict(self._runtime_env)
        return ray.remote(Host).options(**options).remote()

    def _kill(self, actors: Sequence[Any]) -> None:
        for actor in actors:
            ray.kill(actor)


# The cluster.


def connect(address: str | None) -> None:
    """Connect this process to a running cluster, unless it is connected already.

    Raises:
        WorkerError: there is no cluster, or it cannot be used.
    """
    if ray.is_initialized():
        return
    address = address or os.environ.get("RAY_ADDRESS")
    cluster = "Ray cluster on this machine" if address is None else f"Ray cluster at {address!r}"
    try:
        if address is not None:
            _check_port(address)
        ray.init(address=address or "auto", log_to_driver=False)
    except (OSError, ValueError) as error:
        raise WorkerError(
            f"there is no {cluster}: {first_line(error)}; start one with `ray start --head`, or call `ray.init()` "
            "first, which starts one for this program"
        ) from error
    except RuntimeError as error:  # another version of Ray or of Python, for example
        raise WorkerError(f"the {cluster} cannot be used: {error}") from error


def _check_port(address: str) -> None:
    """Raise an `OSError` at once if nobody listens there; Ray would try for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if port.isdecimal():
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()


def await_places(hellos: Sequence[Any], needs: Mapping[str, float]) -> list[ActorPlace]:
    """Wait until all new actors have answered; return where they are.

    Raises:
        WorkerError: there is no room for one, or it cannot begin.
        Exception: one of `LOST`: one has died.
    """
    _, missing = ray.wait(hellos, num_returns=len(hellos), timeout=START_SECONDS)
    if missing:
        raise _room_error(len(missing), needs)
    try:
        places: list[ActorPlace] = ray.get(hellos)
    except ray.exceptions.RayError as error:
        _raise_if_lasting(error)
        raise
    for place in places:
        if place.versions != versions():
            raise WorkerError(
                f"{place} has {_listed(place.versions)}, and this program has {_listed(versions())}; they must be the "
                "same"
            )
    return places


def versions() -> dict[str, str]:
    """What must be equal where a pipe is written and where it runs."""
    return {"Python": ".".join(platform.python_version_tuple()[:2]), "Ray": ray.__version__}


def first_line(error: BaseException) -> str:
    """The first sentence of an error of Ray, which may have many lines."""
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__


def _room_error(missing: int, needs: Mapping[str, float]) -> WorkerError:
    free, total = ray.available_resources(), ray.cluster_resources()
    has = ", ".join(f"{free.get(name, 0.0):g} {name} free of {total.get(name, 0.0):g}" for name in needs)
    asked = ", ".join(f"{amount:g} {name}" for name, amount in needs.items())
    return WorkerError(
        f"{missing} actors have not started within {START_SECONDS:g} seconds: each needs {asked}, and the cluster has "
        f"{has}; close other loaders, ask for fewer actors or for less, or add nodes"
    )


def _raise_if_lasting(error: Exception) -> None:
    """Raise an error with its repair if another actor would not start either."""
    if "No module named 'feedpipe'" in str(error):
        raise WorkerError(
            "feedpipe is not installed on a node of the cluster; install the version of this program there, or let Ray "
            'do it: `runtime_env={"pip": ["feedpipe"]}`'
        ) from error
    if isinstance(error, ray.exceptions.RuntimeEnvSetupError):
        raise WorkerError(f"a node of the cluster cannot set up `runtime_env`: {error}") from error


def _unreachable(address: Address, error: Exception) -> WorkerError:
    host, port = address
    return WorkerError(
        f"an actor cannot connect to this program at {host}:{port}: {first_line(error.__cause__ or error)}; the nodes "
        "of the cluster must reach the ports of this machine"
    )


def _listed(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
