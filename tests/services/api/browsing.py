"""Browsers of people on a served node: signed in by a cookie, sending what a browser sends with a form, asking for pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape

import httpx

from odfabric_api.sessions import PLAIN_COOKIE
from tests.services.api.people import People
from tests.services.api.serving import Served, serving

HOSTILE = '<script>alert("1")</script>'


@dataclass(frozen=True, slots=True)
class Browsers:
    """A node with people, and the browsers in which they are signed in."""

    people: People
    served: Served

    def open(self, name: str | None) -> httpx.Client:
        """A browser in which somebody is signed in anew, or nobody; to be closed by the caller."""
        cookies = {PLAIN_COOKIE: self.people.session(name)} if name else {}
        headers = {
            "accept": "text/html,application/xhtml+xml",
            "origin": self.served.url,
            "sec-fetch-site": "same-origin",
            "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
        }
        return httpx.Client(base_url=self.served.url, cookies=cookies, headers=headers, trust_env=False, timeout=20)


@contextmanager
def browsing(people: People) -> Iterator[Browsers]:
    """Serve the node of `people`."""
    with serving(people.node) as served:
        yield Browsers(people, served)


def text_of(answer: httpx.Response) -> str:
    """What a reader sees, one space between words."""
    without_tags = re.sub(r"<[^>]*>", " ", answer.text)
    return " ".join(unescape(without_tags).split())


def alert_of(answer: httpx.Response) -> str:
    """What the page says went wrong; empty if nothing did."""
    found = re.search(r'role="alert">(.*?)</(?:div|p)>\n', answer.text, re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", found[1])).split()) if found else ""


def field(answer: httpx.Response, name: str) -> str:
    """The value of the first input of a name."""
    found = re.search(rf'<input[^>]* name="{name}"[^>]*', answer.text)
    assert found is not None, name
    value = re.search(r' value="([^"]*)"', found[0])
    return unescape(value[1]) if value else ""
