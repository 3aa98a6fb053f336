"""Exact sums of floats and of their squares, which do not depend on how the floats are divided, or on their order.

A float is cut into digits on a grid that is the same for all floats, at first of 40 bits. The sum of such a digit of
4096 floats is a whole number below 2**53, so it is exact in a float. It is cut into digits of 20 bits. The sum of 2**33
of these is exact too. Python's integers put the digits together in the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Sums = dict[str, Floats]

_BITS = 20
_ROWS = 4096
_SCALE_DIGITS = 40  # numbers whose squares are no floats, or inexact, are scaled by so many digits of 20 bits
_LEAST_SQUARED, _MOST_SQUARED = 2.0**-400, 2.0**400
_HALVES = 2.0**27 + 1


def digit_sums(numbers: Floats) -> Sums:
    """The sums along the first axis, by digit: "x0" of the numbers, "q0" of their squares.

    Args:
        numbers: finite.
    """
    sums = {name: np.zeros(numbers.shape[1:]) for name in ("x0", "q0")}
    for start in range(0, len(numbers), _ROWS):
        rows = numbers[start : start + _ROWS]
        _add_digits(sums, "x", rows)
        sizes = np.abs(rows)
        small, large = (sizes < _LEAST_SQUARED) & (sizes > 0), sizes > _MOST_SQUARED
        if not (small.any() or large.any()):
            _add_squares(sums, rows, 0)
            continue
        for chosen, scale in ((small, -_SCALE_DIGITS), (~(small | large), 0), (large, _SCALE_DIGITS)):
            _add_squares(sums, np.ldexp(np.where(chosen, rows, 0.0), -scale * _BITS), 2 * scale)
    return sums


def mean_and_std(count: int, sums: Mapping[str, Floats]) -> tuple[Floats, Floats]:
    """The mean and the standard deviation of `count` numbers: exact but for the rounding in the end."""
    both = [_mean_and_std(count, *totals) for totals in zip(_totals(sums, "x"), _totals(sums, "q"), strict=True)]
    shape = sums["x0"].shape
    means, deviations = (np.array([pair[i] for pair in both], np.float64).reshape(shape) for i in (0, 1))
    return means, deviations


def _add_squares(sums: Sums, numbers: Floats, shift: int) -> None:
    # Dekker, A Floating-Point Technique for Extending the Available Precision (1971): a square and its rounding error.
    product = _HALVES * numbers
    high = product - (product - numbers)
    low = numbers - high
    squares = numbers * numbers
    _add_digits(sums, "q", squares, shift)
    _add_digits(sums, "q", ((high * high - squares) + 2 * high * low) + low * low, shift)


def _add_digits(sums: Sums, name: str, numbers: Floats, shift: int = 0) -> None:
    while largest := float(np.abs(numbers).max(initial=0.0)):
        digit = 2 * ((math.frexp(largest)[1] - 1) // (2 * _BITS))
        digits = np.trunc(_scaled(numbers, -digit * _BITS))
        numbers = numbers - _scaled(digits, digit * _BITS)
        rest = digits.sum(axis=0)
        for place in (2, 1, 0):
            part = np.trunc(rest * 2.0 ** (-place * _BITS))
            rest = rest - part * 2.0 ** (place * _BITS)
            key = f"{name}{digit + place + shift}"
            sums[key] = sums.get(key, 0.0) + part


def _scaled(numbers: Floats, power: int) -> Floats:
    return numbers * 2.0**power if abs(power) < 1000 else np.ldexp(numbers, power)


def _totals(sums: Mapping[str, Floats], name: str) -> Iterator[tuple[int, int]]:
    """Each sum, as a whole number and the power of two that it is multiplied by."""
    digits = {int(key[1:]): array.ravel().tolist() for key, array in sums.items() if key[0] == name}
    lowest = min(digits)
    for place in range(sums[f"{name}0"].size):
        yield sum(int(s[place]) << (d - lowest) * _BITS for d, s in digits.items()), lowest * _BITS


def _mean_and_std(count: int, total: tuple[int, int], squares: tuple[int, int]) -> tuple[float, float]:
    (x, x_power), (q, q_power) = total, squares
    power = min(2 * x_power, q_power)
    spread = count * (q << (q_power - power)) - (x * x << (2 * x_power - power))
    mean = (x << max(x_power, 0)) / (count << max(-x_power, 0))
    # The variance may be no float although its root is one. Powers are even.
    excess = max(0, spread.bit_length() - 1000) // 2 * 2
    return mean, math.ldexp(math.sqrt((spread >> excess) / (count * count)), (power + excess) // 2)
