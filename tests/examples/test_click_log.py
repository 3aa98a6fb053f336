"""The example at a small size: broken lines are left out, and each good line is used exactly once across a resume."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from .loading import loaded_example


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_each_good_line_is_used_once(tmp_path: Path, workers: int) -> None:
    with loaded_example("click_log") as example:
        paths = [tmp_path / f"day_{day}" for day in range(8)]
        good = sum(example.write_log(path, 200, seed) for seed, path in enumerate(paths))
        assert 0 < good < 1600
        record = example.run([*map(str, paths)], batch=32, workers=workers)
        assert set(record.lines.values()) == {1} and len(record.lines) == good
        assert record.broken == 1600 - good
        assert np.mean(record.losses[-10:]) < np.mean(record.losses[:5])
