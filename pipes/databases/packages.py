"""`require`: the module of a driver, imported when it is needed."""

from __future__ import annotations

from typing import Any

from ..core.packages import Package


def require(module: str, package: str, purpose: str = "this database is read") -> Any:
    """The module of a driver.

    Args:
        purpose: what the package does, for the error.

    Raises:
        ArgumentError: its package is not installed.
    """
    return Package(module, package, "databases", purpose).load()
