"""The chain of a dataset as a timeline, and each of its blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.formats.manifests.manifest_yaml import block_to_manifest
from odfabric.formats.manifests.yaml_writer import dump_yaml
from odfabric.model.commit import CatalogEntry
from odfabric.model.multihash import Multihash
from odfabric.usecases.verification.verify_block import Checked
from odfabric.wiring.composed.verifying import VerifyVerbs
from odfabric_api.auth import Caller, FollowableDataset, ReadableDataset, Subject, node_of, querying
from odfabric_api.bodies.forms import read_form
from odfabric_api.capacity import Capacity
from odfabric_api.page_route import PageRoute
from odfabric_api.web.dataset_page import dataset_frame
from odfabric_api.web.pages import page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

PAGE_BLOCKS = 25
REWRITES_SHOWN = 10
LINKS_SHOWN = 20
"""Corrections and withdrawals of a block of which the page says what they are about."""
EVENTS: Mapping[str, frozenset[str] | None] = {
    "all": None,
    "data": frozenset({"AddData", "ExecuteTransform"}),
    "sources": frozenset(
        {"SetPollingSource", "AddPushSource", "DisablePushSource", "DisablePollingSource", "SetTransform"}
    ),
    "schema": frozenset({"SetDataSchema", "SetVocab"}),
    "words": frozenset({"SetInfo", "SetLicense", "SetAttachments"}),
}
"""Groups of events by which the timeline is filtered."""


@router.get("/{account}/{dataset}/-/history")
def get_history(
    request: Request,
    entry: ReadableDataset,
    caller: Caller,
    events: Annotated[str, Query(pattern="^(all|data|sources|schema|words)$")] = "all",
    below: Annotated[int | None, Query(ge=0, description="Sequence number under which the page begins")] = None,
) -> Response:
    """Blocks newest first."""
    found = node_of(request).browsing.blocks(
        entry, below=below, event_types=EVENTS[events], limit=PAGE_BLOCKS + 1, by=caller
    )
    shown = found[:PAGE_BLOCKS]
    values = {
        "blocks": shown,
        "rewrites": node_of(request).history.rewrites(entry)[:REWRITES_SHOWN],
        "events": events,
        "event_groups": tuple(EVENTS),
        "below": below,
        "following": shown[-1].block.sequence_number if len(found) > PAGE_BLOCKS else None,
    }
    return page(request, "history.html", {**dataset_frame(request, entry, caller), **values, "tab": "history"})


@router.get("/{account}/{dataset}/-/compare")
async def get_comparison(
    request: Request,
    entry: ReadableDataset,
    caller: Caller,
    older: Annotated[str, Query(max_length=200)],
    newer: Annotated[str, Query(max_length=200)],
) -> Response:
    """Changes between two blocks.

    How many rows were appended, retracted and corrected, and by which blocks.
    """

    def values() -> dict[str, Any]:
        browsing = node_of(request).browsing
        return {"found": browsing.compare(entry, parse_multihash(older), parse_multihash(newer), by=caller)}

    return await _as_query(request, entry, caller, "compare.html", values)


@router.get("/{account}/{dataset}/-/blocks/{block}")
async def get_block(
    request: Request,
    entry: ReadableDataset,
    caller: Caller,
    block: Annotated[str, Path(max_length=200)],
    links: Annotated[bool, Query(description="Look for the records that its corrections are about")] = False,
) -> Response:
    """One block.

    Its event as YAML, its neighbours, and how many rows it appends, retracts and corrects.
    """

    def values() -> dict[str, Any]:
        found = _block(request, entry, caller, parse_multihash(block))
        shown = found["found"]
        if links and shown.data:
            provenance = node_of(request).provenance
            found["links"] = provenance.corrections(entry, shown.hash, shown.data, limit=LINKS_SHOWN)
        return found

    return await _as_query(request, entry, caller, "block.html", values)


@router.post("/{account}/{dataset}/-/blocks/{block}/verify")
async def post_verify_block(
    request: Request, entry: FollowableDataset, caller: Caller, block: Annotated[str, Path(max_length=200)]
) -> Response:
    """Compute the hashes of one block and its objects, and show what was found."""
    await read_form(request, frozenset())

    def values() -> dict[str, Any]:
        wanted = parse_multihash(block)
        checks = VerifyVerbs(node_of(request)).block(entry, wanted, by=caller)
        if any(check.what is Checked.BLOCK and check.problems for check in checks):
            return {"checks": checks, "wanted": wanted}
        return {**_block(request, entry, caller, wanted, with_rows=False), "checks": checks}

    return await _as_query(request, entry, caller, "block.html", values)


def _block(
    request: Request, entry: CatalogEntry, caller: Subject, wanted: Multihash, *, with_rows: bool = True
) -> dict[str, Any]:
    browsing = node_of(request).browsing
    found = browsing.block(entry, wanted, by=caller)
    counted = browsing.operations(entry, found.data, by=caller) if found.data and with_rows else None
    yaml = dump_yaml(block_to_manifest(found.block))
    return {"found": found, "counted": counted, "yaml": yaml, "checks": None, "wanted": wanted, "links": None}


async def _as_query(
    request: Request, entry: CatalogEntry, caller: Subject, template: str, values: Callable[[], dict[str, Any]]
) -> Response:
    """A page that reads slices: as much work as a query, in a slot for queries."""
    capacity: Capacity = request.app.state.capacity

    def render() -> Response:
        return page(request, template, {**dataset_frame(request, entry, caller), **values(), "tab": "history"})

    with querying(request, caller):
        return await capacity.run_query(render)
