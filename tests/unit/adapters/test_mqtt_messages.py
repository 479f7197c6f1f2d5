"""MQTT messages: guard, refusals, TLS, limits, dying and misbehaving brokers."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from odfabric.adapters.http.connections import GuardedConnections
from odfabric.adapters.mqtt.messages import MqttLimits, PahoMessageSource
from odfabric.errors import AccessDenied, Determinate, InvalidRequest, LimitExceeded, OdfError
from odfabric.model.source import FetchStepMqtt
from odfabric.testing.conformance.sources.messages import mqtt_step
from tests.support.servers.mqtt import mqtt_broker
from tests.support.waiting import wait_until

CONNACK = b"\x20\x02\x00\x00"


def source(allow: tuple[str, ...] = ("127.0.0.0/8",), **limits: object) -> PahoMessageSource:
    given = MqttLimits(**{"idle_s": 0.2, "connect_s_max": 5.0, **limits})  # type: ignore[arg-type]
    connections = GuardedConnections(ports=[1883], allow=allow, resolver=lambda _: ["10.0.0.1"])
    return PahoMessageSource(connections, given, ssl.create_default_context())


def receive(messages: PahoMessageSource, step: FetchStepMqtt, into: Path, **options: object) -> bytes:
    wanted = {"client_id": "odftest", "ingested_before": False, "messages_max": 100, **options}
    with messages.receive(step, into=into, **wanted) as batch:  # type: ignore[arg-type]
        batch.acknowledge()
        return into.read_bytes()


@contextmanager
def answering(*answers: bytes) -> Iterator[int]:
    """A listener that reads a packet, then sends the next answer.

    It closes after the last one.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                for answer in answers:
                    if not connection.recv(65536):
                        return
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(10)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "internal.example"])
def test_places_that_the_guard_refuses_are_never_connected_to(host: str, tmp_path: Path) -> None:
    with pytest.raises(AccessDenied, match="not a public address"):
        receive(source(allow=()), mqtt_step(host, 1883, "a"), tmp_path / "x")


@pytest.mark.parametrize("host", ["a/b", "user@host", "0x7f.1", "2130706433", "ho st"])
def test_what_is_no_host_is_refused(host: str, tmp_path: Path) -> None:
    with pytest.raises((InvalidRequest, AccessDenied)):
        receive(source(allow=()), mqtt_step(host, 1883, "a"), tmp_path / "x")


def test_ports_are_those_of_brokers(tmp_path: Path) -> None:
    with pytest.raises(AccessDenied, match="port 22 cannot be reached"):
        receive(source(allow=()), mqtt_step("8.8.8.8", 22, "a"), tmp_path / "x")


def test_credentials_and_topics_that_a_broker_refuses(tmp_path: Path) -> None:
    with mqtt_broker(login=("reader", "right")) as broker:
        step = replace(broker.step("a"), username="reader", password="right")
        assert receive(source(), step, tmp_path / "1") == b""
        broker.publish("a", b"{}")
        assert receive(source(), step, tmp_path / "2") == b"{}\n"
        for wrong in (replace(step, password="wrong-word"), replace(step, username=None, password=None)):
            with pytest.raises(AccessDenied) as caught:
                receive(source(), wrong, tmp_path / "3")
            assert "wrong-word" not in str(caught.value)
        refused = replace(broker.step("secret/x"), username="reader", password="right")
        with pytest.raises(AccessDenied, match="secret/x"):
            receive(source(), refused, tmp_path / "4", client_id="odfother")


def test_a_broker_that_dies_before_the_acknowledgement_is_said_to_have(tmp_path: Path) -> None:
    with mqtt_broker() as broker:
        receive(source(), broker.step("a"), tmp_path / "1")
        broker.publish("a", b"{}")
        received = source().receive(
            broker.step("a"), client_id="odftest", ingested_before=False, messages_max=9, into=tmp_path / "2"
        )
        with received as batch:
            broker.process.kill()
            with pytest.raises(Determinate, match="committed, but not acknowledged"):
                batch.acknowledge()


