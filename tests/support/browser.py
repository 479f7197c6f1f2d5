"""A test browser: pages, cookies, and forms with their hidden fields."""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.parse import urljoin

import httpx

ANSWER_S_MAX = 30.0


class _FirstForm(HTMLParser):
    """Where a page's first form goes, how, and its initial values."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.action: str | None = None
        self.method = "get"
        self.fields: dict[str, str] = {}
        self.names: set[str] = set()
        self._inside = False
        self._in_main = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._in_main = self._in_main or tag == "main"
        if tag == "form" and self._in_main and self.action is None:
            self.action, self.method, self._inside = given.get("action", ""), given.get("method", "get"), True
        elif self._inside and tag in ("input", "button") and "name" in given:
            self.names.add(given["name"])
            if tag == "input" and "value" in given:
                self.fields[given["name"]] = given["value"]

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "form"


class Browser:
    """One person's browser."""

    def __init__(self) -> None:
        self._http = httpx.Client(follow_redirects=True, timeout=ANSWER_S_MAX, trust_env=False)
        self.page: httpx.Response | None = None

    def close(self) -> None:
        """End the connections."""
        self._http.close()

    def open(self, url: str) -> httpx.Response:
        """Go to a page."""
        self.page = self._http.get(url)
        return self.page

    def send(self, **given: str) -> httpx.Response:
        """Fill the form of the page in and send it.

        A button is given as the field that it is.
        """
        page = self.page
        assert page is not None
        form = _FirstForm(page.text)
        assert form.action is not None, page.text
        assert set(given) <= form.names, (given, form.names)
        fields, address = {**form.fields, **given}, urljoin(str(page.url), form.action)
        origin = str(page.url.copy_with(raw_path=b"")).rstrip("/")
        if form.method == "get":
            self.page = self._http.get(address, params=fields)
        else:
            self.page = self._http.post(address, data=fields, headers={"origin": origin})
        return self.page
