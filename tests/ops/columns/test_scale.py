"""`scale`: between bounds, with fitted statistics."""

from __future__ import annotations

import numpy as np
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, PlanWarning
from feedpipe.testing import check_operator

from ..tables import TABLE, variants

STATS = fp.fit(fp.from_table(TABLE), {"id": fp.stats.min_max(), "half": fp.stats.min_max()})


@pytest.mark.parametrize("stored", variants())
def test_law(stored: str) -> None:
    pipe = variants()[stored]
    rows = check_operator(pipe.scale(STATS, columns="id").scale(STATS, columns=["half"], low=-1, high=3), samples=5)
    assert [(row["id"], row["half"]) for row in rows] == [(0, -1), (0.25, 0), (0.5, 1), (0.75, 2), (1, 3)]
    assert check_operator(pipe.skip(9).scale(STATS)) == []


def test_constant_columns_and_inverse() -> None:
    pipe = fp.from_arrays({"x": np.full(3, 7.0), "y": np.arange(3.0)})
    stats = fp.fit(pipe, {"x": fp.stats.min_max(), "y": fp.stats.min_max()})
    batch = pipe.scale(stats, low=2, high=4).batch(3)[0]
    assert batch["x"].tolist() == [2, 2, 2] and batch["y"].tolist() == [2, 3, 4]
    assert stats["y"].inverse(batch["y"], low=2, high=4).tolist() == [0, 1, 2]
    assert stats.inverse(pipe.scale(stats).batch(3)[0].columns)["x"].tolist() == [7, 7, 7]


def test_errors() -> None:
    pipe = fp.from_table(TABLE)
    with pytest.raises(ArgumentError, match="`low` must be < `high` but got: 1 and 1"):
        pipe.scale(STATS, low=1, high=1)
    with pytest.raises(ArgumentTypeError, match="`low` must be a number but got: '0'"):
        pipe.scale(STATS, low="0")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"`stats` must have `fp.stats.min_max\(\)` but has none of column 'text'"):
        pipe.scale(STATS, columns="text")
    with pytest.warns(PlanWarning, match="leakage"):
        pipe.split({"train": 0.6, "val": 0.4})["val"].scale(STATS).explain()
