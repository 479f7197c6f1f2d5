"""Datasets of other nodes and of plain web folders, read by the Simple Transfer Protocol.

Owns the mapping of its four GET paths and of statuses that tell about tokens; the others are those of `domain.sources.remote_answers`. Invariant: a token is sent to the origin of the URL it
was given with, and nowhere else. Nothing that comes back is trusted: hashes are checked by whoever asked. Source: transfer
protocols of the reference, sections 1 to 3 (RFC-007).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from odfabric.adapters.http.egress import Answer, Egress, SizeLimit
from odfabric.adapters.http.new_file import write_new_file
from odfabric.adapters.http.retry_after import retry_after_s
from odfabric.adapters.http.url import HttpUrl
from odfabric.domain.sources.remote_answers import failed_answer
from odfabric.errors import (
    AccessDenied,
    CorruptedSource,
    InvalidName,
    InvalidRequest,
    Place,
    Unauthenticated,
)
from odfabric.formats.identifiers.dataset_layout import BLOCKS, HEAD, object_path, parse_ref
from odfabric.model.multihash import Multihash
from odfabric.ports.sources.egress import RemoteDataset

HEAD_BYTES_MAX = 200
TOKEN_CHARACTERS_MAX = 8 * 1024
_SMART = "odf+"
_BEARER = re.compile(r"[A-Za-z0-9._~+/=-]+", re.ASCII)


class HttpRemoteDatasets:
    """`ports.sources.egress.RemoteDatasets` for http(s):// and odf+http(s)://."""

    def __init__(self, egress: Egress, *, block_bytes_max: int) -> None:
        self._egress = egress
        self._block_bytes_max = block_bytes_max

    def open(self, url: str, *, token: str | None = None) -> RemoteDataset:
        """Read the URL; the network is asked by the first read."""
        smart = url[: len(_SMART)].lower() == _SMART
        base = self._egress.check(url[len(_SMART) :] if smart else url)
        if "?" in base.target:
            raise InvalidRequest("the URL of a dataset has no query", place=Place(field="url"))
        if token is not None and (len(token) > TOKEN_CHARACTERS_MAX or _BEARER.fullmatch(token) is None):
            raise InvalidRequest("not a bearer token", place=Place(field="token"))
        return HttpRemoteDataset(self._egress, base, token, self._block_bytes_max)


class HttpRemoteDataset:
    """One dataset of a peer."""

    def __init__(self, egress: Egress, base: HttpUrl, token: str | None, block_bytes_max: int) -> None:
        self._egress = egress
        # Everything is relative to the dataset, which is a folder whether or not the URL says so.
        self._base = f"{base}".rstrip("/") + "/"
        self._shown = base.shown
        self._headers = [("Authorization", f"Bearer {token}")] if token else []
        self._block_bytes_max = block_bytes_max

    def head(self) -> Multihash:
        """Its head."""
        limit = SizeLimit(name="head_bytes_max", bytes_max=HEAD_BYTES_MAX)
        with self._get(HEAD, "dataset", self._shown, limit) as answer:
            body = answer.read()
        try:
            return parse_ref(body.decode("ascii"))
        except (InvalidName, UnicodeDecodeError):
            raise CorruptedSource(f"{HEAD} of {self._shown} is not the hash of a block") from None

    def block(self, block_hash: Multihash) -> bytes:
        """Bytes served for a block."""
        limit = SizeLimit(name="block_bytes_max", bytes_max=self._block_bytes_max)
        with self._get(object_path(BLOCKS, block_hash), "block", str(block_hash), limit) as answer:
            return answer.read()

    def download(self, folder: str, object_hash: Multihash, *, size_max: int, into: Path) -> int:
        """An object into a new file."""
        limit = SizeLimit(name="object_bytes_max", bytes_max=size_max)
        with self._get(object_path(folder, object_hash), "object", str(object_hash), limit) as answer:
            return write_new_file(answer.body(), into)

    @contextmanager
    def _get(self, path: str, what: str, name: str, limit: SizeLimit) -> Iterator[Answer]:
        with self._egress.get(self._base + path, headers=self._headers, limit=limit) as answer:
            match answer.status:
                case 200:
                    yield answer
                case 401:
                    raise Unauthenticated(f"{self._shown} wants a valid token", hint="log in there, or give its token")
                case 403:
                    raise AccessDenied(f"{self._shown} refuses this account")
                case status:
                    wait_s = retry_after_s(answer)
                    raise failed_answer(status, url=answer.url.shown, what=what, name=name, retry_after_s=wait_s)
