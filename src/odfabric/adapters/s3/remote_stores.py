"""Buckets elsewhere as stores of objects, opened by s3:// and s3+http(s):// URLs.

Owns the reading of such URLs and which keys go to which bucket. Invariants: keys go to the bucket that they were set for and nowhere else, a
bucket without keys is asked without a signature; connections pass the guard. Clients are kept, one a bucket.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from odfabric.adapters.s3.client import REFUSED, S3Access
from odfabric.adapters.s3.guarded import AnswerPace
from odfabric.adapters.s3.object_store import S3ObjectStore
from odfabric.errors import AccessDenied, Determinate, InvalidRequest, LimitExceeded, Place
from odfabric.formats.identifiers.dataset_layout import BLOCKS, CHECKPOINTS, DATA, HEAD
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.sources.egress import TcpConnections

CLIENTS_MAX = 100
PREFIX_CHARACTERS_MAX = 600

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)
_PARTS = frozenset({BLOCKS, DATA, CHECKPOINTS, "refs", "info"})
"""Folders within a dataset."""
_SCHEMES = ("s3", "s3+http", "s3+https")
_EXAMPLES = "e.g. s3://bucket/folder or s3+https://host:9000/bucket/folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketKeys:
    """Keys to one bucket."""

    access_key: str
    secret_key: str
    region: str


@dataclass(frozen=True, slots=True)
class _Place:
    """Server, bucket and prefix.

    Server None: that of AWS. The prefix is empty or ends with a slash.
    """

    endpoint: str | None
    bucket: str
    prefix: str

    @property
    def origin(self) -> str:
        """What keys are set for."""
        return f"s3+{self.endpoint}/{self.bucket}" if self.endpoint else f"s3://{self.bucket}"


class S3RemoteStores:
    """`ports.transfer.destinations.RemoteStores` for buckets. Close it when done.

    Serves s3://, s3+http:// and s3+https://.
    """

    def __init__(
        self,
        connections: TcpConnections,
        *,
        keys: Mapping[str, BucketKeys],
        own_keys: bool = False,
        connect_s_max: float = 10.0,
        read_s_max: float = 60.0,
        attempts_max: int = 4,
        names_max: int = 1_000_000,
        pace: AnswerPace | None = None,
    ) -> None:
        """`keys` by `s3://bucket` or `s3+http(s)://host/bucket`.

        `own_keys`: those that the SDK finds go to buckets of AWS without others. `names_max`: names of a listing.
        """
        self._connections = connections
        self._keys = {origin.rstrip("/").lower(): found for origin, found in keys.items()}
        self._own_keys = own_keys
        self._limits = (connect_s_max, read_s_max, attempts_max)
        self._names_max, self._pace = names_max, pace or AnswerPace()
        self._lock = threading.Lock()
        self._stores: dict[tuple[str, str], S3ObjectStore] = {}

    def close(self) -> None:
        """Close idle connections."""
        with self._lock:
            for store in self._stores.values():
                store.close()
            self._stores.clear()

    def open(self, url: str, *, writes: bool) -> ObjectStore:
        """See the port."""
        return cast(ObjectStore, _Bucket(self._store(_place_of(url))))

    def _store(self, place: _Place) -> S3ObjectStore:
        known = (place.origin.lower(), place.prefix)
        with self._lock:
            if known not in self._stores:
                if len(self._stores) >= CLIENTS_MAX:
                    self._stores.pop(next(iter(self._stores))).close()
                self._stores[known] = self._opened(place)
            return self._stores[known]

    def datasets(self, url: str, *, limit: int) -> Sequence[str]:
        """See the port. Raises Determinate."""
        place = _place_of(url)
        store = self._store(place)
        found: list[str] = []
        left = limit
        for name in islice(store.folders("", names_max=limit), limit):
            for path in (
                name,
                *(f"{name}/{below}" for below in islice(store.folders(f"{name}/", names_max=limit), limit)),
            ):
                if left == 0:
                    return found
                left -= 1
                if path.rpartition("/")[2] not in _PARTS and store.stat(f"{path}/{HEAD}") is not None:
                    found.append(path)
        return found

    def _opened(self, place: _Place) -> S3ObjectStore:
        connect_s_max, read_s_max, attempts_max = self._limits
        keys = self._keys.get(place.origin.lower())
        access = S3Access(
            endpoint_url=place.endpoint,
            region=keys.region if keys else "us-east-1",
            access_key=keys.access_key if keys else None,
            secret_key=keys.secret_key if keys else None,
            signs=keys is not None or (self._own_keys and place.endpoint is None),
            connections=self._connections,
            connect_s_max=connect_s_max,
            read_s_max=read_s_max,
            attempts_max=attempts_max,
            pace=self._pace,
        )
        return S3ObjectStore(access, place.bucket, prefix=place.prefix, exclusive=_unlocked, names_max=self._names_max)


class _Bucket:
    """A store whose refusals are final: nobody here can change rights to the bucket."""

    def __init__(self, store: S3ObjectStore) -> None:
        self._store = store

    def __getattr__(self, method: str) -> Any:
        member = getattr(self._store, method)

        def call(*arguments: Any, **named: Any) -> Any:
            try:
                return member(*arguments, **named)
            except Determinate as failure:
                if failure.stage != REFUSED:
                    raise
                raise AccessDenied(
                    failure.message, hint="ask its owner for access, or set its keys (ODF_REMOTE_S3_KEYS)"
                ) from failure

        return call


def _unlocked(name: str) -> AbstractContextManager[None]:
    """A bucket has no locks; anyone who writes a ref there does so by condition."""
    return nullcontext()


def _place_of(url: str) -> _Place:
    place = Place(field="url")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidRequest(f"not a URL: {error}", place=place, hint=_EXAMPLES) from None
    scheme = parts.scheme.lower()
    if scheme not in _SCHEMES:
        raise InvalidRequest(f"{scheme or 'such'} URLs lead to no bucket", place=place, hint=_EXAMPLES)
    if "@" in parts.netloc or parts.query or parts.fragment or "?" in url or "#" in url or not parts.hostname:
        raise InvalidRequest("not the URL of a place in a bucket", place=place, hint=_EXAMPLES)
    path = [unquote(part) for part in parts.path.split("/") if part]
    endpoint = None
    if scheme == "s3":
        bucket = parts.netloc
    else:
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        endpoint = f"{scheme.removeprefix('s3+')}://{host}" + (f":{port}" if port else "")
        bucket, path = (path[0], path[1:]) if path else ("", [])
    if _BUCKET.fullmatch(bucket) is None:
        raise InvalidRequest(f"{bucket[:100]!r} is not the name of a bucket", place=place, hint=_EXAMPLES)
    if any(part in (".", "..") or "\0" in part for part in path):
        raise InvalidRequest("a place in a bucket has no dots for parts", place=place)
    prefix = "".join(f"{part}/" for part in path)
    if len(prefix) > PREFIX_CHARACTERS_MAX:
        raise LimitExceeded(
            "the URL is too long", limit="prefix_characters_max", maximum=PREFIX_CHARACTERS_MAX, place=place
        )
    return _Place(endpoint, bucket, prefix)
