"""Texts of access tokens: one text for each token, and every slip is noticed."""

from __future__ import annotations

import hashlib
import re
from zlib import crc32

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from odfabric.errors import TokenChecksumWrong, TokenMalformed, Unauthenticated
from odfabric.formats.secrets.access_token import SECRET_PATTERN, TokenText, make, parse, secret_bytes_of, secret_hash
from odfabric.model.people.credential import TokenKind

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
OWN_KINDS = [TokenKind.PERSONAL, TokenKind.SERVICE, TokenKind.SESSION]
PREFIXES = {kind: f"odf_{kind.value}_" for kind in OWN_KINDS} | {TokenKind.REFERENCE: "ka_"}
REFUSED = (TokenMalformed, TokenChecksumWrong)

ids = st.binary(min_size=16, max_size=16)
own_kinds = st.sampled_from(OWN_KINDS)


@st.composite
def tokens(draw: st.DrawFn, kinds: st.SearchStrategy[TokenKind] = own_kinds) -> str:
    """Any token of some kinds."""
    kind = draw(kinds)
    size = secret_bytes_of(kind)
    return make(kind, draw(ids), draw(st.binary(min_size=size, max_size=size)))


def refused(text: str) -> Unauthenticated:
    with pytest.raises(REFUSED) as caught:
        parse(text)
    return caught.value


# forms


def test_the_least_and_the_greatest_token_of_this_node() -> None:
    """The least and the greatest token, by hand from the description of the form."""
    least = "odf_pat_" + "0" * 22 + "_" + "0" * 43
    assert make(TokenKind.PERSONAL, bytes(16), bytes(32)) == least + by_hand(crc32(least.encode()), 6)
    greatest = "odf_svc_" + by_hand(2**128 - 1, 22) + "_" + by_hand(2**256 - 1, 43)
    assert make(TokenKind.SERVICE, b"\xff" * 16, b"\xff" * 32) == greatest + by_hand(crc32(greatest.encode()), 6)
    assert greatest.startswith("odf_svc_7n42DGM5Tflk9n8mt7Fhc7_")


def by_hand(number: int, width: int) -> str:
    return "".join(BASE62[number // 62**place % 62] for place in reversed(range(width)))


@pytest.mark.parametrize("kind", TokenKind)
def test_lengths_and_prefixes(kind: TokenKind) -> None:
    text = make(kind, bytes(range(16)), bytes(secret_bytes_of(kind)))
    assert text.startswith(PREFIXES[kind])
    assert len(text) == (61 if kind is TokenKind.REFERENCE else 80)


@pytest.mark.parametrize("kind", TokenKind)
@pytest.mark.parametrize(("id_change", "secret_change"), [(1, 0), (-1, 0), (0, 1), (0, -1)])
def test_other_lengths_cannot_be_written(kind: TokenKind, id_change: int, secret_change: int) -> None:
    with pytest.raises(ValueError, match="bytes of id"):
        make(kind, bytes(16 + id_change), bytes(secret_bytes_of(kind) + secret_change))


@given(tokens(st.sampled_from(TokenKind)))
def test_one_token_has_one_text(text: str) -> None:
    told = parse(text)
    assert make(told.kind, bytes.fromhex(told.id), told.secret) == text


@given(st.sampled_from(TokenKind), ids, st.data())
def test_what_was_written_is_read(kind: TokenKind, id_bytes: bytes, data: st.DataObject) -> None:
    secret = data.draw(st.binary(min_size=secret_bytes_of(kind), max_size=secret_bytes_of(kind)))
    assert parse(make(kind, id_bytes, secret)) == TokenText(kind, id_bytes.hex(), secret)


# slips


@given(tokens(), st.data())
def test_one_changed_character_is_refused(text: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(text) - 1))
    sign = data.draw(st.one_of(st.sampled_from(BASE62), st.characters()).filter(lambda sign: sign != text[place]))
    refused(text[:place] + sign + text[place + 1 :])


@given(tokens(), st.data())
def test_one_missing_character_is_refused(text: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(text) - 1))
    assert type(refused(text[:place] + text[place + 1 :])) is TokenMalformed


@given(tokens(), st.data())
def test_one_more_character_is_refused(text: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(text)))
    sign = data.draw(st.one_of(st.sampled_from(BASE62), st.sampled_from(" \n\t\"'="), st.characters()))
    assert type(refused(text[:place] + sign + text[place:])) is TokenMalformed


@given(tokens(), st.data())
def test_two_swapped_characters_are_refused(text: str, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(text) - 1))
    second = data.draw(st.integers(0, len(text) - 1).filter(lambda place: text[place] != text[first]))
    signs = list(text)
    signs[first], signs[second] = signs[second], signs[first]
    refused("".join(signs))


