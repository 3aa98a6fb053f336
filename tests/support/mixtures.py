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
                return rows
            rows.append(inputs[source][begun[source]])
            begun[source] += 1
            position += 1
        first = source + 1
    return rows


class ReferenceSchedule:
    """The turns of a schedule, one at a time, by exact fractions.

    The inputs are spread over the leaves of a complete tree. A fork gives its left side a turn if that should have had
    one more by then: its part of all turns before the stage, and of those of the fork that differ from what it should
    have had, rounded to the nearest.
    """

    def __init__(self, schedule, sources, numbers):
        self.schedule, self.sources, self.numbers = schedule, sources, numbers
        self.leaves = 1 << (len(sources) - 1).bit_length()
        self.slots = [-(-k * self.leaves // len(sources)) for k in range(len(sources))]
        self.due = [Fraction(0)] * (2 * self.leaves)  # what each node should have had before the stage
        self.had = [0] * (2 * self.leaves)
        self.stage = None
        self.position = self.begun = 0

    def turn(self):
        """The input that has the next turn."""
        row = self.numbers[0] + self.position * self.numbers[1]
        stage = max(start for start in self.schedule if start <= row)
        if stage != self.stage:
            if self.stage is not None:
                rows = self.position - self.begun
                self.due = [
                    due + rows * weight / self.totals[1] for due, weight in zip(self.due, self.totals, strict=True)
                ]
            self.stage, self.begun = stage, self.position
            self.totals = self.weights(self.schedule[stage])
        totals, node = self.totals, 1
        while node < self.leaves:
            self.had[node] += 1
            part = totals[2 * node] / totals[node]
            should = self.due[2 * node] + part * (self.had[node] - self.due[node])
            is_left = part == 1 or (part > 0 and math.floor(should + Fraction(1, 2)) > self.had[2 * node])
            node = 2 * node + (not is_left)
        self.had[node] += 1
        self.position += 1
        return self.sources[self.slots.index(node - self.leaves)]

    def weights(self, weights):
        """The weights of all nodes."""
        own = [Fraction(repr(float(weights[source]))) for source in self.sources]
        own = own if any(own) else [Fraction(1)] * len(own)
        totals = [Fraction(0)] * (2 * self.leaves)
        for slot, weight in zip(self.slots, own, strict=True):
            totals[self.leaves + slot] = weight
        for fork in range(self.leaves - 1, 0, -1):
            totals[fork] = totals[2 * fork] + totals[2 * fork + 1]
        return totals


def scheduled_rows(inputs, schedule, stop, numbers=(0, 1), most=math.inf):
    """The rows of a mixture with a schedule."""
    weighted = [k for k in range(len(inputs)) if any(weights[k] for weights in schedule.values())]
    ended, begun, rows = [0] * len(inputs), [0] * len(inputs), []
    while sources := [k for k in range(len(inputs)) if not ended[k]] if stop == "longest" else weighted:
        turns = ReferenceSchedule(schedule, sources, (numbers[0] + len(rows) * numbers[1], numbers[1]))
        while len(rows) < most:
            source = turns.turn()
            if begun[source] == len(inputs[source]):
                ended[source] += 1
                if stop == "longest":
                    break
                return rows
            rows.append(inputs[source][begun[source]])
            begun[source] += 1
        else:
            break
    return rows


def reference_sources(ended, weights, first, stop):
    count = len(ended)
    if weights is None:
        order = [*range(first, count), *range(min(first, count))]
        return [source for source in order if stop != "longest" or not ended[source]]
    going = [source for source in range(count) if stop != "longest" or not ended[source]]
    return [source for source in going if weights[source]] or (going if stop == "longest" else [])
