"""`folded` and `layout`: places for the boxes of a graph, without a graph library.

A box stands right above the boxes that read from it. Boxes never overlap. An edge that passes a row of boxes has a lane
between them, so it crosses none.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

LANE = 24.0
"""The width of a lane of an edge."""
SWEEPS = 4
MAX_COUNTED = 2000
"""In a row of more edges, crossings are not counted: the order stays that of the code."""


class Fold(NamedTuple):
    """Nodes that are drawn as one box.

    Attributes:
        members: the places of the nodes; the first one is shown.
        inputs: the places of the folds that it reads from.
    """

    members: tuple[int, ...]
    inputs: tuple[int, ...]


def unfolded(inputs: Sequence[Sequence[int]]) -> list[Fold]:
    """A box for each node; `inputs` are the places of the nodes that each reads from, which come before it."""
    return [Fold((node,), tuple(dict.fromkeys(sources))) for node, sources in enumerate(inputs)]


def folded(inputs: Sequence[Sequence[int]], keys: Sequence[Hashable]) -> list[Fold]:
    """The graph, with one box for equal branches of a node, and one for equal nodes in a row.

    Args:
        inputs: the places of the nodes that each reads from, which come before it.
        keys: nodes with one key look alike.
    """
    readers = Counter(source for sources in inputs for source in sources)
    numbers: dict[Hashable, int] = {}
    shapes: list[int] = []  # branches of one shape have one number; a node that several read is like no other
    for node, sources in enumerate(inputs):
        shape = (keys[node], tuple(shapes[source] for source in sources))
        shapes.append(numbers.setdefault(("shared", node) if readers[node] > 1 else shape, len(numbers)))
    root = len(inputs) - 1
    members = {root: [root]}
    sources_of: dict[int, list[int]] = {}
    for node in range(root, -1, -1):  # a node is shown if it is the first of its branches
        if node not in members:
            continue
        branches: defaultdict[int, list[int]] = defaultdict(list)
        for member in members[node]:
            for source in inputs[member]:
                branches[shapes[source]].append(source)
        sources_of[node] = [sources[0] for sources in branches.values()]
        for first, *others in branches.values():
            same = members.setdefault(first, [])
            same += [one for one in dict.fromkeys((first, *others)) if one not in same]
    return _without_runs(members, sources_of, keys)


def _without_runs(
    members: Mapping[int, list[int]], sources_of: Mapping[int, list[int]], keys: Sequence[Hashable]
) -> list[Fold]:
    """Nodes of one key that read each other, and that nothing else reads, as one."""
    readers = Counter(source for sources in sources_of.values() for source in sources)
    places: dict[int, int] = {}
    folds: list[Fold] = []
    for node in sorted(members):
        sources = sources_of[node]
        if len(sources) == 1 and readers[sources[0]] == 1 and keys[sources[0]] == keys[node]:
            place = places[sources[0]]
            folds[place] = folds[place]._replace(members=(*folds[place].members, *members[node]))
        else:
            place = len(folds)
            folds.append(Fold(tuple(members[node]), tuple(places[source] for source in sources)))
        places[node] = place
    return folds


# Places


class GraphLayout(NamedTuple):
    """Places of boxes and ways of edges.

    Attributes:
        centers: the middle of each box, from the left edge of the picture.
        rows: the row of each box; 0 is the last one, which nothing reads from.
        lanes: by edge, from a box to one that reads from it, its middle in each row that it passes.
        width: of the picture.
    """

    centers: list[float]
    rows: list[int]
    lanes: dict[tuple[int, int], list[float]]
    width: float


def layout(inputs: Sequence[Sequence[int]], width: float, gap: float) -> GraphLayout:
    """Places for boxes of one width.

    Args:
        inputs: the places of the boxes that each reads from, which come before it.
        width: of a box.
        gap: the least distance between two boxes of a row.
    """
    count = len(inputs)
    rows = [0] * count
    for node in range(count - 1, -1, -1):
        for source in inputs[node]:
            rows[source] = max(rows[source], rows[node] + 1)
    sources: list[list[int]] = [[] for _ in range(count)]  # with the lanes, which are nodes from `count` on
    lanes: dict[tuple[int, int], list[int]] = {}
    for node in range(count):
        for source in inputs[node]:
            below = node
            ways: list[int] = []
            for row in range(rows[node] + 1, rows[source]):
                lane = len(rows)
                rows.append(row)
                sources.append([])
                sources[below].append(lane)
                ways.append(lane)
                below = lane
            sources[below].append(source)
            lanes[source, node] = ways[::-1]
    readers: list[list[int]] = [[] for _ in rows]
    for node, those in enumerate(sources):
        for source in those:
            readers[source].append(node)
    order = _ordered(_by_row(rows, sources, count - 1), sources, readers)
    widths = [width if node < count else LANE for node in range(len(rows))]
    centers = _centers(order, sources, readers, widths, gap)
    left = min(center - size / 2 for center, size in zip(centers, widths, strict=True))
    right = max(center + size / 2 for center, size in zip(centers, widths, strict=True))
    centers = [center - left for center in centers]
    places = {edge: [centers[lane] for lane in ways] for edge, ways in lanes.items()}
    return GraphLayout(centers[:count], rows[:count], places, right - left)


def _by_row(rows: Sequence[int], sources: Sequence[Sequence[int]], root: int) -> list[list[int]]:
    """The nodes of each row, in the order of a walk along the inputs: without a crossing if the graph is a tree."""
    order: list[list[int]] = [[] for _ in range(max(rows) + 1)]
    seen = {root}
    stack = [root]
    while stack:
        node = stack.pop()
        order[rows[node]].append(node)
        for source in reversed(sources[node]):
            if source not in seen:
                seen.add(source)
                stack.append(source)
    return order


def _ordered(
    order: list[list[int]], sources: Sequence[Sequence[int]], readers: Sequence[Sequence[int]]
) -> list[list[int]]:
    """The order with the fewest crossings of some that are tried."""
    best, fewest = order, _crossings(order, sources)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        order = [list(row) for row in order]
        neighbours = readers if sweep % 2 == 0 else sources
        for low in range(1, len(order)) if sweep % 2 == 0 else range(len(order) - 2, -1, -1):
            place = {node: at for at, node in enumerate(order[low - 1 if sweep % 2 == 0 else low + 1])}
            now = {node: at for at, node in enumerate(order[low])}
            order[low].sort(key=lambda node: _mean([place[n] for n in neighbours[node]], now[node]))
        if (crossings := _crossings(order, sources)) < fewest:
            best, fewest = order, crossings
    return best


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _crossings(order: Sequence[Sequence[int]], sources: Sequence[Sequence[int]]) -> int:
    total = 0
    for low, high in pairwise(order):
        place = {node: at for at, node in enumerate(high)}
        ends = [sorted(place[source] for source in sources[node]) for node in low]
        flat = [end for part in ends for end in part]
        if len(flat) <= MAX_COUNTED:
            total += sum(1 for at, end in enumerate(flat) for other in flat[at + 1 :] if other < end)
    return total


def _centers(
    order: Sequence[Sequence[int]],
    sources: Sequence[Sequence[int]],
    readers: Sequence[Sequence[int]],
    widths: Sequence[float],
    gap: float,
) -> list[float]:
    """A node stands in the middle of its neighbours, as near as the others of its row let it."""
    centers = [0.0] * len(widths)

    def settle(row: Sequence[int], wish: Callable[[int], float]) -> None:
        offsets = [0.0]
        for left, right in pairwise(row):
            offsets.append(offsets[-1] + (widths[left] + widths[right]) / 2 + gap)
        wishes = [wish(node) - offset for node, offset in zip(row, offsets, strict=True)]
        for node, offset, at in zip(row, offsets, _rising(wishes), strict=True):
            centers[node] = at + offset

    for _ in range(SWEEPS):
        for row in order[1:]:
            settle(row, lambda node: _mean([centers[reader] for reader in readers[node]], centers[node]))
        for row in reversed(order[:-1]):
            settle(row, lambda node: _mean([centers[source] for source in sources[node]], centers[node]))
    return centers


def _rising(wishes: Sequence[float]) -> list[float]:
    """The numbers that never fall and are nearest to the wishes, by the sum of squares."""
    pools: list[tuple[float, int]] = []  # the mean of some neighbours, and how many they are
    for wish in wishes:
        pools.append((wish, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (late, more), (early, few) = pools.pop(), pools.pop()
            pools.append(((late * more + early * few) / (more + few), more + few))
    return [mean for mean, count in pools for _ in range(count)]
