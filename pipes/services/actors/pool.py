"""`ActorPool`: the actors of one loader, the cluster that they run in, and their handles."""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import ray  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]

from ...core.ending import Ending
from ...core.graph import Node, walk
from ...core.operator import Trait
from ...core.times import RunTimes
from ...errors import LoaderError, WorkerError
from ...plan.plan import worker_graph
from ..base import ShardEnd, Step
from ..transport import nesting
from ..transport.graph_file import CapturedGlobals, write_graph_file
from ..workers import report_death
from .actor import DispatchActor, RunActor
from .burst import MAX_BURST_ELEMENTS, BurstItem, burst_items
from .protocol import LOST, ActorPlace, ActorRequest, stacks_of, versions

GRACE_SECONDS = 5.0
"""An actor that was killed has this time to end, and one that keeps notes to answer."""
STACKS_SECONDS = 20.0
"""A task on the node of an actor has this time to start, and to answer with the stacks of the actor."""


class ActorSettings(NamedTuple):
    """How many actors a pool has, and how they run. `Ray` explains the values.

    Attributes:
        memory: bytes of all finished elements together.
    """

    actors: int
    cpus: float
    resources: Mapping[str, float]
    address: str | None
    prefetch: int | None
    memory: int
    init: Callable[[int], object] | None
    timeout: float | None
    runtime_env: Mapping[str, object] | None


@dataclass
class _Actors:
    """What a pool has to end."""

    handles: list[ActorHandle] = field(default_factory=list)
    dispatcher: Any = None
    notes: Any = None
    owner: int = field(default_factory=os.getpid)

    def end(self) -> None:
        if os.getpid() != self.owner or not ray.is_initialized():
            return
        actors = [actor for actor in (self.dispatcher, *(handle.actor for handle in self.handles)) if actor is not None]
        for actor in actors:
            ray.kill(actor)
        if self.notes is not None:
            ray.kill(self.notes)
            self.notes = None
        for handle in self.handles:
            handle.forget()
        self.dispatcher = None
        if actors:  # a call to a killed actor fails once the cluster has taken its place back
            calls = [actor.hello.remote() for actor in actors]
            ray.wait(calls, num_returns=len(calls), timeout=GRACE_SECONDS)


