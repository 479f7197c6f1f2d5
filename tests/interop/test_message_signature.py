"""HTTP message signatures: standard vectors, and an independent field reader."""

from __future__ import annotations

import base64
import re

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from odfabric.formats.webhooks.message_signature import (
    content_digest,
    key_set,
    public_half,
    sign_request,
    signature_base,
    thumbprint,
)
from odfabric.model.instant import NANOS_PER_SECOND, Instant

# RFC 9421, B.1.4 and B.2.6: the key, the message, its base and its signature.
PRIVATE = base64.urlsafe_b64decode("n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU=")
PUBLIC = base64.urlsafe_b64decode("JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs=")
COMPONENTS = [
    ("date", "Tue, 20 Apr 2021 02:07:55 GMT"),
    ("@method", "POST"),
    ("@path", "/foo"),
    ("@authority", "example.com"),
    ("content-type", "application/json"),
    ("content-length", "18"),
]
PARAMETERS = '("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519"'
SIGNATURE = "wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw=="

URL = "https://receiver.example/hook?a=1"
CREATED = Instant(1_800_000_000 * NANOS_PER_SECOND)
HEADERS = {"content-type": "application/json", "webhook-id": "ab12"}
BODY = b'{"a":1}'


def signed(headers: dict[str, str] = HEADERS, *, body: bytes = BODY, private: bytes = PRIVATE) -> dict[str, str]:
    return sign_request(headers, method="POST", target_uri=URL, body=body, private=private, created=CREATED)


def check(headers: dict[str, str], *, public: bytes, method: str = "POST", target_uri: str = URL) -> None:
    """What a receiver does, written by RFC 9421 alone. Raises InvalidSignature."""
    parameters = re.search(r"(?:^|, )odfabric=(\(.*)$", headers["signature-input"])
    signature = re.search(r"(?:^|, )odfabric=:([^:]*):$", headers["signature"])
    assert parameters
    assert signature
    values = {"@method": method, "@target-uri": target_uri, **headers}
    names = re.findall(r'"([^"]+)"', parameters[1].partition(")")[0])
    lines = [f'"{name}": {values[name]}' for name in names] + [f'"@signature-params": {parameters[1]}']
    Ed25519PublicKey.from_public_bytes(public).verify(base64.b64decode(signature[1]), "\n".join(lines).encode())


def test_the_vector_of_the_standard() -> None:
    base = signature_base(COMPONENTS, PARAMETERS)
    assert base.decode().splitlines()[:2] == ['"date": Tue, 20 Apr 2021 02:07:55 GMT', '"@method": POST']
    assert base.decode().splitlines()[-1] == f'"@signature-params": {PARAMETERS}'
    assert base64.b64encode(Ed25519PrivateKey.from_private_bytes(PRIVATE).sign(base)).decode() == SIGNATURE
    assert public_half(PRIVATE) == PUBLIC


def test_the_digest_of_the_standard() -> None:
    # RFC 9421, B.2: the message of its examples.
    assert content_digest(b'{"hello": "world"}') == "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:"


def test_a_key_is_known_by_its_thumbprint() -> None:
    # RFC 8037, A.3.
    public = base64.urlsafe_b64decode("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo=")
    assert thumbprint(public) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
    assert key_set([public]) == {
        "keys": [
            {
                "kty": "OKP",
                "crv": "Ed25519",
                "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
                "kid": "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",
                "use": "sig",
                "alg": "EdDSA",
            }
        ]
    }


def test_a_request_has_all_that_is_needed_to_check_it() -> None:
    headers = signed()
    assert headers["content-digest"] == content_digest(BODY)
    assert headers["signature-input"] == (
        'odfabric=("@method" "@target-uri" "content-digest" "content-type" "webhook-id")'
        f';created=1800000000;keyid="{thumbprint(PUBLIC)}";alg="ed25519";tag="odfabric-webhook"'
    )
    check(headers, public=PUBLIC)
    with pytest.raises(InvalidSignature):
        check(headers, public=public_half(bytes(32)))


@pytest.mark.parametrize(
    "changed",
    [
        {"content-digest": content_digest(b"{}")},
        {"content-type": "text/plain"},
        {"webhook-id": "ab13"},
        {"signature-input": signed()["signature-input"].replace("created=1800000000", "created=1800000001")},
    ],
)
def test_what_is_signed_cannot_be_changed(changed: dict[str, str]) -> None:
    with pytest.raises(InvalidSignature):
        check(signed() | changed, public=PUBLIC)


def test_another_place_is_another_request() -> None:
    for method, target_uri in (("PUT", URL), ("POST", URL + "2"), ("POST", URL.replace("https", "http"))):
        with pytest.raises(InvalidSignature):
            check(signed(), public=PUBLIC, method=method, target_uri=target_uri)


def test_a_signature_that_is_there_stays() -> None:
    headers = signed(HEADERS | {"signature": "sig1=:AAAA:", "signature-input": "sig1=(@method);created=1"})
    assert headers["signature"].startswith("sig1=:AAAA:, odfabric=:")
    assert headers["signature-input"].startswith("sig1=(@method);created=1, odfabric=(")
    check(headers, public=PUBLIC)


@given(st.binary(max_size=200), st.binary(min_size=32, max_size=32))
def test_every_key_signs_every_body(body: bytes, private: bytes) -> None:
    check(signed(body=body, private=private), public=public_half(private))


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "\u00e9", "a\x00"])
def test_a_value_that_would_break_the_base_is_not_signed(value: str) -> None:
    with pytest.raises(ValueError, match="printable"):
        signed(HEADERS | {"webhook-id": value})
