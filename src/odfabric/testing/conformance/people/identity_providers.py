"""What IdentityProviders promise, as tests.

A subclass gives `site`: providers, and somebody with a browser.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import pytest

from odfabric.adapters.memory.node.clock import SettableClock
from odfabric.errors import AccessDenied, InvalidRequest, NotFound, WrongCredentials
from odfabric.ports.people.identity_provider import IdentityProviders

REDIRECT_URI = "https://node.example/sign-in/main"
SIGN_IN_S_MAX = 600


class Site(Protocol):
    """Providers `main` and `work`, of `clock` and SIGN_IN_S_MAX.

    `main` is labelled Main, with sign-up; `work` is for addresses of work.example only.
    """

    identity_providers: IdentityProviders
    clock: SettableClock

    def agree(self, url: str, subject: str, email: str) -> dict[str, str]:
        """Somebody with a verified address signs in; the parameters that come back."""

    def refuse(self, url: str) -> dict[str, str]:
        """Somebody does not agree."""


class IdentityProvidersContract:
    """From `begin` to `finish`."""

    @pytest.fixture
    def site(self) -> Site:
        raise NotImplementedError

    def test_providers_are_listed_by_name(self, site: Site) -> None:
        listed = site.identity_providers.providers()
        assert [(each.name, each.label, each.allow_sign_up) for each in listed] == [
            ("main", "Main", True),
            ("work", "work", False),
        ]

    def test_whoever_signs_in_is_told(self, site: Site) -> None:
        url, pending = site.identity_providers.begin("main", REDIRECT_URI, context="/datasets?page=2")
        assert (pending.provider, pending.redirect_uri, pending.context) == ("main", REDIRECT_URI, "/datasets?page=2")
        assert pending.begun_at == site.clock.now()
        who = site.identity_providers.finish(pending, site.agree(url, "alice", "alice@home.example"))
        assert (who.subject, who.email, who.email_verified) == ("alice", "alice@home.example", True)
        assert who.issuer

    def test_nothing_is_used_twice(self, site: Site) -> None:
        begun = [site.identity_providers.begin("main", REDIRECT_URI) for _ in range(20)]
        secrets = [each for _, pending in begun for each in (pending.state, pending.nonce, pending.verifier)]
        assert len(set(secrets)) == len(secrets)
        assert all(len(each) >= 22 for each in secrets)
        assert all(pending.verifier not in url for url, pending in begun)

    def test_a_code_works_once(self, site: Site) -> None:
        url, pending = site.identity_providers.begin("main", REDIRECT_URI)
        answer = site.agree(url, "alice", "alice@home.example")
        site.identity_providers.finish(pending, answer)
        with pytest.raises(WrongCredentials):
            site.identity_providers.finish(pending, answer)

    def test_an_answer_belongs_to_one_sign_in(self, site: Site) -> None:
        """The answer to one's own sign-in does not sign in another person's browser."""
        url, theirs = site.identity_providers.begin("main", REDIRECT_URI)
        _, ours = site.identity_providers.begin("main", REDIRECT_URI)
        answer = site.agree(url, "mallory", "mallory@home.example")
        for parameters in (answer, {**answer, "state": ""}, {**answer, "state": "\u00e9"}, {"code": answer["code"]}):
            with pytest.raises(WrongCredentials):
                site.identity_providers.finish(ours, parameters)
        with pytest.raises(WrongCredentials):
            site.identity_providers.finish(ours, {**answer, "state": ours.state})
        with pytest.raises(WrongCredentials):
            site.identity_providers.finish(replace(theirs, nonce=ours.nonce), answer)

    def test_an_answer_belongs_to_one_provider(self, site: Site) -> None:
        url, pending = site.identity_providers.begin("main", REDIRECT_URI)
        answer = site.agree(url, "alice", "alice@work.example")
        with pytest.raises(WrongCredentials):
            site.identity_providers.finish(replace(pending, provider="work"), answer)

    def test_a_person_may_refuse(self, site: Site) -> None:
        url, pending = site.identity_providers.begin("main", REDIRECT_URI)
        with pytest.raises(WrongCredentials) as refused:
            site.identity_providers.finish(pending, site.refuse(url))
        assert refused.value.hint

    def test_an_answer_without_a_code_is_none(self, site: Site) -> None:
        _, pending = site.identity_providers.begin("main", REDIRECT_URI)
        for parameters in ({"state": pending.state}, {"state": pending.state, "code": ""}):
            with pytest.raises(InvalidRequest):
                site.identity_providers.finish(pending, parameters)

    def test_a_sign_in_that_takes_too_long_is_over(self, site: Site) -> None:
        url, pending = site.identity_providers.begin("main", REDIRECT_URI)
        answer = site.agree(url, "alice", "alice@home.example")
        site.clock.advance(SIGN_IN_S_MAX * 1000 + 1)
        with pytest.raises(WrongCredentials, match="too long"):
            site.identity_providers.finish(pending, answer)
        site.clock.advance(-1)
        assert site.identity_providers.finish(pending, answer).subject == "alice"

    def test_domains_are_kept_apart(self, site: Site) -> None:
        url, pending = site.identity_providers.begin("work", REDIRECT_URI)
        assert site.identity_providers.finish(pending, site.agree(url, "alice", "alice@work.example")).subject
        url, pending = site.identity_providers.begin("work", REDIRECT_URI)
        with pytest.raises(AccessDenied, match=r"home\.example"):
            site.identity_providers.finish(pending, site.agree(url, "alice", "alice@home.example"))

    def test_other_providers_are_not_found(self, site: Site) -> None:
        _, pending = site.identity_providers.begin("main", REDIRECT_URI)
        with pytest.raises(NotFound):
            site.identity_providers.begin("other", REDIRECT_URI)
        with pytest.raises(NotFound):
            site.identity_providers.finish(replace(pending, provider="other"), {"state": pending.state, "code": "x"})
