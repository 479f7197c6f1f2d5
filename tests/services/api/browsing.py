"""People's browsers on a served node: session cookies, forms, and page requests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape

import httpx

from odfabric_api.sessions import PLAIN_COOKIE
from tests.services.api.people import People
from tests.services.api.serving import ANSWER_S_MAX, Served, serving
from tests.support.waiting import wait_until

HOSTILE = '<script>alert("1")</script>'


@dataclass(frozen=True, slots=True)
class Browsers:
    """A node with people, and the browsers in which they are signed in."""

    people: People
    served: Served

    def open(self, name: str | None) -> httpx.Client:
        """A browser with a new session of somebody, or with none.

        To be closed by the caller.
        """
        cookies = {PLAIN_COOKIE: self.people.session(name)} if name else {}
        headers = {
            "accept": "text/html,application/xhtml+xml",
            "origin": self.served.url,
            "sec-fetch-site": "same-origin",
            "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
        }
        return httpx.Client(
            base_url=self.served.url,
            cookies=cookies,
            headers=headers,
            trust_env=False,
            timeout=ANSWER_S_MAX,
            verify=False,
        )


@contextmanager
def browsing(people: People) -> Iterator[Browsers]:
    """Serve the node of `people`."""
    with serving(people.node) as served:
        yield Browsers(people, served)


def text_of(answer: httpx.Response) -> str:
    """What a reader sees, one space between words."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", answer.text)).split())


def alert_of(answer: httpx.Response) -> str:
    """What the page says is wrong, "" if nothing."""
    found = re.search(r'<(section|p|div)[^>]* role="alert".*?</\1>', answer.text, re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", found[0])).split()) if found else ""


def field(answer: httpx.Response, name: str) -> str:
    """The text in a textarea or the value of an input."""
    area = re.search(rf'<textarea[^>]* name="{name}"[^>]*>(.*?)</textarea>', answer.text, re.DOTALL)
    if area:
        return unescape(area[1])
    tag = re.search(rf'<input[^>]* name="{name}"[^>]*>', answer.text)
    assert tag, f"no field {name}"
    value = re.search(r' value="([^"]*)"', tag[0])
    return unescape(value[1]) if value else ""


def job_done(browser: httpx.Client, answer: httpx.Response) -> httpx.Response:
    """The page of a job to which an action leads, once the job has ended."""
    assert answer.status_code == 303, answer.text
    path = answer.headers["location"]

    def ended() -> httpx.Response | None:
        shown = browser.get(path)
        assert shown.status_code == 200
        return None if 'http-equiv="refresh"' in shown.text else shown

    found = wait_until(ended, what="the job")
    assert found is not None
    return found
