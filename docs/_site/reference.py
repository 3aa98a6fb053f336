"""The pages of the reference, whose text is what Sphinx's autodoc finds in the docstrings."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator, Mapping

import feedpipe
from feedpipe.cli.main import families, parser

# What readers of other libraries type into the search, by page.
ALIASES: Mapping[str, str] = {
    "guides/dataloader": "IterableDataset, pin_memory, persistent_workers, worker_init_fn, StatefulDataLoader",
    "guides/ranks-and-resume": "DistributedSampler, torchrun, DDP, FSDP, multi-GPU, world size, shuffle buffer, "
    "checkpoint, resume after crash, load_state_dict, set_epoch, manual_seed, deterministic, reproducible",
    "guides/recipes": "COCO, safetensors, curriculum, TensorBoard, progress bar",
    "guides/remote": "S3, GCS, Azure, fsspec, google cloud storage",
    "guides/slow": "slow dataloader, GPU utilization, bottleneck, profiler",
    "guides/workers": "num_workers, out of memory, OOM, multiprocessing, DataLoader worker is killed",
    "reference/formats": "mosaicml streaming, StreamingDataset",
    "batch": "batch_size, drop_last, drop_remainder",
    "batch_by_size": "dynamic batching, max_tokens, token budget",
    "bucket_by_length": "bucketing",
    "collate": "collate_fn, default_collate, tensors",
    "distinct": "deduplicate, drop_duplicates",
    "drop_null": "dropna",
    "fill_null": "missing values, fillna, NaN",
    "from_dataset": "Hugging Face, huggingface datasets, map-style dataset, load_dataset",
    "from_table": "pandas dataframe, polars",
    "map": "num_parallel_calls, transform, augment",
    "mix": "mixing datasets, interleave_datasets, sample_from_datasets, weighted sampler",
    "pad_batch": "padding, pad_sequence, padded_batch",
    "prefetch": "prefetch_factor, AUTOTUNE",
    "read_images": "ImageFolder, imagenet",
    "read_tar": "webdataset, wds, tar files",
    "resample": "oversampling, class imbalance",
    "sample": "WeightedRandomSampler",
    "shuffle": "buffer_size, shuffler, RandomSampler",
    "sliding": "window, unfold",
    "split": "stratify, random_split, train_test_split, KFold, cross validation",
}

# The public names that are neither operators nor sources, by page. Those of modules have the module before them.
GROUPS: Mapping[str, tuple[str, str]] = {
    "pipe": ("Pipe", "Pipe"),
    "loader": ("Loader", "Loader progress tune gather_ledger gather_report gather_state replay"),
    "services": ("Services", "InProcess Threads MultiProcess Ray"),
    "rows": ("Rows, files and failures", "Rows Parts File FileCache index Quarantine Retry"),
    "statistics": (
        "Statistics",
        "fit Stats stats.mean_std stats.min_max stats.quantiles stats.vocabulary stats.counts stats.missing",
    ),
    "media": (
        "Video, audio and images",
        "media.frames media.frame_times media.video_info media.audio media.audio_info "
        "media.RandomResizedCrop media.CenterCrop",
    ),
    "writers": ("Writers", "write_parquet write_arrow write_tar write_tfrecord verify"),
}


def pages() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each page."""
    index = [_INDEX]
    for family, listed in families():
        listed = [(name, function) for name, _, function in listed if inspect.isfunction(function)]
        index += [f"## {family}", "", "| name | |", "| --- | --- |"]
        for name, function in listed:
            owner = "Pipe." if hasattr(feedpipe.Pipe, name) else ""
            directive = "automethod" if owner else "autofunction"
            near = ", ".join(f"[`{other}`]({other}.md)" for other, _ in listed if other != name)
            documented = _documented(f".. {directive}:: feedpipe.{owner}{name}")
            text = f"# `{name}`\n\n{aliases(name)}{documented}\n{family}: {near}.\n"
            yield f"reference/operators/{name}.md", text
            index.append(f"| [`{name}`]({name}.md) | {_summary(function)} |")
        names = "\n".join(name for name, _ in listed)
        index += ["", f"```{{toctree}}\n:hidden:\n:caption: {family}\n\n{names}\n```", ""]
    yield "reference/operators/index.md", "\n".join(index)
    for stem, (title, names) in GROUPS.items():
        members = [_documented(directive) for name in names.split() if (directive := _directive(name))]
        yield f"reference/{stem}.md", f"# {title}\n\n{''.join(members)}"
    yield "reference/command-line.md", _command_page()


def aliases(page: str) -> str:
    """Return what lets the search find a page by other words; an exclamation mark makes them count like a title."""
    words = ALIASES.get(page)
    return f"```{{index}} {', '.join(f'!{word.strip()}' for word in words.split(','))}\n```\n\n" if words else ""


def _directive(name: str) -> str:
    """Return what documents a name that the package has."""
    value: object = feedpipe
    for part in name.split("."):
        value = getattr(value, part, None)
    if value is None:
        return ""
    return (
        f".. autoclass:: feedpipe.{name}\n   :members:"
        if inspect.isclass(value)
        else f".. autofunction:: feedpipe.{name}"
    )


def _documented(directive: str) -> str:
    return f"```{{eval-rst}}\n{directive}\n```\n\n"


def _summary(function: object) -> str:
    return " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split()).replace("|", "\\|")


_INDEX = """\
# Operators and sources

An **indexed** pipe has a length and reads the row at any position. A **streamed** one yields its rows in order. The
output of an operator is indexed if its input is, unless its page says otherwise. A chain has at most 150 operators in
a row. A line such as `a b c   ->   batch(2): [a b] [c]` shows rows, the call, and what it yields.
"""

_COMMANDS = """\
# The command line

`train:pipe` is the variable `pipe` of `train.py` in this folder, or of an installed module `train`. It may also be a
function without arguments that returns a pipe. Importing the module runs it, so its training loop belongs under
`if __name__ == "__main__":`.

The exit code is 0; 1 if a pipe fails or a file is not as it should be; 2 if the command is wrong. An error is one line
on stderr. An error in your code has its traceback, from your first line on.
"""


def _command_page() -> str:
    """Return the page of the commands, with their arguments as the program's parser declares them."""
    commands = next(action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    lines = [_COMMANDS]
    for summary in commands._choices_actions:
        command = commands.choices[summary.dest]
        usage = command.format_usage().removeprefix("usage: ").replace(" [-h]", "").strip()
        lines += [f"## `feedpipe {summary.dest}`", f"{(summary.help or '').capitalize()}.", f"```text\n{usage}\n```"]
        rows = ["| argument | |", "| --- | --- |"]
        for action in command._actions:
            if "--help" not in action.option_strings:
                names = ", ".join(f"`{name}`" for name in action.option_strings or [str(action.metavar)])
                rows.append(f"| {names} | {(action.help or '').replace('|', chr(92) + '|')} |")
        lines.append("\n".join(rows))
    return "\n\n".join(lines) + "\n"
