"""`RowSet`: the rows at any places among the rows of a set."""

from __future__ import annotations

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ...support.operators import RowSet


@given(st.integers(0, 400), st.sampled_from([0.0, 0.02, 0.5, 0.98, 1.0]), st.integers(0, 9), st.data())
def test_it_gives_what_an_array_of_positions_gives(count: int, share: float, seed: int, data: st.DataObject) -> None:
    mask = np.random.default_rng(seed).random(count) < share
    rows = pickle.loads(pickle.dumps(RowSet.of([mask[:64], mask[64:]])))
    positions = np.flatnonzero(mask)
    assert len(rows) == len(positions)
    start = data.draw(st.integers(0, len(positions)))
    stop = data.draw(st.integers(start, len(positions)))
    step = data.draw(st.integers(1, 3))
    for indices in (range(start, stop, step), np.arange(start, stop)[::-1]):
        assert rows.positions(indices).tolist() == positions[indices].tolist()