def test_a_batch_ends_at_its_bytes_and_a_larger_message_is_refused(tmp_path: Path) -> None:
    limited = source(batch_bytes_max=1000)
    with mqtt_broker() as broker:
        step = broker.step("a")
        receive(limited, step, tmp_path / "0")
        for _ in range(3):
            broker.publish("a", b'{"x": "%s"}' % (b"-" * 590))
        assert [receive(limited, step, tmp_path / name).count(b"\n") for name in ("1", "2")] == [2, 1]
        for name, size in (("3", 1_200), ("4", 100_000)):
            broker.publish("a", b'"%s"' % (b"-" * size))
            with pytest.raises(LimitExceeded) as caught:
                receive(limited, step, tmp_path / name)
            assert caught.value.limit == "mqtt_batch_bytes_max"


def test_a_slow_stream_is_committed_after_a_while(tmp_path: Path) -> None:
    """Messages that come faster than the idle time would keep a pull open for ever."""
    with mqtt_broker() as broker:
        step = broker.step("a")
        receive(source(), step, tmp_path / "0")
        ended = threading.Event()

        def publish() -> None:
            while not ended.is_set():
                broker.publish("a", b"{}")

        thread = threading.Thread(target=publish)
        thread.start()
        try:
            taken = receive(source(idle_s=5.0, batch_s_max=0.5), step, tmp_path / "1", messages_max=1_000_000)
        finally:
            ended.set()
            thread.join()
        assert taken.startswith(b"{}\n")


@pytest.mark.parametrize(
    "answers",
    [
        (b"",),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n",),
        (b"\x20\x02\x00\x03",),
        (CONNACK, b""),
        (CONNACK, b"\x90\x03\x00\x01\x00\x30\x7f"),
        (CONNACK, b"\x90\x03\x00\x01\x00\x30\x06\xff\xffabcd"),
        (b"\x20\xff\xff\xff\xff\xff",),
        (b"\x00\x00",),
    ],
    ids=["cut", "not-mqtt", "unavailable", "cut-later", "short-publish", "broken-publish", "broken-length", "reserved"],
)
def test_brokers_that_misbehave_fail_the_pull_and_leave_no_file(answers: tuple[bytes, ...], tmp_path: Path) -> None:
    with answering(*answers) as port, pytest.raises(OdfError) as caught:
        receive(source(connect_s_max=1.0), mqtt_step("127.0.0.1", port, "a"), tmp_path / "x")
    assert isinstance(caught.value, Determinate)
    assert not (tmp_path / "x").exists()


def test_a_broker_on_a_tls_port_must_have_a_certificate(tmp_path: Path) -> None:
    with answering(b"\x20\x02\x00\x00") as port, pytest.raises(Determinate, match="TLS"):
        receive(source(tls_ports=(port,)), mqtt_step("127.0.0.1", port, "a"), tmp_path / "x")


def test_sessions_outlive_connections_of_a_killed_process(tmp_path: Path) -> None:
    """Death between commit and acknowledgement: the next process gets it again."""
    with mqtt_broker() as broker:
        receive(source(), broker.step("a"), tmp_path / "0")
        broker.publish("a", b'{"n": 1}')
        child = os.fork()
        if child == 0:
            with source().receive(
                broker.step("a"), client_id="odftest", ingested_before=True, messages_max=9, into=tmp_path / "1"
            ):
                os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        wait_until((tmp_path / "1").exists, deadline_s=10, what="the batch of the dead process")
        assert (tmp_path / "1").read_bytes() == b'{"n": 1}\n'
        assert receive(source(), broker.step("a"), tmp_path / "2", ingested_before=True) == b'{"n": 1}\n'
        assert receive(source(), broker.step("a"), tmp_path / "3", ingested_before=True) == b""
