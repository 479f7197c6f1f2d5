"""Routes that answer people with pages, not programs with data.

A page has the same policies as any other route, and refuses in the same words; only a browser, which asks for HTML, is shown them as a page
(`web.problem_pages`). Programs are answered with the same problem document as everywhere.
"""

from __future__ import annotations

from fastapi import Request
from fastapi.routing import APIRoute


class PageRoute(APIRoute):
    """A route whose answer is HTML. It is no part of the OpenAPI document."""


def shows_page(request: Request) -> bool:
    """Whether a browser asked for a page, so that a refusal is shown as one."""
    return isinstance(request.scope.get("route"), PageRoute) and "text/html" in request.headers.get("accept", "")
