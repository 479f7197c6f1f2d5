"""ID tokens: only the provider's, for this node, this sign-in, and now."""

from __future__ import annotations

import hashlib
import hmac
import json
from contextlib import nullcontext
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from hypothesis import example, given
from hypothesis import strategies as st
from joserfc.errors import SecurityWarning
from joserfc.jwk import Key, KeySet, RSAKey

from odfabric.adapters.http.id_token import ALGORITHMS, Expected, UnknownKey, read_keys, verified_claims
from odfabric.errors import WrongCredentials
from tests.support.sign_in.openid_provider import base64url, ec_key, ed_key, raw_token, rsa_key, signed

NOW_S = 1_800_000_000
LEEWAY_S = 60
EXPECTED = Expected(
    issuer="https://accounts.example",
    client_id="node",
    nonce="the nonce of this sign-in",
    algorithms=("RS256", "PS256", "ES256", "Ed25519"),
    now_s=NOW_S,
    leeway_s=LEEWAY_S,
)
HONEST: dict[str, object] = {
    "iss": EXPECTED.issuer,
    "aud": EXPECTED.client_id,
    "sub": "alice",
    "nonce": EXPECTED.nonce,
    "iat": NOW_S,
    "exp": NOW_S + 300,
}
GONE = object()


def published(*keys: Key) -> dict[str, object]:
    return {"keys": [key.as_dict(private=False) for key in keys]}


KEYS = read_keys(published(rsa_key(), ec_key(), ed_key()))


def claims(**changes: object) -> dict[str, object]:
    """Honest ones with changes; GONE leaves one out."""
    return {name: value for name, value in {**HONEST, **changes}.items() if value is not GONE}


def refused(token: str, *, keys: KeySet = KEYS, expected: Expected = EXPECTED) -> str:
    with pytest.raises((WrongCredentials, UnknownKey)) as caught:
        verified_claims(token, keys, expected)
    return str(caught.value)


# honest tokens


@pytest.mark.parametrize(
    ("key", "alg"),
    [(rsa_key(), "RS256"), (rsa_key(), "PS256"), (ec_key(), "ES256"), (ed_key(), "Ed25519")],
    ids=["RS256", "PS256", "ES256", "Ed25519"],
)
def test_an_honest_token_is_read(key: Key, alg: str) -> None:
    assert verified_claims(signed(HONEST, key, alg=alg), KEYS, EXPECTED) == HONEST


def test_members_that_nobody_knows_are_passed_over() -> None:
    token = signed(claims(more={"a": [1]}), rsa_key(), typ="JWT")
    assert verified_claims(token, KEYS, EXPECTED)["more"] == {"a": [1]}
    by_hand = raw_token(
        {"alg": "RS256", "kid": "rsa-1", "unheard-of": 1}, HONEST, lambda data: _rsa_signature(rsa_key(), data)
    )
    assert verified_claims(by_hand, KEYS, EXPECTED) == HONEST


@pytest.mark.parametrize("audience", ["node", ["node"]])
def test_the_audience_may_be_a_list_of_one(audience: object) -> None:
    assert verified_claims(signed(claims(aud=audience), rsa_key()), KEYS, EXPECTED)["sub"] == "alice"


def test_a_token_for_several_clients_says_which_one_asked() -> None:
    several = claims(aud=["other", "node"])
    assert verified_claims(signed({**several, "azp": "node"}, rsa_key()), KEYS, EXPECTED)["sub"] == "alice"
    assert "azp" in refused(signed({**several, "azp": "other"}, rsa_key()))
    assert "azp" in refused(signed(several, rsa_key()))


def test_a_single_key_needs_no_name() -> None:
    token = raw_token({"alg": "RS256"}, HONEST, lambda data: _rsa_signature(rsa_key(), data))
    assert verified_claims(token, read_keys(published(rsa_key())), EXPECTED) == HONEST
    refused(token)


