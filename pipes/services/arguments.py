"""`check_arguments`: checks the arguments that several services take."""

from __future__ import annotations

from ..core.checks import check_bytes, check_callable, check_int, check_seconds


def check_arguments(*, prefetch: object, memory: int | str | None, timeout: object, init: object = None) -> None:
    """Checks those that are given.

    Raises:
        ArgumentError, ArgumentTypeError: one is out of its range or of the wrong type.
    """
    if prefetch is not None:
        check_int("prefetch", prefetch, least=1)
    if memory is not None:
        check_bytes("memory", memory)
    if init is not None:
        check_callable("init", init)
    if timeout is not None:
        check_seconds("timeout", timeout)
