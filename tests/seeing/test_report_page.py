"""The page of a report, and its form for notebooks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import feedpipe as fp
from tests.pictures.test_page import HOSTILE, Parsed
from tests.support.core import flight, times
from tests.support.seeing import Report, report_page, verdict

MS = 1_000_000


def slots(**states: int) -> dict[tuple[times.State, str], times.SlotTimes]:
    """The milliseconds in each state; `operator` is about the operator "map-1", and a tenth of all is the start."""
    return {
        (state, "map-1" if state == "operator" else ""): times.SlotTimes(ns * MS, ns * MS // 10)  # type: ignore[misc]
        for state, ns in states.items()
    }


def table(thread: str, began: int = 0, **states: int) -> times.Table:
    found = slots(**states)
    spans, at = [], began * MS
    for (state, of), slot in found.items():
        spans.append(times.TimeSpan(state, of, at, slot.ns))
        at += slot.ns
    wall = sum(slot.ns for slot in found.values())
    slow = [
        flight.SlowWork("row", "map-1", "a.jsonl, line 8", 5 * MS, 30 * MS, 1),
        flight.SlowWork("row", "map-1", "a.jsonl, line 9", 5 * MS, 20 * MS, 1),
        flight.SlowWork("file", "map-1", "b.jsonl", 5 * MS, 400 * MS, 1234),
    ]
    samples = [flight.Fill(at * MS, at % 3 if thread != "consumer" else -1, at * 2**20, 2**20) for at in range(1, 9)]
    return times.Table(
        thread, 1, 0, wall, 0, wall, 1, 9, 90, 9, 90, 0, 0, 0, found, {}, spans, slow=slow, samples=samples
    )


def rank(number: int = 0, code: str = ".map(f)", world_size: int = 1) -> verdict.RankTimes:
    operators = [
        verdict.KnownOperator("from_sequence-1", "from_sequence(range(9))", None, None, ()),
        verdict.KnownOperator("map-1", code, None, 1, ("from_sequence-1",)),
    ]
    counts = [0] * 64
    counts[20], counts[24] = 30, 10
    steps = times.StepTimes(40, 1, 50 * MS, tuple(counts), tuple(counts))
    tables = [table("consumer", loop=1000, worker=2000), table("worker 0", operator=2500, consumer=500)]
    return verdict.RankTimes(number, world_size, 1, False, 2, operators, {}, steps, tables)


def page(report: Report, folder: Path) -> str:
    report.save(folder / "run.html")
    return (folder / "run.html").read_text(encoding="utf-8")


def words(html: str) -> str:
    return " ".join(Parsed(html).words)


def test_the_parts_of_a_page(tmp_path: Path) -> None:
    report = Report([rank()])
    text = words(page(report, tmp_path))
    for title in (
        "Operators",
        "Threads",
        "Timeline",
        "Steps",
        "The first element",
        "The slowest rows and files",
        "Memory and queues",
    ):
        assert title in text
    assert report.verdict.replace("`", "").split(".")[0] in text.replace("  ", " ")
    assert "waits for workers 67%, runs the loop 33%" in text
    assert "100% of the work" in text


def test_histograms_are_of_the_counts(tmp_path: Path) -> None:
    html = page(Report([rank()]), tmp_path)
    assert html.count("524 µs to 1.05 ms: 30 steps, 75%") == 2 + 2  # a tooltip, and what a screen reader hears
    assert "50% take up to 1.05 ms, 95% take up to 16.8 ms" in html


def test_the_timeline_has_each_span(tmp_path: Path) -> None:
    html = page(Report([rank()]), tmp_path)
    found = re.search(r'<script type="application/json" id="timeline">(.*?)</script>', html)
    assert found is not None
    data = json.loads(found[1])
    names = [state for state, _ in data["states"]]
    tracks = {name: [tuple(spans[at : at + 4]) for at in range(0, len(spans), 4)] for name, spans in data["tracks"]}
    assert tracks["worker 0"] == [
        (0, 2_500_000, names.index("operator"), data["of"].index(".map(f)")),
        (2_500_000, 500_000, names.index("consumer"), data["of"].index("")),
    ]


def test_the_slowest_rows_and_files_have_their_place(tmp_path: Path) -> None:
    text = words(page(Report([rank()]), tmp_path))
    assert "30 ms a.jsonl, line 8 .map(f) consumer 0.005 s" in text
    assert "20 ms a.jsonl, line 9 .map(f)" in text
    assert "400 ms b.jsonl 1,234 .map(f)" in text


def test_memory_and_queues_have_a_curve_each(tmp_path: Path) -> None:
    html = page(Report([rank()]), tmp_path)
    assert html.count("<polyline") == 2  # one process, one queue
    assert "memory of the process of consumer: at most 8 MiB" in html and "ready of worker 0: at most 2" in html
    assert "worker 0 1.1 2 25%" in words(html)


def test_a_report_of_an_earlier_version_has_neither(tmp_path: Path) -> None:
    Report([rank()]).save(tmp_path / "run.json")
    plain = json.loads((tmp_path / "run.json").read_text())
    for one in plain["ranks"][0]["tables"]:
        del one["slow"], one["samples"]
    (tmp_path / "run.json").write_text(json.dumps(plain))
    text = words(page(Report.load(tmp_path / "run.json"), tmp_path))
    assert "no row that was measured took" in text and "nothing was noted" in text


def test_of_many_spans_the_longest_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_page, "MAX_SPANS", 2)
    html = page(Report([rank()]), tmp_path)
    assert "the longest 2 of 4 spans" in html
    data = json.loads(re.findall(r'id="timeline">(.*?)</script>', html)[0])
    assert [len(spans) // 4 for _, spans in data["tracks"]] == [1, 1]


def test_ranks_stand_side_by_side(tmp_path: Path) -> None:
    html = page(Report([rank(number, world_size=4) for number in range(4)]), tmp_path)
    text = words(html)
    assert "Ranks" in text and "work for a step" in text
    assert "rank 3, worker 0" in text and "4 ranks, 160 steps" in text
    assert "Ranks" not in words(page(Report([rank()]), tmp_path))


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_users_does_not_become_markup(tmp_path: Path, text: str) -> None:
    hostile, plain = (Report([rank(code=code)]) for code in (text, "plain"))
    assert Parsed(page(hostile, tmp_path)).elements == Parsed(page(plain, tmp_path)).elements
    assert Parsed(hostile._repr_html_()).elements == Parsed(plain._repr_html_()).elements


def test_a_report_of_nothing_has_a_page(tmp_path: Path) -> None:
    loader = fp.Loader(fp.from_sequence(range(3)))
    text = words(page(loader.report(), tmp_path))
    assert "Too short to say" in text and "there was no step" in text


def test_a_report_that_was_loaded_has_the_same_page(tmp_path: Path) -> None:
    report = Report([rank(number, world_size=2) for number in range(2)])
    report.save(tmp_path / "run.json")
    assert page(Report.load(tmp_path / "run.json"), tmp_path) == page(report, tmp_path)


def test_a_page_asks_for_nothing(tmp_path: Path) -> None:
    parsed = Parsed(page(Report([rank()]), tmp_path))
    assert not [value for name, value in parsed.attributes if name in ("src", "href")]


def test_a_notebook_needs_no_script() -> None:
    parsed = Parsed(Report([rank()])._repr_html_())
    assert "script" not in parsed.elements and "table" in parsed.elements
    assert "100%" in " ".join(parsed.words)
