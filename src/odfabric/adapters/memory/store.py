"""Rows of datasets, subscriptions, accounts and the audit log, behind one lock.

Owns the state that several ports share because they share transactions. Invariant: every change is made whole while the lock
is held, so nobody sees half a transaction. Not here: what the changes are (`chains`, `deliveries`, `accounts`, ...).
"""

from __future__ import annotations

import threading
from copy import deepcopy
from dataclasses import dataclass, field

from odfabric.domain.people.dataset_search import SearchDocument
from odfabric.domain.subscriptions.events import event_of
from odfabric.model.commit import BlockRow, CatalogEntry, Head, IdempotencyRecord, OutboxMessage
from odfabric.model.heads.head_log import SeenHead, SignedMove
from odfabric.model.identity import AccountId, DatasetAlias, DatasetId, Name
from odfabric.model.instant import Instant
from odfabric.model.jobs.flow import Flow, FlowRun
from odfabric.model.multihash import Multihash
from odfabric.model.people.account import Account, ExternalIdentity, Grant, Grantee, Membership
from odfabric.model.people.audit import AuditEntry, StoredAuditEntry
from odfabric.model.people.credential import AccessToken, DeviceAuthorisation, Invitation
from odfabric.model.people.saved_query import SavedQuery
from odfabric.model.people.signing_key import SigningKey
from odfabric.model.people.variable import Variable
from odfabric.model.subscriptions.event import Event
from odfabric.model.subscriptions.subscription import Delivery, DeliveryAttempt, Subscription
from odfabric.model.transfer.repository import RemoteAlias, RemoteRepository
from odfabric.ports.people.audit import storable


@dataclass(slots=True)
class StoredDataset:
    """A dataset with its index.

    `rows[n]` is the block with number `n` after the first one's; bytes of None are not known.
    """

    entry: CatalogEntry
    rows: list[BlockRow] = field(default_factory=list)
    by_hash: dict[Multihash, BlockRow] = field(default_factory=dict)
    records: dict[bytes, IdempotencyRecord] = field(default_factory=dict)
    stored_bytes: int | None = 0
    document: SearchDocument | None = None

    @property
    def head(self) -> Head:
        """The newest block."""
        row = self.rows[-1]
        return Head(row.hash, row.sequence_number, row.system_time)


@dataclass(slots=True)
class StoredMessage:
    """An outbox message; ids are positions in the list, from 1."""

    message: OutboxMessage
    done: bool = False


@dataclass(slots=True)
class StoredSubscription:
    """A subscription with its secret, position in the outbox and delivery count.

    The last outbox message before it, and the number of its last delivery.
    """

    subscription: Subscription
    secret: bytes
    after_message: int
    sequence: int = 0
    old_secret: bytes | None = None


@dataclass(slots=True)
class StoredDelivery:
    """A delivery, when it was written last, and until when it is hidden."""

    delivery: Delivery
    updated_at: Instant
    leased_until: Instant | None = None


@dataclass(slots=True)
class StoredAttempt:
    """A logged attempt and what it belongs to."""

    subscription_id: str
    delivery_id: str
    attempt: DeliveryAttempt


@dataclass(slots=True)
class StoredAccount:
    """An account with its password."""

    account: Account
    password_hash: str | None = None


@dataclass(slots=True)
class LoggedEntry:
    """An audit entry. `repeat_key` is there as long as the refusal is counted."""

    stored: StoredAuditEntry
    repeat_key: tuple[str | None, ...] | None = None
    is_flushed: bool = False


class MemoryStore:
    """The state; adapters take `lock` for every read and write."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.datasets: dict[DatasetId, StoredDataset] = {}
        self.head_logs: dict[DatasetId, list[SignedMove]] = {}
        self.heads_seen: dict[DatasetId, SeenHead] = {}
        self.job_commits: dict[str, Multihash] = {}
        self.outbox: list[StoredMessage] = []
        self.subscriptions: dict[str, StoredSubscription] = {}
        self.deliveries: dict[str, StoredDelivery] = {}
        self.attempts: list[StoredAttempt] = []
        self.removed: dict[DatasetId, Instant] = {}
        self.flows: dict[str, Flow] = {}
        self.flow_runs: dict[str, FlowRun] = {}
        self.cancelled_jobs: set[str] = set()
        self.accounts: dict[AccountId, StoredAccount] = {}
        self.identities: dict[ExternalIdentity, AccountId] = {}
        self.memberships: dict[tuple[AccountId, AccountId], Membership] = {}
        self.grants: dict[tuple[DatasetId, Grantee], Grant] = {}
        self.tokens: dict[str, AccessToken] = {}
        self.invitations: dict[str, Invitation] = {}
        self.devices: dict[bytes, DeviceAuthorisation] = {}
        self.saved_queries: dict[str, SavedQuery] = {}
        self.repositories: dict[tuple[AccountId | None, Name], RemoteRepository] = {}
        self.remote_aliases: set[RemoteAlias] = set()
        self.variables: dict[tuple[DatasetId, str], tuple[Variable, bytes]] = {}
        self.signing_keys: list[tuple[SigningKey, bytes | None]] = []
        self.audit_log: list[LoggedEntry] = []
        self.audit_entries = 0

    def backup(self) -> MemoryStore:
        """A copy of the state as it is now."""
        copy = MemoryStore()
        with self.lock:
            for name, state in vars(self).items():
                if name != "lock":
                    setattr(copy, name, deepcopy(state))
        return copy

    def by_alias(self, alias: DatasetAlias) -> StoredDataset | None:
        """The dataset of an alias. The lock must be held."""
        return next((stored for stored in self.datasets.values() if stored.entry.alias == alias), None)

    def account_named(self, name: Name) -> StoredAccount | None:
        """The account of a name. The lock must be held."""
        return next((stored for stored in self.accounts.values() if stored.account.name == name), None)

    def drop_aliases(self, dataset: DatasetId) -> None:
        """Forget where a dataset that goes was pushed to."""
        self.remote_aliases = {alias for alias in self.remote_aliases if alias.dataset != dataset}

    def granted(self, dataset: DatasetId) -> list[Grant]:
        """Grants on a dataset, in order of the grantee's text. The lock must be held."""
        found = [grant for (of, _), grant in self.grants.items() if of == dataset]
        return sorted(found, key=lambda grant: str(grant.grantee))

    def send(self, *events: Event | None) -> None:
        """Append events to the outbox. The lock must be held."""
        self.outbox += [StoredMessage(OutboxMessage.of(event)) for event in events if event is not None]

    def log(self, *entries: AuditEntry, repeat_key: tuple[str | None, ...] | None = None) -> None:
        """Append to the audit log, and the events of it to the outbox.

        Numbers of the log are given once. The lock must be held.
        """
        for entry in entries:
            self.send(event_of(entry))
            self.audit_entries += 1
            stored = StoredAuditEntry(id=self.audit_entries, entry=storable(entry), last_at=entry.at)
            self.audit_log.append(LoggedEntry(stored, repeat_key))
