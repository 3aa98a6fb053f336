"""Train on a table of a database that grows all the time, stop in the middle of an epoch, and go on.

    python examples/sensor_database.py postgresql://user@host/database
    python examples/sensor_database.py

A table of readings is written with ADBC, or with `sqlite3`. The training reads it in shuffled ranges of its primary
key, by workers with connections of their own. When it is stopped, further readings are added. It goes on from the state
of the loader, and the example checks that each reading of the first day was used exactly once, and none of the second.

Without a URI, the table is in a SQLite file in a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import nn

import feedpipe as fp

TABLE = "feedpipe_example_readings"
FEATURES = ["temperature", "pressure", "vibration"]
READINGS = 20_000
"""Those of a day."""


@dataclass
class Record:
    """What the training has used: the loss of each step, and the keys of all readings."""

    losses: list[float] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)


def write_day(day: int, uri: str, driver: Any) -> None:
    """Write the readings of a day."""
    random = np.random.default_rng(day)
    values = {name: random.normal(size=READINGS).astype("float32") for name in FEATURES}
    wear = values["vibration"] - 0.5 * values["temperature"] + random.normal(scale=0.1, size=READINGS)
    ids = np.arange(day * READINGS, (day + 1) * READINGS)
    readings = pa.table({"id": ids, **values, "wear": wear.astype("float32")})
    if driver == "dbapi":
        columns = ", ".join([*FEATURES, "wear"])
        rows = zip(*readings.to_pydict().values(), strict=True)
        with closing(sqlite3.connect(uri.removeprefix("sqlite://"))) as file, file:
            file.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} (id INTEGER PRIMARY KEY, {columns})")
            file.executemany(f"INSERT INTO {TABLE} VALUES (?, ?, ?, ?, ?)", rows)
        return
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(uri) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest(TABLE, readings, mode="append" if day else "create")
        connection.commit()


def training_pipe(uri: str, driver: Any, batch: int) -> fp.Pipe[dict[str, Any]]:
    query = f"SELECT id, {', '.join(FEATURES)}, wear FROM {TABLE}"
    readings = fp.read_sql(query, uri, partition_on="id", partitions=16, driver=driver)
    return readings.shuffle(window=16 * batch).batch(batch).map_columns(model_input).collate()


def model_input(columns: dict[str, Any]) -> dict[str, Any]:
    features = np.stack([columns[name] for name in FEATURES], axis=1).astype("float32")
    return {"id": columns["id"], "features": features, "wear": columns["wear"].astype("float32")}


def train(loader: fp.Loader[dict[str, Any]], model: nn.Module, record: Record, *, stop_at: int | None = None) -> None:
    """Train to the end of the epoch, or to step `stop_at`."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for batch in loader:
        loss = nn.functional.mse_loss(model(batch["features"]).squeeze(1), batch["wear"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        record.losses.append(loss.item())
        record.keys += batch["id"].tolist()
        if loader.step == stop_at:
            break


def run(uri: str, *, driver: Any = None, batch: int = 128, workers: int = 0) -> Record:
    """Train for an epoch; stop in its middle, add readings, and go on with a new loader."""
    model, record = nn.Linear(len(FEATURES), 1), Record()
    write_day(0, uri, driver)
    with fp.Loader(training_pipe(uri, driver, batch), workers=workers, seed=1) as loader:
        train(loader, model, record, stop_at=40)
        state = json.dumps(loader.state_dict())
    write_day(1, uri, driver)
    with fp.Loader(training_pipe(uri, driver, batch), workers=workers, seed=1) as loader:
        loader.load_state_dict(json.loads(state))
        train(loader, model, record)
    return record


def main() -> int:
    parser = argparse.ArgumentParser(description="Trains on a table of a database that grows.")
    parser.add_argument("uri", nargs="?", help="of the database, in which a table is made")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        uri, driver = arguments.uri, None
        if uri is None:
            uri, driver = f"sqlite://{folder}/readings.db", "dbapi"
        record = run(uri, driver=driver, workers=arguments.workers)
    used = len(set(record.keys))
    print(f"readings used         {used:,}")
    print(f"lost, used twice      {READINGS - used:,}, {len(record.keys) - used:,}")
    print(f"loss, first and last  {record.losses[0]:.3f}, {np.mean(record.losses[-10:]):.3f}")
    return 0 if sorted(record.keys) == list(range(READINGS)) else 1


if __name__ == "__main__":
    sys.exit(main())
