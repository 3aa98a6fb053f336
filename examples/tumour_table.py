"""Clean a dirty table in a database, train on it with balanced batches on several ranks, compare with scikit-learn.

    torchrun --standalone --nproc-per-node=2 examples/tumour_table.py
    torchrun --standalone --nproc-per-node=2 examples/tumour_table.py --uri postgresql://user@host/clinic

The measurements of 569 tumours come with scikit-learn (Wolberg, Street, Mangasarian: Breast Cancer Wisconsin). The
example makes a table of text of them, as people type it: commas for points, units, "n/a", nothing at all, numbers a
thousand times too large, clinics in several spellings. By default the table is in a file of SQLite; with `--uri` it is
the table `measurements` of another database. `python examples/tumour_table.py --write FILE` only writes the file.

feedpipe cleans and fits on the rows for training alone, and so does scikit-learn, which gets the same rows from pandas.
Both train a logistic regression. The exit code is 1 if their accuracies differ by more than chance explains.
"""

from __future__ import annotations

import argparse
import math
import os
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import torch
import torch.distributed as distributed
import torch.nn.functional as F
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import feedpipe as fp

SIZES = [f"worst_{name}" for name in ("radius", "texture", "perimeter", "area", "smoothness", "symmetry")]
CLASSES = ["benign", "malignant"]
CLINICS = ["north", "south", "harbour"]
QUERY = f"SELECT id, clinic, diagnosis, {', '.join(SIZES)} FROM measurements"
BOUNDS = (0.01, 0.5, 0.99)


def write_table(path: Path, seed: int = 0) -> None:
    """Write the table, with dirt, as people type it."""
    rng = np.random.default_rng(seed)
    data = load_breast_cancer()
    places = [list(data.feature_names).index(name.replace("_", " ")) for name in SIZES]
    with sqlite3.connect(path) as database:
        columns = ", ".join(f"{name} TEXT" for name in ("clinic", "diagnosis", *SIZES))
        database.execute(f"CREATE TABLE measurements (id INTEGER PRIMARY KEY, {columns})")
        for number, (sizes, benign) in enumerate(zip(data.data[:, places], data.target, strict=True)):
            clinic = spelled(CLINICS[rng.integers(3)], rng) if rng.random() < 0.95 else None
            row = [number, clinic, spelled(CLASSES[1 - benign], rng), *(typed(size, rng) for size in sizes)]
            database.execute(f"INSERT INTO measurements VALUES ({', '.join('?' * len(row))})", row)
    database.close()


def spelled(word: str, rng: np.random.Generator) -> str:
    return [word, word.title(), word.upper(), f" {word}", f"{word}\u00a0"][rng.integers(5)]


def typed(size: float, rng: np.random.Generator) -> str | None:
    """A number as somebody types it."""
    if rng.random() < 0.04:
        return [None, "n/a", "", "?"][rng.integers(4)]
    text = f"{size * (1000 if rng.random() < 0.005 else 1):.5g}"
    text = text if "e" not in text else str(round(size * 1000))
    return [text, text.replace(".", ","), f"{text} mm", f" {text}"][rng.choice(4, p=[0.8, 0.1, 0.05, 0.05])]


