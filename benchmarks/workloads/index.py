"""What an index of ten million files costs: to write it, and to open it as one rank of thousands."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ..contestants.index_feedpipe import write
from ..model import Column, Contestant, Results, Summary, Verdict, Workload

FIRST_MEGABYTES = 3.0
MEMORY_MEGABYTES = 200
SIZES = (100_000, 1_000_000, 10_000_000)
RANKS = (1_024, 10_000)


def _written(files: int) -> Contestant:
    return Contestant(
        f"{files:,} files: written", "index_feedpipe:measure_write", arguments={"files": files}, ours=True
    )


def _opened(files: int, ranks: int) -> Contestant:
    name = f"{files:,} files: a rank of {ranks:,}"
    return Contestant(name, "index_feedpipe:measure_rank", arguments={"files": files, "ranks": ranks}, ours=True)


LARGEST = [_opened(SIZES[-1], ranks) for ranks in RANKS]
CONTESTANTS = (*map(_written, SIZES), *(_opened(files, ranks) for files in SIZES[:-1] for ranks in RANKS), *LARGEST)


def _prepare(folder: Path, stack: ExitStack) -> dict[str, Any]:
    for files in SIZES:
        if not (folder / f"{files}.index").is_dir():
            write(files, folder / f"{files}.index")
    return {"folder": str(folder)}


def _judge(results: Results) -> list[Verdict]:
    verdicts = []
    for contestant in LARGEST:
        if results.have(contestant.name):
            summary = results.summaries[contestant.name]
            for figure, most, what in (
                ("first_megabytes", FIRST_MEGABYTES, "MB read before the first row"),
                ("memory", MEMORY_MEGABYTES, "MB of memory"),
            ):
                numbers = [each[figure] for each in summary.figures]
                verdicts.append(Verdict.at_most(most, f"{contestant.name}: at most {most} {what}", numbers))
    return verdicts


def _figure(title: str, figure: str, digits: int = 0) -> Column:
    def text(each: Summary) -> str:
        return f"{each.median(figure):,.{digits}f}" if figure in each.figures[0] else ""

    return Column(title, text)


WORKLOAD = Workload(
    name="index",
    title="an index of files with a row group each, opened as one rank with 8 shards",
    contestants=CONTESTANTS,
    columns=(
        _figure("CPU, s", "cpu", 2),
        _figure("memory, MB", "memory"),
        _figure("index, MB", "index_megabytes", 1),
        _figure("MB before the first row", "first_megabytes", 2),
        _figure("MB of an epoch", "epoch_megabytes", 1),
        _figure("blocks of an epoch", "blocks"),
        _figure("row groups", "units"),
        _figure("rows of the rank / mean", "share", 4),
    ),
    judge=_judge,
    baseline=LARGEST[0].name,
    metric="cpu",
    rounds=3,
    prepare=_prepare,
)
