"""Refusals and failures as pages: what happened, where, and what to do.

The same words as the problem document.
"""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from fastapi import Request
from starlette.responses import RedirectResponse, Response

from odfabric.errors import OdfError, Unauthenticated
from odfabric.usecases.jobs.problem import problem_document
from odfabric_api.problems import status_of
from odfabric_api.web.pages import page


def problem_page(request: Request, error: OdfError) -> Response:
    """The page of an error; somebody who only has to sign in is led there and back."""
    if isinstance(error, Unauthenticated) and "authorization" not in request.headers:
        # Whoever sent a form goes back to the page that it was on.
        back = urlsplit(str(request.url) if request.method == "GET" else request.headers.get("referer", "/"))
        then = quote(f"{back.path}?{back.query}" if back.query else back.path)
        return RedirectResponse(f"/login?then={then}", status_code=303)
    document = problem_document(error)
    return plain_problem_page(
        request,
        status_of(document),
        str(document["code"]),
        str(document["detail"]),
        hint=error.hint,
    )


def plain_problem_page(request: Request, status: int, code: str, message: str, *, hint: str | None = None) -> Response:
    """The page of a failure that has no error of the tree."""
    return page(
        request, "problem.html", {"code": code, "message": message, "hint": hint, "status": status}, status=status
    )
