"""Names that no account may take."""

from __future__ import annotations

import pytest

from odfabric.domain.people.access import LOCAL_ACCOUNT, SYSTEM_ACCOUNT
from odfabric.domain.people.names import RESERVED_ACCOUNT_NAMES, check_account_name
from odfabric.errors import InvalidName
from odfabric.formats.identifiers.references import parse_name
from odfabric.model.identity import Name


@pytest.mark.parametrize("text", ["system", "Platform", "DATASETS", "jobs", "query", "openapi.json"])
def test_accounts_must_not_hide_routes(text: str) -> None:
    with pytest.raises(InvalidName, match="is reserved"):
        check_account_name(Name(text))


@pytest.mark.parametrize("text", ["-", ".well-known"])
def test_other_routes_have_no_names(text: str) -> None:
    with pytest.raises(InvalidName):
        parse_name(text, type_name="AccountName")


def test_nobody_is_called_like_the_node() -> None:
    with pytest.raises(InvalidName, match="is reserved"):
        check_account_name(SYSTEM_ACCOUNT)


def test_other_accounts_are_free() -> None:
    check_account_name(LOCAL_ACCOUNT)
    check_account_name(Name("systems"))


def test_reserved_names_are_names_in_lower_case() -> None:
    for text in RESERVED_ACCOUNT_NAMES:
        assert parse_name(text, type_name="AccountName").folded == text
