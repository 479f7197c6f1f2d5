"""New derivative datasets: SQL over readable datasets, judged while written."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from odfabric.errors import OdfError
from odfabric.formats.manifests.manifest_yaml import dump_yaml, snapshot_to_manifest
from odfabric.formats.slices.type_names import type_name
from odfabric.model.data_schema import DataTypeOption
from odfabric.model.engine import KeptBy, ValidateResult
from odfabric.model.jobs.job import Job
from odfabric.model.jobs.requests import PullRequest
from odfabric.model.manifest import DatasetSnapshot
from odfabric.wiring.composed.drafts import DraftVerbs
from odfabric_api.auth import Member, Subject, node_of, querying
from odfabric_api.bodies.forms import read_form
from odfabric_api.capacity import Capacity
from odfabric_api.page_route import PageRoute
from odfabric_api.web.asking import completed
from odfabric_api.web.new_dataset import OWNER_FIELDS, alias_of, owner_values, visibility_of
from odfabric_api.web.pages import page, see_other
from odfabric_api.web.problem_places import places_of
from odfabric_api.web.submitted import answered

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_FIELDS = frozenset({"name", "sql", "action"}) | OWNER_FIELDS


@router.get("/-/new/sql")
def get_new_sql(request: Request, caller: Member, sql: str = "") -> Response:
    """The form, with the query of a link."""
    return _screen(request, caller, {"sql": sql[:20_000]})


@router.post("/-/new/sql")
async def post_new_sql(request: Request, caller: Member) -> Response:
    """With `action=check` it only judges the query.

    Else it makes the dataset and leads to the job of its first update.
    """
    node = node_of(request)
    form = await read_form(request, _FIELDS, bytes_max=node.settings.query_body_bytes_max)
    capacity: Capacity = request.app.state.capacity

    def act() -> Response:
        snapshot = DraftVerbs(node).draft(alias_of(form), form.get("sql", ""), by=caller)
        if form.get("action") == "check":
            result = DraftVerbs(node).judge(snapshot, by=caller)
            return _screen(request, caller, form, judged=_judged(snapshot, result))
        return see_other(f"/-/jobs/{_made(request, caller, form, snapshot).id}")

    def again(error: OdfError, status: int) -> Response:
        return _screen(request, caller, form, error=error, status=status)

    # The engine judges it, as it does queries.
    with querying(request, caller):
        return await capacity.run_query(lambda: answered(request, act, again))


def _made(request: Request, caller: Subject, form: dict[str, str], snapshot: DatasetSnapshot) -> Job:
    node = node_of(request)
    entry, _ = node.datasets.create(snapshot, caller, visibility=visibility_of(form))
    return node.requests.pull(PullRequest(dataset=entry.id, alias=entry.alias), by=caller)


def _judged(snapshot: DatasetSnapshot, result: ValidateResult) -> dict[str, Any]:
    """What the engine says of an accepted query, for people."""
    schema = result.data_schema
    return {
        "columns": [
            {"name": field.name, "type": type_name(field.type), "is_optional": isinstance(field.type, DataTypeOption)}
            for field in (schema.fields if schema else ())
        ],
        "class": result.operator_class,
        "keys": result.keys,
        "operators": result.operators,
        "states": [
            {"is_groups": each.kept is KeptBy.GROUPS, "keys": each.keys, "relations": each.relations}
            for each in result.states
        ],
        "notes": result.notes,
        "evolution": result.evolution,
        "manifest": dump_yaml(snapshot_to_manifest(snapshot)),
    }


def _screen(
    request: Request,
    caller: Subject,
    form: dict[str, str],
    *,
    judged: dict[str, Any] | None = None,
    error: OdfError | None = None,
    status: int = 200,
) -> Response:
    values = {
        "name": form.get("name", ""),
        "sql": form.get("sql", ""),
        "judged": judged,
        "problems": places_of(error, in_query=True),
        "known": completed(request, caller),
        **owner_values(request, caller, form),
    }
    return page(request, "publish/new_sql.html", values, status=status, editor=True)
