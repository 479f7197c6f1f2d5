"""Whom a provider lets in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.people.sign_in import check_domain
from odfabric.errors import AccessDenied
from odfabric.model.people.sign_in import VerifiedIdentity


def somebody(email: str | None, *, verified: bool = True) -> VerifiedIdentity:
    return VerifiedIdentity(issuer="https://a.example", subject="1", email=email, email_verified=verified)


@pytest.mark.parametrize("email", ["a@work.example", "a@WORK.example"])
@pytest.mark.parametrize("allowed", [["work.example"], ["Work.Example", "other.example"]])
def test_addresses_of_a_domain_come_in(email: str, allowed: list[str]) -> None:
    check_domain(somebody(email), allowed)


@pytest.mark.parametrize(
    "email",
    [
        "a@home.example",
        "a@sub.work.example",
        "a@notwork.example",
        "a@work.example.evil",
        "work.example",
        "a@work.example@evil.example",
        "a@",
    ],
)
def test_others_do_not(email: str) -> None:
    with pytest.raises(AccessDenied) as refused:
        check_domain(somebody(email), ["work.example"])
    assert "work.example" in (refused.value.hint or "")


@pytest.mark.parametrize(("email", "verified"), [(None, True), ("a@work.example", False)])
def test_an_address_that_nobody_has_verified_counts_for_nothing(email: str | None, verified: bool) -> None:
    with pytest.raises(AccessDenied, match="verified"):
        check_domain(somebody(email, verified=verified), ["work.example"])


@given(st.none() | st.text(), st.booleans())
def test_without_domains_everybody_comes_in(email: str | None, verified: bool) -> None:
    check_domain(somebody(email, verified=verified), [])
