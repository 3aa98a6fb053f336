"""pyarrow, imported when a name in it is first used: `import feedpipe` takes 0.1 s less without it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:

    class _LazyModule:
        def __init__(self, name: str) -> None:
            self.__name__ = name

        def __getattr__(self, name: str) -> Any:
            value = getattr(import_module(self.__name__), name)
            setattr(self, name, value)  # later uses find it without this method
            return value

    pa, pc = _LazyModule("pyarrow"), _LazyModule("pyarrow.compute")

__all__ = ["pa", "pc"]
