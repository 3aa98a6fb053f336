"""What runs after a pass was divided again: errors name the right rows."""

from __future__ import annotations

import pytest

import feedpipe as fp
from feedpipe.errors import RowError

from ..loading.elastic import Job

pytestmark = pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")


class Guard:
    """Refuses one row, and which it is, is no part of the code that a state speaks of."""

    refused: int | None = None

    def accepts(self, row: int) -> bool:
        if row == self.refused:
            raise ValueError("cannot be made")
        return True


@pytest.mark.parametrize("shuffled", [False, True])
def test_an_error_after_a_cut_names_the_row(shuffled: bool) -> None:
    guard = Guard()
    rows = fp.from_sequence(range(300))
    pipe = (rows.shuffle() if shuffled else rows).shard_by_rank().filter(lambda row: guard.accepts(row))
    _, states = Job(pipe, 2, seed=1, shards=4).take([30, 50])
    for rank in range(3):
        for row in list(Job(pipe, 3, states, seed=1).loaders[rank])[1::20]:
            guard.refused = row
            with pytest.raises(RowError, match=f"on from_sequence, row {row + 1}\n"):
                list(Job(pipe, 3, states, seed=1).loaders[rank])
            guard.refused = None
