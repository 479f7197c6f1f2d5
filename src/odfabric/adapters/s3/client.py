"""The client of an S3 server, and what its failures mean.

Owns how this process talks to the server: signatures, limits of waiting, attempts. Invariant: a call that changes something is repeated
by the client only where a repetition changes nothing, and a failure after sending a change is Indeterminate. Not here: keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    ProxyConnectionError,
)

from odfabric.adapters.s3.guarded import AnswerPace, BadAnswer, guard_client
from odfabric.errors import Determinate, External, Indeterminate, OdfError
from odfabric.ports.sources.egress import TcpConnections

_NOT_SENT = (EndpointConnectionError, ConnectTimeoutError, NoCredentialsError, ProxyConnectionError)
_SERVER_ERROR = 500
_FORBIDDEN = 403
REFUSED = "refused"
"""Stage of a failure that is the server's word on our rights."""
_HINTS = {
    "NoSuchBucket": "make the bucket, or correct ODF_OBJECTS_URL",
    "AccessDenied": "the keys must be allowed to read, write, list and delete in the bucket",
    "InvalidAccessKeyId": "check ODF_S3_ACCESS_KEY",
    "SignatureDoesNotMatch": "check ODF_S3_SECRET_KEY",
    "EndpointConnectionError": "is the S3 server running at ODF_S3_ENDPOINT_URL?",
    "NoCredentialsError": "set ODF_S3_ACCESS_KEY and ODF_S3_SECRET_KEY, or give the machine a role",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Access:
    """How to reach the server.

    Without keys the usual chain of the SDK is asked: environment, profile, role of the machine.

    `connect_s_max` and `read_s_max` are the longest waits for a connection and for the next bytes. Without `signs` requests are a stranger's.
    `connections` makes those to a server that a user has named, which may answer no slower than `pace`.
    """

    endpoint_url: str | None = None
    region: str = "us-east-1"
    access_key: str | None = None
    secret_key: str | None = None
    connect_s_max: float = 10.0
    read_s_max: float = 60.0
    attempts_max: int = 4
    connections_max: int = 32
    signs: bool = True
    connections: TcpConnections | None = None
    pace: AnswerPace = field(default_factory=AnswerPace)

    def client(self) -> Any:
        """A client, safe for threads."""
        made = boto3.client(
            "s3",
            endpoint_url=self.endpoint_url,
            region_name=self.region,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=Config(
                signature_version="s3v4" if self.signs else UNSIGNED,
                # A server of one's own rarely has a name for each bucket.
                s3={"addressing_style": "path" if self.endpoint_url else "auto"},
                retries={"mode": "standard", "total_max_attempts": self.attempts_max},
                connect_timeout=self.connect_s_max,
                read_timeout=self.read_s_max,
                max_pool_connections=self.connections_max,
                **({} if self.connections is None else {"proxies": {}}),
            ),
        )
        if self.connections is not None:
            guard_client(made, self.connections, connect_s_max=self.connect_s_max, pace=self.pace)
        return made


def status_of(error: ClientError) -> int:
    """HTTP status of an answer that is an error."""
    return int(_metadata(error).get("HTTPStatusCode", 0))


def code_of(error: ClientError) -> str:
    """The server's word for it."""
    return str(error.response.get("Error", {}).get("Code", ""))


def _metadata(error: ClientError) -> Mapping[str, Any]:
    found: Mapping[str, Any] = error.response.get("ResponseMetadata", {})
    return found


def is_absent(error: ClientError) -> bool:
    """Whether the key does not exist; a missing bucket is something else."""
    return status_of(error) == 404 and code_of(error) != "NoSuchBucket"


def is_taken(error: ClientError) -> bool:
    """Whether a write on the condition that nothing is there met something."""
    return status_of(error) == 412


@contextmanager
def failing(key: str, *, changes: bool) -> Iterator[None]:
    """The SDK's failures as ours.

    `changes`: what was sent may have happened although no answer came.
    """
    try:
        yield
    except ClientError as error:
        lost = changes and status_of(error) >= _SERVER_ERROR
        failure = _failure(Indeterminate if lost else Determinate, key, code_of(error))
        failure.stage = REFUSED if status_of(error) == _FORBIDDEN else None
        raise failure from error
    except HTTPClientError as error:
        refused = error.kwargs.get("error")
        if isinstance(refused, OdfError):  # of the guard: nothing was sent
            raise refused from None
        if isinstance(refused, BadAnswer):
            raise _bad_answer(key, refused, changes=changes) from error
        raise _failure(Indeterminate if changes else Determinate, key, type(error).__name__) from error
    except _NOT_SENT as error:
        raise _failure(Determinate, key, type(error).__name__) from error
    except (BotoCoreError, OSError) as error:
        raise _failure(Indeterminate if changes else Determinate, key, type(error).__name__) from error
    except BadAnswer as error:
        raise _bad_answer(key, error, changes=changes) from error
    except (ValueError, RecursionError) as error:
        # The SDK reads numbers and times of headers without a check, and follows redirects of redirects.
        raise _bad_answer(key, BadAnswer("the answer of the store cannot be read"), changes=changes) from error


def member(answer: Mapping[str, Any], name: str, key: str) -> Any:
    """A member of an answer that every store gives. Raises Determinate."""
    if name not in answer:
        raise Determinate(f"object {key}: the answer of the store lacks {name}", hint="is it a store of S3's kind?")
    return answer[name]


def _bad_answer(key: str, error: BadAnswer, *, changes: bool) -> External:
    return (Indeterminate if changes else Determinate)(f"object {key}: {error}")


def _failure(kind: type[External], key: str, reason: str) -> External:
    return kind(f"object {key}: the store answered {reason}", hint=_HINTS.get(reason))
