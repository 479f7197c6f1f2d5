"""Access tokens: make, list, revoke, and find out whose one is.

Invariant: a token never goes further than the one by which it was made, and its secret leaves this module once, in the answer to its maker.
Browser sessions are tokens too; they are made by `sign_in`.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from odfabric.domain.people.access import Action, Subject, signed_in
from odfabric.errors import (
    AccessDenied,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    Place,
    TokenExpired,
    TokenMalformed,
    TokenRevoked,
    TokenUnknown,
)
from odfabric.formats.secrets.access_token import ID_BYTES, make, parse, secret_bytes_of, secret_hash
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.people.account import Account, AccountKind
from odfabric.model.people.audit import AuditKind
from odfabric.model.people.credential import AccessToken, Scope, TokenKind
from odfabric.usecases.people.accounts import managed_account
from odfabric.usecases.people.ports import PeoplePorts

NAME_CHARACTERS_MAX = 200
DATASETS_MAX = 100

LISTED_KINDS = frozenset({TokenKind.PERSONAL, TokenKind.SERVICE, TokenKind.REFERENCE})
"""Kinds that people make; sessions are listed apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """What a token is to be.

    `datasets` None: all of the account's; `expires_at` None: never.
    """

    name: str
    kind: TokenKind = TokenKind.PERSONAL
    scopes: frozenset[Scope] = frozenset({Scope.READ})
    datasets: frozenset[DatasetId] | None = None
    expires_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token and its text, which nobody can tell again."""

    token: AccessToken
    text: str


def authenticate(text: str, *, ports: PeoplePorts) -> Subject:
    """Who holds a token, with the token's bounds.

    Raises TokenMalformed and TokenChecksumWrong before anything is looked up, TokenUnknown, TokenRevoked, TokenExpired, AccountSuspended.
    """
    token, account = find_token(text, ports=ports)
    now = ports.clock.now()
    if token.revoked_at is not None:
        raise TokenRevoked("the token was revoked", hint="make a new one")
    if token.expires_at is not None and token.expires_at <= now:
        raise TokenExpired("the token has expired", hint="sign in again, or make a new one")
    subject = ports.access.subject(account)
    ports.tokens.used(token.id, now=now)
    return replace(subject, scopes=token.scopes, datasets=token.datasets, token=token.id)


def authenticate_session(text: str, *, ports: PeoplePorts) -> Subject:
    """Whose browser session a cookie holds.

    Raises as `authenticate`; TokenMalformed for another kind of token, which goes less far than the pages of a session take for granted.
    """
    if parse(text).kind is not TokenKind.SESSION:
        raise TokenMalformed(
            "the cookie holds no session", hint="sign in, or send the token as `Authorization: Bearer TOKEN`"
        )
    return authenticate(text, ports=ports)


def find_token(text: str, *, ports: PeoplePorts) -> tuple[AccessToken, Account]:
    """The token of a text, in whatever state, and its account.

    Raises TokenMalformed, TokenChecksumWrong, TokenUnknown.
    """
    given = parse(text)
    token = ports.tokens.get(given.id)
    known = token.secret_hash if token is not None else bytes(32)
    fits = hmac.compare_digest(secret_hash(given.secret), known)
    account = ports.accounts.by_id(token.account) if token is not None else None
    if token is None or account is None or not fits or token.kind is not given.kind:
        raise TokenUnknown("this node has no such token", hint="it may be one of another node: look at the address")
    return token, account


def issue(account: Account, wanted: NewToken, *, created_by: Account, ports: PeoplePorts) -> IssuedToken:
    """A new token, not stored yet. Nothing is checked."""
    id_bytes = ports.entropy.random_bytes(ID_BYTES)
    secret = ports.entropy.random_bytes(secret_bytes_of(wanted.kind))
    token = AccessToken(
        id=id_bytes.hex(),
        account=account.id,
        kind=wanted.kind,
        name=wanted.name,
        secret_hash=secret_hash(secret),
        scopes=wanted.scopes,
        datasets=wanted.datasets,
        created_at=ports.clock.now(),
        created_by=created_by.id,
        expires_at=wanted.expires_at,
    )
    return IssuedToken(token, make(wanted.kind, id_bytes, secret))


def create_token(wanted: NewToken, *, of: str | None = None, subject: Subject, ports: PeoplePorts) -> IssuedToken:
    """Create a token of the own account or of an organisation.

    Or (for admins of the node) of anybody.

    Raises InvalidRequest, AccessDenied for more than the subject itself may, LimitExceeded, NotFound, Unauthenticated.
    """
    own = signed_in(subject)
    account = managed_account(of or str(own.name), subject=subject, ports=ports)
    _check_wanted(wanted, account, subject, ports)
    issued = issue(account, wanted, created_by=own, ports=ports)
    entry = ports.entry(
        AuditKind.TOKEN_CREATED,
        subject,
        target=str(account.name),
        token=issued.token.id,
        kind_of=wanted.kind.value,
        scopes=",".join(sorted(scope.value for scope in wanted.scopes)),
        datasets="all" if wanted.datasets is None else str(len(wanted.datasets)),
    )
    ports.tokens.create(issued.token, audit=entry)
    return issued


def list_tokens(
    *,
    of: str | None = None,
    kinds: Collection[TokenKind] = LISTED_KINDS,
    after: str | None = None,
    limit: int,
    subject: Subject,
    ports: PeoplePorts,
) -> Sequence[AccessToken]:
    """Tokens of an account that the subject may manage, its own by default.

    Raises Unauthenticated, AccessDenied, NotFound.
    """
    account = _account(of, subject, ports)
    return ports.tokens.of_account(account.id, kinds=kinds, after=after, limit=limit)


def revoke_token(token_id: str, *, subject: Subject, ports: PeoplePorts) -> None:
    """End a token of an account that the subject may manage.

    The one that is used may always end itself. Raises NotFound.
    """
    token = ports.tokens.get(token_id)
    account = ports.accounts.by_id(token.account) if token is not None else None
    if (
        token is None
        or account is None
        or token.revoked_at is not None
        or not _may_revoke(token, account, subject, ports)
    ):
        raise NotFound("token", token_id)
    kind = AuditKind.SIGNED_OUT if token.kind is TokenKind.SESSION else AuditKind.TOKEN_REVOKED
    entry = ports.entry(kind, subject, target=str(account.name), token=token.id)
    if not ports.tokens.revoke(token.id, now=ports.clock.now(), audit=entry):
        raise NotFound("token", token_id)


def inspect_token(text: str, *, subject: Subject, ports: PeoplePorts) -> tuple[AccessToken, Account]:
    """Whose a token is that somebody has found, and its state.

    For admins of the node, and for anyone who may manage its account.

    Raises what `find_token` raises; TokenUnknown too for a token that the subject may not know of.
    """
    token, account = find_token(text, ports=ports)
    if not _may_revoke(token, account, subject, ports):
        raise TokenUnknown("this node has no such token of yours", hint="admins of the node can look at every one")
    return token, account


def state_of(token: AccessToken, now: Instant) -> str:
    """`valid`, `expired` or `revoked`."""
    if token.revoked_at is not None:
        return "revoked"
    return "expired" if token.expires_at is not None and token.expires_at <= now else "valid"


def _account(of: str | None, subject: Subject, ports: PeoplePorts) -> Account:
    name = of or (str(subject.account.name) if subject.account is not None else "")
    if subject.account is None:
        ports.access.require_here(subject, Action.SIGN_IN, shown="this node")
    return managed_account(name, subject=subject, ports=ports)


def _may_revoke(token: AccessToken, account: Account, subject: Subject, ports: PeoplePorts) -> bool:
    if subject.token == token.id or subject.administers:
        return True
    verdict = ports.access.policy.decide_here(subject, Action.MANAGE, under=account.name)
    return verdict.value == "allowed"


def _check_wanted(wanted: NewToken, account: Account, subject: Subject, ports: PeoplePorts) -> None:
    if not 1 <= len(wanted.name) <= NAME_CHARACTERS_MAX or not wanted.name.isprintable():
        raise InvalidRequest(
            "a token has a name that tells what it is for",
            place=Place(field="name"),
            hint=f"1 to {NAME_CHARACTERS_MAX} printable characters",
        )
    if not wanted.scopes:
        raise InvalidRequest("a token has a scope", place=Place(field="scopes"), hint="read, push, manage or admin")
    if wanted.kind is TokenKind.SESSION:
        raise InvalidRequest("sessions are made by signing in", place=Place(field="kind"))
    beyond = [scope.value for scope in wanted.scopes if not subject.has_scope(scope)]
    if beyond:
        raise AccessDenied(
            f"the token may not give {', '.join(sorted(beyond))}", hint="a token goes no further than its maker's"
        )
    if Scope.ADMIN in wanted.scopes and not account.is_admin:
        raise InvalidRequest(
            f"{account.name} is no admin of the node", place=Place(field="scopes"), hint="leave out the scope admin"
        )
    if wanted.kind is TokenKind.REFERENCE and not subject.is_admin:
        raise AccessDenied("only admins of the node make tokens of the reference's form", hint="make a personal one")
    if account.kind is AccountKind.ORGANISATION and wanted.kind is not TokenKind.SERVICE:
        raise InvalidRequest(
            "an organisation has service tokens only", place=Place(field="kind"), hint="kind `service`"
        )
    if wanted.expires_at is not None and wanted.expires_at <= ports.clock.now():
        raise InvalidRequest("the token would have expired already", place=Place(field="expiresAt"))
    if wanted.datasets is not None and not 1 <= len(wanted.datasets) <= DATASETS_MAX:
        raise InvalidRequest(f"a token is for 1 to {DATASETS_MAX} datasets, or for all", place=Place(field="datasets"))
    maximum = ports.limits.tokens_per_account_max
    if len(ports.tokens.of_account(account.id, kinds=LISTED_KINDS, limit=maximum)) >= maximum:
        raise LimitExceeded(f"{account.name} has too many tokens", limit="tokens_per_account_max", maximum=maximum)
