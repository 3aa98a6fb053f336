"""What notebooks and terminals show of values: tables without a script, and lists that do not flood a terminal."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import feedpipe as fp
from tests.pictures.test_page import HOSTILE, Parsed
from tests.support.pictures import values


def rows(count: int = 20) -> fp.Rows:
    return fp.from_arrays({"image": np.zeros((count, 28, 28), np.uint8), "label": np.arange(count)}).batch(count)[0]


def shown(value: object) -> Parsed:
    """What a notebook shows of a value."""
    return Parsed(value._repr_html_())  # type: ignore[attr-defined]


def test_rows_are_a_table_with_thumbnails() -> None:
    parsed = shown(rows())
    assert parsed.elements.count("img") == 8
    assert {"image", "label", "uint8[28, 28]", "int", "20 rows of 2 columns, the first 8"} <= set(parsed.words)
    assert "1 row of 2 columns" in shown(rows(1)).words


@pytest.mark.parametrize("text", HOSTILE)
def test_all_forms_are_safe(text: str) -> None:
    def forms(word: str) -> list[list[str]]:
        pipe = fp.from_sequence([{word: word, "x": 1.0}] * 3)
        stats = fp.fit(pipe, {word: fp.stats.counts(), "x": fp.stats.mean_std()}, progress=False)
        profile = fp.profile(pipe, progress=False)
        table = fp.from_table(pipe.to_table()).batch(3)[0]
        return [shown(value).elements for value in (table, stats, profile, pipe.head(2))]

    if text != "\ud800":  # Arrow has no such text
        assert forms(text) == forms("plain")
    assert "script" not in [name for form in forms("plain") for name in form]


def test_statistics_are_a_table() -> None:
    stats = fp.fit(fp.from_sequence([{"x": 1.0}, {"x": 3.0}]), {"x": fp.stats.mean_std()}, progress=False)
    words = " ".join(shown(stats).words)
    assert "mean_std" in words and "mean 2.0" in words and "2 rows" in words


def test_a_profile_is_a_table_with_remarks() -> None:
    words = " ".join(shown(fp.profile(fp.from_sequence([{"x": 1}] * 3), progress=False)).words)
    assert "it is constant" in words and "3 rows" in words


def test_head_is_a_list() -> None:
    head = fp.from_sequence(range(10)).head(3)
    assert head == [0, 1, 2] and isinstance(head, list) and repr(head) == "[0, 1, 2]"
    assert pickle.loads(pickle.dumps(head)) == head


def test_head_of_images_does_not_flood_a_terminal() -> None:
    images = fp.from_arrays({"image": np.zeros((5, 224, 224, 3), np.uint8)})
    assert repr(images.head(2)) == "[{'image': <uint8[224, 224, 3]>}, {'image': <uint8[224, 224, 3]>}]"
    assert len(repr(images.map(lambda row: {**row, "text": "x" * 10**6, "data": b"y" * 10**6}).batch(4).head(1))) < 500
    assert shown(images.head(2)).elements.count("img") == 2


@pytest.mark.parametrize(
    "value",
    [1, "text", b"data", None, (1,), (), [], [1, [2]], {"a": (1, 2)}, np.arange(4), np.float32(1), {1, 2}, range(3)],
)
def test_short_values_are_shown_as_they_are(value: object) -> None:
    assert values.short_repr(value) == repr(value)


def test_elements_of_all_kinds_in_a_notebook() -> None:
    pairs = fp.from_sequence([(np.zeros((28, 28), np.uint8), 3)] * 2)
    assert shown(pairs.head(2)).elements.count("img") == 2
    assert "no elements" not in shown(pairs.take(0).head(2)).words
