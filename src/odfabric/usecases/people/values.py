"""Values about people as JSON, the same in answers and on the command line.

Accounts, roles, tokens, invitations and audit entries.

Invariant: no value holds a secret; what a secret is reported in (a new token, a new link) is made by its caller. Pure.
"""

from __future__ import annotations

from urllib.parse import quote

from odfabric.domain.people.access import Subject
from odfabric.model.people.account import Account, Grant, Membership
from odfabric.model.people.audit import StoredAuditEntry
from odfabric.model.people.credential import AccessToken, Invitation, TokenKind

KINDS_OF_TOKENS = {
    "personal": TokenKind.PERSONAL,
    "service": TokenKind.SERVICE,
    "session": TokenKind.SESSION,
    "reference": TokenKind.REFERENCE,
}
_KIND_NAMES = {kind: name for name, kind in KINDS_OF_TOKENS.items()}


def account_value(account: Account) -> dict[str, object]:
    """As others see it."""
    return {
        "id": str(account.id),
        "name": str(account.name),
        "kind": account.kind.value,
        "displayName": account.display_name,
        "avatarLetter": account.avatar_letter,
        "createdAt": str(account.created_at),
    }


def managed_value(account: Account) -> dict[str, object]:
    """As it sees itself."""
    limits = account.limits
    return {
        **account_value(account),
        "email": account.email,
        "isAdmin": account.is_admin,
        "suspendedAt": str(account.suspended_at) if account.suspended_at else None,
        "limits": {
            "datasetsMax": limits.datasets_max,
            "storedBytesMax": limits.stored_bytes_max,
            "pushesPerMinuteMax": limits.pushes_per_minute_max,
            "queriesAtOnceMax": limits.queries_at_once_max,
        },
        "version": account.version,
    }


def myself_value(subject: Subject, account: Account) -> dict[str, object]:
    """Who asks: `account` is the subject's."""
    return {
        "id": str(account.id),
        "accountName": str(account.name),
        "account": managed_value(account),
        "organisations": [{"name": str(found.name), "role": role.value} for found, role in subject.organisations],
        "scopes": sorted(scope.value for scope in subject.scopes),
        "token": subject.token,
    }


def role_value(account: Account, relation: Membership | Grant) -> dict[str, object]:
    """A member or collaborator."""
    return {"account": account_value(account), "role": relation.role.value, "version": relation.version}


def token_value(token: AccessToken, account: Account, state: str) -> dict[str, object]:
    """Without its secret."""
    return {
        "id": token.id,
        "account": str(account.name),
        "kind": _KIND_NAMES[token.kind],
        "name": token.name,
        "scopes": sorted(scope.value for scope in token.scopes),
        "datasets": None if token.datasets is None else sorted(map(str, token.datasets)),
        "createdAt": str(token.created_at),
        "expiresAt": str(token.expires_at) if token.expires_at else None,
        "lastUsedAt": str(token.last_used_at) if token.last_used_at else None,
        "revokedAt": str(token.revoked_at) if token.revoked_at else None,
        "state": state,
    }


def invitation_value(invitation: Invitation, account: Account | None) -> dict[str, object]:
    """Without its code."""
    return {
        "id": invitation.id,
        "name": str(invitation.name) if invitation.name else None,
        "account": str(account.name) if account else None,
        "email": invitation.email,
        "isAdmin": invitation.is_admin,
        "createdAt": str(invitation.created_at),
        "expiresAt": str(invitation.expires_at),
    }


def invitation_url(origin: str, code: str) -> str:
    """The link of an invitation.

    `origin` is scheme, host and port by which people reach the node.
    """
    return f"{origin}/setup?code={quote(code)}"


def audit_value(stored: StoredAuditEntry) -> dict[str, object]:
    """An entry of the audit."""
    entry = stored.entry
    return {
        "id": stored.id,
        "kind": entry.kind.value,
        "at": str(entry.at),
        "lastAt": str(stored.last_at),
        "count": stored.count,
        "outcome": entry.outcome.value,
        "actor": {
            "account": entry.actor.account,
            "name": entry.actor.name,
            "token": entry.actor.token,
            "address": entry.actor.address,
        },
        "target": entry.target,
        "dataset": str(entry.dataset) if entry.dataset else None,
        "detail": dict(entry.detail),
    }
