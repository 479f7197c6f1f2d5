"""What Relations promises, and which datasets a catalog shows to whom, as tests.

A subclass gives `people`, new and empty for each test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfabric.domain.people.access import (
    LOCAL_ACCOUNT,
    SYSTEM_ACCOUNT,
    AccessPolicy,
    Action,
    Subject,
    Verdict,
    Viewer,
    owner_of,
)
from odfabric.domain.people.dataset_search import Narrowing
from odfabric.errors import Changed, LastAdmin, NotFound
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetId, Name
from odfabric.model.instant import Instant
from odfabric.model.people.account import (
    EVERYONE,
    DatasetRole,
    Grant,
    Grantee,
    Membership,
    OrganisationRole,
)
from odfabric.model.people.audit import AuditKind
from odfabric.model.people.credential import Scope
from odfabric.testing.conformance.account_examples import (
    PeoplePorts,
    account_id,
    organisation,
    refused,
    set_grant,
    set_membership,
    told,
    user,
    with_organisation,
    with_users,
)
from odfabric.testing.conformance.examples import GrowingChain, entry_of, new_chain
from odfabric.testing.conformance.people.accounts import outcome
from odfabric.testing.conformance.together import THREADS, outcomes_of_threads

ADMIN, MEMBER = OrganisationRole.ADMIN, OrganisationRole.MEMBER
CHANGED = told(AuditKind.MEMBER_CHANGED, "x")
GRANTED = told(AuditKind.ROLE_GRANTED, "x")
ROUNDS = 10
EXAMPLES = 25


class MembershipsContract:
    """Who is a member of which organisation."""

    @pytest.fixture
    def people(self) -> PeoplePorts:
        raise NotImplementedError

    def test_without_members_there_is_nothing(self, people: PeoplePorts) -> None:
        relations, nobody = people.relations, account_id("nobody")
        assert relations.memberships(nobody) == relations.members(nobody, limit=9) == []
        assert relations.membership(nobody, nobody) is None

    def test_a_membership_is_made_changed_and_removed(self, people: PeoplePorts) -> None:
        alice, bob = with_users(people, "alice", "bob")
        lab = with_organisation(people, "lab", alice.id)
        first = Membership(organisation=lab.id, member=bob.id, role=MEMBER, version=7)
        made = people.relations.change_membership(None, first, audit=CHANGED)
        assert made == replace(first, version=1) == people.relations.membership(lab.id, bob.id)
        raised = people.relations.change_membership(made, replace(first, role=ADMIN), audit=CHANGED)
        assert raised == replace(first, role=ADMIN, version=2) == people.relations.membership(lab.id, bob.id)
        assert people.relations.change_membership(raised, None, audit=CHANGED) is None
        assert people.relations.membership(lab.id, bob.id) is None
        assert people.logged()[3:] == [(AuditKind.MEMBER_CHANGED, "x")] * 3
        again = people.relations.change_membership(None, first, audit=CHANGED)
        assert again == made

    def test_members_and_memberships_are_in_order_of_ids(self, people: PeoplePorts) -> None:
        made = with_users(people, *(f"u{number}" for number in range(6)))
        of = [with_organisation(people, f"o{number}", made[0].id) for number in range(4)]
        for account in made[1:]:
            set_membership(people, of[0].id, account.id, MEMBER)
        members = [each.member for each in people.relations.members(of[0].id, limit=99)]
        assert members == sorted((account.id for account in made), key=str)
        assert [each.member for each in people.relations.members(of[0].id, limit=3)] == members[:3]
        found = people.relations.memberships(made[0].id)
        assert [each.organisation for each in found] == sorted((each.id for each in of), key=str)
        assert {each.role for each in found} == {ADMIN}

    def test_a_change_of_something_else_is_refused(self, people: PeoplePorts) -> None:
        alice, bob = with_users(people, "alice", "bob")
        lab = with_organisation(people, "lab", alice.id)
        wanted = Membership(organisation=lab.id, member=bob.id, role=MEMBER)
        for before in (wanted, replace(wanted, role=ADMIN)):
            for after in (None, wanted):
                with refused(people, Changed):
                    people.relations.change_membership(before, after, audit=CHANGED)
        made = set_membership(people, lab.id, bob.id, MEMBER)
        assert made is not None
        for stale in (None, replace(made, role=ADMIN), replace(made, version=2)):
            for after in (wanted, None) if stale else (wanted,):
                with refused(people, Changed):
                    people.relations.change_membership(stale, after, audit=CHANGED)

    def test_both_accounts_must_be_there(self, people: PeoplePorts) -> None:
        alice, bob = with_users(people, "alice", "bob")
        lab = with_organisation(people, "lab", alice.id)
        nobody = account_id("nobody")
        for of, member in ((nobody, bob.id), (lab.id, nobody), (alice.id, bob.id)):
            with refused(people, NotFound):
                people.relations.change_membership(
                    None, Membership(organisation=of, member=member, role=MEMBER), audit=CHANGED
                )

    def test_a_change_is_of_one_pair(self, people: PeoplePorts) -> None:
        alice, bob = with_users(people, "alice", "bob")
        one = Membership(organisation=alice.id, member=bob.id, role=MEMBER)
        for before, after in ((None, None), (one, replace(one, member=alice.id))):
            with pytest.raises(ValueError, match="one relation"):
                people.relations.change_membership(before, after, audit=CHANGED)

    def test_the_last_admin_of_an_organisation_stays(self, people: PeoplePorts) -> None:
        alice, bob = with_users(people, "alice", "bob", admins=("bob",))
        lab, _ = with_organisation(people, "lab", alice.id), with_organisation(people, "club", bob.id)
        first = people.relations.membership(lab.id, alice.id)
        assert first is not None
        second = set_membership(people, lab.id, bob.id, MEMBER)
        assert second is not None
        for after in (None, replace(first, role=MEMBER)):
            with refused(people, LastAdmin) as raised:
                people.relations.change_membership(first, after, audit=CHANGED)
            assert "lab" in raised.value.message
        assert people.relations.change_membership(first, first, audit=CHANGED) == replace(first, version=2)
        people.relations.change_membership(second, replace(second, role=ADMIN), audit=CHANGED)
        people.relations.change_membership(replace(first, version=2), None, audit=CHANGED)
        assert [each.member for each in people.relations.members(lab.id, limit=9)] == [bob.id]

    def test_of_racing_changes_of_a_role_one_succeeds(self, people: PeoplePorts) -> None:
        alice, bob = with_users(people, "alice", "bob")
        lab = with_organisation(people, "lab", alice.id)
        for number in range(ROUNDS):
            before = people.relations.membership(lab.id, bob.id)
            roles = [ADMIN, MEMBER, None] if before is not None else [ADMIN, MEMBER]

            def change(each: int) -> str:
                role = roles[each % len(roles)]  # noqa: B023
                after = Membership(organisation=lab.id, member=bob.id, role=role) if role else None
                people.relations.change_membership(before, after, audit=CHANGED)  # noqa: B023
                return "changed"

            assert sorted(map(outcome, outcomes_of_threads(change, count=6))) == ["Changed"] * 5 + ["changed"]
            assert len(people.logged()) == 4 + number

    def test_of_all_admins_who_leave_an_organisation_at_once_one_stays(self, people: PeoplePorts) -> None:
        made = with_users(people, *(f"u{number}" for number in range(4)))
        lab = with_organisation(people, "lab", made[0].id)
        for _ in range(ROUNDS):
            for account in made:
                set_membership(people, lab.id, account.id, ADMIN)

            def leave(number: int) -> str:
                set_membership(people, lab.id, made[number].id, MEMBER if number % 2 else None)
                return "left"

            assert sorted(map(outcome, outcomes_of_threads(leave, count=4))) == ["LastAdmin", "left", "left", "left"]
            assert [each.role for each in people.relations.members(lab.id, limit=9)].count(ADMIN) == 1


class GrantsContract:
    """Roles on datasets."""

    @pytest.fixture
    def people(self) -> PeoplePorts:
        raise NotImplementedError

    def test_without_grants_there_is_nothing(self, people: PeoplePorts) -> None:
        dataset, nobody = entry_of("nothing").id, account_id("nobody")
        assert people.relations.grants(dataset, limit=9) == []
        assert people.relations.grant(dataset, nobody) is people.relations.grant(dataset, EVERYONE) is None
        assert people.relations.granted([dataset], [nobody, EVERYONE]) == people.relations.granted([], []) == {}

    @pytest.mark.parametrize("grantee", [account_id("alice"), account_id("lab"), EVERYONE], ids=str)
    def test_a_grant_is_made_changed_and_removed(self, people: PeoplePorts, grantee: Grantee) -> None:
        (alice,) = with_users(people, "alice")
        with_organisation(people, "lab", alice.id)
        chain = new_chain(people.storage.chains)
        for role in DatasetRole:
            first = Grant(dataset=chain.id, grantee=grantee, role=role, version=5)
            made = people.relations.change_grant(None, first, audit=GRANTED)
            assert made == replace(first, version=1) == people.relations.grant(chain.id, grantee)
            changed = people.relations.change_grant(made, replace(first, role=DatasetRole.OWNER), audit=GRANTED)
            assert changed == replace(first, role=DatasetRole.OWNER, version=2)
            assert changed == people.relations.grant(chain.id, grantee)
            assert people.relations.change_grant(changed, None, audit=GRANTED) is None
            assert people.relations.grant(chain.id, grantee) is None
        assert people.logged()[2:] == [(AuditKind.ROLE_GRANTED, "x")] * 3 * len(DatasetRole)

    def test_grants_are_in_order_of_grantees(self, people: PeoplePorts) -> None:
        made = with_users(people, *(f"u{number}" for number in range(6)))
        chain, other = new_chain(people.storage.chains), new_chain(people.storage.chains, "other")
        to: list[Grantee] = [*(account.id for account in made), EVERYONE]
        for grantee in to:
            set_grant(people, chain.id, grantee, DatasetRole.READER)
        set_grant(people, other.id, made[0].id, DatasetRole.OWNER)
        found = people.relations.grants(chain.id, limit=99)
        assert [grant.grantee for grant in found] == sorted(to, key=str)
        assert found[0].grantee == EVERYONE
        assert people.relations.grants(chain.id, limit=3) == found[:3]

    def test_grants_of_many_are_found_at_once(self, people: PeoplePorts) -> None:
        alice, bob = with_users(people, "alice", "bob")
        chains = [new_chain(people.storage.chains, f"d{number}") for number in range(3)]
        given_ = {
            (0, EVERYONE): DatasetRole.READER,
            (0, alice.id): DatasetRole.EDITOR,
            (1, alice.id): DatasetRole.OWNER,
            (1, bob.id): DatasetRole.READER,
            (2, bob.id): DatasetRole.READER,
        }
        made = {
            (number, grantee): set_grant(people, chains[number].id, grantee, role)
            for (number, grantee), role in given_.items()
        }
        ids = [chain.id for chain in chains]
        assert people.relations.granted(ids, [alice.id, EVERYONE]) == {
            ids[0]: [made[0, EVERYONE], made[0, alice.id]],
            ids[1]: [made[1, alice.id]],
        }
        assert people.relations.granted(ids[2:], [alice.id]) == {}
        assert people.relations.granted(ids, []) == people.relations.granted([], [alice.id]) == {}
        strangers = [DatasetId(bytes([number % 256, number // 256]) * 16) for number in range(2000)]
        assert people.relations.granted([*strangers, ids[2]], [bob.id]) == {ids[2]: [made[2, bob.id]]}

    def test_a_change_of_something_else_is_refused(self, people: PeoplePorts) -> None:
        (alice,) = with_users(people, "alice")
        chain = new_chain(people.storage.chains)
        wanted = Grant(dataset=chain.id, grantee=alice.id, role=DatasetRole.READER)
        with refused(people, Changed):
            people.relations.change_grant(wanted, None, audit=GRANTED)
        made = set_grant(people, chain.id, alice.id, DatasetRole.READER)
        assert made is not None
        for stale in (None, replace(made, role=DatasetRole.OWNER), replace(made, version=2)):
            for after in (wanted, None) if stale else (wanted,):
                with refused(people, Changed):
                    people.relations.change_grant(stale, after, audit=GRANTED)

    def test_account_and_dataset_must_be_there(self, people: PeoplePorts) -> None:
        (alice,) = with_users(people, "alice")
        chain = new_chain(people.storage.chains)
        for dataset, grantee in ((chain.id, account_id("nobody")), (entry_of("nothing").id, alice.id)):
            with refused(people, NotFound):
                people.relations.change_grant(
                    None, Grant(dataset=dataset, grantee=grantee, role=DatasetRole.READER), audit=GRANTED
                )

    def test_a_change_is_of_one_grant(self, people: PeoplePorts) -> None:
        one = Grant(dataset=entry_of("a").id, grantee=EVERYONE, role=DatasetRole.READER)
        for before, after in ((None, None), (one, replace(one, dataset=entry_of("b").id))):
            with pytest.raises(ValueError, match="one relation"):
                people.relations.change_grant(before, after, audit=GRANTED)

    def test_grants_go_with_their_dataset(self, people: PeoplePorts) -> None:
        (alice,) = with_users(people, "alice")
        chain, other = new_chain(people.storage.chains), new_chain(people.storage.chains, "other")
        for of in (chain, other):
            for grantee in (alice.id, EVERYONE):
                set_grant(people, of.id, grantee, DatasetRole.READER)
        chain.remove()
        assert people.relations.grants(chain.id, limit=9) == []
        GrowingChain(people.storage.chains, chain.entry).grow(label="again")
        assert people.relations.grants(chain.id, limit=9) == []
        assert len(people.relations.grants(other.id, limit=9)) == 2

    def test_of_racing_grants_one_is_made(self, people: PeoplePorts) -> None:
        (alice,) = with_users(people, "alice")
        chain = new_chain(people.storage.chains)
        roles = list(DatasetRole)

        def give(number: int) -> str:
            wanted = Grant(dataset=chain.id, grantee=alice.id, role=roles[number % len(roles)])
            people.relations.change_grant(None, wanted, audit=GRANTED)
            return "given"

        assert sorted(map(outcome, outcomes_of_threads(give))) == ["Changed"] * (THREADS - 1) + ["given"]
        assert len(people.logged()) == 2

    def test_a_grant_and_its_dataset_go_together(self, people: PeoplePorts) -> None:
        (alice,) = with_users(people, "alice")
        for number in range(ROUNDS):
            chain = new_chain(people.storage.chains, f"d{number}")
            acts: list[Callable[[], object]] = [
                chain.remove,
                lambda: set_grant(people, chain.id, alice.id, DatasetRole.READER),  # noqa: B023
                lambda: set_grant(people, chain.id, EVERYONE, DatasetRole.READER),  # noqa: B023
            ]
            done = outcomes_of_threads(lambda each: acts[each]() and None, count=3)  # noqa: B023
            assert {outcome(each) for each in done} <= {"None", "NotFound"}
            assert people.relations.grants(chain.id, limit=9) == []


OWNERS = (LOCAL_ACCOUNT, SYSTEM_ACCOUNT, Name("alice"), Name("lab"), Name("Bob"))
USERS = tuple(user(name) for name in ("local", "alice", "bob"))
ALICE = USERS[1]
LABS = (organisation("lab"), organisation("club"))
DATASETS = tuple(
    entry_of(f"d{number}", account=str(owner).swapcase() if number else str(owner))
    for owner in OWNERS
    for number in (0, 1)
)

subjects = st.builds(
    Subject,
    account=st.none() | st.builds(replace, st.sampled_from(USERS), is_admin=st.booleans()),
    organisations=st.dictionaries(st.sampled_from(LABS), st.sampled_from(OrganisationRole)).map(
        lambda roles: tuple(roles.items())
    ),
    scopes=st.frozensets(st.sampled_from(Scope)),
    datasets=st.none() | st.frozensets(st.sampled_from([entry.id for entry in DATASETS])),
)
"""Anyone who may ask, strangers among them."""

viewers = st.builds(
    Viewer,
    everything=st.booleans(),
    open_node=st.booleans(),
    owners=st.frozensets(st.sampled_from(OWNERS)),
    grantees=st.frozensets(st.sampled_from([EVERYONE, *(account.id for account in (*USERS, *LABS))])),
    only=st.none() | st.frozensets(st.sampled_from([entry.id for entry in DATASETS])),
)
"""Any condition, whether a subject has it or not."""

GrantsOn: TypeAlias = dict[tuple[DatasetId, Grantee], DatasetRole]

grants_on_datasets = st.dictionaries(
    st.tuples(
        st.sampled_from([entry.id for entry in DATASETS]),
        st.sampled_from([EVERYONE, *(account.id for account in (*USERS, *LABS))]),
    ),
    st.sampled_from(DatasetRole),
    max_size=8,
)

law = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class ViewerContract:
    """A catalog shows what the policy lets its viewer read, and nothing else."""

    @pytest.fixture
    def people(self) -> PeoplePorts:
        raise NotImplementedError

    @pytest.fixture
    def world(self, people: PeoplePorts) -> PeoplePorts:
        """Datasets of several owners, and accounts to be given roles."""
        for account in USERS:
            people.accounts.create(account, audit=GRANTED)
        for lab in LABS:
            people.accounts.create(lab, audit=GRANTED, founder=USERS[0].id)
        for entry in DATASETS:
            GrowingChain(people.storage.chains, entry).grow()
        return people

    def test_a_page_has_what_the_policy_allows(self, world: PeoplePorts) -> None:
        @law
        @given(
            given_=grants_on_datasets,
            asking=st.lists(subjects, min_size=5, max_size=10),
            policy=st.builds(AccessPolicy, anonymous_read=st.booleans()),
        )
        def holds(given_: GrantsOn, asking: list[Subject], policy: AccessPolicy) -> None:
            on = give_exactly(world, given_)
            every = world.storage.catalog.page(limit=100)
            for subject in asking:
                viewer = policy.viewer(subject)
                allowed = [entry for entry in every if reads(policy, subject, entry, on[entry.id]) is Verdict.ALLOWED]
                seen = Narrowing(viewer=viewer)
                assert world.storage.catalog.page(seen, limit=100) == allowed == admitted(viewer, every, on)
                counts = world.storage.catalog.facets(seen, since=[Instant(0)], limit=9)
                assert (counts.total, list(counts.changed)) == (len(allowed), [len(allowed)])
                assert dict(counts.accounts) == Counter(owner_of(entry.alias) for entry in allowed)

        holds()

    def test_pages_of_a_viewer_are_full_and_in_order(self, world: PeoplePorts) -> None:
        @law
        @given(
            given_=grants_on_datasets,
            looking=st.lists(viewers, min_size=5, max_size=10),
            limit=st.integers(1, 4),
            account=st.none() | st.sampled_from(OWNERS),
        )
        def holds(given_: GrantsOn, looking: list[Viewer], limit: int, account: Name | None) -> None:
            on = give_exactly(world, given_)
            every = world.storage.catalog.page(Narrowing(account=account), limit=100)
            for viewer in looking:
                pages, after = [], None
                while page := world.storage.catalog.page(
                    Narrowing(account=account, viewer=viewer), after=after, limit=limit
                ):
                    pages.append(list(page))
                    after = page[-1].alias
                expected = admitted(viewer, every, on)
                assert pages == [expected[start : start + limit] for start in range(0, len(expected), limit)]

        holds()

    def test_a_token_for_certain_datasets_sees_those_and_what_is_public(self, world: PeoplePorts) -> None:
        mine, other, public, foreign = (entry_named(name) for name in ("alice/d0", "alice/d1", "bob/d0", "lab/d0"))
        give_exactly(world, {(public.id, EVERYONE): DatasetRole.READER, (foreign.id, ALICE.id): DatasetRole.OWNER})
        whole, narrow = Subject(account=ALICE), Subject(account=ALICE, datasets=frozenset({mine.id}))
        page = partial(world.storage.catalog.page, limit=100)
        assert page(Narrowing(viewer=AccessPolicy().viewer(whole))) == [mine, other, public, foreign]
        assert page(Narrowing(viewer=AccessPolicy().viewer(narrow))) == [mine, public]
        assert page(Narrowing(viewer=AccessPolicy().viewer(replace(narrow, scopes=frozenset())))) == [public]

    def test_everybody_may_look_at_everything_without_a_viewer(self, world: PeoplePorts) -> None:
        assert len(world.storage.catalog.page(limit=100)) == len(DATASETS)


def entry_named(alias: str) -> CatalogEntry:
    """One of the datasets, whatever the case of its alias."""
    return next(entry for entry in DATASETS if str(entry.alias).lower() == alias)


def reads(policy: AccessPolicy, subject: Subject, entry: CatalogEntry, grants: Sequence[Grant]) -> Verdict:
    """What the policy says to reading a dataset."""
    return policy.decide(subject, Action.READ, entry.id, owner_of(entry.alias), grants)


def give_exactly(people: PeoplePorts, wanted: GrantsOn) -> dict[DatasetId, Sequence[Grant]]:
    """Make these the grants that there are; returns them by dataset."""
    for entry in DATASETS:
        for grant in people.relations.grants(entry.id, limit=100):
            if wanted.get((grant.dataset, grant.grantee)) is not grant.role:
                people.relations.change_grant(grant, None, audit=GRANTED)
    for (dataset, grantee), role in wanted.items():
        if people.relations.grant(dataset, grantee) is None:
            set_grant(people, dataset, grantee, role)
    return {entry.id: people.relations.grants(entry.id, limit=100) for entry in DATASETS}


def admitted(
    viewer: Viewer, entries: Iterable[CatalogEntry], on: dict[DatasetId, Sequence[Grant]]
) -> list[CatalogEntry]:
    """Those that a viewer admits."""
    return [
        entry
        for entry in entries
        if viewer.admits(entry.id, owner_of(entry.alias), [grant.grantee for grant in on[entry.id]])
    ]
