"""Who asks: the bearer token of the embedded node.

Owns the check of the Authorization header and what a route requires. Invariant: deny by default; tokens are compared in constant time;
a dataset that may not be read looks exactly like one that does not exist.
"""

from __future__ import annotations

import hmac

from starlette.requests import Request

from odfabric.domain.access import LOCAL_ACCOUNT, Action, Subject
from odfabric.errors import InvalidRequest, NotFound, Unauthenticated
from odfabric.formats.references import parse_name
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias
from odfabric.wiring import Node


class Authentication:
    """Knows the node's token."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def subject(self, request: Request) -> Subject:
        """Whoever holds the token is the account; without a header it is a stranger. Raises Unauthenticated."""
        given = request.headers.getlist("authorization")
        if not given:
            return Subject(None)
        scheme, _, token = given[0].partition(" ")
        if len(given) > 1 or scheme.lower() != "bearer" or not token.strip():
            raise InvalidRequest("Invalid Bearer token header", hint="send `Authorization: Bearer TOKEN`")
        if not hmac.compare_digest(token.strip().encode(), self._token):
            raise Unauthenticated("Authentication token invalid")
        return Subject(LOCAL_ACCOUNT)


def node_of(request: Request) -> Node:
    """The node that serves the request."""
    node: Node = request.app.state.node
    return node


def subject_of(request: Request) -> Subject:
    """Who asks."""
    authentication: Authentication = request.app.state.authentication
    return authentication.subject(request)


def require_account(request: Request, action: Action) -> Subject:
    """For routes that are about no single dataset. Raises Unauthenticated, AccessDenied."""
    subject = subject_of(request)
    if not node_of(request).policy.allows(subject, action):
        if subject.account is None:
            raise Unauthenticated("A token is needed")
        raise NotFound("route", request.url.path)
    return subject


def dataset_of(request: Request, account: str, dataset: str, action: Action) -> CatalogEntry:
    """The dataset of a route, if the caller may do `action` to it. Raises NotFound, Unauthenticated, AccessDenied."""
    node = node_of(request)
    subject = subject_of(request)
    shown = f"{account}/{dataset}"
    node.policy.require(subject, action, dataset=shown)
    alias = DatasetAlias(parse_name(account, type_name="AccountName"), parse_name(dataset))
    return node.resolve(alias)
