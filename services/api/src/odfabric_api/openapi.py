"""The OpenAPI document: made from the routes, committed, compared by a test.

`python -m odfabric_api.openapi docs/openapi.json` writes it again. Owns what FastAPI does not know: the shapes of JSON bodies, which
routes read themselves within their limits, and the shape of problems.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from odfabric_api.bodies import subscription_values
from odfabric_api.bodies.json_body import JsonModel
from odfabric_api.bodies.schemas import Problem
from odfabric_api.routes import (
    accounts,
    admin,
    collaborators,
    cursors,
    datasets,
    flows,
    jobs,
    platform,
    query,
    repositories,
    saved_queries,
    sign_in,
    tokens,
    uploads,
    variables,
)
from odfabric_api.routes.past import keys, rewriting
from odfabric_api.routes.provenance import why

BODY_MODELS: tuple[type[JsonModel], ...] = (
    datasets.NameBody,
    rewriting.ResetBody,
    rewriting.CompactBody,
    rewriting.WatermarkBody,
    keys.ExportKeyBody,
    keys.ImportKeyBody,
    jobs.PullBody,
    jobs.VerifyBody,
    flows.OnInputsBody,
    flows.TriggerBody,
    flows.RetryBody,
    flows.FlowBody,
    flows.FlowChangeBody,
    flows.NewRunBody,
    query.QueryBody,
    why.WhyBody,
    saved_queries.SavedQueryBody,
    saved_queries.SavedQueryChange,
    subscription_values.SubscriptionBody,
    subscription_values.NoMembers,
    subscription_values.RotationBody,
    subscription_values.ReplayBody,
    subscription_values.WideSubscriptionBody,
    uploads.BeginBody,
    uploads.FinishBody,
    cursors.CursorBody,
    cursors.ClaimBody,
    cursors.FetchBody,
    cursors.AcknowledgeBody,
    accounts.OrganisationBody,
    accounts.AccountBody,
    accounts.PasswordBody,
    accounts.MemberBody,
    collaborators.RoleBody,
    collaborators.VisibilityBody,
    variables.VariableBody,
    repositories.RepositoryBody,
    repositories.SendBody,
    tokens.TokenBody,
    tokens.InspectBody,
    platform.LoginBody,
    sign_in.SessionBody,
    admin.NewAccountBody,
    admin.StandingBody,
    admin.LimitsBody,
    admin.InvitationBody,
)


class ApiApplication(FastAPI):
    """A FastAPI application whose document is complete."""

    def openapi(self) -> dict[str, Any]:
        """The document, made once."""
        if self.openapi_schema is None:
            document = super().openapi()
            document["components"]["schemas"].update(_component_schemas())
            for operations in document["paths"].values():
                for operation in operations.values():
                    _without_empty_bodies(operation)
            self.openapi_schema = document
        return self.openapi_schema


def _component_schemas() -> dict[str, Any]:
    models = [(model, "validation") for model in (*BODY_MODELS, Problem)]
    _, found = models_json_schema(models, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    schemas: dict[str, Any] = found["$defs"]
    return schemas


def _without_empty_bodies(operation: dict[str, Any]) -> None:
    """FastAPI promises JSON for every answer of a route without a model.

    Those have no body, or one that is no JSON.
    """
    for answer in operation["responses"].values():
        content = answer.get("content", {})
        if content.get("application/json") == {"schema": {}}:
            del content["application/json"]
        if not content:
            answer.pop("content", None)


def document_text(application: FastAPI) -> str:
    """As it is committed: sorted, so that a difference shows a change of meaning only."""
    return json.dumps(application.openapi(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    """Write the document to the given file."""
    from odfabric_api.app import application

    Path(arguments[0]).write_text(document_text(application()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
