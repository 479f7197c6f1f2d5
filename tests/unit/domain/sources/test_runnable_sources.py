"""Which sources a node refuses when they are declared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odfabric.domain.sources.runnable_sources import PermittedSources, refused_sources
from odfabric.model.metadata import SetPollingSource
from odfabric.model.source import (
    CompressionFormat,
    EventTimeSource,
    EventTimeSourceFromMetadata,
    EventTimeSourceFromPath,
    FetchStep,
    FetchStepContainer,
    FetchStepEthereumLogs,
    FetchStepFilesGlob,
    FetchStepMqtt,
    FetchStepUrl,
    MergeStrategyAppend,
    MqttTopicSubscription,
    PrepStep,
    PrepStepDecompress,
    PrepStepPipe,
    ReadStepCsv,
    ReadStepNdJson,
    SourceOrdering,
)

URL = FetchStepUrl(url="https://data.example/x.csv")
MQTT = FetchStepMqtt(host="broker.example", port=1883, topics=(MqttTopicSubscription(path="gauges/#"),))


def source(fetch: FetchStep, *prepare: PrepStep) -> SetPollingSource:
    return SetPollingSource(fetch=fetch, prepare=prepare or None, read=ReadStepCsv(), merge=MergeStrategyAppend())


def glob(event_time: EventTimeSource | None = None, order: SourceOrdering | None = None) -> FetchStepFilesGlob:
    return FetchStepFilesGlob(path="*.csv", event_time=event_time, order=order)


@pytest.mark.parametrize(
    "fetch",
    [
        URL,
        FetchStepUrl(url="HTTP://data.example/x"),
        FetchStepUrl(url="file:///srv/x.csv"),
        FetchStepUrl(url="${{ env.BASE }}/x.csv"),
        FetchStepUrl(url="https://${{ env.HOST }}/x.csv"),
        glob(EventTimeSourceFromPath(pattern=r"(\d+)")),
        glob(order=SourceOrdering.BY_NAME),
    ],
)
def test_what_every_node_runs_is_not_refused(fetch: FetchStep) -> None:
    unpack = PrepStepDecompress(format=CompressionFormat.GZIP)
    assert refused_sources(source(fetch, unpack), PermittedSources()) == []


@pytest.mark.parametrize(
    ("fetch", "field", "mentions", "suggests"),
    [
        (FetchStepUrl(url="ftp://data.example/x.csv"), "fetch.url", "ftp", "http"),
        (FetchStepUrl(url="s3://bucket/x.csv"), "fetch.url", "s3", "http"),
        (FetchStepUrl(url="data/x.csv"), "fetch.url", "data/x.csv", "https://"),
        (
            FetchStepUrl(url="https://d.example", event_time=EventTimeSourceFromPath(pattern="(x)")),
            "fetch.eventTime",
            "FromPath",
            "FromMetadata",
        ),
        (MQTT, "fetch.kind", "Mqtt", "push"),
        (FetchStepContainer(image="x"), "fetch.kind", "Container", "push"),
        (FetchStepEthereumLogs(), "fetch.kind", "EthereumLogs", "push"),
        (glob(order=SourceOrdering.BY_EVENT_TIME), "fetch.order", "ByEventTime", "ByName"),
        (glob(EventTimeSourceFromMetadata()), "fetch.eventTime", "FromMetadata", "FromPath"),
        (glob(EventTimeSourceFromPath(pattern="(")), "fetch.eventTime.pattern", "regular", "log_"),
        (glob(EventTimeSourceFromPath(pattern=r"\d+")), "fetch.eventTime.pattern", "group", "parentheses"),
        (glob(EventTimeSourceFromPath(pattern="(x)" * 1000)), "fetch.eventTime.pattern", "too long", "1000"),
    ],
)
def test_what_never_runs_is_refused_at_its_place(fetch: FetchStep, field: str, mentions: str, suggests: str) -> None:
    (refused,) = refused_sources(source(fetch), PermittedSources())
    assert refused.field == field
    assert mentions in refused.message
    assert suggests in refused.hint
    assert refused.error("metadata[2]").place.field == f"metadata[2].{field}"


def test_what_the_operator_permits_is_not_refused() -> None:
    permitted = PermittedSources(
        schemes=frozenset({"ftp", "https"}), mqtt=True, container=True, programs=frozenset({"jq"})
    )
    pipe = PrepStepPipe(command=("jq", "."))
    for fetch in (FetchStepUrl(url="ftp://data.example/x"), FetchStepContainer(image="x")):
        assert refused_sources(source(fetch, pipe), permitted) == []
    assert refused_sources(replace(source(MQTT), read=ReadStepNdJson()), permitted) == []


def test_commands_are_refused_one_by_one() -> None:
    steps = (
        PrepStepDecompress(format=CompressionFormat.ZIP),
        PrepStepPipe(command=("jq", ".")),
        PrepStepPipe(command=()),
    )
    refused = refused_sources(source(URL, *steps), PermittedSources(programs=frozenset({"awk"})))
    assert [each.field for each in refused] == ["prepare[1].command", "prepare[2].command"]
    assert "'jq'" in refused[0].message
    assert "awk" in refused[0].hint
    (first, _) = refused_sources(source(URL, *steps), PermittedSources())
    assert (first.field, "Pipe" in first.message, "preprocess" in first.hint) == ("prepare[1].kind", True, True)
