from __future__ import annotations

import numpy as np
import pytest

import feedpipe as fp

torch = pytest.importorskip("torch")


@pytest.mark.slow
def test_a_loop_within_a_compiled_function():
    x = np.arange(64, dtype=np.float32).reshape(16, 4)
    loader = fp.Loader(fp.from_arrays({"x": x}).map(lambda row: {"x": row["x"] * 2}).batch(4).collate())

    @torch.compile(backend="eager")
    def epoch(loader):
        total = torch.zeros(())
        for batch in loader:
            total = total + batch["x"].sum()
        return total

    for _ in range(2):
        assert epoch(loader).item() == 2 * x.sum()
