"""Laws of identities, names and hashes that hold for any input."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import InvalidName
from odfabric.formats.identifiers.did import (
    dataset_id_from_bytes,
    did_key,
    parse_account_id,
    parse_dataset_id,
    parse_did_key,
)
from odfabric.formats.identifiers.multibase import decode_multibase, encode_base16, encode_base58, encode_base64url
from odfabric.formats.identifiers.multihash import multihash_from_bytes, parse_multihash
from odfabric.formats.identifiers.references import (
    parse_dataset_alias,
    parse_dataset_alias_remote,
    parse_dataset_pattern,
    parse_dataset_pattern_remote,
    parse_dataset_push_target,
    parse_dataset_ref,
    parse_dataset_ref_any,
    parse_dataset_ref_remote,
    parse_name,
)
from odfabric.model.identity import DatasetId, Name, NamePattern
from odfabric.model.multihash import ARROW0_SHA3_256, SHA2_256, SHA3_256, Multihash

ENCODINGS = [encode_base16, encode_base58, encode_base64url]
NAMES = st.from_regex(r"[A-Za-z0-9]{1,4}([.-][A-Za-z0-9]{1,4}){0,3}", fullmatch=True)
TEXTS = st.one_of(
    st.text(max_size=30),
    st.text(alphabet=list("abF1z.-/%:_^ du did:odf:fed01http"), max_size=40),
    st.builds(
        "{}{}".format, st.sampled_from(["did:odf:", "did:key:", "did:pkh:", "https://", "a/did:odf:"]), st.text()
    ),
)
PARSERS: list[Callable[[str], object]] = [
    parse_account_id,
    parse_dataset_alias,
    parse_dataset_alias_remote,
    parse_dataset_id,
    parse_dataset_pattern,
    parse_dataset_pattern_remote,
    parse_dataset_push_target,
    parse_dataset_ref,
    parse_dataset_ref_any,
    parse_dataset_ref_remote,
    parse_did_key,
    parse_multihash,
    parse_name,
]


@given(st.binary(max_size=40), st.sampled_from(ENCODINGS))
def test_bytes_survive_every_alphabet(data: bytes, encode: Callable[[bytes], str]) -> None:
    text = encode(data)
    assert decode_multibase(text, bytes_max=40) == data
    assert decode_multibase(text, bytes_max=len(data)) == data
    if data:
        with pytest.raises(ValueError, match="at most"):
            decode_multibase(text, bytes_max=len(data) - 1)


@given(st.text(alphabet=list("fuzF01239abcdefABCDEFGghxyzXYZ-_"), max_size=60))
def test_a_read_text_is_the_only_one_of_its_alphabet(text: str) -> None:
    try:
        data = decode_multibase(text, bytes_max=40)
    except ValueError:
        return
    written = {"f": encode_base16, "F": encode_base16, "u": encode_base64url, "z": encode_base58}[text[0]](data)
    assert written == ("f" + text[1:].lower() if text[0] in "fF" else text)


@given(st.sampled_from([SHA2_256, SHA3_256, ARROW0_SHA3_256]), st.binary(max_size=32), st.sampled_from(ENCODINGS))
def test_hashes_survive_bytes_and_texts(code: int, digest: bytes, encode: Callable[[bytes], str]) -> None:
    value = Multihash(code, digest)
    assert multihash_from_bytes(value.to_bytes()) == value
    assert parse_multihash(str(value)) == parse_multihash(encode(value.to_bytes())) == value


HASH_STARTS = [bytes.fromhex("1620"), bytes.fromhex("1220"), bytes.fromhex("9680c00120"), bytes.fromhex("ed01")]
HASH_LIKE = st.tuples(st.sampled_from(HASH_STARTS), st.binary(min_size=31, max_size=33)).map(b"".join)


@given(st.binary(max_size=50) | HASH_LIKE)
def test_any_bytes_are_a_hash_or_refused(data: bytes) -> None:
    for parse in (multihash_from_bytes, dataset_id_from_bytes):
        try:
            value = parse(data)
        except InvalidName:
            continue
        assert value.to_bytes() == data


@given(st.binary(min_size=32, max_size=32), st.sampled_from(ENCODINGS))
def test_identities_survive_bytes_and_texts(key: bytes, encode: Callable[[bytes], str]) -> None:
    id = DatasetId(key)
    assert dataset_id_from_bytes(id.to_bytes()) == id
    for text in (str(id), f"did:odf:{encode(id.to_bytes())}"):
        assert parse_dataset_id(text) == parse_dataset_ref(text) == parse_dataset_ref_any(text) == id
        assert str(parse_dataset_id(text)) == str(id)
    assert parse_did_key(did_key(key)) == key


@given(NAMES, st.one_of(st.none(), NAMES))
def test_aliases_print_as_written_and_compare_without_case(name: str, account: str | None) -> None:
    text = f"{account}/{name}" if account else name
    alias = parse_dataset_alias(text)
    assert str(alias) == text
    assert parse_dataset_alias(text.swapcase()) == alias
    assert parse_dataset_ref(text) == alias
    remote = parse_dataset_alias_remote(f"repo/{text}")
    assert str(remote) == f"repo/{text}"
    assert parse_dataset_ref_remote(f"repo/{text}") == remote


@pytest.mark.parametrize("parse", PARSERS, ids=lambda parse: parse.__name__)
@given(TEXTS)
def test_any_text_is_read_or_refused_by_name(parse: Callable[[str], object], text: str) -> None:
    try:
        parse(text)
    except InvalidName as error:
        assert error.message.startswith("Value '")  # noqa: PT017
        assert " is not a valid " in error.message  # noqa: PT017


@given(st.text(alphabet=list("abA%-."), min_size=1, max_size=12), st.text(alphabet=list("abB-."), max_size=12))
def test_patterns_match_as_a_regular_expression_would(pattern: str, name: str) -> None:
    if "%" not in pattern:
        return
    expected = re.fullmatch(re.escape(pattern).replace("%", ".*"), name, re.IGNORECASE) is not None
    assert NamePattern(pattern).matches(Name(name)) is expected
