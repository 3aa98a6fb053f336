"""Files as rows: what the operators that read them ask of their input, and how they say what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.graph import walk
from ...core.operator import Order
from ...errors import ArgumentTypeError, FeedpipeError, with_call_site
from ...storage.file import File

if TYPE_CHECKING:
    from ...engine.stage import Stage
    from ...pipe import Pipe


def settled(pipe: Pipe[File]) -> bool:
    """Whether files come in one order in each run."""
    drawn = any((node.inputs and node.op.order is Order.REORDERS) or node.op.deals for node in walk(pipe))
    return pipe.indexed and not drawn


def check_file(stage: Stage, kind: str, value: object) -> File:
    """`value`, which must be a file for the parser of that kind."""
    if isinstance(value, File):
        return value
    said = f"`{kind}` reads files but got: {value!r}; `.open_files()` comes before it"
    raise ArgumentTypeError(with_call_site(said, stage.node.call_site))


def relocated(error: FeedpipeError, stage: Stage) -> FeedpipeError:
    """The error, with the line of the user's code."""
    return type(error)(with_call_site(str(error), stage.node.call_site))
