"""`feedpipe ops`: all operators and sources, by family, and the documentation of one."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from ..core.entry_points import InstalledFunction, installed_functions
from ..pipe import Pipe
from .command_error import CommandError

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "Rows": ("map", "map_batches", "filter", "flat_map", "interleave", "enumerate", "decode", "on_error"),
    "Selection and order": (
        *("shuffle", "take", "skip", "take_while", "skip_while", "distinct", "slice"),
        *("sample", "resample", "repeat"),
    ),
    "Parts": ("split", "route", "unzip", "fork"),
    "Several pipes": ("concat", "join", "mix", "round_robin", "zip", "zip_by_key", "zip_longest"),
    "Groups": (
        *("batch", "batch_by_size", "group_by", "bucket_by_length", "sliding", "unbatch", "collate"),
        *("pad_batch", "pack"),
    ),
    "Columns of tables": (*("select", "drop", "rename", "cast", "with_columns", "unnest", "map_columns", "to_arrow"),),
    "Values of columns": (
        *(
            "clip",
            "fill_null",
            "drop_null",
            "one_hot",
            "index_of",
            "bucketize",
            "normalize_text",
            "standardize",
            "scale",
        ),
    ),
    "Files": (
        *("open_files", "parse_parquet", "parse_avro", "parse_orc", "parse_arrow", "parse_csv", "parse_jsonl"),
        *("parse_lines", "parse_tar", "parse_tfrecord", "parse_mds", "parse_bytes"),
    ),
    "Memory and place": ("load", "cache", "prefetch", "shard_by_rank", "dispatch", "remote"),
}
"""The operators as `docs/reference.md` groups them."""


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
        """What it does, in one line."""
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


def list_functions() -> Iterator[str]:
    """Yield the lines of a list of all operators and sources."""
    for number, (family, entries) in enumerate(_families()):
        width = max(len(entry.name) for entry in entries)
        yield f"{family}" if number == 0 else f"\n{family}"
        for entry in entries:
            yield f"  {entry.name:{width}}  {entry.summary()}"


def describe_function(name: str) -> Iterator[str]:
    """Yield the documentation of each operator or source of that name."""
    entries = [entry for _, family in _families() for entry in family]
    short_name = name.removeprefix("pipe.").removeprefix("ext.").removeprefix("fp.").removesuffix("()")
    matches = [entry for entry in entries if entry.name == short_name]
    if not matches:
        near = difflib.get_close_matches(short_name, [entry.name for entry in entries], 1)
        repair = f"did you mean `{near[0]}`?" if near else "`feedpipe ops` lists all"
        raise CommandError(f"there is no operator or source `{name}`; {repair}")
    for number, entry in enumerate(matches):
        yield entry.documentation() if number == 0 else f"\n\n{entry.documentation()}"


def _families() -> Iterator[tuple[str, list[_ListedFunction]]]:
    for family, names in FAMILIES.items():
        yield family, [_ListedFunction(name, f"pipe.{name}", getattr(Pipe, name)) for name in names]
    package = import_module("..", __package__)
    public = {name: getattr(package, name) for name in package.__all__}
    sources = {name: value for name, value in public.items() if ".sources." in value.__module__}
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


def _summary(function: Callable[..., Any]) -> str:
    return _first_line(inspect.getdoc(function) or "(without documentation)")


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


class _Code(str):
    """Code whose `repr` is itself: a signature shows annotations that are strings without their quotes."""

    __slots__ = ()
    __repr__ = str.__str__


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
