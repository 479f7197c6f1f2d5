"""Conversations of both roles end by a deadline that grows with announced bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.adapters.memory.transfer.conversations import MemoryConversation
from odfabric.errors import Determinate
from odfabric.ports.transfer.conversations import Closed, Conversation
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.transfer.timed_conversation import TimedConversation, TransferPace
from tests.usecases.transfer.smart_parties import PLACE, SERVED, SmartParties

WAIT_S = 20.0
MESSAGES_MAX = 1_000_000


class Ticking:
    """A peer each of whose messages comes after `step_s`, and the clock that shows it."""

    def __init__(self, step_s: float) -> None:
        self.step_s, self.now = step_s, 100.0
        self.waits: list[float] = []

    def say(self, text: str) -> None:
        return None

    def hear(self, *, seconds_max: float) -> str | Closed | None:
        self.waits.append(seconds_max)
        self.now += min(self.step_s, seconds_max)
        return "more" if self.step_s <= seconds_max else None

    def end(self, code: int, reason: str) -> None:
        return None


def timed(peer: Ticking, *, base_s: float, rate: int, total_s_max: float = 10**9) -> TimedConversation:
    pace = TransferPace(base_s=base_s, bytes_per_s_min=rate, total_s_max=total_s_max, seconds=lambda: peer.now)
    return TimedConversation(peer, pace, overdue=Determinate)


def heard_until_it_ends(talk: TimedConversation, *, seconds_max: float) -> int:
    for count in range(MESSAGES_MAX):
        try:
            if talk.hear(seconds_max=seconds_max) is None:
                return count
        except Determinate:
            return count
    raise AssertionError("it goes on for ever")


@given(
    step=st.integers(1, 50), base=st.integers(1, 1000), announced=st.integers(0, 10**6), longest=st.integers(1, 2000)
)
def test_messages_that_keep_coming_do_not_prolong_it(step: int, base: int, announced: int, longest: int) -> None:
    peer = Ticking(step)
    talk = timed(peer, base_s=base, rate=1000, total_s_max=longest)
    talk.announce(announced)
    heard_until_it_ends(talk, seconds_max=60.0)
    allowed = min(longest, base + announced / 1000)
    assert peer.now - 100.0 == pytest.approx(allowed)


def test_a_wait_within_the_time_is_only_over() -> None:
    talk = timed(Ticking(30.0), base_s=100.0, rate=1)
    assert talk.hear(seconds_max=10.0) is None


def test_a_wait_beyond_the_time_ends_it() -> None:
    peer = Ticking(30.0)
    talk = timed(peer, base_s=10.0, rate=1)
    with pytest.raises(Determinate, match="not done in 10 s"):
        talk.hear(seconds_max=60.0)
    assert peer.waits == [10.0]


@pytest.fixture
def parties(tmp_path: Path) -> SmartParties:
    found = SmartParties(tmp_path)
    found.ingest(1)
    return found


def hurried(node: MemoryNode) -> None:
    """Give conversations of a node next to no time."""
    short = {"smart_transfer_s": 0.2, "smart_transfer_bytes_per_s_min": 10**9}
    node.settings = node.settings.model_copy(update=short)
    node.restart()


@contextmanager
def client_of(parties: SmartParties) -> Iterator[MemoryConversation]:
    """A client by hand of a pull from `ours`."""
    ours, theirs = MemoryConversation.pair()
    thread = Thread(target=lambda: parties.answers.pull(theirs), daemon=True)
    thread.start()
    try:
        yield ours
    finally:
        ours.end(1000, "")
        thread.join(WAIT_S)
        assert not thread.is_alive()


def test_a_client_that_asks_for_ever_is_ended(parties: SmartParties) -> None:
    """Each request comes in time, and objects may be asked for any number of times."""
    hurried(parties.ours)
    with client_of(parties) as talk:
        talk.say('{"begin_after":null,"stop_at":null,"force_update_if_diverged":false}')
        talk.hear(seconds_max=WAIT_S)
        with suppress(Determinate):
            talk.say("{}")
        talk.hear(seconds_max=WAIT_S)
        for _ in range(MESSAGES_MAX):
            with suppress(Determinate):  # it has ended, and says why
                talk.say('{"object_files":[]}')
            found = talk.hear(seconds_max=WAIT_S)
            if isinstance(found, Closed):
                break
    assert isinstance(found, Closed)
    failure: Any = json.loads(found.reason)["Err"]["Internal"]
    assert (found.code, "too slow" in failure["error_message"]) == (1011, True)


def silent(talk: Conversation) -> None:
    """A server that takes the first message and says nothing until the client leaves."""
    while not isinstance(talk.hear(seconds_max=WAIT_S), Closed):
        pass


def test_a_server_that_says_nothing_is_given_up(parties: SmartParties) -> None:
    hurried(parties.theirs)
    parties.theirs.conversations.serve(SERVED, "pull", silent)
    problem = parties.smart_pull()
    assert (problem["code"], "too slow" in problem["message"]) == ("unavailable", True)


def test_a_node_that_does_not_answer_a_push_is_given_up(parties: SmartParties) -> None:
    hurried(parties.ours)
    parties.ours.conversations.serve(PLACE, "push", silent)
    problem = parties.smart_push()
    assert (problem["code"], "too slow" in problem["message"]) == ("unavailable", True)


def test_a_push_that_is_not_confirmed_in_time_may_have_happened(parties: SmartParties) -> None:
    """It says that it is done, its head is another one, and then hours pass."""
    now = [0.0]
    parties.ours._ports = replace(parties.ours._ports, monotonic_s=lambda: now[0])
    parties.ours.restart()

    def serve(talk: Conversation) -> None:
        for answer in ('{"Ok":{}}', '{"Ok":{}}', '{"Ok":{"object_transfer_strategies":[]}}'):
            talk.hear(seconds_max=WAIT_S)
            talk.say(answer)
        for _ in range(2):  # all objects are uploaded, and the push is complete
            talk.hear(seconds_max=WAIT_S)
        now[0] += parties.ours.settings.smart_transfer_s_max
        talk.say("{}")
        silent(talk)

    parties.ours.conversations.serve(PLACE, "push", serve)
    assert parties.smart_push()["code"] == "outcome-unknown"
