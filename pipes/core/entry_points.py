"""Operators and sources that installed packages declare as entry points."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from ..errors import ENTRY_POINT_GROUPS, text_of, with_call_site

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Kind: TypeAlias = Literal["operator", "source"]

_GROUPS: dict[Kind, str] = dict(zip(("operator", "source"), ENTRY_POINT_GROUPS, strict=True))


class InstalledFunction(NamedTuple):
    """A function that an installed package declares as an operator or a source.

    Attributes:
        name: what the package calls it.
        kind: "operator" or "source".
        package: the package and its version.
        entry_point: where the function is.
    """

    name: str
    kind: Kind
    package: str
    entry_point: EntryPoint

    def load(self) -> Callable[..., Any]:
        """Import the function.

        Raises:
            ImportError: its module cannot be imported, whatever error it raises, or has no such function.
        """
        try:
            function = self.entry_point.load()
        except Exception as error:
            raise self._error(f"{type(error).__name__}: {text_of(error)}") from error
        if not callable(function) or isinstance(function, type):
            raise self._error(f"it must be a function but is: {function!r:.80}")
        return function  # type: ignore[no-any-return]

    def _error(self, reason: str) -> ImportError:
        message = (
            f"the {self.kind} `{self.name}` of {self.package} ({self.entry_point.value}) cannot be loaded: {reason}"
        )
        return ImportError(with_call_site(message))


def installed_functions(kind: Kind) -> list[InstalledFunction]:
    """What installed packages declare, by name. This reads their metadata, and imports nothing."""
    from importlib.metadata import entry_points  # here, so that `import feedpipe` does not pay for it

    functions: list[InstalledFunction] = []
    for entry_point in entry_points(group=_GROUPS[kind]):
        package = entry_point.dist
        label = "an unknown package" if package is None else f"{package.name} {package.version}"
        functions.append(InstalledFunction(entry_point.name, kind, label, entry_point))
    return sorted(functions, key=lambda function: (function.name, function.package))
