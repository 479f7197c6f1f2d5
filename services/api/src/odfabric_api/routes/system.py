"""Routes about the node itself.

Health, info and the list of routes, which are everybody's, and metrics, which are not.
"""

from __future__ import annotations

import base64
import hashlib
import html

from anyio import to_thread
from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from starlette.responses import HTMLResponse, Response

from odfabric.wiring.upkeep.duties import SeenDuty
from odfabric_api.asyncapi import document
from odfabric_api.auth import Admin, node_of
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.schemas import DutyList, Health, NodeInfo, answers
from odfabric_api.health import health_report

router = APIRouter(tags=["node"])

_STYLE = "body{font-family:sans-serif;margin:2em}td{padding:.2em 1em .2em 0;font-family:monospace}"
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
PAGE_HEADERS = {
    "content-security-policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; frame-ancestors 'none'",
}


@router.get(
    "/system/health",
    summary="Whether the node can serve",
    responses=answers(Health, text="It can", also={503: Health}),
)
async def health(request: Request) -> Response:
    """200 if database and objects answer in time, else 503 naming the part."""
    report = await health_report(request)
    return JsonAnswer(report, status_code=200 if report["ok"] else 503)


@router.get(
    "/system/metrics",
    summary="What the api process tells about itself",
    responses={
        **answers(None),
        200: {
            "description": "The text format of Prometheus",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
    },
)
async def metrics(request: Request, caller: Admin) -> Response:
    """Jobs that wait, calls of stores, the process itself.

    A worker gives its own at `ODF_WORKER_METRICS_PORT`.
    """
    text = await to_thread.run_sync(node_of(request).status.metrics)
    return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)


@router.get(
    "/system/duties",
    summary="What workers do for the node as a whole",
    responses=answers(DutyList, text="Each duty, with the last report of any worker"),
)
async def duties(request: Request, caller: Admin) -> Response:
    """Duties: `silent` if not reported for minutes, `fails` after a failed round.

    A duty is `silent` when no worker has reported it for minutes, and `fails` while its last round failed.
    """
    found = await to_thread.run_sync(node_of(request).duties.seen)
    return JsonAnswer({"duties": [_duty(each) for each in found]})


def _duty(seen: SeenDuty) -> dict[str, object]:
    report = seen.report
    return {
        "duty": seen.duty.value,
        "state": seen.state.value,
        "reportedAt": str(report.at) if report else None,
        "worker": report.worker if report else None,
        "error": report.error if report else None,
        "failingSince": str(report.failing_since) if report and report.failing_since else None,
    }


@router.get("/info", summary="What kind of node this is", responses=answers(NodeInfo, text="The node"))
async def info() -> Response:
    """Datasets of this node are addressed by account and name."""
    return JsonAnswer({"isMultiTenant": True})


@router.get("/asyncapi.json", include_in_schema=False)
def asyncapi() -> Response:
    """The AsyncAPI document of webhooks."""
    return JsonAnswer(document())


@router.get("/docs", include_in_schema=False)
def docs(request: Request) -> Response:
    """All routes on one page, made from the OpenAPI document.

    No script, nothing from elsewhere.
    """
    rows = []
    for path, methods in request.app.openapi()["paths"].items():
        for method, operation in methods.items():
            cells = (method.upper(), path, operation.get("summary", ""))
            rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    page = (
        "<!doctype html><html lang=en><meta charset=utf-8><title>odfabric API</title>"
        f"<style>{_STYLE}</style>"
        "<h1>odfabric API</h1><p>Machine readable: <a href=/openapi.json>/openapi.json</a>, webhooks "
        "<a href=/asyncapi.json>/asyncapi.json</a></p>"
        f"<table>{''.join(rows)}</table></html>"
    )
    return HTMLResponse(page, headers=PAGE_HEADERS)
