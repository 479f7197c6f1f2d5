"""Datasets of other nodes and plain web folders, by the Simple Transfer Protocol.

Owns the mapping of its four GET paths and of statuses that tell about tokens; the others are those of `domain.sources.remote_answers`. Invariant: a token is sent to the origin of the URL it
was given with, and nowhere else. Nothing that comes back is trusted: hashes are checked by the one who asked. Source: transfer
protocols of the reference, sections 1 to 3 (RFC-007).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from odfabric.adapters.http.egress import Answer, Egress, SizeLimit
from odfabric.adapters.http.partial_downloads import PartialDownloads
from odfabric.adapters.http.retry_after import retry_after_s
from odfabric.adapters.http.url import HttpUrl
from odfabric.domain.sources.remote_answers import failed_answer, login_hint
from odfabric.errors import (
    AccessDenied,
    CorruptedSource,
    Determinate,
    InvalidName,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    Place,
    Unauthenticated,
)
from odfabric.formats.blocks.block_stretch import BYTES_MAX, COUNT_MAX, HEADER, MEDIA_TYPE, read_stretch
from odfabric.formats.identifiers.dataset_layout import BLOCKS, HEAD, object_path, parse_ref
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.object_store import REF_BYTES_MAX
from odfabric.ports.sources.egress import RemoteDataset

HEAD_BYTES_MAX = 200
TAG_CHARACTERS_MAX = 300
TOKEN_CHARACTERS_MAX = 8 * 1024
_SMART = "odf+"
_CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-\d{1,19}/(?:\d{1,19}|\*)", re.ASCII)
_BEARER = re.compile(r"[A-Za-z0-9._~+/=-]+", re.ASCII)


class HttpRemoteDatasets:
    """`ports.sources.egress.RemoteDatasets` for http(s):// and odf+http(s)://."""

    def __init__(
        self,
        egress: Egress,
        *,
        block_bytes_max: int,
        resumes_max: int = 5,
        partials: PartialDownloads | None = None,
    ) -> None:
        """`resumes_max` is how often a download that broke off goes on.

        What still is not whole is kept in `partials` for the next attempt.
        """
        self._partials = partials or PartialDownloads(None)
        self._egress = egress
        self._resumes_max = resumes_max
        self._block_bytes_max = block_bytes_max

    def open(self, url: str, *, token: str | None = None) -> RemoteDataset:
        """Read the URL; the network is asked by the first read."""
        smart = url[: len(_SMART)].lower() == _SMART
        base = self._egress.check(url[len(_SMART) :] if smart else url)
        if "?" in base.target:
            raise InvalidRequest("the URL of a dataset has no query", place=Place(field="url"))
        if token is not None and (len(token) > TOKEN_CHARACTERS_MAX or _BEARER.fullmatch(token) is None):
            raise InvalidRequest("not a bearer token", place=Place(field="token"))
        return HttpRemoteDataset(self._egress, base, token, self._block_bytes_max, self._resumes_max, self._partials)


