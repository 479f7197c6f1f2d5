"""Messages of an MQTT 3.1.1 broker, acknowledged when their rows are committed.

The broker keeps the session.

Owns the connection: one client of paho driven by hand, so that nothing is read from the socket that is not wanted (the rest waits with
the broker) and nothing is acknowledged early. Invariant: what lets a broker forget a message (PUBACK, for QoS 2 PUBREC) leaves only in
`acknowledge`, except for messages that make no row; paho by itself sends PUBREC at once. Not here: which payloads are rows (`domain.sources.message_rows`), where connections may
lead (`ports.sources.egress.TcpConnections`).
Source: MQTT 3.1.1, sections 3.1, 4.3, 4.4.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO

from paho.mqtt.client import Client, MQTTMessage, MQTTv311
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.reasoncodes import ReasonCode

from odfabric.domain.sources.message_rows import check_messages, message_line
from odfabric.errors import AccessDenied, Determinate, InvalidData, InvalidManifest, LimitExceeded, OdfError, Place
from odfabric.model.source import FetchStepMqtt, MqttQos, ReadStepNdJson
from odfabric.ports.sources.egress import TcpConnections

_EXACTLY_ONCE = 2
_BAD_CREDENTIALS = frozenset({"Bad user name or password", "Not authorized", "Client identifier not valid"})
_DISCONNECT = b"\xe0\x00"
_GOODBYE_S_MAX = 5.0
_DRAINED_PIECE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttLimits:
    """Seconds of a connection's steps, and of one batch.

    Bytes of the payloads of one batch; ports on which brokers speak TLS.
    """

    connect_s_max: float = 30.0
    idle_s: float = 1.0
    batch_s_max: float = 60.0
    batch_bytes_max: int = 64 * 1024 * 1024
    keepalive_s: int = 1200
    tls_ports: Collection[int] = (8883,)


class PahoMessageSource:
    """`ports.sources.messages.MessageSource`."""

    def __init__(self, connections: TcpConnections, limits: MqttLimits, ssl_context: ssl.SSLContext) -> None:
        self._connections = connections
        self._limits = limits
        self._ssl_context = ssl_context

    @contextmanager
    def receive(
        self, step: FetchStepMqtt, *, client_id: str, ingested_before: bool, messages_max: int, into: Path
    ) -> Iterator[_Batch]:
        """See the port."""
        check_messages(step, ReadStepNdJson())
        client = _GuardedClient(self._connections, self._limits, client_id=client_id)
        if step.username is not None:
            client.username_pw_set(step.username, step.password)
        if step.port in self._limits.tls_ports:
            client.tls_set_context(self._ssl_context)
        session = _Session(client, step, self._limits, client_id=client_id, ingested_before=ingested_before)
        try:
            session.open()
            with _new_file(into) as file:
                batch = session.batch(file, messages_max=messages_max)
            yield batch
        finally:
            session.close()


class _GuardedClient(Client):
    """A paho client with sockets of the guard, bounded reads, and manual acks.

    It reads no more bytes than a batch may have and confirms nothing by itself.

    paho has no public way to either; the suite of `ports.sources.messages` against a real broker says when a new version differs.
    """

    def __init__(self, connections: TcpConnections, limits: MqttLimits, *, client_id: str) -> None:
        super().__init__(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            clean_session=False,
            protocol=MQTTv311,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        self.connect_timeout = limits.connect_s_max
        self._connections = connections
        # A message is as large as a batch at most, and the batch before it may be just short of full.
        self._unread_bytes = 2 * limits.batch_bytes_max
        self.too_large = False
        self.held: list[int] = []
        self.released: set[int] = set()

    def take_held(self) -> list[MQTTMessage]:
        """Messages of QoS 2 that have arrived since the last call, none of them confirmed."""
        held, self.held = self.held, []
        with self._in_message_mutex:
            return [message for mid in held if (message := self._in_messages.pop(mid, None)) is not None]

    def confirm(self, mid: int, qos: int) -> bool:
        """Queue the packet that lets the broker forget a message.

        Whether there is a connection to send it on.
        """
        outcome = super()._send_pubrec(mid) if qos == _EXACTLY_ONCE else self.ack(mid, qos)
        return outcome is MQTTErrorCode.MQTT_ERR_SUCCESS

    def _send_pubrec(self, mid: int) -> MQTTErrorCode:
        self.held.append(mid)
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _handle_pubrel(self) -> MQTTErrorCode:
        (mid,) = struct.unpack("!H", self._in_packet["packet"][:2])
        self.released.add(mid)
        return self._send_pubcomp(mid)

    def _create_socket_connection(self) -> socket.socket:
        return self._connections.connect(self._host, self._port, seconds_max=self.connect_timeout)

    def _ssl_wrap_socket(self, tcp_sock: socket.socket) -> ssl.SSLSocket:
        # paho's own leaves the socket open when the handshake fails.
        if self._ssl_context is None:
            raise ValueError("TLS without a context")
        try:
            tcp_sock.settimeout(self.connect_timeout)
            return self._ssl_context.wrap_socket(tcp_sock, server_hostname=self._host)
        finally:
            tcp_sock.close()  # of a wrapped socket only the empty shell is left

    def _sock_recv(self, bufsize: int) -> bytes:
        # A packet of a quarter of a gigabyte may be announced in five bytes, and would be gathered in memory.
        if self._unread_bytes <= 0:
            self.too_large = True
            raise ConnectionError("more bytes than a batch may have")
        received = super()._sock_recv(min(bufsize, self._unread_bytes))
        self._unread_bytes -= len(received)
        return received


class _Session:
    """One connection to a broker, from CONNECT to DISCONNECT."""

    def __init__(
        self,
        client: _GuardedClient,
        step: FetchStepMqtt,
        limits: MqttLimits,
        *,
        client_id: str,
        ingested_before: bool,
    ) -> None:
        self._client = client
        self._client_id = client_id
        self._step = step
        self._limits = limits
        self._ingested_before = ingested_before
        self._resumed = False
        self._answer: ReasonCode | None = None
        self._granted: list[ReasonCode] | None = None
        self._arrived: deque[MQTTMessage] = deque()
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message

    @property
    def _shown(self) -> str:
        return f"mqtt://{self._step.host}:{self._step.port}"

    def open(self) -> None:
        """Connect and subscribe.

        Raises AccessDenied, InvalidManifest, Determinate, and what the guard raises.
        """
        deadline = monotonic() + self._limits.connect_s_max
        try:
            self._client.connect(self._step.host, self._step.port, keepalive=self._limits.keepalive_s)
        except ssl.SSLError as error:
            raise Determinate(f"{self._shown}: TLS was not agreed on: {error.reason}", stage="tls") from None
        except (OSError, ValueError) as error:
            raise Determinate(f"{self._shown}: {_reason(error)}", stage="connect") from None
        self._wait_for(lambda: self._answer is not None, deadline, "did not answer in time")
        self._check_answer()
        topics = self._topics_to_ask_for()
        if not topics:
            return
        self._client.subscribe(topics)
        self._wait_for(lambda: self._granted is not None, deadline, "did not answer the subscription in time")
        for (topic, _), granted in zip(topics, self._granted or (), strict=False):
            if granted.is_failure:
                raise AccessDenied(
                    f"{self._shown} refuses the topic {topic!r}",
                    place=Place(field="fetch.topics"),
                    hint="let the user of the source read it, or correct its name",
                )

    def batch(self, file: BinaryIO, *, messages_max: int) -> _Batch:
        """Receive into `file` until the broker is idle or a limit is met.

        Raises as the port says.
        """
        batch = _Batch(self)
        size, deadline = 0, monotonic() + self._limits.batch_s_max
        idle_at = monotonic() + self._limits.idle_s
        while batch.count < messages_max and size < self._limits.batch_bytes_max:
            left_s = min(idle_at, deadline) - monotonic()
            if left_s <= 0 and not self._arrived:
                batch.more = batch.count > 0 and monotonic() < deadline
                return batch
            if not self._arrived:
                self._step_loop(left_s)
                continue
            message = self._arrived.popleft()
            idle_at = monotonic() + self._limits.idle_s
            try:
                line = self._line(message)
            except InvalidData:
                if batch.count == 0:
                    raise
                return batch  # those before it are taken; then it is the first one
            if line is None:
                self._client.confirm(message.mid, message.qos)
                continue
            size += file.write(line + b"\n")
            batch.take(message)
        batch.more = True
        return batch

    def acknowledge(self, messages: Collection[tuple[int, int]]) -> None:
        """Acknowledge these, and wait until the broker has closed the connection.

        Raises Determinate.
        """
        connection: Any = self._client.socket()
        try:
            for mid, qos in messages:
                if not self._client.confirm(mid, qos):
                    raise OSError("the connection was cut")
            self._finish_exchanges({mid for mid, qos in messages if qos == _EXACTLY_ONCE})
            self._flush(connection)
        except OSError as error:
            raise Determinate(
                f"{self._shown}: messages are committed, but not acknowledged: {_reason(error)}",
                hint="they come again; a merge strategy with a primary key recognises them",
            ) from None

    def close(self) -> None:
        """Close the connection; what was not acknowledged stays with the broker."""
        with suppress(OSError, ValueError):
            self._client.disconnect()

    def _finish_exchanges(self, mids: set[int]) -> None:
        """Wait until the broker has released messages of QoS 2.

        Where it does not, it asks again on the next connection.
        """
        deadline = monotonic() + _GOODBYE_S_MAX
        while not mids <= self._client.released and (left := deadline - monotonic()) > 0:
            if self._client.loop(left) is not MQTTErrorCode.MQTT_ERR_SUCCESS:
                raise OSError("the connection was cut")

    def _flush(self, connection: Any) -> None:
        deadline = monotonic() + self._limits.connect_s_max
        while self._client.want_write():
            if monotonic() > deadline or self._client.loop_write() is not MQTTErrorCode.MQTT_ERR_SUCCESS:
                raise OSError("the connection was cut")
        if connection is None:
            raise OSError("the connection was cut")
        # Closing a socket that holds unread bytes resets the connection, and the broker may lose what it has not read yet.
        connection.settimeout(_GOODBYE_S_MAX)
        connection.sendall(_DISCONNECT)
        connection.shutdown(socket.SHUT_WR)
        until = monotonic() + _GOODBYE_S_MAX
        with suppress(TimeoutError, ConnectionResetError):
            while monotonic() < until and connection.recv(_DRAINED_PIECE_BYTES):
                pass

    def _topics_to_ask_for(self) -> list[tuple[str, int]]:
        """Topics that the session does not know yet, and those of QoS 0.

        Subscribing brings their retained messages once more.
        """
        known = self._resumed and self._ingested_before
        wanted = [(topic.path, (topic.qos or MqttQos.AT_MOST_ONCE).value) for topic in self._step.topics]
        return [(path, qos) for path, qos in wanted if not (known and qos > 0)]

    def _line(self, message: MQTTMessage) -> bytes | None:
        if len(message.payload) > self._limits.batch_bytes_max:
            raise self._too_large()
        return message_line(bytes(message.payload), topic=message.topic, client_id=self._client_id)

    def _step_loop(self, seconds: float) -> None:
        try:
            outcome = self._client.loop(max(seconds, 0.0))
        except OdfError:
            raise
        except (OSError, ValueError) as error:
            raise Determinate(f"{self._shown}: {_reason(error)}", stage="read") from None
        self._arrived.extend(self._client.take_held())
        if self._client.too_large:
            raise self._too_large()
        if outcome is not MQTTErrorCode.MQTT_ERR_SUCCESS:
            self._check_answer()
            raise Determinate(f"{self._shown}: the broker has cut the connection", stage="read")

    def _too_large(self) -> LimitExceeded:
        return LimitExceeded(
            f"a message of {self._shown} is too large",
            limit="mqtt_batch_bytes_max",
            maximum=self._limits.batch_bytes_max,
        )

    def _wait_for(self, condition: Callable[[], bool], deadline: float, problem: str) -> None:
        while not condition():
            left = deadline - monotonic()
            if left <= 0:
                raise Determinate(f"{self._shown} {problem}", stage="connect")
            self._step_loop(left)

    def _check_answer(self) -> None:
        answer = self._answer
        if answer is None or not answer.is_failure:
            return
        if answer.getName() in _BAD_CREDENTIALS:
            raise AccessDenied(
                f"{self._shown} refuses the connection: {answer.getName()}",
                place=Place(field="fetch.username"),
                hint="correct username and password of the source",
            )
        if answer.getName() == "Unsupported protocol version":
            raise InvalidManifest(f"{self._shown} does not speak MQTT 3.1.1", place=Place(field="fetch.host"))
        raise Determinate(f"{self._shown} refuses the connection: {answer.getName()}", stage="connect")

    def _on_connect(self, _client: Client, _data: Any, flags: Any, answer: ReasonCode, _properties: Any) -> None:
        self._resumed = flags.session_present
        self._answer = answer

    def _on_subscribe(
        self, _client: Client, _data: Any, _mid: int, granted: list[ReasonCode], _properties: Any
    ) -> None:
        self._granted = granted

    def _on_message(self, _client: Client, _data: Any, message: MQTTMessage) -> None:
        self._arrived.append(message)


class _Batch:
    """A MessageBatch."""

    def __init__(self, session: _Session) -> None:
        self._session = session
        self._messages: list[tuple[int, int]] = []
        self.count = 0
        self.more = False

    def take(self, message: MQTTMessage) -> None:
        """Count a message that made a row, and remember its acknowledgement."""
        self.count += 1
        if message.qos > 0:
            self._messages.append((message.mid, message.qos))

    def acknowledge(self) -> None:
        """See the port."""
        self._session.acknowledge(self._messages)


@contextmanager
def _new_file(path: Path) -> Iterator[BinaryIO]:
    """A stream into a new file, which is removed again if the context fails.

    Raises Determinate if it cannot be written.
    """
    try:
        with path.open("xb") as file:
            yield file
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise Determinate(f"{path.name} cannot be written: {error.strerror}") from None
        raise


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or "the connection failed"
