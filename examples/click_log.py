"""Train a click model on logs in the form of Criteo's: tab-separated, without a header, and with broken lines.

    python examples/click_log.py day_0 day_1
    python examples/click_log.py

Each line has a label, 13 counts and 26 categories, any of which may be missing. Lines that have another number of
fields, or a label or count that is no number, are left out and counted. Up to the tensors everything works on columns.

Without files, the example writes a log of its own. It stops in the middle of the epoch, resumes from the state of the
loader, and checks that each good line was used exactly once.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import feedpipe as fp

COUNTS = [f"count_{n}" for n in range(13)]
CATEGORIES = [f"category_{n}" for n in range(26)]
FIELDS = ["label", *COUNTS, *CATEGORIES]
BUCKETS = 2**12
"""Categories are hashed: hexadecimal numbers by their last three digits."""


def hashed(lines: pa.RecordBatch) -> pa.RecordBatch:
    """The lines with a number for each category, 0 if it is missing."""
    columns = {name: lines.column(name) for name in lines.schema.names}
    for name in CATEGORIES:
        values: Any = columns[name]
        present = pc.match_substring_regex(values, "^[0-9a-fA-F]{1,8}$")
        digits = pc.binary_join_element_wise("0x", pc.utf8_slice_codeunits(pc.utf8_lpad(values, 8, "0"), 5), "")
        columns[name] = pc.if_else(present, pc.cast(pc.if_else(present, digits, "0x0"), pa.int64()), 0)
    return pa.record_batch(columns)


def rows(paths: list[str]) -> fp.Pipe[fp.Row]:
    """The good lines, as rows of a table; the others are skipped, and counted."""
    types = {"label": "int8", **dict.fromkeys(COUNTS, "int32"), **dict.fromkeys(CATEGORIES, "string")}
    lines = fp.read_csv(
        paths,
        schema=types,
        delimiter="\t",
        column_names=FIELDS,
        quote=None,
        null_values=[""],
        path_column="file",
        row_column="line",
        on_error="skip",
    )
    labeled = lines.filter(pc.field("label").is_valid())
    return labeled.fill_null(dict.fromkeys(COUNTS, 0)).map_batches(hashed, 4096, format="arrow")


def training_pipe(paths: list[str], batch: int) -> fp.Pipe[dict[str, Any]]:
    return rows(paths).shuffle(window=16 * batch).batch(batch).map_columns(model_input).collate()


def model_input(columns: dict[str, Any]) -> dict[str, Any]:
    """The logarithms of the counts, and the bucket of each category, as two matrices."""
    counts = np.stack([columns[name] for name in COUNTS], axis=1)
    buckets = np.stack([columns[name] + BUCKETS * n for n, name in enumerate(CATEGORIES)], axis=1)
    labels = columns["label"].astype(np.float32)
    place = {name: columns[name] for name in ("file", "line")}
    return {"counts": np.log1p(np.maximum(counts, 0), dtype=np.float32), "buckets": buckets, "label": labels, **place}


class ClickModel(nn.Module):
    """Logistic regression on the counts and on one weight for each bucket."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = nn.Linear(len(COUNTS), 1)
        self.buckets = nn.EmbeddingBag(len(CATEGORIES) * BUCKETS, 1, mode="sum")
        nn.init.zeros_(self.buckets.weight)

    def forward(self, counts: Tensor, buckets: Tensor) -> Tensor:
        return (self.counts(counts) + self.buckets(buckets)).squeeze(1)


@dataclass
class Record:
    """What the training has used: the loss of each step, how many times each line, and how many lines were broken."""

    losses: list[float] = field(default_factory=list)
    lines: Counter[tuple[str, int]] = field(default_factory=Counter)
    broken: int = 0


def train(loader: fp.Loader[dict[str, Any]], model: ClickModel, record: Record, *, stop_at: int | None = None) -> None:
    """Train to the end of the epoch, or to step `stop_at`."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for batch in loader:
        loss = F.binary_cross_entropy_with_logits(model(batch["counts"], batch["buckets"]), batch["label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        record.losses.append(loss.item())
        record.lines.update(zip(batch["file"], batch["line"].tolist(), strict=True))
        if loader.step == stop_at:
            break


def write_log(path: Path, lines: int, seed: int) -> int:
    """Write a log whose labels depend on its fields; return how many of its lines are good."""
    rng = np.random.default_rng(seed)
    good = 0
    with path.open("w", encoding="utf-8") as file:
        for _ in range(lines):
            counts, categories = rng.poisson(3, len(COUNTS)), rng.zipf(1.5, len(CATEGORIES)) % 2**32
            label = int(counts[0] + (categories[0] % 2) * 4 + rng.normal() > 5)
            fields = [str(label), *map(str, counts), *(f"{category:08x}" for category in categories)]
            for place in np.flatnonzero(rng.random(len(fields)) < 0.05):
                fields[place] = fields[place] if place == 0 else ""
            kind = rng.random()
            if kind < 0.01:
                fields = fields[: rng.integers(1, len(fields))]
            elif kind < 0.02:
                fields[rng.integers(len(COUNTS) + 1)] = "n/a"
            good += kind >= 0.02
            file.write("\t".join(fields) + "\n")
    return good


def run(paths: list[str], *, batch: int, workers: int) -> Record:
    """Train for an epoch; stop in its middle, keep only the state and the model, and go on with a new loader."""
    model, record = ClickModel(), Record()
    with fp.Loader(training_pipe(paths, batch), workers=workers) as loader:
        train(loader, model, record, stop_at=10)
        state = json.dumps(loader.state_dict())
    with fp.Loader(training_pipe(paths, batch), workers=workers) as loader:
        loader.load_state_dict(json.loads(state))
        train(loader, model, record)
        record.broken = sum(loader.skipped.values())
    return record


def main() -> int:
    parser = argparse.ArgumentParser(description="Trains a click model on logs in the form of Criteo's.")
    parser.add_argument("paths", nargs="*", help="logs; without one, a log of 20,000 lines is made")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths: list[str] = arguments.paths
        if not paths:
            paths = [str(Path(folder) / f"day_{day}") for day in range(8)]
            for day, path in enumerate(paths):
                write_log(Path(path), 2500, day)
        good = rows(paths).count()
        record = run(paths, batch=arguments.batch, workers=arguments.workers)
    used = len(record.lines)
    print(f"lines used            {used:,}")
    print(f"left out as broken    {record.broken:,}")
    print(f"lost, used twice      {good - used:,}, {sum(record.lines.values()) - used:,}")
    print(f"loss, first and last  {record.losses[0]:.3f}, {np.mean(record.losses[-10:]):.3f}")
    return 0 if good == used == sum(record.lines.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
