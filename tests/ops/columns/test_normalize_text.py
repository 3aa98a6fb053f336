"""`normalize_text`: one form for equal text."""

from __future__ import annotations

import unicodedata
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis.strategies import lists, none, sampled_from, text

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, PlanError
from feedpipe.testing import check_operator

from ..tables import TABLE, variants

TEXT = pa.table({"x": [" \uff32ome\u00a0", "\ufb01sh", None, "e\u0301", ""]})


@pytest.mark.parametrize("stored", variants())
def test_law(stored: str) -> None:
    pipe = variants(TEXT)[stored]
    rows = check_operator(pipe.normalize_text("x", lower=True), samples=5)
    assert [row["x"] for row in rows] == ["rome", "fish", None, "\xe9", ""]
    assert check_operator(pipe.skip(9).normalize_text(["x"])) == []


def test_parts() -> None:
    pipe = fp.from_table(TEXT)
    assert pipe.normalize_text("x", form=None, strip=False)[0]["x"] == " \uff32ome\u00a0"
    assert pipe.normalize_text("x", form="NFD", strip=False)[3]["x"] == "e\u0301"
    assert pipe.normalize_text("x", form="NFC", strip=False)[0]["x"] == " \uff32ome\u00a0"
    encoded = fp.from_table(pa.table({"x": TEXT["x"].combine_chunks().dictionary_encode()})).normalize_text("x")
    assert encoded.schema == encoded.batch(5)[0].arrow.schema == pa.schema([("x", pa.string())])
    assert encoded[1] == {"x": "fish"}


@given(lists(none() | text(), max_size=5), sampled_from(["NFC", "NFD", "NFKC", "NFKD"]), sampled_from(["", "large_"]))
def test_forms_are_those_of_python(values: list[str | None], form: Any, kind: str) -> None:
    array = pa.array([*values, "e\u0301", None], pa.type_for_alias(f"{kind}string"))
    rows = fp.from_table(pa.table({"x": array})).normalize_text("x", form=form, strip=False)
    assert [row["x"] for row in rows] == [value and unicodedata.normalize(form, value) for value in array.to_pylist()]


def test_errors() -> None:
    pipe = fp.from_table(TABLE)
    with pytest.raises(ArgumentError, match="`form` must be one of 'NFC', 'NFD', 'NFKC', 'NFKD', None but got: 'nfc'"):
        pipe.normalize_text("text", form="nfc")  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="`lower` must be True or False but got: 1"):
        pipe.normalize_text("text", lower=1)  # type: ignore[arg-type]
    for name, kind in (("id", "int64"), ("tags", "list<.*>")):
        with pytest.raises(PlanError, match=f"column '{name}' is of type {kind}, and text is needed"):
            pipe.normalize_text(name).explain()