# claims


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"iss": "https://evil.example"}, "iss"),
        ({"iss": "https://accounts.example/"}, "iss"),
        ({"iss": GONE}, "iss"),
        ({"iss": ["https://accounts.example"]}, "iss"),
        ({"aud": "other"}, "aud"),
        ({"aud": ["other"]}, "aud"),
        ({"aud": []}, "aud"),
        ({"aud": ""}, "aud"),
        ({"aud": GONE}, "aud"),
        ({"aud": {"node": 1}}, "aud"),
        ({"aud": ["node", 5]}, "aud"),
        ({"aud": "node "}, "aud"),
        ({"azp": "other"}, "azp"),
        ({"azp": ["node"]}, "azp"),
        ({"azp": ""}, "azp"),
        ({"nonce": "of another sign-in"}, "nonce"),
        ({"nonce": GONE}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"nonce": ["the nonce of this sign-in"]}, "nonce"),
        ({"nonce": "\ud800"}, "nonce"),
        ({"sub": GONE}, "sub"),
        ({"sub": None}, "sub"),
        ({"sub": ""}, "sub"),
        ({"sub": 7}, "sub"),
        ({"sub": "x" * 256}, "sub"),
        ({"sub": "a\nb"}, "sub"),
        ({"exp": GONE}, "exp"),
        ({"exp": "1900000000"}, "exp"),
        ({"exp": True}, "exp"),
        ({"exp": float("nan")}, "exp"),
        ({"exp": float("inf")}, "exp"),
        ({"exp": NOW_S - LEEWAY_S}, "exp"),
        ({"exp": -1}, "exp"),
        ({"iat": GONE}, "iat"),
        ({"iat": "now"}, "iat"),
        ({"iat": NOW_S + LEEWAY_S + 1}, "iat"),
        ({"nbf": NOW_S + LEEWAY_S + 1}, "nbf"),
    ],
)
def test_a_token_of_other_claims_is_refused(changes: dict[str, object], said: str) -> None:
    token = raw_token({"alg": "RS256", "kid": "rsa-1"}, claims(**changes), lambda data: _rsa_signature(rsa_key(), data))
    assert f"claim {said}" in refused(token)


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": NOW_S - LEEWAY_S + 1},
        {"iat": NOW_S + LEEWAY_S},
        {"nbf": NOW_S + LEEWAY_S},
        {"sub": "x" * 255},
        {"exp": NOW_S + 0.5},
        {"exp": 10**400},
    ],
)
def test_at_the_limit_it_is_read(changes: dict[str, object]) -> None:
    assert verified_claims(signed(claims(**changes), rsa_key()), KEYS, EXPECTED)


# signatures


def test_a_token_of_another_key_is_refused() -> None:
    """Also under the name of the right key."""
    stranger = RSAKey.import_key({**rsa_key("stranger").as_dict(private=True), "kid": "rsa-1"})
    assert "signature" in refused(signed(HONEST, stranger))


@given(st.data())
def test_a_changed_token_is_refused(data: st.DataObject) -> None:
    token = signed(HONEST, rsa_key())
    place = data.draw(st.integers(0, len(token) - 1))
    sign = data.draw(st.sampled_from("AQgw_-.0=").filter(lambda sign: sign != token[place]))
    refused(token[:place] + sign + token[place + 1 :])


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "nOnE", ""])
@pytest.mark.parametrize("signature", [b"", b"x"])
def test_a_token_without_a_signature_is_refused(alg: str, signature: bytes) -> None:
    refused(raw_token({"alg": alg, "kid": "rsa-1"}, HONEST, lambda _: signature))
    refused(raw_token({"alg": alg}, HONEST, lambda _: signature), keys=read_keys(published(rsa_key())))


def _known_texts(key: RSAKey) -> list[bytes]:
    """Public texts of a public key that are mistaken for a secret."""
    public = key.as_dict(private=False)
    return [
        key.as_pem(private=False),
        key.as_pem(private=False).strip(),
        key.as_der(private=False),
        json.dumps(public).encode(),
        str(public["n"]).encode(),
        b"",
    ]


@pytest.mark.parametrize("alg", ["HS256", "HS384", "HS512"])
@pytest.mark.parametrize("secret", _known_texts(rsa_key()), ids=["pem", "stripped", "der", "jwk", "modulus", "empty"])
def test_a_public_key_is_no_secret(alg: str, secret: bytes) -> None:
    """A public key is no secret: its HMAC is refused (RFC 8725, section 2.1).

    Anybody can make that signature who knows the public key.
    """
    digest = {"HS256": hashlib.sha256, "HS384": hashlib.sha384, "HS512": hashlib.sha512}[alg]
    token = raw_token({"alg": alg, "kid": "rsa-1"}, HONEST, lambda data: hmac.digest(secret, data, digest))
    refused(token)


def test_a_secret_that_is_published_signs_nothing() -> None:
    secret = b"0123456789abcdef0123456789abcdef"
    symmetric = {"kty": "oct", "kid": "oct-1", "k": base64url(secret)}
    keys = read_keys({"keys": [symmetric, *published(rsa_key())["keys"]]})  # type: ignore[misc]
    refused(
        raw_token({"alg": "HS256", "kid": "oct-1"}, HONEST, lambda data: hmac.digest(secret, data, hashlib.sha256)),
        keys=keys,
    )


