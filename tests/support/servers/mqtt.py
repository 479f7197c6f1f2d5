"""An MQTT broker: aedes from hash-locked npm packages, by the env's Node.

`.odf/mqtt-broker` is made at the first use, under a lock, and made again when the lock file changes. amqtt would install with pip, but it
forgets what is not acknowledged within five seconds, and what a client has not acknowledged when it goes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import paho.mqtt.publish

from odfabric.model.source import FetchStepMqtt, MqttQos, MqttTopicSubscription
from services.api.web.make import FEW_RETRIES, NODE, NPM, NPM_CI, node
from tests.support.servers.process import ServerProcess, running, server_folder
from tests.support.waiting import free_port

PACKAGE = Path(__file__).parent / "mqtt_broker"
HOME = Path(__file__).parents[3] / ".odf"
FILES = ("package.json", "package-lock.json", "broker.mjs")


@dataclass(frozen=True)
class MqttBroker:
    """A broker, and what tests publish with it.

    `login` is its only user with the password, None if everybody is let in.
    """

    port: int
    process: ServerProcess
    login: tuple[str, str] | None = None

    def step(self, *topics: str, qos: MqttQos | None = MqttQos.AT_LEAST_ONCE) -> FetchStepMqtt:
        """A source that subscribes to these topics here."""
        subscriptions = tuple(MqttTopicSubscription(path=topic, qos=qos) for topic in topics)
        return FetchStepMqtt(host="127.0.0.1", port=self.port, topics=subscriptions)

    def publish(self, topic: str, payload: bytes, *, qos: int = 1, retain: bool = False) -> None:
        """Returns when the broker has it."""
        auth = None if self.login is None else {"username": self.login[0], "password": self.login[1]}
        paho.mqtt.publish.single(
            topic, payload, qos=qos, retain=retain, hostname="127.0.0.1", port=self.port, auth=auth
        )


@contextmanager
def mqtt_broker(login: tuple[str, str] | None = None) -> Iterator[MqttBroker]:
    """A broker whose sessions live as long as its process.

    With a `login` nobody may read topics below `secret`.
    """
    program = _program()
    with server_folder("mqtt") as folder:
        port = free_port()
        process = ServerProcess(
            [str(NODE), str(program), str(port), *(login or ())],
            folder,
            end=signal.SIGTERM,
            answers=lambda: _answers(port),
            ours=True,
        )
        with running(process):
            yield MqttBroker(port, process, login)


def _program() -> Path:
    """The script of the broker with its packages.

    Raises RuntimeError where npm's packages cannot be had.
    """
    home = HOME / "mqtt-broker"
    HOME.mkdir(exist_ok=True)
    with open(HOME / "mqtt-broker.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not all(_same(home / name, PACKAGE / name) for name in FILES):
            _make(home)
    return home / "broker.mjs"


def _same(made: Path, source: Path) -> bool:
    return made.exists() and made.read_bytes() == source.read_bytes()


def _make(home: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".mqtt-broker-", dir=home.parent) as folder:
        work = Path(folder) / "work"
        work.mkdir()
        for name in FILES:
            shutil.copy(PACKAGE / name, work)
        if node(str(NPM), *NPM_CI, *FEW_RETRIES, cwd=work) != 0:
            raise RuntimeError("no MQTT broker for the tests: npm's packages could not be had (see above)")
        if home.exists():
            home.rename(Path(folder) / "old")
        os.rename(work, home)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
