"""What Passwords promise, as tests.

A subclass gives `passwords` and `others`, which is the same with other parameters.
"""

from __future__ import annotations

import pytest

from odfabric.errors import Corrupt, InvalidRequest, LimitExceeded
from odfabric.ports.people.passwords import Passwords

BYTES_MAX = 256
"""Longest password of both."""

PASSWORD = "correct horse battery staple"


class PasswordsContract:
    """What is stored, and what it takes."""

    @pytest.fixture
    def passwords(self) -> Passwords:
        raise NotImplementedError

    @pytest.fixture
    def others(self) -> Passwords:
        raise NotImplementedError

    def test_the_password_and_no_other_is_the_one(self, passwords: Passwords) -> None:
        stored = passwords.hash(PASSWORD)
        assert passwords.verify(PASSWORD, stored)
        for other in ("", PASSWORD[:-1], f"{PASSWORD} ", PASSWORD.upper(), stored, f"{PASSWORD}\0"):
            assert not passwords.verify(other, stored)

    def test_what_is_stored_does_not_tell_the_password(self, passwords: Passwords) -> None:
        stored = passwords.hash(PASSWORD)
        assert not any(word in stored for word in PASSWORD.split())
        assert stored.isascii()

    def test_two_accounts_with_one_password_do_not_show(self, passwords: Passwords) -> None:
        assert passwords.hash(PASSWORD) != passwords.hash(PASSWORD)

    @pytest.mark.parametrize("password", [PASSWORD, "", "a" * BYTES_MAX])
    def test_nobody_has_a_password(self, passwords: Passwords, password: str) -> None:
        assert not passwords.verify(password, None)

    @pytest.mark.parametrize(
        ("one", "another"),
        [("caf\u00e9 \u212b", "cafe\u0301 \u00c5"), ("\uff50\uff41\uff53\uff53", "pass"), ("o\ufb03ce", "office")],
        ids=["composed", "wide", "ligature"],
    )
    def test_one_text_typed_in_two_ways_is_one_password(self, passwords: Passwords, one: str, another: str) -> None:
        assert passwords.verify(one, passwords.hash(another))
        assert passwords.verify(another, passwords.hash(one))

    def test_the_end_of_a_long_password_counts(self, passwords: Passwords) -> None:
        longest = "a" * BYTES_MAX
        stored = passwords.hash(longest)
        assert passwords.verify(longest, stored)
        assert not passwords.verify(longest[:-1], stored)

    def test_longer_passwords_are_refused_for_everybody(self, passwords: Passwords) -> None:
        too_long = "a" * (BYTES_MAX + 1)
        for stored in (None, passwords.hash(PASSWORD)):
            with pytest.raises(LimitExceeded, match="password_bytes_max"):
                passwords.verify(too_long, stored)
        with pytest.raises(LimitExceeded, match="password_bytes_max") as refused:
            passwords.hash(too_long)
        assert refused.value.maximum == BYTES_MAX

    def test_what_is_no_text_is_refused_for_everybody(self, passwords: Passwords) -> None:
        for stored in (None, passwords.hash(PASSWORD)):
            with pytest.raises(InvalidRequest):
                passwords.verify("\ud800", stored)

    def test_hashes_are_made_anew_when_parameters_have_changed(self, passwords: Passwords, others: Passwords) -> None:
        stored = passwords.hash(PASSWORD)
        assert not passwords.needs_rehash(stored)
        assert others.needs_rehash(stored)
        assert others.verify(PASSWORD, stored)
        assert not others.needs_rehash(others.hash(PASSWORD))

    @pytest.mark.parametrize("stored", ["", PASSWORD, "$argon2id$", "$argon2id$v=19$m=8,t=1,p=1$AAAA$", "\u00e9"])
    def test_what_was_never_made_here_is_corrupt(self, passwords: Passwords, stored: str) -> None:
        with pytest.raises(Corrupt):
            passwords.verify(PASSWORD, stored)
        with pytest.raises(Corrupt):
            passwords.needs_rehash(stored)
