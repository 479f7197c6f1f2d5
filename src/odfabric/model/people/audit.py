"""What happened, who did it, from where: entries of the audit.

Owns the values; the ports of the changes write them in the transaction of the change (`ports.people.audit`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant


class AuditKind(Enum):
    """What was done, or was tried and refused."""

    ACCOUNT_CREATED = "account.created"
    ACCOUNT_CHANGED = "account.changed"
    ACCOUNT_DELETED = "account.deleted"
    ACCOUNT_SUSPENDED = "account.suspended"
    ACCOUNT_RESUMED = "account.resumed"
    ADMIN_GRANTED = "admin.granted"
    ADMIN_REVOKED = "admin.revoked"
    PASSWORD_CHANGED = "password.changed"
    IDENTITY_LINKED = "identity.linked"
    INVITATION_CREATED = "invitation.created"
    INVITATION_USED = "invitation.used"
    INVITATION_REVOKED = "invitation.revoked"
    LIMITS_CHANGED = "limits.changed"
    MEMBER_CHANGED = "member.changed"
    MEMBER_REMOVED = "member.removed"
    ROLE_GRANTED = "role.granted"
    ROLE_REVOKED = "role.revoked"
    VISIBILITY_CHANGED = "visibility.changed"
    TOKEN_CREATED = "token.created"
    TOKEN_REVOKED = "token.revoked"
    SIGNED_IN = "session.opened"
    SIGNED_OUT = "session.closed"
    DEVICE_DECIDED = "device.decided"
    DATASET_CREATED = "dataset.created"
    DATASET_DELETED = "dataset.deleted"
    DATASET_RENAMED = "dataset.renamed"
    HEAD_MOVED = "head.moved"
    HISTORY_REPLACED = "history.replaced"
    DATASET_KEY_EXPORTED = "dataset.key.exported"
    DATASET_KEY_IMPORTED = "dataset.key.imported"
    DATASET_KEY_ROTATED = "dataset.key.rotated"
    REPOSITORY_ADDED = "repository.added"
    REPOSITORY_REMOVED = "repository.removed"
    DATASET_SENT = "dataset.sent"
    SUBSCRIPTION_CREATED = "subscription.created"
    SUBSCRIPTION_DELETED = "subscription.deleted"
    FLOW_CHANGED = "flow.changed"
    FLOW_STOPPED = "flow.stopped"
    SUBSCRIPTION_PAUSED = "subscription.paused"
    SUBSCRIPTION_RESUMED = "subscription.resumed"
    SUBSCRIPTION_DISABLED = "subscription.disabled"
    SUBSCRIPTION_REPLAYED = "subscription.replayed"
    SUBSCRIPTION_TESTED = "subscription.tested"
    SUBSCRIPTION_SECRET_ROTATED = "subscription.secret-rotated"
    SETTING_CHANGED = "setting.changed"
    KEY_ROTATED = "key.rotated"
    ACCESS_REFUSED = "access.refused"
    SIGN_IN_REFUSED = "session.refused"
    TOKEN_REFUSED = "token.refused"


class AuditOutcome(Enum):
    """Whether it happened."""

    DONE = "done"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who did it: texts as they are to be read years later.

    A stranger has neither account nor token.

    `account` is an identity (`did:odf:...`), `name` the account's name at that time, `token` the id of the token, never its secret,
    `address` the peer's IP address.
    """

    account: str | None = None
    name: str | None = None
    token: str | None = None
    address: str | None = None


THE_NODE = Actor(name="system")
"""The node itself: what nobody asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One entry.

    `target` is what it was done to, as people name it; `detail` holds further texts, none of them a secret.
    """

    kind: AuditKind
    actor: Actor
    at: Instant
    target: str | None = None
    dataset: DatasetId | None = None
    outcome: AuditOutcome = AuditOutcome.DONE
    detail: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAuditEntry:
    """An entry in the log.

    Refusals that repeat are one entry: `count` of them, the newest at `last_at`. Ids grow.
    """

    id: int
    entry: AuditEntry
    count: int = 1
    last_at: Instant
