"""The pages of the reference: one for each operator and source, one for each group of other names, and the commands."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from feedpipe.cli.main import families, parser

from . import diagrams, docstrings
from .docstrings import Docstring, DocstringError

# What a reader of another library looks for, as entries of the index of the search.
ALIASES: Mapping[str, tuple[str, ...]] = {
    "batch": ("batch_size", "drop_last", "drop_remainder"),
    "batch_by_size": ("dynamic batching", "max_tokens", "token budget"),
    "bucket_by_length": ("bucketing",),
    "collate": ("collate_fn", "default_collate", "tensors"),
    "distinct": ("deduplicate", "drop_duplicates"),
    "drop_null": ("dropna",),
    "fill_null": ("missing values", "fillna", "NaN"),
    "from_dataset": ("Hugging Face", "huggingface datasets", "map-style dataset", "load_dataset"),
    "from_table": ("pandas dataframe", "polars"),
    "map": ("num_parallel_calls", "transform", "augment"),
    "mix": ("mixing datasets", "interleave_datasets", "sample_from_datasets", "weighted sampler"),
    "pad_batch": ("padding", "pad_sequence", "padded_batch"),
    "prefetch": ("prefetch_factor", "AUTOTUNE"),
    "read_images": ("ImageFolder", "imagenet"),
    "read_parquet": ("parquet",),
    "read_tar": ("webdataset", "wds", "tar files"),
    "resample": ("oversampling", "class imbalance"),
    "sample": ("WeightedRandomSampler",),
    "shuffle": ("buffer_size", "shuffler", "RandomSampler"),
    "sliding": ("window", "unfold"),
    "split": ("stratify", "random_split", "train_test_split", "KFold"),
}

# The other public names, by page: its title, and the names in `feedpipe`, or in a module of it.
GROUPS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "pipe": ("Pipe", ("Pipe",)),
    "loader": ("Loader", ("Loader", "progress", "tune", "gather_report", "gather_state", "replay")),
    "services": ("Services", ("InProcess", "Threads", "MultiProcess", "Ray")),
    "rows": ("Rows, files and failures", ("Rows", "Parts", "File", "FileCache", "index", "Quarantine", "Retry")),
    "statistics": (
        "Statistics",
        (
            *("fit", "Stats"),
            *(f"stats.{name}" for name in ("mean_std", "min_max", "quantiles", "vocabulary", "counts", "missing")),
        ),
    ),
    "media": (
        "Video and audio",
        tuple(f"media.{name}" for name in ("frames", "video_info", "audio", "audio_info")),
    ),
    "writers": ("Writers", ("write_parquet", "write_arrow", "write_tar", "write_tfrecord", "write_sql", "verify")),
}


class Entry(NamedTuple):
    """An operator or a source, as `feedpipe ops` lists it."""

    family: str
    name: str
    call: str
    function: Callable[..., Any]


def entries() -> Iterator[Entry]:
    """Yield the operators and sources of this package, not those of others that are installed."""
    for family, listed in families():
        for name, call, function in listed:
            if inspect.isfunction(function):
                yield Entry(family, name, call, function)


def pages(uses: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each page.

    Args:
        uses: the titles of the gallery pages that use an operator, by its name and by the paths of the pages.
    """
    listed = list(entries())
    links = {entry.name: f"{entry.name}.md" for entry in listed}
    for entry in listed:
        yield f"reference/operators/{entry.name}.md", _operator_page(entry, listed, links, uses.get(entry.name, {}))
    yield "reference/operators/index.md", _index(listed)
    above = {name: f"operators/{link}" for name, link in links.items()}
    for stem, (title, names) in GROUPS.items():
        yield f"reference/{stem}.md", _group_page(title, names, above)
    yield "reference/command-line.md", _command_page()


_INTRODUCTION = """\
A page for each. In a picture rows are marbles, from left to right.

An **indexed** pipe can give the row at any position and knows its length. A **streamed** one gives its rows in order.
An operator's output is indexed if its input is, unless its page says otherwise. A chain has at most 150 operators in a
row."""


def _index(listed: list[Entry]) -> str:
    """The list of all operators, with the sidebar's order."""
    lines = ["# Operators and sources", "", _INTRODUCTION, ""]
    for family in dict.fromkeys(entry.family for entry in listed):
        lines += [f"## {family}", "", "| name | |", "| --- | --- |"]
        lines += [
            f"| [`{entry.name}`]({entry.name}.md) | {_cell(docstrings.read(entry.function, entry.name).summary)} |"
            for entry in listed
            if entry.family == family
        ]
        lines += ["", "```{toctree}", ":hidden:", f":caption: {family}", ""]
        lines += [entry.name for entry in listed if entry.family == family] + ["```", ""]
    return "\n".join(lines)


