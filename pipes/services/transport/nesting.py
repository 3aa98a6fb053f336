"""Workers of workers: how deep they may go, and modules that no worker may import because they start workers.

A module whose top level runs a loader with workers would do so again in each worker that imports it, and in each worker
of these. So what is defined there travels by value.
"""

from __future__ import annotations

import inspect
import sys

from ...errors import WorkerError

MAX_DEPTH = 3
"""Workers of workers of workers start no others."""

depth = 0
"""How many workers there are between the program and this process, with this process; 0 in the program itself."""

starting_modules = {"__main__", "__mp_main__"}
"""Modules that no worker imports: the program, and those whose top level has started workers."""


def begin_worker(depth_of_owner: int) -> None:
    """This process is a worker from now on."""
    global depth
    depth = depth_of_owner + 1


def check_start() -> None:
    """Check that workers may start here, and note the modules whose top level starts them.

    Raises:
        WorkerError: this process is a worker, and either importing a module starts workers or there are too many above.
    """
    repair = "put that part of the module into a function, or under `if __name__ == '__main__':`"
    frame = inspect.currentframe()
    while frame is not None:
        name, code = str(frame.f_globals.get("__name__")), frame.f_code
        is_top_level = (
            code.co_name == "<module>" and getattr(sys.modules.get(name), "__dict__", None) is frame.f_globals
        )
        if is_top_level and name not in starting_modules:
            if depth:
                raise WorkerError(
                    f"importing `{name}` starts workers at {code.co_filename}:{frame.f_lineno}, and a worker that "
                    f"imports `{name}` must not do so again; {repair}"
                )
            starting_modules.add(name)
        frame = frame.f_back
    if depth >= MAX_DEPTH:
        raise WorkerError(
            f"this process is a worker of a worker, {depth} below the program, and starts no workers of its own; if a "
            f"function imports a module whose top level runs a loader, {repair}"
        )
