"""Every store that tests of the location layer are run on.

Two handles of one path see one store.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from odfabric_persist.location.cached import CachedBlob
from odfabric_persist.location.folder_blob import FolderBlob
from odfabric_persist.location.memory import MemoryBlob, MemoryConsensus
from odfabric_persist.location.metered import Meter, MeteredBlob, MeteredConsensus
from odfabric_persist.location.s3_access import s3_client
from odfabric_persist.location.s3_blob import S3Blob
from odfabric_persist.location.unreliable import Faults, UnreliableBlob, UnreliableConsensus
from tests.persist.stores import OpenBlob, OpenConsensus, address_of, closing_consensus, fresh_place
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.s3 import S3Server


@pytest.fixture(
    params=[
        "memory",
        "memory that keeps deleted",
        "folder",
        "cached",
        "metered",
        "unreliable",
        "s3",
        "s3 with versions",
    ]
)
def open_blob(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenBlob]:
    """Handles of stores by path."""
    if request.param.startswith("s3"):
        place = fresh_place(request, keeps_versions="versions" in request.param)
        with closing(s3_client(place)) as client:
            yield lambda path: S3Blob(place.below(f"{path}/"), client=client)
        return
    memory = {name: MemoryBlob(keeps_deleted="deleted" in request.param) for name in ("path0", "path1")}
    kinds: dict[str, OpenBlob] = {
        "folder": lambda path: FolderBlob(tmp_path / path),
        "cached": lambda path: CachedBlob(memory[path], bytes_max=0),
        "metered": lambda path: MeteredBlob(memory[path], Meter()),
        "unreliable": lambda path: UnreliableBlob(memory[path], Faults()),
    }
    yield kinds.get(request.param, lambda path: memory[path])


@pytest.fixture(params=["memory", "sqlite", "postgres", "s3", "metered", "unreliable"])
def open_consensus(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenConsensus]:
    """Handles of one register."""
    if request.param in ("sqlite", "postgres", "s3"):
        with closing_consensus(address_of(request.param, request, tmp_path)) as opened:
            yield opened
        return
    memory = MemoryConsensus()
    kinds: dict[str, OpenConsensus] = {
        "memory": lambda: memory,
        "metered": lambda: MeteredConsensus(memory, Meter()),
        "unreliable": lambda: UnreliableConsensus(memory, Faults()),
    }
    yield kinds[request.param]


@pytest.fixture(scope="session")
def shared_bucket(s3: S3Server) -> str:
    """Name of a bucket in which each test has a prefix of its own."""
    return s3.create_bucket()


@pytest.fixture(scope="session")
def shared_bucket_with_versions(s3: S3Server) -> str:
    """The same; what is deleted or overwritten stays behind."""
    bucket = s3.create_bucket()
    s3.client().put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    return bucket


@pytest.fixture(scope="session")
def shared_database(postgres: PostgresServer) -> str:
    """URL of a database in which each test has a schema of its own."""
    return postgres.create_database()
