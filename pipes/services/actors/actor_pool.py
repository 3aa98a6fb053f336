"""`ActorPool`: the actors of one loader."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import ray  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]
from ray.util.scheduling_strategies import (  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]
    NodeAffinitySchedulingStrategy,
)

from ...core.graph import Node, walk
from ...core.operator import Boundary
from ...errors import LoaderError, WorkerError
from ...plan.worker_graph import worker_graph
from ..deaths import report_death
from ..transport.captured_globals import CapturedGlobals
from ..transport.graph_file import write_graph_file
from .actor import RunActor
from .actor_handle import MAX_CALLS, ActorHandle
from .burst import MAX_BURST_ELEMENTS
from .cluster import await_start, connect, first_line
from .dispatch_actor import DispatchActor
from .note_board import NoteBoard
from .protocol import LOST, ActorPlace
from .stacks import stacks_of

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
    board: Any = None
    owner: int = field(default_factory=os.getpid)

    def end(self) -> None:
        if os.getpid() != self.owner or not ray.is_initialized():
            return
        actors = [actor for actor in (self.dispatcher, *(handle.actor for handle in self.handles)) if actor is not None]
        for actor in actors:
            ray.kill(actor)
        if self.board is not None:
            ray.kill(self.board)
            self.board = None
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
        self._end = weakref.finalize(self, self._actors.end)

    def ready(self, root: Node) -> list[ActorHandle]:
        """The actors, which have the graph of `root`. The first call starts them.

        Raises:
            ArgumentTypeError: something in the graph cannot be sent to them.
            WorkerError: there is no cluster or no room in it, or an actor cannot begin.
        """
        self.check_owner()
        if self._globals is None:
            self._create(root)
        else:
            self._globals.warn_of_changes()
        self._start_missing()
        return self._actors.handles

    def replace(self, handle: ActorHandle, doing: str, error: Exception) -> None:
        """Starts a new actor in place of one that has died while it made `doing`.

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
        """Starts a new actor for the operators before `dispatch`, and new workers, which read from it.

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

    def board(self, handle: ActorHandle) -> Any:
        """The actor that keeps notes of a worker if it has died twice at one element; else None."""
        if handle.deaths < 2:
            return None
        actors = self._actors
        if actors.board is None:
            here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
            actors.board = self._remote(NoteBoard, num_cpus=0, scheduling_strategy=here).remote()
        actors.board.write.remote(handle.number, "")
        return actors.board

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
        """Ends all actors, and waits until they have ended."""
        self._end()

    def _create(self, root: Node) -> None:
        """Sends the graph to the cluster, and creates a handle for each actor."""
        settings = self.settings
        root = worker_graph(root)
        graph = _packed_graph(root, settings.init)
        connect(settings.address)
        self._graph = ray.put(graph)
        self._has_dispatcher = any(node.op.boundary is Boundary.ONE_PROCESS for node in walk(root))
        memory = settings.memory // settings.actors
        self._actors.handles += [ActorHandle(n, settings.prefetch, memory) for n in range(settings.actors)]
        self._globals = CapturedGlobals(root)

    def _start_missing(self) -> None:
        """Starts the actors that do not run: all of them at first, later those that have died."""
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
        """Makes the actors that are missing. Nothing waits for them yet."""
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
        if self._actors.board is None:
            return ""
        try:
            note: str = ray.get(self._actors.board.read.remote(handle.number), timeout=GRACE_SECONDS)
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
        """Kills actors that have not started."""
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
