"""Ports whose rows hold secrets, over those that store what they are given.

Owns the moment at which a secret is sealed, and that nothing sealed is written, or read to be carried elsewhere, but within
`Sealing.kept`: so a key that a rotation takes away is not the key of a row that is written later. Invariant: `local` never sees the
secret of a subscription in the clear. Source: ADR 0048.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from odfabric.errors import Corrupt
from odfabric.model.commit import CatalogEntry, CommitIntent
from odfabric.model.identity import AccountId, DatasetId
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash
from odfabric.model.people.audit import AuditEntry
from odfabric.model.people.signing_key import SigningKey
from odfabric.model.subscriptions.subscription import Subscription, SubscriptionState
from odfabric.ports.datasets.chain_writer import ChainWriter
from odfabric.ports.datasets.commit_intents import CommitIntents
from odfabric.ports.node.sealing import (
    Sealing,
    dataset_key_context,
    is_plain_webhook_secret,
    renewed,
    signing_key_context,
    webhook_secret_context,
)
from odfabric.ports.node.signing_keys import SigningKeys
from odfabric.ports.subscriptions.subscriptions import Subscriptions

_log = logging.getLogger(__name__)


class SealedSubscriptions:
    """A Subscriptions that stores sealed secrets.

    Secrets that an older release stored in the clear are read as they are.
    """

    def __init__(self, local: Subscriptions, sealing: Sealing) -> None:
        self._local = local
        self._sealing = sealing

    def create(self, subscription: Subscription, *, secret: bytes, audit: Sequence[AuditEntry] = ()) -> None:
        """See the port."""
        with self._sealing.kept():
            sealed = self._sealing.seal(secret, context=webhook_secret_context(subscription.id))
            self._local.create(subscription, secret=sealed, audit=audit)

    def get(self, subscription_id: str) -> Subscription | None:
        """See the port."""
        return self._local.get(subscription_id)

    def secrets(self, subscription_id: str, *, now: Instant) -> Sequence[bytes]:
        """See the port."""
        with self._sealing.kept():
            stored = self._local.secrets(subscription_id, now=now)
        context = webhook_secret_context(subscription_id)
        return [
            secret if is_plain_webhook_secret(secret) else self._sealing.open(secret, context=context)
            for secret in stored
        ]

    def set_secret(
        self, subscription_id: str, secret: bytes, *, old_until: Instant, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        """See the port."""
        with self._sealing.kept():
            sealed = self._sealing.seal(secret, context=webhook_secret_context(subscription_id))
            return self._local.set_secret(subscription_id, sealed, old_until=old_until, audit=audit)

    def drop_old_secrets(self, *, now: Instant) -> int:
        """See the port."""
        return self._local.drop_old_secrets(now=now)

    def set_state(
        self,
        subscription_id: str,
        state: SubscriptionState,
        *,
        now: Instant,
        reason: str | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> bool:
        """See the port."""
        return self._local.set_state(subscription_id, state, now=now, reason=reason, audit=audit)

    def note_test(self, subscription_id: str, *, proven: bool, audit: Sequence[AuditEntry] = ()) -> bool:
        """See the port."""
        return self._local.note_test(subscription_id, proven=proven, audit=audit)

    def of_dataset(self, dataset: DatasetId, *, limit: int) -> Sequence[Subscription]:
        """See the port."""
        return self._local.of_dataset(dataset, limit=limit)

    def of_account(self, account: AccountId, *, limit: int) -> Sequence[Subscription]:
        """See the port."""
        return self._local.of_account(account, limit=limit)

    def of_node(self, *, limit: int) -> Sequence[Subscription]:
        """See the port."""
        return self._local.of_node(limit=limit)

    def counted(self) -> Mapping[SubscriptionState, int]:
        """See the port."""
        return self._local.counted()

    def delete(self, subscription_id: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """See the port."""
        return self._local.delete(subscription_id, audit=audit)


class SealedSigningKeys:
    """A SigningKeys that stores sealed private halves."""

    def __init__(self, local: SigningKeys, sealing: Sealing) -> None:
        self._local = local
        self._sealing = sealing

    def add(self, key: SigningKey, *, private: bytes) -> None:
        """See the port."""
        with self._sealing.kept():
            self._local.add(key, private=self._sealing.seal(private, context=signing_key_context(key.id)))

    def current(self) -> tuple[SigningKey, bytes] | None:
        """See the port."""
        with self._sealing.kept():
            found = self._local.current()
        if found is None:
            return None
        key, sealed = found
        return key, self._sealing.open(sealed, context=signing_key_context(key.id))

    def all(self) -> Sequence[SigningKey]:
        """See the port."""
        return self._local.all()

    def forget_retired(self, *, before: Instant) -> int:
        """See the port."""
        return self._local.forget_retired(before=before)


def sealed_chains(local: ChainWriter, sealing: Sealing) -> ChainWriter:
    """The same chains; keys of new datasets are stored under the current key."""
    return cast(ChainWriter, _SealedChains(local, sealing))


class _SealedChains:
    def __init__(self, local: ChainWriter, sealing: Sealing) -> None:
        self._local = local
        self._sealing = sealing

    def append(self, dataset: DatasetId, *, entry: CatalogEntry | None = None, **others: Any) -> None:
        """See the port."""
        if entry is None or entry.sealed_key is None:
            self._local.append(dataset, entry=entry, **others)
            return
        with self._sealing.kept():
            self._local.append(dataset, entry=_with_current_key(entry, self._sealing), **others)

    def adopt(self, dataset: DatasetId, *, entry: CatalogEntry | None = None, **others: Any) -> None:
        """See the port."""
        if entry is None or entry.sealed_key is None:
            self._local.adopt(dataset, entry=entry, **others)
            return
        with self._sealing.kept():
            self._local.adopt(dataset, entry=_with_current_key(entry, self._sealing), **others)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._local, name)


class SealedIntents:
    """A CommitIntents that stores keys of datasets under the current key.

    What it returns can be opened, and stored elsewhere, even after a rotation dropped the key that sealed it.
    """

    def __init__(self, local: CommitIntents, sealing: Sealing) -> None:
        self._local = local
        self._sealing = sealing

    def add(self, intent: CommitIntent) -> None:
        """See the port."""
        if intent.entry is None or intent.entry.sealed_key is None:
            self._local.add(intent)
            return
        with self._sealing.kept():
            self._local.add(replace(intent, entry=_with_current_key(intent.entry, self._sealing)))

    def drop(self, key: Multihash) -> None:
        """See the port."""
        self._local.drop(key)

    def all(self) -> Sequence[CommitIntent]:
        """See the port."""
        with self._sealing.kept():
            return self._local.all()


def _with_current_key(entry: CatalogEntry, sealing: Sealing) -> CatalogEntry:
    """A key that nothing opens is stored as it is: the dataset is of use without it."""
    assert entry.sealed_key is not None
    try:
        sealed = renewed(sealing, entry.sealed_key, context=dataset_key_context(entry.id))
    except Corrupt as error:
        _log.warning("the private key of dataset %s: %s", entry.id, error)
        return entry
    return replace(entry, sealed_key=sealed)
