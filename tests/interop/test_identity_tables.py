"""Tables of the specification, "Dataset Identity".

DIDs, multiformats, names, references, patterns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest

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
    is_pattern,
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
from odfabric.model.identity import (
    AmbiguousAlias,
    DatasetAlias,
    DatasetAliasRemote,
    DatasetId,
    DatasetIdRemote,
    DatasetUrl,
    Name,
)
from odfabric.model.multihash import ARROW0_SHA3_256, SHA2_256, SHA3_256, Multihash, sha3_256_multihash
from odfabric.testing.identities import seeded_dataset_id

KEY_TEXT = "z6MkmgVreHBu2ABaD59Jq1J2JneXwzpsUWwEWXS4kLhjb4V4"
OF_MULTIHASH = "f162008c3792b2a4deed1bd7ea2328fb5de5531eccf0fbfa04a7d800cdc267137c635"


class TestMultihash:
    def test_the_hash_of_the_word_multihash_in_all_its_spellings(self) -> None:
        value = sha3_256_multihash(hashlib.sha3_256(b"multihash").digest())
        assert str(value) == OF_MULTIHASH
        assert value.short == "7137c635"
        for text in (OF_MULTIHASH, "F" + OF_MULTIHASH[1:].upper(), "zW1a3CNT52HXiJNniLkWMeev3CPRy9QiNRMWGyTrVNg4hY8"):
            assert parse_multihash(text) == value
        assert parse_multihash(encode_base64url(value.to_bytes())) == value
        assert encode_base58(value.to_bytes()) == "zW1a3CNT52HXiJNniLkWMeev3CPRy9QiNRMWGyTrVNg4hY8"
        assert multihash_from_bytes(value.to_bytes()) == value

    def test_sha2_hashes_of_other_systems_parse(self) -> None:
        value = parse_multihash("f12209cbc07c3f991725836a3aa2a581ca2029198aa420b9d99bc0e131d9f3e2cbe47")
        assert value.code == SHA2_256
        assert parse_multihash("zQmYtUc4iTCbbfVSDNKvtQqrfyezPPnFvE33wFmutw9PBBk") == value

    def test_the_logical_hash_codec_has_a_four_byte_varint(self) -> None:
        value = Multihash(ARROW0_SHA3_256, bytes(32))
        assert str(value) == "f9680c00120" + "00" * 32
        assert parse_multihash(str(value)) == value

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("", "empty"),
            ("m1620", "unsupported encoding 'm'"),
            ("b1620", "unsupported encoding 'b'"),
            ("U1620", "unsupported encoding 'U'"),
            ("f1", "malformed base16"),
            ("fxx", "malformed base16"),
            ("f16 20", "malformed base16"),
            ("uAA=", "malformed base64url"),
            ("uA", "malformed base64url"),
            ("uAB", "left over"),
            ("z0OIl", "malformed base58"),
            ("f", "varint is cut"),
            ("f16", "varint is cut"),
            ("f1620" + "00" * 31, "31 follow"),
            ("f1620" + "00" * 33, "33 follow"),
            ("f1621" + "00" * 33, "at most 32 bytes"),
            ("fed0120" + "00" * 32, "unknown hash codec 0xed"),
            ("f960020" + "00" * 32, "shortest form"),
            ("f8080808001", "more than 4 bytes"),
            ("f" + "00" * 41, "at most 40 bytes"),
        ],
    )
    def test_malformed_texts_are_refused_with_the_reason(self, text: str, reason: str) -> None:
        with pytest.raises(InvalidName) as caught:
            parse_multihash(text)
        assert caught.value.message == f"Value '{text}' is not a valid Multihash"
        assert caught.value.hint is not None
        assert reason in caught.value.hint

    def test_malformed_bytes_are_refused(self) -> None:
        with pytest.raises(InvalidName, match="Value '1620' is not a valid Multihash"):
            multihash_from_bytes(b"\x16\x20")

    def test_a_huge_text_is_neither_decoded_nor_repeated(self) -> None:
        with pytest.raises(InvalidName) as caught:
            parse_multihash("z" + "2" * 10_000_000)
        assert len(caught.value.message) < 300

    def test_code_is_part_of_equality(self) -> None:
        assert Multihash(SHA3_256, bytes(32)) != Multihash(SHA2_256, bytes(32))


class TestDids:
    def test_did_odf_and_did_key_spell_one_key(self) -> None:
        text = "did:odf:fed012e6fcce36701dc791488e0d0b1745cc1e33a4c1c9fcc41c63bd343dbbe0970e6"
        id = parse_dataset_id(text)
        assert str(id) == text
        assert did_key(id.key) == "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"
        assert parse_did_key(did_key(id.key)) == id.key
        assert parse_dataset_id("did:odf:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK") == id
        assert dataset_id_from_bytes(id.to_bytes()) == id

    @pytest.mark.parametrize(
        ("seed", "text"),
        [
            ("multihash", "fed012126262ba49e1ba8392c26f7a39e1ba8d756c7469786d3365200c68402ff65dc"),
            ("multihash", "z6MkggfEoTnRceFGdwjUtm1JaWeHQVKUpttKZUY6KAMaWvqq"),
            ("key", KEY_TEXT),
            ("input1", "fed01816ef0a9abe93aba816ef0a9abe93aba90e6065747170300c0d3d30c2cd8d7a4"),
            ("input2", "fed01826ef0a9abea3a3a826ef0a9abea3a3a90e6065747270300c1d3b30a2cd9d724"),
        ],
    )
    def test_seeded_identities(self, seed: str, text: str) -> None:
        assert seeded_dataset_id(seed.encode()) == parse_dataset_id(f"did:odf:{text}")

    def test_a_long_seed_is_refused(self) -> None:
        with pytest.raises(ValueError, match="at most 32 bytes"):
            seeded_dataset_id(bytes(33))

    @pytest.mark.parametrize(
        "text",
        [
            "did:pkh:eip155:1:0xb9c5714089478a327f09197987f16f9e5d936e8a",
            "did:pkh:solana:4sGjMW1sUnHzSxGspuhpqLDx6wiyjNtZ:CKg5d12Jhpej1JqtmxLJgaFqqeYjxgPqToJ4LBdvG9Ev",
            "did:pkh:chainstd:8c3444cf8970a9e41a706fab93e7a6c4:6d9b0b4b9994e8a6afbd3dc3ed983cd51c755afb27cd1dc7825ef59c134a39f7",
            "did:odf:fed012e6fcce36701dc791488e0d0b1745cc1e33a4c1c9fcc41c63bd343dbbe0970e6",
        ],
    )
    def test_accounts_print_as_they_were_written(self, text: str) -> None:
        assert str(parse_account_id(text)) == text

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "did:odf:",
            "did:pkh:eip155:1",
            "did:pkh:eip155:1:",
            "did:pkh:eip155:1:" + "a" * 65,
            "did:pkh:EIP155:1:0xb9",
            "did:key:" + KEY_TEXT,
        ],
    )
    def test_malformed_accounts_are_refused(self, text: str) -> None:
        with pytest.raises(InvalidName, match="is not a valid AccountID"):
            parse_account_id(text)

    @pytest.mark.parametrize(
        "text",
        [
            KEY_TEXT,
            "DID:ODF:" + KEY_TEXT,
            "did:Odf:" + KEY_TEXT,
            "did:odf:",
            "did:odf:fed01",
            "did:odf:fed01" + "00" * 31,
            "did:odf:fed01" + "00" * 33,
            "did:odf:f1620" + "00" * 32,
            "did:odf:fe701" + "00" * 32,
            "did:odf:" + KEY_TEXT + "\n",
        ],
    )
    def test_malformed_dataset_ids_are_refused(self, text: str) -> None:
        with pytest.raises(InvalidName) as caught:
            parse_dataset_id(text)
        assert caught.value.message == f"Value '{text}' is not a valid DatasetID"

    def test_a_key_of_another_length_has_no_did(self) -> None:
        with pytest.raises(ValueError, match="32 bytes"):
            did_key(bytes(31))
        with pytest.raises(InvalidName):
            dataset_id_from_bytes(b"\xed\x01" + bytes(31))


class TestNames:
    @pytest.mark.parametrize("text", ["local.id-only", "valid.dataset.id", "A", "9.x", "a" * 100])
    def test_accepted(self, text: str) -> None:
        assert str(parse_name(text)) == text

    @pytest.mark.parametrize(
        "text",
        [
            ".invalid",
            "invalid-",
            "invalid--id",
            "invalid..id",
            "in^valid",
            "invalid_id",
            "",
            "a b",
            "é",
            "٣",
            "a\n",
            "a" * 101,
        ],
    )
    def test_rejected(self, text: str) -> None:
        with pytest.raises(InvalidName) as caught:
            parse_name(text, type_name="RepoName")
        assert caught.value.message == f"Value '{text}' is not a valid RepoName"

    def test_aliases(self) -> None:
        assert parse_dataset_alias("local.id") == DatasetAlias(None, Name("local.id"))
        assert parse_dataset_alias("user-name/local.id") == DatasetAlias(Name("user-name"), Name("local.id"))
        for text in (
            "repo.name/user-name/blah",
            "user-name/.invalid",
            ".invalid/local.id",
            "invalid_alias",
            "a/",
            "/a",
        ):
            with pytest.raises(InvalidName) as caught:
                parse_dataset_alias(text)
            assert caught.value.message == f"Value '{text}' is not a valid DatasetAlias"

    def test_remote_aliases(self) -> None:
        assert parse_dataset_alias_remote("repo.name/local.id") == DatasetAliasRemote(
            Name("repo.name"), None, Name("local.id")
        )
        full = DatasetAliasRemote(Name("repo.name"), Name("user-name"), Name("local.id"))
        assert parse_dataset_alias_remote("repo.name/user-name/local.id") == full
        assert str(full) == "repo.name/user-name/local.id"
        bad = ["local.id", "repo.name/.invalid", ".invalid/local.id", "repo.name/.invalid/local.id"]
        bad += ["repo.name/user-name/.invalid", ".invalid/user-name/local.id", "a/b/c/d"]
        for text in bad:
            with pytest.raises(InvalidName, match="is not a valid DatasetAliasRemote"):
                parse_dataset_alias_remote(text)

    @pytest.mark.parametrize(
        ("parse", "one", "other", "equal"),
        [
            (parse_dataset_alias, "account/net.example.com", "aCCouNt/net.ExaMplE.coM", True),
            (parse_dataset_alias, "net.example.com", "net.ExaMplE.coM", True),
            (parse_dataset_alias, "account/x", "x", False),
            (parse_dataset_alias_remote, "repository/net.example.com", "rEpoSitOry/net.ExaMplE.coM", True),
            (parse_dataset_alias_remote, "repository/account/x", "repository/x", False),
        ],
    )
    def test_equality(self, parse: Callable[[str], object], one: str, other: str, equal: bool) -> None:
        assert (parse(one) == parse(other)) is equal
        assert str(parse(other)) == other
        if equal:
            assert hash(parse(one)) == hash(parse(other))


class TestReferences:
    ID = parse_dataset_id("did:odf:" + KEY_TEXT)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("dataset", DatasetAlias(None, Name("dataset"))),
            ("mystery/dataset", AmbiguousAlias(Name("mystery"), Name("dataset"))),
            ("repo/account/dataset", DatasetAliasRemote(Name("repo"), Name("account"), Name("dataset"))),
            ("did:odf:" + KEY_TEXT, ID),
            ("repo/did:odf:" + KEY_TEXT, DatasetIdRemote(Name("repo"), ID)),
            (
                "https://opendata.ca/odf/census-2016-population/",
                DatasetUrl("https://opendata.ca/odf/census-2016-population/"),
            ),
            ("ipfs://bafkreie3hfshd4ikinnbio3kewo2hvj6doh5jp3p23iwk2evgo2un5g7km/", None),
            ("odf+https://node.example.com/alice/x", None),
            ("s3://bucket/prefix/", None),
        ],
    )
    def test_any(self, text: str, expected: object) -> None:
        assert parse_dataset_ref_any(text) == (DatasetUrl(text) if expected is None else expected)

    @pytest.mark.parametrize(
        "text",
        [
            "foo:bar",
            "invalid_ref^",
            "did:odf:z123",
            "repo/did:odf:z123",
            "re_po/did:odf:" + KEY_TEXT,
            "9x://host",
            "a/b/c/d",
            "",
            "http://",
            "http://[::1",
            "http://host:99999/",
            "http:\\\\evil",
            "http://a\\@b/",
            "http://a b/",
            "https://h/" + "a" * 2000,
        ],
    )
    def test_any_rejected(self, text: str) -> None:
        with pytest.raises(InvalidName, match="is not a valid DatasetRefAny"):
            parse_dataset_ref_any(text)

    def test_an_ambiguous_alias_has_two_readings(self) -> None:
        alias = AmbiguousAlias(Name("x"), Name("d"))
        assert alias.as_local() == parse_dataset_alias("x/d")
        assert alias.as_remote() == parse_dataset_alias_remote("x/d")

    def test_local(self) -> None:
        assert parse_dataset_ref("did:odf:" + KEY_TEXT) == self.ID
        assert str(parse_dataset_ref("did:odf:" + KEY_TEXT)) == str(self.ID)
        assert parse_dataset_ref("a/b") == DatasetAlias(Name("a"), Name("b"))
        for text in ("did:odf:xyz", "a/b/c", "https://example.com"):
            with pytest.raises(InvalidName, match=f"Value '{text}' is not a valid DatasetRef"):
                parse_dataset_ref(text)

    def test_a_base64url_identity_is_read_everywhere(self) -> None:
        id = DatasetId(b"\xff" * 32)
        text = "did:odf:" + encode_base64url(id.to_bytes())
        assert "_" in text
        assert parse_dataset_ref(text) == parse_dataset_ref_any(text) == parse_dataset_ref_remote(text) == id

    def test_remote(self) -> None:
        assert parse_dataset_ref_remote("did:odf:" + KEY_TEXT) == self.ID
        assert parse_dataset_ref_remote("r/did:odf:" + KEY_TEXT) == DatasetIdRemote(Name("r"), self.ID)
        assert parse_dataset_ref_remote("r/d") == DatasetAliasRemote(Name("r"), None, Name("d"))
        assert parse_dataset_ref_remote("https://example.com") == DatasetUrl("https://example.com/")
        with pytest.raises(InvalidName, match="Value 'd' is not a valid DatasetRefRemote"):
            parse_dataset_ref_remote("d")

    @pytest.mark.parametrize(
        ("text", "normal"),
        [
            ("https://example.com", "https://example.com/"),
            ("HTTPS://Example.COM:443/A?b", "https://example.com/A?b"),
            ("http://u:p@[::1]:8080", "http://u:p@[::1]:8080/"),
            ("s3://Bucket", "s3://Bucket"),
        ],
    )
    def test_urls_are_normalised(self, text: str, normal: str) -> None:
        assert str(parse_dataset_ref_remote(text)) == normal

    def test_push_targets(self) -> None:
        assert parse_dataset_push_target("repo/x") == DatasetAliasRemote(Name("repo"), None, Name("x"))
        assert parse_dataset_push_target("repo") == Name("repo")
        assert parse_dataset_push_target("https://h") == DatasetUrl("https://h/")
        with pytest.raises(InvalidName, match="is not a valid DatasetPushTarget"):
            parse_dataset_push_target("a_b")


class TestPatterns:
    @pytest.mark.parametrize(
        "text",
        [
            "net.example.%",
            "net.e%.com",
            "net-%.com",
            "net%net",
            "%.example.com",
            "%e",
            "%-e",
            "net%.ex%.com",
            "%.ex%.c%",
            "%-net.ex-%.c-%",
            "%",
            "%a%%",
        ],
    )
    def test_accepted(self, text: str) -> None:
        assert is_pattern(text)
        assert str(parse_dataset_pattern(text)) == text
        assert str(parse_dataset_pattern(f"acc/{text}")) == f"acc/{text}"
        assert str(parse_dataset_pattern_remote(f"r/{text}")) == f"r/{text}"
        assert str(parse_dataset_pattern_remote(f"r/acc/{text}")) == f"r/acc/{text}"

    @pytest.mark.parametrize(
        "text", ["net.example.%-", "net.exa^mple.%", "&net%.exa%mple.net", "did:odf:z6Mk%", "a/b/%", "a.b", "%" * 101]
    )
    def test_rejected(self, text: str) -> None:
        with pytest.raises(InvalidName, match="is not a valid DatasetPattern"):
            parse_dataset_pattern(text)
        if "/" not in text:
            with pytest.raises(InvalidName, match="is not a valid DatasetPatternRemote"):
                parse_dataset_pattern_remote(text)

    @pytest.mark.parametrize(
        ("pattern", "name", "fits"),
        [
            ("%odf%", "net.example.odf", True),
            ("%odf%", "net.example.com", False),
            ("nEt.eXample%", "net.example.com", True),
            ("net%", "x.net", False),
            ("%", "anything", True),
            ("a%b%a", "aba", True),
            ("a%b%a", "aa", False),
            ("a%a", "a", False),
            ("%b%b", "ab", False),
            ("acc/%", "name", False),
            ("acc/%", "ACC/name", True),
            ("%", "acc/name", True),
        ],
    )
    def test_matching(self, pattern: str, name: str, fits: bool) -> None:
        assert parse_dataset_pattern(pattern).matches(parse_dataset_alias(name)) is fits

    def test_matching_of_remote_names(self) -> None:
        of_repo = parse_dataset_pattern_remote("r/%.com")
        assert of_repo.matches(parse_dataset_alias_remote("R/acc/x.com"))
        assert of_repo.matches(parse_dataset_alias_remote("r/x.com"))
        assert not of_repo.matches(parse_dataset_alias_remote("q/x.com"))
        of_account = parse_dataset_pattern_remote("r/acc/%")
        assert of_account.matches(parse_dataset_alias_remote("r/Acc/x"))
        assert not of_account.matches(parse_dataset_alias_remote("r/x"))


class TestMultibase:
    @pytest.mark.parametrize("encode", [encode_base16, encode_base58, encode_base64url])
    def test_every_written_text_is_read_back(self, encode: Callable[[bytes], str]) -> None:
        for data in (b"", b"\0", b"\0\0\x01", bytes(range(40)), b"\xff" * 40):
            assert decode_multibase(encode(data), bytes_max=40) == data

    def test_leading_zeros_count_as_bytes(self) -> None:
        with pytest.raises(ValueError, match="at most 36 bytes"):
            decode_multibase("z" + "1" * 37, bytes_max=36)
