"""The Smart protocol over TLS: wss, links by https, certificates that count."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from odfabric.testing.memory_node import MemoryNode
from tests.services.api.datasets.test_smart import Peer, made, same
from tests.services.api.serving import TOKEN, Served, serving
from tests.services.api.smart_peer import reaching
from tests.support.certificates import TestAuthority
from tests.support.tls_door import tls_door


@pytest.fixture
def authority(tmp_path: Path) -> TestAuthority:
    return TestAuthority(tmp_path)


@pytest.fixture
def secure(authority: TestAuthority, tmp_path: Path) -> Iterator[tuple[MemoryNode, str]]:
    """A node behind TLS, and its address."""
    node = MemoryNode(tmp_path / "server", seed=300)
    running: list[Served] = []

    def target() -> tuple[str, int]:
        parts = urlsplit(running[0].url)
        assert parts.hostname is not None
        assert parts.port is not None
        return parts.hostname, parts.port

    with tls_door(authority.server_context("localhost"), target) as port:
        url = f"https://localhost:{port}"
        node.settings = node.settings.model_copy(update={"public_url": url})
        node.restart()
        with serving(node.node) as served:
            running.append(served)
            yield node, url


def test_pull_and_push(secure: tuple[MemoryNode, str], authority: TestAuthority, tmp_path: Path) -> None:
    node, url = secure
    entry = made(node, "pulled")
    with reaching(url, tmp_path / "peer", token=TOKEN, seed=301, ssl_context=authority.client_context()) as found:
        peer = Peer(found, url)
        pulled = peer.pull("pulled")
        assert pulled.get("rows") == 2, pulled
        assert same(node, found, entry)
        own = made(found, "pushed")
        sent = peer.push(own, "local/pushed")
        assert sent.get("objects") == 2, sent
        assert same(found, node, own)


def test_a_certificate_of_an_unknown_authority_is_refused(secure: tuple[MemoryNode, str], tmp_path: Path) -> None:
    node, url = secure
    made(node, "pulled")
    with reaching(url, tmp_path / "peer", token=TOKEN, seed=302) as found:
        refused = Peer(found, url).pull("pulled")
        assert refused["code"] == "unavailable"
        assert "certificate" in refused["message"].lower()
