"""Fetch one URL: http(s) with the validators of the last answer, or a local file.

Invariant: what was taken last is what is asked about, unless a body is kept from a failed pull: then the server is asked whether it still has
that one, and only a body that is still current, or whose server cannot be reached, is used again. Secrets go into the request and into no text.
Source: RFC 9110, sections 8.8 and 13.1; specification, "Data Ingestion".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from odfabric.domain.sources.polled_content import PolledContent
from odfabric.domain.sources.polling import (
    ETAG,
    LAST_MODIFIED,
    http_date,
    last_modified_state,
    url_event_time,
    url_state,
    value_of,
)
from odfabric.domain.sources.source_templates import Lookup, expand_template, hide_secrets, without_secrets
from odfabric.errors import Determinate, OdfError
from odfabric.formats.identifiers.physical_hash import physical_hash
from odfabric.model.identity import DatasetId
from odfabric.model.instant import NANOS_PER_MILLI, Instant
from odfabric.model.metadata import SourceState
from odfabric.model.multihash import Multihash
from odfabric.model.source import FetchStepUrl
from odfabric.ports.sources.egress import FetchedFile, HttpSource
from odfabric.ports.sources.polling_files import PollingFiles
from odfabric.ports.sources.savepoints import Savepoint, Savepoints
from odfabric.usecases.polling.fetched import Fetched, NotModified


@dataclass(frozen=True, slots=True)
class UrlRequest:
    """The request of a step, its templates expanded.

    `step` names it together with the source state that it follows.
    """

    url: str
    headers: tuple[tuple[str, str], ...]
    secrets: tuple[str, ...]
    step: str

    @property
    def name(self) -> str:
        """What users call the file: the last part of the path."""
        name = self.url.partition("?")[0].rstrip("/").rpartition("/")[2] or "source"
        return hide_secrets(name, self.secrets)


def url_request(step: FetchStepUrl, last: SourceState | None, lookup: Lookup) -> UrlRequest:
    """Expand the templates of a step.

    Raises InvalidManifest, NotFound for a variable without a value.
    """
    url = expand_template(step.url, lookup, field="fetch.url")
    headers, secrets = [], [*url.secrets]
    for number, header in enumerate(step.headers or ()):
        value = expand_template(header.value, lookup, field=f"fetch.headers[{number}].value")
        headers.append((header.name, value.text))
        secrets += value.secrets
    state = None if last is None else [last.kind, last.value]
    # Hashed, for it names a file: nobody reads a secret there.
    digest = hashlib.sha3_256(json.dumps([url.text, headers, state]).encode()).hexdigest()
    return UrlRequest(url.text, tuple(headers), tuple(dict.fromkeys(secrets)), digest)


def fetch_url(
    step: FetchStepUrl,
    dataset: DatasetId,
    last: SourceState | None,
    folder: Path,
    *,
    http: HttpSource,
    savepoints: Savepoints,
    lookup: Lookup,
    now: Instant,
    again: bool = False,
) -> Fetched | NotModified:
    """Fetch if the server has anything else than what `last` says.

    With `again` a kept body is not asked about.

    Raises as `HttpSource.fetch`, and as `url_request`.
    """
    request = url_request(step, last, lookup)
    kept = None if again else savepoints.find(dataset, request.step, now=now)
    etag, date = _validators(last, kept)
    asked = {"If-None-Match": etag} if etag else {"If-Modified-Since": date} if date else {}
    into = folder / "fetched"
    unreachable = None
    try:
        with _hidden(request.secrets):
            answer = http.fetch(request.url, headers=request.headers, etag=etag, last_modified=date, into=into)
    except Determinate as error:
        if kept is None:
            raise
        answer, unreachable = None, error.message
    if answer is not None and answer.status == 304 and not _is_asked_about(kept):
        shown = {name: hide_secrets(value, request.secrets) for name, value in asked.items()}
        return NotModified(asked=shown, status=304)
    resumed = kept is not None and (answer is None or answer.status == 304)
    path, found = (kept.path, kept) if resumed and kept is not None else (into, answer)
    new_state = _state_of(found)
    return Fetched(
        path=path,
        name=request.name,
        source_state=new_state,
        event_time=url_event_time(step.event_time, new_state, now),
        polled=PolledContent(content=hash_of(path)),
        asked={name: hide_secrets(value, request.secrets) for name, value in asked.items()},
        status=None if answer is None else answer.status,
        resumed=resumed,
        unreachable=unreachable,
        secrets=request.secrets,
    )


def fetch_file(
    step: FetchStepUrl, last: SourceState | None, *, files: PollingFiles, now: Instant
) -> Fetched | NotModified:
    """Read a `file://` URL in place if its time is another one.

    Raises as `PollingFiles.file`.
    """
    found = files.file(step.url)
    new_state = last_modified_state(rounded(found.modified_at))
    if value_of(last, LAST_MODIFIED) == new_state.value:
        return NotModified()
    event_time = url_event_time(step.event_time, new_state, now)
    polled = PolledContent(content=hash_of(found.path))
    return Fetched(path=found.path, name=found.name, source_state=new_state, event_time=event_time, polled=polled)


def keep_body(
    fetched: Fetched,
    step: FetchStepUrl,
    dataset: DatasetId,
    last: SourceState | None,
    *,
    savepoints: Savepoints,
    lookup: Lookup,
    now: Instant,
) -> None:
    """Keep what was fetched, for a repetition of the pull: taking it in has failed."""
    if fetched.resumed:
        return
    savepoints.keep(
        dataset,
        url_request(step, last, lookup).step,
        fetched.path,
        etag=value_of(fetched.source_state, ETAG),
        last_modified=http_date(fetched.source_state),
        now=now,
    )


def rounded(moment: Instant) -> Instant:
    """To milliseconds as the reference does it, so either can continue a chain."""
    return Instant.from_millis((moment.epoch_ns + NANOS_PER_MILLI // 2) // NANOS_PER_MILLI)


def hash_of(path: Path) -> Multihash:
    """Hash of a fetched file. Raises Determinate if it went away meanwhile."""
    try:
        return physical_hash(path)[0]
    except OSError as error:
        raise Determinate(f"{path.name} cannot be read: {error.strerror}", hint="it is tried again") from error


def _validators(last: SourceState | None, kept: Savepoint | None) -> tuple[str | None, str | None]:
    if kept is not None and _is_asked_about(kept):
        return kept.etag, None if kept.etag else kept.last_modified
    return value_of(last, ETAG), http_date(last)


def _is_asked_about(kept: Savepoint | None) -> bool:
    return kept is not None and (kept.etag is not None or kept.last_modified is not None)


def _state_of(found: FetchedFile | Savepoint | None) -> SourceState | None:
    return None if found is None else url_state(etag=found.etag, last_modified=found.last_modified)


@contextmanager
def _hidden(secrets: tuple[str, ...]) -> Iterator[None]:
    """Hide these values in any error from inside.

    The URL is shown in messages, and servers echo headers.
    """
    try:
        yield
    except OdfError as error:
        raise without_secrets(error, secrets) from None
