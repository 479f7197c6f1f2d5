"""Examples for suites of people's ports, and what a refusal must leave alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from odfabric.errors import OdfError
from odfabric.model.identity import AccountId, DatasetId, KeyAccountId, Name
from odfabric.model.instant import Instant
from odfabric.model.people.account import (
    Account,
    AccountKind,
    DatasetRole,
    Grant,
    Grantee,
    Membership,
    OrganisationRole,
)
from odfabric.model.people.audit import Actor, AuditEntry, AuditKind
from odfabric.model.people.credential import AccessToken, Scope, TokenKind
from odfabric.ports.people.accounts import Accounts, Relations
from odfabric.ports.people.audit import AuditLog
from odfabric.ports.people.credentials import DeviceAuthorisations, Invitations, Tokens
from odfabric.ports.people.saved_queries import SavedQueries
from odfabric.testing.conformance.examples import NOW, StoragePorts

ACTOR = Actor(account="did:odf:f00", name="root", token="t0", address="192.0.2.1")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeoplePorts:
    """The ports about people and their rights, with those of datasets they share."""

    storage: StoragePorts
    accounts: Accounts
    relations: Relations
    tokens: Tokens
    invitations: Invitations
    devices: DeviceAuthorisations
    saved_queries: SavedQueries
    audit: AuditLog

    def logged(self) -> list[tuple[AuditKind, str | None]]:
        """Kind and target of each audit entry."""
        return [(stored.entry.kind, stored.entry.target) for stored in self.audit.page(limit=1000)]


def account_id(name: str) -> AccountId:
    """The identity of examples with that name, whatever its case."""
    return KeyAccountId(hashlib.sha3_256(name.lower().encode()).digest())


def user(name: str, **others: Any) -> Account:
    """A user who is not stored yet."""
    kept = {"display_name": name.title(), "created_at": NOW, **others}
    return Account(id=account_id(name), name=Name(name), kind=AccountKind.USER, **kept)


def organisation(name: str, **others: Any) -> Account:
    """An organisation that is not stored yet."""
    kept = {"display_name": name.title(), "created_at": NOW, **others}
    return Account(id=account_id(name), name=Name(name), kind=AccountKind.ORGANISATION, **kept)


def told(kind: AuditKind, target: str | None = None, *, at: Instant = NOW, **others: Any) -> AuditEntry:
    """An audit entry."""
    return AuditEntry(**{"kind": kind, "actor": ACTOR, "at": at, "target": target, **others})


def with_users(people: PeoplePorts, *names: str, admins: Sequence[str] = ()) -> list[Account]:
    """Users that are stored; those of `admins` are admins of the node."""
    made = [user(name, is_admin=name in admins) for name in names]
    for account in made:
        people.accounts.create(account, audit=told(AuditKind.ACCOUNT_CREATED, str(account.name)))
    return made


def with_organisation(people: PeoplePorts, name: str, founder: AccountId) -> Account:
    """An organisation that is stored."""
    made = organisation(name)
    people.accounts.create(made, audit=told(AuditKind.ACCOUNT_CREATED, name), founder=founder)
    return made


def set_membership(
    people: PeoplePorts, of: AccountId, member: AccountId, role: OrganisationRole | None
) -> Membership | None:
    """Give, change or take back a membership, whatever it was."""
    before = people.relations.membership(of, member)
    after = Membership(organisation=of, member=member, role=role) if role is not None else None
    if before is None and after is None:
        return None
    return people.relations.change_membership(before, after, audit=told(AuditKind.MEMBER_CHANGED, str(member)))


def set_grant(people: PeoplePorts, dataset: DatasetId, grantee: Grantee, role: DatasetRole | None) -> Grant | None:
    """Give, change or take back a grant, whatever it was."""
    before = people.relations.grant(dataset, grantee)
    after = Grant(dataset=dataset, grantee=grantee, role=role) if role is not None else None
    if before is None and after is None:
        return None
    return people.relations.change_grant(before, after, audit=told(AuditKind.ROLE_GRANTED, str(grantee)))


def token(token_id: str, account: AccountId, **others: Any) -> AccessToken:
    """A token that is not stored yet."""
    kept: dict[str, Any] = {
        "kind": TokenKind.PERSONAL,
        "name": f"token {token_id}",
        "secret_hash": hashlib.sha256(token_id.encode()).digest(),
        "scopes": frozenset({Scope.READ, Scope.PUSH}),
        "created_at": NOW,
        "created_by": account,
        **others,
    }
    return AccessToken(id=token_id, account=account, **kept)


def state_of(people: PeoplePorts) -> list[object]:
    """Everything that a refused call must have left alone."""
    accounts = people.accounts.page(limit=100)
    datasets = [entry.id for entry in people.storage.catalog.page(limit=100)]
    return [
        list(accounts),
        [(str(account.name), people.accounts.password_hash(account.id)) for account in accounts],
        [list(people.accounts.identities(account.id)) for account in accounts],
        [list(people.relations.members(account.id, limit=100)) for account in accounts],
        [list(people.relations.memberships(account.id)) for account in accounts],
        [list(people.relations.grants(dataset, limit=100)) for dataset in datasets],
        [list(people.tokens.of_account(account.id, kinds=list(TokenKind), limit=100)) for account in accounts],
        list(people.invitations.open(now=NOW, limit=100)),
        list(people.audit.page(limit=1000)),
    ]


@contextmanager
def refused(people: PeoplePorts, error: type[OdfError]) -> Iterator[pytest.ExceptionInfo[OdfError]]:
    """What is called here is refused with `error`, changes nothing and is not audited."""
    before = state_of(people)
    with pytest.raises(error) as raised:
        yield raised
    assert raised.type is error
    assert state_of(people) == before
