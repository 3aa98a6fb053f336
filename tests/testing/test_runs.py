"""What the checks of services compare."""

from __future__ import annotations

import pytest

from ..support.testing import agree_errors


def test_errors_whose_causes_form_a_circle_are_compared() -> None:
    one, other = ValueError("a"), ValueError("a")
    for error in (one, other):
        error.__cause__ = error
    agree_errors("two errors", one, other)
    other.__cause__ = KeyError("b")
    with pytest.raises(AssertionError, match="should be KeyError"):
        agree_errors("two errors", one, other)
