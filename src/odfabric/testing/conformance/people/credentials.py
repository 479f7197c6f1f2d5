"""What Tokens, Invitations and DeviceAuthorisations promise, as tests.

A subclass gives `people`, new and empty for each test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from odfabric.errors import AlreadyExists, LimitExceeded, NotFound
from odfabric.model.identity import Name
from odfabric.model.instant import Instant
from odfabric.model.people.account import Account
from odfabric.model.people.audit import AuditKind
from odfabric.model.people.credential import (
    ALL_SCOPES,
    AccessToken,
    DeviceAuthorisation,
    DeviceDecision,
    Invitation,
    Scope,
    TokenKind,
)
from odfabric.testing.conformance.account_examples import (
    PeoplePorts,
    account_id,
    refused,
    token,
    told,
    user,
    with_users,
)
from odfabric.testing.conformance.examples import NOW, entry_of, later
from odfabric.testing.conformance.people.accounts import outcome
from odfabric.testing.conformance.together import THREADS, outcomes_of_threads

MINUTE_MS = 60_000
CREATED = told(AuditKind.TOKEN_CREATED, "x")
REVOKED = told(AuditKind.TOKEN_REVOKED, "x")
USED = told(AuditKind.INVITATION_USED, "x")
DECIDED = told(AuditKind.DEVICE_DECIDED, "x")
PROGRAMS = (TokenKind.PERSONAL, TokenKind.SERVICE, TokenKind.REFERENCE)


def ids(tokens: Sequence[AccessToken]) -> list[str]:
    """Their ids."""
    return [each.id for each in tokens]


class TokensContract:
    """Access tokens and sessions."""

    @pytest.fixture
    def people(self) -> PeoplePorts:
        raise NotImplementedError

    @pytest.mark.parametrize(
        "others",
        [
            {},
            {
                "kind": TokenKind.SERVICE,
                "name": "nightly 🦉",
                "scopes": ALL_SCOPES,
                "datasets": frozenset({entry_of("a").id, entry_of("b").id}),
                "created_by": account_id("bob"),
                "expires_at": later(5),
                "last_used_at": later(3),
                "revoked_at": later(4),
            },
            {"kind": TokenKind.REFERENCE, "scopes": frozenset(), "datasets": frozenset()},
        ],
        ids=["plain", "full", "empty"],
    )
    def test_what_was_created_is_read(self, people: PeoplePorts, others: dict[str, Any]) -> None:
        (alice,) = with_users(people, "alice")
        made = token("t1", alice.id, **others)
        people.tokens.create(made, audit=CREATED)
        assert people.tokens.get("t1") == made
        assert people.tokens.get("T1") is people.tokens.get("t") is None
        assert people.logged()[1:] == [(AuditKind.TOKEN_CREATED, "x")]

    def test_an_id_is_used_once_and_belongs_to_somebody(self, people: PeoplePorts) -> None:
        (alice,) = with_users(people, "alice")
        people.tokens.create(token("t1", alice.id), audit=CREATED)
        with refused(people, AlreadyExists):
            people.tokens.create(token("t1", alice.id, name="other"), audit=CREATED)
        with refused(people, NotFound):
            people.tokens.create(token("t2", account_id("nobody")), audit=CREATED)

    def test_tokens_of_an_account_are_in_order_of_ids(self, people: PeoplePorts) -> None:
        alice, bob = with_users(people, "alice", "bob")
        for name in ("b", "A", "c", "a", "_", "revoked"):
            people.tokens.create(token(name, alice.id), audit=CREATED)
        people.tokens.create(token("session", alice.id, kind=TokenKind.SESSION), audit=CREATED)
        people.tokens.create(token("expired", alice.id, kind=TokenKind.SERVICE, expires_at=NOW), audit=CREATED)
        people.tokens.create(token("bobs", bob.id), audit=CREATED)
        people.tokens.revoke("revoked", now=NOW, audit=REVOKED)
        ordered = ["A", "_", "a", "b", "c", "expired"]
        assert ids(people.tokens.of_account(alice.id, kinds=PROGRAMS, limit=99)) == ordered
        assert ids(people.tokens.of_account(alice.id, kinds=PROGRAMS, limit=2)) == ordered[:2]
        assert ids(people.tokens.of_account(alice.id, kinds=PROGRAMS, after="a", limit=2)) == ordered[3:5]
        assert ids(people.tokens.of_account(alice.id, kinds={TokenKind.SESSION}, limit=99)) == ["session"]
        assert ids(people.tokens.of_account(alice.id, kinds=(), limit=99)) == []

    def test_a_token_is_revoked_once(self, people: PeoplePorts) -> None:
        (alice,) = with_users(people, "alice")
        people.tokens.create(token("t1", alice.id, expires_at=later(10)), audit=CREATED)
        assert people.tokens.revoke("t1", now=later(5), audit=REVOKED)
        logged = people.logged()
        assert logged[-1] == (AuditKind.TOKEN_REVOKED, "x")
        assert not people.tokens.revoke("t1", now=later(6), audit=REVOKED)
        assert not people.tokens.revoke("unknown", now=later(6), audit=REVOKED)
        assert people.tokens.get("t1") == token("t1", alice.id, expires_at=later(10), revoked_at=later(5))
        assert people.logged() == logged

    def test_an_expired_token_leaves_the_list_but_was_good_for_nothing(self, people: PeoplePorts) -> None:
        (alice,) = with_users(people, "alice")
        people.tokens.create(token("t1", alice.id, expires_at=NOW), audit=CREATED)
        assert not people.tokens.revoke("t1", now=NOW, audit=REVOKED)
        assert people.tokens.of_account(alice.id, kinds=PROGRAMS, limit=9) == []
        assert people.logged()[-1] == (AuditKind.TOKEN_REVOKED, "x")

    def test_of_racing_revocations_one_ends_the_token(self, people: PeoplePorts) -> None:
        (alice,) = with_users(people, "alice")
        people.tokens.create(token("t1", alice.id), audit=CREATED)
        done = outcomes_of_threads(lambda _: people.tokens.revoke("t1", now=NOW, audit=REVOKED))
        assert sorted(map(str, done)) == ["False"] * (THREADS - 1) + ["True"]
        assert len(people.logged()) == 3

    def test_all_tokens_of_some_kinds_are_ended(self, people: PeoplePorts) -> None:
        alice, bob = with_users(people, "alice", "bob")
        for name, owner, kind in (
            ("s1", alice, TokenKind.SESSION),
            ("s2", alice, TokenKind.SESSION),
            ("p1", alice, TokenKind.PERSONAL),
            ("s3", bob, TokenKind.SESSION),
        ):
            people.tokens.create(token(name, owner.id, kind=kind), audit=CREATED)
        people.tokens.revoke("s1", now=later(1), audit=REVOKED)
        assert people.tokens.revoke_all(alice.id, kinds=[TokenKind.SESSION], now=later(2), audit=REVOKED) == 1
        ends = {name: found.revoked_at for name in ("s1", "s2", "p1", "s3") if (found := people.tokens.get(name))}
        assert ends == {"s1": later(1), "s2": later(2), "p1": None, "s3": None}
        logged = people.logged()
        assert people.tokens.revoke_all(alice.id, kinds=[TokenKind.SESSION], now=later(3), audit=REVOKED) == 0
        assert people.logged() == logged

    def test_a_use_is_remembered_once_a_minute(self, people: PeoplePorts) -> None:
        (alice,) = with_users(people, "alice")
        people.tokens.create(token("t1", alice.id), audit=CREATED)

        def remembered(now: Instant) -> Instant | None:
            people.tokens.used("t1", now=now)
            found = people.tokens.get("t1")
            assert found is not None
            return found.last_used_at

        assert remembered(NOW) == NOW
        assert remembered(later(1)) == remembered(later(MINUTE_MS)) == NOW
        assert remembered(later(MINUTE_MS + 1)) == later(MINUTE_MS + 1)
        assert remembered(NOW) == later(MINUTE_MS + 1)
        people.tokens.used("unknown", now=NOW)
        assert people.tokens.get("unknown") is None

    def test_tokens_that_ended_long_ago_are_forgotten(self, people: PeoplePorts) -> None:
        (alice,) = with_users(people, "alice")
        for name, ends in (
            ("e1", {"expires_at": later(1)}),
            ("e2", {"expires_at": later(2)}),
            ("r1", {"expires_at": later(9), "revoked_at": later(1)}),
            ("r2", {"revoked_at": later(2)}),
            ("open", {}),
        ):
            people.tokens.create(token(name, alice.id, **ends), audit=CREATED)
        assert people.tokens.forget(ended_before=later(1), limit=9) == 0
        assert people.tokens.forget(ended_before=later(2), limit=1) == 1
        assert people.tokens.forget(ended_before=later(2), limit=9) == 1
        assert people.tokens.get("e1") is people.tokens.get("r1") is None
        assert all(people.tokens.get(name) is not None for name in ("e2", "r2", "open"))


def invitation(invitation_id: str, **others: Any) -> Invitation:
    """An invitation that is not stored yet."""
    kept: dict[str, Any] = {"created_by": None, "created_at": NOW, "expires_at": later(100), **others}
    return Invitation(id=invitation_id, code_hash=invitation_id.encode().ljust(32, b"\0"), **kept)


class InvitationsContract:
    """Links that work once."""

    @pytest.fixture
    def people(self) -> PeoplePorts:
        raise NotImplementedError

    def test_what_was_created_is_read(self, people: PeoplePorts) -> None:
        (alice,) = with_users(people, "alice")
        full = invitation(
            "full", created_by=alice.id, account=alice.id, name=Name("Bob"), email="b@example.org", is_admin=True
        )
        for made in (invitation("plain"), full):
            people.invitations.create(made, audit=CREATED)
            assert people.invitations.get(made.id) == people.invitations.by_code(made.code_hash) == made
        found = people.invitations.get("full")
        assert found is not None
        assert str(found.name) == "Bob"
        assert people.invitations.get("PLAIN") is people.invitations.by_code(b"") is None
        assert people.logged()[1:] == [(AuditKind.TOKEN_CREATED, "x")] * 2

    def test_ids_and_codes_are_used_once(self, people: PeoplePorts) -> None:
        people.invitations.create(invitation("i1"), audit=CREATED)
        for again in (
            replace(invitation("i1"), code_hash=b"other"),
            replace(invitation("i2"), code_hash=invitation("i1").code_hash),
        ):
            with refused(people, AlreadyExists):
                people.invitations.create(again, audit=CREATED)
        with refused(people, NotFound):
            people.invitations.create(invitation("i3", account=account_id("nobody")), audit=CREATED)

    def test_open_ones_are_newest_first(self, people: PeoplePorts) -> None:
        for name, at in (("b", 1), ("c", 3), ("a", 3), ("d", 2)):
            people.invitations.create(invitation(name, created_at=later(at)), audit=CREATED)
        people.invitations.create(invitation("over", expires_at=later(5)), audit=CREATED)
        people.invitations.create(invitation("used", used_at=later(5)), audit=CREATED)
        assert [each.id for each in people.invitations.open(now=later(5), limit=9)] == ["c", "a", "d", "b"]
        assert [each.id for each in people.invitations.open(now=later(5), limit=2)] == ["c", "a"]
        assert "over" in [each.id for each in people.invitations.open(now=later(4), limit=9)]

    def test_using_one_makes_the_account(self, people: PeoplePorts) -> None:
        made = invitation("i1", is_admin=True)
        people.invitations.create(made, audit=CREATED)
        bob = user("Bob", is_admin=True, email="b@example.org")
        assert people.invitations.use(made, bob, "$argon2id$", now=later(7), audit=USED) == bob
        assert people.accounts.by_id(bob.id) == bob
        assert people.accounts.password_hash(bob.id) == "$argon2id$"
        assert people.invitations.get("i1") == replace(made, used_at=later(7))
        assert people.invitations.open(now=NOW, limit=9) == []
        assert people.logged()[1:] == [(AuditKind.INVITATION_USED, "x")]
        with refused(people, NotFound):
            people.invitations.use(made, user("carol"), None, now=later(8), audit=USED)

    def test_an_account_may_have_no_password(self, people: PeoplePorts) -> None:
        people.invitations.create(invitation("i1"), audit=CREATED)
        people.invitations.use(invitation("i1"), user("bob"), None, now=NOW, audit=USED)
        assert people.accounts.by_id(account_id("bob")) is not None
        assert people.accounts.password_hash(account_id("bob")) is None

    def test_a_taken_name_leaves_it_usable(self, people: PeoplePorts) -> None:
        with_users(people, "alice")
        people.invitations.create(invitation("i1"), audit=CREATED)
        with refused(people, AlreadyExists):
            people.invitations.use(invitation("i1"), user("ALICE"), "h", now=NOW, audit=USED)
        people.invitations.use(invitation("i1"), user("bob"), "h", now=NOW, audit=USED)
        assert people.accounts.by_name(Name("bob")) is not None

    def test_what_cannot_be_used(self, people: PeoplePorts) -> None:
        made = invitation("i1", expires_at=later(5))
        with refused(people, NotFound):
            people.invitations.use(made, user("bob"), "h", now=NOW, audit=USED)
        people.invitations.create(made, audit=CREATED)
        with refused(people, NotFound):
            people.invitations.use(made, user("bob"), "h", now=later(5), audit=USED)
        assert people.invitations.revoke("i1", audit=REVOKED)
        with refused(people, NotFound):
            people.invitations.use(made, user("bob"), "h", now=NOW, audit=USED)

    def test_one_for_an_account_changes_its_password(self, people: PeoplePorts) -> None:
        alice, bob = with_users(people, "alice", "bob")
        for owner in (alice, bob):
            people.tokens.create(token(f"s-{owner.name}", owner.id, kind=TokenKind.SESSION), audit=CREATED)
        made = invitation("i1", account=alice.id)
        people.invitations.create(made, audit=CREATED)
        with pytest.raises(ValueError, match="password"):
            people.invitations.use(made, alice, None, now=NOW, audit=USED)
        assert people.invitations.use(made, alice, "new", now=later(4), audit=USED) == alice
        assert people.accounts.password_hash(alice.id) == "new"
        session, other = people.tokens.get("s-alice"), people.tokens.get("s-bob")
        assert session is not None
        assert other is not None
        assert (session.revoked_at, other.revoked_at) == (later(4), None)
        with refused(people, NotFound):
            people.invitations.use(made, alice, "newer", now=later(5), audit=USED)
        assert people.accounts.password_hash(alice.id) == "new"

    def test_an_unused_one_is_revoked_once(self, people: PeoplePorts) -> None:
        for name in ("i1", "used"):
            people.invitations.create(invitation(name), audit=CREATED)
        people.invitations.use(invitation("used"), user("bob"), None, now=NOW, audit=USED)
        assert people.invitations.revoke("i1", audit=REVOKED)
        logged = people.logged()
        for name in ("i1", "used", "unknown"):
            assert not people.invitations.revoke(name, audit=REVOKED)
        assert people.invitations.get("i1") is None
        assert people.invitations.get("used") is not None
        assert people.logged() == logged

    def test_of_racing_uses_one_makes_an_account(self, people: PeoplePorts) -> None:
        for number in range(5):
            made = invitation(f"i{number}")
            people.invitations.create(made, audit=CREATED)

            def use(each: int) -> Account:
                new = user(f"u{number}-{each}")  # noqa: B023
                return people.invitations.use(made, new, "h", now=NOW, audit=USED)  # noqa: B023

            done = outcomes_of_threads(use, count=8)
            (won,) = [each for each in done if isinstance(each, Account)]
            assert [outcome(each) for each in done if each is not won] == ["NotFound"] * 7
            assert people.accounts.by_id(won.id) == won
            assert len(people.accounts.page(limit=99)) == number + 1

    def test_racing_uses_for_one_name_make_one_account(self, people: PeoplePorts) -> None:
        for number in range(8):
            people.invitations.create(invitation(f"i{number}"), audit=CREATED)

        def use(each: int) -> str:
            new = replace(user(f"u{each}"), name=Name("Bob" if each % 2 else "bob"))
            people.invitations.use(invitation(f"i{each}"), new, "h", now=NOW, audit=USED)
            return "made"

        assert sorted(map(outcome, outcomes_of_threads(use, count=8))) == ["AlreadyExists"] * 7 + ["made"]
        assert len(people.invitations.open(now=NOW, limit=99)) == 7


def device(name: str, **others: Any) -> DeviceAuthorisation:
    """A device that is not stored yet; its user code is its name in upper case."""
    kept: dict[str, Any] = {"created_at": NOW, "expires_at": later(600_000), "interval_s": 5, **others}
    return DeviceAuthorisation(
        device_code_hash=name.encode().ljust(32, b"\0"), user_code=name.upper(), client="odf on laptop", **kept
    )


class DevicesContract:
    """Devices that wait for a person."""

    @pytest.fixture
    def people(self) -> PeoplePorts:
        raise NotImplementedError

    def test_what_was_created_is_read(self, people: PeoplePorts) -> None:
        made = device("a", scopes=frozenset({Scope.READ}), interval_s=7)
        people.devices.create(made, waiting_max=1)
        assert people.devices.by_user_code("A") == made
        assert people.devices.by_user_code("a") is people.devices.by_user_code("B") is None
        assert people.devices.ask(made.device_code_hash, now=NOW, slow_down_s=5) == made
        assert people.devices.ask(b"unknown", now=NOW, slow_down_s=5) is None

    def test_codes_are_used_once(self, people: PeoplePorts) -> None:
        people.devices.create(device("a"), waiting_max=9)
        for again in (replace(device("a"), device_code_hash=b"other"), replace(device("a"), user_code="B")):
            with pytest.raises(AlreadyExists):
                people.devices.create(again, waiting_max=9)
        assert people.devices.by_user_code("A") == device("a")
        assert people.devices.by_user_code("B") is None

    def test_so_many_may_wait_and_expired_ones_do_not_count(self, people: PeoplePorts) -> None:
        people.devices.create(device("a", expires_at=later(10)), waiting_max=2)
        people.devices.create(device("b"), waiting_max=2)
        with pytest.raises(LimitExceeded) as raised:
            people.devices.create(device("c", created_at=later(9)), waiting_max=2)
        assert (raised.value.limit, raised.value.maximum) == ("device_authorisations_max", 2)
        assert people.devices.by_user_code("C") is None
        people.devices.create(device("c", created_at=later(10)), waiting_max=2)
        assert people.devices.by_user_code("A") is None
        assert people.devices.by_user_code("B") is not None

    def test_no_more_than_so_many_come_in_at_once(self, people: PeoplePorts) -> None:
        def create(number: int) -> str:
            people.devices.create(device(f"d{number}"), waiting_max=5)
            return "waits"

        done = sorted(map(outcome, outcomes_of_threads(create)))
        assert done == ["LimitExceeded"] * (THREADS - 5) + ["waits"] * 5

    @pytest.mark.parametrize("decision", [DeviceDecision.APPROVED, DeviceDecision.DENIED])
    def test_a_person_decides_once(self, people: PeoplePorts, decision: DeviceDecision) -> None:
        (alice,) = with_users(people, "alice")
        people.devices.create(device("a"), waiting_max=9)
        people.devices.decide("A", decision, alice.id, now=NOW, audit=DECIDED)
        assert people.devices.by_user_code("A") == replace(device("a"), decision=decision, account=alice.id)
        assert people.logged()[1:] == [(AuditKind.DEVICE_DECIDED, "x")]
        for again in (DeviceDecision.APPROVED, DeviceDecision.DENIED):
            with refused(people, NotFound):
                people.devices.decide("A", again, alice.id, now=NOW, audit=DECIDED)

    def test_what_cannot_be_decided(self, people: PeoplePorts) -> None:
        (alice,) = with_users(people, "alice")
        people.devices.create(device("a", expires_at=later(5)), waiting_max=9)
        for code, account, at in (
            ("B", alice.id, NOW),
            ("a", alice.id, NOW),
            ("A", account_id("nobody"), NOW),
            ("A", alice.id, later(5)),
        ):
            with refused(people, NotFound):
                people.devices.decide(code, DeviceDecision.APPROVED, account, now=at, audit=DECIDED)
        assert people.devices.by_user_code("A") == device("a", expires_at=later(5))

    def test_who_asks_too_fast_is_slowed_down(self, people: PeoplePorts) -> None:
        people.devices.create(device("a"), waiting_max=9)
        code = device("a").device_code_hash

        def asked(millis: int) -> tuple[Instant | None, int]:
            found = people.devices.ask(code, now=later(millis), slow_down_s=5)
            assert found is not None
            return found.asked_at, found.interval_s

        assert asked(0) == (None, 5)
        assert asked(5_000) == (NOW, 5)
        assert asked(9_999) == (later(5_000), 5)
        assert asked(19_998) == (later(9_999), 10)
        assert asked(34_998) == (later(19_998), 15)
        assert asked(34_999) == (later(34_998), 15)
        assert asked(99_000) == (later(34_999), 20)

    def test_an_approved_device_gets_its_token_once(self, people: PeoplePorts) -> None:
        (alice,) = with_users(people, "alice")
        people.devices.create(device("a"), waiting_max=9)
        code = device("a").device_code_hash
        people.devices.decide("A", DeviceDecision.APPROVED, alice.id, now=NOW, audit=DECIDED)
        done = outcomes_of_threads(
            lambda number: people.devices.redeem(code, token(f"t{number}", alice.id), audit=CREATED)
        )
        assert sorted(map(str, done)) == ["False"] * (THREADS - 1) + ["True"]
        assert len(people.tokens.of_account(alice.id, kinds=PROGRAMS, limit=99)) == 1
        assert people.devices.by_user_code("A") is None
        assert people.logged()[2:] == [(AuditKind.TOKEN_CREATED, "x")]

    def test_what_is_not_redeemed(self, people: PeoplePorts) -> None:
        alice, bob, gone = with_users(people, "alice", "bob", "gone")
        decisions = {"a": None, "b": DeviceDecision.DENIED, "c": DeviceDecision.APPROVED}
        for name, decision in decisions.items():
            people.devices.create(device(name), waiting_max=9)
            if decision is not None:
                people.devices.decide(name.upper(), decision, alice.id, now=NOW, audit=DECIDED)
        people.accounts.delete(gone.id, audit=REVOKED)
        logged = people.logged()
        for name, account in (("a", alice), ("b", alice), ("c", bob), ("c", gone), ("d", alice)):
            code = device(name).device_code_hash
            assert not people.devices.redeem(code, token("t1", account.id), audit=CREATED)
        assert people.tokens.get("t1") is None
        assert people.logged() == logged
        assert all(people.devices.by_user_code(name.upper()) is not None for name in decisions)

    def test_an_id_of_a_token_that_is_taken_leaves_the_device_approved(self, people: PeoplePorts) -> None:
        (alice,) = with_users(people, "alice")
        people.tokens.create(token("t1", alice.id), audit=CREATED)
        people.devices.create(device("a"), waiting_max=9)
        people.devices.decide("A", DeviceDecision.APPROVED, alice.id, now=NOW, audit=DECIDED)
        code = device("a").device_code_hash
        with refused(people, AlreadyExists):
            people.devices.redeem(code, token("t1", alice.id), audit=CREATED)
        assert people.devices.redeem(code, token("t2", alice.id), audit=CREATED)
