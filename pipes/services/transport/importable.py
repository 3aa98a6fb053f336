"""Which modules workers import, so that their functions and classes travel by name, and where workers may start others.

A module whose top level runs a loader with workers would do so again in each worker that imports it, and in each worker
of these. So what is defined there travels by value.
"""

from __future__ import annotations

import inspect
import os
import sys
from pathlib import Path
from types import ModuleType

from ...errors import WorkerError

MAX_DEPTH = 3
"""Workers of workers of workers start no others."""

depth = 0
"""How many workers there are between the program and this process, with this process; 0 in the program itself."""

starting_modules = {"__main__", "__mp_main__"}
"""Modules that no worker imports: the program, and those whose top level has started workers."""


class Importable:
    """Tells, by name, whether a fresh interpreter with the same `sys.path` imports the very module that is here."""

    def __init__(self) -> None:
        self._answers: dict[str, bool] = {}

    def __call__(self, name: str) -> bool:
        if name in starting_modules:
            return False
        if name not in self._answers:
            module = sys.modules.get(name)
            try:
                self._answers[name] = module is not None and self._can_import(name, module)
            except Exception:  # a third party's finder failed; to send by value is always right
                self._answers[name] = False
        return self._answers[name]

    def _can_import(self, name: str, module: ModuleType) -> bool:
        parent = name.rpartition(".")[0]
        if parent and not self(parent):
            return False
        file = getattr(module, "__file__", None)
        if file is None and getattr(module, "__spec__", None) is None:
            # A package may create modules by itself, as six.moves; a module without a package comes from `exec`.
            return bool(parent)
        # `importlib.util.find_spec` would ask the module that is loaded, and not search for one.
        path = sys.modules[parent].__path__ if parent else None
        specs = (finder.find_spec(name, path) for finder in sys.meta_path if hasattr(finder, "find_spec"))
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is None:
            return file is None and bool(parent)
        return file is None or spec.origin in ("built-in", "frozen") or _is_same_file(spec.origin, file)


def _is_same_file(origin: str | None, file: str) -> bool:
    if origin is None:
        return False
    if os.path.abspath(origin) == os.path.abspath(file):
        return True
    return os.path.exists(origin) and os.path.exists(file) and os.path.samefile(origin, file)


def is_of_user(module: ModuleType) -> bool:
    """Whether a module is neither installed nor a part of Python or of feedpipe."""
    file = getattr(module, "__file__", None)
    if file is None or module.__name__.partition(".")[0] in (__name__.partition(".")[0], *sys.stdlib_module_names):
        return False
    return not {"site-packages", "dist-packages"}.intersection(Path(file).parts)


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
