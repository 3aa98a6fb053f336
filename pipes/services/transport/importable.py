"""Which modules another process can import by their name; what is in others travels by value."""

from __future__ import annotations

import os
import sys
from types import ModuleType


class Importable:
    """Whether a fresh interpreter with this one's `sys.path` finds the very module that this one has; asked by name."""

    def __init__(self) -> None:
        self._known: dict[str, bool] = {"__main__": False, "__mp_main__": False}

    def __call__(self, name: str) -> bool:
        if name not in self._known:
            module = sys.modules.get(name)
            try:
                self._known[name] = module is not None and self._found(name, module)
            except Exception:  # a finder of somebody else's; by value is right in any case
                self._known[name] = False
        return self._known[name]

    def _found(self, name: str, module: ModuleType) -> bool:
        parent = name.rpartition(".")[0]
        if parent and not self(parent):
            return False
        file = getattr(module, "__file__", None)
        if file is None and getattr(module, "__spec__", None) is None:
            # Some packages make modules of their own, such as six.moves; else somebody has run `exec`.
            return bool(parent)
        # `importlib.util.find_spec` would ask the module that is there, not look for one.
        path = sys.modules[parent].__path__ if parent else None
        found = (finder.find_spec(name, path) for finder in sys.meta_path if hasattr(finder, "find_spec"))
        spec = next((spec for spec in found if spec is not None), None)
        if spec is None:
            return file is None and bool(parent)
        return file is None or spec.origin in ("built-in", "frozen") or _same(spec.origin, file)


def _same(origin: str | None, file: str) -> bool:
    if origin is None:
        return False
    if os.path.abspath(origin) == os.path.abspath(file):
        return True
    return os.path.exists(origin) and os.path.exists(file) and os.path.samefile(origin, file)
