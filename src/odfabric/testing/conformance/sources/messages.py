"""What MessageSource promises, as tests.

A subclass gives a broker to publish with and the source that reads from it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pytest

from odfabric.errors import InvalidData, InvalidManifest
from odfabric.model.source import FetchStepMqtt, MqttQos, MqttTopicSubscription
from odfabric.ports.sources.messages import MessageSource


class Broker(Protocol):
    """A broker under test."""

    def step(self, *topics: str, qos: MqttQos | None = MqttQos.AT_LEAST_ONCE) -> FetchStepMqtt:
        """A source that subscribes to these topics here."""

    def publish(self, topic: str, payload: bytes, *, qos: int = 1, retain: bool = False) -> None:
        """Returns when the broker has it."""


class MessageSourceContract:
    """A subclass has the fixtures `broker` and `messages`."""

    @pytest.fixture
    def broker(self) -> Broker:
        """A broker on which no session exists."""
        raise NotImplementedError

    @pytest.fixture
    def messages(self) -> MessageSource:
        """The source under test."""
        raise NotImplementedError

    def taken(
        self,
        messages: MessageSource,
        step: FetchStepMqtt,
        folder: Path,
        *,
        acknowledge: bool = True,
        ingested_before: bool = False,
        messages_max: int = 1000,
    ) -> tuple[list[bytes], bool]:
        """Lines of one batch, and whether there may be more."""
        into = folder / f"batch-{len(list(folder.iterdir()))}"
        with messages.receive(
            step, client_id="odftest", ingested_before=ingested_before, messages_max=messages_max, into=into
        ) as batch:
            lines = into.read_bytes().splitlines()
            assert batch.count == len(lines)
            if acknowledge:
                batch.acknowledge()
            return lines, batch.more

    def test_nothing_published_is_an_empty_batch(self, broker: Broker, messages: MessageSource, tmp_path: Path) -> None:
        assert self.taken(messages, broker.step("a/#"), tmp_path) == ([], False)

    def test_messages_wait_in_the_session_and_come_in_order(
        self, broker: Broker, messages: MessageSource, tmp_path: Path
    ) -> None:
        step = broker.step("a/+/t")
        self.taken(messages, step, tmp_path)
        for number in range(5):
            broker.publish(f"a/{number % 2}/t", b'{"n": %d}' % number)
        broker.publish("b/0/t", b'{"n": 9}')
        assert self.taken(messages, step, tmp_path)[0] == [b'{"n": %d}' % number for number in range(5)]
        assert self.taken(messages, step, tmp_path) == ([], False)

    @pytest.mark.parametrize("qos", [MqttQos.AT_LEAST_ONCE, MqttQos.EXACTLY_ONCE])
    def test_what_is_not_acknowledged_comes_again(
        self, broker: Broker, messages: MessageSource, tmp_path: Path, qos: MqttQos
    ) -> None:
        step = broker.step("a", qos=qos)
        self.taken(messages, step, tmp_path)
        broker.publish("a", b'{"n": 1}', qos=qos.value)
        for _ in range(3):
            assert self.taken(messages, step, tmp_path, acknowledge=False)[0] == [b'{"n": 1}']
        assert self.taken(messages, step, tmp_path)[0] == [b'{"n": 1}']
        broker.publish("a", b'{"n": 2}', qos=qos.value)
        assert self.taken(messages, step, tmp_path)[0] == [b'{"n": 2}']
        assert self.taken(messages, step, tmp_path) == ([], False)

    def test_a_full_batch_leaves_the_rest_with_the_broker(
        self, broker: Broker, messages: MessageSource, tmp_path: Path
    ) -> None:
        step = broker.step("a")
        self.taken(messages, step, tmp_path)
        for number in range(7):
            broker.publish("a", b"[%d]" % number)
        assert self.taken(messages, step, tmp_path, messages_max=3) == ([b"[0]", b"[1]", b"[2]"], True)
        assert self.taken(messages, step, tmp_path)[0] == [b"[3]", b"[4]", b"[5]", b"[6]"]

    def test_line_ends_within_a_document_become_blanks(
        self, broker: Broker, messages: MessageSource, tmp_path: Path
    ) -> None:
        step = broker.step("a")
        self.taken(messages, step, tmp_path)
        broker.publish("a", b'\n{\r\n "x": "a\\nb",\n "y": 9007199254740993\n}\n')
        assert self.taken(messages, step, tmp_path)[0] == [b'{   "x": "a\\nb",  "y": 9007199254740993 }']

    def test_an_empty_message_makes_no_row(self, broker: Broker, messages: MessageSource, tmp_path: Path) -> None:
        step = broker.step("a")
        self.taken(messages, step, tmp_path)
        broker.publish("a", b"")
        broker.publish("a", b"{}")
        assert self.taken(messages, step, tmp_path)[0] == [b"{}"]

    @pytest.mark.parametrize("payload", [b"12.5 C", b'{"a": 1', b'{"a": "\xff"}', b'{"a": 1} {"a": 2}', b"[" * 100_000])
    def test_what_is_no_json_comes_first_and_is_refused(
        self, broker: Broker, messages: MessageSource, tmp_path: Path, payload: bytes
    ) -> None:
        step = broker.step("a")
        self.taken(messages, step, tmp_path)
        broker.publish("a", b"{}")
        broker.publish("a", payload)
        assert self.taken(messages, step, tmp_path)[0] == [b"{}"]
        for _ in range(2):
            with pytest.raises(InvalidData, match="message of topic 'a'"):
                self.taken(messages, step, tmp_path)

    def test_a_retained_message_is_taken_once(self, broker: Broker, messages: MessageSource, tmp_path: Path) -> None:
        step = broker.step("r")
        broker.publish("r", b'{"n": 1}', retain=True)
        assert self.taken(messages, step, tmp_path)[0] == [b'{"n": 1}']
        assert self.taken(messages, step, tmp_path, ingested_before=True) == ([], False)
        broker.publish("r", b'{"n": 2}', retain=True)
        assert self.taken(messages, step, tmp_path, ingested_before=True)[0] == [b'{"n": 2}']

    @pytest.mark.parametrize("topics", [(), ("",), ("a/#/b",), ("a+",), ("a\0",), ("a#",)])
    def test_topics_that_no_broker_takes_are_refused(
        self, broker: Broker, messages: MessageSource, tmp_path: Path, topics: tuple[str, ...]
    ) -> None:
        with pytest.raises(InvalidManifest) as caught:
            self.taken(messages, broker.step(*topics), tmp_path)
        assert str(caught.value.place.field).startswith("fetch.topics")


def mqtt_step(host: str, port: int, *topics: str, qos: MqttQos | None = None) -> FetchStepMqtt:
    """A source that subscribes to topics."""
    subscriptions = tuple(MqttTopicSubscription(path=topic, qos=qos) for topic in topics)
    return FetchStepMqtt(host=host, port=port, topics=subscriptions)
