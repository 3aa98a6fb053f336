"""Places of boxes: nothing overlaps, edges cross no box, equal branches become one."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.pictures import layout

WIDTH, GAP = 300.0, 40.0


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    """The inputs of each node of a graph whose last node is reached by all."""
    count = draw(st.integers(1, 12))
    graph = [draw(st.lists(st.integers(0, node - 1), max_size=3)) if node else [] for node in range(count)]
    read = {source for sources in graph for source in sources}
    return [*graph, [node for node in range(count) if node not in read]]


@settings(max_examples=examples(200))
@given(graphs())
def test_boxes_and_lanes_of_a_row_do_not_overlap(graph: list[list[int]]) -> None:
    folds = layout.unfolded(graph)
    inputs = [fold.inputs for fold in folds]
    places = layout.layout(inputs, WIDTH, GAP)
    spans: dict[int, list[tuple[float, float]]] = {}
    for center, row in zip(places.centers, places.rows, strict=True):
        spans.setdefault(row, []).append((center - WIDTH / 2, center + WIDTH / 2))
    for (source, reader), lanes in places.lanes.items():
        passed = range(places.rows[source] - 1, places.rows[reader], -1)
        assert len(lanes) == len(passed)
        for row, center in zip(passed, lanes, strict=True):
            spans[row].append((center - layout.LANE / 2, center + layout.LANE / 2))
    for row in spans.values():
        row.sort()
        assert all(right <= left for (_, right), (left, _) in pairwise(row))
        assert row[0][0] >= -1e-6 and row[-1][1] <= places.width + 1e-6
    for node, sources in enumerate(inputs):
        assert all(places.rows[source] > places.rows[node] for source in sources)


@settings(max_examples=examples(200))
@given(graphs(), st.integers(1, 3))
def test_a_fold_keeps_all_nodes_and_their_order(graph: list[list[int]], kinds: int) -> None:
    folds = layout.folded(graph, [node % kinds for node in range(len(graph))])
    assert sorted(member for fold in folds for member in fold.members) == list(range(len(graph)))
    assert all(source < place for place, fold in enumerate(folds) for source in fold.inputs)
    owner = {member: place for place, fold in enumerate(folds) for member in fold.members}
    for node, sources in enumerate(graph):
        for source in sources:
            assert owner[source] == owner[node] or owner[source] in folds[owner[node]].inputs


def test_a_tree_has_straight_lines() -> None:
    places = layout.layout([[], [0], [], [2], [1, 3], [4]], WIDTH, GAP)
    assert places.centers == [150, 150, 490, 490, 320, 320]
    assert places.rows == [3, 2, 3, 2, 1, 0]


def test_a_source_stands_right_above_its_reader() -> None:
    assert layout.layout([[], [0], [1], [], [2, 3]], WIDTH, GAP).rows == [3, 2, 1, 1, 0]


def test_a_long_edge_has_a_lane() -> None:
    places = layout.layout([[], [0], [1], [0, 2]], WIDTH, GAP)
    assert len(places.lanes[0, 3]) == 2 and not places.lanes[0, 1]


def test_crossings_are_avoided() -> None:
    # a, b; c reads b, d reads a; e reads a, b, c, d in an order that crosses
    places = layout.layout([[], [], [1], [0], [2, 3]], WIDTH, GAP)
    left, right = places.centers[2], places.centers[3]
    assert (places.centers[1] < places.centers[0]) == (left < right)


def test_equal_branches_become_one() -> None:
    branches = [[], [0], [], [2], [], [4], [1, 3, 5]]
    keys = ["read", "map"] * 3 + ["concat"]
    assert layout.folded(branches, keys) == [((0, 2, 4), ()), ((1, 3, 5), (0,)), ((6,), (1,))]
    other = ["read", "map", "read", "filter", "read", "map", "concat"]
    assert [fold.members for fold in layout.folded(branches, other)] == [(0, 4), (1, 5), (2,), (3,), (6,)]


def test_equal_nodes_in_a_row_become_one() -> None:
    assert layout.folded([[], [0], [1], [2], [3]], ["read", "map", "map", "map", "batch"]) == [
        ((0,), ()),
        ((1, 2, 3), (0,)),
        ((4,), (1,)),
    ]


def test_a_node_that_several_read_is_shown_once() -> None:
    fork = [[], [0], [0], [1, 2]]
    assert layout.folded(fork, ["read", "map", "map", "zip"]) == [((0,), ()), ((1, 2), (0,)), ((3,), (1,))]


def test_a_large_graph_is_laid_out() -> None:
    chain = [[], *([node] for node in range(999))]
    assert layout.layout(chain, WIDTH, GAP).width == WIDTH
    star = [*([] for _ in range(999)), list(range(999))]
    assert len(layout.layout(star, WIDTH, GAP).centers) == 1000
