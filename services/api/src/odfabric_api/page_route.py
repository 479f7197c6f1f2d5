"""Routes that answer people with pages, not programs with data.

A page has the same policies as any other route; only how refusals look differs (`web.problem_pages`).
"""

from __future__ import annotations

from fastapi import Request
from fastapi.routing import APIRoute


class PageRoute(APIRoute):
    """A route whose answer is HTML. It is no part of the OpenAPI document."""


def is_page(request: Request) -> bool:
    """Whether the request was routed to a page."""
    return isinstance(request.scope.get("route"), PageRoute)
