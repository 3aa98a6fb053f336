"""Packages that only some users have installed: checked when a chain is written, imported when it runs."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from ..errors import ArgumentError, with_call_site


class Package(NamedTuple):
    """A package that something needs.

    Attributes:
        module: the name of the module to import.
        name: of the package that has the module.
        extra: the extra of feedpipe that installs it.
        purpose: what needs it, for the error: "TFRecord files are read".
    """

    module: str
    name: str
    extra: str
    purpose: str

    def check(self) -> None:
        """Check that it is installed, without importing it.

        Raises:
            ArgumentError: it is not.
        """
        if find_spec(self.module.partition(".")[0]) is None:
            raise ArgumentError(
                with_call_site(
                    f"{self.purpose} with the package {self.name}, which is not installed; "
                    f"`pip install 'feedpipe[{self.extra}]'` installs it"
                )
            )

    def load(self) -> Any:
        """The module.

        Raises:
            ArgumentError: the package is not installed.
        """
        self.check()
        return import_module(self.module)
