"""Markup that is safe by its type, and the parts of pages."""

from __future__ import annotations

from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.pictures import Html, page

HOSTILE = [
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "</title></style></script><b>",
    "&lt;b&gt; & <",
    "a\0b\x1b[31m\u202egnp.exe",
    "\ud800",
    "😀" * 200,
]


class Parsed(HTMLParser):
    """The elements and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.words: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += attrs

    handle_startendtag = handle_starttag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.mark.parametrize("text", HOSTILE)
def test_text_does_not_become_markup(text: str) -> None:
    parsed = Parsed(page.tag("p", text, title=text))
    assert parsed.elements == ["p"]
    assert [name for name, _ in parsed.attributes] == ["title"]
    whole = page.page(text, page.table([text], [[text, [text]]]), page.bar(0.5, text))
    clean = page.page("x", page.table(["x"], [["x", ["x"]]]), page.bar(0.5, "x"))
    assert Parsed(whole).elements == Parsed(clean).elements
    whole.encode()


@settings(max_examples=examples(100))
@given(st.text())
def test_any_text_is_well_formed(text: str) -> None:
    root = ElementTree.fromstring(page.tag("g", text, id=text))
    assert len(root) == 0


def test_markup_is_kept_and_its_pieces_are_text() -> None:
    bold = page.tag("b", "x")
    assert page.tag("p", bold, " < ", 3, None, [bold, "&"]) == "<p><b>x</b> &lt; 3<b>x</b>&amp;</p>"
    assert page.tag("p", bold.upper()) == "<p>&lt;B&gt;X&lt;/B&gt;</p>"
    assert isinstance(page.markup(bold), Html)


def test_attributes() -> None:
    assert page.tag("g", class_="a", aria_label="b", hidden=True, id=None, lang=False) == (
        '<g class="a" aria-label="b" hidden=""></g>'
    )
    assert page.tag("rect", x=1.0, y=0.1234567890123) == '<rect x="1" y="0.12345679"/>'


def test_secrets_of_urls_are_hidden() -> None:
    assert "geheim" not in page.tag("p", "s3://user:geheim@bucket/a.csv?secret_key=geheim", title="ftp://u:geheim@host")


def test_only_the_script_of_the_page_may_run() -> None:
    policy = next(value for name, value in Parsed(page.page("t", script="1;")).attributes if name == "content")
    assert policy is not None and "default-src 'none'" in policy and "script-src 'sha256-" in policy
    assert "script-src 'none'" in page.page("t")


def test_a_fragment_has_no_script() -> None:
    parsed = Parsed(page.fragment(page.bar(0.25), page.histogram([1, 2], ["a", "b"], ("0", "1"), "counts")))
    assert "script" not in parsed.elements
    assert not [name for name, _ in parsed.attributes if name.startswith("on")]


def test_data_for_a_script_cannot_end_it() -> None:
    block = page.data_block("spans", ["</script><script>alert(1)</script>"])
    assert Parsed(block).elements == ["script"]


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (999, "999"), (999.7, "1k"), (1234, "1.23k"), (5e6, "5M"), (2e12, "2T"), (0.5, "0.5")]
)
def test_short_numbers(value: float, text: str) -> None:
    assert page.short_number(value) == text


def test_a_long_text_is_cut() -> None:
    assert page.clipped("a b\n c", 10) == "a b c"
    assert page.clipped("x" * 10**7, 10) == "x" * 9 + "…"
