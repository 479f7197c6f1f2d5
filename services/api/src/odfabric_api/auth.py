"""Who asks, and may they: the bearer token of the embedded node and the policies that routes declare.

Owns the check of the Authorization header and the dependencies `ReadableDataset`, `WritableDataset`, `WritableAlias`, `Reader`,
`Writer`, `Creator` and `Maintainer`. Invariant: deny by default - a route has one of these in its signature or stands in the
tests' list of public routes; the policy is decided before values, headers or body are looked at, and a dataset that may not be
read looks exactly like one that does not exist. Not here: the decision itself (`domain.access`).
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Path, Request, Security
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase

from odfabric.domain.access import LOCAL_ACCOUNT, Action, Subject
from odfabric.errors import InvalidRequest, NotFound, Unauthenticated
from odfabric.formats.references import parse_name
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias
from odfabric.wiring import Node

STRANGER_HINT = "send `Authorization: Bearer TOKEN` if it is yours"

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{1,512}=*", re.ASCII)
_HEADER = re.compile(rf"(?i:bearer) ({_TOKEN.pattern})", re.ASCII)


class Authentication:
    """Knows the digest of the node's token, not the token. Raises InvalidRequest for one that no header can carry."""

    def __init__(self, token: str) -> None:
        if _TOKEN.fullmatch(token) is None:
            raise InvalidRequest("the node's token is not a bearer token", hint="letters, digits and ._~+/- only")
        self._digest = _digest(token)

    def subject(self, request: Request) -> Subject:
        """Whoever holds the token is the account; without a header it is a stranger. Raises InvalidRequest, Unauthenticated."""
        given = request.headers.getlist("authorization")
        if not given:
            return Subject(None)
        match = _HEADER.fullmatch(given[0])
        if match is None or len(given) > 1:
            raise InvalidRequest("Invalid Bearer token header", hint="send `Authorization: Bearer TOKEN`")
        if not hmac.compare_digest(_digest(match[1]), self._digest):
            raise Unauthenticated("Authentication token invalid")
        return Subject(LOCAL_ACCOUNT)


class BearerToken(SecurityBase):
    """The security scheme of the OpenAPI document, and the dependency that finds out who asks."""

    def __init__(self) -> None:
        self.model = HTTPBearer(description="The node's token. Without it a request is a stranger's.")
        self.scheme_name = "token"

    async def __call__(self, request: Request) -> Subject:
        """See `Authentication.subject`."""
        authentication: Authentication = request.app.state.authentication
        return authentication.subject(request)


Caller = Annotated[Subject, Security(BearerToken())]
AccountPath = Annotated[str, Path(description="Account that owns the dataset")]
DatasetPath = Annotated[str, Path(description="Name of the dataset")]


def node_of(request: Request) -> Node:
    """The node that serves the request."""
    node: Node = request.app.state.node
    return node


@dataclass(frozen=True, slots=True)
class RequiresAccount:
    """Policy of a route that is about no single dataset."""

    action: Action

    async def __call__(self, request: Request, caller: Caller) -> Subject:
        """Who asks. Raises Unauthenticated, NotFound for a caller who may not."""
        if not node_of(request).policy.allows(caller, self.action):
            if caller.account is None:
                raise Unauthenticated("A token is needed", hint="send `Authorization: Bearer TOKEN`")
            raise NotFound("route", request.url.path)
        return caller


@dataclass(frozen=True, slots=True)
class RequiresAlias:
    """Policy of a route under `/{account}/{dataset}`, whether there is such a dataset or not."""

    action: Action

    async def __call__(
        self, request: Request, caller: Caller, account: AccountPath, dataset: DatasetPath
    ) -> DatasetAlias:
        """The alias. Raises NotFound, Unauthenticated, AccessDenied; InvalidName to callers who may know what exists."""
        return _permitted(request, caller, self.action, account=account, dataset=dataset)


@dataclass(frozen=True, slots=True)
class RequiresDataset:
    """Policy of a route that is about an existing dataset."""

    action: Action

    def __call__(self, request: Request, caller: Caller, account: AccountPath, dataset: DatasetPath) -> CatalogEntry:
        """The dataset. Raises what `RequiresAlias` raises, and NotFound in the same words."""
        alias = _permitted(request, caller, self.action, account=account, dataset=dataset)
        found = node_of(request).repository.find(alias)
        if found is None:
            raise NotFound("dataset", str(alias), hint=STRANGER_HINT if caller.account is None else None)
        return found


Reader = Annotated[Subject, Depends(RequiresAccount(Action.READ))]
Writer = Annotated[Subject, Depends(RequiresAccount(Action.WRITE))]
Maintainer = Annotated[Subject, Depends(RequiresAccount(Action.MAINTAIN))]
Creator = Annotated[Subject, Depends(RequiresAccount(Action.CREATE))]
WritableAlias = Annotated[DatasetAlias, Depends(RequiresAlias(Action.WRITE))]
ReadableDataset = Annotated[CatalogEntry, Depends(RequiresDataset(Action.READ))]
WritableDataset = Annotated[CatalogEntry, Depends(RequiresDataset(Action.WRITE))]


def _permitted(request: Request, caller: Subject, action: Action, *, account: str, dataset: str) -> DatasetAlias:
    shown = f"{account}/{dataset}"
    try:
        node_of(request).policy.require(caller, action, dataset=shown)
    except NotFound:
        raise NotFound("dataset", shown, hint=STRANGER_HINT if caller.account is None else None) from None
    return DatasetAlias(parse_name(account, type_name="AccountName"), parse_name(dataset))


def _digest(token: str) -> bytes:
    return hashlib.sha3_256(token.encode()).digest()
