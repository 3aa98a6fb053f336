"""Graphs as SVG."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.pictures.test_page import HOSTILE
from tests.support.pictures import graph

SVG = "{http://www.w3.org/2000/svg}"


def chain(count: int, **values: object) -> list[graph.Box]:
    return [graph.Box(f".map(f{at})", at, (at - 1,) if at else (), **values) for at in range(count)]  # type: ignore[arg-type]


def texts(picture: str) -> list[str]:
    root = ElementTree.fromstring(picture)
    return [node.text or "" for node in root.iter(f"{SVG}text")]


@pytest.mark.parametrize("text", HOSTILE)
def test_names_do_not_become_markup(text: str) -> None:
    boxes = [graph.Box(text, text, (), facts=[text], gates=[text])]
    root = ElementTree.fromstring(graph.Graph(boxes).svg())
    assert {node.tag.removeprefix(SVG) for node in root.iter()} == {
        "svg",
        "style",
        "g",
        "rect",
        "line",
        "text",
        "title",
    }


def test_long_names_are_cut_and_wide_characters_count_twice() -> None:
    assert graph.cut("x" * 50, 34) == "x" * 33 + "…"
    assert graph.cut("漢" * 50, 34) == "漢" * 16 + "…"
    assert graph.cut("short\n text", 34) == "short text"


def test_few_boxes_are_not_folded_and_many_are() -> None:
    alike = [graph.Box(".map(f)", "f", (at - 1,) if at else ()) for at in range(61)]
    assert len(graph.Graph(alike[:60]).shapes) == 60
    assert [len(shape.boxes) for shape in graph.Graph(alike).shapes] == [61]
    assert "and 60 like it" in texts(graph.Graph(alike).svg())[1]
    star = [*(graph.Box("read()", "read", ()) for _ in range(13)), graph.Box(".concat()", "c", tuple(range(13)))]
    assert [len(shape.boxes) for shape in graph.Graph(star).shapes] == [13, 1]
    assert len(graph.Graph([*star[1:13], graph.Box(".concat()", "c", tuple(range(12)))]).shapes) == 13


def test_shares_are_numbers_and_bars() -> None:
    boxes = chain(2, share=0.25, rate=1500.0)
    picture = graph.Graph(boxes).svg()
    assert texts(picture).count("25% of the work · 1.5k rows/s") == 2
    bars = [node for node in ElementTree.fromstring(picture).iter(f"{SVG}rect") if node.get("class") == "heat"]
    scale = next(node for node in ElementTree.fromstring(picture).iter(f"{SVG}rect") if node.get("class") == "scale")
    assert [float(bar.get("width") or 0) / float(scale.get("width") or 1) for bar in bars] == [0.25, 0.25]


def test_edges_are_as_wide_as_their_rows() -> None:
    boxes = [graph.Box("a", 0, (), rate=100.0), graph.Box("b", 1, (0,), rate=1.0), graph.Box("c", 2, (1,), rate=1.0)]
    root = ElementTree.fromstring(graph.Graph(boxes).svg())
    first, second = (float(edge.get("stroke-width") or 0) for edge in root.iter(f"{SVG}path"))
    assert first == graph.EDGES[1] and graph.EDGES[0] < second < first


def test_a_picture_says_what_it_is_to_those_who_do_not_see_it() -> None:
    still = ElementTree.fromstring(graph.Graph(chain(3)).svg())
    assert still.get("role") == "img" and still.get("aria-label") == "graph of 3 operators, from .map(f0) to .map(f2)"
    moving = ElementTree.fromstring(graph.Graph(chain(3, facts=["3 indexed"])).svg(interactive=True))
    buttons = [node for node in moving.iter() if node.get("role") == "button"]
    assert moving.get("role") == "group"
    assert [button.get("aria-label") for button in buttons] == [f".map(f{at}), 3 indexed" for at in range(3)]
    assert [button.get("tabindex") for button in buttons] == ["0", "-1", "-1"]
