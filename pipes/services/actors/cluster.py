"""A Ray cluster: the connection of this process to it, and how actors start in it."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

import ray  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]

from ...errors import WorkerError
from .protocol import ActorPlace, versions

CONNECT_SECONDS = 10.0
START_SECONDS = 60.0
"""Actors that have not started after this time have no room in the cluster."""


def connect(address: str | None) -> None:
    """Connects this process to a cluster, unless it is connected already. It starts none.

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
    """Raises an `OSError` at once if nobody listens there; Ray would try for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if port.isdecimal():
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()


def await_start(actors: Sequence[Any], graph: Any, needs: Mapping[str, float]) -> list[ActorPlace]:
    """Waits until all new actors can run; returns where they are.

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
    """Raises an error with its repair if another actor would not start either."""
    if "No module named 'feedpipe'" in str(error):
        raise WorkerError(
            "feedpipe is not installed on a node of the cluster; install the version of this program there, or let Ray "
            'do it: `runtime_env={"pip": ["feedpipe"]}`'
        ) from error
    if isinstance(error, ray.exceptions.RuntimeEnvSetupError):
        raise WorkerError(f"a node of the cluster cannot set up `runtime_env`: {error}") from error


def _listed(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
