"""Accounts, memberships and grants in memory.

Owns the changes of `ports.people.accounts` over `MemoryStore`. Invariant: all checks come before the first change, so a refused call has
written nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from odfabric.adapters.memory.store import MemoryStore, StoredAccount
from odfabric.adapters.memory.subscriptions.deliveries import drop_subscriptions_of_account
from odfabric.errors import AlreadyExists, NotFound
from odfabric.model.identity import AccountId, DatasetId, Name
from odfabric.model.instant import Instant
from odfabric.model.people.account import (
    EVERYONE,
    Account,
    AccountKind,
    ExternalIdentity,
    Grant,
    Grantee,
    Membership,
    OrganisationRole,
)
from odfabric.model.people.audit import AuditEntry
from odfabric.model.people.credential import TokenKind
from odfabric.ports.people.accounts import (
    NAME_TAKEN_HINT,
    USERS_TOLD_MAX,
    changed_meanwhile,
    check_founder,
    datasets_in_use,
    identity_taken,
    last_admin_of_node,
    last_admin_of_organisation,
    pair_of_grant,
    pair_of_membership,
)


class MemoryAccounts:
    """An Accounts."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def by_id(self, account: AccountId) -> Account | None:
        """See the port."""
        with self._store.lock:
            stored = self._store.accounts.get(account)
            return stored.account if stored else None

    def by_name(self, name: Name) -> Account | None:
        """See the port."""
        with self._store.lock:
            stored = self._store.account_named(name)
            return stored.account if stored else None

    def by_identity(self, identity: ExternalIdentity) -> Account | None:
        """See the port."""
        with self._store.lock:
            owner = self._store.identities.get(identity)
            return self._store.accounts[owner].account if owner is not None else None

    def identities(self, account: AccountId) -> Sequence[ExternalIdentity]:
        """See the port."""
        with self._store.lock:
            found = [identity for identity, owner in self._store.identities.items() if owner == account]
        return sorted(found, key=lambda identity: (identity.issuer, identity.subject))

    def page(
        self, *, kind: AccountKind | None = None, containing: str = "", after: Name | None = None, limit: int
    ) -> Sequence[Account]:
        """See the port."""
        return [
            account
            for account in self._by_name()
            if (kind is None or account.kind is kind)
            and (after is None or account.name.folded > after.folded)
            and any(containing.lower() in text for text in (account.name.folded, (account.email or "").lower()))
        ][:limit]

    def admins(self, *, limit: int) -> Sequence[Account]:
        """See the port."""
        return [account for account in self._by_name() if _is_admin(account)][:limit]

    def create(self, account: Account, *, audit: AuditEntry, founder: AccountId | None = None) -> None:
        """See the port."""
        check_founder(account, founder)
        with self._store.lock:
            check_new_account(self._store, account)
            if founder is not None:
                hold_account(self._store, founder, kind=AccountKind.USER)
                first = Membership(organisation=account.id, member=founder, role=OrganisationRole.ADMIN)
                self._store.memberships[account.id, founder] = first
            self._store.accounts[account.id] = StoredAccount(account)
            self._store.log(audit)

    def change(self, account: Account, *, audit: AuditEntry) -> Account:
        """See the port."""
        with self._store.lock:
            stored = self._store.accounts.get(account.id)
            if stored is None:
                raise NotFound("account", str(account.name))
            before = stored.account
            if before.version != account.version:
                raise changed_meanwhile(f"account {account.name}")
            after = replace(
                account,
                name=before.name,
                kind=before.kind,
                created_at=before.created_at,
                version=account.version + 1,
            )
            if _is_admin(before) and not _is_admin(after):
                self._check_has_admin(but=account.id)
            stored.account = after
            self._store.log(audit)
            return after

    def delete(self, account: AccountId, *, audit: AuditEntry) -> None:
        """See the port."""
        with self._store.lock:
            found = hold_account(self._store, account).account
            for membership in self._store.memberships.values():
                if membership.member == account and membership.role is OrganisationRole.ADMIN:
                    _check_has_admin(self._store, membership.organisation, but=account)
            if _is_admin(found):
                self._check_has_admin(but=account)
            self._check_owns_nothing(found.name)
            _forget_account(self._store, account)
            drop_subscriptions_of_account(self._store, account)
            self._store.log(audit)

    def password_hash(self, account: AccountId) -> str | None:
        """See the port."""
        with self._store.lock:
            stored = self._store.accounts.get(account)
            return stored.password_hash if stored else None

    def set_password(self, account: AccountId, password_hash: str, *, audit: AuditEntry) -> None:
        """See the port."""
        with self._store.lock:
            replace_password(self._store, account, password_hash, at=audit.at)
            self._store.log(audit)

    def link_identity(self, account: AccountId, identity: ExternalIdentity, *, audit: AuditEntry) -> None:
        """See the port."""
        with self._store.lock:
            hold_account(self._store, account)
            owner = self._store.identities.get(identity)
            if owner is None:
                self._store.identities[identity] = account
                self._store.log(audit)
            elif owner != account:
                raise identity_taken(identity)

    def _by_name(self) -> list[Account]:
        with self._store.lock:
            known = [stored.account for stored in self._store.accounts.values()]
        return sorted(known, key=lambda account: account.name.folded)

    def _check_has_admin(self, *, but: AccountId) -> None:
        others = (stored.account for stored in self._store.accounts.values() if stored.account.id != but)
        if not any(map(_is_admin, others)):
            raise last_admin_of_node()

    def _check_owns_nothing(self, name: Name) -> None:
        aliases = [stored.entry.alias for stored in self._store.datasets.values() if stored.entry.alias.account == name]
        if aliases:
            first = sorted(aliases, key=lambda alias: alias.name.folded)[:USERS_TOLD_MAX]
            raise datasets_in_use(name, [str(alias) for alias in first])


