"""The device flow on the device: when the node is asked again, and its end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.cli.backends.backend import JobFailed
from odfabric.cli.backends.node_connection import NodeConnection
from odfabric.cli.people.device_flow import GRANT_TYPE, INTERVAL_S_MAX, StartedDevice, start_device, wait_for_approval
from odfabric.errors import AccessDenied, Determinate, InvalidRequest, OdfError, TokenExpired

STARTED = StartedDevice(
    device_code="secret",
    user_code="BCDF-GHJK",
    address="https://n/device",
    address_with_code="",
    interval_s=2,
    expires_s=60,
)
PENDING, SLOW_DOWN, AWAY, GRANTED = "authorization_pending", "slow_down", "away", "granted"


@dataclass
class Peer(httpx.BaseTransport):
    """A node that answers by a script, its last word again and again.

    Time passes only while the device sleeps.
    """

    words: list[str]
    now_s: float = 0.0
    asked: list[tuple[float, str]] = field(default_factory=list)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        word = self.words[min(len(self.asked), len(self.words) - 1)]
        self.asked.append((self.now_s, request.read().decode()))
        if word == AWAY:
            raise httpx.ConnectError("Connection refused")
        if word == GRANTED:
            return httpx.Response(200, json={"access_token": "token-of-ann"})
        return httpx.Response(400, json={"error": word, "code": word, "message": word})

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@contextmanager
def connection_to(respond: httpx.BaseTransport) -> Iterator[NodeConnection]:
    with closing(NodeConnection("https://n", token=None)) as connection:
        connection.http = httpx.Client(base_url="https://n", transport=respond)
        yield connection


def waited(peer: Peer) -> str:
    with connection_to(peer) as connection:
        return wait_for_approval(connection, STARTED, client="odf", sleep=peer.sleep, seconds=lambda: peer.now_s)


@given(st.lists(st.sampled_from([PENDING, SLOW_DOWN, AWAY]), max_size=12))
def test_the_node_is_never_asked_faster_than_it_allows_nor_longer_than_the_code_counts(words: list[str]) -> None:
    peer = Peer([*words, GRANTED])
    try:
        assert waited(peer) == "token-of-ann"
    except (TokenExpired, Determinate):
        assert peer.now_s >= STARTED.expires_s, "it gives up when the code counts no longer"
    allowed_s = float(STARTED.interval_s)
    before_s = 0.0
    for (asked_s, _), word in zip(peer.asked, [*words, GRANTED], strict=False):
        assert asked_s - before_s >= allowed_s
        before_s = asked_s
        allowed_s += 5 if word == SLOW_DOWN else 0
    assert before_s < STARTED.expires_s + INTERVAL_S_MAX + 5 * len(words)


def test_what_the_node_is_asked() -> None:
    peer = Peer([PENDING, GRANTED])
    waited(peer)
    (first, _), (second, form) = peer.asked
    assert (first, second) == (2, 4)
    assert parse_qs(form) == {"client_id": ["odf"], "device_code": ["secret"], "grant_type": [GRANT_TYPE]}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([PENDING, "access_denied"], AccessDenied),
        ([PENDING, "expired_token"], TokenExpired),
        ([PENDING], TokenExpired),
        ([AWAY], Determinate),
        (["invalid_grant"], JobFailed),
        (["something else"], JobFailed),
    ],
)
def test_how_it_ends_without_a_token(words: list[str], error: type[Exception]) -> None:
    with pytest.raises(error) as ended:
        waited(Peer(words))
    if isinstance(ended.value, OdfError):
        assert ended.value.hint
        assert "secret" not in str(ended.value)


@dataclass
class Fixed(httpx.BaseTransport):
    """The same answer to everything."""

    answer: Callable[[], httpx.Response]

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self.answer()


def started_by(document: object) -> StartedDevice:
    with connection_to(Fixed(lambda: httpx.Response(200, text=json.dumps(document)))) as connection:
        return start_device(connection, client="odf")


def test_what_a_node_leaves_out_has_a_default() -> None:
    told = {"device_code": "d", "user_code": "u", "verification_uri": "https://n/device"}
    started = started_by(told)
    assert (started.address_with_code, started.interval_s, started.expires_s) == ("https://n/device", 5, 600)
    assert started_by({**told, "interval": 0, "expires_in": -1}).interval_s == 1


@pytest.mark.parametrize("document", [[], "text", {}, {"device_code": "d", "user_code": "u"}])
def test_an_address_that_is_no_nodes_is_told(document: object) -> None:
    with pytest.raises(InvalidRequest, match="does not answer as a node"):
        started_by(document)


def test_a_page_in_place_of_an_answer_is_told() -> None:
    answer = httpx.Response(200, text="<html>")
    with connection_to(Fixed(lambda: answer)) as connection, pytest.raises(InvalidRequest, match="look at the address"):
        start_device(connection, client="odf")