def _operator_page(entry: Entry, listed: list[Entry], links: Mapping[str, str], used: Mapping[str, str]) -> str:
    doc = docstrings.read(entry.function, entry.name)
    link = _Linker(entry.name, links, "../../")
    lines = [f"# `{entry.name}`", ""]
    if aliases := ALIASES.get(entry.name):
        lines += [index_entries(aliases), ""]
    lines += [link(doc.summary), ""]
    if doc.diagram:
        try:
            picture = diagrams.svg(doc.diagram, entry.name)
        except diagrams.DiagramError as error:
            raise DocstringError(f"{entry.name}: {error}") from error
        lines += [f'<div class="fp-diagram">{picture}</div>', ""]
    lines += ["```python", signature(entry.call, entry.function), "```", ""]
    if doc.facts:
        lines += ["| fact | |", "| --- | --- |"]
        lines += [f"| **{name}** | {_cell(link(value))} |" for name, value in doc.facts.items()] + [""]
    lines += _body(doc, link, "##")
    near = [f"[`{other.name}`]({links[other.name]})" for other in listed if other.family == entry.family != "Sources"]
    near = [text for text in near if text != f"[`{entry.name}`]({links[entry.name]})"]
    lines += ["## See also", ""] if near or used else []
    lines += [f"{entry.family}: {', '.join(near)}.", ""] if near else []
    if used:
        lines += ["In the gallery: " + ", ".join(f"[{title}](../../{path})" for path, title in used.items()) + ".", ""]
    return "\n".join(lines)


def index_entries(aliases: Iterable[str]) -> str:
    """Return what lets the search find a page by other words; the exclamation mark makes them count like a title."""
    return f"```{{index}} {', '.join(f'!{alias}' for alias in aliases)}\n```"


def _group_page(title: str, names: tuple[str, ...], links: Mapping[str, str]) -> str:
    lines = [f"# {title}", ""]
    one = len(names) == 1
    for name in names:
        module, _, own_name = name.rpartition(".")
        value = getattr(import_module(f"feedpipe.{module}".rstrip(".")), own_name)
        lines += [] if one else [f"## `{name}`", ""]
        # The other modules are imported by their names.
        place = "fp" if module in ("", "stats", "media") else "feedpipe"
        lines += _member(f"{place}.{name}", value, links, "##" if one else "###")
        if inspect.isclass(value):
            for member, function in _methods(value):
                call = f"{'pipe' if name == 'Pipe' else own_name.lower()}.{member}"
                lines += [f"{'##' if one else '###'} `{member}`", ""]
                lines += _member(call, function, links, "")
    return "\n".join(lines)


_COMMANDS = """\
# The command line

`train:pipe` is the variable `pipe` of `train.py` in this folder, or of an installed module `train`. It may also be a
function without arguments that returns a pipe. Importing the module runs it, so its training loop belongs under
`if __name__ == "__main__":`. If the import takes more than half a second, a line on stderr says where it is.

The exit code is 0; 1 if a pipe fails, two runs differ or a file is not as it should be; 2 if the command is wrong. An
error is one line on stderr. An error in your code has its traceback, from your first line on.
"""


def _command_page() -> str:
    """The commands, with their arguments as the program's parser declares them."""
    program = parser()
    commands = next(action for action in program._actions if isinstance(action, argparse._SubParsersAction))
    lines = [_COMMANDS]
    for summary in commands._choices_actions:
        command = commands.choices[summary.dest]
        command.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=88)
        usage = command.format_usage().removeprefix("usage: ").replace(" [-h]", "").strip()
        lines += [f"## `feedpipe {summary.dest}`", "", f"{_sentence(summary.help or '')}", ""]
        lines += ["```text", usage, "```", "", "| argument | |", "| --- | --- |"]
        for action in command._actions:
            if "--help" not in action.option_strings:
                names = ", ".join(f"`{name}`" for name in action.option_strings or [str(action.metavar)])
                lines.append(f"| {names} | {_cell(action.help or '')} |")
        lines.append("")
    return "\n".join(lines)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _methods(owner: type) -> Iterator[tuple[str, object]]:
    """Yield the public methods and properties that `owner` writes itself, in their order, if they have a docstring."""
    for name, value in vars(owner).items():
        value = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        documented = (inspect.isfunction(value) or isinstance(value, property)) and value.__doc__
        if documented and not name.startswith("_"):
            yield name, value


