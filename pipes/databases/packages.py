"""`require`: the module of a driver, imported when it is needed."""

from __future__ import annotations

from typing import Any

from ..core.packages import Package


def require(module: str, package: str) -> Any:
    """The module of a driver.

    Raises:
        ArgumentError: its package is not installed.
    """
    return Package(module, package, "databases", "this database is read").load()
