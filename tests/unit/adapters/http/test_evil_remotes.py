"""Evil servers, as a download meets them.

They break off, never end, lie about lengths or lead elsewhere.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from odfabric.adapters.http.egress import Egress, EgressLimits
from odfabric.adapters.http.partial_downloads import FILES_MAX, PartialDownloads
from odfabric.adapters.http.remote_dataset import HttpRemoteDatasets
from odfabric.errors import AccessDenied, CorruptedSource, Determinate, LimitExceeded, OdfError
from odfabric.formats.blocks.block_stretch import MEDIA_TYPE, write_stretch
from odfabric.model.multihash import Multihash, sha3_256_multihash
from odfabric.ports.sources.egress import RemoteDataset
from tests.support.loopback_http import LoopbackServer, Seen, reply

BODY = bytes(range(256)) * 40
NAME = sha3_256_multihash(hashlib.sha3_256(BODY).digest())
TAG = f'"{NAME}"'
LIMITS = EgressLimits(answer_s_max=5.0, total_s_max=10.0, bytes_per_s_min=1024, rate_window_s=0.2)


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def remote(server: LoopbackServer, servers: ExitStack) -> RemoteDataset:
    egress = servers.enter_context(Egress(limits=LIMITS, allow=[server.place]))
    return HttpRemoteDatasets(egress, block_bytes_max=1000, resumes_max=3).open(server.url("/ds"))


def broken(seen: Seen, *, pieces: int, tag: str | None = TAG, ranges: bool = True) -> Iterator[bytes]:
    """`pieces` kilobytes of what was asked for, announced whole."""
    asked = seen.headers.get("range", "bytes=0-") if ranges else "bytes=0-"
    begin = int(asked.removeprefix("bytes=").removesuffix("-"))
    rest = BODY[begin:]
    status = "206 Partial" if begin else "200 OK"
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(rest)}"]
    lines += [f"ETag: {tag}"] if tag else []
    lines += [f"Content-Range: bytes {begin}-{len(BODY) - 1}/{len(BODY)}"] if begin else []
    yield "\r\n".join([*lines, "", ""]).encode() + rest[: pieces * 1024]


def test_a_download_goes_on_where_it_broke(servers: ExitStack, tmp_path: Path) -> None:
    server = servers.enter_context(LoopbackServer(lambda seen: broken(seen, pieces=3)).serving())
    found = remote(server, servers).download("data", NAME, size_max=len(BODY), into=tmp_path / "a")
    assert (found, (tmp_path / "a").read_bytes()) == (len(BODY), BODY)
    assert [seen.headers.get("range") for seen in server.seen] == [None, *(f"bytes={3072 * n}-" for n in (1, 2, 3))]
    assert {seen.headers.get("if-range") for seen in server.seen[1:]} == {TAG}


def kept(server: LoopbackServer, servers: ExitStack, folder: Path, *, url: str = "/ds") -> RemoteDataset:
    """A client that goes on once within a download, and keeps what came."""
    egress = servers.enter_context(Egress(limits=LIMITS, allow=[server.place]))
    made = HttpRemoteDatasets(egress, block_bytes_max=1000, resumes_max=1, partials=PartialDownloads(folder))
    return made.open(server.url(url))


def test_the_next_attempt_goes_on_where_the_last_one_broke(servers: ExitStack, tmp_path: Path) -> None:
    server = servers.enter_context(LoopbackServer(lambda seen: broken(seen, pieces=3)).serving())
    into = tmp_path / "a"
    with pytest.raises(Determinate):
        kept(server, servers, tmp_path / "partial").download("data", NAME, size_max=len(BODY), into=into)
    assert not into.exists()
    found = kept(server, servers, tmp_path / "partial").download("data", NAME, size_max=len(BODY), into=into)
    assert (found, into.read_bytes()) == (len(BODY), BODY)
    assert [seen.headers.get("range") for seen in server.seen] == [None, *(f"bytes={3072 * n}-" for n in (1, 2, 3))]
    assert list((tmp_path / "partial").glob("*.part")) == []


def test_what_is_kept_is_of_one_url_and_one_tag(servers: ExitStack, tmp_path: Path) -> None:
    tags = [TAG, TAG, '"another"', '"another"', '"another"']

    def respond(seen: Seen) -> Iterator[bytes]:
        tag = tags.pop(0)
        same = seen.headers.get("if-range") in (None, tag)
        return broken(seen, pieces=3 if tag == TAG else 10, tag=tag, ranges=same)

    server = servers.enter_context(LoopbackServer(respond).serving())
    with pytest.raises(Determinate):
        kept(server, servers, tmp_path / "partial").download("data", NAME, size_max=len(BODY), into=tmp_path / "a")
    other = kept(server, servers, tmp_path / "partial", url="/other")
    assert other.download("data", NAME, size_max=len(BODY), into=tmp_path / "b") == len(BODY)
    assert server.seen[-1].headers.get("range") is None
    again = kept(server, servers, tmp_path / "partial")
    assert again.download("data", NAME, size_max=len(BODY), into=tmp_path / "a") == len(BODY)
    assert (tmp_path / "a").read_bytes() == BODY
    assert server.seen[-1].headers.get("range") == "bytes=6144-"


def test_the_oldest_partial_files_go_first(tmp_path: Path) -> None:
    partials = PartialDownloads(tmp_path / "partial")
    for number in range(FILES_MAX + 5):
        (tmp_path / "a").write_bytes(b"x" * number)
        partials.keep(f"https://a.example/{number}", tmp_path / "a", TAG)
        for each in (tmp_path / "partial").iterdir():
            os.utime(each, ns=(each.stat().st_mtime_ns, each.stat().st_mtime_ns - 10**9))
    assert len(list((tmp_path / "partial").glob("*.part"))) == FILES_MAX
    assert partials.take("https://a.example/0", tmp_path / "b") is None
    assert partials.take(f"https://a.example/{FILES_MAX + 4}", tmp_path / "b") == TAG


@pytest.mark.parametrize(("files_max", "kept"), [(0, []), (1, [2]), (2, [1, 2]), (3, [0, 1, 2])])
def test_as_many_partial_files_are_kept_as_the_setting_says(tmp_path: Path, files_max: int, kept: list[int]) -> None:
    partials = PartialDownloads(tmp_path / "partial", files_max=files_max, age_s_max=50.0)
    for number in range(3):
        keep(partials, tmp_path, number, age_s=2)
    found = [number for number in range(3) if partials.take(url_of(number), tmp_path / f"into-{number}") == TAG]
    assert found == kept


def test_partial_files_older_than_the_setting_says_go(tmp_path: Path) -> None:
    partials = PartialDownloads(tmp_path / "partial", age_s_max=50.0)
    keep(partials, tmp_path, 0, age_s=30)
    keep(partials, tmp_path, 1, age_s=30)
    keep(partials, tmp_path, 2, age_s=0)
    assert [partials.take(url_of(number), tmp_path / f"into-{number}") for number in range(3)] == [None, TAG, TAG]


def keep(partials: PartialDownloads, folder: Path, number: int, *, age_s: int) -> None:
    """Keep one more; all of them grow older by so much."""
    (folder / "a").write_bytes(b"x")
    partials.keep(url_of(number), folder / "a", TAG)
    for each in folder.glob("partial/*"):
        os.utime(each, ns=(each.stat().st_mtime_ns, each.stat().st_mtime_ns - age_s * 10**9))


def url_of(number: int) -> str:
    return f"https://a.example/{number}"


def test_it_begins_again_where_the_server_has_no_ranges(servers: ExitStack, tmp_path: Path) -> None:
    answers = [3, 10]

    def respond(seen: Seen) -> Iterator[bytes]:
        return broken(seen, pieces=answers.pop(0), ranges=False)

    server = servers.enter_context(LoopbackServer(respond).serving())
    assert remote(server, servers).download("data", NAME, size_max=len(BODY), into=tmp_path / "a") == len(BODY)
    assert (tmp_path / "a").read_bytes() == BODY


@pytest.mark.parametrize(("pieces", "tag", "requests"), [(0, TAG, 1), (1, TAG, 4), (3, None, 1), (3, "W/" + TAG, 1)])
def test_it_does_not_go_on_for_ever_or_without_a_mark(
    servers: ExitStack, tmp_path: Path, pieces: int, tag: str | None, requests: int
) -> None:
    server = servers.enter_context(LoopbackServer(lambda seen: broken(seen, pieces=pieces, tag=tag)).serving())
    with pytest.raises(Determinate):
        remote(server, servers).download("data", NAME, size_max=len(BODY), into=tmp_path / "a")
    assert (len(server.seen), list(tmp_path.iterdir())) == (requests, [])


def test_a_rest_that_begins_elsewhere_is_refused(servers: ExitStack, tmp_path: Path) -> None:
    def respond(seen: Seen) -> Iterator[bytes]:
        if "range" in seen.headers:
            yield reply(206, BODY[100:], {"ETag": TAG, "Content-Range": f"bytes 100-{len(BODY) - 1}/{len(BODY)}"})
        else:
            yield from broken(seen, pieces=3)

    server = servers.enter_context(LoopbackServer(respond).serving())
    with pytest.raises(OdfError):
        remote(server, servers).download("data", NAME, size_max=len(BODY), into=tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_an_endless_body_ends_at_the_declared_size(servers: ExitStack, tmp_path: Path) -> None:
    server = LoopbackServer(lambda seen: endless(seen))
    servers.enter_context(server.serving())

    def endless(seen: Seen) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n\r\n"
        yield from server.every(b"x" * 4096, pause_s=0, count=10_000)

    for act in (
        lambda found: found.download("data", NAME, size_max=len(BODY), into=tmp_path / "a"),
        lambda found: found.block(NAME),
        lambda found: found.head(),
    ):
        with pytest.raises(LimitExceeded):
            act(remote(server, servers))
    assert list(tmp_path.iterdir()) == []


def test_a_slow_body_is_given_up(servers: ExitStack, tmp_path: Path) -> None:
    server = LoopbackServer(lambda seen: slow(seen))
    servers.enter_context(server.serving())

    def slow(seen: Seen) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 10240\r\n\r\n"
        yield from server.every(b"x", pause_s=0.05, count=1000)

    with pytest.raises(Determinate):
        remote(server, servers).download("data", NAME, size_max=len(BODY), into=tmp_path / "a")


@pytest.mark.parametrize(
    "target",
    ["http://127.0.0.1:9/secret", "http://169.254.169.254/latest", "http://[::1]/x", "http://10.0.0.1/", "file:///etc"],
)
def test_a_redirect_to_an_inner_address_is_refused(servers: ExitStack, tmp_path: Path, target: str) -> None:
    server = servers.enter_context(LoopbackServer(lambda seen: reply(302, b"", {"Location": target})).serving())
    with pytest.raises(OdfError) as refused:
        remote(server, servers).download("data", NAME, size_max=len(BODY), into=tmp_path / "a")
    assert isinstance(refused.value, AccessDenied) or "redirects to a URL that is refused" in str(refused.value)


@pytest.mark.parametrize("body", [b"", b"f1620", b"x" * 150, b"f1620" + b"0" * 63, b"\xff" * 69])
def test_a_head_that_is_no_hash_is_named(servers: ExitStack, body: bytes) -> None:
    server = servers.enter_context(LoopbackServer(lambda seen: reply(200, body)).serving())
    with pytest.raises(CorruptedSource, match="is not the hash of a block"):
        remote(server, servers).head()


def test_bytes_of_another_name_come_as_they_are(servers: ExitStack, tmp_path: Path) -> None:
    """Anyone who asked compares them: here nothing is judged."""
    other = Multihash(NAME.code, bytes(32))
    server = servers.enter_context(LoopbackServer(lambda seen: reply(200, BODY, {"ETag": TAG})).serving())
    assert remote(server, servers).download("data", other, size_max=len(BODY), into=tmp_path / "a") == len(BODY)


def several(body: bytes, *, media_type: str = MEDIA_TYPE) -> Iterator[bytes]:
    yield reply(200, body, {"Content-Type": media_type})


def test_blocks_come_with_predecessors_from_a_node_that_knows_the_header(servers: ExitStack) -> None:
    blocks = [b"newest", b"before"]
    server = servers.enter_context(LoopbackServer(lambda _: several(write_stretch(blocks))).serving())
    assert remote(server, servers).blocks(NAME, count_max=5000) == blocks
    assert server.seen[0].headers["odf-blocks"] == "1000"


def test_a_single_block_is_asked_for_as_every_server_knows_it(servers: ExitStack) -> None:
    server = servers.enter_context(LoopbackServer(lambda _: several(b"block", media_type="text/plain")).serving())
    assert remote(server, servers).blocks(NAME, count_max=1) == [b"block"]
    assert "odf-blocks" not in server.seen[0].headers


@pytest.mark.parametrize(
    "body", [b"", b"\xff\xff\xff\x7f", write_stretch([b"a", b"b", b"c"]), write_stretch([b"x" * 1001])]
)
def test_blocks_at_once_that_lie_about_themselves_are_refused(servers: ExitStack, body: bytes) -> None:
    server = servers.enter_context(LoopbackServer(lambda _: several(body)).serving())
    with pytest.raises(CorruptedSource):
        remote(server, servers).blocks(NAME, count_max=2)
