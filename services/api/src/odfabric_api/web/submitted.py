"""The outcome of a form: done, or shown again with its values and errors.

Owns which refusals are shown in the form. Others - a node that is broken, a program that asked - are answered as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable

from anyio import to_thread
from fastapi import Request
from starlette.responses import Response

from odfabric.errors import InvalidRequest, OdfError, Place
from odfabric_api.page_route import shows_page
from odfabric_api.problems import problem_status
from odfabric_api.refusals import audit_task

Again = Callable[[OdfError, int], Response]
"""Shows the form again: the refusal, and the status of the answer."""


async def submitted(request: Request, act: Callable[[], Response], again: Again) -> Response:
    """The answer of `act`, or the form again. Raises what no form can show."""
    return await to_thread.run_sync(lambda: answered(request, act, again))


def answered(request: Request, act: Callable[[], Response], again: Again) -> Response:
    """The same where the route runs in a thread already."""
    try:
        return act()
    except OdfError as error:
        return shown_again(request, error, again)


def shown_again(request: Request, error: OdfError, again: Again) -> Response:
    """The form again after a refusal. Raises the error if no form can show it."""
    status = problem_status(error)
    if status >= 500 or not shows_page(request):
        raise error
    shown = again(error, status)
    shown.background = audit_task(request, error)
    return shown


def version_in(form: dict[str, str]) -> int | None:
    """The version that the form was made from, None if it does not say.

    Raises InvalidRequest.
    """
    text = form.get("version", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidRequest("not a version", place=Place(field="version"), hint="open the page again")
    return int(text)


def check_typed(form: dict[str, str], name: str) -> None:
    """Raises InvalidRequest unless the typed name confirms the deletion."""
    if form.get("confirm", "").strip() != name:
        raise InvalidRequest(
            "the name that was typed is another one", place=Place(field="confirm"), hint=f"type {name} to confirm"
        )
