"""The example: each reading is used exactly once across a resume, though the table grows in the meantime."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .loading import loaded_example


def test_each_reading_is_used_once(tmp_path: Path) -> None:
    with loaded_example("sensor_database") as example:
        record = example.run(f"sqlite://{tmp_path}/readings.db", driver="dbapi")
        assert sorted(record.keys) == list(range(example.READINGS))
        assert np.mean(record.losses[-10:]) < np.mean(record.losses[:5])
