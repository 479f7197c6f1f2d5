"""The contract of `ports.transfer.conversations.Conversations`, as tests."""

from __future__ import annotations

import queue
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import pytest

from odfabric.errors import AccessDenied, Determinate, NotFound, OdfError, Unauthenticated
from odfabric.ports.transfer.conversations import Closed, Conversation, Conversations

WAIT_S = 30.0
LONG_CHARACTERS = 9 * 1024 * 1024
"""More than two frames of the Smart protocol."""
REASON = "x" * 123

Handler = Callable[[Conversation], None]


class Serve(Protocol):
    """Makes the other end; `refusal` answers in its place."""

    def __call__(self, handler: Handler, *, refusal: type[OdfError] | None = None) -> str:
        """The URL of a dataset about which conversations are held."""


@dataclass(frozen=True, slots=True)
class Talks:
    """Conversations, and how another end is made for them."""

    conversations: Conversations
    serve: Serve


def heard(talk: Conversation) -> str:
    """The next message, which must come."""
    found = talk.hear(seconds_max=WAIT_S)
    assert isinstance(found, str), found
    return found


def echo(talk: Conversation) -> None:
    """Say what is heard, until the other end closes."""
    while isinstance(found := talk.hear(seconds_max=WAIT_S), str):
        talk.say(found)


class ConversationsContract:
    """Run by each adapter with a fixture `talks`."""

    @pytest.fixture
    def talks(self) -> Talks:
        raise NotImplementedError

    @pytest.mark.parametrize("verb", ["pull", "push"])
    def test_messages_come_in_order(self, talks: Talks, verb: Literal["pull", "push"]) -> None:
        with talks.conversations.open(talks.serve(echo), verb) as talk:
            for number in range(20):
                talk.say(f"message {number}")
            assert [heard(talk) for _ in range(20)] == [f"message {number}" for number in range(20)]

    def test_a_long_message_comes_whole(self, talks: Talks) -> None:
        text = "0123456789abcdef" * (LONG_CHARACTERS // 16)
        with talks.conversations.open(talks.serve(echo), "pull") as talk:
            talk.say(text)
            assert heard(talk) == text

    def test_silence_is_nothing_and_not_the_end(self, talks: Talks) -> None:
        with talks.conversations.open(talks.serve(echo), "pull") as talk:
            assert talk.hear(seconds_max=0.01) is None
            talk.say("still there")
            assert heard(talk) == "still there"

    def test_the_end_comes_after_what_was_said_with_its_code_and_reason(self, talks: Talks) -> None:
        def server(talk: Conversation) -> None:
            talk.say("last words")
            talk.end(1011, REASON)

        with talks.conversations.open(talks.serve(server), "pull") as talk:
            assert heard(talk) == "last words"
            for _ in range(2):
                assert talk.hear(seconds_max=WAIT_S) == Closed(1011, REASON)
            with pytest.raises(Determinate):
                talk.say("too late")

    def test_our_end_is_heard_there(self, talks: Talks) -> None:
        ends: queue.SimpleQueue[str | Closed | None] = queue.SimpleQueue()

        def server(talk: Conversation) -> None:
            ends.put(talk.hear(seconds_max=WAIT_S))
            talk.end(1000, "")

        with talks.conversations.open(talks.serve(server), "pull") as talk:
            talk.end(1000, "Client pull flow succeeded")
            talk.end(1000, "a second time is nothing")
            with pytest.raises(Determinate):
                talk.say("too late")
        assert ends.get(timeout=WAIT_S) == Closed(1000, "Client pull flow succeeded")

    def test_a_server_that_goes_without_a_word(self, talks: Talks) -> None:
        def server(talk: Conversation) -> None:
            del talk

        with talks.conversations.open(talks.serve(server), "pull") as talk:
            assert isinstance(talk.hear(seconds_max=WAIT_S), Closed)

    @pytest.mark.parametrize("refusal", [Unauthenticated, AccessDenied, NotFound])
    def test_a_refusal_before_it_begins(self, talks: Talks, refusal: type[OdfError]) -> None:
        url = talks.serve(echo, refusal=refusal)
        with pytest.raises(refusal), talks.conversations.open(url, "pull"):
            raise AssertionError("it began")
