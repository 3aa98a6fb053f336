"""Ranks in the words of messages: `ranks_in_words`, `differences_in_words`."""

from __future__ import annotations

from collections.abc import Sequence


def ranks_in_words(ranks: Sequence[int]) -> str:
    """`rank 3`, `ranks 0, 2`; of many, the first ones."""
    shown = ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
    return f"rank {shown}" if len(ranks) == 1 else f"ranks {shown}"


def differences_in_words(texts: Sequence[str]) -> str:
    """What each rank says, those that say the same together: `ranks 0, 2: epoch 1; rank 1: epoch 0`."""
    by_text: dict[str, list[int]] = {}
    for rank, text in enumerate(texts):
        by_text.setdefault(text, []).append(rank)
    return "; ".join(f"{ranks_in_words(ranks)}: {text}" for text, ranks in by_text.items())
