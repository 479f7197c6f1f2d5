"""Deciding what a polling source fetches next, and what it remembers.

Owns the meaning of source states of urls and globs, and where the event time of a fetched file comes from. Not here: fetching
itself, which files of a folder are read (`domain.sources.polled_files`). Source: specification, "Polling sources";
specification, "Data Ingestion".
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime

from odfabric.domain.ingestion.ingest_plan import DEFAULT_SOURCE_NAME
from odfabric.errors import InvalidData, InvalidManifest, Place
from odfabric.model.instant import Instant
from odfabric.model.metadata import SourceState
from odfabric.model.source import (
    EventTimeSource,
    EventTimeSourceFromMetadata,
    EventTimeSourceFromPath,
    EventTimeSourceFromSystemTime,
    FetchStepFilesGlob,
    SourceOrdering,
)

ETAG = "odf/etag"
LAST_MODIFIED = "odf/last-modified"
DEFAULT_PATH_TIMESTAMP_FORMAT = "%Y-%m-%d"
PATTERN_CHARACTERS_MAX = 1000


def etag_state(value: str) -> SourceState:
    """The source has got to this entity tag, or to the file of this name."""
    return SourceState(source_name=DEFAULT_SOURCE_NAME, kind=ETAG, value=value)


def last_modified_state(moment: Instant) -> SourceState:
    """The source has got to this modification time."""
    return SourceState(source_name=DEFAULT_SOURCE_NAME, kind=LAST_MODIFIED, value=str(moment))


def value_of(state: SourceState | None, kind: str) -> str | None:
    """The value of a state of that kind, None for any other."""
    return state.value if state is not None and state.kind == kind else None


def parse_http_date(text: str | None) -> Instant | None:
    """A Last-Modified header.

    None if it is absent or not a date, which servers are free to send.
    """
    if text is None:
        return None
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return Instant.from_datetime(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def http_date(state: SourceState | None) -> str | None:
    """The state's modification time as an If-Modified-Since header."""
    text = value_of(state, LAST_MODIFIED)
    return None if text is None else format_datetime(Instant.parse(text).to_datetime(), usegmt=True)


def url_state(*, etag: str | None, last_modified: str | None) -> SourceState | None:
    """What to remember of a response: its entity tag, else its date, else nothing."""
    if etag:
        return etag_state(etag)
    moment = parse_http_date(last_modified)
    return None if moment is None else last_modified_state(moment)


def url_event_time(source: EventTimeSource | None, state: SourceState | None, now: Instant) -> Instant | None:
    """Event time of a fetched url: its date if remembered; None means system time.

    A date in the future says nothing of when something happened; as RFC 9110, section 8.8.2.1 has it, the time of the answer takes its place.
    Raises InvalidManifest for a source that urls do not have.
    """
    match source:
        case None | EventTimeSourceFromMetadata():
            text = value_of(state, LAST_MODIFIED)
            return None if text is None else min(Instant.parse(text), now)
        case EventTimeSourceFromSystemTime():
            return now
        case EventTimeSourceFromPath():
            raise InvalidManifest(
                "Url source does not support fromPath event time source",
                place=Place(field="fetch.eventTime"),
                hint="use FromMetadata or FromSystemTime, or a FilesGlob source",
            )


def check_order(step: FetchStepFilesGlob) -> None:
    """Refuse an order of files that no pull takes them in. Raises InvalidManifest."""
    if step.order is SourceOrdering.BY_EVENT_TIME:
        raise InvalidManifest(
            "order ByEventTime is not supported",
            place=Place(field="fetch.order"),
            hint="name files in order, use ByName",
        )


def file_event_time(source: EventTimeSource | None, name: str, now: Instant) -> Instant | None:
    """Event time of a file of a glob.

    Raises InvalidManifest, or InvalidData for a name that does not match.
    """
    match source:
        case None | EventTimeSourceFromSystemTime():
            return now
        case EventTimeSourceFromMetadata():
            raise InvalidManifest(
                "FilesGlob source does not support fromMetadata event time source",
                place=Place(field="fetch.eventTime"),
                hint="use FromPath or FromSystemTime",
            )
        case EventTimeSourceFromPath():
            return _event_time_from_name(source, name)


def _event_time_from_name(source: EventTimeSourceFromPath, name: str) -> Instant:
    if len(source.pattern) > PATTERN_CHARACTERS_MAX:
        raise InvalidManifest("the pattern is too long", place=Place(field="fetch.eventTime.pattern"))
    try:
        found = re.search(source.pattern, name)
    except re.error as error:
        raise InvalidManifest(
            f"not a regular expression: {error}", place=Place(field="fetch.eventTime.pattern")
        ) from error
    if found is None or not found.groups():
        raise InvalidData(
            f"the pattern {source.pattern!r} does not find a time in the file name",
            place=Place(file=name),
            hint="group 1 of the pattern has to be the time",
        )
    timestamp_format = source.timestamp_format or DEFAULT_PATH_TIMESTAMP_FORMAT
    try:
        moment = datetime.strptime(found.group(1), timestamp_format)  # noqa: DTZ007  # naive means UTC here
    except ValueError as error:
        raise InvalidData(
            f"{found.group(1)!r} is not a time of the format {timestamp_format!r}", place=Place(file=name)
        ) from error
    return Instant.from_datetime(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
