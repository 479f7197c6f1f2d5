"""Recovery, collection and cursors where the database is PostgreSQL and the objects are in S3."""

from __future__ import annotations

import time
from pathlib import Path

from odfabric.adapters.memory.clock import SettableClock
from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.formats.references import parse_dataset_alias
from odfabric.model.instant import Instant
from odfabric.settings import Settings
from odfabric.usecases.rebuild import RebuildOutcome
from odfabric.wiring import open_node, prepare_workspace
from tests.drills import scenario
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.s3 import S3Server


def settings_of(workspace: Path, database_url: str, s3: S3Server, bucket: str) -> Settings:
    return Settings(
        workspace=workspace,
        database_url=database_url,
        objects_url=f"s3://{bucket}/node",
        s3_endpoint_url=s3.endpoint,
        s3_access_key=s3.access_key,  # type: ignore[arg-type]
        s3_secret_key=s3.secret_key,  # type: ignore[arg-type]
    )


def test_a_database_on_a_server_comes_back_from_a_bucket(
    tmp_path: Path, postgres: PostgresServer, s3: S3Server, bucket: str
) -> None:
    workspace = tmp_path / "w"
    settings = settings_of(workspace, postgres.create_database(), s3, bucket)
    prepare_workspace(settings)
    engine = MemoryEngine(workspace / "exchange")
    with open_node(settings, engine=engine) as node:
        scenario.make_and_delete(node)
        (entry,) = node.datasets(after=None, limit=10)
        rows = list(node.repository.rows_down(entry.id))
    settings = settings_of(workspace, postgres.create_database(), s3, bucket)
    prepare_workspace(settings)
    # The server's own clock says when objects were written.
    clock = SettableClock(Instant(time.time_ns() + 48 * scenario.HOUR_NS), step_ms=1)
    with open_node(settings, engine=engine, clock=clock) as node:
        assert [found.outcome for found in node.rebuild(adopt=False)] == [RebuildOutcome.REBUILT]
        assert list(node.repository.rows_down(entry.id)) == rows
        assert node.resolve(parse_dataset_alias("readings")).id == entry.id
        deleted = [one for portion in node.collect(dry_run=False) for one in portion.litter]
        assert deleted
        assert not any(one.key.startswith(entry.id.multibase) for one in deleted)
        assert [one for portion in node.collect(dry_run=False) for one in portion.litter] == []
        scenario.consume(node, clock, "")
