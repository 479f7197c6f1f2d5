"""The text of a pending sign-in opens only with its maker's key, and no other."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from odfabric.errors import InvalidRequest
from odfabric.formats.secrets.pending_sign_in import TEXT_CHARACTERS_MAX, seal, unseal
from odfabric.model.instant import Instant
from odfabric.model.people.sign_in import PendingSignIn

KEY = bytes(range(32))
OTHER_KEY = bytes(range(1, 33))

texts = st.text(max_size=60)
pendings = st.builds(
    PendingSignIn,
    provider=texts,
    redirect_uri=texts,
    begun_at=st.integers(-(2**63), 2**63).map(Instant),
    state=texts,
    nonce=texts,
    verifier=texts,
    context=texts,
)
ONE = PendingSignIn(
    provider="main",
    redirect_uri="https://node.example/sign-in/main",
    begun_at=Instant.parse("2026-01-02T03:04:05.678Z"),
    state="the state",
    nonce="the nonce",
    verifier="the verifier",
    context="/datasets?page=2",
)


@given(pendings, st.binary(min_size=32, max_size=64))
def test_what_was_sealed_is_read(pending: PendingSignIn, key: bytes) -> None:
    assert unseal(seal(pending, key), key) == pending


@given(pendings)
def test_the_text_fits_a_cookie(pending: PendingSignIn) -> None:
    text = seal(pending, KEY)
    assert set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")


@given(pendings, st.data())
def test_any_change_is_refused(pending: PendingSignIn, data: st.DataObject) -> None:
    text = seal(pending, KEY)
    place = data.draw(st.integers(0, len(text) - 1))
    sign = data.draw(st.sampled_from("AB-_.=\u00e9").filter(lambda sign: sign != text[place]))
    for changed in (
        text[:place] + sign + text[place + 1 :],
        text[:place] + text[place + 1 :],
        text[:place] + sign + text[place:],
        text[:place],
        f"{text}{sign}",
    ):
        with pytest.raises(InvalidRequest):
            unseal(changed, KEY)


@given(st.text())
@example("")
@example(".")
@example("x" * 1_000_000)
@example("\ud800.x")
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        unseal(text, KEY)
    assert refused.value.hint


def test_the_text_of_another_node_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        unseal(seal(ONE, OTHER_KEY), KEY)


def test_a_mac_of_something_else_under_the_same_key_is_none() -> None:
    """The key may be used for other things: what is signed begins with what it is."""
    payload = seal(ONE, KEY).partition(".")[0]
    mac = base64.urlsafe_b64encode(hmac.digest(KEY, payload.encode(), hashlib.sha256)).decode().rstrip("=")
    with pytest.raises(InvalidRequest):
        unseal(f"{payload}.{mac}", KEY)


def test_what_would_be_dropped_by_browsers_is_refused_at_once() -> None:
    spare = (TEXT_CHARACTERS_MAX - len(seal(ONE, KEY))) * 3 // 4
    fits = replace(ONE, context=ONE.context + "x" * (spare - 2))
    assert unseal(seal(fits, KEY), KEY) == fits
    with pytest.raises(InvalidRequest, match="too long"):
        seal(replace(ONE, context=ONE.context + "x" * (spare + 2)), KEY)


@pytest.mark.parametrize("key", [b"", bytes(31)])
def test_short_keys_are_a_bug(key: bytes) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        seal(ONE, key)
    with pytest.raises(ValueError, match="32 bytes"):
        unseal(seal(ONE, KEY), key)


def test_what_binds_an_answer_does_not_show_in_logs() -> None:
    assert not any(each in repr(ONE) for each in (ONE.state, ONE.nonce, ONE.verifier))
