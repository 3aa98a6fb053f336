"""The order of mixtures as the first version computed it: one object a fork, one turn at a time."""

from __future__ import annotations

import heapq
import math
from fractions import Fraction


class ReferenceTurns:
    """Huffman's tree over the inputs; each fork shares its turns between its sides by rounding to the nearest."""

    def __init__(self, weights):
        heap = [(weight, number, number) for number, weight in enumerate(reference_weights(weights))]
        heapq.heapify(heap)
        while len(heap) > 1:
            light, heavy = heapq.heappop(heap), heapq.heappop(heap)
            left, right = sorted([light, heavy], key=lambda node: (-node[0], node[1]))
            total = light[0] + heavy[0]
            heapq.heappush(heap, (total, min(light[1], heavy[1]), (left[2], right[2], left[0], total)))
        self.root = heap[0][2]

    def at(self, position):
        """The input at a position, and the number of its turns before."""
        node = self.root
        while isinstance(node, tuple):
            left, right, weight, total = node
            before, rest = divmod(2 * position * weight + total, 2 * total)
            if rest >= 2 * (total - weight):
                node, position = left, before
            else:
                node, position = right, position - before
        return node, position


def reference_weights(weights):
    exact = [Fraction(repr(float(weight))) for weight in weights]
    scale = math.lcm(*(weight.denominator for weight in exact))
    whole = [int(weight * scale) for weight in exact]
    whole = [weight // math.gcd(*whole) for weight in whole]
    total = sum(whole)
    return whole if total <= 2**30 else [max(1, round(weight * 2**30 / total)) for weight in whole]


def reference_rows(inputs, weights, stop):
    """The rows of a mixture that is not random; `weights` are None for `round_robin`."""
    ended, begun, first, rows = [0] * len(inputs), [0] * len(inputs), 0, []
    while sources := reference_sources(ended, weights, first, stop):
        if weights is None:
            turn_of = lambda position: position % len(sources)  # noqa: E731
        else:
            tree = ReferenceTurns([weights[source] or 1 for source in sources])
            turn_of = lambda position: tree.at(position)[0]  # noqa: B023, E731
        position = 0
        while True:
            source = sources[turn_of(position)]
            if begun[source] == len(inputs[source]):
                ended[source] += 1
                if stop == "longest":
                    break
                if stop == "first" or all(ended[source] for source in sources):
                    return rows
                begun[source] = 0
            rows.append(inputs[source][begun[source]])
            begun[source] += 1
            position += 1
        first = source + 1
    return rows


def reference_sources(ended, weights, first, stop):
    count = len(ended)
    if weights is None:
        order = [*range(first, count), *range(min(first, count))]
        return [source for source in order if stop != "longest" or not ended[source]]
    going = [source for source in range(count) if stop != "longest" or not ended[source]]
    return [source for source in going if weights[source]] or (going if stop == "longest" else [])
