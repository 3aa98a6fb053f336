"""One file a workload, found by its name: `overhead` is `workloads/overhead.py`."""

from __future__ import annotations

import importlib
import pkgutil

from ..model import Workload

#: `import` cannot be the name of a module that is imported by name.
_MODULES = {"import": "import_time"}
_NAMES = {module: name for name, module in _MODULES.items()}


def names() -> list[str]:
    """The workloads there are."""
    modules = (each.name for each in pkgutil.iter_modules(__path__))
    return sorted(_NAMES.get(each, each.replace("_", "-")) for each in modules)


def workload(name: str) -> Workload:
    """The workload of that name."""
    module = _MODULES.get(name, name.replace("-", "_"))
    found: Workload = importlib.import_module(f".{module}", __name__).WORKLOAD
    return found
