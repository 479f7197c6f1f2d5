"""Tokens, invitations and device authorisations in memory.

Owns the changes of `ports.people.credentials` over `MemoryStore`. Invariant: all checks come before the first change, so a refused call has
written nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from odfabric.adapters.memory.people.accounts import check_new_account, hold_account, replace_password
from odfabric.adapters.memory.store import MemoryStore, StoredAccount
from odfabric.errors import AlreadyExists, NotFound
from odfabric.model.identity import AccountId
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.people.account import Account
from odfabric.model.people.audit import AuditEntry
from odfabric.model.people.credential import (
    AccessToken,
    DeviceAuthorisation,
    DeviceDecision,
    Invitation,
    TokenKind,
)
from odfabric.ports.people.credentials import USE_REMEMBERED_S, password_of_known, too_many_devices


class MemoryTokens:
    """A Tokens."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def create(self, token: AccessToken, *, audit: AuditEntry) -> None:
        """See the port."""
        with self._store.lock:
            _add_token(self._store, token)
            self._store.log(audit)

    def get(self, token_id: str) -> AccessToken | None:
        """See the port."""
        with self._store.lock:
            return self._store.tokens.get(token_id)

    def of_account(
        self, account: AccountId, *, kinds: Collection[TokenKind], after: str | None = None, limit: int
    ) -> Sequence[AccessToken]:
        """See the port."""
        found = [token for token in self._not_revoked(account, kinds) if after is None or token.id > after]
        return sorted(found, key=lambda token: token.id)[:limit]

    def revoke(self, token_id: str, *, now: Instant, audit: AuditEntry) -> bool:
        """See the port."""
        with self._store.lock:
            token = self._store.tokens.get(token_id)
            if token is None or token.revoked_at is not None:
                return False
            self._store.tokens[token_id] = replace(token, revoked_at=now)
            self._store.log(audit)
            return token.expires_at is None or token.expires_at > now

    def revoke_all(self, account: AccountId, *, kinds: Collection[TokenKind], now: Instant, audit: AuditEntry) -> int:
        """See the port."""
        with self._store.lock:
            ended = self._not_revoked(account, kinds)
            self._store.tokens.update((token.id, replace(token, revoked_at=now)) for token in ended)
            if ended:
                self._store.log(audit)
            return len(ended)

    def used(self, token_id: str, *, now: Instant) -> None:
        """See the port."""
        with self._store.lock:
            token = self._store.tokens.get(token_id)
            if token is None or (token.last_used_at and token.last_used_at >= _after(now, -USE_REMEMBERED_S)):
                return
            self._store.tokens[token_id] = replace(token, last_used_at=now)

    def forget(self, *, ended_before: Instant, limit: int) -> int:
        """See the port."""

        def is_old(token: AccessToken) -> bool:
            return any(end is not None and end < ended_before for end in (token.expires_at, token.revoked_at))

        with self._store.lock:
            gone = [token.id for token in self._store.tokens.values() if is_old(token)][:limit]
            for token_id in gone:
                del self._store.tokens[token_id]
            return len(gone)

    def _not_revoked(self, account: AccountId, kinds: Collection[TokenKind]) -> list[AccessToken]:
        with self._store.lock:
            known = list(self._store.tokens.values())
        return [
            token for token in known if token.account == account and token.kind in kinds and token.revoked_at is None
        ]


