"""Browser sessions of an account: where somebody is signed in, and ending that.

A session is an access token. The audit log says from which address it was opened, as long as it keeps that entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from odfabric.domain.people.access import Subject
from odfabric.errors import NotFound
from odfabric.model.identity import AccountId
from odfabric.model.people.audit import AuditKind
from odfabric.model.people.credential import AccessToken, TokenKind
from odfabric.usecases.people.ports import PeoplePorts
from odfabric.usecases.people.tokens import list_tokens, revoke_token, state_of

PAGE_SESSIONS = 100
OPENINGS_READ_MAX = 500
"""Newest entries of the audit in which the addresses are looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSession:
    """A session that counts.

    `address` is the one from which it was opened, None if that is not known any more.
    """

    token: AccessToken
    address: str | None
    is_own: bool


def list_sessions(*, subject: Subject, ports: PeoplePorts) -> Sequence[OpenSession]:
    """The subject's sessions, at most `PAGE_SESSIONS`: the present one, then by use.

    By last use. Raises Unauthenticated, AccessDenied.
    """
    found = [token for token in _page(None, subject, ports) if state_of(token, ports.clock.now()) == "valid"]
    addresses = _addresses(found[0].account, ports) if found else {}
    sessions = [
        OpenSession(token=token, address=addresses.get(token.id), is_own=token.id == subject.token) for token in found
    ]
    return sorted(
        sessions, key=lambda each: (each.is_own, each.token.last_used_at or each.token.created_at), reverse=True
    )


def end_other_sessions(*, subject: Subject, ports: PeoplePorts) -> int:
    """End all sessions of the subject but the one that asks; how many.

    Raises Unauthenticated, AccessDenied.
    """
    ended = 0
    for token in _all(subject, ports):
        if token.id == subject.token:
            continue
        try:
            revoke_token(token.id, subject=subject, ports=ports)
        except NotFound:
            continue  # ended meanwhile
        ended += 1
    return ended


def _all(subject: Subject, ports: PeoplePorts) -> Iterator[AccessToken]:
    after = None
    while found := _page(after, subject, ports):
        yield from found
        after = found[-1].id


def _page(after: str | None, subject: Subject, ports: PeoplePorts) -> Sequence[AccessToken]:
    kinds = frozenset({TokenKind.SESSION})
    return list_tokens(kinds=kinds, after=after, limit=PAGE_SESSIONS, subject=subject, ports=ports)


def _addresses(account: AccountId, ports: PeoplePorts) -> dict[str, str]:
    opened = ports.audit.page(
        kinds=frozenset({AuditKind.SIGNED_IN.value}),
        account=str(account),
        newest_first=True,
        limit=OPENINGS_READ_MAX,
    )
    actors = [stored.entry.actor for stored in opened]
    return {each.token: each.address for each in actors if each.token is not None and each.address is not None}
