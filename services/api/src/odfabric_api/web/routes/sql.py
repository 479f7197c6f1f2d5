"""The SQL workbench: a question to the datasets that the visitor may read."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from odfabric.errors import InvalidRequest, OdfError
from odfabric.model.people.saved_query import SavedQuery
from odfabric.ports.engine import ProgressListener
from odfabric.usecases.people.saved_queries import (
    NAME_CHARACTERS_MAX,
    change_query,
    delete_query,
    get_query,
    list_queries,
    may_keep_queries,
    save_query,
)
from odfabric.usecases.queries.query_data import QueryData
from odfabric_api.auth import Anybody, Member, Subject, node_of, querying
from odfabric_api.bodies.forms import read_form
from odfabric_api.capacity import Capacity, while_client_waits
from odfabric_api.page_route import PageRoute
from odfabric_api.web.asking import ask, completed, pins_of
from odfabric_api.web.charts import KINDS, draw_chart, numeric_columns
from odfabric_api.web.exports import EXPORT_NAMES, export_answer
from odfabric_api.web.pages import page, see_other
from odfabric_api.web.problem_places import places_of
from odfabric_api.web.submitted import answered, submitted

router = APIRouter(route_class=PageRoute, include_in_schema=False)

ROWS_SHOWN = 200
ROWS_EXPORTED_MAX = 100_000
_FIELDS = frozenset({"query", "export", "pins", "chart", "x", "y", "name", "saved"})


@router.get("/-/sql")
def get_sql(
    request: Request,
    caller: Anybody,
    query: Annotated[str, Query(max_length=20_000)] = "",
    pins: Annotated[str, Query(max_length=10_000, description="Datasets at blocks, as `account/name@hash`")] = "",
    saved: Annotated[str, Query(max_length=100, description="Id of a saved query of the visitor")] = "",
) -> Response:
    """The editor, with the question of a link or a saved one.

    Nothing runs before somebody asks for it.
    """
    opened = get_query(saved, subject=caller, ports=node_of(request).people) if saved else None
    return _workbench(request, caller, opened.sql if opened else query, pins=pins, opened=opened)


@router.post("/-/sql/saved")
async def post_saved(request: Request, caller: Member) -> Response:
    """Save the question of the editor under `name`.

    The query `saved` again if that is its name, else a new one.
    """
    node = node_of(request)
    form = await read_form(request, _FIELDS, bytes_max=node.settings.query_body_bytes_max)
    name, query, saved = (form.get(field, "") for field in ("name", "query", "saved"))

    def act() -> Response:
        opened = get_query(saved, subject=caller, ports=node.people) if saved else None
        if opened is not None and opened.name == name.strip():
            kept = change_query(opened.id, sql=query, subject=caller, ports=node.people)
        else:
            kept = save_query(name, query, subject=caller, ports=node.people)
        return see_other(f"/-/sql?saved={kept.id}", notice="saved")

    def again(error: OdfError, status: int) -> Response:
        return _workbench(request, caller, query, pins=form.get("pins", ""), error=error, status=status, name=name)

    return await submitted(request, act, again)


@router.post("/-/sql/saved/{query_id}")
async def post_saved_query(
    request: Request, caller: Member, query_id: Annotated[str, Path(max_length=100)]
) -> Response:
    """Do what `action` says with a saved query: `rename` it to `name`, or `delete` it."""
    node = node_of(request)
    form = await read_form(request, frozenset({"action", "name"}))

    def act() -> Response:
        match form.get("action"):
            case "rename":
                change_query(query_id, name=form.get("name", ""), subject=caller, ports=node.people)
                return see_other(f"/-/sql?saved={query_id}", notice="renamed")
            case "delete":
                delete_query(query_id, subject=caller, ports=node.people)
                return see_other("/-/sql", notice="deleted")
            case other:
                raise InvalidRequest(f"unknown action {other!r}", hint="rename or delete")

    def again(error: OdfError, status: int) -> Response:
        return _workbench(request, caller, "", error=error, status=status)

    return await submitted(request, act, again)


@router.post("/-/sql")
async def post_sql(request: Request, caller: Anybody) -> Response:
    """Run the question.

    `export` is empty for a page, or the kind of a file, one of EXPORT_NAMES.
    """
    node = node_of(request)
    form = await read_form(request, _FIELDS, bytes_max=node.settings.query_body_bytes_max)
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
    opened: SavedQuery | None = None,
    name: str = "",
) -> Response:
    ports = node_of(request).people
    may_keep = may_keep_queries(caller, ports=ports)
    values = {
        "may_keep": may_keep,
        "kept": list_queries(subject=caller, ports=ports) if may_keep else (),
        "opened": opened,
        "kept_name": name or (opened.name if opened else ""),
        "name_characters_max": NAME_CHARACTERS_MAX,
        "query": query,
        "pins": pins,
        "answer": answer,
        "chart": draw_chart(answer["names"], answer["rows"], **(chart or {})) if answer else None,
        "numeric": numeric_columns(answer["names"], answer["rows"]) if answer else [],
        "chart_kinds": KINDS,
        "exports": EXPORT_NAMES,
        "chart_asked": bool(chart and chart["kind"]),
        "problems": places_of(error, in_query=True),
        "known": completed(request, caller),
    }
    return page(request, "sql.html", values, status=status, editor=True)
