"""Polling of http and https sources: a conditional GET into a file.

Owns which statuses are answers of a source: 200 is data, 304 is nothing new, everything else (other 2xx included) is a failure,
of which `domain.sources.remote_answers` says whether it is final. Invariant: the file exists only if all of it has arrived. Not here: what a
source state is, and when a source is polled. Source: specification, "Data Ingestion".
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from odfabric.adapters.http.egress import Egress, SizeLimit
from odfabric.adapters.http.new_file import write_new_file
from odfabric.adapters.http.retry_after import retry_after_s
from odfabric.domain.sources.remote_answers import failed_answer
from odfabric.ports.sources.egress import FetchedFile


class HttpFetch:
    """`ports.sources.egress.HttpSource` over the guarded client."""

    def __init__(self, egress: Egress, *, source_bytes_max: int) -> None:
        """`source_bytes_max`: largest file, as received and decoded."""
        self._egress = egress
        self._limit = SizeLimit(name="source_bytes_max", bytes_max=source_bytes_max)

    def fetch(
        self, url: str, *, headers: Sequence[tuple[str, str]], etag: str | None, last_modified: str | None, into: Path
    ) -> FetchedFile:
        """One conditional GET; the entity tag is asked about before the date."""
        conditions: list[tuple[str, str]] = []
        if etag is not None:
            conditions.append(("If-None-Match", etag))
        elif last_modified is not None:
            conditions.append(("If-Modified-Since", last_modified))
        with self._egress.get(url, headers=headers, conditions=conditions, limit=self._limit) as answer:
            size = 0
            match answer.status:
                case 200:
                    size = write_new_file(answer.body(), into)
                case 304 if conditions:
                    pass
                case status:
                    raise failed_answer(
                        status,
                        url=answer.url.shown,
                        what="source",
                        said=answer.excerpt(),
                        retry_after_s=retry_after_s(answer),
                    )
            return FetchedFile(
                status=answer.status,
                etag=answer.header("etag"),
                last_modified=answer.header("last-modified"),
                size=size,
            )
