"""Which passwords may be chosen."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.people.passwords import PasswordRules, check_new_password, normalised
from odfabric.errors import InvalidRequest, LimitExceeded, OdfError

RULES = PasswordRules()
LENGTH = RULES.characters_min


def refusal(password: str, *, name: str = "alice", email: str | None = "alice@example.org") -> OdfError:
    with pytest.raises((InvalidRequest, LimitExceeded)) as caught:
        check_new_password(password, RULES, name=name, email=email)
    return caught.value


@pytest.mark.parametrize(
    "password",
    [
        "correct horse battery staple",
        "no digits or capitals here",
        "       spaces around       too ok",
        "zażółć gęślą jaźń",
        "我的密码很长而且没有别人知道它呢",
        "🦀 crab 🦀 rave 🦀 night",
        "aaaaaaaaaaaaaaa but then something else",
        "alice went to the market for bread",
        "3e8f1c0a77d94b5e",
        "x7$Kq!mZp2#vLw9&",
        "?-!;_.:,%&/()=*",
    ],
)
def test_long_passwords_of_any_characters_may_be_chosen(password: str) -> None:
    check_new_password(password, RULES, name="alice", email="alice@example.org")


@pytest.mark.parametrize("script", ["x7qk2mzp", "яжщцфыбю", "密码很长别人知道", "🦀🐙🦑🐚🐡🐠🐟🐬"])
def test_characters_are_counted_not_bytes(script: str) -> None:
    fits = (script + script[::-1])[:LENGTH]
    check_new_password(fits, RULES, name="alice")
    assert f"{LENGTH - 1} characters" in refusal(fits[:-1]).message


def test_bytes_are_bounded_on_both_sides() -> None:
    fits = ("correct horse battery staple, " * 40)[: RULES.bytes_max - 4] + "wxyz"
    check_new_password(fits, RULES, name="alice")
    assert isinstance(refusal(fits + "1"), LimitExceeded)
    assert isinstance(refusal("é" * (RULES.bytes_max // 2 + 1)), LimitExceeded)


def test_a_normal_form_that_is_longer_is_bounded_too() -> None:
    """One sign of three bytes becomes eighteen, of 33 bytes."""
    sign = "\ufdfa"
    fits = RULES.bytes_max // len(unicodedata.normalize("NFKC", sign).encode())
    assert normalised(sign * fits, bytes_max=RULES.bytes_max)
    with pytest.raises(LimitExceeded, match="password_bytes_max"):
        normalised(sign * (fits + 1), bytes_max=RULES.bytes_max)


def test_a_long_text_is_refused_before_its_normal_form_is_made() -> None:
    wide = "\uff41"
    assert normalised(wide * 341, bytes_max=1024) == "a" * 341
    with pytest.raises(LimitExceeded, match="password_bytes_max"):
        normalised(wide * 342, bytes_max=1024)


@pytest.mark.parametrize(
    ("password", "said"),
    [
        ("alice@example.org", "name or address"),
        ("ALICE@EXAMPLE.ORG", "name or address"),
        ("alice@example.org2024", "name or address"),
        ("alice alice alice", "name or address"),
        ("odfabric-odfabric-1", "this software"),
        ("alice2024!!!!!!!!!", "name or address"),
        ("aaaaaaaaaaaaaaaa", "over and over"),
        ("abcabcabcabcabcab", "over and over"),
        ("passwordpassword", "over and over"),
        ("PasswordpassworD", "over and over"),
        ("123456789012345", "keyboard"),
        ("1234567890qwertyuiop", "keyboard"),
        ("qwertyuiopasdfgh", "keyboard"),
        ("QWERTYUIOPASDFGHJKL", "keyboard"),
        ("zyxwvutsrqponml", "keyboard"),
        ("1qaz2wsx3edc4rfv", "keyboard"),
        ("correct horse\tbattery", "control character"),
        ("correct horse battery\n", "control character"),
        ("correct horse \u0378 battery", "Unicode does not know"),
        ("correct horse \ud800 battery", "not text"),
        ("short", "characters"),
        ("", "characters"),
    ],
)
def test_what_is_guessed_first_is_refused(password: str, said: str) -> None:
    error = refusal(password)
    assert said in error.message
    assert error.hint
    assert error.place.field == "password"


def test_names_count_in_every_form_of_their_letters() -> None:
    assert "name or address" in refusal("zażółć-zażółć-zażółć", name="ZAŻÓŁĆ", email=None).message
    decomposed = unicodedata.normalize("NFD", "zażółćgęśląjaźń")
    assert "name or address" in refusal(decomposed, name="zażółćgęśląjaźń", email=None).message


def test_a_short_name_forbids_nothing() -> None:
    check_new_password("abracadabra is magic", RULES, name="a", email="b@c")


def test_limits_are_parameters() -> None:
    short = PasswordRules(characters_min=8, bytes_max=8)
    check_new_password("x7qk2mzp", short, name="alice")
    with pytest.raises(InvalidRequest, match="needs 8"):
        check_new_password("x7qk2mz", short, name="alice")
    with pytest.raises(LimitExceeded):
        check_new_password("x7qk2mzp1", short, name="alice")


@given(st.text(max_size=200))
def test_the_normal_form_is_its_own(password: str) -> None:
    once = normalised(password, bytes_max=100_000)
    assert normalised(once, bytes_max=100_000) == once


@given(st.text(st.characters(min_codepoint=0x410, max_codepoint=0x44F), min_size=6, max_size=60))
def test_errors_do_not_repeat_the_password(password: str) -> None:
    """In letters that no message is written in."""
    for rules in (PasswordRules(characters_min=61), PasswordRules(characters_min=1)):
        with pytest.raises(OdfError) as refused:
            check_new_password(password, rules, name=password)
        assert password not in str(refused.value)


@given(st.text(min_size=1, max_size=12), st.integers(2, 20))
def test_repetition_is_refused_whatever_is_repeated(piece: str, times: int) -> None:
    with pytest.raises(OdfError):
        check_new_password(piece * times, RULES, name="alice")
