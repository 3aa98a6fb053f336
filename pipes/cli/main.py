"""The program `feedpipe`: its commands, what they print, and its exit codes."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType

from ..engine.stage import resolve
from ..errors import FeedpipeError, RowError, call_site, with_call_site
from ..plan.explain import explained
from ..writing.verify import verify
from .catalog import describe_function, list_functions
from .command_error import CommandError
from .load_pipe import load_pipe

_TARGET = "module:pipe; the module is looked for in this folder too"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return the exit code.

    It is 0 if all is well; 1 if a pipe fails, or a file is not as its manifest says; 2 if the command is wrong, such as
    a name that does not exist. An error takes one line on stderr. A failure of the user's own code has its traceback.

    Args:
        arguments: the words of the command; by default those that the program was started with.
    """
    options = _parser().parse_args(arguments)
    try:
        _print_lines(options.run(options))
    except CommandError as error:
        _print_error(str(error))
        return error.exit_code
    except FeedpipeError as error:
        if isinstance(error, RowError) and error.__cause__ is not None:
            _print_traceback(error.__cause__)
        # Errors name the user's line. Where no line of the user called anything, that is the start of this program.
        _print_error(str(error).replace(with_call_site("", call_site()), ""))
        return 1
    except Exception as error:
        _print_traceback(error)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="feedpipe", description="Looks at pipes, operators and written files.")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    ops = commands.add_parser("ops", help="list all operators and sources, or show the documentation of one")
    ops.add_argument("name", nargs="?", metavar="NAME", help="an operator or a source, such as `batch`")
    ops.set_defaults(run=_ops)

    explain = commands.add_parser("explain", help="print the plan of a pipe")
    explain.add_argument("pipe", metavar="MODULE:PIPE", help=_TARGET)
    explain.add_argument("--world-size", type=int, default=1, metavar="N", help="ranks (default: 1)")
    explain.add_argument("--workers", type=int, default=0, metavar="N", help="workers of each rank (default: 0)")
    explain.add_argument("--shards", type=int, metavar="N", help="virtual shards (default: the plan's choice)")
    explain.set_defaults(run=_explain)

    head = commands.add_parser("head", help="print the first elements of a pipe")
    head.add_argument("pipe", metavar="MODULE:PIPE", help=_TARGET)
    head.add_argument("-n", "--count", type=int, default=5, metavar="N", help="how many (default: 5)")
    head.set_defaults(run=_head)

    check = commands.add_parser("verify", help="compare files with their manifest, by size and checksum")
    check.add_argument("manifest", metavar="MANIFEST", help="a path or URL")
    check.set_defaults(run=_verify)
    return parser


def _ops(options: argparse.Namespace) -> Iterator[str]:
    return list_functions() if options.name is None else describe_function(options.name)


def _explain(options: argparse.Namespace) -> Iterator[str]:
    pipe = load_pipe(options.pipe)
    yield explained(resolve(pipe), world_size=options.world_size, workers=options.workers, shards=options.shards)


def _head(options: argparse.Namespace) -> Iterator[str]:
    return map(repr, load_pipe(options.pipe).take(options.count))


def _verify(options: argparse.Namespace) -> Iterator[str]:
    verify(options.manifest)
    yield f"all files are as {options.manifest} says"


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        try:
            print(line, flush=True)
        except BrokenPipeError:  # the reader has seen enough, as in `feedpipe ops | head`
            os.dup2(
                os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
            )  # so that Python's own flush at exit is silent
            return


def _print_error(message: str) -> None:
    print("feedpipe:", " ".join(line.strip() for line in message.splitlines()), file=sys.stderr)


def _print_traceback(error: BaseException) -> None:
    """Prints the traceback from the first line of the user's code on."""
    frames = _users_frames(error.__traceback__)
    if frames is None and not isinstance(error, SyntaxError):  # no code of the user's: the failure is ours
        frames = error.__traceback__
    traceback.print_exception(type(error), error, frames)


def _users_frames(frames: TracebackType | None) -> TracebackType | None:
    package = __name__.partition(".")[0]
    while frames is not None:
        module = str(frames.tb_frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in (package, "importlib"):
            return frames
        frames = frames.tb_next
    return None
