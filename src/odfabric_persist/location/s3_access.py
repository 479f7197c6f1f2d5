"""The way to an S3 bucket: where it is, one client, and what its failures mean.

Owns the client's settings and the lists of answers and failures after which a request surely had no effect. Invariant: the
client never tries again by itself - a second attempt hides what became of the first, and would lose a compare-and-set that
succeeded. Source: ADR 0018.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import boto3
from botocore import exceptions
from botocore.config import Config

from odfabric_persist.errors import Determinate, Indeterminate, UsageError
from odfabric_persist.location.blob import KEY_BYTES_MAX

MIB = 1 << 20
PREFIX_BYTES_MAX = 1024 - KEY_BYTES_MAX
"""S3 takes keys of 1024 bytes."""

WITHOUT_EFFECT = frozenset(
    {
        "AccessDenied",
        "ConditionalRequestConflict",
        "ExpiredToken",
        "InvalidAccessKeyId",
        "InvalidBucketName",
        "NoSuchBucket",
        "NoSuchUpload",
        "NotImplemented",
        "OperationAborted",
        "PreconditionFailed",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
        "SlowDown",
        "TooManyRequests",
    }
)
"""Answers of a store that did nothing."""

_NEVER_SENT = (
    exceptions.EndpointConnectionError,
    exceptions.ConnectTimeoutError,
    exceptions.ProxyConnectionError,
    exceptions.NoCredentialsError,
    exceptions.PartialCredentialsError,
    exceptions.ParamValidationError,
)

_session_lock = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Place:
    """A part of a bucket: all keys that begin with `prefix`.

    Without keys the usual ways of the SDK to credentials apply.
    """

    bucket: str
    prefix: str = ""
    endpoint: str | None = None
    """Address of a store that is not AWS; its buckets are then part of the path."""
    region: str = "us-east-1"
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    connect_s_max: float = 5.0
    answer_s_max: float = 30.0
    connections_max: int = 16
    multipart_bytes: int = 8 * MIB
    """Values from this size on are sent in parts of it."""
    parts_at_once: int = 4
    page_keys: int = 1000
    """Keys of one page of a list."""

    def __post_init__(self) -> None:
        """Raises UsageError (`invalid-place`)."""
        if len(self.prefix.encode()) > PREFIX_BYTES_MAX or self.prefix.startswith("/"):
            raise UsageError("invalid-place", f"a prefix has at most {PREFIX_BYTES_MAX} bytes and no slash in front")

    def below(self, prefix: str) -> S3Place:
        """The part of this part with a longer prefix."""
        return replace(self, prefix=self.prefix + prefix)


def s3_client(place: S3Place) -> Any:
    """A client; safe for threads. Raises UsageError (`invalid-place`)."""
    config = Config(
        signature_version="s3v4",
        s3={"addressing_style": "path" if place.endpoint else "auto"},
        retries={"total_max_attempts": 1, "mode": "standard"},
        connect_timeout=place.connect_s_max,
        read_timeout=place.answer_s_max,
        max_pool_connections=place.connections_max,
        # Checksums in trailers are unknown to many stores; parts of a shard carry their own.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    try:
        with _session_lock:
            return _session().client(
                "s3",
                endpoint_url=place.endpoint,
                region_name=place.region,
                aws_access_key_id=place.access_key,
                aws_secret_access_key=place.secret_key,
                config=config,
            )
    except (ValueError, exceptions.BotoCoreError) as error:
        raise UsageError("invalid-place", f"no client for S3: {type(error).__name__}") from error


@cache
def _session() -> Any:
    """Knows the models of the service, which take long to load.

    Not safe for threads, as its clients are.
    """
    return boto3.session.Session()


def code_of(error: exceptions.ClientError) -> str:
    """What the store said; the number where an answer has no body, as to HEAD."""
    return str(error.response.get("Error", {}).get("Code", ""))


@contextmanager
def located(what: str, *, writes: bool) -> Iterator[None]:
    """The SDK's errors as ours: sent writes may have happened.

    Unless it is known that they did not.
    """
    try:
        yield
    except exceptions.ClientError as error:
        kind = Indeterminate if writes and code_of(error) not in WITHOUT_EFFECT else Determinate
        raise kind(f"S3: {what}: {code_of(error)}") from error
    except (exceptions.BotoCoreError, exceptions.HTTPClientError) as error:
        kind = Indeterminate if writes and not isinstance(error, _NEVER_SENT) else Determinate
        raise kind(f"S3: {what}: {type(error).__name__}") from error
