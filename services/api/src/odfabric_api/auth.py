"""Authentication of requests, and the policies that routes declare.

Owns how a subject comes from the Authorization header or the session cookie, and the dependencies that stand for policies. Invariant: deny by
default - a route has one of them in its signature or stands in the tests' list of public routes; the policy is decided before values, headers
or body are looked at, and a dataset that may not be read looks exactly like one that does not exist. Not here: the decision itself
(`domain.people.access`), how credentials are made (`usecases.people`).
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import Depends, Path, Request, Security
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase

from odfabric.domain.people.access import STRANGER, Action, Verdict, refusal
from odfabric.domain.people.access import Subject as Subject
from odfabric.errors import AccessDenied, CredentialRefused, InvalidRequest, NotFound
from odfabric.formats.identifiers.references import parse_name
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias
from odfabric.model.people.account import Account
from odfabric.model.people.credential import OPERATOR_TOKEN_ID
from odfabric.telemetry import present_trace
from odfabric.usecases.people.accounts import named_account
from odfabric.usecases.people.tokens import authenticate, authenticate_session
from odfabric.wiring import Node
from odfabric_api.capacity import Capacity
from odfabric_api.page_route import shows_page
from odfabric_api.sessions import cookie_of, session_of

RECHECK_S = 2.0
"""Pause between two looks at the rights to an answer that is being sent, in seconds: what is withdrawn ends it."""

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{1,512}=*", re.ASCII)
_HEADER = re.compile(rf"(?i:bearer) ({_TOKEN.pattern})", re.ASCII)


class Authentication:
    """Finds out who asks. Knows the digest of the operator's token, not the token.

    Raises InvalidRequest for an operator's token that no header can carry.
    """

    def __init__(self, node: Node, token: str) -> None:
        if _TOKEN.fullmatch(token) is None:
            raise InvalidRequest("the node's token is not a bearer token", hint="letters, digits and ._~+/- only")
        self._node = node
        self._digest = _digest(token)

    def subject(self, request: Request) -> Subject:
        """Whose token the header carries, else whose session the cookie.

        Without either it is a stranger.

        Raises InvalidRequest for a header that is none, CredentialRefused with the reason for a token that does not count, AccessDenied for
        a session's request that comes from another page.
        """
        address = request.client.host if request.client else None
        trace = present_trace()
        given = request.headers.getlist("authorization")
        if given:
            match = _HEADER.fullmatch(given[0])
            if match is None or len(given) > 1:
                raise InvalidRequest("Invalid Bearer token header", hint="send `Authorization: Bearer TOKEN`")
            return replace(self._holder(match[1]), address=address, trace=trace)
        session = session_of(request)
        if session is None:
            return replace(STRANGER, address=address, trace=trace)
        return replace(authenticate_session(session, ports=self._node.people), address=address, trace=trace)

    def _holder(self, token: str) -> Subject:
        if hmac.compare_digest(_digest(token), self._digest):
            return replace(self._node.operator, token=OPERATOR_TOKEN_ID)
        return authenticate(token, ports=self._node.people)


class BearerToken(SecurityBase):
    """Security scheme of the OpenAPI document; the dependency that finds the caller."""

    def __init__(self) -> None:
        self.model = HTTPBearer(description="An access token. Without one a request is a stranger's.")
        self.scheme_name = "token"

    def __call__(self, request: Request) -> Subject:
        """See `Authentication.subject`.

        In a browser somebody whose session does not count any more is a stranger.
        """
        authentication: Authentication = request.app.state.authentication
        try:
            subject = authentication.subject(request)
        except CredentialRefused:
            if not shows_page(request) or "authorization" in request.headers:
                raise
            request.state.session_ended = True
            subject = replace(STRANGER, address=request.client.host if request.client else None)
        request.state.subject = subject
        return subject


Caller = Annotated[Subject, Security(BearerToken())]
AccountPath = Annotated[str, Path(description="Account that owns the dataset")]
DatasetIdText = Annotated[str, Path(description="Identity, `did:odf:...`")]
DatasetPath = Annotated[str, Path(description="Name of the dataset")]


def node_of(request: Request) -> Node:
    """The node that serves the request."""
    node: Node = request.app.state.node
    return node


@dataclass(frozen=True, slots=True)
class RequiresNode:
    """Policy of a route that is about no single dataset.

    READ is everybody's, and shows what the caller may see.
    """

    action: Action

    def __call__(self, request: Request, caller: Caller) -> Subject:
        """Who asks.

        Raises Unauthenticated, AccessDenied; NotFound for what only admins know of.
        """
        verdict = node_of(request).access.policy.decide_here(caller, self.action)
        if verdict is Verdict.DENIED:
            raise NotFound("route", request.url.path)
        if verdict is not Verdict.ALLOWED:
            raise refusal(verdict, self.action, caller, shown="this node", what="node")
        return caller


@dataclass(frozen=True, slots=True)
class RequiresAccount:
    """Policy of a route that is about an account as a whole.

    Beside it comes one of the node.
    """

    action: Action

    def __call__(self, request: Request, caller: Caller, account: AccountPath) -> Account:
        """The account. Raises AccessDenied, InvalidName, NotFound."""
        node, name = node_of(request), parse_name(account, type_name="AccountName")
        node.access.require_here(caller, self.action, under=name, shown=account)
        return named_account(account, ports=node.people)


@dataclass(frozen=True, slots=True)
class _Required:
    """What a request was allowed."""

    action: Action
    entry: CatalogEntry
    shown: str


def _required(request: Request, action: Action, entry: CatalogEntry, *, shown: str) -> CatalogEntry:
    request.state.required = _Required(action, entry, shown)
    return entry


@dataclass(frozen=True, slots=True)
class RequiresDataset:
    """Policy of a route that is about an existing dataset."""

    action: Action

    def __call__(self, request: Request, caller: Caller, account: AccountPath, dataset: DatasetPath) -> CatalogEntry:
        """The dataset.

        Raises NotFound if the caller may not read it, Unauthenticated, AccessDenied.
        """
        entry = node_of(request).access.find(caller, self.action, account, dataset)
        return _required(request, self.action, entry, shown=f"{account}/{dataset}")


@dataclass(frozen=True, slots=True)
class RequiresDatasetById:
    """The same for a route that names the dataset by its identity."""

    action: Action

    def __call__(self, request: Request, caller: Caller, dataset_id: DatasetIdText) -> CatalogEntry:
        """The dataset. Raises as `RequiresDataset`."""
        entry = node_of(request).access.find_by_id(caller, self.action, dataset_id)
        return _required(request, self.action, entry, shown=dataset_id)


@dataclass(frozen=True, slots=True)
class RequiresPullable:
    """Policy of a pull, which changes or makes a dataset of the caller.

    It changes a dataset or makes a copy under an account of the caller's.
    """

    def __call__(
        self, request: Request, caller: Caller, account: AccountPath, dataset: DatasetPath
    ) -> tuple[DatasetAlias, CatalogEntry | None]:
        """The alias, and the dataset if it is there.

        Raises NotFound, Unauthenticated, AccessDenied, InvalidName.
        """
        access, shown = node_of(request).access, f"{account}/{dataset}"
        try:
            found = access.find(caller, Action.WRITE, account, dataset)
            return found.alias, _required(request, Action.WRITE, found, shown=shown)
        except NotFound as hidden:
            if caller.account is None:
                raise
            alias = DatasetAlias(parse_name(account, type_name="AccountName"), parse_name(dataset))
            if access.policy.decide_here(caller, Action.CREATE, under=alias.account) is Verdict.DENIED:
                raise NotFound("dataset", shown, hint=hidden.hint) from None
            access.require_here(caller, Action.CREATE, under=alias.account, shown=shown)
            if alias.account is None or access.accounts.by_name(alias.account) is None:
                raise NotFound("account", account, hint="make it first, or name another one") from None
            return alias, None


OF_MEMBERS = Depends(RequiresNode(Action.SIGN_IN))
OF_ADMINS = Depends(RequiresNode(Action.ADMINISTER))
Anybody = Annotated[Subject, Depends(RequiresNode(Action.READ))]
Member = Annotated[Subject, OF_MEMBERS]
Admin = Annotated[Subject, OF_ADMINS]
ManagedAccount = Annotated[Account, Depends(RequiresAccount(Action.MANAGE))]
ReadableDataset = Annotated[CatalogEntry, Depends(RequiresDataset(Action.READ))]
FollowableDataset = Annotated[CatalogEntry, Depends(RequiresDataset(Action.FOLLOW))]
PushableDataset = Annotated[CatalogEntry, Depends(RequiresDataset(Action.PUSH))]
WritableDataset = Annotated[CatalogEntry, Depends(RequiresDataset(Action.WRITE))]
SharableDataset = Annotated[CatalogEntry, Depends(RequiresDataset(Action.SHARE))]
RewritableDataset = Annotated[CatalogEntry, Depends(RequiresDataset(Action.REWRITE))]
DeletableDataset = Annotated[CatalogEntry, Depends(RequiresDataset(Action.DELETE))]
ReadableById = Annotated[CatalogEntry, Depends(RequiresDatasetById(Action.READ))]
DeletableById = Annotated[CatalogEntry, Depends(RequiresDatasetById(Action.DELETE))]
PullableDataset = Annotated[tuple[DatasetAlias, CatalogEntry | None], Depends(RequiresPullable())]

POLICIES = (RequiresNode, RequiresDataset, RequiresDatasetById, RequiresPullable)
"""What tests look for in the signature of a route."""


def page_visitor(request: Request) -> tuple[Subject, str | None]:
    """Who looks at a page, and the session by which they are known.

    Anyone who has none that counts is a stranger.
    """
    session = cookie_of(request)
    address = request.client.host if request.client else None
    if session is not None:
        try:
            visitor = authenticate_session(session, ports=node_of(request).people)
            visitor = replace(visitor, address=address, trace=present_trace())
            request.state.subject = visitor
            return visitor, session
        except CredentialRefused:
            pass
    return replace(STRANGER, address=address, trace=present_trace()), None


def querying(request: Request, caller: Subject) -> AbstractContextManager[None]:
    """A slot for a query of the caller's, or of strangers from its address.

    Raises LimitExceeded when entered.
    """
    capacity: Capacity = request.app.state.capacity
    asker = str(caller.account.id) if caller.account is not None else f"address:{caller.address}"
    return capacity.querying(asker, node_of(request).quotas.queries_at_once_max(caller))


def manages(request: Request, caller: Subject, account: Account) -> bool:
    """Whether the caller may manage an account."""
    policy = node_of(request).access.policy
    return policy.decide_here(caller, Action.MANAGE, under=account.name) is Verdict.ALLOWED


def owner_account(request: Request, entry: CatalogEntry) -> Account | None:
    """The account under which a dataset is named."""
    return node_of(request).access.owner(entry)


def look_again(request: Request, *, unchanged: bool = False) -> None:
    """Find out again who asks, and whether they still may what the route requires.

    Nothing for routes that are everybody's.

    Raises as the policy did; with `unchanged` AccessDenied for anyone who is not exactly who they were when the request began: verbs are
    given the subject of that time.
    """
    caller: Subject | None = getattr(request.state, "subject", None)
    if caller is None:
        return
    authentication: Authentication = request.app.state.authentication
    now = authentication.subject(request)
    required: _Required | None = getattr(request.state, "required", None)
    if required is not None:
        node_of(request).access.require(now, required.action, required.entry, shown=required.shown)
    if unchanged and now != caller:
        raise AccessDenied("your rights were changed while the request arrived", hint="send it again")


def recheck(request: Request) -> Callable[[], None]:
    """Check again, while an answer is being sent, who asks and whether they may.

    Call it often: it checks at most every `RECHECK_S`.

    It raises as `look_again`, which ends the answer before its announced length.
    """
    seconds: Callable[[], float] = request.app.state.monotonic
    checked_at = seconds()

    def check() -> None:
        nonlocal checked_at
        if (now := seconds()) - checked_at >= RECHECK_S:
            look_again(request)
            checked_at = now

    return check


def _digest(token: str) -> bytes:
    return hashlib.sha3_256(token.encode()).digest()
