"""Markdown of strangers as HTML that can do no harm.

Invariant: no HTML of the text itself passes, links lead to http, https and mailto only, and nothing is loaded from elsewhere - images are
shown as links.
"""

from __future__ import annotations

import functools

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup

_TAGS = {
    *("a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre"),
    *("s", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}}
CHARACTERS_MAX = 200_000
"""Longest text that is rendered; what is longer is cut."""


def markdown_html(text: str) -> Markup:
    """The text as HTML. Headings begin two levels down: the page has its own."""
    rendered = _parser().render(text[:CHARACTERS_MAX])
    clean = nh3.clean(
        rendered,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        url_schemes={"http", "https", "mailto"},
        link_rel="nofollow noopener noreferrer",
    )
    for level in (4, 3, 2, 1):
        clean = clean.replace(f"<h{level}>", f"<h{level + 2}>").replace(f"</h{level}>", f"</h{level + 2}>")
    return Markup(clean)


@functools.cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    # An image would tell somebody else who reads this page; the policy of the page refuses it anyway.
    return parser.disable(["image"])
