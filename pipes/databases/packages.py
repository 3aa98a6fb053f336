"""`require`: the module of a driver, imported when it is needed."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ..errors import ArgumentError, with_call_site


def require(module: str, package: str) -> Any:
    """The module of a driver.

    Raises:
        ArgumentError: its package is not installed.
    """
    if find_spec(module.partition(".")[0]) is None:
        raise ArgumentError(
            with_call_site(
                f"this database is read with the package {package}, which is not installed; "
                "`pip install 'feedpipe[databases]'` installs all drivers"
            )
        )
    return import_module(module)
