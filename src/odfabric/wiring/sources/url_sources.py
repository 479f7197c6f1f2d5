"""Sources of every kind of URL behind one port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from odfabric.errors import InvalidRequest, Place
from odfabric.ports.sources.egress import FetchedFile, HttpSource


class SourcesByScheme:
    """An HttpSource that chooses the adapter by the URL's scheme.

    `usual` takes everything else and refuses what it does not know.
    """

    def __init__(self, usual: HttpSource, by_scheme: Mapping[str, HttpSource]) -> None:
        self._usual = usual
        self._by_scheme = by_scheme

    def fetch(
        self, url: str, *, headers: Sequence[tuple[str, str]], etag: str | None, last_modified: str | None, into: Path
    ) -> FetchedFile:
        """See the port."""
        scheme = url.partition(":")[0].lower()
        if scheme in ("ftp", "ftps") and scheme not in self._by_scheme:
            raise InvalidRequest(
                f"this node does not fetch {scheme} URLs",
                place=Place(field="url"),
                hint="use https://..., or ask its operator to permit them (fetch_ftp)",
            )
        adapter = self._by_scheme.get(scheme, self._usual)
        return adapter.fetch(url, headers=headers, etag=etag, last_modified=last_modified, into=into)
