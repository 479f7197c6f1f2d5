"""The page of a bug of ours.

It needs no template, for a template may be what is broken.
"""

from __future__ import annotations

from starlette.responses import HTMLResponse

_PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    "<title>Something is broken here</title><main><h1>Something is broken here</h1>"
    "<p>The node could not make this page. Nothing of yours is lost; its log says what happened.</p>"
    '<p><a href="/">All datasets</a></p></main></html>'
)


def broken_page() -> HTMLResponse:
    """Says that it is not the reader's fault."""
    return HTMLResponse(_PAGE, status_code=500, headers={"cache-control": "no-store"})
