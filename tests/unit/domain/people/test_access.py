"""Who may do what: tables of the rules, and laws for every subject and grant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.people.access import (
    LEAST_ROLES,
    LOCAL_ACCOUNT,
    STRANGER,
    STRANGER_HINT,
    SYSTEM_ACCOUNT,
    AccessPolicy,
    Action,
    Subject,
    Verdict,
    as_organisation,
    hidden,
    owner_of,
    refusal,
    signed_in,
)
from odfabric.errors import AccessDenied, NotFound, OdfError, Unauthenticated
from odfabric.model.identity import AccountName, DatasetAlias, DatasetId, KeyAccountId, Name
from odfabric.model.instant import Instant
from odfabric.model.people.account import EVERYONE, Account, AccountKind, DatasetRole, Grant, Grantee, OrganisationRole
from odfabric.model.people.audit import Actor
from odfabric.model.people.credential import ALL_SCOPES, Scope

ALLOWED, HIDDEN, DENIED = Verdict.ALLOWED, Verdict.HIDDEN, Verdict.DENIED
CLOSED, OPEN = AccessPolicy(), AccessPolicy(anonymous_read=True)
ON_DATASETS = tuple(LEAST_ROLES)
ELSEWHERE = (Action.CREATE, Action.MANAGE, Action.SIGN_IN, Action.ADMINISTER)
CHANGES = (Action.PUSH, Action.WRITE, Action.DELETE)
DATASET, OTHER = DatasetId(b"d" * 32), DatasetId(b"o" * 32)


def account(name: str, *, kind: AccountKind = AccountKind.USER, is_admin: bool = False) -> Account:
    identity = KeyAccountId(name.lower().encode().ljust(32, b"\0"))
    return Account(id=identity, name=Name(name), kind=kind, display_name=name, created_at=Instant(0), is_admin=is_admin)


ALICE, BOB, ROOT = account("alice"), account("Bob"), account("root", is_admin=True)
LAB, CLUB = (account(name, kind=AccountKind.ORGANISATION) for name in ("Lab", "club"))


def grant(to: Grantee, role: DatasetRole) -> Grant:
    return Grant(dataset=DATASET, grantee=to, role=role)


def verdicts(policy: AccessPolicy, subject: Subject, owner: AccountName, grants: Sequence[Grant] = ()) -> set[Action]:
    """What a subject may do to a dataset."""
    return {action for action in ON_DATASETS if policy.decide(subject, action, DATASET, owner, grants) is ALLOWED}


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        (DatasetRole.READER, {Action.READ, Action.FOLLOW}),
        (DatasetRole.CONTRIBUTOR, {Action.READ, Action.FOLLOW, Action.PUSH}),
        (DatasetRole.EDITOR, {Action.READ, Action.FOLLOW, Action.PUSH, Action.WRITE}),
        (DatasetRole.MAINTAINER, {Action.READ, Action.FOLLOW, Action.PUSH, Action.WRITE, Action.SHARE}),
        (DatasetRole.OWNER, set(ON_DATASETS)),
    ],
)
def test_what_each_role_may_do(role: DatasetRole, allowed: set[Action]) -> None:
    alice, grants = Subject(account=ALICE), [grant(ALICE.id, role)]
    assert verdicts(CLOSED, alice, BOB.name, grants) == allowed
    for action in set(ON_DATASETS) - allowed:
        assert CLOSED.decide(alice, action, DATASET, BOB.name, grants) is DENIED


@pytest.mark.parametrize(
    ("subject", "owner", "grants", "role"),
    [
        (STRANGER, ALICE.name, [], None),
        (STRANGER, ALICE.name, [grant(ALICE.id, DatasetRole.OWNER)], None),
        (STRANGER, ALICE.name, [grant(EVERYONE, DatasetRole.READER)], DatasetRole.READER),
        (Subject(account=ALICE), BOB.name, [], None),
        (Subject(account=ALICE), Name("ALICE"), [], DatasetRole.OWNER),
        (Subject(account=ALICE), BOB.name, [grant(BOB.id, DatasetRole.OWNER)], None),
        (Subject(account=ALICE), BOB.name, [grant(EVERYONE, DatasetRole.READER)], DatasetRole.READER),
        (
            Subject(account=ALICE),
            BOB.name,
            [grant(EVERYONE, DatasetRole.READER), grant(ALICE.id, DatasetRole.EDITOR)],
            DatasetRole.EDITOR,
        ),
        (Subject(account=ALICE), LAB.name, [], None),
        (Subject(account=ALICE, organisations=((LAB, OrganisationRole.MEMBER),)), LAB.name, [], DatasetRole.EDITOR),
        (Subject(account=ALICE, organisations=((LAB, OrganisationRole.ADMIN),)), Name("LAB"), [], DatasetRole.OWNER),
        (Subject(account=ALICE, organisations=((CLUB, OrganisationRole.ADMIN),)), LAB.name, [], None),
        (
            Subject(account=ALICE, organisations=((CLUB, OrganisationRole.MEMBER),)),
            LAB.name,
            [grant(CLUB.id, DatasetRole.MAINTAINER)],
            DatasetRole.MAINTAINER,
        ),
        (Subject(account=ROOT), ALICE.name, [], DatasetRole.OWNER),
        (Subject(account=ROOT), SYSTEM_ACCOUNT, [], DatasetRole.OWNER),
        (Subject(account=ROOT, scopes=ALL_SCOPES - {Scope.ADMIN}), ALICE.name, [], None),
        (Subject(account=ALICE, datasets=frozenset({OTHER})), ALICE.name, [], None),
        (Subject(account=ALICE, datasets=frozenset({DATASET})), ALICE.name, [], DatasetRole.OWNER),
        (Subject(account=ROOT, datasets=frozenset()), ALICE.name, [], None),
        (
            Subject(account=ALICE, datasets=frozenset()),
            ALICE.name,
            [grant(EVERYONE, DatasetRole.READER)],
            DatasetRole.READER,
        ),
        (as_organisation(LAB), LAB.name, [], DatasetRole.OWNER),
        (as_organisation(LAB), BOB.name, [grant(LAB.id, DatasetRole.READER)], DatasetRole.READER),
    ],
)
def test_where_a_role_comes_from(
    subject: Subject, owner: AccountName, grants: list[Grant], role: DatasetRole | None
) -> None:
    assert CLOSED.role(subject, DATASET, owner, grants) is role
    admitted = CLOSED.viewer(subject).admits(DATASET, owner, [each.grantee for each in grants])
    assert admitted == (role is not None)


@pytest.mark.parametrize("subject", [STRANGER, Subject(account=ALICE), Subject(account=ALICE, datasets=frozenset())])
def test_an_open_node_is_read_by_everybody_but_for_the_systems_datasets(subject: Subject) -> None:
    assert OPEN.role(subject, DATASET, BOB.name, []) is DatasetRole.READER
    assert OPEN.role(subject, DATASET, SYSTEM_ACCOUNT, []) is None


@pytest.mark.parametrize(
    ("scopes", "allowed"),
    [
        ((), set()),
        ((Scope.READ,), {Action.READ, Action.FOLLOW}),
        ((Scope.PUSH,), {Action.PUSH}),
        ((Scope.READ, Scope.PUSH), {Action.READ, Action.FOLLOW, Action.PUSH}),
        ((Scope.MANAGE,), set(ON_DATASETS)),
        ((Scope.ADMIN,), set()),
        (tuple(Scope), set(ON_DATASETS)),
    ],
)
def test_how_far_a_token_goes(scopes: tuple[Scope, ...], allowed: set[Action]) -> None:
    owner = Subject(account=ALICE, scopes=frozenset(scopes))
    assert verdicts(CLOSED, owner, ALICE.name) == allowed
    for action in set(ON_DATASETS) - allowed:
        assert CLOSED.decide(owner, action, DATASET, ALICE.name, []) is Verdict.OUT_OF_SCOPE


def test_what_is_public_is_read_with_any_token_or_none() -> None:
    public = [grant(EVERYONE, DatasetRole.READER)]
    assert verdicts(CLOSED, STRANGER, ALICE.name, public) == {Action.READ}
    assert verdicts(CLOSED, Subject(account=BOB, scopes=frozenset()), ALICE.name, public) == {Action.READ}
    assert verdicts(CLOSED, Subject(account=BOB), ALICE.name, public) == {Action.READ, Action.FOLLOW}
    for action in set(ON_DATASETS) - {Action.READ}:
        assert CLOSED.decide(STRANGER, action, DATASET, ALICE.name, public) is Verdict.STRANGER


@pytest.mark.parametrize(
    ("subject", "action", "under", "verdict"),
    [
        (STRANGER, Action.READ, None, ALLOWED),
        *((STRANGER, action, ALICE.name, Verdict.STRANGER) for action in ELSEWHERE),
        (Subject(account=ALICE, scopes=frozenset()), Action.SIGN_IN, None, ALLOWED),
        (Subject(account=ALICE), Action.CREATE, Name("ALICE"), ALLOWED),
        (Subject(account=ALICE), Action.MANAGE, ALICE.name, ALLOWED),
        (Subject(account=ALICE), Action.CREATE, BOB.name, DENIED),
        (Subject(account=ALICE), Action.MANAGE, BOB.name, DENIED),
        (Subject(account=ALICE), Action.ADMINISTER, None, DENIED),
        (Subject(account=ALICE), Action.CREATE, None, DENIED),
        (
            Subject(account=ALICE, scopes=frozenset({Scope.READ, Scope.PUSH})),
            Action.CREATE,
            ALICE.name,
            Verdict.OUT_OF_SCOPE,
        ),
        (Subject(account=ALICE, datasets=frozenset({DATASET})), Action.CREATE, ALICE.name, Verdict.OUT_OF_SCOPE),
        (Subject(account=ALICE, organisations=((LAB, OrganisationRole.MEMBER),)), Action.CREATE, LAB.name, ALLOWED),
        (Subject(account=ALICE, organisations=((LAB, OrganisationRole.MEMBER),)), Action.MANAGE, LAB.name, DENIED),
        (Subject(account=ALICE, organisations=((LAB, OrganisationRole.ADMIN),)), Action.MANAGE, LAB.name, ALLOWED),
        (Subject(account=ROOT), Action.ADMINISTER, None, ALLOWED),
        (Subject(account=ROOT), Action.MANAGE, ALICE.name, ALLOWED),
        (Subject(account=ROOT), Action.CREATE, ALICE.name, ALLOWED),
        (Subject(account=ROOT), Action.CREATE, SYSTEM_ACCOUNT, DENIED),
        (Subject(account=ROOT), Action.MANAGE, SYSTEM_ACCOUNT, DENIED),
        (Subject(account=ROOT, scopes=frozenset({Scope.MANAGE})), Action.ADMINISTER, None, Verdict.OUT_OF_SCOPE),
        (Subject(account=ROOT, scopes=frozenset({Scope.MANAGE})), Action.MANAGE, ALICE.name, DENIED),
        (Subject(account=ROOT, datasets=frozenset({DATASET})), Action.ADMINISTER, None, Verdict.OUT_OF_SCOPE),
    ],
)
def test_what_is_about_no_dataset(
    subject: Subject, action: Action, under: AccountName | None, verdict: Verdict
) -> None:
    assert CLOSED.decide_here(subject, action, under=under) is verdict
    assert OPEN.decide_here(subject, action, under=under) is verdict


@pytest.mark.parametrize(
    ("verdict", "subject", "error", "words"),
    [
        (HIDDEN, STRANGER, NotFound, ["lab/x", STRANGER_HINT]),
        (HIDDEN, Subject(account=ALICE), NotFound, ["lab/x"]),
        (Verdict.STRANGER, STRANGER, Unauthenticated, ["push to lab/x", "Bearer"]),
        (Verdict.OUT_OF_SCOPE, Subject(account=ALICE), AccessDenied, ["token", "push to lab/x", "scope `push`"]),
        (DENIED, Subject(account=ALICE), AccessDenied, ["alice", "push to lab/x", "contributor"]),
    ],
)
def test_a_refusal_says_what_is_missing(
    verdict: Verdict, subject: Subject, error: type[OdfError], words: list[str]
) -> None:
    found = refusal(verdict, Action.PUSH, subject, shown="lab/x")
    assert type(found) is error
    assert all(word in f"{found.message} {found.hint}" for word in words), f"{found.message} {found.hint}"


@pytest.mark.parametrize("subject", [STRANGER, Subject(account=ALICE)])
@pytest.mark.parametrize("action", ON_DATASETS)
def test_what_is_hidden_looks_like_what_is_missing(subject: Subject, action: Action) -> None:
    shown, missing = refusal(HIDDEN, action, subject, shown="lab/x"), hidden(subject, "lab/x")
    assert (type(shown), str(shown), shown.hint) == (type(missing), str(missing), missing.hint)


def test_a_stranger_is_asked_to_sign_in() -> None:
    assert signed_in(Subject(account=ALICE)) == ALICE
    with pytest.raises(Unauthenticated, match="A token is needed to"):
        signed_in(STRANGER)


def test_only_organisations_act_as_such() -> None:
    with pytest.raises(ValueError, match="no organisation"):
        as_organisation(ALICE)


def test_datasets_without_an_account_are_the_local_ones() -> None:
    assert owner_of(DatasetAlias(None, Name("x"))) == LOCAL_ACCOUNT
    assert owner_of(DatasetAlias(Name("lab"), Name("x"))) == Name("lab")


def test_the_audit_names_who_it_was() -> None:
    assert Subject(address="192.0.2.1").actor == Actor(address="192.0.2.1")
    subject = Subject(account=BOB, token="t1", address="192.0.2.1")
    assert subject.actor == Actor(account=str(BOB.id), name="Bob", token="t1", address="192.0.2.1")


policies = st.builds(AccessPolicy, anonymous_read=st.booleans())
users = st.sampled_from([ALICE, BOB, ROOT])
memberships = st.dictionaries(st.sampled_from([LAB, CLUB]), st.sampled_from(OrganisationRole))
datasets = st.none() | st.frozensets(st.sampled_from([DATASET, OTHER]))
with_account = st.builds(
    Subject,
    account=users,
    organisations=memberships.map(lambda roles: tuple(roles.items())),
    scopes=st.frozensets(st.sampled_from(Scope)),
    datasets=datasets,
)
strangers = st.builds(Subject, scopes=st.frozensets(st.sampled_from(Scope)), datasets=datasets)
subjects = with_account | strangers | st.sampled_from([as_organisation(LAB), as_organisation(CLUB)])
owners = st.sampled_from([*(each.name for each in (ALICE, BOB, ROOT, LAB, CLUB)), SYSTEM_ACCOUNT, LOCAL_ACCOUNT])
grants_ = st.dictionaries(
    st.sampled_from([EVERYONE, *(each.id for each in (ALICE, BOB, ROOT, LAB, CLUB))]), st.sampled_from(DatasetRole)
).map(lambda given_: [grant(to, role) for to, role in given_.items()])
actions = st.sampled_from(ON_DATASETS)


@given(policies, subjects, owners, grants_, st.data())
def test_a_higher_role_allows_no_less(
    policy: AccessPolicy, subject: Subject, owner: AccountName, grants: list[Grant], data: st.DataObject
) -> None:
    raised = [replace(each, role=data.draw(st.sampled_from(_at_least(each.role)))) for each in grants]
    more = data.draw(grants_.filter(lambda added: not {each.grantee for each in added} & {g.grantee for g in grants}))
    assert verdicts(policy, subject, owner, grants) <= verdicts(policy, subject, owner, raised)
    assert verdicts(policy, subject, owner, grants) <= verdicts(policy, subject, owner, [*grants, *more])


def _at_least(role: DatasetRole) -> list[DatasetRole]:
    return [other for other in DatasetRole if other.rank >= role.rank]


@given(policies, subjects, owners, grants_)
def test_each_role_allows_what_the_one_below_does(
    policy: AccessPolicy, subject: Subject, owner: AccountName, grants: list[Grant]
) -> None:
    """With all scopes, anyone who may do an action may do those of lower roles."""
    whole = replace(subject, scopes=ALL_SCOPES)
    if subject.account is None or owner == SYSTEM_ACCOUNT:
        return
    allowed = verdicts(policy, whole, owner, grants)
    assert allowed == set(ON_DATASETS[: len(allowed)])


@given(policies, subjects, owners, grants_, st.data())
def test_a_narrower_token_allows_no_more(
    policy: AccessPolicy, subject: Subject, owner: AccountName, grants: list[Grant], data: st.DataObject
) -> None:
    scopes = (
        data.draw(st.frozensets(st.sampled_from(sorted(subject.scopes, key=str)))) if subject.scopes else frozenset()
    )
    within = data.draw(datasets)
    if subject.datasets is not None:
        within = subject.datasets & (within or frozenset())
    narrow = replace(subject, scopes=scopes, datasets=within)
    assert verdicts(policy, narrow, owner, grants) <= verdicts(policy, subject, owner, grants)
    for action in ELSEWHERE:
        if policy.decide_here(narrow, action, under=owner) is ALLOWED:
            assert policy.decide_here(subject, action, under=owner) is ALLOWED


@given(policies, subjects, owners, grants_)
def test_what_a_stranger_may_everybody_may(
    policy: AccessPolicy, subject: Subject, owner: AccountName, grants: list[Grant]
) -> None:
    assert verdicts(policy, STRANGER, owner, grants) <= verdicts(policy, subject, owner, grants)
    assert verdicts(policy, STRANGER, owner, grants) <= {Action.READ}


@given(policies, strangers, owners, grants_)
def test_all_strangers_are_equal(
    policy: AccessPolicy, stranger: Subject, owner: AccountName, grants: list[Grant]
) -> None:
    for action in ON_DATASETS:
        expected = policy.decide(STRANGER, action, DATASET, owner, grants)
        assert policy.decide(stranger, action, DATASET, owner, grants) is expected


@given(policies, subjects, actions, owners, grants_)
def test_hidden_is_what_one_has_no_role_on(
    policy: AccessPolicy, subject: Subject, action: Action, owner: AccountName, grants: list[Grant]
) -> None:
    verdict = policy.decide(subject, action, DATASET, owner, grants)
    assert (verdict is HIDDEN) == (policy.role(subject, DATASET, owner, grants) is None)


@given(policies, subjects, owners, grants_)
def test_a_viewer_admits_what_may_be_read(
    policy: AccessPolicy, subject: Subject, owner: AccountName, grants: list[Grant]
) -> None:
    may = policy.decide(subject, Action.READ, DATASET, owner, grants) is ALLOWED
    assert policy.viewer(subject).admits(DATASET, owner, [each.grantee for each in grants]) == may


@given(policies, subjects, grants_)
def test_nobody_changes_the_systems_datasets(policy: AccessPolicy, subject: Subject, grants: list[Grant]) -> None:
    assert not verdicts(policy, subject, SYSTEM_ACCOUNT, grants) & set(CHANGES)
    for action in (Action.CREATE, Action.MANAGE):
        assert policy.decide_here(subject, action, under=SYSTEM_ACCOUNT) is not ALLOWED


@given(policies, subjects, st.none() | owners, st.sampled_from(ELSEWHERE))
def test_without_a_dataset_nothing_is_hidden_and_strangers_do_nothing(
    policy: AccessPolicy, subject: Subject, under: AccountName | None, action: Action
) -> None:
    verdict = policy.decide_here(subject, action, under=under)
    assert verdict is not HIDDEN
    assert (verdict is Verdict.STRANGER) == (subject.account is None)
    assert policy.decide_here(subject, Action.READ, under=under) is ALLOWED
