"""The node for its admins.

What there is and how it fares, the settings in force, and who may do what and why.
"""

from __future__ import annotations

from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from odfabric import __version__
from odfabric.errors import OdfError
from odfabric.formats.identifiers.references import parse_dataset_ref
from odfabric.model.engine import EngineInfo
from odfabric.usecases.maintenance.survey_litter import LOOK_S_MAX, Surveyed, survey_litter
from odfabric.usecases.people.explain import Explained, explain
from odfabric.wiring.monitoring.overview import COUNTED_MAX, overview, places
from odfabric.wiring.operations.settings_in_force import settings_in_force
from odfabric_api.auth import Admin, node_of
from odfabric_api.capacity import Capacity
from odfabric_api.health import engine_report, health_report
from odfabric_api.page_route import PageRoute
from odfabric_api.web.pages import page
from odfabric_api.web.submitted import answered

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/-/admin")
async def get_overview(request: Request, caller: Admin) -> Response:
    """Numbers, and whether every part answers.

    A part that does not is said not to, and the page comes.
    """
    health = await health_report(request)
    engine: EngineInfo | None = None
    engine_answers = True
    try:
        engine = await engine_report(request)
    except (OdfError, TimeoutError):
        engine_answers = False
    counts = await to_thread.run_sync(lambda: overview(node_of(request).ports)) if health["ok"] else None
    values: dict[str, Any] = {
        "health": health,
        "counts": counts,
        "duties": await to_thread.run_sync(node_of(request).duties.seen) if health["ok"] else (),
        "places": await to_thread.run_sync(places, node_of(request).settings),
        "counted_max": COUNTED_MAX,
        "engine": engine,
        "engine_answers": engine_answers,
        "version": __version__,
        "tab": "overview",
    }
    return page(request, "admin/overview.html", values)


@router.get("/-/admin/storage")
async def get_storage(
    request: Request, caller: Admin, look: Annotated[bool, Query(description="Look at the objects now")] = False
) -> Response:
    """Objects that nothing names: what the collector would delete if it ran now.

    Nothing is deleted here.
    """
    capacity: Capacity = request.app.state.capacity
    node = node_of(request)

    def survey() -> Surveyed | None:
        return survey_litter(node.objects.collect(dry_run=True), clock=node.ports.clock) if look else None

    found = await capacity.run_query(survey)
    values = {"found": found, "look_s_max": LOOK_S_MAX, "tab": "storage"}
    return page(request, "admin/storage.html", values)


@router.get("/-/admin/settings")
def get_settings(
    request: Request, caller: Admin, q: Annotated[str, Query(max_length=100, description="Part of a name")] = ""
) -> Response:
    """Settings of this process, without secrets."""
    found = settings_in_force(node_of(request).settings)
    words = q.lower().split()
    shown = [each for each in found if all(word in f"{each.variable} {each.description}".lower() for word in words)]
    return page(request, "admin/settings.html", {"settings": shown, "q": q, "tab": "settings"})


@router.get("/-/admin/rights")
def get_rights(
    request: Request,
    caller: Admin,
    account: Annotated[str, Query(max_length=100, description="Name; empty: a stranger")] = "",
    dataset: Annotated[str, Query(max_length=250, description="`account/name` or id")] = "",
) -> Response:
    """What an account may do with a dataset and why, by the policy of requests."""

    def shown(found: Explained | None, refusal: OdfError | None = None, status: int = 200) -> Response:
        asked = {"account": account, "dataset": dataset}
        values = {**asked, "found": found, "refusal": refusal, "tab": "rights"}
        return page(request, "admin/rights.html", values, status=status)

    def ask() -> Response:
        if not dataset:
            return shown(None)
        node = node_of(request)
        entry = node.datasets.resolve(parse_dataset_ref(dataset.strip()))
        return shown(explain(entry, account.strip() or None, subject=caller, ports=node.people))

    return answered(request, ask, lambda error, status: shown(None, error, status))
