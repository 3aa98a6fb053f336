from __future__ import annotations

import re

import pytest

from .loading import EXAMPLES, on_two_ranks


@pytest.mark.slow
def test_two_ranks_stop_and_go_on() -> None:
    printed = on_two_ranks(EXAMPLES / "pretrain_tokens.py", "--tokens", "8193")
    table = dict(re.findall(r"^(\w+) +(.+)$", printed, re.MULTILINE))
    assert (table["steps"], table["windows"]) == ("24, stopped after 8", "384, each seen once: yes")
    before, after = map(float, re.findall(r"[\d.]+", table["loss"]))
    assert after < before - 0.3
