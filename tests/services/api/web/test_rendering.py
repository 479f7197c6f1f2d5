"""How values look on pages, and that no text becomes more than a text."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from odfabric.model.instant import Instant
from odfabric_api.web.markdown import markdown_html
from odfabric_api.web.rendering import at, cell, number, short, size, when

NOW = Instant.parse("2026-03-02T12:00:00Z")
LINKS = re.compile(r'href="([^"]*)"')


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (None, "–"),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 KB"),
        (12_345, "12 KB"),
        (999_999, "1000 KB"),
        (10**16, "10 PB"),
    ],
)
def test_sizes(count: int | None, shown: str) -> None:
    assert size(count) == shown


def test_numbers_and_hashes() -> None:
    assert (number(1234567), number(None)) == ("1,234,567", "–")
    assert short("f1620" + "ab" * 32) == "f1620ababababababa…"
    assert short("abc") == "abc"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2026-03-02T11:59:30Z", "just now"),
        ("2026-03-02T11:58:00Z", "2 minutes ago"),
        ("2026-03-02T11:00:00Z", "1 hour ago"),
        ("2026-03-01T11:00:00Z", "1 day ago"),
        ("2024-01-01T00:00:00Z", "2 years ago"),
        ("2026-03-02T12:00:20Z", "in a moment"),
        ("2026-03-04T12:00:00Z", "in 2 days"),
    ],
)
def test_how_long_ago(text: str, words: str) -> None:
    shown = when(Instant.parse(text), now=NOW)
    assert words in shown
    assert f'datetime="{text}"' in shown


def test_times_that_are_not_known_are_a_dash() -> None:
    assert when(None, now=NOW) == at(None) == "–"
    assert "2026-03-02 12:00 UTC" in at(NOW)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, '<span class="null">null</span>'),
        ("", ""),
        (True, "true"),
        (1.5, "1.5"),
        ({"a": [1, None]}, "{&#34;a&#34;: [1, null]}"),
        ("<b>", "&lt;b&gt;"),
        ("a\u202eb", 'a<span class="sign">U+202E</span>b'),
        ("tab\tand\nline", "tab\tand\nline"),
    ],
)
def test_cells(value: object, shown: str) -> None:
    assert cell(value) == shown


@given(st.text())
def test_a_cell_is_never_markup(text: str) -> None:
    without_signs = re.sub(r'<span class="sign">U\+[0-9A-F]{4}</span>', "", str(cell(text)))
    assert "<" not in without_signs
    assert ">" not in without_signs


@given(st.text(st.sampled_from("<>[]()!#*`_-|:\\\n\"'/ =ascriptjvhno1."), max_size=80))
@example("<script>alert(1)</script>")
@example("[x](javascript:alert(1))")
@example("[x](https://example.org)")
@example("![x](https://example.org/x.png)")
@example("<a href='data:text/html,x'>x</a>")
def test_markdown_of_strangers_can_do_no_harm(text: str) -> None:
    found = str(markdown_html(text))
    assert not re.search(r"<(script|img|iframe|svg|style|form|input|h1|h2)\b", found, re.IGNORECASE)
    assert not re.search(r"<[^>]*\son\w+\s*=", found)
    for link in LINKS.findall(found):
        assert re.match(r"(https?|mailto):|[^:]*$", unescape(link))
    if "<a href=" in found:
        assert 'rel="nofollow noopener noreferrer"' in found


def test_markdown_has_the_forms_that_readmes_use() -> None:
    found = str(
        markdown_html(
            "# Title\n\n**bold** [link](https://example.org)\n\n| a |\n|---|\n| 1 |\n\n- one\n\n```\ncode\n```\n"
        )
    )
    for tag in ("<h3>Title</h3>", "<strong>bold</strong>", "<td>1</td>", "<li>one</li>", "<pre><code>code"):
        assert tag in found
