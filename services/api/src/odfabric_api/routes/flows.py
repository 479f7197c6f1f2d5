"""Routes of flows: what runs by itself, when, why, and what came of it."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from odfabric.formats.manifests.flow_rule import parse_rule
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.flow import FlowKind
from odfabric.usecases.flows.change_flows import SeenFlow
from odfabric.usecases.flows.describe_flows import flow_value, run_value
from odfabric_api.auth import Caller, Member, Subject, WritableDataset, node_of
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.json_body import JsonModel, json_body, read_json
from odfabric_api.bodies.schemas import Flows, FlowView, RunView, answers
from odfabric_api.flow_names import naming
from odfabric_api.preconditions import VERSION_MATCH, header_parameters, version_of, version_tag

router = APIRouter(tags=["flows"])

KindName = Annotated[FlowKind, Path(description="`poll`, `transform`, `mirror` or `verify`")]
RunId = Annotated[str, Path(max_length=100, description="As the runs of a flow tell it")]
Duration = Annotated[str, Field(max_length=20, description="A number and a unit: s, m, h, d or w, such as `15m`")]


class OnInputsBody(JsonModel):
    """At once, or as soon as so many records wait, or the first has waited so long."""

    records: int = Field(0, ge=0)
    wait: Duration = "0s"


class TriggerBody(JsonModel):
    """One of `every`, `cron` (with `timeZone`) and `onInputs`."""

    every: Duration | None = None
    cron: str | None = Field(None, max_length=100, description="Minute, hour, day, month, weekday")
    time_zone: str | None = Field(None, alias="timeZone", max_length=50, description="IANA name; default UTC")
    on_inputs: OnInputsBody | None = Field(None, alias="onInputs")


class RetryBody(JsonModel):
    """What happens after an outside failure."""

    attempts: int = Field(3, ge=0, le=20, description="Attempts after the first")
    pause: Duration = "10s"
    backoff: Literal["fixed", "linear", "exponential", "exponential-with-jitter"] = "exponential-with-jitter"


class FlowBody(JsonModel):
    """The rule of a flow; what is left out has its default."""

    trigger: TriggerBody
    retry: RetryBody | None = None
    overlap: Literal["queue-one", "skip"] | None = None
    latest_start: Duration | None = Field(None, alias="latestStart", description="A run that is later is missed")
    stop_after_failures: int | None = Field(
        5, alias="stopAfterFailures", ge=1, le=100, description="Failed runs in a row; null: never"
    )
    fetch_uncacheable: bool = Field(False, alias="fetchUncacheable")
    recompute: bool = Field(
        False, description="If the history of an input was rewritten, drop the rows and compute them from the beginning"
    )


class FlowChangeBody(JsonModel):
    """What is changed without another rule."""

    paused: bool


class NewRunBody(JsonModel):
    """A run by hand has nothing to say."""


@router.get(
    "/{account}/{dataset}/flows",
    summary="The flows of a dataset",
    responses=answers(Flows, text="Each with its last runs"),
)
def get_dataset_flows(request: Request, entry: WritableDataset, caller: Caller) -> Response:
    """`{flows}`: each with its rule, state, last runs, and why the next one waits."""
    return _flows(request, caller, node_of(request).flows.of_dataset(entry, by=caller))


@router.put(
    "/{account}/{dataset}/flows/{kind}",
    summary="Set a flow",
    responses=answers(FlowView, text="The flow"),
    openapi_extra={**json_body(FlowBody, required=True), **header_parameters(VERSION_MATCH)},
)
async def put_flow(request: Request, entry: WritableDataset, caller: Caller, kind: KindName) -> Response:
    """Makes the flow, or puts it under another rule.

    It runs with the rights of the one who set it last.
    """
    node = node_of(request)
    body = await read_json(request, FlowBody, bytes_max=node.settings.json_body_bytes_max)
    rule = parse_rule(body.model_dump(by_alias=True, exclude_unset=True))
    version = version_of(request)
    await to_thread.run_sync(partial(node.flows.set, entry, kind, rule, by=caller, if_version=version))
    return await to_thread.run_sync(_flow, request, entry, caller, kind)


@router.delete(
    "/{account}/{dataset}/flows/{kind}", status_code=204, summary="Remove a flow", responses=answers(None, status=204)
)
def delete_flow(request: Request, entry: WritableDataset, caller: Caller, kind: KindName) -> Response:
    """Removes the flow and the list of its runs; what they committed stays."""
    node_of(request).flows.remove(entry, kind, by=caller)
    return Response(status_code=204)


@router.patch(
    "/{account}/{dataset}/flows/{kind}",
    summary="Pause or resume a flow",
    responses=answers(FlowView),
    openapi_extra=json_body(FlowChangeBody, required=True),
)
async def patch_flow(request: Request, entry: WritableDataset, caller: Caller, kind: KindName) -> Response:
    """A paused flow starts no runs by itself; one that runs goes on.

    Resuming also goes on after failures have stopped it.
    """
    node = node_of(request)
    body = await read_json(request, FlowChangeBody, bytes_max=node.settings.json_body_bytes_max)
    change = node.flows.pause if body.paused else node.flows.resume
    await to_thread.run_sync(partial(change, entry, kind, by=caller))
    return await to_thread.run_sync(_flow, request, entry, caller, kind)


@router.post(
    "/{account}/{dataset}/flows/{kind}/runs",
    status_code=202,
    summary="Run a flow now",
    responses=answers(RunView, status=202, text="The run"),
    openapi_extra=json_body(NewRunBody, required=False),
)
async def run_flow(request: Request, entry: WritableDataset, caller: Caller, kind: KindName) -> Response:
    """As soon as possible, also if it is paused; joins a run that waits."""
    node = node_of(request)
    await read_json(request, NewRunBody, bytes_max=node.settings.json_body_bytes_max)

    def start() -> Response:
        run = node.flows.run_now(entry, kind, by=caller)
        value = run_value(run, named=naming(request, caller))
        return JsonAnswer(value, status_code=202, headers={"location": f"/runs/{run.id}"})

    return await to_thread.run_sync(start)


@router.get("/flows", summary="All flows", responses=answers(Flows, text="Those at work first"))
def get_flows(request: Request, caller: Member) -> Response:
    """The flows of all datasets that the caller may change, each with its last run."""
    return _flows(request, caller, node_of(request).flows.all(by=caller))


@router.get("/runs/{run_id}", summary="A run", responses=answers(RunView))
def get_run(request: Request, caller: Member, run_id: RunId) -> Response:
    """A run of a flow of a dataset that the caller may change."""
    run, _ = node_of(request).flows.run(run_id, by=caller)
    return JsonAnswer(run_value(run, named=naming(request, caller)))


@router.delete("/runs/{run_id}", summary="Cancel a run", responses=answers(RunView, text="The run as it is now"))
def cancel_run(request: Request, caller: Member, run_id: RunId) -> Response:
    """One that waits ends at once, one that runs at its job's next sign of life.

    What it has committed stays.
    """
    run = node_of(request).flows.cancel(run_id, by=caller)
    return JsonAnswer(run_value(run, named=naming(request, caller)))


def _flows(request: Request, caller: Subject, found: list[SeenFlow]) -> Response:
    named = naming(request, caller)
    return JsonAnswer({"flows": [flow_value(seen, named=named) for seen in found]})


def _flow(request: Request, entry: CatalogEntry, caller: Subject, kind: FlowKind) -> Response:
    seen = next(each for each in node_of(request).flows.of_dataset(entry, by=caller) if each.flow.kind is kind)
    value: dict[str, Any] = flow_value(seen, named=naming(request, caller))
    return JsonAnswer(value, headers={"etag": version_tag(seen.flow.version)})
