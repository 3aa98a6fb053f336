"""The turns of a mixture by size: an input has its share of all tokens, whatever the lengths of its rows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ._turns import Ints, WeightedTurns

MAX_MEASURED = 2**26
"""Weights are rounded so that their sum is about this at most: products with `MAX_TOKENS` fit in 62 bits."""
MAX_TOKENS = 2**33
"""About the most tokens whose rows are put in order at once."""

_WHOLE = 2**24  # so that products with a weight fit in 62 bits


class MeasuredStages:
    """The shares of inputs of all tokens, by stage.

    Args:
        starts: the tokens before each stage.
        weights: those of the inputs in each stage, as whole numbers; their sum is at most about `MAX_MEASURED`.
    """

    def __init__(self, starts: Ints, weights: Ints) -> None:
        self._starts: list[int] = starts.tolist()
        self._weights = weights
        # The tokens that each input should have had before each stage, rounded down.
        totals = weights[:-1].sum(axis=1)[:, None]
        periods, rest = np.divmod(np.diff(starts)[:, None], totals)
        whole, rest = np.divmod(rest * weights[:-1], totals)
        parts = np.cumsum(rest * _WHOLE // totals, axis=0) // _WHOLE
        self._due = np.zeros_like(weights)
        self._due[1:] = np.cumsum(periods * weights[:-1] + whole, axis=0) + parts
        self._last: MeasuredStage | None = None

    def at(self, tokens: int) -> MeasuredStage:
        """The stage of the row before which all inputs together have given these tokens."""
        number = bisect_right(self._starts, tokens) - 1
        if self._last is None or self._last.number != number:
            stop = self._starts[number + 1] if number + 1 < len(self._starts) else None
            inputs = np.flatnonzero(self._weights[number])
            self._last = MeasuredStage(number, stop, inputs, self._weights[number, inputs], self._due[number, inputs])
        return self._last


class MeasuredStage(WeightedTurns):
    """The order of rows in one stage.

    The inputs are the leaves of the tree of `WeightedTurns`. A fork puts the rows of its two sides in order by the
    token in the middle of each, counted in shares: of all tokens of the fork, the left side has its part, give or take
    half of the longest row. In Huffman's tree these errors add up to less than two rows. Of rows of one length, the
    order is that of `WeightedTurns`.

    Attributes:
        number: of the stage.
        stop: the tokens before the next stage; None if this is the last.
        inputs: those that have a weight.
    """

    def __init__(self, number: int, stop: int | None, inputs: Ints, weights: Ints, due: Ints) -> None:
        super().__init__(weights)
        self.number = number
        self.stop = stop
        self.inputs = inputs
        self._due: list[int] = due.tolist()

    def order(self, tokens: Sequence[int], sizes: Sequence[Ints], most: int) -> MeasuredOrder:
        """The order of rows at hand.

        Args:
            tokens: those that each of the inputs has given since these turns began.
            sizes: the tokens of their rows at hand.
            most: the most rows of an input to put in order.
        """
        weights = self._weights.tolist()
        ahead = [given - due for given, due in zip(tokens, self._due, strict=True)]
        ends = [np.cumsum(own[:most]) for own in sizes]
        # Rows behind the first one that is not at hand would not be used.
        last = min(
            (before + int(end[-1]) if len(end) else before) / weight
            for before, end, weight in zip(ahead, ends, weights, strict=False)
        )
        used: list[Ints] = []
        for before, end, own, weight in zip(ahead, ends, sizes, weights, strict=False):
            stop = min(last * weight * (1 + 1e-9) - before, MAX_TOKENS * weight / weights[-1])
            used.append(own[: int(np.searchsorted(end, stop, "right")) + 1])
        return self._merged(ahead, used, None if self.stop is None else self.stop - sum(tokens))

    def _merged(self, ahead: list[int], sizes: Sequence[Ints], left: int | None) -> MeasuredOrder:
        """The order of these rows.

        Args:
            ahead: the tokens that each input has given and should not have.
            sizes: of its rows.
            left: the tokens of the stage that are left.
        """
        counts = np.array([len(own) for own in sizes])
        firsts = np.cumsum(counts + 1) - counts - 1
        kind: Any = np.int64 if sum(int(own.sum()) for own in sizes) < 2 * MAX_TOKENS else object
        # The tokens of rows, and their numbers. Behind the rows of each input is one without tokens: a real one would
        # come at its place or later.
        rows: list[npt.NDArray[Any]] = []
        for own, first in zip(sizes, firsts.tolist(), strict=True):
            leaf = np.zeros((2, len(own) + 1), kind)
            leaf[0, :-1] = own
            leaf[1] = np.arange(first, first + len(own) + 1)
            rows.append(leaf)
        for left_side, right_side, left_weight, right_weight in self.forks():
            one, other = rows[left_side], rows[right_side]
            lead = 2 * (right_weight * ahead[left_side] - left_weight * ahead[right_side])
            both = np.concatenate([one, other], axis=1)
            middles = np.concatenate([2 * np.cumsum(one[0]), 2 * np.cumsum(other[0])]) - both[0]
            split = one.shape[1]
            middles[:split] *= right_weight
            middles[:split] += min(max(lead, -(2**61)), 2**61)
            middles[split:] *= left_weight
            rows.append(both[:, np.argsort(middles, kind="stable")])  # it merges two runs that ascend
            ahead.append(ahead[left_side] + ahead[right_side])
        tokens, numbers = rows[-1][0], rows[-1][1].astype(np.int64)
        inputs = np.repeat(np.arange(len(counts)), counts + 1)[numbers]
        is_missing = numbers == (firsts + counts)[inputs]
        stop = int(is_missing.argmax())
        before = np.cumsum(tokens[: stop + 1]) - tokens[: stop + 1]
        missing: list[int] = []
        if left is not None and before[stop] >= left:
            stop = int(np.searchsorted(before, left))
        else:
            front = is_missing[stop:]
            missing = inputs[stop : stop + (int(front.argmin()) or len(front))].tolist()
        return MeasuredOrder(inputs[:stop], numbers[:stop] - firsts[inputs[:stop]], before[: stop + 1], missing)


class MeasuredOrder:
    """The order of rows at hand.

    Attributes:
        inputs: the input of each row, by its number in the stage.
        places: the place of each row among those of its input.
        tokens: those of all rows before each row, and of all.
        missing: the inputs of which the next rows must be known to go on; none if the stage has ended.
    """

    def __init__(self, inputs: Ints, places: Ints, tokens: npt.NDArray[Any], missing: list[int]) -> None:
        self.inputs = inputs
        self.places = places
        self.tokens = tokens
        self.missing = missing