class MemoryInvitations:
    """An Invitations."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def create(self, invitation: Invitation, *, audit: AuditEntry) -> None:
        """See the port."""
        with self._store.lock:
            if invitation.account is not None:
                hold_account(self._store, invitation.account)
            if invitation.id in self._store.invitations or self.by_code(invitation.code_hash) is not None:
                raise AlreadyExists(f"invitation {invitation.id} exists already")
            self._store.invitations[invitation.id] = invitation
            self._store.log(audit)

    def by_code(self, code_hash: bytes) -> Invitation | None:
        """See the port."""
        with self._store.lock:
            return next((each for each in self._store.invitations.values() if each.code_hash == code_hash), None)

    def get(self, invitation_id: str) -> Invitation | None:
        """See the port."""
        with self._store.lock:
            return self._store.invitations.get(invitation_id)

    def open(self, *, now: Instant, limit: int) -> Sequence[Invitation]:
        """See the port."""
        with self._store.lock:
            usable = [each for each in self._store.invitations.values() if _is_usable(each, now)]
        return sorted(usable, key=lambda each: (each.created_at, each.id), reverse=True)[:limit]

    def use(
        self, invitation: Invitation, account: Account, password_hash: str | None, *, now: Instant, audit: AuditEntry
    ) -> Account:
        """See the port."""
        changed = password_of_known(invitation, password_hash)
        with self._store.lock:
            stored = self._store.invitations.get(invitation.id)
            if stored is None or not _is_usable(stored, now):
                raise NotFound("invitation", invitation.id)
            if invitation.account is not None and changed is not None:
                account = replace_password(self._store, invitation.account, changed, at=now)
            else:
                check_new_account(self._store, account)
                self._store.accounts[account.id] = StoredAccount(account, password_hash)
            self._store.invitations[invitation.id] = replace(stored, used_at=now)
            self._store.log(audit)
            return account

    def revoke(self, invitation_id: str, *, audit: AuditEntry) -> bool:
        """See the port."""
        with self._store.lock:
            stored = self._store.invitations.get(invitation_id)
            if stored is None or stored.used_at is not None:
                return False
            del self._store.invitations[invitation_id]
            self._store.log(audit)
            return True


class MemoryDeviceAuthorisations:
    """A DeviceAuthorisations."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def create(self, device: DeviceAuthorisation, *, waiting_max: int) -> None:
        """See the port."""
        with self._store.lock:
            for expired in [each for each in self._store.devices.values() if each.expires_at <= device.created_at]:
                del self._store.devices[expired.device_code_hash]
            if len(self._store.devices) >= waiting_max:
                raise too_many_devices(waiting_max)
            if device.device_code_hash in self._store.devices or self.by_user_code(device.user_code) is not None:
                raise AlreadyExists("the code of a device is in use already")
            self._store.devices[device.device_code_hash] = device

    def by_user_code(self, user_code: str) -> DeviceAuthorisation | None:
        """See the port."""
        with self._store.lock:
            return next((each for each in self._store.devices.values() if each.user_code == user_code), None)

    def decide(
        self, user_code: str, decision: DeviceDecision, account: AccountId, *, now: Instant, audit: AuditEntry
    ) -> None:
        """See the port."""
        with self._store.lock:
            hold_account(self._store, account)
            device = self.by_user_code(user_code)
            if device is None or device.decision is not DeviceDecision.PENDING or device.expires_at <= now:
                raise NotFound("device", user_code)
            self._store.devices[device.device_code_hash] = replace(device, decision=decision, account=account)
            self._store.log(audit)

    def ask(self, device_code_hash: bytes, *, now: Instant, slow_down_s: int) -> DeviceAuthorisation | None:
        """See the port."""
        with self._store.lock:
            device = self._store.devices.get(device_code_hash)
            if device is None:
                return None
            fast = device.asked_at is not None and now < _after(device.asked_at, device.interval_s)
            interval_s = device.interval_s + (slow_down_s if fast else 0)
            self._store.devices[device_code_hash] = replace(device, asked_at=now, interval_s=interval_s)
            return device

    def redeem(self, device_code_hash: bytes, token: AccessToken, *, audit: AuditEntry) -> bool:
        """See the port."""
        with self._store.lock:
            device = self._store.devices.get(device_code_hash)
            if device is None or device.decision is not DeviceDecision.APPROVED or device.account != token.account:
                return False
            _add_token(self._store, token)
            del self._store.devices[device_code_hash]
            self._store.log(audit)
            return True


def _add_token(store: MemoryStore, token: AccessToken) -> None:
    hold_account(store, token.account)
    if token.id in store.tokens:
        raise AlreadyExists(f"token {token.id} exists already")
    store.tokens[token.id] = token


def _is_usable(invitation: Invitation, now: Instant) -> bool:
    return invitation.used_at is None and invitation.expires_at > now


def _after(time: Instant, seconds: int) -> Instant:
    return Instant(time.epoch_ns + seconds * NANOS_PER_SECOND)