@pytest.mark.parametrize(
    "header",
    [
        {"jwk": rsa_key("stranger").as_dict(private=False)},
        {"jku": "https://evil.example/jwks"},
        {"x5u": "https://evil.example/cert"},
        {"kid": "stranger", "jwk": rsa_key("stranger").as_dict(private=False)},
        {"kid": "../../dev/null"},
        {"kid": "rsa-1' OR 1=1"},
        {"kid": ["rsa-1"]},
        {"kid": {"rsa-1": 1}},
        {"kid": None},
        {"kid": ""},
    ],
)
def test_a_token_does_not_choose_its_key(header: dict[str, object]) -> None:
    refused(
        raw_token(
            {"alg": "RS256", "kid": "rsa-1", **header}, HONEST, lambda data: _rsa_signature(rsa_key("stranger"), data)
        )
    )


@pytest.mark.parametrize(
    "header",
    [
        {"crit": ["unheard-of"], "unheard-of": 1},
        {"crit": []},
        {"crit": "x"},
        {"alg": ["RS256"]},
        {"alg": {"RS256": 1}},
        {"alg": 5},
        {"alg": GONE},
        {"alg": "RS1"},
        {"b64": False},
        {"zip": "DEF", "enc": "A256GCM"},
    ],
)
def test_odd_headers_are_refused_or_ignored(header: dict[str, object]) -> None:
    whole = {name: value for name, value in {"alg": "RS256", "kid": "rsa-1", **header}.items() if value is not GONE}
    token = raw_token(whole, claims(aud="other"), lambda data: _rsa_signature(rsa_key(), data))
    refused(token)


@pytest.mark.parametrize(
    ("alg", "key"), [("RS256", ec_key()), ("ES256", rsa_key()), ("PS256", ed_key()), ("Ed25519", ec_key())]
)
def test_an_algorithm_fits_its_key(alg: str, key: Key) -> None:
    refused(raw_token({"alg": alg, "kid": key.kid}, HONEST, lambda _: b"x" * 64))


def test_only_algorithms_that_are_configured_count() -> None:
    for key, alg in ((rsa_key(), "RS256"), (ec_key(), "ES256")):
        others = tuple(each for each in ALGORITHMS if each != alg)
        assert "algorithm" in refused(signed(HONEST, key, alg=alg), expected=replace(EXPECTED, algorithms=others))


@pytest.mark.parametrize("algorithms", [(), ("HS256",), ("RS256", "none"), ("EdDSA",)])
def test_other_algorithms_cannot_be_configured(algorithms: tuple[str, ...]) -> None:
    """An empty list would mean the library's own, and among them is HS256."""
    with pytest.raises(ValueError, match="ALGORITHMS"):
        verified_claims(signed(HONEST, rsa_key()), KEYS, replace(EXPECTED, algorithms=algorithms))


def test_algorithms_are_asymmetric() -> None:
    assert not [alg for alg in ALGORITHMS if alg.startswith(("HS", "none"))]


def test_a_signature_of_zeros_is_none() -> None:
    """CVE-2022-21449: r and s of zero verified everything."""
    refused(raw_token({"alg": "ES256", "kid": "ec-1"}, HONEST, lambda _: bytes(64)))


# keys


@pytest.mark.parametrize(
    "spoiled",
    [
        {"use": "enc"},
        {"use": ["sig"]},
        {"use": None},
        {"kty": "AKP"},
        {"kty": ["RSA"]},
        {"kty": None},
        {"kid": 5},
        {"n": 5},
        {"n": ""},
        {"n": "AQAB"},
        {"e": "\u00e9"},
        {"key_ops": "verify"},
        {"key_ops": [["verify"]]},
        {"use": "sig", "key_ops": ["encrypt"]},
        {"d": "AQAB"},
        {"alg": 5},
    ],
)
def test_keys_that_cannot_verify_are_passed_over(spoiled: dict[str, object]) -> None:
    bad = {**rsa_key("bad").as_dict(private=False), **spoiled}
    keys = read_keys({"keys": [bad, None, [], "x", *published(rsa_key())["keys"]]})  # type: ignore[misc]
    assert verified_claims(signed(HONEST, rsa_key()), keys, EXPECTED) == HONEST
    refused(signed(HONEST, rsa_key("bad")), keys=keys)


