"""`Importable`: which modules workers import, so that their functions and classes travel by name."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

from . import nesting


class Importable:
    """Tells, by name, whether a fresh interpreter with the same `sys.path` imports the very module that is here."""

    def __init__(self) -> None:
        self._answers: dict[str, bool] = {}

    def __call__(self, name: str) -> bool:
        if name in nesting.starting_modules:
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
