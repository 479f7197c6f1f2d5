"""Who may do what, and names that nobody may take."""

from __future__ import annotations

import pytest

from odfabric.domain.access import LOCAL_ACCOUNT, AccessPolicy, Action, Subject
from odfabric.domain.names import RESERVED_ACCOUNT_NAMES, check_account_name
from odfabric.errors import AccessDenied, InvalidName, NotFound, OdfError, Unauthenticated
from odfabric.formats.references import parse_name
from odfabric.model.identity import Name

OWNER = Subject(LOCAL_ACCOUNT)
STRANGER = Subject()
SOMEBODY = Subject(Name("alice"))
CLOSED = AccessPolicy()
OPEN = AccessPolicy(anonymous_read=True)


@pytest.mark.parametrize("policy", [CLOSED, OPEN])
@pytest.mark.parametrize("action", Action)
def test_the_holder_of_the_token_may_do_everything(policy: AccessPolicy, action: Action) -> None:
    policy.require(OWNER, action, dataset="local/flights")
    policy.require(Subject(Name("LOCAL")), action, dataset="local/flights")


@pytest.mark.parametrize(
    ("policy", "subject", "action", "expected"),
    [
        (CLOSED, STRANGER, Action.READ, NotFound),
        (CLOSED, STRANGER, Action.WRITE, NotFound),
        (CLOSED, STRANGER, Action.MAINTAIN, NotFound),
        (CLOSED, STRANGER, Action.CREATE, Unauthenticated),
        (CLOSED, SOMEBODY, Action.READ, NotFound),
        (CLOSED, SOMEBODY, Action.CREATE, AccessDenied),
        (OPEN, STRANGER, Action.WRITE, Unauthenticated),
        (OPEN, STRANGER, Action.MAINTAIN, Unauthenticated),
        (OPEN, SOMEBODY, Action.WRITE, AccessDenied),
    ],
)
def test_everything_else_is_refused(
    policy: AccessPolicy, subject: Subject, action: Action, expected: type[OdfError]
) -> None:
    assert not policy.allows(subject, action)
    with pytest.raises(expected):
        policy.require(subject, action, dataset="local/flights")


def test_an_open_node_may_be_read_by_anybody() -> None:
    OPEN.require(STRANGER, Action.READ, dataset="local/flights")
    OPEN.require(SOMEBODY, Action.READ, dataset="local/flights")


def test_a_hidden_dataset_looks_like_a_missing_one() -> None:
    with pytest.raises(NotFound) as refusal:
        CLOSED.require(STRANGER, Action.WRITE, dataset="local/flights")
    assert str(refusal.value) == str(NotFound("dataset", "local/flights"))


@pytest.mark.parametrize("text", ["system", "Platform", "DATASETS", "jobs", "query", "openapi.json"])
def test_accounts_must_not_hide_routes(text: str) -> None:
    with pytest.raises(InvalidName, match="is reserved"):
        check_account_name(Name(text))


def test_other_accounts_are_free() -> None:
    check_account_name(LOCAL_ACCOUNT)
    check_account_name(Name("systems"))


def test_reserved_names_are_names_in_lower_case() -> None:
    for text in RESERVED_ACCOUNT_NAMES:
        assert parse_name(text, type_name="AccountName").folded == text