def parse(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The sizes as numbers; text that is none becomes a null."""
    columns: dict[str, Any] = dict(zip(rows.schema.names, rows.columns, strict=True))
    for name in SIZES:
        text = pc.replace_substring(pc.replace_substring_regex(columns[name], r"\s|mm$", ""), ",", ".")
        is_number = pc.match_substring_regex(text, r"^\d+(\.\d+)?$")
        columns[name] = pc.cast(pc.if_else(is_number, text, None), pa.float64())
    return pa.record_batch(columns)


def table(uri: str) -> fp.Pipe[Any]:
    """All rows, as they are."""
    driver = "dbapi" if uri.startswith("sqlite") else None
    return fp.read_sql(QUERY, uri, partition_on="id", partitions=64, driver=driver)


def cleaned(uri: str) -> fp.Pipe[Any]:
    """All rows, with numbers for sizes and the diagnosis, and one spelling of each clinic."""
    rows = table(uri).map_batches(parse, 256, format="arrow").normalize_text(["clinic", "diagnosis"], lower=True)
    return rows.index_of("diagnosis", values=CLASSES).fill_null({"clinic": "unknown"})


class Preparation:
    """What is fitted on the rows for training: bounds and medians, clinics, class counts, then the moments."""

    def __init__(self, train: fp.Pipe[Any]) -> None:
        asked = {name: fp.stats.quantiles(BOUNDS) for name in SIZES}
        self.first = fp.fit(train, {**asked, "clinic": fp.stats.vocabulary(), "diagnosis": fp.stats.counts()})
        self.moments = fp.fit(self._bounded(train), {name: fp.stats.mean_std() for name in SIZES})

    def _bounded(self, rows: fp.Pipe[Any]) -> fp.Pipe[Any]:
        low, median, high = BOUNDS
        for name in SIZES:
            rows = rows.clip(name, low=self.first[name][low], high=self.first[name][high])
        return rows.fill_null({name: self.first[name][median] for name in SIZES})

    def __call__(self, rows: fp.Pipe[Any]) -> fp.Pipe[Any]:
        """Rows that are ready for a model."""
        return self._bounded(rows).standardize(self.moments).one_hot("clinic", values=self.first["clinic"])

    def training(self, rows: fp.Pipe[Any], batch: int) -> fp.Pipe[Any]:
        """Batches with as many rows of each class, on average."""
        even = self(rows).resample("diagnosis", target="uniform", source=self.first["diagnosis"])
        return even.shuffle(window=512).batch(batch).map_columns(model_input).collate()


def model_input(columns: dict[str, Any]) -> dict[str, Any]:
    features = np.column_stack([*(columns[name] for name in SIZES), columns["clinic"]])
    return {"features": features.astype("float32"), "label": columns["diagnosis"].astype("float32")}


def train_model(batches: fp.Pipe[Any], features: int, steps: int, *, epochs: int, workers: int) -> nn.Module:
    """Logistic regression. An epoch has `steps` batches on each rank, and the next one goes on after them."""
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(features, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    with fp.Loader(batches, workers=workers, steps=steps, shards=8) as loader:
        for _ in range(epochs):
            for batch in loader:
                loss = F.binary_cross_entropy_with_logits(model(batch["features"]).squeeze(1), batch["label"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            schedule.step()
    return model


@torch.no_grad()
def accuracy(model: nn.Module, rows: fp.Pipe[Any]) -> float:
    right: list[Tensor] = []
    for batch in rows.batch(256).map_columns(model_input).collate():
        right.append((model(batch["features"]).squeeze(1) > 0) == batch["label"].bool())
    return float(torch.cat(right).float().mean())


class Clip(TransformerMixin, BaseEstimator):
    """scikit-learn has no step that cuts off outliers."""

    def fit(self, values: Any, _: Any = None) -> Clip:
        self.low_, self.high_ = np.nanquantile(values, [BOUNDS[0], BOUNDS[-1]], axis=0)
        return self

    def transform(self, values: Any) -> Any:
        return np.clip(values, self.low_, self.high_)


def scikit_learn_accuracy(frame: pd.DataFrame, train: set[int], val: set[int]) -> float:
    """The same steps, with pandas and scikit-learn, on the same division of the rows."""
    frame = frame.set_index("id")
    for name in SIZES:
        text = frame[name].str.replace(r"\s|mm$", "", regex=True).str.replace(",", ".")
        frame[name] = pd.to_numeric(text, errors="coerce")
    for name in ("clinic", "diagnosis"):
        frame[name] = frame[name].str.strip().str.lower()
    frame["clinic"] = frame["clinic"].fillna("unknown")
    numbers = make_pipeline(Clip(), SimpleImputer(strategy="median"), StandardScaler())
    columns = make_column_transformer((numbers, SIZES), (OneHotEncoder(handle_unknown="ignore"), ["clinic"]))
    model = make_pipeline(columns, LogisticRegression(class_weight="balanced", max_iter=1000))
    labels = frame["diagnosis"] == "malignant"
    model.fit(frame.loc[sorted(train)], labels.loc[sorted(train)])
    return float(model.score(frame.loc[sorted(val)], labels.loc[sorted(val)]))


def run(uri: str, *, epochs: int, batch: int, workers: int) -> int:
    rank = distributed.get_rank()
    parts = cleaned(uri).split({"train": 0.7, "val": 0.3}, key="id")
    preparation = Preparation(parts["train"])
    features = len(SIZES) + len(preparation.first["clinic"])
    steps = preparation.first.rows // (batch * distributed.get_world_size())
    batches = preparation.training(parts["train"], batch)
    model = train_model(batches, features, steps, epochs=epochs, workers=workers)
    if rank != 0:
        return 0
    share = accuracy(model.module, preparation(parts["val"]))
    ids = {name: {row["id"] for row in part} for name, part in parts.items()}
    raw = table(uri)
    theirs = scikit_learn_accuracy(raw.to_table().to_pandas(), ids["train"], ids["val"])
    noise = 2 * math.sqrt(theirs * (1 - theirs) / len(ids["val"]))
    print(raw.to_table().to_pandas().describe())
    print(f"rows                   {len(ids['train'])} for training, {len(ids['val'])} for validation")
    print(f"ranks                  {distributed.get_world_size()}")
    print(f"accuracy               {share:.1%}")
    print(f"with scikit-learn      {theirs:.1%}, and chance explains {noise:.1%}")
    return 0 if abs(share - theirs) <= noise else 1


def main() -> int:
    parser = argparse.ArgumentParser(description="Trains on a dirty table, and compares with scikit-learn.")
    parser.add_argument("--uri", help="a database with the table `measurements`; by default a file of SQLite is made")
    parser.add_argument("--write", type=Path, help="only write the table, into a file of SQLite")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--workers", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.write:
        write_table(arguments.write)
        return 0
    os.environ.setdefault("MASTER_ADDR", "localhost")
    distributed.init_process_group("gloo")
    with tempfile.TemporaryDirectory() as folder:
        places = [f"{folder}/clinic.db"]
        distributed.broadcast_object_list(places)
        if distributed.get_rank() == 0 and arguments.uri is None:
            write_table(Path(places[0]))
        distributed.barrier()
        uri = arguments.uri or f"sqlite://{places[0]}"
        code = run(uri, epochs=arguments.epochs, batch=arguments.batch, workers=arguments.workers)
        distributed.barrier()
    distributed.destroy_process_group()
    return code


if __name__ == "__main__":
    sys.exit(main())
