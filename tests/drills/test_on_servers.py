"""Drills on servers: PostgreSQL and S3, and S3 alone with heads in `refs/head`.

Recovery, collection and cursors run there.

Every point is drilled `ODF_SERVER_DRILL_ROUNDS` times if that is set; `ODF_SERVER_DRILL_PART=3/10` takes the third of ten parts of these
drills. `-n 2` shares them among processes with servers of their own. Otherwise a run has those whose turn it is, `TURN` of each kind of
node: another turn each day, so that all of them come round.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import psycopg
import pytest

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.adapters.memory.node.clock import SettableClock
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.model.instant import Instant
from odfabric.settings import Settings
from odfabric.usecases.maintenance.rebuild import RebuildOutcome
from odfabric.wiring import open_node, prepare_workspace
from tests.drills import scenario
from tests.drills.drills import Drill, Prepared, drills_of, is_other_hit
from tests.drills.places import InBucket, OnServers, on_servers
from tests.drills.processes import opened
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.s3 import S3Server
from tests.support.turns import today

ROUNDS = int(os.environ.get("ODF_SERVER_DRILL_ROUNDS", "0"))
PART, PARTS = (int(number) for number in os.environ.get("ODF_SERVER_DRILL_PART", "1/1").split("/"))
TURN = 4
"""A drill takes about three seconds on two cores that nothing else uses."""


def todays(drills: list[Drill]) -> list[Drill]:
    """All of them as often as was asked for, or those whose turn it is."""
    if ROUNDS:
        # One point of two has its other hit in every other round.
        asked = [drill for number in range(ROUNDS) for drill in drills if not is_other_hit(drill, number)]
        return asked[len(asked) * (PART - 1) // PARTS : len(asked) * PART // PARTS]
    turns = -(-len(drills) // TURN)
    return drills[today() % turns :: turns]


@pytest.fixture(scope="module")
def servers(postgres: PostgresServer, s3: S3Server) -> OnServers:
    return on_servers(postgres, s3, s3.create_bucket())


@pytest.fixture(scope="module")
def one_bucket(s3: S3Server) -> InBucket:
    return InBucket(settings={"heads": "objects"}, s3=s3, bucket=s3.create_bucket())


def live_through(drill: Drill, places: InBucket, folder: Path, prepared: Prepared) -> None:
    """The drill.

    Only what a failed one leaves is kept: thousands of them would fill the disk.
    """
    drill.act(places, folder, drill.armed, prepared)
    places.clear(folder)
    shutil.rmtree(folder)


@pytest.mark.parametrize("drill", todays(drills_of(shared=False)), ids=str)
def test_a_process_that_dies_on_servers_is_continued(
    tmp_path: Path, prepared: Prepared, servers: OnServers, drill: Drill
) -> None:
    live_through(drill, servers, tmp_path, prepared)


@pytest.mark.parametrize("drill", todays(drills_of(shared=True)), ids=str)
def test_a_process_that_dies_on_a_bucket_alone_is_continued(
    tmp_path: Path, prepared: Prepared, one_bucket: InBucket, drill: Drill
) -> None:
    live_through(drill, one_bucket, tmp_path, prepared)


def test_only_what_is_cleared_leaves_the_servers(tmp_path: Path, postgres: PostgresServer, s3: S3Server) -> None:
    places = on_servers(postgres, s3, s3.create_bucket())
    kept, cleared = (places.new(tmp_path / name) for name in ("kept", "cleared"))
    for place in (kept, cleared):
        with opened(place) as node:
            node.ports.objects.put_bytes("f/blocks/1", b"1")
    (tmp_path / "copied").mkdir()
    places.copy(kept, tmp_path / "copied")
    assert len(keys_in(s3, places.bucket)) == 3
    places.clear(tmp_path / "copied")
    places.clear(tmp_path / "cleared")
    (key,) = keys_in(s3, places.bucket)
    assert key.endswith("f/blocks/1")
    assert str(kept.settings["objects_url"]).endswith(key.partition("/")[0])
    names = {str(place.settings["database_url"]).rpartition("/")[2] for place in (kept, cleared)}
    with psycopg.connect(f"{postgres.conninfo}/postgres") as connection:
        rows = connection.execute("SELECT datname FROM pg_database").fetchall()
    assert names & {name for (name,) in rows} == {str(kept.settings["database_url"]).rpartition("/")[2]}


def keys_in(s3: S3Server, bucket: str) -> list[str]:
    return [found["Key"] for found in s3.client().list_objects_v2(Bucket=bucket).get("Contents", ())]


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
        (entry,) = node.datasets.page(after=None, limit=10)
        rows = list(node.repository.rows_down(entry.id))
    settings = settings_of(workspace, postgres.create_database(), s3, bucket)
    prepare_workspace(settings)
    # The server's own clock says when objects were written.
    clock = SettableClock(Instant(time.time_ns() + 48 * scenario.HOUR_NS), step_ms=1)
    with open_node(settings, engine=engine, clock=clock) as node:
        assert [found.outcome for found in node.objects.rebuild(adopt=False)] == [RebuildOutcome.REBUILT]
        assert list(node.repository.rows_down(entry.id)) == rows
        assert node.datasets.resolve(parse_dataset_alias("readings")).id == entry.id
        deleted = [one for portion in node.objects.collect(dry_run=False) for one in portion.litter]
        assert deleted
        assert not any(one.key.startswith(entry.id.multibase) for one in deleted)
        assert [one for portion in node.objects.collect(dry_run=False) for one in portion.litter] == []
        scenario.consume(node, clock, "")
