"""Routes about the node itself: health, info, the list of routes."""

from __future__ import annotations

import html

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from odfabric_api.auth import node_of

router = APIRouter(tags=["node"])

PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
}


@router.get("/system/health", summary="Whether the node can serve")
def health(request: Request) -> Response:
    """200 if database and objects answer; the engine is named apart, because reading does not need it."""
    report = node_of(request).health()
    return JSONResponse(report, status_code=200 if report["ok"] else 503)


@router.get("/info", summary="What kind of node this is")
def info() -> dict[str, bool]:
    """Datasets of this node are addressed by account and name."""
    return {"isMultiTenant": True}


@router.get("/docs", include_in_schema=False)
def docs(request: Request) -> Response:
    """All routes on one page, made from the OpenAPI document; no script, nothing from elsewhere."""
    rows = []
    for path, methods in request.app.openapi()["paths"].items():
        for method, operation in methods.items():
            cells = (method.upper(), path, operation.get("summary", ""))
            rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    page = (
        "<!doctype html><html lang=en><meta charset=utf-8><title>odfabric API</title>"
        "<style>body{font-family:sans-serif;margin:2em}td{padding:.2em 1em .2em 0;font-family:monospace}</style>"
        "<h1>odfabric API</h1><p>Machine readable: <a href=/openapi.json>/openapi.json</a></p>"
        f"<table>{''.join(rows)}</table></html>"
    )
    return HTMLResponse(page, headers=PAGE_HEADERS)
