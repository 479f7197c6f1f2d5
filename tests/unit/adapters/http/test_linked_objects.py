"""Objects at URLs that a peer has named: where these may lead, what goes there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from odfabric.adapters.http.egress import Egress
from odfabric.adapters.http.linked_objects import HttpLinkedObjects
from odfabric.errors import AccessDenied, InvalidRequest, LimitExceeded, OdfError
from odfabric.model.transfer.smart import ObjectUrl
from tests.support.loopback_http import LoopbackServer, reply

SIGNED = ("Authorization", "Bearer of-the-link")
INNER = ["http://127.0.0.1:9/x", "http://169.254.169.254/latest", "http://[::1]/x", "http://10.0.0.1/", "http://0/"]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def linked(stack: ExitStack, *servers: LoopbackServer) -> HttpLinkedObjects:
    for server in servers:
        stack.enter_context(server.serving())
    return HttpLinkedObjects(stack.enter_context(Egress(allow=[server.place for server in servers])))


def download(objects: HttpLinkedObjects, url: ObjectUrl, folder: Path) -> int:
    return objects.download(url, name="f1620", size_max=10, into=folder / "object")


@pytest.mark.parametrize("url", [*INNER, "file:///etc/passwd", "http://user:secret@host.example/"])
def test_a_link_to_an_inner_place_is_refused(stack: ExitStack, tmp_path: Path, url: str) -> None:
    objects, path = linked(stack), tmp_path / "mine"
    path.write_bytes(b"rows")
    for act in (
        lambda: download(objects, ObjectUrl(url=url), tmp_path),
        lambda: objects.upload(ObjectUrl(url=url), name="f1620", path=path),
    ):
        with pytest.raises((AccessDenied, InvalidRequest)):
            act()
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def test_a_link_that_redirects_inside_is_refused(stack: ExitStack, tmp_path: Path) -> None:
    server = LoopbackServer(lambda _: reply(302, b"", {"Location": INNER[1]}))
    with pytest.raises(AccessDenied, match="redirects elsewhere"):
        download(linked(stack, server), ObjectUrl(url=server.url("/x"), headers=(SIGNED,)), tmp_path)


def test_headers_of_a_link_stay_with_its_origin(stack: ExitStack, tmp_path: Path) -> None:
    other = LoopbackServer(lambda _: reply(200, b"rows"))
    server = LoopbackServer(lambda _: reply(302, b"", {"Location": other.url("/y")}))
    assert download(linked(stack, other, server), ObjectUrl(url=server.url("/x"), headers=(SIGNED,)), tmp_path) == 4
    assert server.seen[0].headers["authorization"] == SIGNED[1]
    assert "authorization" not in other.seen[0].headers


def test_an_upload_is_not_redirected(stack: ExitStack, tmp_path: Path) -> None:
    other = LoopbackServer(lambda _: reply(200))
    server = LoopbackServer(lambda _: reply(307, b"", {"Location": other.url("/y")}))
    (tmp_path / "mine").write_bytes(b"rows")
    with pytest.raises(InvalidRequest, match="answered 307"):
        linked(stack, other, server).upload(ObjectUrl(url=server.url("/x")), name="f1620", path=tmp_path / "mine")
    assert other.seen == []


@pytest.mark.parametrize("name", ["Host", "Range", "Transfer-Encoding", "Proxy-Authorization", "X-A\r\nX-B", "a b"])
def test_a_peer_does_not_frame_our_requests(stack: ExitStack, tmp_path: Path, name: str) -> None:
    server = LoopbackServer(lambda _: reply(200, b"rows"))
    url = ObjectUrl(url=server.url("/x"), headers=((name, "evil.example"),))
    objects = linked(stack, server)
    try:
        download(objects, url, tmp_path)
    except InvalidRequest:
        assert server.seen == []
    else:
        assert server.seen[0].headers[name.lower()] == server.place


def test_a_linked_object_is_cut_at_the_size_that_its_block_declares(stack: ExitStack, tmp_path: Path) -> None:
    server = LoopbackServer(lambda _: b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000000000\r\n\r\nabc")
    with pytest.raises(LimitExceeded):
        download(linked(stack, server), ObjectUrl(url=server.url("/x")), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_a_secret_that_no_message_shows(stack: ExitStack, tmp_path: Path) -> None:
    server = LoopbackServer(lambda _: reply(403))
    with pytest.raises(OdfError) as refused:
        download(linked(stack, server), ObjectUrl(url=server.url("/x?X-Amz-Signature=of-the-link")), tmp_path)
    assert "of-the-link" not in str(refused.value)
