"""What columns take in the files of `write_parquet` and of pyarrow: bytes of a value, and the time to decode it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ..model import Column, Contestant, Results, Summary, Verdict, Workload

FLOATS = ("float32, a network's activations", "float32, a signal")
COLUMNS = (
    *FLOATS, "float64, prices", "float64, some missing", "int64, ids", "int64, hashes", "int64, counts",
    "int64, labels", "text, words", "text, lines",
)  # fmt: skip
TIMES = 2.0


def _prepare(folder: Path, stack: ExitStack) -> dict[str, Any]:
    return {"folder": f"../data/{folder.name}"}  # relative, because reports show it


def _column(title: str, writer: str) -> Column:
    def text(each: Summary) -> str:
        return f"{each.median(f'{writer}_bytes'):.2f} B, {each.median(f'{writer}_ns'):.1f} ns"

    return Column(title, text)


def _times(each: Summary) -> list[float]:
    return [figures["pyarrow_ns"] / figures["feedpipe_ns"] for figures in each.figures]


def _judge(results: Results) -> list[Verdict]:
    verdicts = []
    for name in FLOATS:
        if results.have(name):
            summary = results.summaries[name]
            target = f"{name}: decodes at least {TIMES:g} times as fast as pyarrow's default"
            verdicts.append(Verdict.at_least(TIMES, target, _times(summary)))
            sizes = [figures["feedpipe_bytes"] / figures["pyarrow_bytes"] for figures in summary.figures]
            verdicts.append(Verdict.at_most(1.0, f"{name}: at no more bytes", sizes))
    return verdicts


WORKLOAD = Workload(
    name="parquet-files",
    title="columns of 1,000,000 values in Parquet files: bytes of a value, and CPU time to decode it",
    contestants=tuple(
        Contestant(name, "parquet_files:measure", arguments={"column": name}, ours=True) for name in COLUMNS
    ),
    columns=(
        _column("`write_parquet`", "feedpipe"),
        _column("pyarrow's default", "pyarrow"),
        _column("pyarrow, zstd, row groups of 100,000", "zstd"),
    ),
    judge=_judge,
    baseline=FLOATS[0],
    metric="feedpipe_ns",
    rounds=5,
    arguments={"rows": 1_000_000},
    quick={"rows": 300_000},
    prepare=_prepare,
)
