"""Routes of a dataset's variables and secrets, named by templates of its source."""

from __future__ import annotations

from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from odfabric.usecases.datasets.dataset_variables import variable_value
from odfabric_api.auth import Caller, WritableDataset, node_of
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.json_body import JsonModel, json_body, read_json
from odfabric_api.bodies.schemas import VariableList, VariableView, answers

router = APIRouter(tags=["datasets"])

VariableName = Annotated[str, Path(description="Letters, digits and `_`, no digit first")]


class VariableBody(JsonModel):
    """The value of a variable."""

    value: str = Field(description="One line")
    secret: bool = Field(False, description="Sealed where it is stored, and never in an answer again")


@router.get(
    "/{account}/{dataset}/variables",
    summary="Variables of a dataset's source",
    responses=answers(VariableList, text="All, in order of names"),
)
def get_variables(request: Request, entry: WritableDataset, caller: Caller) -> Response:
    """Secrets are listed without their values."""
    found = node_of(request).variables.listed(entry, by=caller)
    return JsonAnswer({"variables": [variable_value(each) for each in found]})


@router.put(
    "/{account}/{dataset}/variables/{name}",
    summary="Set a variable or a secret",
    responses=answers(VariableView, text="The variable, a secret without its value"),
    openapi_extra=json_body(VariableBody, required=True),
)
async def put_variable(request: Request, entry: WritableDataset, caller: Caller, name: VariableName) -> Response:
    """Set what `${{ env.NAME }}` in the fetch step stands for, from the next pull on."""
    node = node_of(request)
    body = await read_json(request, VariableBody, bytes_max=node.settings.json_body_bytes_max)

    def change() -> Response:
        made = node.variables.set(entry, name, body.value, secret=body.secret, by=caller)
        return JsonAnswer(variable_value(made))

    return await to_thread.run_sync(change)


@router.delete(
    "/{account}/{dataset}/variables/{name}",
    status_code=204,
    summary="Remove a variable or a secret",
    responses=answers(None, status=204),
)
def delete_variable(request: Request, entry: WritableDataset, caller: Caller, name: VariableName) -> Response:
    """A template that names it then takes its next alternative."""
    node_of(request).variables.remove(entry, name, by=caller)
    return Response(status_code=204)
