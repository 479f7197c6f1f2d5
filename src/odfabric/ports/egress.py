"""Everything that leaves the node towards addresses that users choose: polling, webhooks, peers.

One adapter implements all three behind one guard (security property S3). Raises AccessDenied for addresses that the
guard refuses, Determinate if the request surely did not take effect, Indeterminate otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from odfabric.model.multihash import Multihash


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedFile:
    """Outcome of a conditional GET. `status` is 200 (file written) or 304 (not modified)."""

    status: int
    etag: str | None
    last_modified: str | None
    size: int


class HttpSource(Protocol):
    """Polling of http and https sources."""

    def fetch(
        self, url: str, *, headers: Sequence[tuple[str, str]], etag: str | None, last_modified: str | None, into: Path
    ) -> FetchedFile:
        """GET into a new file. Raises NotFound for 404, Determinate for other failures, LimitExceeded, AccessDenied."""


class WebhookSender(Protocol):
    """Delivery of webhooks; redirects are not followed."""

    def post(self, url: str, *, headers: Mapping[str, str], body: bytes) -> WebhookResponse:
        """One attempt. Any HTTP status is a response; raises Determinate or Indeterminate if there was none."""


@dataclass(frozen=True, slots=True)
class WebhookResponse:
    """Status code and the Retry-After header in seconds, if it was sensible."""

    status: int
    retry_after_s: int | None = None


class RemoteDataset(Protocol):
    """A dataset elsewhere, read by the Simple Transfer Protocol. Nothing it returns is trusted or verified yet."""

    def head(self) -> Multihash:
        """Its head. Raises NotFound, Unauthenticated, AccessDenied, Determinate."""

    def block(self, block_hash: Multihash) -> bytes:
        """Bytes served for a block. Raises NotFound, LimitExceeded, Determinate."""

    def download(self, folder: str, object_hash: Multihash, *, size_max: int, into: Path) -> int:
        """Object of `data` or `checkpoints` into a new file; returns its size. Raises like `block`."""


class RemoteDatasets(Protocol):
    """Opens remotes by URL: http(s)://, odf+http(s)://, file://."""

    def open(self, url: str, *, token: str | None = None) -> RemoteDataset:
        """Raises InvalidRequest for a URL that no adapter serves, AccessDenied for a refused one."""
