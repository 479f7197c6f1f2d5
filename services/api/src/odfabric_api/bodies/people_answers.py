"""Answers about accounts, which several routes give."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from odfabric.model.people.account import Account
from odfabric.usecases.people.values import managed_value
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.preconditions import version_tag


def managed_answer(account: Account, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An account as those see it who manage it, with the entity tag of its version."""
    sent = {**(headers or {}), "etag": version_tag(account.version)}
    return JsonAnswer(managed_value(account), status_code=status, headers=sent)
