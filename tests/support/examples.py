"""The number of examples that hypothesis takes, chosen by `FEEDPIPE_EXAMPLES`.

- `quick`, the default: a quarter of the number that a test states, the same ones in each run.
- `all`: the stated number, the same ones in each run.
- `random`: the stated number, others in each run.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

PROFILES = ("quick", "all", "random")
PROFILE = os.environ.get("FEEDPIPE_EXAMPLES", "quick")
LEAST = 6


def examples(stated: int) -> int:
    """Return the number of examples of a test that states `stated`."""
    return min(stated, max(LEAST, stated // 4)) if PROFILE == "quick" else stated


def load_profile() -> None:
    """Set the defaults of hypothesis. A shared machine can be slow at any moment, so no example has a deadline.

    Raises:
        pytest.UsageError: `FEEDPIPE_EXAMPLES` is none of the three.
    """
    if PROFILE not in PROFILES:
        raise pytest.UsageError(f"`FEEDPIPE_EXAMPLES` must be one of {', '.join(PROFILES)} but got: {PROFILE}")
    settings.register_profile(PROFILE, max_examples=examples(100), deadline=None, derandomize=PROFILE != "random")
    settings.load_profile(PROFILE)
