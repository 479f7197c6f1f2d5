"""A day of accounts, roles and credentials that a killed process can repeat.

Each change looks into the audit log whether it happened before: it is one transaction with its entry, so the log knows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from odfabric.adapters.memory.node.clock import SettableClock
from odfabric.adapters.sql.database import Database
from odfabric.adapters.unreliable.crash_points import CrashPoints
from odfabric.model.instant import Instant
from odfabric.model.people.account import DatasetRole, ExternalIdentity, OrganisationRole
from odfabric.model.people.audit import AuditEntry, AuditKind, AuditOutcome
from odfabric.model.people.credential import DeviceDecision, TokenKind
from odfabric.settings import Settings
from odfabric.testing.conformance.account_examples import (
    PeoplePorts,
    account_id,
    organisation,
    set_grant,
    set_membership,
    token,
    told,
    user,
)
from odfabric.testing.conformance.examples import GrowingChain, entry_of, later
from odfabric.testing.conformance.people.audit import append
from odfabric.testing.conformance.people.credentials import device, invitation
from odfabric.wiring import Node
from odfabric.wiring.places.database_place import database_place
from tests.support.people import in_database

BY_NAME = {kind.value: kind for kind in AuditKind}
IDENTITY = ExternalIdentity(issuer="https://login.example", subject="alice")
WINDOW_S = 60.0


@contextmanager
def people_of(settings: Settings) -> Iterator[PeoplePorts]:
    """The ports of a place; the process dies at the point that is armed."""
    database = Database(database_place(settings), busy_s_max=settings.database_busy_s_max)
    points = CrashPoints(settings.crash_at)
    try:
        people = in_database(database)
        yield replace(
            people,
            accounts=points.accounts(people.accounts),
            relations=points.relations(people.relations),
            tokens=points.tokens(people.tokens),
            invitations=points.invitations(people.invitations),
            devices=points.devices(people.devices),
            audit=points.audit_log(people.audit),
        )
    finally:
        database.close()


def lives(node: Node, clock: SettableClock, receiver: str) -> None:
    """Everything that is audited, once; then what is counted, marked and forgotten."""
    with people_of(node.settings) as people:
        for what, change in (*changes_of(people).items(), *credentials_of(people).items()):
            kind, _, target = what.partition(" ")
            if not people.audit.page(kinds=frozenset({kind}), target=target, limit=1):
                change(told(BY_NAME[kind], target))
        people.tokens.forget(ended_before=later(1), limit=99)
        refusal = told(AuditKind.ACCESS_REFUSED, "lab/secret", outcome=AuditOutcome.REFUSED)
        if not people.audit.page(kinds=frozenset({refusal.kind.value}), limit=1):
            people.audit.refused(refusal, window_s=WINDOW_S)
        if people.audit.unflushed(counted_before=later(1), limit=1):
            people.audit.add(told(AuditKind.KEY_ROTATED, at=Instant(0)))
            people.audit.flushed(people.audit.page(limit=999)[-1].id)
        people.audit.forget(flushed_before=Instant(1), limit=99)


def changes_of(people: PeoplePorts) -> dict[str, Callable[[AuditEntry], object]]:
    """Changes of accounts and roles in order, by kind and target of their entries."""
    alice, bob, carol = user("alice"), user("bob"), user("carol")
    lab, chain = organisation("lab"), GrowingChain(people.storage.chains, entry_of("flights"))
    return {
        "account.created alice": lambda entry: people.accounts.create(alice, audit=entry),
        "account.created bob": lambda entry: people.accounts.create(bob, audit=entry),
        "account.created carol": lambda entry: people.accounts.create(carol, audit=entry),
        "account.created lab": lambda entry: people.accounts.create(lab, audit=entry, founder=alice.id),
        "account.changed alice": lambda entry: people.accounts.change(replace(alice, email="a"), audit=entry),
        "password.changed alice": lambda entry: people.accounts.set_password(alice.id, "h", audit=entry),
        "identity.linked alice": lambda entry: people.accounts.link_identity(alice.id, IDENTITY, audit=entry),
        "account.deleted carol": lambda entry: people.accounts.delete(carol.id, audit=entry),
        "dataset.created flights": lambda entry: append(chain, audit=[entry]),
        f"member.changed {bob.id}": lambda _: set_membership(people, lab.id, bob.id, OrganisationRole.ADMIN),
        f"role.granted {bob.id}": lambda _: set_grant(people, chain.id, bob.id, DatasetRole.EDITOR),
    }


def credentials_of(people: PeoplePorts) -> dict[str, Callable[[AuditEntry], object]]:
    """The same of credentials."""
    bob, erin = account_id("bob"), user("erin")
    code = device("a").device_code_hash

    def wait_and_decide(entry: AuditEntry) -> None:
        if people.devices.by_user_code("A") is None:
            people.devices.create(device("a"), waiting_max=9)
        people.devices.ask(code, now=later(1), slow_down_s=5)
        people.devices.decide("A", DeviceDecision.APPROVED, bob, now=later(1), audit=entry)

    return {
        "token.created t1": lambda entry: people.tokens.create(token("t1", bob), audit=entry),
        "token.created t2": lambda entry: people.tokens.create(token("t2", bob), audit=entry),
        "token.revoked t1": lambda entry: (
            people.tokens.used("t1", now=later(0)),
            people.tokens.revoke("t1", now=later(0), audit=entry),
        ),
        "invitation.created i1": lambda entry: people.invitations.create(invitation("i1"), audit=entry),
        "invitation.created i2": lambda entry: people.invitations.create(invitation("i2"), audit=entry),
        "invitation.used i1": lambda entry: people.invitations.use(
            invitation("i1"), erin, "h", now=later(1), audit=entry
        ),
        "invitation.revoked i2": lambda entry: people.invitations.revoke("i2", audit=entry),
        "device.decided A": wait_and_decide,
        "token.created t3": lambda entry: people.devices.redeem(code, token("t3", bob), audit=entry),
    }


def check_people(people: PeoplePorts) -> None:
    """Every change has happened once and has one entry; nothing is left half."""
    names = {str(account.name) for account in people.accounts.page(limit=99)}
    assert names == {"local", "system", "alice", "bob", "erin", "lab"}
    alice, bob, lab = (people.accounts.by_id(account_id(name)) for name in ("alice", "bob", "lab"))
    assert alice is not None
    assert bob is not None
    assert lab is not None
    assert (alice.email, alice.version, people.accounts.password_hash(alice.id)) == ("a", 2, "h")
    assert people.accounts.by_identity(IDENTITY) == alice
    members = {each.member: each for each in people.relations.members(lab.id, limit=9)}
    assert {member: (each.role, each.version) for member, each in members.items()} == dict.fromkeys(
        (alice.id, bob.id), (OrganisationRole.ADMIN, 1)
    )
    (grant,) = people.relations.grants(entry_of("flights").id, limit=9)
    assert (grant.grantee, grant.role, grant.version) == (bob.id, DatasetRole.EDITOR, 1)
    assert [each.id for each in people.tokens.of_account(bob.id, kinds=list(TokenKind), limit=9)] == ["t2", "t3"]
    assert people.tokens.get("t1") is None
    assert people.invitations.open(now=later(1), limit=9) == []
    assert people.devices.by_user_code("A") is None
    stored = people.audit.page(limit=999)
    *entries, refusal = [f"{each.entry.kind.value} {each.entry.target}" for each in stored]
    first = ["account.created local", "account.created system"]
    assert entries == [*first, *changes_of(people), *credentials_of(people)]
    assert refusal == "access.refused lab/secret"
    assert people.audit.unflushed(counted_before=Instant(time.time_ns()), limit=9) == []
