"""`InstalledOperators`: what `pipe.ext` gives, the operators of installed packages."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any

from ..core.entry_points import installed_functions
from ..errors import with_call_site

if TYPE_CHECKING:
    from ..pipe import Pipe


class InstalledOperators:
    """The operators that installed packages declare, as methods of one pipe."""

    __slots__ = ("_pipe",)

    def __init__(self, pipe: Pipe[Any]) -> None:
        self._pipe = pipe

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):  # Python and notebooks look for such names; no operator has one
            raise AttributeError(name)
        declared = installed_functions("operator")
        matches = [function for function in declared if function.name == name]
        if not matches:
            raise AttributeError(with_call_site(self._unknown(name, sorted({function.name for function in declared}))))
        if len(matches) > 1:
            packages = " and ".join(function.package for function in matches)
            raise AttributeError(
                with_call_site(
                    f"{packages} declare an operator `{name}`; import the function that you mean, and call "
                    "`pipe.pipe(function, ...)`"
                )
            )
        return MethodType(matches[0].load(), self._pipe)

    def _unknown(self, name: str, names: list[str]) -> str:
        message = f"no installed package declares an operator `{name}`"
        if callable(getattr(type(self._pipe), name, None)):
            return f"{message}; it is an operator of feedpipe: `pipe.{name}(...)`"
        if near := difflib.get_close_matches(name, names, 1):
            return f"{message}; did you mean `{near[0]}`?"
        return f"{message}; there are {', '.join(f'`{other}`' for other in names) or 'none'}"

    def __dir__(self) -> list[str]:
        return [function.name for function in installed_functions("operator")]

    def __repr__(self) -> str:
        return f"<operators of installed packages: {', '.join(dir(self)) or 'none'}>"
