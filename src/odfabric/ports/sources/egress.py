"""Egress to addresses that users choose: polling, webhooks, peers.

One adapter implements all of them behind one guard. Raises InvalidRequest for URLs and headers that
are refused by form, AccessDenied for places that the guard refuses (at the latest when connecting), both also after a redirect,
Determinate if the request surely did not take effect (a failed GET never has one), Indeterminate otherwise.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from odfabric.model.multihash import Multihash
from odfabric.model.subscriptions.subscription import WebhookResponse as WebhookResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedFile:
    """Outcome of a conditional GET.

    `status` is 200 (file written, `size` bytes) or 304 (not modified, no file).

    `etag` and `last_modified` are the headers of the answer as they came.
    """

    status: int
    etag: str | None
    last_modified: str | None
    size: int


class TcpConnections(Protocol):
    """Connections for protocols other than HTTP, to places that the guard has checked."""

    def connect(self, host: str, port: int, *, seconds_max: float) -> socket.socket:
        """A connected socket, no time limit, to an address checked in this call.

        Raises InvalidRequest for what is no host, AccessDenied for a refused place, Determinate if the name has no address or the
        connection fails or takes too long.
        """


class HttpSource(Protocol):
    """Polling of http and https sources."""

    def fetch(
        self, url: str, *, headers: Sequence[tuple[str, str]], etag: str | None, last_modified: str | None, into: Path
    ) -> FetchedFile:
        """GET into a new file, which is removed again if the answer breaks.

        Asks about `etag` (If-None-Match) if given, else about `last_modified` (If-Modified-Since, an HTTP date). Redirects
        are followed; `headers` never reach another origin. Raises NotFound (404, 410), AccessDenied (401, 403), InvalidRequest (other statuses
        and redirects that are final, see `domain.sources.remote_answers`), LimitExceeded for size and redirects, Determinate for every other failure
        (other statuses but 200 and 304, late, slow or broken answers).
        """


class WebhookSender(Protocol):
    """Delivery of webhooks; redirects are not followed."""

    def check(self, url: str) -> None:
        """Refuse a receiver's URL that no attempt could reach, asking no network.

        Raises InvalidRequest, AccessDenied.
        """

    def target_uri(self, url: str) -> str:
        """The URL as receivers see it: RFC 9421, `@target-uri`. Raises InvalidRequest."""

    def post(self, url: str, *, headers: Mapping[str, str], body: bytes) -> WebhookResponse:
        """One attempt.

        Any HTTP status is a response; raises Determinate or Indeterminate if there was none.
        """


class RemoteDataset(Protocol):
    """A dataset elsewhere, read by the Simple Transfer Protocol.

    Nothing it returns is trusted or verified yet.
    """

    def head(self) -> Multihash:
        """Its head.

        Raises NotFound, Unauthenticated, AccessDenied, InvalidRequest, CorruptedSource (not a hash), Determinate.
        """

    def block(self, block_hash: Multihash) -> bytes:
        """Bytes served for a block.

        Raises NotFound, Unauthenticated, AccessDenied, InvalidRequest, LimitExceeded, Determinate.
        """

    def blocks(self, block_hash: Multihash, *, count_max: int) -> Sequence[bytes]:
        """Bytes served for a block, then for some of its predecessors, newest first.

        As many as the place gives at once, from one to `count_max`. Raises as `block`, CorruptedSource for an answer that has no such form.
        """

    def ref(self, path: str) -> bytes | None:
        """A small file beside the head, such as `refs/head.log`; None if it is not there.

        Raises as `block`.
        """

    def download(self, folder: str, object_hash: Multihash, *, size_max: int, into: Path) -> int:
        """Object of `data` or `checkpoints` into a new file; returns its size.

        Raises like `block`, leaving no file.
        """


class RemoteDatasets(Protocol):
    """Opens remotes by URL: http(s)://, odf+http(s)://, file://."""

    def open(self, url: str, *, token: str | None = None) -> RemoteDataset:
        """Raises InvalidRequest for an unserved URL, AccessDenied for a refused one.

        Nothing is read yet; whether the dataset exists shows with the first read. `token` is for the URL's origin only.
        """
