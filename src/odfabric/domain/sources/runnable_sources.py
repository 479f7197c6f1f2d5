"""Steps of a polling source that a node never runs, decided when it is declared.

Owns the judgement of fetch and prepare steps by their kind, URL scheme and options, against what the operator permits. Invariant: pure; a
source without a refusal here may still fail when it is polled (a server is down), but not because this node has no way of running it.
Copies of datasets from other nodes are not judged: their sources run elsewhere. Not here: read steps (`domain.read_options`), running a
source (`usecases.polling.poll_source`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from odfabric.domain.sources.message_rows import refused_messages
from odfabric.domain.sources.polling import PATTERN_CHARACTERS_MAX
from odfabric.domain.sources.source_templates import TEMPLATE_START
from odfabric.errors import InvalidManifest, Place
from odfabric.model.metadata import SetPollingSource
from odfabric.model.source import (
    EventTimeSource,
    EventTimeSourceFromMetadata,
    EventTimeSourceFromPath,
    FetchStep,
    FetchStepContainer,
    FetchStepEthereumLogs,
    FetchStepFilesGlob,
    FetchStepMqtt,
    FetchStepUrl,
    PrepStepPipe,
    SourceOrdering,
)

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_PUSH_INSTEAD = "fetch it with a program of your own and push the data"
_PREPROCESS_INSTEAD = "use Decompress, preprocess with SQL, or run the program yourself and push its output"


@dataclass(frozen=True, slots=True, kw_only=True)
class PermittedSources:
    """What a node runs; the defaults are what every node runs.

    `schemes` are those of Url steps, in lower case. `programs` are the commands that a Pipe step may name; none permits no Pipe step.
    """

    schemes: frozenset[str] = frozenset({"http", "https", "file"})
    mqtt: bool = False
    container: bool = False
    programs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class RefusedStep:
    """One step that never runs here; `field` is its place within the source."""

    field: str
    message: str
    hint: str

    def error(self, source: str) -> InvalidManifest:
        """The refusal; `source` is the place of the source in its manifest."""
        return InvalidManifest(self.message, place=Place(field=f"{source}.{self.field}"), hint=self.hint)


def refused_sources(source: SetPollingSource, permitted: PermittedSources) -> list[RefusedStep]:
    """All fetch and prepare steps that this node never runs, in the source's order."""
    return [
        *_refused_fetch(source.fetch, permitted),
        *_refused_reader(source, permitted),
        *_refused_prepare(source, permitted),
    ]


def _refused_fetch(fetch: FetchStep, permitted: PermittedSources) -> Iterator[RefusedStep]:
    match fetch:
        case FetchStepUrl(url=url, event_time=event_time):
            yield from _refused_url(url, permitted)
            if isinstance(event_time, EventTimeSourceFromPath):
                yield RefusedStep(
                    "fetch.eventTime",
                    "a Url source has no event time FromPath",
                    "use FromMetadata or FromSystemTime, or a FilesGlob source",
                )
        case FetchStepFilesGlob(order=order, event_time=event_time):
            if order is SourceOrdering.BY_EVENT_TIME:
                yield RefusedStep(
                    "fetch.order", "the order ByEventTime is not supported", "name files in order, use ByName"
                )
            yield from _refused_event_time(event_time)
        case FetchStepMqtt():
            if not permitted.mqtt:
                yield _not_permitted("Mqtt")
        case FetchStepContainer():
            if not permitted.container:
                yield _not_permitted("Container")
        case FetchStepEthereumLogs():
            yield _not_permitted("EthereumLogs")


def _refused_reader(source: SetPollingSource, permitted: PermittedSources) -> Iterator[RefusedStep]:
    if isinstance(source.fetch, FetchStepMqtt) and permitted.mqtt:
        for field, message, hint in refused_messages(source.fetch, source.read):
            yield RefusedStep(field, message, hint)


def _not_permitted(kind: str) -> RefusedStep:
    return RefusedStep(
        "fetch.kind",
        f"this node does not run fetch steps of the kind {kind}",
        f"use Url or FilesGlob, or {_PUSH_INSTEAD}",
    )


def _refused_url(url: str, permitted: PermittedSources) -> Iterator[RefusedStep]:
    if url.startswith(TEMPLATE_START):
        return
    found = _SCHEME.match(url)
    if found is None:
        yield RefusedStep("fetch.url", f"{url[:100]!r} is not an absolute URL", "write it with its scheme, https://...")
    elif found[1].lower() not in permitted.schemes:
        known = ", ".join(f"{scheme}://" for scheme in sorted(permitted.schemes))
        yield RefusedStep(
            "fetch.url", f"this node does not fetch {found[1]} URLs", f"it fetches {known}; or {_PUSH_INSTEAD}"
        )


def _refused_event_time(event_time: EventTimeSource | None) -> Iterator[RefusedStep]:
    if isinstance(event_time, EventTimeSourceFromMetadata):
        yield RefusedStep(
            "fetch.eventTime",
            "a FilesGlob source has no event time FromMetadata",
            "use FromPath or FromSystemTime",
        )
    if not isinstance(event_time, EventTimeSourceFromPath):
        return
    field, pattern = "fetch.eventTime.pattern", event_time.pattern
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        yield RefusedStep(field, "the pattern is too long", f"at most {PATTERN_CHARACTERS_MAX} characters")
        return
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        yield RefusedStep(field, f"not a regular expression: {error}", r"for example log_(\d+-\d+-\d+)\.csv")
        return
    if not groups:
        yield RefusedStep(
            field, "the pattern has no group", "put parentheses around the time: group 1 has to be the time"
        )


def _refused_prepare(source: SetPollingSource, permitted: PermittedSources) -> Iterator[RefusedStep]:
    for number, step in enumerate(source.prepare or ()):
        if isinstance(step, PrepStepPipe):
            program = step.command[0] if step.command else ""
            if not permitted.programs:
                yield RefusedStep(
                    f"prepare[{number}].kind",
                    "Pipe steps are not offered: this node runs no commands",
                    _PREPROCESS_INSTEAD,
                )
            elif program not in permitted.programs:
                yield RefusedStep(
                    f"prepare[{number}].command",
                    f"this node does not run {program!r} in Pipe steps",
                    f"it runs: {', '.join(sorted(permitted.programs))}; or {_PREPROCESS_INSTEAD}",
                )