@pytest.mark.parametrize("spoiled", [{"use": "enc"}, {"kty": "oct", "k": "A" * 43}, {"kty": "oct"}])
def test_the_only_key_of_a_set_verifies_signatures(spoiled: dict[str, object]) -> None:
    """It is the one that a token without a `kid` is verified by."""
    with pytest.raises(ValueError, match="no key"):
        read_keys({"keys": [{**rsa_key().as_dict(private=False), **spoiled}]})


def test_a_published_private_key_signs_for_nobody() -> None:
    with pytest.raises(ValueError, match="no key"):
        read_keys({"keys": [rsa_key().as_dict(private=True)]})


@pytest.mark.parametrize(("bits", "counts"), [(1024, False), (2047, False), (2048, True)])
def test_short_keys_do_not_count(bits: int, counts: bool) -> None:
    with nullcontext() if counts else pytest.warns(SecurityWarning):
        key = rsa_key(f"of-{bits}", bits)
    keys = read_keys(published(key, ec_key()))
    if counts:
        assert verified_claims(signed(HONEST, key), keys, EXPECTED)
    else:
        refused(signed(HONEST, key), keys=keys)


@pytest.mark.parametrize("document", [{}, {"keys": []}, {"keys": {}}, {"keys": "x"}, {"keys": [None]}])
def test_a_set_without_keys_is_none(document: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="key"):
        read_keys(document)


def test_a_set_is_read_up_to_its_limit() -> None:
    filler = [{"kty": "x"}] * 99
    last = published(rsa_key())["keys"]
    assert read_keys({"keys": [*filler, *last]})  # type: ignore[misc]
    with pytest.raises(ValueError, match="no key"):
        read_keys({"keys": [*filler, {"kty": "x"}, *last]})  # type: ignore[misc]


# anything

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
parts = st.text(max_size=30).map(lambda text: text) | json_values.map(
    lambda value: base64url(json.dumps(value).encode())
)


@given(st.lists(parts, max_size=5).map(".".join))
@example("")
@example("..")
@example("....")
@example("x" * 1_000_000)
@example(base64url(b"[" * 100_000) + ".e30.x")
def test_any_text_is_refused(token: str) -> None:
    refused(token)


@given(
    st.dictionaries(
        st.sampled_from(["alg", "kid", "typ", "cty", "crit", "b64", "jwk", "jku", "x5c", "zip"]), json_values
    ),
    st.sampled_from(
        [{}, {"alg": "RS256"}, {"alg": "ES256"}, {"alg": "RS256", "kid": "rsa-1"}, {"alg": "Ed25519", "kid": "ed-1"}]
    ),
    json_values,
    st.binary(max_size=80),
)
def test_any_header_and_payload_is_refused(
    odd: dict[str, object], base: dict[str, object], payload: object, signature: bytes
) -> None:
    refused(raw_token({**odd, **base}, payload, lambda _: signature))


@given(json_values)
def test_any_payload_that_is_signed_is_refused(payload: object) -> None:
    refused(raw_token({"alg": "RS256", "kid": "rsa-1"}, payload, lambda data: _rsa_signature(rsa_key(), data)))


@given(
    st.dictionaries(st.sampled_from([*sorted(HONEST), "azp", "nbf"]), json_values, min_size=1),
)
def test_any_claims_are_refused_or_honest(changes: dict[str, object]) -> None:
    whole = {**HONEST, **changes}
    token = raw_token({"alg": "RS256", "kid": "rsa-1"}, whole, lambda data: _rsa_signature(rsa_key(), data))
    if any(whole[name] != HONEST[name] for name in ("iss", "nonce")):
        refused(token)


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["kty", "use", "alg", "kid", "n", "e", "crv", "x", "y", "key_ops", "x5c"]), json_values
        ),
        max_size=3,
    ),
    st.sampled_from([rsa_key(), ec_key(), ed_key()]),
)
def test_any_keys_are_read_or_passed_over(odd: list[dict[str, object]], key: Key) -> None:
    honest = key.as_dict(private=False)
    keys = read_keys({"keys": [*({**honest, **each} for each in odd), *odd, honest]})
    assert isinstance(keys, KeySet)


@given(st.sampled_from([{"aud": "other"}, {"exp": 0}, {"nonce": "x"}]), st.booleans())
def test_messages_do_not_repeat_a_token(changes: dict[str, object], cut: bool) -> None:
    token = signed(claims(**changes), rsa_key())
    message = refused(token[:-1] if cut else token)
    assert not any(part in message for part in token.split("."))


def _rsa_signature(key: RSAKey, data: bytes) -> bytes:
    return key.private_key.sign(data, padding.PKCS1v15(), hashes.SHA256())  # type: ignore[union-attr]
