"""A message broker in this process, with sessions kept between connections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from odfabric.domain.sources.message_rows import check_messages, message_line
from odfabric.errors import Determinate, InvalidData
from odfabric.model.source import FetchStepMqtt, MqttQos, ReadStepNdJson


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryMessage:
    """A published message; `retained` if it is sent because of a subscription."""

    topic: str
    payload: bytes
    qos: int
    retained: bool = False
    again: bool = False


@dataclass(slots=True)
class _Session:
    topics: dict[str, int] = field(default_factory=dict)
    waiting: list[MemoryMessage] = field(default_factory=list)


class MemoryMessageSource:
    """A MessageSource and its broker.

    `cut` makes the next acknowledgement fail; `steps` are those that it was asked for.
    """

    def __init__(self) -> None:
        self.cut = False
        self.steps: list[FetchStepMqtt] = []
        self._sessions: dict[str, _Session] = {}
        self._retained: dict[str, MemoryMessage] = {}

    def publish(self, topic: str, payload: bytes, *, qos: int = 1, retain: bool = False) -> None:
        """Send a message to every session that has subscribed.

        With `retain` to those that will, too.
        """
        if retain:
            self._retained[topic] = MemoryMessage(topic=topic, payload=payload, qos=qos, retained=True)
        for session in self._sessions.values():
            granted = _granted(session, topic)
            if min(qos, granted) > 0:
                session.waiting.append(MemoryMessage(topic=topic, payload=payload, qos=1))

    @contextmanager
    def receive(
        self, step: FetchStepMqtt, *, client_id: str, ingested_before: bool, messages_max: int, into: Path
    ) -> Iterator[_MemoryBatch]:
        """See the port."""
        check_messages(step, ReadStepNdJson())
        self.steps.append(step)
        resumed = client_id in self._sessions
        session = self._sessions.setdefault(client_id, _Session())
        session.topics = {topic.path: min(1, (topic.qos or MqttQos.AT_MOST_ONCE).value) for topic in step.topics}
        for message in self._retained.values():
            granted = _granted(session, message.topic)
            if granted >= 0 and not (resumed and ingested_before and min(granted, message.qos) > 0):
                session.waiting.append(message)
        taken: list[MemoryMessage] = []
        with into.open("xb") as file:
            for message in session.waiting:
                if len(taken) == messages_max:
                    break
                try:
                    line = message_line(message.payload, topic=message.topic, client_id=client_id)
                except InvalidData:
                    if taken:
                        break
                    into.unlink()
                    raise
                if line is not None:
                    file.write(line + b"\n")
                    taken.append(message)
        yield _MemoryBatch(self, session, taken, more=bool(taken))


class _MemoryBatch:
    """A MessageBatch."""

    def __init__(
        self, broker: MemoryMessageSource, session: _Session, taken: list[MemoryMessage], *, more: bool
    ) -> None:
        self._broker = broker
        self._session = session
        self._taken = taken
        self.count = len(taken)
        self.more = more

    def acknowledge(self) -> None:
        """See the port."""
        if self._broker.cut:
            self._broker.cut = False
            raise Determinate("messages are committed, but not acknowledged")
        gone = {id(message) for message in self._taken}
        self._session.waiting = [message for message in self._session.waiting if id(message) not in gone]


def _granted(session: _Session, topic: str) -> int:
    """The QoS at which a session gets a topic, -1 if it does not."""
    return max((qos for pattern, qos in session.topics.items() if _matches(pattern, topic)), default=-1)


def _matches(pattern: str, topic: str) -> bool:
    wanted, levels = pattern.split("/"), topic.split("/")
    if wanted[-1] == "#":
        wanted, levels = wanted[:-1], levels[: len(wanted) - 1]
    return len(wanted) == len(levels) and all(each in ("+", level) for each, level in zip(wanted, levels, strict=True))
