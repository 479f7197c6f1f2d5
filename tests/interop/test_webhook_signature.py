"""Standard Webhooks 1.0: its libraries' vector; only the sender can sign."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import InvalidRequest, Unauthenticated
from odfabric.formats.webhooks.webhook_signature import TOLERANCE_S, parse_secret, secret_text, sign, verify
from odfabric.model.instant import NANOS_PER_SECOND, Instant

# From the test suites of the libraries of standard-webhooks (id, time, body, secret and the signature they agree on).
SECRET = parse_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
MESSAGE_ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
SENT_AT = Instant(1614265330 * NANOS_PER_SECOND)
BODY = b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

HEADERS = {"webhook-id": MESSAGE_ID, "webhook-timestamp": "1614265330", "webhook-signature": SIGNATURE}
OTHER_SECRET = bytes(range(32))

secrets = st.binary(min_size=24, max_size=64)


def test_the_shared_vector() -> None:
    assert sign(message_id=MESSAGE_ID, sent_at=SENT_AT, body=BODY, secrets=[SECRET]) == HEADERS
    assert verify(HEADERS, BODY, secrets=[SECRET], now=SENT_AT) == MESSAGE_ID


def test_a_secret_is_changed_without_losing_a_message() -> None:
    both = sign(message_id=MESSAGE_ID, sent_at=SENT_AT, body=BODY, secrets=[OTHER_SECRET, SECRET])
    assert both["webhook-signature"].split()[1] == SIGNATURE
    for secret in (SECRET, OTHER_SECRET):
        assert verify(both, BODY, secrets=[secret], now=SENT_AT) == MESSAGE_ID
    assert verify(HEADERS, BODY, secrets=[OTHER_SECRET, SECRET], now=SENT_AT) == MESSAGE_ID


@pytest.mark.parametrize(
    "signatures",
    [
        "",
        "v1",
        "v1,",
        SIGNATURE.removeprefix("v1,"),
        SIGNATURE.replace("v1", "v2"),
        SIGNATURE[:-1],
        SIGNATURE + "x",
        "v1a," + SIGNATURE[3:],
        "é",
    ],
)
def test_other_signatures_are_refused(signatures: str) -> None:
    with pytest.raises(Unauthenticated):
        verify(HEADERS | {"webhook-signature": signatures}, BODY, secrets=[SECRET], now=SENT_AT)


def test_unknown_schemes_beside_ours_are_passed_over() -> None:
    headers = HEADERS | {"webhook-signature": f"v1a,abc {SIGNATURE} v9,xyz"}
    assert verify(headers, BODY, secrets=[SECRET], now=SENT_AT) == MESSAGE_ID


def test_a_signature_beyond_the_limit_is_not_looked_at() -> None:
    headers = HEADERS | {"webhook-signature": "v1,x " * 20 + SIGNATURE}
    with pytest.raises(Unauthenticated):
        verify(headers, BODY, secrets=[SECRET], now=SENT_AT)


@pytest.mark.parametrize(("seconds", "fits"), [(0, True), (TOLERANCE_S, True), (TOLERANCE_S + 1, False)])
def test_old_and_future_messages_are_refused(seconds: int, fits: bool) -> None:
    for moved in (seconds, -seconds):
        now = Instant(SENT_AT.epoch_ns + moved * NANOS_PER_SECOND)
        if fits:
            verify(HEADERS, BODY, secrets=[SECRET], now=now)
        else:
            with pytest.raises(Unauthenticated, match="too old"):
                verify(HEADERS, BODY, secrets=[SECRET], now=now)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("webhook-id", None),
        ("webhook-id", ""),
        ("webhook-id", "a.b"),
        ("webhook-id", "x" * 256),
        ("webhook-timestamp", None),
        ("webhook-timestamp", "1614265330.5"),
        ("webhook-timestamp", "-1"),
        ("webhook-timestamp", "9" * 5000),
        ("webhook-timestamp", "١"),
    ],
)
def test_malformed_headers_are_named(name: str, value: str | None) -> None:
    headers = {key: text for key, text in HEADERS.items() if key != name} | ({} if value is None else {name: value})
    with pytest.raises(InvalidRequest, match=name):
        verify(headers, BODY, secrets=[SECRET], now=SENT_AT)


@given(st.binary(max_size=200), secrets, st.integers(0, 2**33))
def test_what_is_signed_verifies(body: bytes, secret: bytes, second: int) -> None:
    now = Instant(second * NANOS_PER_SECOND)
    headers = sign(message_id="id-1", sent_at=now, body=body, secrets=[secret])
    assert verify(headers, body, secrets=[secret], now=now) == "id-1"


@given(st.binary(max_size=50), st.binary(max_size=50), secrets, secrets)
def test_another_body_or_secret_does_not(body: bytes, other_body: bytes, secret: bytes, other: bytes) -> None:
    headers = sign(message_id="id-1", sent_at=SENT_AT, body=body, secrets=[secret])
    for tried_body, tried_secret in ((other_body, secret), (body, other)):
        if (tried_body, tried_secret) != (body, secret):
            with pytest.raises(Unauthenticated):
                verify(headers, tried_body, secrets=[tried_secret], now=SENT_AT)
    with pytest.raises(Unauthenticated):
        verify(headers | {"webhook-id": "id-2"}, body, secrets=[secret], now=SENT_AT)
    with pytest.raises(Unauthenticated):
        verify(headers | {"webhook-timestamp": "1614265331"}, body, secrets=[secret], now=SENT_AT)


@pytest.mark.parametrize("message_id", ["", "a.b", "a b", "é", "x" * 256])
def test_ids_that_could_be_mistaken_are_not_signed(message_id: str) -> None:
    with pytest.raises(ValueError, match="id of a message"):
        sign(message_id=message_id, sent_at=SENT_AT, body=BODY, secrets=[SECRET])


@given(secrets)
def test_secrets_have_one_text(secret: bytes) -> None:
    assert parse_secret(secret_text(secret)) == secret


@pytest.mark.parametrize(
    "text",
    [
        "",
        "whsec_",
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_!!!!",
        "whsec_" + base64.b64encode(bytes(23)).decode(),
        "whsec_" + base64.b64encode(bytes(65)).decode(),
        "whsec_é",
        "whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS",
    ],
)
def test_other_secrets_are_refused_without_being_shown(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_secret(text)
    assert text[6:] == "" or text[6:] not in str(refused.value)


@pytest.mark.parametrize("size", [0, 23, 65])
def test_secrets_have_a_length(size: int) -> None:
    with pytest.raises(ValueError, match="24 to 64"):
        secret_text(bytes(size))
