"""Remote datasets of every kind of URL behind one port."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from odfabric.errors import InvalidRequest, Place
from odfabric.ports.sources.egress import RemoteDataset, RemoteDatasets


class RemotesByScheme:
    """Chooses the adapter by the URL's scheme, and the token by its origin: a token goes nowhere else."""

    def __init__(self, by_scheme: Mapping[str, RemoteDatasets], *, tokens: Mapping[str, str]) -> None:
        self._by_scheme = by_scheme
        self._tokens = {origin.rstrip("/").lower(): token for origin, token in tokens.items()}

    def open(self, url: str, *, token: str | None = None) -> RemoteDataset:
        """See the port."""
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise InvalidRequest(f"not a URL: {error}", place=Place(field="url")) from None
        adapter = self._by_scheme.get(parts.scheme.lower())
        if adapter is None:
            schemes = ", ".join(sorted(self._by_scheme))
            raise InvalidRequest(
                f"datasets cannot be pulled from {parts.scheme or 'such'} URLs",
                place=Place(field="url"),
                hint=f"use one of {schemes}",
            )
        origin = f"{parts.scheme.lower().removeprefix('odf+')}://{parts.netloc.lower()}"
        return adapter.open(url, token=token or self._tokens.get(origin))
