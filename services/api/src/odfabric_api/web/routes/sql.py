"""The SQL workbench: a question to the datasets that the visitor may read, and its answer."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from odfabric.errors import OdfError
from odfabric.ports.engine import ProgressListener
from odfabric.usecases.query_data import QueryData
from odfabric_api.auth import Anybody, Subject, node_of, querying
from odfabric_api.capacity import Capacity, while_client_waits
from odfabric_api.forms import read_form
from odfabric_api.page_route import PageRoute
from odfabric_api.web.asking import ask, completed, pins_of
from odfabric_api.web.charts import KINDS, draw_chart, numeric_columns
from odfabric_api.web.exports import EXPORTS, export_answer
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
    """Run the question. `export` is empty for a page, or the kind of a file, one of EXPORTS."""
    node = node_of(request)
    form = await read_form(
        request, frozenset({"query", "export", "pins", "chart", "x", "y"}), bytes_max=node.settings.query_body_bytes_max
    )
    query, export, pins = (form.get(name, "") for name in ("query", "export", "pins"))
    chart = {name: form.get(field, "") for name, field in (("kind", "chart"), ("x", "x"), ("y", "y"))}
    capacity: Capacity = request.app.state.capacity

    def act(listener: ProgressListener) -> Response:
        if not query.strip():
            return _workbench(request, caller, query, pins=pins)
        pinned = pins_of(request, caller, pins)
        if export:
            asked = QueryData(sql=query, datasets=pinned, limit=ROWS_EXPORTED_MAX)
            return export_answer(request, caller, asked, kind=export, listener=listener)
        answer = ask(request, caller, query, limit=ROWS_SHOWN, pins=pinned, listener=listener)
        return _workbench(request, caller, query, pins=pins, answer=answer, chart=chart)

    def again(error: OdfError, status: int) -> Response:
        return _workbench(request, caller, query, pins=pins, error=error, status=status)

    with querying(request, caller):
        async with while_client_waits(request) as listener:
            return await capacity.run_query(lambda: answered(request, lambda: act(listener), again))


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
        "exports": {kind: export.name for kind, export in EXPORTS.items()},
        "chart_asked": bool(chart and chart["kind"]),
        "problems": places_of(error, in_query=True),
        "known": completed(request, caller),
    }
    return page(request, "sql.html", values, status=status, editor=True)
