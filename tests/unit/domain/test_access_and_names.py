"""Who may do what, and names that nobody may take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.access import (
    LEAST_ROLES,
    LOCAL_ACCOUNT,
    STRANGER,
    SYSTEM_ACCOUNT,
    AccessPolicy,
    Action,
    Subject,
    Verdict,
    as_organisation,
    hidden,
    refusal,
)
from odfabric.domain.names import RESERVED_ACCOUNT_NAMES, check_account_name
from odfabric.errors import AccessDenied, InvalidName, NotFound, OdfError, Unauthenticated
from odfabric.formats.references import parse_name
from odfabric.model.account import EVERYONE, Account, AccountKind, DatasetRole, Grant, OrganisationRole
from odfabric.model.credential import ALL_SCOPES, Scope
from odfabric.model.identity import DatasetId, KeyAccountId, Name
from odfabric.model.instant import Instant

NOW = Instant.parse("2026-01-01T00:00:00Z")
CLOSED = AccessPolicy()
OPEN = AccessPolicy(anonymous_read=True)
DATASETS = tuple(DatasetId(bytes([number]) * 32) for number in (1, 2))
THIS, OTHER = DATASETS
DATASET_ACTIONS = tuple(LEAST_ROLES)


def account(name: str, number: int, kind: AccountKind = AccountKind.USER, *, is_admin: bool = False) -> Account:
    return Account(
        id=KeyAccountId(bytes([number]) * 32),
        name=Name(name),
        kind=kind,
        display_name=name,
        created_at=NOW,
        is_admin=is_admin,
    )


ANN, BOB, ROOT = account("ann", 1), account("bob", 2), account("root", 3, is_admin=True)
ACME = account("acme", 4, AccountKind.ORGANISATION)
OWNERS = (ANN.name, BOB.name, ACME.name, SYSTEM_ACCOUNT)


def to(grantee: Any, role: DatasetRole, dataset: DatasetId = THIS) -> Grant:
    return Grant(dataset=dataset, grantee=grantee, role=role)


accounts = st.sampled_from([None, ANN, BOB, ROOT, ACME])
memberships = st.sampled_from([(), ((ACME, OrganisationRole.MEMBER),), ((ACME, OrganisationRole.ADMIN),)])
scopes = st.frozensets(st.sampled_from(Scope))
narrowings = st.none() | st.frozensets(st.sampled_from(DATASETS), min_size=1)
grantees = st.sampled_from([EVERYONE, ANN.id, BOB.id, ACME.id])
grants = st.lists(st.builds(to, grantees, st.sampled_from(DatasetRole)), max_size=3)
policies = st.sampled_from([CLOSED, OPEN])
owners = st.sampled_from(OWNERS)


@st.composite
def subjects(draw: st.DrawFn) -> Subject:
    found = draw(accounts)
    if found is None:
        return STRANGER
    organisations = draw(memberships) if found.kind is AccountKind.USER else ()
    return Subject(account=found, organisations=organisations, scopes=draw(scopes), datasets=draw(narrowings))


@pytest.mark.parametrize("action", DATASET_ACTIONS)
@pytest.mark.parametrize("role", DatasetRole)
def test_each_role_may_do_what_the_one_before_may(role: DatasetRole, action: Action) -> None:
    order = ("reader", "contributor", "editor", "maintainer", "owner")
    least = {"READ": 0, "FOLLOW": 0, "PUSH": 1, "WRITE": 2, "SHARE": 3, "DELETE": 4}[action.name]
    expected = Verdict.ALLOWED if order.index(role.value) >= least else Verdict.DENIED
    assert CLOSED.decide(Subject(account=BOB), action, THIS, ANN.name, [to(BOB.id, role)]) is expected
    member = Subject(account=BOB, organisations=((ACME, OrganisationRole.MEMBER),))
    assert CLOSED.decide(member, action, THIS, ANN.name, [to(ACME.id, role)]) is expected
    assert CLOSED.decide(as_organisation(ACME), action, THIS, ANN.name, [to(ACME.id, role)]) is expected


@pytest.mark.parametrize(
    ("subject", "owner", "expected"),
    [
        (STRANGER, ANN.name, None),
        (Subject(account=BOB), ANN.name, None),
        (Subject(account=ANN), ANN.name, DatasetRole.OWNER),
        (Subject(account=ROOT), ANN.name, DatasetRole.OWNER),
        (Subject(account=ROOT, scopes=frozenset({Scope.MANAGE})), ANN.name, None),
        (Subject(account=BOB, organisations=((ACME, OrganisationRole.MEMBER),)), ACME.name, DatasetRole.EDITOR),
        (Subject(account=BOB, organisations=((ACME, OrganisationRole.ADMIN),)), ACME.name, DatasetRole.OWNER),
        (as_organisation(ACME), ACME.name, DatasetRole.OWNER),
        (Subject(account=ANN, datasets=frozenset({OTHER})), ANN.name, None),
        (Subject(account=ROOT, datasets=frozenset({OTHER})), ANN.name, None),
    ],
)
def test_roles_that_come_from_being_somebody(subject: Subject, owner: Name, expected: DatasetRole | None) -> None:
    assert CLOSED.role(subject, THIS, owner, []) is expected


@pytest.mark.parametrize("action", DATASET_ACTIONS)
def test_a_token_is_used_for_what_its_scopes_say(action: Action) -> None:
    needed = {Action.READ: "read", Action.FOLLOW: "read", Action.PUSH: "push"}.get(action, "manage")
    for given_scope in Scope:
        subject = Subject(account=ANN, scopes=frozenset({given_scope}))
        allowed = given_scope.value in (needed, "manage")
        expected = Verdict.ALLOWED if allowed else Verdict.OUT_OF_SCOPE
        assert CLOSED.decide(subject, action, THIS, ANN.name, []) is expected


@given(subjects(), st.sampled_from(DATASET_ACTIONS), st.sampled_from(DATASETS), owners, grants, policies)
def test_a_narrower_credential_never_may_more(
    subject: Subject, action: Action, dataset: DatasetId, owner: Name, given_grants: list[Grant], policy: AccessPolicy
) -> None:
    on_this = [grant for grant in given_grants if grant.dataset == dataset]
    if policy.decide(subject, action, dataset, owner, on_this) is Verdict.ALLOWED:
        whole = replace(subject, scopes=ALL_SCOPES, datasets=None) if subject.account else subject
        assert policy.decide(whole, action, dataset, owner, on_this) is Verdict.ALLOWED


@given(subjects(), st.sampled_from(DATASET_ACTIONS), owners, grants, policies, st.sampled_from(DatasetRole))
def test_another_grant_never_takes_a_right_away(
    subject: Subject, action: Action, owner: Name, given_grants: list[Grant], policy: AccessPolicy, role: DatasetRole
) -> None:
    if policy.decide(subject, action, THIS, owner, given_grants) is Verdict.ALLOWED:
        for grantee in (EVERYONE, ANN.id, ACME.id):
            more = [*given_grants, to(grantee, role)]
            assert policy.decide(subject, action, THIS, owner, more) is Verdict.ALLOWED


@given(subjects(), st.sampled_from(DATASETS), owners, grants, policies)
def test_the_condition_for_the_database_is_the_decision_to_read(
    subject: Subject, dataset: DatasetId, owner: Name, given_grants: list[Grant], policy: AccessPolicy
) -> None:
    """Lists show exactly those datasets that may be read one by one."""
    read = policy.decide(subject, Action.READ, dataset, owner, given_grants) is Verdict.ALLOWED
    assert policy.viewer(subject).admits(dataset, owner, [grant.grantee for grant in given_grants]) == read


@given(st.sampled_from(DATASET_ACTIONS), owners, grants, policies)
def test_strangers_read_what_is_public_and_do_nothing_else(
    action: Action, owner: Name, given_grants: list[Grant], policy: AccessPolicy
) -> None:
    is_open = any(grant.grantee == EVERYONE for grant in given_grants) or (
        policy.anonymous_read and owner != SYSTEM_ACCOUNT
    )
    allowed = Verdict.ALLOWED if action is Action.READ else Verdict.STRANGER
    assert policy.decide(STRANGER, action, THIS, owner, given_grants) is (allowed if is_open else Verdict.HIDDEN)


@given(subjects(), st.sampled_from([Action.PUSH, Action.WRITE, Action.DELETE]), grants, policies)
def test_nobody_but_the_node_changes_the_system_s_datasets(
    subject: Subject, action: Action, given_grants: list[Grant], policy: AccessPolicy
) -> None:
    assert policy.decide(subject, action, THIS, SYSTEM_ACCOUNT, given_grants) is not Verdict.ALLOWED
    node = Subject(account=account("system", 9))
    assert policy.decide(node, action, THIS, SYSTEM_ACCOUNT, given_grants) is Verdict.ALLOWED


@given(subjects(), st.sampled_from([Action.CREATE, Action.MANAGE, Action.ADMINISTER]), st.sampled_from(OWNERS))
def test_a_token_for_certain_datasets_does_nothing_elsewhere(subject: Subject, action: Action, under: Name) -> None:
    narrowed = replace(subject, datasets=frozenset({THIS}))
    assert CLOSED.decide_here(narrowed, action, under=under) is not Verdict.ALLOWED


MEMBER = Subject(account=BOB, organisations=((ACME, OrganisationRole.MEMBER),))
HEAD = Subject(account=BOB, organisations=((ACME, OrganisationRole.ADMIN),))
ALLOWED, DENIED, OUT_OF_SCOPE = Verdict.ALLOWED, Verdict.DENIED, Verdict.OUT_OF_SCOPE


@pytest.mark.parametrize(
    ("subject", "action", "under", "expected"),
    [
        (STRANGER, Action.READ, None, ALLOWED),
        (STRANGER, Action.SIGN_IN, None, Verdict.STRANGER),
        (STRANGER, Action.CREATE, ANN.name, Verdict.STRANGER),
        (Subject(account=ANN, scopes=frozenset({Scope.PUSH})), Action.SIGN_IN, None, ALLOWED),
        (Subject(account=ANN), Action.CREATE, ANN.name, ALLOWED),
        (Subject(account=ANN), Action.CREATE, BOB.name, DENIED),
        (Subject(account=ANN), Action.CREATE, SYSTEM_ACCOUNT, DENIED),
        (Subject(account=ANN, scopes=frozenset({Scope.PUSH})), Action.CREATE, ANN.name, OUT_OF_SCOPE),
        (MEMBER, Action.CREATE, ACME.name, ALLOWED),
        (MEMBER, Action.MANAGE, ACME.name, DENIED),
        (HEAD, Action.MANAGE, ACME.name, ALLOWED),
        (as_organisation(ACME), Action.CREATE, ACME.name, ALLOWED),
        (Subject(account=ROOT), Action.MANAGE, ANN.name, ALLOWED),
        (Subject(account=ROOT), Action.MANAGE, SYSTEM_ACCOUNT, DENIED),
        (Subject(account=ROOT), Action.ADMINISTER, None, ALLOWED),
        (Subject(account=ROOT, scopes=frozenset({Scope.MANAGE})), Action.ADMINISTER, None, OUT_OF_SCOPE),
        (Subject(account=ROOT, scopes=frozenset({Scope.MANAGE})), Action.MANAGE, ANN.name, DENIED),
        (Subject(account=ANN), Action.ADMINISTER, None, DENIED),
    ],
)
def test_what_may_be_done_to_the_node_and_to_accounts(
    subject: Subject, action: Action, under: Name | None, expected: Verdict
) -> None:
    assert CLOSED.decide_here(subject, action, under=under) is expected
    assert OPEN.decide_here(subject, action, under=under) is expected


@pytest.mark.parametrize(
    ("verdict", "error"),
    [
        (Verdict.HIDDEN, NotFound),
        (Verdict.STRANGER, Unauthenticated),
        (Verdict.DENIED, AccessDenied),
        (Verdict.OUT_OF_SCOPE, AccessDenied),
    ],
)
def test_every_refusal_is_an_error_that_says_what_was_asked_for(verdict: Verdict, error: type[OdfError]) -> None:
    for subject in (STRANGER, Subject(account=ANN)):
        for action in Action:
            found = refusal(verdict, action, subject, shown="ann/flights")
            assert type(found) is error
            assert "ann/flights" in str(found)


def test_what_is_allowed_has_no_refusal() -> None:
    with pytest.raises(ValueError, match="not refused"):
        refusal(Verdict.ALLOWED, Action.READ, STRANGER, shown="ann/flights")


@pytest.mark.parametrize("subject", [STRANGER, Subject(account=ANN)])
def test_a_hidden_dataset_looks_like_a_missing_one(subject: Subject) -> None:
    found = {str(refusal(Verdict.HIDDEN, action, subject, shown="ann/flights")) for action in Action}
    assert found == {str(hidden(subject, "ann/flights"))}


def test_only_an_organisation_acts_as_one() -> None:
    with pytest.raises(ValueError, match="is no organisation"):
        as_organisation(ANN)


@pytest.mark.parametrize("text", ["Platform", "DATASETS", "jobs", "query", "openapi.json", "system", "accounts"])
def test_accounts_must_not_hide_routes(text: str) -> None:
    with pytest.raises(InvalidName, match="is reserved"):
        check_account_name(Name(text))


def test_other_accounts_are_free() -> None:
    check_account_name(LOCAL_ACCOUNT)
    check_account_name(Name("systems"))


def test_reserved_names_are_names_in_lower_case() -> None:
    for text in RESERVED_ACCOUNT_NAMES:
        assert parse_name(text, type_name="AccountName").folded == text
