"""The SQL workbench: a question to the datasets that the visitor may read, and its answer."""

from __future__ import annotations

import csv
import io
import json
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from odfabric.errors import OdfError
from odfabric_api.auth import Anybody, Subject, node_of, querying
from odfabric_api.capacity import Capacity
from odfabric_api.forms import read_form
from odfabric_api.page_route import PageRoute
from odfabric_api.web.asking import ask, completed, pins_of
from odfabric_api.web.charts import KINDS, draw_chart, numeric_columns
from odfabric_api.web.pages import page
from odfabric_api.web.problem_places import places_of
from odfabric_api.web.submitted import answered

router = APIRouter(route_class=PageRoute, include_in_schema=False)

ROWS_SHOWN = 200
ROWS_EXPORTED_MAX = 100_000


@router.get("/-/sql")
def get_sql(
    request: Request,
    caller: Anybody,
    query: Annotated[str, Query(max_length=20_000)] = "",
    pins: Annotated[str, Query(max_length=10_000, description="Datasets at blocks, as `account/name@hash`")] = "",
) -> Response:
    """The editor, with the question of a link. Nothing runs before somebody asks for it."""
    return _workbench(request, caller, query, pins=pins)


@router.post("/-/sql")
async def post_sql(request: Request, caller: Anybody) -> Response:
    """Run the question. `export` is empty for a page, or `csv` or `json` for a file."""
    node = node_of(request)
    form = await read_form(
        request, frozenset({"query", "export", "pins", "chart", "x", "y"}), bytes_max=node.settings.query_body_bytes_max
    )
    query, export, pins = (form.get(name, "") for name in ("query", "export", "pins"))
    limit = ROWS_EXPORTED_MAX if export else ROWS_SHOWN
    chart = {name: form.get(field, "") for name, field in (("kind", "chart"), ("x", "x"), ("y", "y"))}
    capacity: Capacity = request.app.state.capacity

    def act() -> Response:
        if not query.strip():
            return _workbench(request, caller, query, pins=pins)
        answer = ask(request, caller, query, limit=limit, pins=pins_of(request, caller, pins))
        if export:
            return _exported(answer, export)
        return _workbench(request, caller, query, pins=pins, answer=answer, chart=chart)

    def again(error: OdfError, status: int) -> Response:
        return _workbench(request, caller, query, pins=pins, error=error, status=status)

    with querying(request, caller):
        return await capacity.run_query(lambda: answered(request, act, again))


def _workbench(
    request: Request,
    caller: Subject,
    query: str,
    *,
    pins: str = "",
    answer: dict[str, Any] | None = None,
    chart: dict[str, str] | None = None,
    error: OdfError | None = None,
    status: int = 200,
) -> Response:
    values = {
        "query": query,
        "pins": pins,
        "answer": answer,
        "chart": draw_chart(answer["names"], answer["rows"], **(chart or {})) if answer else None,
        "numeric": numeric_columns(answer["names"], answer["rows"]) if answer else [],
        "chart_kinds": KINDS,
        "chart_asked": bool(chart and chart["kind"]),
        "problems": places_of(error, in_query=True),
        "known": completed(request, caller),
    }
    return page(request, "sql.html", values, status=status, editor=True)


def _exported(answer: dict[str, Any], export: str) -> Response:
    names, rows = answer["names"], answer["rows"]
    if export == "json":
        text = json.dumps([dict(zip(names, row, strict=True)) for row in rows], ensure_ascii=False)
        return _file(text, "application/json", "result.json")
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow(names)
    writer.writerows(rows)
    return _file(written.getvalue(), "text/csv; charset=utf-8", "result.csv")


def _file(text: str, media_type: str, name: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(text.encode(), media_type=media_type, headers=headers)
