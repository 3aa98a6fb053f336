"""`load_pipe`: finds a pipe by `module:pipe`."""

from __future__ import annotations

import difflib
import inspect
import os
import sys
from importlib import import_module
from typing import Any

from ..pipe import Pipe
from .command_error import CommandError


def load_pipe(target: str) -> Pipe[Any]:
    """Import a module of the user, from the current folder or installed, and return the pipe in it.

    Args:
        target: `package.module:name`, where the name is that of a pipe or of a function without arguments that returns
            one. It may have dots, as in `module:Data.train`.

    Raises:
        CommandError: there is no such module or name, or it is no pipe. Errors of the user's code are left as they are.
    """
    module_name, colon, path = target.partition(":")
    if module_name.endswith(".py"):
        module = module_name.removesuffix(".py").removeprefix("./").replace("/", ".")
        raise CommandError(
            f"a pipe is given as `module:pipe` but got a file; did you mean `{module}:{path or 'pipe'}`?"
        )
    if not colon or not all(part.isidentifier() for part in [*module_name.split("."), *path.split(".")]):
        raise CommandError(f"a pipe is given as `module:pipe`, such as `train:pipe`, but got: `{target}`")
    value = _import(module_name)
    for name in path.split("."):
        if not hasattr(value, name):
            near = difflib.get_close_matches(name, dir(value), 1)
            meant = f"; did you mean `{near[0]}`?" if near else ""
            raise CommandError(f"`{module_name}` has no `{path}`{meant}")
        value = getattr(value, name)
    called = inspect.isfunction(value) or inspect.ismethod(value)
    if called:
        if missing := _required_arguments(value):
            raise CommandError(f"`{target}` must be a pipe, or a function without arguments, but it takes {missing}")
        value = value()
    if not isinstance(value, Pipe):
        raise CommandError(f"`{target}` must {'return' if called else 'be'} a pipe but got: {value!r:.80}")
    return value


def _import(name: str) -> Any:
    if (folder := os.getcwd()) not in sys.path:
        sys.path.insert(0, folder)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module is there; what it imports is not
        raise CommandError(f"there is no module `{error.name}` in this folder or among the installed ones") from None


def _required_arguments(function: Any) -> str:
    parameters = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return ", ".join(f"`{p.name}`" for p in parameters if p.default is p.empty and p.kind not in kinds)
