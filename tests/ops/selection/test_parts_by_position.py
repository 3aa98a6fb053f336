"""Parts of a pipe by position."""

from __future__ import annotations

from typing import Any, cast

import pytest

import feedpipe as fp


@pytest.mark.parametrize("part", ["take", "skip", "slice"])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_loader_warns_of_rows_by_position_that_are_shuffled_again(part: str, streamed: bool) -> None:
    """Those of `take` and `skip` are no split: rows of one come into the other in the next epoch."""
    source = fp.from_sequence(range(20))

    def selected(**options: Any) -> fp.Pipe[int]:
        pipe = source.filter(lambda n: n >= 0).shuffle(window=9, **options) if streamed else source.shuffle(**options)
        arguments = (2, None) if part == "slice" else (5,)
        return cast("fp.Pipe[int]", getattr(pipe, part)(*arguments).batch(2))

    with pytest.warns(fp.PlanWarning, match=f"`{part}.*: gives other rows in each epoch.*use `split`"):
        next(iter(fp.Loader(selected(), shards=1)))
    next(iter(fp.Loader(selected(each_epoch=False), shards=1)), None)
