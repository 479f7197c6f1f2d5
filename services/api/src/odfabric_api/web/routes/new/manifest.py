"""New datasets: how to make one, and from a manifest."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from odfabric.errors import OdfError
from odfabric.model.commit import CatalogEntry
from odfabric_api.auth import Member, Subject, node_of
from odfabric_api.bodies.forms import FORM_BYTES_MAX, read_form
from odfabric_api.manifests import named, one_snapshot
from odfabric_api.page_route import PageRoute
from odfabric_api.web.new_dataset import ESCAPED_BYTES, OWNER_FIELDS, owner_values, under_owner, visibility_of
from odfabric_api.web.pages import dataset_path, page, see_other
from odfabric_api.web.problem_places import places_of
from odfabric_api.web.submitted import submitted

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_FIELDS = frozenset({"manifest", "then"}) | OWNER_FIELDS


@router.get("/-/new")
def get_new(request: Request, caller: Member) -> Response:
    """The three ways."""
    return page(request, "publish/new.html")


@router.get("/-/new/manifest")
def get_manifest(request: Request, caller: Member) -> Response:
    """The empty form."""
    return manifest_form(request, caller, {})


@router.post("/-/new/manifest")
async def post_manifest(request: Request, caller: Member) -> Response:
    """Make the dataset and go to it, or with `then=push` to its first push."""
    bytes_max = node_of(request).manifest_limits.bytes_max * ESCAPED_BYTES + FORM_BYTES_MAX
    form = await read_form(request, _FIELDS, bytes_max=bytes_max)

    def act() -> Response:
        entry = _made(request, caller, form)
        return see_other(dataset_path(entry, *(["push"] if form.get("then") == "push" else [])))

    return await submitted(
        request, act, lambda error, status: manifest_form(request, caller, form, error=error, status=status)
    )


def manifest_form(
    request: Request, caller: Subject, form: dict[str, str], *, error: OdfError | None = None, status: int = 200
) -> Response:
    """The form with what was typed, and what is wrong with it."""
    values = {
        "manifest": form.get("manifest", ""),
        "then": form.get("then", ""),
        "problems": places_of(error),
        **owner_values(request, caller, form),
    }
    return page(request, "publish/new_manifest.html", values, status=status, editor=True)


def _made(request: Request, caller: Subject, form: dict[str, str]) -> CatalogEntry:
    node = node_of(request)
    visibility = visibility_of(form)
    placed = one_snapshot(form.get("manifest", ""), limits=node.manifest_limits)
    with placed.refusals_in_file():
        snapshot = named(placed.snapshot, under_owner(placed.snapshot.name, form))
        entry, _ = node.datasets.create(snapshot, caller, visibility=visibility)
    return entry
