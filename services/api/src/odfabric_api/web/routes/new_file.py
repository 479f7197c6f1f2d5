"""New root datasets from a file: a sample tells the columns, its publisher checks them, a manifest comes out."""

from __future__ import annotations

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from odfabric.errors import OdfError
from odfabric.formats.manifest_yaml import dump_yaml, snapshot_to_manifest
from odfabric.usecases.draft_source import FileFormat, draft_source
from odfabric_api.auth import Member, Subject
from odfabric_api.forms import read_form
from odfabric_api.page_route import PageRoute
from odfabric_api.web.file_form import (
    FIELDS,
    FIELDS_MAX,
    FORM_BYTES_MAX,
    FormColumn,
    chosen_columns,
    draft_of,
    form_values,
    format_of,
    guessed_columns,
)
from odfabric_api.web.new_dataset import OWNER_FIELDS, alias_of, owner_values
from odfabric_api.web.pages import page
from odfabric_api.web.problem_places import places_of
from odfabric_api.web.routes.new import manifest_form
from odfabric_api.web.submitted import answered

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/-/new/file")
def get_new_file(request: Request, caller: Member) -> Response:
    """The empty form."""
    return _screen(request, caller, {}, [])


@router.post("/-/new/file")
async def post_new_file(request: Request, caller: Member) -> Response:
    """With `action=columns` it reads the columns from the sample; else it shows the manifest, from where the dataset is made.

    Nothing is stored here, and the file itself is pushed once the dataset is there.
    """
    form = await read_form(request, FIELDS, bytes_max=FORM_BYTES_MAX, fields_max=FIELDS_MAX)
    # In a thread: a sample takes its time to be read.
    return await to_thread.run_sync(lambda: _answered(request, caller, form))


def _answered(request: Request, caller: Subject, form: dict[str, str]) -> Response:
    columns: list[FormColumn] = []

    def act() -> Response:
        tells_columns = format_of(form) is FileFormat.PARQUET
        if not tells_columns:
            columns.extend(chosen_columns(form))
            if form.get("action") == "columns" or not columns:
                return _screen(request, caller, form, guessed_columns(form))
        snapshot = draft_source(draft_of(form, alias_of(form), columns))
        made = {"manifest": dump_yaml(snapshot_to_manifest(snapshot)), "then": "push"}
        kept = {name: form[name] for name in OWNER_FIELDS if name in form}
        return manifest_form(request, caller, {**made, **kept})

    return answered(
        request, act, lambda error, status: _screen(request, caller, form, columns, error=error, status=status)
    )


def _screen(
    request: Request,
    caller: Subject,
    form: dict[str, str],
    columns: list[FormColumn],
    *,
    error: OdfError | None = None,
    status: int = 200,
) -> Response:
    values = {**form_values(form, columns), **owner_values(request, caller, form), "problems": places_of(error)}
    return page(request, "publish/new_file.html", values, status=status)
