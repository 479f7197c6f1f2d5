"""Proofs of identity: access tokens, one-time codes, device authorisations.

Owns the values as they are stored: secrets only as hashes. The text of a token is `formats.secrets.access_token`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from odfabric.model.identity import AccountId, DatasetId, Name
from odfabric.model.instant import Instant


class TokenKind(Enum):
    """The value is the middle of the token's prefix, `odf_pat_`.

    A service token is meant for a program; a session is a browser's, kept in its cookie; a reference token has the 61 characters
    that clients of the reference know.
    """

    PERSONAL = "pat"
    SERVICE = "svc"
    SESSION = "ses"
    REFERENCE = "ka"


class Scope(Enum):
    """What a token may be used for, within the rights of its account.

    MANAGE includes PUSH and READ; ADMIN is being node admin.
    """

    READ = "read"
    PUSH = "push"
    MANAGE = "manage"
    ADMIN = "admin"


ALL_SCOPES = frozenset(Scope)

OPERATOR_TOKEN_ID = "operator"
"""Stands for the id of the token with which the operator has started the node, which no database keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    """A token as it is stored.

    `secret_hash` is the SHA-256 of its secret part; `datasets` None means all of the account's.

    `last_used_at` is exact to a minute. A token is valid unless it has expired or was revoked.
    """

    id: str
    account: AccountId
    kind: TokenKind
    name: str
    secret_hash: bytes
    scopes: frozenset[Scope]
    created_at: Instant
    created_by: AccountId
    datasets: frozenset[DatasetId] | None = None
    expires_at: Instant | None = None
    last_used_at: Instant | None = None
    revoked_at: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """A single-use link: it makes an account, or a new password for `account`.

    `code_hash` is the SHA-256 of the code. `name` is the name that the new account must have, None leaves the choice.
    """

    id: str
    code_hash: bytes
    created_at: Instant
    created_by: AccountId | None
    expires_at: Instant
    account: AccountId | None = None
    name: Name | None = None
    email: str | None = None
    is_admin: bool = False
    used_at: Instant | None = None


class DeviceDecision(Enum):
    """What the person has said to a device that asks for a token."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceAuthorisation:
    """A device that waits for a person to approve it (RFC 8628).

    `account` is who has decided.

    `device_code_hash` is the SHA-256 of the code that the device holds; `user_code` is what the person reads off it. `interval_s` is
    the least pause between two questions of the device, which grows when it asks faster.
    """

    device_code_hash: bytes
    user_code: str
    client: str
    created_at: Instant
    expires_at: Instant
    interval_s: int
    scopes: frozenset[Scope] = frozenset({Scope.READ, Scope.PUSH, Scope.MANAGE})
    decision: DeviceDecision = DeviceDecision.PENDING
    account: AccountId | None = None
    asked_at: Instant | None = None
