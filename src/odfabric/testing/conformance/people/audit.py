"""What AuditLog promises, and that changes of datasets are audited, as tests.

A subclass gives `people`, new and empty for each test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from odfabric.errors import AlreadyExists, HeadMoved, NotFound
from odfabric.model.commit import OutboxMessage
from odfabric.model.people.account import EVERYONE, DatasetRole, Grant
from odfabric.model.people.audit import THE_NODE, Actor, AuditEntry, AuditKind, AuditOutcome, StoredAuditEntry
from odfabric.testing.conformance.account_examples import (
    ACTOR,
    PeoplePorts,
    account_id,
    refused,
    set_grant,
    told,
    with_users,
)
from odfabric.testing.conformance.examples import NOW, GrowingChain, entry_of, later, new_chain
from odfabric.testing.conformance.subscriptions.events import SECRET, subscription_of
from odfabric.testing.conformance.together import THREADS, outcomes_of_threads

WINDOW_S = 60.0
WINDOW_MS = 60_000
FULL = AuditEntry(
    kind=AuditKind.ROLE_GRANTED,
    actor=ACTOR,
    at=later(1),
    target="lab/flüge 🦉",
    dataset=entry_of("flights").id,
    outcome=AuditOutcome.DONE,
    detail={"role": "reader", "to": "*", "": ""},
)


def refusal(target: str | None = "lab/secret", *, millis: int = 0, **others: Any) -> AuditEntry:
    """A refusal."""
    return told(AuditKind.ACCESS_REFUSED, target, at=later(millis), outcome=AuditOutcome.REFUSED, **others)


def refuse(people: PeoplePorts, *entries: AuditEntry) -> None:
    """Tell the log of refusals."""
    for entry in entries:
        people.audit.refused(entry, window_s=WINDOW_S)


def targets(found: Sequence[StoredAuditEntry]) -> list[str | None]:
    """Targets of entries."""
    return [stored.entry.target for stored in found]


def counts(people: PeoplePorts) -> list[tuple[str | None, int]]:
    """Target and count of each entry."""
    return [(stored.entry.target, stored.count) for stored in people.audit.page(limit=1000)]


class AuditLogContract:
    """The log as it is written and read."""

    @pytest.fixture
    def people(self) -> PeoplePorts:
        raise NotImplementedError

    def test_an_empty_log_has_nothing(self, people: PeoplePorts) -> None:
        assert people.audit.page(limit=9) == people.audit.unflushed(counted_before=later(9), limit=9) == []
        people.audit.flushed(7)
        assert people.audit.forget(flushed_before=later(9), limit=9) == 0

    def test_what_was_added_is_read(self, people: PeoplePorts) -> None:
        bare = AuditEntry(kind=AuditKind.SIGNED_OUT, actor=Actor(), at=NOW)
        for entry in (FULL, bare, replace(FULL, actor=THE_NODE)):
            people.audit.add(entry)
        found = people.audit.page(limit=9)
        assert [stored.entry for stored in found] == [FULL, bare, replace(FULL, actor=THE_NODE)]
        assert [(stored.count, stored.last_at) for stored in found] == [(1, later(1)), (1, NOW), (1, later(1))]
        assert found[0].id < found[1].id < found[2].id

    def test_every_kind_is_kept(self, people: PeoplePorts) -> None:
        for kind in AuditKind:
            people.audit.add(told(kind))
        assert people.logged() == [(kind, None) for kind in AuditKind]

    @pytest.mark.parametrize("text", ["a\0b", "\ud800", "x" * 10_000 + "\udfff"], ids=["nul", "surrogate", "long"])
    def test_texts_of_strangers_are_kept_as_far_as_they_can_be(self, people: PeoplePorts, text: str) -> None:
        kept = "".join("\ufffd" if sign in "\0\ud800\udfff" else sign for sign in text)
        entry = refusal(text, actor=Actor(name=text), detail={text: text})
        people.audit.add(entry)
        refuse(people, entry, entry)
        found = people.audit.page(limit=9)
        assert [stored.entry for stored in found] == [
            replace(entry, target=kept, actor=Actor(name=kept), detail={kept: kept})
        ] * 2
        assert [stored.count for stored in found] == [1, 2]
        assert people.audit.page(target=text, limit=9) == people.audit.page(target=kept, limit=9) == found

    def test_a_page_has_what_fits(self, people: PeoplePorts) -> None:
        entries = [
            told(AuditKind.SIGNED_IN, "a", at=later(1)),
            told(AuditKind.SIGNED_OUT, "b", at=later(3), actor=replace(ACTOR, account="did:odf:f01")),
            refusal("a", millis=2),
            told(AuditKind.SIGNED_IN, None, at=later(4), actor=Actor()),
            told(AuditKind.TOKEN_CREATED, "A", at=later(5)),
        ]
        for entry in entries:
            people.audit.add(entry)
        ids = [stored.id for stored in people.audit.page(limit=9)]

        def page(**wanted: Any) -> list[int]:
            return [ids.index(stored.id) for stored in people.audit.page(**{"limit": 9, **wanted})]

        assert page() == [0, 1, 2, 3, 4]
        assert page(limit=2) == [0, 1]
        assert page(after=ids[1], limit=2) == [2, 3]
        assert page(kinds=frozenset({"session.opened", "token.created"})) == [0, 3, 4]
        assert page(kinds=frozenset()) == page(kinds=frozenset({"no.such"})) == []
        assert page(account="did:odf:f01") == [1]
        assert page(target="a") == [0, 2]
        assert page(outcome=AuditOutcome.REFUSED) == [2]
        assert page(outcome=AuditOutcome.DONE, target="a") == [0]
        assert page(since=later(3)) == [1, 3, 4]
        assert page(until=later(3)) == [0, 2]
        assert page(since=later(2), until=later(4), after=ids[1]) == [2]
        assert page(before=ids[2]) == [0, 1]
        assert page(newest_first=True) == [4, 3, 2, 1, 0]
        assert page(newest_first=True, before=ids[3], limit=2) == [2, 1]
        assert page(newest_first=True, before=ids[3], target="a", limit=1) == [2]

    def test_a_repeated_refusal_is_counted(self, people: PeoplePorts) -> None:
        refuse(people, refusal(), refusal(millis=5, detail={"x": "y"}, dataset=FULL.dataset), refusal(millis=3))
        (stored,) = people.audit.page(limit=9)
        assert stored.entry == refusal()
        assert (stored.count, stored.last_at) == (3, later(5))

    @pytest.mark.parametrize(
        "other",
        [
            refusal("lab/other"),
            refusal(None),
            replace(refusal(), kind=AuditKind.TOKEN_REFUSED),
            refusal(actor=replace(ACTOR, account=None)),
            refusal(actor=replace(ACTOR, token="t1")),
            refusal(actor=replace(ACTOR, address="192.0.2.2")),
            refusal(actor=replace(ACTOR, address=None)),
        ],
    )
    def test_other_refusals_are_other_entries(self, people: PeoplePorts, other: AuditEntry) -> None:
        refuse(people, refusal(), other, refusal(), other)
        found = people.audit.page(limit=9)
        assert [stored.entry for stored in found] == [refusal(), other]
        assert [stored.count for stored in found] == [2, 2]

    def test_an_equal_name_is_enough_of_a_stranger(self, people: PeoplePorts) -> None:
        refuse(people, refusal(), refusal(actor=replace(ACTOR, name="renamed")))
        assert counts(people) == [("lab/secret", 2)]

    def test_the_first_refusal_begins_the_window(self, people: PeoplePorts) -> None:
        refuse(people, *(refusal(millis=millis) for millis in (0, 30_000, WINDOW_MS - 1)))
        refuse(people, *(refusal(millis=millis) for millis in (WINDOW_MS, WINDOW_MS + 1)))
        refuse(people, refusal(millis=10 * WINDOW_MS))
        assert [stored.count for stored in people.audit.page(limit=9)] == [3, 2, 1]

    def test_a_clock_that_goes_back_opens_no_window(self, people: PeoplePorts) -> None:
        refuse(people, refusal(millis=5000), refusal(millis=1000))
        (stored,) = people.audit.page(limit=9)
        assert (stored.count, stored.last_at) == (2, later(5000))

    def test_entries_that_were_added_are_never_counted(self, people: PeoplePorts) -> None:
        people.audit.add(refusal())
        refuse(people, refusal())
        people.audit.add(refusal())
        assert [stored.count for stored in people.audit.page(limit=9)] == [1, 1, 1]

    def test_racing_refusals_are_all_counted(self, people: PeoplePorts) -> None:
        refuse(people, refusal(millis=-2 * WINDOW_MS))
        done = outcomes_of_threads(lambda number: refuse(people, *(refusal(millis=number) for _ in range(5))))
        assert done == [None] * THREADS
        assert counts(people) == [("lab/secret", 1), ("lab/secret", 5 * THREADS)]
        assert people.audit.page(limit=9)[-1].last_at == later(THREADS - 1)

    def test_what_is_not_in_the_dataset_is_told_until_it_is(self, people: PeoplePorts) -> None:
        for name in "abcd":
            people.audit.add(told(AuditKind.SIGNED_IN, name))
        waiting = people.audit.unflushed(counted_before=NOW, limit=3)
        assert waiting == people.audit.page(limit=3)
        people.audit.flushed(waiting[1].id)
        people.audit.flushed(waiting[0].id)
        assert targets(people.audit.unflushed(counted_before=NOW, limit=9)) == ["c", "d"]
        people.audit.flushed(waiting[2].id + 1)
        assert people.audit.unflushed(counted_before=NOW, limit=9) == []
        assert targets(people.audit.page(limit=9)) == ["a", "b", "c", "d"]

    def test_what_may_still_be_counted_holds_the_rest_back(self, people: PeoplePorts) -> None:
        people.audit.add(told(AuditKind.SIGNED_IN, "before"))
        refuse(people, refusal("first", millis=10), refusal("second", millis=20))
        people.audit.add(refusal("added", millis=30))
        assert targets(people.audit.unflushed(counted_before=later(9), limit=9)) == ["before"]
        assert targets(people.audit.unflushed(counted_before=later(10), limit=9)) == ["before", "first"]
        assert targets(people.audit.unflushed(counted_before=later(20), limit=9)) == [
            "before",
            "first",
            "second",
            "added",
        ]

    def test_a_refusal_whose_window_is_over_holds_nothing_back(self, people: PeoplePorts) -> None:
        refuse(people, refusal(), refusal(millis=WINDOW_MS))
        assert [stored.count for stored in people.audit.unflushed(counted_before=later(-1), limit=9)] == [1]

    def test_what_is_in_the_dataset_is_counted_no_further(self, people: PeoplePorts) -> None:
        refuse(people, refusal(), refusal())
        (stored,) = people.audit.unflushed(counted_before=NOW, limit=9)
        people.audit.flushed(stored.id)
        refuse(people, refusal(), refusal(), refusal())
        assert [each.count for each in people.audit.page(limit=9)] == [2, 3]
        assert [each.count for each in people.audit.unflushed(counted_before=NOW, limit=9)] == [3]

    def test_old_entries_are_forgotten_once_they_are_in_the_dataset(self, people: PeoplePorts) -> None:
        for number, name in enumerate("abcde"):
            people.audit.add(told(AuditKind.SIGNED_IN, name, at=later(number)))
        ids = [stored.id for stored in people.audit.page(limit=9)]
        assert people.audit.forget(flushed_before=later(99), limit=9) == 0
        people.audit.flushed(ids[3])
        assert people.audit.forget(flushed_before=NOW, limit=9) == 0
        assert people.audit.forget(flushed_before=later(3), limit=2) == 2
        assert targets(people.audit.page(limit=9)) == ["c", "d", "e"]
        assert people.audit.forget(flushed_before=later(3), limit=2) == 1
        assert people.audit.forget(flushed_before=later(99), limit=9) == 1
        assert targets(people.audit.page(limit=9)) == ["e"]

    def test_ids_are_not_used_again(self, people: PeoplePorts) -> None:
        people.audit.add(told(AuditKind.SIGNED_IN, "a"))
        (first,) = people.audit.page(limit=9)
        people.audit.flushed(first.id)
        assert people.audit.forget(flushed_before=later(1), limit=9) == 1
        people.audit.add(told(AuditKind.SIGNED_IN, "b"))
        (second,) = people.audit.page(limit=9)
        assert second.id > first.id

    def test_a_reader_beside_many_writers_has_every_entry_once_in_order(self, people: PeoplePorts) -> None:
        """Ids are given before transactions commit: none may appear below a read one."""
        writers, each = 7, 20
        seen: list[StoredAuditEntry] = []

        def act(number: int) -> None:
            if number < writers:
                for entry in range(each):
                    people.audit.add(told(AuditKind.SIGNED_IN, f"{number}-{entry}"))
                return
            while len(seen) < writers * each:
                found = people.audit.unflushed(counted_before=NOW, limit=5)
                if found:
                    seen.extend(found)
                    people.audit.flushed(found[-1].id)

        assert outcomes_of_threads(act, count=writers + 1) == [None] * (writers + 1)
        assert [stored.id for stored in seen] == [stored.id for stored in people.audit.page(limit=1000)]
        assert sorted(map(str, targets(seen))) == sorted(
            f"{number}-{entry}" for number in range(writers) for entry in range(each)
        )


class AuditedDatasetsContract:
    """Commits, deletions and subscriptions with their grants and audit entries."""

    @pytest.fixture
    def people(self) -> PeoplePorts:
        raise NotImplementedError

    def test_the_first_commit_brings_grants_and_entries(self, people: PeoplePorts) -> None:
        (alice,) = with_users(people, "alice")
        chain = GrowingChain(people.storage.chains, entry_of("flights"))
        grants = [
            Grant(dataset=chain.id, grantee=grantee, role=DatasetRole.READER, version=3)
            for grantee in (EVERYONE, alice.id, account_id("nobody"))
        ]
        created, visible = told(AuditKind.DATASET_CREATED, "flights"), told(AuditKind.VISIBILITY_CHANGED, "flights")
        append(chain, grants=grants, audit=[created, visible])
        assert people.relations.grants(chain.id, limit=9) == [replace(grant, version=1) for grant in grants[:2]]
        assert [stored.entry for stored in people.audit.page(limit=9)][1:] == [created, visible]

    def test_grants_that_do_not_fit_are_bugs(self, people: PeoplePorts) -> None:
        chain = GrowingChain(people.storage.chains, entry_of("flights"))
        grant = Grant(dataset=chain.id, grantee=EVERYONE, role=DatasetRole.READER)
        for grants in ([replace(grant, dataset=entry_of("other").id)], [grant, replace(grant, role=DatasetRole.OWNER)]):
            with pytest.raises(ValueError, match="grant"):
                append(chain, grants=grants)
        chain.grow()
        with pytest.raises(ValueError, match="grant"):
            append(chain, grants=[grant])

    def test_a_refused_commit_tells_nothing(self, people: PeoplePorts) -> None:
        chain = new_chain(people.storage.chains)
        moved = told(AuditKind.HEAD_MOVED, "flights")
        append(chain, audit=[moved])
        assert people.logged() == [(AuditKind.HEAD_MOVED, "flights")]
        stale = GrowingChain(people.storage.chains, chain.entry, chain.blocks[:1])
        with refused(people, HeadMoved):
            append(stale, label="stale", audit=[moved])
        again = GrowingChain(people.storage.chains, entry_of("FLIGHTS", dataset=entry_of("other").id))
        grant = Grant(dataset=again.id, grantee=EVERYONE, role=DatasetRole.READER)
        with refused(people, AlreadyExists):
            append(again, grants=[grant], audit=[moved])
        assert people.relations.grants(again.id, limit=9) == []

    def test_a_deletion_is_told_with_it(self, people: PeoplePorts) -> None:
        (alice,) = with_users(people, "alice")
        chain = new_chain(people.storage.chains, blocks=2)
        set_grant(people, chain.id, alice.id, DatasetRole.READER)
        deleted = told(AuditKind.DATASET_DELETED, "flights")
        message = OutboxMessage(chain.id, chain.head, None, NOW)
        with refused(people, HeadMoved):
            people.storage.chains.remove(chain.id, expected=chain.blocks[0].hash, message=message, audit=[deleted])
        assert chain.head is not None
        people.storage.chains.remove(chain.id, expected=chain.head, message=message, audit=[deleted])
        assert people.logged()[-1] == (AuditKind.DATASET_DELETED, "flights")
        assert people.relations.grants(chain.id, limit=9) == []
        with refused(people, NotFound):
            people.storage.chains.remove(chain.id, expected=chain.head, message=message, audit=[deleted])

    def test_subscriptions_are_told_with_them(self, people: PeoplePorts) -> None:
        chain = new_chain(people.storage.chains, blocks=2)
        wanted = subscription_of(chain)
        made, gone = told(AuditKind.SUBSCRIPTION_CREATED, "s1"), told(AuditKind.SUBSCRIPTION_DELETED, "s1")
        for unwanted, error in (
            (replace(wanted, created_at_head=chain.blocks[0].hash), HeadMoved),
            (replace(wanted, dataset_id=entry_of("nothing").id), NotFound),
        ):
            with refused(people, error):
                people.storage.subscriptions.create(unwanted, secret=SECRET, audit=[made])
        people.storage.subscriptions.create(wanted, secret=SECRET, audit=[made])
        with refused(people, AlreadyExists):
            people.storage.subscriptions.create(wanted, secret=SECRET, audit=[made])
        assert people.storage.subscriptions.delete("s1", audit=[gone])
        assert not people.storage.subscriptions.delete("s1", audit=[gone])
        assert [stored.entry for stored in people.audit.page(limit=9)] == [made, gone]

    def test_racing_deletions_are_told_once(self, people: PeoplePorts) -> None:
        chain = new_chain(people.storage.chains)
        deleted = told(AuditKind.DATASET_DELETED, "flights")
        message = OutboxMessage(chain.id, chain.head, None, NOW)

        def remove(number: int) -> str:
            assert chain.head is not None
            people.storage.chains.remove(chain.id, expected=chain.head, message=message, audit=[deleted])
            return "removed"

        done = [each for each in outcomes_of_threads(remove, count=6) if isinstance(each, str)]
        assert done == ["removed"]
        assert people.logged() == [(AuditKind.DATASET_DELETED, "flights")]


def append(
    chain: GrowingChain, *, label: str = "", grants: Sequence[Grant] = (), audit: Sequence[AuditEntry] = ()
) -> None:
    """Commit the next block with what goes along."""
    blocks = chain.next_blocks(label=label)
    chain.chains.append(
        chain.id,
        expected=chain.head,
        blocks=blocks,
        message=chain.message(blocks),
        entry=None if chain.blocks else chain.entry,
        grants=grants,
        audit=audit,
    )
    chain.blocks += blocks
