"""Which protocol a transfer speaks, and what names of remote datasets stand for."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.transfer.addressing import (
    checked_repository_url,
    dataset_url,
    find_repository,
    named_repository,
    single_push_target,
    single_repository,
)
from odfabric.domain.transfer.direction import (
    LOCAL,
    SERVED_SCHEMES,
    SIMPLE_SCHEMES,
    SMART_SCHEMES,
    TransferProtocol,
    choose_protocol,
    scheme_of,
    without_smart_prefix,
)
from odfabric.errors import (
    AmbiguousRepository,
    EmptyRepositoryList,
    InvalidRequest,
    NotFound,
    OdfError,
    UnsupportedProtocol,
)
from odfabric.model.identity import DatasetId, KeyAccountId, Name
from odfabric.model.instant import Instant
from odfabric.model.transfer.repository import AliasKind, RemoteAlias, RemoteRepository

NOW = Instant(0)
ALICE = KeyAccountId(bytes(32))
DATASET = DatasetId(bytes(32))
NAMES = st.from_regex(r"[A-Za-z0-9]{1,8}([.-][A-Za-z0-9]{1,8}){0,2}", fullmatch=True)


def repository(name: str, *, own: bool = True, url: str = "https://node.example/") -> RemoteRepository:
    return RemoteRepository(name=Name(name), url=url, account=ALICE if own else None, created_at=NOW)


def alias(target: str) -> RemoteAlias:
    return RemoteAlias(dataset=DATASET, kind=AliasKind.PUSH, target=target)


class TestDirection:
    @pytest.mark.parametrize("scheme", SERVED_SCHEMES)
    def test_one_end_is_here(self, scheme: str) -> None:
        protocol = TransferProtocol.SMART if scheme in SMART_SCHEMES else TransferProtocol.SIMPLE
        assert choose_protocol(LOCAL, scheme) is protocol
        assert choose_protocol(scheme, LOCAL) is protocol

    @pytest.mark.parametrize("source", SERVED_SCHEMES)
    @pytest.mark.parametrize("destination", SERVED_SCHEMES)
    def test_nothing_moves_between_two_others(self, source: str, destination: str) -> None:
        with pytest.raises(UnsupportedProtocol) as refused:
            choose_protocol(source, destination)
        assert refused.value.hint

    @pytest.mark.parametrize("url", ["ipfs://abc", "ipns://abc", "ftp://host/x", "gopher:x", ":", "://x"])
    def test_schemes_that_nobody_serves_are_refused_with_a_way_out(self, url: str) -> None:
        with pytest.raises(UnsupportedProtocol) as refused:
            scheme_of(url)
        assert "s3://" in (refused.value.hint or "")

    def test_a_text_without_a_scheme_is_no_url(self) -> None:
        with pytest.raises(InvalidRequest):
            scheme_of("account/dataset")

    @given(st.sampled_from(SERVED_SCHEMES), st.booleans())
    def test_the_case_of_a_scheme_does_not_count(self, scheme: str, upper: bool) -> None:
        assert scheme_of(f"{scheme.upper() if upper else scheme}://x") == scheme

    def test_the_smart_prefix_is_taken_off_once(self) -> None:
        assert without_smart_prefix("ODF+https://x/odf+y") == "https://x/odf+y"
        assert without_smart_prefix("https://x/") == "https://x/"


class TestRepositoryUrl:
    @pytest.mark.parametrize(
        ("url", "kept"),
        [
            ("https://node.example", "https://node.example/"),
            ("odf+https://node.example/prefix//", "odf+https://node.example/prefix/"),
            ("file:///shelf", "file:///shelf/"),
            ("file:shelf", "file:shelf/"),
            ("s3://bucket/a", "s3://bucket/a/"),
            ("s3+http://host:9000/bucket", "s3+http://host:9000/bucket/"),
        ],
    )
    def test_it_is_kept_with_a_slash(self, url: str, kept: str) -> None:
        assert checked_repository_url(url) == kept

    @pytest.mark.parametrize(
        "url",
        [
            "https://user:secret@node.example/",
            "https://secret@node.example/",
            "https://node.example/?token=secret",
            "https://node.example/#secret",
            "https:///secret",
            "https://node.example/a b",
            "https://node.example/\n",
            "https://[secret/",
            "https://node.example/" + "x" * 1000,
            "https://nöde.example/",
            "https://node.example:65536/",
            "s3+http://secret:secret@host/bucket",
        ],
    )
    def test_what_holds_a_credential_or_is_no_folder_is_refused(self, url: str) -> None:
        with pytest.raises(InvalidRequest) as refused:
            checked_repository_url(url)
        assert "secret" not in str(refused.value)

    @pytest.mark.parametrize(
        ("url", "remedy"),
        [
            ("s3+https://key:secret@host/bucket", "ODF_REMOTE_S3_KEYS"),
            ("odf+https://user:secret@host/", "odf login"),
            ("https://host/?x=1", "leave out what follows"),
            ("https://host:99999/", "https://host:8080/"),
            ("shelf", "file:///its/whole/path"),
        ],
    )
    def test_a_refusal_says_what_to_write(self, url: str, remedy: str) -> None:
        with pytest.raises(InvalidRequest) as refused:
            checked_repository_url(url)
        assert remedy in (refused.value.hint or "")

    @given(st.text(max_size=40))
    def test_any_text_is_kept_or_refused(self, text: str) -> None:
        try:
            kept = checked_repository_url(text)
        except OdfError:
            return
        assert checked_repository_url(kept) == kept
        assert kept.endswith("/")

    @given(st.sampled_from([*SIMPLE_SCHEMES[1:], *SMART_SCHEMES]), st.none() | NAMES, NAMES)
    def test_datasets_are_below_their_repository(self, scheme: str, account: str | None, name: str) -> None:
        base = checked_repository_url(f"{scheme}://host/prefix")
        url = dataset_url(base, Name(account) if account else None, Name(name))
        assert url.startswith(base)
        assert urlsplit(url).path == "/prefix/" + "".join(f"{part}/" for part in (account, name) if part)


class TestChoice:
    def test_an_own_repository_goes_before_that_of_the_node(self) -> None:
        own, shared = repository("shelf", url="s3://own/"), repository("SHELF", own=False)
        for known in ([own, shared], [shared, own]):
            assert find_repository(Name("Shelf"), known) == own
            assert single_repository(known) == own

    def test_an_unknown_name_is_refused_with_those_that_are_known(self) -> None:
        with pytest.raises(NotFound) as refused:
            named_repository(Name("attic"), [repository("shelf"), repository("cellar")])
        assert "cellar, shelf" in (refused.value.hint or "")
        with pytest.raises(NotFound) as refused:
            named_repository(Name("attic"), [])
        assert "odf repo add" in (refused.value.hint or "")

    def test_of_several_none_is_guessed(self) -> None:
        with pytest.raises(AmbiguousRepository, match="attic, shelf") as ambiguous:
            single_repository([repository("shelf"), repository("attic", own=False)])
        assert "--to" in (ambiguous.value.hint or "")
        with pytest.raises(AmbiguousRepository, match="a/x, b/x"):
            single_push_target([alias("b/x"), alias("a/x")])

    def test_without_any_there_is_a_way_out(self) -> None:
        with pytest.raises(EmptyRepositoryList) as refused:
            single_repository([])
        assert "odf repo add" in (refused.value.hint or "")
        assert single_push_target([]) is None
        assert single_push_target([alias("a/x")]) == "a/x"
