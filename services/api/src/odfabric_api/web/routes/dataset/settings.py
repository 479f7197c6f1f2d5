"""Settings of a dataset: sources or transform as a manifest, and deletion."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from odfabric.errors import Changed, InUse, OdfError
from odfabric.model.commit import CatalogEntry
from odfabric.model.metadata import DatasetKind
from odfabric.usecases.datasets.describe_dataset import DatasetDescription
from odfabric.usecases.ingestion.set_source import ChangedSources
from odfabric.usecases.transform.set_transform import ChangedTransform
from odfabric.wiring.composed.renaming import rename
from odfabric_api.auth import Caller, DeletableDataset, Subject, WritableDataset, node_of
from odfabric_api.bodies.forms import FORM_BYTES_MAX, read_form
from odfabric_api.manifests import named, own_snapshot
from odfabric_api.page_route import PageRoute
from odfabric_api.web.dataset_page import dataset_frame
from odfabric_api.web.info_form import INFO_FIELDS, LICENSES, events_of, info_values
from odfabric_api.web.new_dataset import ESCAPED_BYTES
from odfabric_api.web.pages import dataset_path, page, see_other
from odfabric_api.web.problem_places import places_of
from odfabric_api.web.settings_manifest import settings_manifest
from odfabric_api.web.submitted import check_typed, submitted

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/{account}/{dataset}/-/settings")
def get_settings(request: Request, entry: WritableDataset, caller: Caller) -> Response:
    """What may be changed, as it is."""
    return settings_screen(request, entry, caller)


@router.post("/{account}/{dataset}/-/settings")
async def post_settings(request: Request, entry: WritableDataset, caller: Caller) -> Response:
    """Set the sources or the transform of the manifest.

    With `anew` an unchanged transform is recomputed too.
    """
    bytes_max = node_of(request).manifest_limits.bytes_max * ESCAPED_BYTES + FORM_BYTES_MAX
    form = await read_form(request, frozenset({"manifest", "anew"}), bytes_max=bytes_max)

    def act() -> Response:
        return see_other(dataset_path(entry, "settings"), notice=_changed(request, entry, caller, form))

    def again(error: OdfError, status: int) -> Response:
        return settings_screen(request, entry, caller, manifest=form.get("manifest", ""), error=error, status=status)

    return await submitted(request, act, again)


@router.post("/{account}/{dataset}/-/info")
async def post_info(request: Request, entry: WritableDataset, caller: Caller) -> Response:
    """Save description, keywords, licence and readme.

    Not over the change of somebody else.
    """
    bytes_max = node_of(request).manifest_limits.bytes_max * ESCAPED_BYTES + FORM_BYTES_MAX
    form = await read_form(request, INFO_FIELDS, bytes_max=bytes_max)

    def act() -> Response:
        node = node_of(request)
        events = events_of(form, node.browsing.describe(entry, by=caller))
        changed = node.editing.set_info(entry, events, caller, seen=form.get("seen") or None)
        return see_other(
            dataset_path(entry, "settings"), notice="unchanged" if changed.result is None else "info-changed"
        )

    def again(error: OdfError, status: int) -> Response:
        return settings_screen(request, entry, caller, info=form, info_error=error, status=status)

    return await submitted(request, act, again)


@router.post("/{account}/{dataset}/-/name")
async def post_name(request: Request, entry: DeletableDataset, caller: Caller) -> Response:
    """Give the dataset another `name` in its account, and lead to its new address."""
    form = await read_form(request, frozenset({"name"}))

    def act() -> Response:
        renamed = rename(node_of(request), entry, form.get("name", "").strip(), by=caller)
        return see_other(dataset_path(renamed, "settings"), notice="renamed")

    def again(error: OdfError, status: int) -> Response:
        return settings_screen(request, entry, caller, renaming=(form.get("name", ""), error), status=status)

    return await submitted(request, act, again)


@router.post("/{account}/{dataset}/-/delete")
async def post_delete(request: Request, entry: DeletableDataset, caller: Caller) -> Response:
    """Delete the dataset whose full name was typed.

    An input of others is kept, and the page names them.
    """
    form = await read_form(request, frozenset({"confirm"}))

    def act() -> Response:
        check_typed(form, str(entry.alias))
        node_of(request).datasets.delete(entry, by=caller)
        return see_other(f"/{entry.alias.account}", notice="deleted")

    return await submitted(
        request, act, lambda error, status: settings_screen(request, entry, caller, deletion=error, status=status)
    )


def _changed(request: Request, entry: CatalogEntry, caller: Subject, form: dict[str, str]) -> str:
    """Makes the change; the notice for it."""
    node = node_of(request)
    placed = own_snapshot(form.get("manifest", ""), entry, limits=node.manifest_limits)
    changed: ChangedSources | ChangedTransform
    with placed.refusals_in_file():
        snapshot = named(placed.snapshot, entry.alias)
        if entry.kind is DatasetKind.ROOT:
            changed = node.editing.set_source(snapshot, caller)
        else:
            changed = node.editing.set_transform(snapshot, caller, anew="anew" in form)
    if changed.result is None:
        return "unchanged"
    if isinstance(changed, ChangedTransform) and changed.evolution is not None:
        return changed.evolution.verdict.value
    return "changed"


def _now(about: DatasetDescription) -> dict[str, str]:
    """What is there, for whoever was second to change it."""
    return {name: value for name, value in info_values(about).items() if name != "seen"}


def _typed(info: dict[str, str] | None, error: OdfError | None) -> dict[str, str]:
    """What was typed, on top of the present version.

    If somebody else saved first, the visitor who saves again has seen their version.
    """
    typed = dict(info or {})
    if isinstance(error, Changed):
        typed.pop("seen", None)
    return typed


def settings_screen(
    request: Request,
    entry: CatalogEntry,
    caller: Subject,
    *,
    manifest: str | None = None,
    error: OdfError | None = None,
    deletion: OdfError | None = None,
    rewriting: OdfError | None = None,
    renaming: tuple[str, OdfError] | None = None,
    info: dict[str, str] | None = None,
    info_error: OdfError | None = None,
    status: int = 200,
) -> Response:
    """The settings page, with what was typed and what is wrong with it."""
    frame = dataset_frame(request, entry, caller)
    values = {
        "manifest": settings_manifest(frame["about"]) if manifest is None else manifest,
        "problems": places_of(error),
        "deletion_problems": places_of(deletion),
        "rewriting_problems": places_of(rewriting),
        "name": renaming[0] if renaming else str(entry.alias.name),
        "name_problems": places_of(renaming[1] if renaming else None),
        "info": {**info_values(frame["about"]), **_typed(info, info_error)},
        "info_problems": places_of(info_error),
        "info_now": _now(frame["about"]) if isinstance(info_error, Changed) else {},
        "licenses": LICENSES,
        "users": deletion.users if isinstance(deletion, InUse) else (),
        "tab": "settings",
    }
    return page(request, "publish/settings.html", {**frame, **values}, status=status, editor=True)