@given(tokens(), own_kinds)
def test_a_token_of_one_kind_is_none_of_another(text: str, other: TokenKind) -> None:
    if other is not parse(text).kind:
        assert type(refused(PREFIXES[other] + text.removeprefix(text[:8]))) is TokenChecksumWrong


@given(tokens(), tokens())
def test_parts_of_two_tokens_are_no_token(one: str, another: str) -> None:
    if one[:31] != another[:31]:
        refused(one[:31] + another[31:])


def test_numbers_beyond_their_bytes_are_refused_though_the_checksum_fits() -> None:
    for body in (
        "odf_pat_" + by_hand(2**128, 22) + "_" + "0" * 43,
        "odf_pat_" + "0" * 22 + "_" + by_hand(2**256, 43),
        "odf_pat_" + "z" * 22 + "_" + "z" * 43,
    ):
        assert type(refused(body + by_hand(crc32(body.encode()), 6))) is TokenMalformed


def test_a_checksum_beyond_its_bytes_is_refused() -> None:
    text = make(TokenKind.PERSONAL, bytes(16), bytes(32))
    beyond = by_hand(crc32(text[:-6].encode()) + 2**32, 6)
    assert type(refused(text[:-6] + beyond)) is TokenChecksumWrong


# tokens of the reference

VECTOR = "ka_000G40R40M30E209185GR38E1W8124GK2GAHC5RR34D1P70X3RFZ99ZXCW"


def test_the_vector_of_the_reference() -> None:
    told = TokenText(TokenKind.REFERENCE, bytes(range(16)).hex(), bytes(range(16, 32)))
    assert parse(VECTOR) == told
    assert make(TokenKind.REFERENCE, bytes(range(16)), bytes(range(16, 32))) == VECTOR


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("ks_1211TGDWBS05F563JTYCAQRXKWJCJ09HW1CQWDN2G4TWVMQTCBEQR2J2FC", TokenMalformed),
        ("ka_1211TGDWBS05F563JTYCAQRXKWJCJ09HW1CQWDN2G4TWVMQTCBEQR2J2F", TokenMalformed),
        ("ka+1211TGDWBS05F563JTYCAQRXKWJCJ09HW1CQWDN2G4TWVMQTCBEQR2J2FC", TokenMalformed),
        ("ka_1211TGDWBS05F563JTYCAQRXKWJCJ09HW1CQWDN2G4TWVMQTCBEQR2J2KC", TokenChecksumWrong),
        (VECTOR.lower(), TokenMalformed),
        (VECTOR[:-1] + "X", TokenMalformed),
    ],
    ids=["prefix", "length", "separator", "checksum", "lower case", "spare bits"],
)
def test_texts_that_the_reference_refuses(text: str, error: type[Exception]) -> None:
    assert type(refused(text)) is error


@given(tokens(st.just(TokenKind.REFERENCE)), st.data())
def test_slips_in_the_secret_of_the_reference_are_refused(text: str, data: st.DataObject) -> None:
    """The checksum covers only the secret: another id makes an unknown token."""
    place = data.draw(st.integers(3 + 26, len(text) - 1))
    sign = data.draw(st.sampled_from(CROCKFORD).filter(lambda sign: sign != text[place]))
    refused(text[:place] + sign + text[place + 1 :])


# any text


@given(st.text())
@example("")
@example("odf_pat_")
@example("odf_shr_" + "0" * 72)
@example("ka_")
@example("Bearer " + VECTOR)
def test_any_other_text_is_refused(text: str) -> None:
    assert refused(text).hint


@given(tokens(st.sampled_from(TokenKind)), st.integers(0, 80))
def test_errors_do_not_repeat_what_was_sent(text: str, place: int) -> None:
    sent = text[:place] + "!" + text[place:]
    for secret in re.findall(r"[0-9A-Za-z]{9,}", sent):
        assert secret not in str(refused(sent))


def test_a_secret_does_not_show_in_logs() -> None:
    secret = b"0123456789abcdef0123456789abcdef"
    shown = repr(parse(make(TokenKind.PERSONAL, bytes(16), secret)))
    assert "0123456789" not in shown.replace(bytes(16).hex(), "")
    assert secret.hex() not in shown


# for others


@given(tokens())
def test_scanners_find_tokens(text: str) -> None:
    for around in (f"export TOKEN={text}\n", f'{{"token": "{text}"}}', f"Bearer {text}", f"https://x/?t={text}&y=1"):
        assert re.findall(SECRET_PATTERN, around) == [text]


def test_scanners_pass_by_what_only_looks_like_one() -> None:
    text = make(TokenKind.PERSONAL, bytes(16), bytes(32))
    for other in (text[:-1], text + "0", f"x{text}", text.replace("odf_pat", "odf_abc"), VECTOR):
        assert re.search(SECRET_PATTERN, other) is None


def test_the_hash_is_sha_256_of_the_bytes() -> None:
    assert secret_hash(b"secret") == hashlib.sha256(b"secret").digest()
