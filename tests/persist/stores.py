"""Stores by address, so that another process can open the same one."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TypeAlias

import psycopg
import pytest

from odfabric_persist.location.blob import Blob
from odfabric_persist.location.consensus import Consensus
from odfabric_persist.location.postgres_consensus import PostgresConsensus
from odfabric_persist.location.s3_access import S3Place
from odfabric_persist.location.s3_consensus import S3Consensus
from odfabric_persist.location.sqlite_consensus import SqliteConsensus
from tests.support.servers.s3 import S3Server

OpenBlob: TypeAlias = Callable[[str], Blob]
OpenConsensus: TypeAlias = Callable[[], Consensus]
Register: TypeAlias = SqliteConsensus | PostgresConsensus | S3Consensus


def fresh_place(request: pytest.FixtureRequest, *, keeps_versions: bool = False) -> S3Place:
    """An empty place on the server of tests."""
    server: S3Server = request.getfixturevalue("s3")
    bucket = request.getfixturevalue("shared_bucket_with_versions" if keeps_versions else "shared_bucket")
    return S3Place(
        bucket=bucket,
        prefix=f"{uuid.uuid4().hex}/",
        endpoint=server.endpoint,
        access_key=server.access_key,
        secret_key=server.secret_key,
    )


def consensus_at(address: str) -> Register:
    """The register at `sqlite:PATH`, `s3:PLACE` or a `postgresql://` URL."""
    kind, _, rest = address.partition(":")
    if kind == "sqlite":
        return SqliteConsensus(Path(rest))
    if kind == "s3":
        return S3Consensus(S3Place(**json.loads(rest)))
    return PostgresConsensus(address)


def address_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """Address of a new register: `sqlite`, `postgres` or `s3`."""
    if kind == "sqlite":
        return f"sqlite:{folder / 'versions.db'}"
    if kind == "s3":
        return f"s3:{json.dumps(asdict(fresh_place(request)))}"
    return fresh_schema(str(request.getfixturevalue("shared_database")))


def fresh_schema(url: str) -> str:
    """The database as sessions see it that know one empty schema only.

    A database for each test would cost more.
    """
    name = f"s{uuid.uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{url}?options=-c%20search_path%3D{name}"


@contextmanager
def closing_consensus(address: str) -> Iterator[Callable[[], Register]]:
    """Opens handles of one register; all are closed in the end."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(consensus_at(address)))