class MemoryRelations:
    """A Relations."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def memberships(self, member: AccountId) -> Sequence[Membership]:
        """See the port."""
        with self._store.lock:
            found = [each for each in self._store.memberships.values() if each.member == member]
        return sorted(found, key=lambda each: str(each.organisation))

    def membership(self, organisation: AccountId, member: AccountId) -> Membership | None:
        """See the port."""
        with self._store.lock:
            return self._store.memberships.get((organisation, member))

    def members(self, organisation: AccountId, *, limit: int) -> Sequence[Membership]:
        """See the port."""
        with self._store.lock:
            found = [each for each in self._store.memberships.values() if each.organisation == organisation]
        return sorted(found, key=lambda each: str(each.member))[:limit]

    def change_membership(
        self, before: Membership | None, after: Membership | None, *, audit: AuditEntry
    ) -> Membership | None:
        """See the port."""
        organisation, member = pair = pair_of_membership(before, after)
        with self._store.lock:
            hold_account(self._store, organisation, kind=AccountKind.ORGANISATION)
            hold_account(self._store, member)
            if self._store.memberships.get(pair) != before:
                raise changed_meanwhile(f"the role of {member}")
            leaves = after is None or after.role is not OrganisationRole.ADMIN
            if before is not None and before.role is OrganisationRole.ADMIN and leaves:
                _check_has_admin(self._store, organisation, but=member)
            self._store.log(audit)
            if after is None:
                del self._store.memberships[pair]
                return None
            self._store.memberships[pair] = made = replace(after, version=before.version + 1 if before else 1)
            return made

    def grants(self, dataset: DatasetId, *, limit: int) -> Sequence[Grant]:
        """See the port."""
        with self._store.lock:
            return self._store.granted(dataset)[:limit]

    def grant(self, dataset: DatasetId, grantee: Grantee) -> Grant | None:
        """See the port."""
        with self._store.lock:
            return self._store.grants.get((dataset, grantee))

    def granted(
        self, datasets: Collection[DatasetId], grantees: Collection[Grantee]
    ) -> Mapping[DatasetId, Sequence[Grant]]:
        """See the port."""
        with self._store.lock:
            found = {
                dataset: [grant for grant in self._store.granted(dataset) if grant.grantee in grantees]
                for dataset in datasets
            }
        return {dataset: grants for dataset, grants in found.items() if grants}

    def change_grant(self, before: Grant | None, after: Grant | None, *, audit: AuditEntry) -> Grant | None:
        """See the port."""
        dataset, grantee = pair = pair_of_grant(before, after)
        with self._store.lock:
            if dataset not in self._store.datasets:
                raise NotFound("dataset", str(dataset))
            if grantee != EVERYONE:
                hold_account(self._store, grantee)
            if self._store.grants.get(pair) != before:
                raise changed_meanwhile(f"the role of {grantee}")
            self._store.log(audit)
            if after is None:
                del self._store.grants[pair]
                return None
            self._store.grants[pair] = made = replace(after, version=before.version + 1 if before else 1)
            return made


def hold_account(store: MemoryStore, account: AccountId, *, kind: AccountKind | None = None) -> StoredAccount:
    """An account. Raises NotFound; for one of another kind too. The lock must be held."""
    stored = store.accounts.get(account)
    if stored is None or (kind is not None and stored.account.kind is not kind):
        raise NotFound(kind.value if kind else "account", str(account))
    return stored


def check_new_account(store: MemoryStore, account: Account) -> None:
    """Raises AlreadyExists for an id or a name that is taken. The lock must be held."""
    if store.account_named(account.name) is not None:
        raise AlreadyExists(f"an account with the name {account.name} exists already", hint=NAME_TAKEN_HINT)
    if account.id in store.accounts:
        raise AlreadyExists(f"account {account.id} exists already")


def replace_password(store: MemoryStore, account: AccountId, password_hash: str, *, at: Instant) -> Account:
    """Store another hash and end the account's browser sessions. Raises NotFound.

    The lock must be held.
    """
    stored = hold_account(store, account)
    stored.password_hash = password_hash
    for token in list(store.tokens.values()):
        if token.account == account and token.kind is TokenKind.SESSION and token.revoked_at is None:
            store.tokens[token.id] = replace(token, revoked_at=at)
    return stored.account


def _is_admin(account: Account) -> bool:
    return account.is_admin and account.suspended_at is None


def _check_has_admin(store: MemoryStore, organisation: AccountId, *, but: AccountId) -> None:
    admins = {
        each.member
        for each in store.memberships.values()
        if each.organisation == organisation and each.role is OrganisationRole.ADMIN
    }
    if not admins - {but}:
        raise last_admin_of_organisation(str(store.accounts[organisation].account.name))


def _forget_account(store: MemoryStore, account: AccountId) -> None:
    """An account with all that refers to it."""
    del store.accounts[account]
    store.identities = {identity: owner for identity, owner in store.identities.items() if owner != account}
    store.memberships = {pair: each for pair, each in store.memberships.items() if account not in pair}
    store.grants = {pair: grant for pair, grant in store.grants.items() if grant.grantee != account}
    store.tokens = {key: token for key, token in store.tokens.items() if token.account != account}
    store.saved_queries = {key: query for key, query in store.saved_queries.items() if query.account != account}
    store.repositories = {key: each for key, each in store.repositories.items() if each.account != account}
    store.invitations = {key: each for key, each in store.invitations.items() if each.account != account}
    store.devices = {key: device for key, device in store.devices.items() if device.account != account}