class HttpRemoteDataset:
    """One dataset of a peer."""

    def __init__(
        self,
        egress: Egress,
        base: HttpUrl,
        token: str | None,
        block_bytes_max: int,
        resumes_max: int,
        partials: PartialDownloads,
    ) -> None:
        self._partials = partials
        self._egress = egress
        self._resumes_max = resumes_max
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

    def blocks(self, block_hash: Multihash, *, count_max: int) -> Sequence[bytes]:
        """The block and, from a node of this kind, predecessors in the same answer."""
        if count_max == 1:
            return [self.block(block_hash)]
        count_max = min(count_max, COUNT_MAX)
        frames = BYTES_MAX + self._block_bytes_max + 4 * count_max
        limit = SizeLimit(name="block_bytes_max", bytes_max=frames)
        asked = [(HEADER, str(count_max))]
        with self._get(object_path(BLOCKS, block_hash), "block", str(block_hash), limit, asked=asked) as answer:
            body = answer.read()
            several = answer.header("content-type") == MEDIA_TYPE
        if several:
            return read_stretch(body, count_max=count_max, block_bytes_max=self._block_bytes_max)
        if len(body) > self._block_bytes_max:
            maximum = self._block_bytes_max
            raise LimitExceeded(f"{block_hash} is too large", limit="block_bytes_max", maximum=maximum)
        return [body]

    def ref(self, path: str) -> bytes | None:
        """A small file beside the head. A node without such files answers 404."""
        limit = SizeLimit(name="ref_bytes_max", bytes_max=REF_BYTES_MAX)
        try:
            with self._get(path, "ref", path, limit) as answer:
                return answer.read()
        except NotFound:
            return None

    def download(self, folder: str, object_hash: Multihash, *, size_max: int, into: Path) -> int:
        """An object into a new file.

        What breaks off goes on where it broke, if the server has ranges and keeps to its entity tag; also at the next call.
        """
        path, shown = object_path(folder, object_hash), str(object_hash)
        url = self._base + path
        mark = self._partials.take(url, into)
        try:
            with into.open("xb" if mark is None else "r+b") as file:
                file.seek(0, os.SEEK_END)
                begun = _Begun(mark)
                try:
                    self._download(path, shown, file, SizeLimit(name="object_bytes_max", bytes_max=size_max), begun)
                    return file.tell()
                except Determinate:
                    if begun.mark is not None and 0 < file.tell() < size_max:
                        file.flush()
                        self._partials.keep(url, into, begun.mark)
                    with suppress(OSError):
                        into.unlink()
                    raise
                except BaseException:
                    with suppress(OSError):
                        into.unlink()
                    raise
        except OSError as error:
            raise Determinate(f"{into.name} cannot be written: {error.strerror}") from None

    def _download(self, path: str, shown: str, file: BinaryIO, limit: SizeLimit, had: _Begun) -> None:
        resumes = 0
        while True:
            begun = file.tell()
            try:
                with self._get(path, "object", shown, limit, conditions=_rest(begun, had.mark)) as answer:
                    if begun and answer.status == 200:  # it has another object now, or no ranges
                        begun = 0
                        file.seek(0)
                        file.truncate()
                    had.mark = _mark(answer)
                    for piece in answer.body():
                        if file.tell() + len(piece) > limit.bytes_max:
                            raise LimitExceeded(f"{shown} is too large", limit=limit.name, maximum=limit.bytes_max)
                        file.write(piece)
                return
            except Determinate:
                resumes += 1
                if had.mark is None or file.tell() <= begun or resumes > self._resumes_max:
                    raise

    @contextmanager
    def _get(
        self,
        path: str,
        what: str,
        name: str,
        limit: SizeLimit,
        *,
        conditions: Sequence[tuple[str, str]] = (),
        asked: Sequence[tuple[str, str]] = (),
    ) -> Iterator[Answer]:
        url, headers = self._base + path, [*self._headers, *asked]
        with self._egress.get(url, headers=headers, conditions=conditions, limit=limit) as answer:
            match answer.status:
                case 200:
                    yield answer
                case 206 if conditions and _begins(answer) == conditions[0][1].removeprefix("bytes=").rstrip("-"):
                    yield answer
                case 401:
                    raise Unauthenticated(f"{self._shown} wants a valid token", hint=login_hint(self._shown))
                case 403:
                    raise AccessDenied(f"{self._shown} refuses this account")
                case status:
                    wait_s = retry_after_s(answer)
                    raise failed_answer(status, url=answer.url.shown, what=what, name=name, retry_after_s=wait_s)


@dataclass(slots=True)
class _Begun:
    """Entity tag of the bytes received; None: they cannot be continued."""

    mark: str | None


def _rest(begun: int, mark: str | None) -> list[tuple[str, str]]:
    """Headers that ask for the object of `mark` from byte `begun` on."""
    return [("Range", f"bytes={begun}-"), ("If-Range", mark)] if begun and mark is not None else []


def _mark(answer: Answer) -> str | None:
    """The strong entity tag by which the rest can be asked for.

    None if it cannot: bytes of a coding are not those of the object.
    """
    tag = answer.header("etag")
    coded = answer.header("content-encoding") not in (None, "identity")
    return tag if tag is not None and tag.startswith('"') and not coded and len(tag) <= TAG_CHARACTERS_MAX else None


def _begins(answer: Answer) -> str | None:
    match = _CONTENT_RANGE.fullmatch(answer.header("content-range") or "")
    return match[1] if match else None
