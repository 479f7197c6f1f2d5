"""Idle connections of the guarded client, closed by servers upon reuse."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from odfabric.adapters.http.egress import Egress, SizeLimit
from odfabric.errors import Determinate
from tests.support.loopback_http import LoopbackServer, Seen, reply

HELD_S_MAX = 5.0
AT_ONCE = 3
GOOD = reply(200, b"good")


def got(egress: Egress, url: str) -> bytes:
    with egress.get(url, limit=SizeLimit(name="source_bytes_max", bytes_max=1_000)) as answer:
        return answer.read()


def serving(respond: Callable[[LoopbackServer, Seen], bytes | Iterator[bytes]]) -> LoopbackServer:
    """A server that knows what it has seen.

    An answer without pieces closes the connection.
    """
    server: LoopbackServer = LoopbackServer(lambda seen: respond(server, seen))
    return server


def test_an_idle_connection_that_the_server_closes_is_no_failure() -> None:
    """It may close at the moment when the next request comes."""
    server = serving(lambda this, _: iter([]) if len(this.seen) == 2 else GOOD)
    with server.serving(), Egress(allow=[server.place]) as egress:
        assert [got(egress, server.url()) for _ in range(3)] == [b"good"] * 3
    assert (len(server.seen), server.connections) == (4, 2)


def test_a_connection_that_is_closed_at_once_is_asked_once() -> None:
    server = serving(lambda *_: iter([]))
    with server.serving(), Egress(allow=[server.place]) as egress, pytest.raises(Determinate):
        got(egress, server.url())
    assert len(server.seen) == 1


def test_a_server_that_closes_all_idle_connections_is_asked_a_bounded_number_of_times() -> None:
    """Those that are idle at the time, then a new one."""
    held = threading.Barrier(AT_ONCE)

    def answered(_: LoopbackServer, seen: Seen) -> bytes | Iterator[bytes]:
        if seen.target == "/gone":
            return iter([])
        held.wait(HELD_S_MAX)
        return GOOD

    server = serving(answered)
    with server.serving(), Egress(allow=[server.place]) as egress:
        threads = [threading.Thread(target=got, args=(egress, server.url("/hold"))) for _ in range(AT_ONCE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HELD_S_MAX)
        with pytest.raises(Determinate):
            got(egress, server.url("/gone"))
    assert [seen.target for seen in server.seen].count("/gone") == AT_ONCE + 1
