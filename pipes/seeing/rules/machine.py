"""Rules that look at the machine: its memory, its CPUs, and the files that a process may open."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...core.block import nbytes, row_width
from ...core.findings import Finding
from ...core.graph import Node, node_code
from ...core.process import available_cpus, bytes_text, element_memory, memory_budget
from ...core.process import large_windows as advice_on_windows
from ...files.open_files import OpenFiles
from ...plan.findings import windows
from .checked_pipe import CheckedPipe

OTHER_FILES = 64
"""The files, sockets and libraries that a process has open besides those that it reads."""


def large_windows(view: CheckedPipe) -> Iterator[Finding]:
    """Windows that hold a large part of the memory."""
    for window in windows(view.plan):
        stage = view.plan.stage_of(window.node)
        width = row_width(stage.schema) or view.row_bytes(stage.input)
        advice = None if width is None else advice_on_windows(int(window.held * width))
        if width is None or advice is None:
            continue
        size = int(window.held * width)
        text = f"`{node_code(window.node).lstrip('.')}` holds {window.held} rows, {bytes_text(size)} in all; {advice}"
        smaller = max(1, window.rows * (memory_budget() // 4) // size)
        yield Finding("memory", "warning", window.node.call_site, text, f".{window.node.op.kind}(window={smaller})")


def large_elements(view: CheckedPipe) -> Iterator[Finding]:
    """Elements that do not fit into the memory in which workers give them to the consumer."""
    elements = view.sample(view.plan.unsharded, 1).rows if view.workers else []
    for element in elements:
        size, memory = nbytes([element]), element_memory(None)
        if size > memory // view.workers:
            text = (
                f"an element has {bytes_text(size)}, and {view.workers} workers share {bytes_text(memory)} for those "
                "that are on their way, so that none fits; make it smaller, or give more memory or fewer workers"
            )
            needed = math.ceil(4 * size * view.workers / 2**20)
            repair = f'fp.Loader(pipe, fp.MultiProcess({view.workers}, memory="{needed}MiB"))'
            yield Finding("shm", "error", None, text, repair)


def open_files(view: CheckedPipe) -> Iterator[Finding]:
    """More files at a time than a process may open."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    shards = -(-len(view.plan.rank_shards) // max(1, view.workers)) or 1
    needed = shards * _files_open(view.root) + OTHER_FILES
    if not 0 < limit < needed:
        return
    text = (
        f"a process reads up to {needed - OTHER_FILES} files at a time, in {shards} shards, and may open {limit} in "
        "all; raise that limit, or give fewer shards"
    )
    enough = 2 ** math.ceil(math.log2(2 * needed))
    enough = enough if most == resource.RLIM_INFINITY else min(most, enough)
    repair = f"import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, ({enough}, {most}))"
    yield Finding("open-files", "error" if needed > 2 * limit else "warning", None, text, repair)


def _files_open(node: Node) -> int:
    """The files that one run of a graph has open at a time, at most."""
    if isinstance(node.op, OpenFiles):
        return 1
    below = sum(_files_open(source) for source in node.inputs)
    return below * int(getattr(node.op, "cycle", 1))


def workers_over_cpus(view: CheckedPipe) -> Iterator[Finding]:
    """More workers than CPUs."""
    cpus = math.ceil(available_cpus())
    if view.workers > cpus:
        text = (
            f"{view.workers} workers share {cpus} CPUs; more of them help only functions that wait, for which "
            "`concurrency=` is cheaper"
        )
        yield Finding("workers-over-cpus", "hint", None, text, f"fp.Loader(pipe, workers={cpus})")
