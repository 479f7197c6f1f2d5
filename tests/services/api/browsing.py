"""A browser of the tests: somebody signed in at a served node, and what they read on its pages."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

import httpx

from odfabric_api.sessions import PLAIN_COOKIE
from tests.services.api.people import People
from tests.services.api.serving import ANSWER_S_MAX, Served
from tests.support.waiting import wait_until


@dataclass(frozen=True, slots=True)
class Site:
    """A served node with people."""

    people: People
    served: Served

    def browser(self, name: str | None) -> httpx.Client:
        """Somebody signed in, or nobody; follows nothing. To be closed by the caller."""
        cookies = {PLAIN_COOKIE: self.people.session(name)} if name else {}
        headers = {"accept": "text/html", "origin": self.served.url, "sec-fetch-site": "same-origin"}
        return httpx.Client(
            base_url=self.served.url, cookies=cookies, headers=headers, trust_env=False, timeout=ANSWER_S_MAX
        )


def text_of(answer: httpx.Response) -> str:
    """What a reader sees, one space between words."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", answer.text)).split())


def alert_of(answer: httpx.Response) -> str:
    """What the page says is wrong, "" if nothing."""
    found = re.search(r'<(section|p|div)[^>]* role="alert".*?</\1>', answer.text, re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", found[0])).split()) if found else ""


def field_of(answer: httpx.Response, name: str) -> str:
    """The text in a textarea or the value of an input."""
    area = re.search(rf'<textarea[^>]* name="{name}"[^>]*>(.*?)</textarea>', answer.text, re.DOTALL)
    if area:
        return html.unescape(area[1])
    tag = re.search(rf'<input[^>]* name="{name}"[^>]*>', answer.text)
    assert tag, f"no field {name}"
    value = re.search(r' value="([^"]*)"', tag[0])
    return html.unescape(value[1]) if value else ""


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