def _member(call: str, value: object, links: Mapping[str, str], level: str) -> list[str]:
    doc = docstrings.read(value, call)
    link = _Linker("", links, "../")
    lines = [link(doc.summary), ""]
    if callable(value):
        lines += ["```python", signature(call, value), "```", ""]
    return lines + _body(doc, link, level)


def _body(doc: Docstring, link: _Linker, level: str) -> list[str]:
    """The text and the sections. Without a level, titles of sections are bold: pages have three levels at most."""
    lines: list[str] = []

    def title(text: str) -> list[str]:
        return [f"{level} {text}" if level == "##" else f"**{text}**", ""]

    for paragraph in doc.text:
        lines += [paragraph if paragraph.startswith("```") else link(paragraph), ""]
    for section, heading, column in (("Args", "Arguments", "argument"), ("Attributes", "Attributes", "attribute")):
        if given := doc.entries.get(section):
            lines += [*title(heading), f"| {column} | |", "| --- | --- |"]
            lines += [f"| {_codes(names)} | {_cell(link(text))} |" for names, text in given.items()] + [""]
    for section in ("Returns", "Yields"):
        if section in doc.sections:
            lines += [*title(section), link(doc.sections[section]), ""]
    if example := doc.sections.get("Example"):
        lines += [*title("Example"), "```pycon", example.strip("\n"), "```", ""]
    if raised := doc.entries.get("Raises"):
        lines += [*title("Errors"), "| error | if |", "| --- | --- |"]
        lines += [f"| {_codes(names)} | {_cell(link(text))} |" for names, text in raised.items()] + [""]
    if source := doc.sections.get("Source"):
        lines += [*title("Source"), link(" ".join(source.split())), ""]
    return lines


class _Linker:
    """Makes links of names of operators in code, and of links to pages, which docstrings name as seen from docs/."""

    def __init__(self, name: str, links: Mapping[str, str], up: str) -> None:
        self.name = name
        self.links = links
        self.up = up

    def __call__(self, text: str) -> str:
        """Return the Markdown with its links."""
        text = re.sub(r"\]\((?!\w+:)([\w/-]+\.md)", rf"]({self.up}\1", text)
        return re.sub(r"(?<![\[`])`([^`\n]+)`(?![`\]])", self._link, text)

    def _link(self, code: re.Match[str]) -> str:
        found = re.fullmatch(r"(?:pipe\.|fp\.|\.)?(\w+)(?:\(.*\))?", code[1])
        if found and found[1] != self.name and found[1] in self.links:
            return f"[{code[0]}]({self.links[found[1]]})"
        return code[0]


def signature(call: str, function: Callable[..., Any]) -> str:
    """The call with its arguments, types and defaults, on several lines if it is long."""
    parts: list[str] = []
    keyword_only = False
    given = inspect.signature(function)
    parameters = list(given.parameters.values())
    if call.startswith("pipe.") or (parameters and parameters[0].name in ("self", "cls")):
        parameters = parameters[1:]
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            parts.append("*")
        keyword_only |= parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        hint = "" if parameter.annotation is parameter.empty else f": {_code(parameter.annotation)}"
        equals = " = " if hint else "="
        default = "" if parameter.default is parameter.empty else f"{equals}{_default(parameter.default)}"
        parts.append(f"{stars}{parameter.name}{hint}{default}")
    no_result = given.return_annotation is given.empty or inspect.isclass(function)
    result = "" if no_result else f" -> {_code(given.return_annotation)}"
    line = f"{call}({', '.join(parts)}){result}"
    return line if len(line) <= 88 else f"{call}(\n" + "".join(f"    {part},\n" for part in parts) + f"){result}"


def _code(annotation: object) -> str:
    if isinstance(annotation, str):
        return annotation
    return annotation.__name__ if inspect.isclass(annotation) else str(annotation)


def _default(value: object) -> str:
    """A default as code; an object, such as a marker of a missing argument, has none."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_default, value))}{',' if len(value) == 1 else ''})"
    text = value.__name__ if inspect.isclass(value) else repr(value)
    return "..." if text.startswith("<") else text


def _codes(names: str) -> str:
    return ", ".join(f"`{name.strip()}`" for name in names.split(","))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files that differ, so that a build of the site reads no others again."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