class ActorPool:
    """Starts actors, replaces those that die, and ends them."""

    def __init__(self, settings: ActorSettings) -> None:
        self.settings = settings
        self._graph: Any = None  # a reference
        self._globals: CapturedGlobals | None = None
        self._has_dispatcher = False
        self._actors = _Actors()
        self._end = Ending(self, self._actors.end)

    def ready(self, root: Node) -> list[ActorHandle]:
        """The actors, which have the graph of `root`. The first call starts them.

        Raises:
            ArgumentTypeError: something in the graph cannot be sent to them.
            WorkerError: there is no cluster or no room in it, or an actor cannot begin.
        """
        self.check_owner()
        if self._globals is None:
            nesting.check_start()
            self._create(root)
        else:
            self._globals.warn_of_changes()
        self._start_missing()
        return self._actors.handles

    def replace(self, handle: ActorHandle, doing: str, error: Exception) -> None:
        """Replace an actor that has died while it made `doing`.

        Raises:
            WorkerError: too many have died at this element, or there is no room for a new one.
        """
        self._kill(handle.actor)
        handle.deaths = 1 if handle.progress else handle.deaths + 1
        message = f"{handle} has died, while it made {doing}: {first_line(error)}"
        note = self._note(handle) if handle.deaths > 2 else ""
        report_death(handle.deaths, f"{message}, in {note}" if note else message)
        handle.forget()
        self._start_missing()

    def replace_dispatcher(self) -> None:
        """Replace the actor that runs the operators before `dispatch`, and the workers, which read from it.

        Raises:
            WorkerError: too many have died in a row.
        """
        actors = self._actors
        progress = any(handle.progress for handle in actors.handles)
        deaths = 1 if progress else 1 + max(handle.deaths for handle in actors.handles)
        for handle in actors.handles:
            self._kill(handle.actor)
            handle.deaths = deaths
            handle.forget()
        self._kill(actors.dispatcher)
        actors.dispatcher = None
        report_death(deaths, "the actor that runs the operators before `dispatch` has died")
        self._start_missing()

    def crash_notes(self, handle: ActorHandle) -> Any:
        """The actor that keeps notes of a worker if it has died twice at one element; else None."""
        if handle.deaths < 2:
            return None
        actors = self._actors
        if actors.notes is None:
            here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
            actors.notes = self._remote(CrashNotes, num_cpus=0, scheduling_strategy=here).remote()
        actors.notes.write.remote(handle.number, "")
        return actors.notes

    def timeout_error(self, handle: ActorHandle, making: str) -> WorkerError:
        """The error for an actor that has given nothing for `timeout` seconds, with its stacks if they can be had."""
        stacks = self._stacks(handle.place)
        where = f"; it is here:\n{stacks}" if stacks else "; `ray stack` on that node shows where it is"
        return WorkerError(
            f"no element has come for {self.settings.timeout:g} seconds, which is the `timeout`, from {handle}, which "
            f"makes {making}{where}"
        )

    def check_owner(self) -> None:
        if os.getpid() != self._actors.owner:
            raise LoaderError("the actors of a loader belong to the process that made it; make a loader in this one")

    def distrust(self) -> None:
        """Nothing to do after an interrupt: a call of Ray is whole, or was not made."""

    def close(self) -> None:
        """End all actors, and wait until they have ended."""
        self._end()

    def _create(self, root: Node) -> None:
        """Send the graph to the cluster, and create a handle for each actor."""
        settings = self.settings
        root = worker_graph(root)
        graph = _packed_graph(root, settings.init)
        connect(settings.address)
        self._graph = ray.put(graph)
        self._has_dispatcher = any(node.op.trait is Trait.ONE_PROCESS for node in walk(root))
        memory = settings.memory // settings.actors
        self._actors.handles += [ActorHandle(n, settings.prefetch, memory) for n in range(settings.actors)]
        self._globals = CapturedGlobals(root)

    def _start_missing(self) -> None:
        """Start the actors that do not run: all of them at first, later those that have died."""
        deaths = 0
        while True:
            new = self._make_missing()
            try:
                places = await_start(new, self._graph, {"CPU": self.settings.cpus, **self.settings.resources})
            except LOST as error:  # its node may have died meanwhile
                self._forget(new)
                deaths += 1
                report_death(deaths, f"an actor has died while it started: {first_line(error)}")
            except BaseException:
                self._forget(new)
                raise
            else:
                for handle in self._actors.handles:
                    if handle.actor in new:
                        handle.place = places[new.index(handle.actor)]
                return

    def _make_missing(self) -> list[Any]:
        """Make the actors that are missing. Nothing waits for them yet."""
        actors, prefetch = self._actors, self.settings.prefetch
        new: list[Any] = []
        if self._has_dispatcher and actors.dispatcher is None:
            actors.dispatcher = self._make(DispatchActor)
            new.append(actors.dispatcher)
        max_elements = MAX_BURST_ELEMENTS if prefetch is None else max(1, prefetch // MAX_CALLS)
        for handle in actors.handles:
            if handle.actor is None:
                handle.actor = self._make(RunActor, handle.number, max_elements, actors.dispatcher)
                new.append(handle.actor)
        return new

    def _note(self, handle: ActorHandle) -> str:
        """What the last actor of a worker was running; empty if nothing says so."""
        if self._actors.notes is None:
            return ""
        try:
            note: str = ray.get(self._actors.notes.read.remote(handle.number), timeout=GRACE_SECONDS)
        except ray.exceptions.RayError:
            return ""
        return note

    def _stacks(self, place: ActorPlace | None) -> str:
        """The stacks of an actor, from a task on its node; empty if they cannot be had."""
        if place is None:
            return ""
        there = NodeAffinitySchedulingStrategy(place.node, soft=False)
        task = self._remote(stacks_of, num_cpus=0, scheduling_strategy=there, max_retries=0)
        try:
            stacks: str = ray.get(task.remote(place.process, place.stacks), timeout=STACKS_SECONDS)
        except ray.exceptions.RayError:
            return ""
        return stacks

    def _make(self, cls: type, *arguments: object) -> Any:
        actor = self._remote(
            cls,
            num_cpus=self.settings.cpus,
            resources=dict(self.settings.resources),
            scheduling_strategy="SPREAD",  # by default, Ray fills one node first
            max_restarts=0,  # the pool starts actors again, from cursors
            max_task_retries=0,
        )
        return actor.remote(*arguments)

    def _remote(self, code: Callable[..., object], **options: object) -> Any:
        """A class or a function to be run in the cluster."""
        if self.settings.runtime_env is not None:
            options["runtime_env"] = dict(self.settings.runtime_env)
        return ray.remote(code).options(**options)

    def _forget(self, actors: list[Any]) -> None:
        """Kill actors that have not started."""
        for handle in self._actors.handles:
            if handle.actor in actors:
                handle.forget()
        if self._actors.dispatcher in actors:
            self._actors.dispatcher = None
        for actor in actors:
            self._kill(actor)

    def _kill(self, actor: Any) -> None:
        if actor is not None:
            ray.kill(actor)


def _packed_graph(root: Node, init: Callable[[int], object] | None) -> npt.NDArray[np.uint8]:
    file = write_graph_file((root, init), root)
    with os.fdopen(file, "rb") as content:
        return np.fromfile(content, np.uint8)


# The handle of an actor.


MAX_CALLS = 3
"""How many bursts of an actor there are at most: one that the consumer takes from, and others that are on their way."""


class ActorHandle:
    """The place of an actor. When it dies, another one takes its place.

    Args:
        number: of the worker.
        prefetch: how many finished elements may wait for the consumer.
        memory: how many bytes they may hold.

    Attributes:
        inbox: items of the run that have arrived and are still to be consumed.
        actor: Ray's handle; None if it has to be started.
        place: where it runs.
        progress: whether the present actor has sent anything of the run.
        deaths: actors that have died here in a row without progress.
    """

    def __init__(self, number: int, prefetch: int | None, memory: int) -> None:
        self.number = number
        self.inbox: deque[BurstItem] = deque()
        self.actor: Any = None
        self.place: ActorPlace | None = None
        self.progress = False
        self.deaths = 0
        self._max_calls = MAX_CALLS if prefetch is None else min(MAX_CALLS, prefetch)
        self._memory = memory
        self._largest = 1
        self._run = -1
        self._times: RunTimes | None = None
        self._bursts: deque[Any] = deque()  # references, in the order of the calls

    def __str__(self) -> str:
        return f"worker {self.number}" + ("" if self.place is None else f" ({self.place})")

    def begin(self, run: int, times: RunTimes | None) -> None:
        """Begin a run, and forget what is left of an earlier one."""
        self.cancel()
        self.deaths = 0
        self._run = run
        self._times = times

    def request(self, request: ActorRequest) -> None:
        """Ask the actor for a part of the run."""
        self._bursts.clear()
        self.actor.begin.remote(request)
        self._call()

    def receive(self, timeout: float | None) -> None:
        """Wait for the next burst, and put its items into the inbox.

        Raises:
            GetTimeoutError: none has come in time.
            Exception: one of `LOST`: the actor has died.
        """
        self._call()
        burst = ray.get(self._bursts[0], timeout=timeout)
        self._bursts.popleft()
        self._largest = max(self._largest, burst[1].nbytes)
        self.inbox.extend(burst_items(burst))
        if self._times is not None:
            self._times.add(burst[2])
        self.progress |= bool(self.inbox)

    def received(self) -> Iterator[Step | ShardEnd]:
        """The items in the inbox, without elements."""
        for item in self.inbox:
            if item.kind == "step":
                yield Step(None, item.shard, item.cursor)
            elif item.kind == "ended":
                yield ShardEnd(item.shard, item.cursor)

    def cancel(self) -> None:
        """End the run, for this side and for the actor."""
        self.inbox.clear()
        if self.actor is not None and self._run >= 0:
            # Calls that have been made still run: to cancel one that is on its way would stop the actor for 30 seconds.
            self.actor.stop.remote(self._run)
        self._bursts.clear()
        self._run = -1

    def forget(self) -> None:
        """Forget an actor that has ended; the inbox stays."""
        self._bursts.clear()
        self.actor = self.place = None
        self.progress = False

    def _call(self) -> None:
        """Ask for as many bursts as may wait."""
        room = max(1, self._memory // self._largest)
        while len(self._bursts) < min(self._max_calls, room):
            self._bursts.append(self.actor.next_burst.remote(self._run))


# The cluster.


CONNECT_SECONDS = 10.0
START_SECONDS = 60.0
"""Actors that have not started after this time have no room in the cluster."""


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


def await_start(actors: Sequence[Any], graph: Any, needs: Mapping[str, float]) -> list[ActorPlace]:
    """Wait until all new actors can run; return where they are.

    Args:
        actors: with the methods `hello` and `start`.
        graph: a reference to the graph, for `start`.
        needs: the resources of each actor.

    Raises:
        WorkerError: there is no room for one, or it cannot begin.
        Exception: one of `LOST`: one has died.
    """
    hellos = [actor.hello.remote() for actor in actors]
    starts = [actor.start.remote(graph) for actor in actors]
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
    for place, failure in zip(places, ray.get(starts), strict=True):
        if failure is not None:
            cause = failure.to_exception()
            problem = f"{failure.doing} failed with {type(cause).__name__}: {cause}"
            if isinstance(cause, ModuleNotFoundError):
                problem += '; install it there, or send your code: `runtime_env={"working_dir": "."}`'
            raise WorkerError(f"an actor cannot begin in {place}, {problem}") from cause
    return places


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


def _listed(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


# Notes of what actors run.


class CrashNotes:
    """Keeps the last note of each worker, in an actor of its own, which survives them."""

    def __init__(self) -> None:
        self._notes: dict[int, str] = {}

    def write(self, number: int, note: str) -> None:
        self._notes[number] = note

    def read(self, number: int) -> str:
        """The last note of a worker; empty if it has left none."""
        return self._notes.get(number, "")
