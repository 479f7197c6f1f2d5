"""Flows of the node and of one dataset; set, paused, run, cancelled by forms."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from odfabric.errors import OdfError
from odfabric.formats.manifests.flow_rule import parse_rule, rule_value
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.flow import Every, FlowKind, FlowRule
from odfabric.usecases.flows.change_flows import kinds_of
from odfabric_api.auth import Caller, Member, Subject, WritableDataset, node_of
from odfabric_api.bodies.forms import read_form
from odfabric_api.page_route import PageRoute
from odfabric_api.web.dataset_page import dataset_frame
from odfabric_api.web.flow_views import flow_views
from odfabric_api.web.pages import dataset_path, page, see_other
from odfabric_api.web.problem_places import places_of
from odfabric_api.web.submitted import submitted, version_in

router = APIRouter(route_class=PageRoute, include_in_schema=False)

Kind = Annotated[FlowKind, Path()]
RunId = Annotated[str, Path(max_length=100)]

DAILY = Every(86_400)
"""What the form of a flow proposes that is not there yet."""

FIELDS = frozenset(
    {
        *("version", "trigger", "every", "cron", "zone", "records", "wait"),
        *("attempts", "pause", "backoff", "overlap", "late", "failures", "uncacheable", "recompute"),
    }
)


@router.get("/-/flows")
def get_flows(request: Request, caller: Member) -> Response:
    """The flows of all datasets that the visitor may change, those at work first."""
    views = flow_views(request, caller, node_of(request).flows.all(by=caller))
    return page(request, "flows/flows.html", {"flows": views})


@router.get("/{account}/{dataset}/-/flows")
def get_dataset_flows(
    request: Request,
    entry: WritableDataset,
    caller: Caller,
    live: Annotated[Literal["yes", "no"], Query(description="Whether the page loads itself again")] = "no",
) -> Response:
    """The flows of one dataset with their last runs, and the forms that change them."""
    return _shown(request, entry, caller, {}, is_live=live == "yes")


@router.post("/{account}/{dataset}/-/flows/{kind}")
async def post_flow(request: Request, entry: WritableDataset, caller: Caller, kind: Kind) -> Response:
    """Make the flow, or put it under another rule."""
    form = await read_form(request, FIELDS)

    def act() -> Response:
        version = version_in(form)
        node_of(request).flows.set(entry, kind, _rule(form), by=caller, if_version=version)
        return see_other(dataset_path(entry, "flows"), notice="flow-set")

    return await submitted(
        request, act, lambda error, status: _shown(request, entry, caller, form, kind=kind, error=error, status=status)
    )


@router.post("/{account}/{dataset}/-/flows/{kind}/pause")
async def post_pause(request: Request, entry: WritableDataset, caller: Caller, kind: Kind) -> Response:
    """Start no runs any more."""
    act = partial(node_of(request).flows.pause, entry, kind, by=caller)
    return await _done(request, entry, act, notice="flow-paused")


@router.post("/{account}/{dataset}/-/flows/{kind}/resume")
async def post_resume(request: Request, entry: WritableDataset, caller: Caller, kind: Kind) -> Response:
    """Start runs again."""
    act = partial(node_of(request).flows.resume, entry, kind, by=caller)
    return await _done(request, entry, act, notice="flow-resumed")


@router.post("/{account}/{dataset}/-/flows/{kind}/run")
async def post_run(request: Request, entry: WritableDataset, caller: Caller, kind: Kind) -> Response:
    """Have it run as soon as possible."""
    act = partial(node_of(request).flows.run_now, entry, kind, by=caller)
    return await _done(request, entry, act, notice="flow-run")


@router.post("/{account}/{dataset}/-/flows/{kind}/remove")
async def post_removal(request: Request, entry: WritableDataset, caller: Caller, kind: Kind) -> Response:
    """Remove it with its list of runs."""
    act = partial(node_of(request).flows.remove, entry, kind, by=caller)
    return await _done(request, entry, act, notice="flow-removed")


@router.post("/-/runs/{run_id}/cancel")
async def post_cancel(request: Request, caller: Member, run_id: RunId) -> Response:
    """End a run."""
    await read_form(request, frozenset())

    def act() -> Response:
        flows = node_of(request).flows
        flows.cancel(run_id, by=caller)
        _, entry = flows.run(run_id, by=caller)
        return see_other(dataset_path(entry, "flows"), notice="run-cancelled")

    return await to_thread.run_sync(act)


async def _done(request: Request, entry: CatalogEntry, act: Callable[[], object], *, notice: str) -> Response:
    """After a form that has nothing but its button."""
    await read_form(request, frozenset())
    await to_thread.run_sync(act)
    return see_other(dataset_path(entry, "flows"), notice=notice)


def _rule(form: dict[str, str]) -> FlowRule:
    """The rule that the form says; what the form does not say has its default.

    Raises InvalidRequest.
    """
    triggers: dict[str, dict[str, object]] = {
        "every": {"every": form.get("every", "")},
        "cron": {"cron": form.get("cron", ""), "timeZone": form.get("zone") or "UTC"},
        "inputs": {"onInputs": {"records": _number(form.get("records")), "wait": form.get("wait") or "0s"}},
    }
    value: dict[str, object] = {
        "trigger": triggers.get(form.get("trigger", ""), {}),
        "retry": {
            "attempts": _number(form.get("attempts")),
            "pause": form.get("pause", ""),
            "backoff": form.get("backoff", ""),
        },
        "overlap": form.get("overlap", ""),
        "latestStart": form.get("late") or None,
        "stopAfterFailures": _number(form["failures"]) if form.get("failures") else None,
        "fetchUncacheable": "uncacheable" in form,
        "recompute": "recompute" in form,
    }
    return parse_rule(value)


def _number(text: str | None) -> object:
    """The number of a field; another text stays one, and is refused by its name."""
    if not text:
        return 0
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text


def _shown(
    request: Request,
    entry: CatalogEntry,
    caller: Subject,
    form: dict[str, str],
    *,
    kind: FlowKind | None = None,
    error: OdfError | None = None,
    status: int = 200,
    is_live: bool = False,
) -> Response:
    node = node_of(request)
    views = flow_views(request, caller, node.flows.of_dataset(entry, by=caller))
    forms = {view["kind"]: _fields(view["rule"], view["flow"].version) for view in views}
    frame = dataset_frame(request, entry, caller)
    missing = [
        each.value
        for each in kinds_of(entry)
        if each.value not in forms and (each is not FlowKind.POLL or frame["about"].state.polling_source)
    ]
    for name in missing:
        forms[name] = {**_fields(rule_value(FlowRule(trigger=DAILY)), 0)}
    if kind is not None:
        forms[kind.value] = {**forms.get(kind.value, {}), "uncacheable": "", "recompute": "", **form}
    values = {
        "flows": views,
        "missing": missing,
        "forms": forms,
        "refused": kind.value if kind else None,
        "problems": places_of(error),
        "is_busy": any(not each["run"].status.final for view in views for each in view["runs"]),
        "is_live": is_live,
        "tab": "flows",
    }
    return page(request, "flows/dataset_flows.html", {**frame, **values}, status=status)


def _fields(rule: dict[str, Any], version: int) -> dict[str, Any]:
    """A rule as the fields of its form."""
    trigger, retry = rule["trigger"], rule["retry"]
    inputs = trigger.get("onInputs", {})
    return {
        "version": str(version),
        "trigger": "every" if "every" in trigger else "cron" if "cron" in trigger else "inputs",
        "every": trigger.get("every", ""),
        "cron": trigger.get("cron", ""),
        "zone": trigger.get("timeZone", "UTC"),
        "records": str(inputs.get("records") or ""),
        "wait": inputs.get("wait", ""),
        "attempts": str(retry["attempts"]),
        "pause": retry["pause"],
        "backoff": retry["backoff"],
        "overlap": rule["overlap"],
        "late": rule["latestStart"] or "",
        "failures": str(rule["stopAfterFailures"] or ""),
        "uncacheable": "yes" if rule["fetchUncacheable"] else "",
        "recompute": "yes" if rule.get("recompute") else "",
    }
