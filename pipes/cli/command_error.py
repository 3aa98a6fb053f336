"""`CommandError`: why a command cannot be done."""

from __future__ import annotations


class CommandError(Exception):
    """A command cannot be done; the message is one line, without a traceback.

    Attributes:
        exit_code: of the program: 2 if the command itself is wrong, 1 if something that it reads is.
    """

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code
