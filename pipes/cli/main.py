"""The program `feedpipe`: its commands, what they print, and its exit codes."""

from __future__ import annotations

import argparse
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from ..core.checks import similar_name
from ..engine.stage import resolve
from ..errors import FeedpipeError, RowError, call_site, with_call_site
from ..ops._methods import advice_on_name
from ..pipe import InstalledFunction, Pipe, installed_functions
from ..plan.explain import explained
from ..seeing.tuning import tune
from ..sources.index import Footers
from ..storage.index import Index, remove_versions, versions
from ..writing.index import index
from ..writing.verify import verify


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return the exit code.

    It is 0 if all is well; 1 if a pipe fails, or a file is not as its manifest says; 2 if the command is wrong, such as
    a name that does not exist. An error takes one line on stderr. A failure of the user's own code has its traceback.

    Args:
        arguments: the words of the command; by default those that the program was started with.
    """
    options = parser().parse_args(arguments)
    try:
        _print_lines(options.run(options))
    except CommandError as error:
        _print_error(str(error))
        return error.exit_code
    except FeedpipeError as error:
        if isinstance(error, RowError) and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        # Errors name the user's line. If no line of the user called anything, that is the start of this program.
        _print_error(str(error).replace(with_call_site("", call_site()), ""))
        return 1
    except Exception as error:
        traceback.print_exception(error)
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    program = argparse.ArgumentParser(prog="feedpipe", description="Looks at pipes, operators and written files.")
    commands = program.add_subparsers(title="commands", metavar="COMMAND", required=True)

    target = argparse.ArgumentParser(add_help=False)
    target.add_argument("pipe", metavar="MODULE:PIPE", help="module:pipe; the module is looked for in this folder too")
    job = argparse.ArgumentParser(add_help=False)
    job.add_argument("--world-size", type=int, default=1, metavar="N", help="ranks (default: 1)")
    job.add_argument("--workers", type=int, default=0, metavar="N", help="workers of each rank (default: 0)")
    job.add_argument("--shards", type=int, metavar="N", help="virtual shards (default: the plan's choice)")

    ops = commands.add_parser("ops", help="list all operators and sources, or show the documentation of one")
    ops.add_argument("name", nargs="?", metavar="NAME", help="an operator or a source, such as `batch`")
    ops.set_defaults(run=_ops)

    explain = commands.add_parser("explain", parents=[target, job], help="print the plan of a pipe")
    explain.set_defaults(run=_explain)

    check = commands.add_parser(
        "check", parents=[target, job], help="find what a pipe would cost that its author may not expect"
    )
    check.add_argument("--strict", action="store_true", help="exits with 1 on a warning too, and not only on an error")
    check.set_defaults(run=_check)

    tuned = commands.add_parser(
        "tune", parents=[target], help="find the workers with which a loop does not wait for data"
    )
    tuned.add_argument(
        "--step", type=float, metavar="SECONDS", help="of a training step (default: as fast as possible)"
    )
    tuned.add_argument("--cpus", type=float, metavar="N", help="CPUs to use (default: those of this process)")
    tuned.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="for all trials (default: 60)")
    tuned.set_defaults(run=_tune)

    manifest = commands.add_parser("verify", help="compare files with their manifest, by size and checksum")
    manifest.add_argument("manifest", metavar="MANIFEST", help="a path or URL")
    manifest.set_defaults(run=_verify)

    index = commands.add_parser("index", help="make an index of files, or its next version")
    index.add_argument("paths", nargs="*", metavar="PATH", help="a file, a folder, or a glob in quotes")
    index.add_argument("--into", required=True, metavar="FOLDER.index", help="the index, a path or URL")
    index.add_argument("--pattern", metavar="GLOB", help="in folders, takes files whose name matches this glob")
    index.add_argument("--recursive", action="store_true", help="takes the files in subfolders as well")
    index.add_argument("--no-footers", action="store_true", help="reads no footers of Parquet and Arrow files")
    index.add_argument("--workers", type=int, default=0, metavar="N", help="processes that read footers (default: 0)")
    index.add_argument("--check", action="store_true", help="makes nothing; reads all of the newest version")
    index.add_argument("--versions", action="store_true", help="makes nothing; lists the versions that there are")
    index.add_argument("--keep", type=int, metavar="N", help="removes all versions but the last N, after it is made")
    index.set_defaults(run=_index)

    return program


def _tune(options: argparse.Namespace) -> Iterator[str]:
    pipe = load_pipe(options.pipe)
    yield str(tune(pipe, step_seconds=options.step, cpus=options.cpus, timeout=options.timeout))


def _ops(options: argparse.Namespace) -> Iterator[str]:
    return list_functions() if options.name is None else describe_function(options.name)


def _explain(options: argparse.Namespace) -> Iterator[str]:
    pipe = load_pipe(options.pipe)
    yield explained(resolve(pipe), world_size=options.world_size, workers=options.workers, shards=options.shards)


def _check(options: argparse.Namespace) -> Iterator[str]:
    findings = load_pipe(options.pipe).check(
        world_size=options.world_size, workers=options.workers, shards=options.shards
    )
    yield str(findings)
    failing = ("error", "warning") if options.strict else ("error",)
    if count := sum(finding.severity in failing for finding in findings):
        raise CommandError(f"{count} of {len(findings)} findings must be repaired", exit_code=1)


def _verify(options: argparse.Namespace) -> Iterator[str]:
    verify(options.manifest)
    yield f"all files are as {options.manifest} says"


def _index(options: argparse.Namespace) -> Iterator[str]:
    if options.keep is not None and options.keep < 1:
        raise CommandError(f"`--keep` must be >= 1, as the newest version stays, but got: {options.keep}")
    if options.check or options.versions:
        if options.paths or options.pattern or options.recursive or options.keep:
            raise CommandError("`--check` and `--versions` look at an index as it is: leave out paths and `--keep`")
        newest = Index.open(options.into)
        for number in versions(options.into) if options.versions else [newest.number]:
            opened = Index.open(options.into, number=number)
            if options.check:
                opened.check()
            yield f"{opened!r}, digest {opened.digest}"
        return
    if not options.paths and not options.keep:
        raise CommandError("an index is made of files: give their paths, or `--check`, `--versions` or `--keep`")
    yield from _made_index(options) if options.paths else ()
    if options.keep:
        removed = remove_versions(options.into, None, options.keep)
        yield f"removed versions: {', '.join(map(str, removed)) or 'none'}"


def _made_index(options: argparse.Namespace) -> Iterator[str]:
    paths = options.paths if len(options.paths) > 1 else options.paths[0]
    footers: Footers = False if options.no_footers else "infer"
    version = index(
        paths,
        options.into,
        pattern=options.pattern,
        recursive=options.recursive,
        footers=footers,
        workers=options.workers,
    )
    yield repr(version)


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        try:
            print(line, flush=True)
        except BrokenPipeError:  # the reader has seen enough, as in `feedpipe ops | head`
            # Python's own flush at exit is then silent.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return


def _print_error(message: str) -> None:
    print("feedpipe:", " ".join(line.strip() for line in message.splitlines()), file=sys.stderr)


class CommandError(Exception):
    """A command that cannot be done; the message is one line, without a traceback.

    Attributes:
        exit_code: 2 if the command itself is wrong, 1 if something that it reads is.
    """

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code


# `feedpipe ops`


FAMILIES: Mapping[str, tuple[str, ...]] = {
    "Rows": ("map", "map_batches", "filter", "flat_map", "interleave", "enumerate", "decode", "on_error"),
    "Selection and order": (
        *("shuffle", "take", "skip", "take_while", "distinct", "slice"),
        *("sample", "resample", "repeat"),
    ),
    "Parts": ("split", "route", "fork"),
    "Several pipes": ("concat", "join", "mix", "round_robin", "zip", "zip_by_key"),
    "Groups": (
        *("batch", "batch_by_size", "group_by", "bucket_by_length", "sliding", "unbatch", "collate"),
        *("pad_batch", "pack"),
    ),
    "Columns of tables": ("select", "drop", "rename", "cast", "with_columns", "unnest", "map_columns", "to_arrow"),
    "Values of columns": (
        *("clip", "fill_null", "drop_null", "one_hot", "index_of", "bucketize"),
        *("normalize_text", "standardize", "scale"),
    ),
    "Files": (
        *("open_files", "parse_parquet", "parse_arrow", "parse_csv", "parse_jsonl"),
        *("parse_lines", "parse_tar", "parse_tfrecord", "parse_mds", "parse_bytes"),
    ),
    "Memory and place": ("load", "cache", "prefetch", "shard_by_rank", "dispatch", "remote"),
}
"""The operators, as their list and the site group them."""


def list_functions() -> Iterator[str]:
    """Yield the lines of a list of all operators and sources."""
    for number, (family, entries) in enumerate(families()):
        width = max(len(entry.name) for entry in entries)
        yield f"{family}" if number == 0 else f"\n{family}"
        for entry in entries:
            yield f"  {entry.name:{width}}  {entry.summary()}"


def describe_function(name: str) -> Iterator[str]:
    """Yield the documentation of each operator or source of this name."""
    entries = [entry for _, family in families() for entry in family]
    short_name = name.removeprefix("pipe.").removeprefix("ext.").removeprefix("fp.").removesuffix("()")
    matches = [entry for entry in entries if entry.name == short_name]
    if not matches:
        advice = advice_on_name(short_name, [entry.name for entry in entries]) or "`feedpipe ops` lists all"
        raise CommandError(f"there is no operator or source `{name}`; {advice}")
    for number, entry in enumerate(matches):
        yield entry.documentation() if number == 0 else f"\n\n{entry.documentation()}"


def families() -> Iterator[tuple[str, list[_ListedFunction]]]:
    """Yield the title of each family of operators and sources with its members."""
    for family, names in FAMILIES.items():
        yield family, [_ListedFunction(name, f"pipe.{name}", getattr(Pipe, name)) for name in names]
    package = import_module("..", __package__)
    public = {name: getattr(package, name) for name in package.__all__}
    sources = {name: value for name, value in public.items() if _is_source(value)}
    yield "Sources", [_ListedFunction(name, f"fp.{name}", value) for name, value in sources.items()]
    if operators := installed_functions("operator"):
        title = "Operators of installed packages, called as `pipe.ext.name(...)`"
        yield title, [_ListedFunction(function.name, f"pipe.ext.{function.name}", function) for function in operators]
    if installed := installed_functions("source"):
        title = "Sources of installed packages, imported from there"
        calls = [function.entry_point.value.replace(":", ".") for function in installed]
        yield (
            title,
            [_ListedFunction(function.name, call, function) for function, call in zip(installed, calls, strict=True)],
        )


def _is_source(value: Any) -> bool:
    """Whether a public name is a function that begins a pipe."""
    return ".sources." in value.__module__ and str(value.__annotations__.get("return", "")).startswith("Pipe")


class _ListedFunction(NamedTuple):
    """An operator or a source.

    Attributes:
        name: what a user asks for.
        call: how it is written, up to its arguments.
        function: the function, or the package that should have it.
    """

    name: str
    call: str
    function: Callable[..., Any] | InstalledFunction

    def summary(self) -> str:
        """Its purpose, in one line."""
        if not isinstance(self.function, InstalledFunction):
            return _summary(self.function)
        try:
            return f"{_summary(self.function.load())} [{self.function.package}]"
        except ImportError as error:
            return _first_line(str(error))

    def documentation(self) -> str:
        """Its signature and its docstring."""
        function, package = self.function, None
        if isinstance(function, InstalledFunction):
            package = function.package
            try:
                function = function.load()
            except ImportError as error:
                raise CommandError(_first_line(str(error)), exit_code=1) from error
        parts = [f"{self.call}{_arguments(function, method=self.call.startswith('pipe.'))}"]
        parts += [f"    from {package}"] if package else []
        return "\n".join([*parts, "", inspect.getdoc(function) or "There is no documentation."])


def _summary(function: Callable[..., Any]) -> str:
    return _first_line(inspect.getdoc(function) or "(without documentation)")


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def _arguments(function: Callable[..., Any], *, method: bool) -> str:
    """The arguments as code; those of a method without the pipe."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a function written in C need not have one
        return "(...)"
    parameters = [
        parameter.replace(annotation=_Code(parameter.annotation))
        if isinstance(parameter.annotation, str)
        else parameter
        for parameter in signature.parameters.values()
    ]
    return str(inspect.Signature(parameters[1:] if method else parameters))


class _Code(str):
    """Code whose `repr` is itself: a signature shows annotations that are strings without their quotes."""

    __slots__ = ()
    __repr__ = str.__str__


# Pipes by `module:pipe`


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
            near = similar_name(name, dir(value))
            meant = f"; did you mean `{near}`?" if near else ""
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
            raise  # the module exists, but not what it imports
        raise CommandError(f"there is no module `{error.name}` in this folder or among the installed ones") from None


def _required_arguments(function: Any) -> str:
    parameters = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return ", ".join(f"`{p.name}`" for p in parameters if p.default is p.empty and p.kind not in kinds)
