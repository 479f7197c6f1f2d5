"""Places for Smart conversations: shares of callers, and clients that say nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from odfabric.errors import Determinate, LimitExceeded
from odfabric.model.people.account import DatasetRole
from odfabric_api.conversations.transfer_places import TRY_AGAIN_S, TransferPlaces
from tests.services.api.people import People
from tests.services.api.serving import Served, serving
from tests.services.api.smart_peer import reaching
from tests.support.waiting import wait_until

BEGIN = '{"begin_after":null,"stop_at":null,"force_update_if_diverged":false}'
PLACES = {
    "smart_transfers_at_once_max": 4,
    "smart_transfers_per_account_max": 2,
    "smart_transfers_anonymous_max": 3,
}


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> People:
    found = People(tmp_path_factory.mktemp("people"), **PLACES)
    found.grant(found.add("ann", "open"), "*", DatasetRole.READER)
    return found


@pytest.fixture
def served(people: People) -> Iterator[Served]:
    with serving(people.node) as found:
        yield found


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def places_of(served: Served) -> TransferPlaces:
    found = served.app.state.transfer_places
    assert isinstance(found, TransferPlaces)
    return found


@contextmanager
def silent(served: Served, people: People, who: str) -> Iterator[ClientConnection]:
    """A client that says nothing; `who` is an account, or a stranger's address."""
    headers = {"x-odf-smtp-version": "1"}
    more: dict[str, Any] = {}
    if who[:1].isdigit():
        more = {"source_address": (who, 0)}
    else:
        headers |= people.bearer(who)
    url = served.url.replace("http://", "ws://") + "/ann/open/pull"
    talk = connect(
        url, additional_headers=headers, proxy=None, ping_interval=None, compression=None, legacy=True, **more
    )
    try:
        yield talk
    finally:
        talk.close()


@contextmanager
def begun(served: Served, people: People, who: str) -> Iterator[ClientConnection]:
    """One whose first message was answered."""
    with silent(served, people, who) as talk:
        talk.send(BEGIN)
        assert "Ok" in json.loads(talk.recv(timeout=20))
        yield talk


def refused(served: Served, people: People, who: str) -> tuple[int, str, str | None]:
    """Status, limit and time to try again of a refusal before the upgrade."""
    with pytest.raises(InvalidStatus) as found, silent(served, people, who):
        pass
    response = found.value.response
    body = json.loads(bytes(response.body or b""))
    return response.status_code, body["limit"], response.headers.get("retry-after")


def test_an_account_takes_its_share_and_no_more(served: Served, people: People, stack: ExitStack) -> None:
    for _ in range(2):
        stack.enter_context(begun(served, people, "pia"))
    assert refused(served, people, "pia") == (429, "smart_transfers_per_account_max", str(TRY_AGAIN_S))
    for _ in range(2):
        stack.enter_context(begun(served, people, "gus"))
    assert refused(served, people, "max") == (429, "smart_transfers_at_once_max", str(TRY_AGAIN_S))
    stack.close()
    wait_until(lambda: places_of(served).places.taken == 0, what="free places")
    with begun(served, people, "pia"):
        pass


def test_strangers_share_by_address_and_leave_places(served: Served, people: People, stack: ExitStack) -> None:
    for _ in range(2):
        stack.enter_context(begun(served, people, "127.0.0.1"))
    assert refused(served, people, "127.0.0.1") == (429, "smart_transfers_per_account_max", str(TRY_AGAIN_S))
    stack.enter_context(begun(served, people, "127.0.0.2"))
    assert refused(served, people, "127.0.0.3") == (429, "smart_transfers_anonymous_max", str(TRY_AGAIN_S))
    stack.enter_context(begun(served, people, "pia"))


def test_who_says_nothing_takes_no_place(served: Served, people: People, stack: ExitStack) -> None:
    """All who are silent together leave the places to those who speak."""
    for who in ("ann", "ann", "rita", "rita", "127.0.0.1", "127.0.0.1"):
        stack.enter_context(silent(served, people, who))
    assert places_of(served).places.taken == 0
    for who in ("pia", "pia", "gus", "gus"):
        stack.enter_context(begun(served, people, who))
    assert places_of(served).places.taken == 4
    assert refused(served, people, "ann")[1] == "smart_transfers_per_account_max"


def test_silent_strangers_leave_accounts_room_to_wait(served: Served, people: People, stack: ExitStack) -> None:
    for number in (1, 2, 3):
        for _ in range(2):
            stack.enter_context(silent(served, people, f"127.0.0.{number}"))
    assert refused(served, people, "127.0.0.4") == (429, "smart_transfers_anonymous_max", str(TRY_AGAIN_S))
    stack.enter_context(begun(served, people, "pia"))


def test_a_place_that_is_gone_by_the_first_message(served: Served, people: People, stack: ExitStack) -> None:
    late = stack.enter_context(silent(served, people, "ann"))
    for who in ("pia", "pia", "gus", "gus"):
        stack.enter_context(begun(served, people, who))
    late.send(BEGIN)
    code, reason = end_of(late)
    failure = json.loads(reason)["Err"]["Internal"]
    assert (code, failure["phase"]) == (1013, {"Pull": "InitialRequest"})
    assert f"try again in {TRY_AGAIN_S} s" in failure["error_message"]


def test_silence_ends_and_gives_the_share_back(people: People, stack: ExitStack) -> None:
    settings = people.memory.settings
    people.memory.settings = settings.model_copy(update={"smart_first_message_s_max": 0.05})
    people.memory.restart()
    try:
        served = stack.enter_context(serving(people.node))
        for _ in range(3):
            with silent(served, people, "pia") as talk:
                code, reason = end_of(talk)
                assert (code, "first message" in reason) == (1011, True)
    finally:
        people.memory.settings = settings
        people.memory.restart()


def test_our_client_tries_again_when_the_node_says(
    served: Served, people: People, stack: ExitStack, tmp_path: Path
) -> None:
    url, token = f"odf+{served.url}/ann/open", people.bearer("pia")["authorization"].removeprefix("Bearer ")
    peer = stack.enter_context(reaching(served.url, tmp_path, token=token))
    late = stack.enter_context(peer._ports.conversations.open(url, "pull"))
    for who in ("rita", "rita", "gus", "gus"):
        stack.enter_context(begun(served, people, who))
    with pytest.raises(Determinate) as refusal, peer._ports.conversations.open(url, "pull"):
        pass
    assert refusal.value.retry_after_s == TRY_AGAIN_S
    from odfabric.usecases.transfer.smart_parts import heard

    late.say(BEGIN)
    with pytest.raises(Determinate, match="try again in") as closed:
        heard(late, lambda text: text, seconds_max=20.0, shown="the node")
    assert closed.value.retry_after_s is not None


def test_a_caller_without_an_address_has_a_share(people: People) -> None:
    from odfabric.domain.people.access import STRANGER

    places = TransferPlaces(people.memory.settings)
    with places.share_of(STRANGER), places.share_of(STRANGER), pytest.raises(LimitExceeded), places.share_of(STRANGER):
        pass


def end_of(talk: ClientConnection) -> tuple[int, str]:
    """Code and reason of the close frame."""
    with pytest.raises(ConnectionClosed) as closed:
        talk.recv(timeout=20)
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code, closed.value.rcvd.reason
