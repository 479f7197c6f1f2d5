"""Messages: a broker in memory and a real one on loopback keep one contract."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import pytest

from odfabric.adapters.http.connections import GuardedConnections
from odfabric.adapters.memory.sources.messages import MemoryMessageSource
from odfabric.adapters.mqtt.messages import MqttLimits, PahoMessageSource
from odfabric.model.source import FetchStepMqtt, MqttQos
from odfabric.testing.conformance.sources.messages import MessageSourceContract, mqtt_step
from tests.support.servers.mqtt import MqttBroker, mqtt_broker


class InMemory(MemoryMessageSource):
    def step(self, *topics: str, qos: MqttQos | None = MqttQos.AT_LEAST_ONCE) -> FetchStepMqtt:
        return mqtt_step("memory", 1883, *topics, qos=qos)


class TestMemoryMessages(MessageSourceContract):
    @pytest.fixture
    def broker(self) -> InMemory:
        return InMemory()

    @pytest.fixture
    def messages(self, broker: InMemory) -> InMemory:
        return broker


class TestPahoMessages(MessageSourceContract):
    @pytest.fixture
    def broker(self) -> Iterator[MqttBroker]:
        with mqtt_broker() as broker:
            yield broker

    @pytest.fixture
    def messages(self) -> Iterator[PahoMessageSource]:
        connections = GuardedConnections(ports=[1883], allow=["127.0.0.0/8"])
        yield PahoMessageSource(connections, MqttLimits(idle_s=0.3, connect_s_max=10), ssl.create_default_context())
        connections.close()
