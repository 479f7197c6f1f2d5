"""The database behind the ports: failures, kills, PostgreSQL statements."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection, event, insert, select, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.schema import CreateIndex, CreateTable

from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.datasets.chains import SqlChains
from odfabric.adapters.sql.jobs.jobs import _READY, SqlJobs
from odfabric.adapters.sql.subscriptions.deliveries import SqlDeliveries, due_deliveries
from odfabric.adapters.sql.tables.every_table import metadata
from odfabric.adapters.sql.tables.jobs import job_commits, jobs
from odfabric.adapters.sql.tables.node import outbox
from odfabric.adapters.sql.upgrade import upgrade
from odfabric.errors import Corrupt, Determinate, HeadMoved, Indeterminate
from odfabric.model.commit import IdempotencyRecord
from odfabric.testing.conformance.examples import NOW, GrowingChain, entry_of, hash_of, hashes_down, new_chain
from odfabric.testing.conformance.jobs.jobs import new_job


@pytest.fixture
def file(tmp_path: Path) -> Path:
    upgrade(f"sqlite:///{tmp_path}/node.db")
    return tmp_path / "node.db"


@pytest.fixture
def database(file: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{file}", busy_s_max=0.2)
    yield database
    database.close()


def test_connections_are_set_up(database: Database) -> None:
    with database.read() as connection:
        settings = {
            name: connection.execute(text(f"PRAGMA {name}")).scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 200}


def test_a_write_that_cannot_begin_did_not_happen(file: Path, database: Database) -> None:
    chains = SqlChains(database)
    chain = new_chain(chains)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        started = time.monotonic()
        with pytest.raises(Determinate, match="locked"):
            chain.grow()
        assert time.monotonic() - started < 5
        assert hashes_down(chains, chain.id) == [chain.head]
    chain.grow()
    assert len(hashes_down(chains, chain.id)) == 2


def test_threads_wait_for_each_other_no_longer_than_allowed(database: Database) -> None:
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with database.write():
            inside.set()
            leave.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    assert inside.wait(20)
    with pytest.raises(Determinate, match="busy"), database.write():
        pass
    leave.set()
    holder.join(20)
    with database.write():
        pass


def test_readers_are_not_held_up_by_a_writer(database: Database) -> None:
    chain = new_chain(SqlChains(database))
    with database.write() as connection:
        connection.execute(text("DELETE FROM datasets"))
        head = SqlChains(database).head(chain.id)
        assert head is not None
        assert head.hash == chain.head


def test_a_reader_sees_one_state(database: Database) -> None:
    chain = new_chain(SqlChains(database))
    with database.read() as connection:
        before = connection.execute(select(outbox.c.id)).all()
        chain.grow()
        assert connection.execute(select(outbox.c.id)).all() == before


def test_connections_are_limited(file: Path) -> None:
    database = Database(f"sqlite:///{file}", busy_s_max=0.1, connections_max=1)
    with database.read(), pytest.raises(Determinate, match="all connections are in use"), database.read():
        pass
    database.close()


def test_a_refusal_rolls_everything_back(database: Database) -> None:
    values = {"job_id": "j", "dataset_id": entry_of("x").id, "block_hash": hash_of("x")}

    def write_and_refuse() -> None:
        with database.write() as connection:
            connection.execute(insert(job_commits).values(values))
            raise HeadMoved(expected="a", actual="b")

    with pytest.raises(HeadMoved):
        write_and_refuse()
    assert SqlChains(database).commit_of_job("j") is None


def test_broken_rules_of_the_database_are_bugs_not_outages(database: Database) -> None:
    orphan = {"dataset_id": entry_of("x").id.multibase, "hash": "f1620", "sequence_number": 0, "system_time": "t"}
    into = "INSERT INTO heads (dataset_id, hash, sequence_number, system_time) VALUES (:dataset_id, :hash, :sequence_number, :system_time)"
    with pytest.raises(IntegrityError), database.write() as connection:
        connection.execute(text(into), orphan)


def test_one_running_job_of_a_dataset_is_a_rule_of_the_database(database: Database) -> None:
    table = SqlJobs(database)
    for name in ("j1", "j2"):
        table.enqueue(new_job(name), now=NOW)
    with pytest.raises(IntegrityError), database.write() as connection:
        connection.execute(jobs.update().values(status="running"))


def test_a_commit_that_is_not_confirmed_leaves_the_outcome_open(database: Database) -> None:
    chain = new_chain(SqlChains(database))
    with database.read() as connection:
        pool = connection.engine

    def fail(connection: Connection) -> None:
        raise OperationalError("COMMIT", {}, sqlite3.OperationalError("disk I/O error"))

    event.listen(pool, "commit", fail)
    with pytest.raises(Indeterminate):
        chain.grow()
    event.remove(pool, "commit", fail)
    chain.grow()
    assert len(hashes_down(SqlChains(database), chain.id)) == 2


def test_a_damaged_file_is_alarming(file: Path, database: Database) -> None:
    chain = new_chain(SqlChains(database), blocks=400)
    database.close()
    data = bytearray(file.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    file.write_bytes(bytes(data))
    with pytest.raises(Corrupt):
        hashes_down(SqlChains(database), chain.id)


FULL_DISK = """
import resource, signal, sys
from odfabric.adapters.sql.datasets.chains import SqlChains
from odfabric.adapters.sql.database import Database
from odfabric.errors import Determinate, Indeterminate
from odfabric.testing.conformance.examples import new_chain
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
database = Database(sys.argv[1])
chain = new_chain(SqlChains(database))
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
for _ in range(1000):
    try:
        chain.grow(5)
    except (Determinate, Indeterminate) as error:
        print(type(error).__name__)
        break
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
head = SqlChains(database).head(chain.id)
print(head.sequence_number - chain.blocks[-1].block.sequence_number)
database.close()
"""


def test_a_full_disk_loses_nothing_that_was_confirmed(file: Path) -> None:
    command = [sys.executable, "-c", FULL_DISK, f"sqlite:///{file}"]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout.split()
    assert told[0] in {"Determinate", "Indeterminate"}
    assert told[1] in ({"0"} if told[0] == "Determinate" else {"0", "5"})
    database = Database(f"sqlite:///{file}")
    rows = list(SqlChains(database).rows_down(entry_of("flights").id))
    assert [row.sequence_number for row in rows] == list(range(len(rows) - 1, -1, -1))
    database.close()


GROW_FOR_EVER = """
import sys
from odfabric.adapters.sql.datasets.chains import SqlChains
from odfabric.adapters.sql.database import Database
from odfabric.testing.conformance.examples import new_chain
chain = new_chain(SqlChains(Database(sys.argv[1])), sys.argv[2])
while True:
    print(chain.grow(3)[-1].hash, flush=True)
"""


@pytest.mark.parametrize("confirmed", [1, 7, 40])
def test_a_kill_loses_no_confirmed_commit_and_leaves_none_half_done(
    file: Path, database: Database, confirmed: int
) -> None:
    command = [sys.executable, "-c", GROW_FOR_EVER, f"sqlite:///{file}", "killed"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        heads = [process.stdout.readline().strip() for _ in range(confirmed)]
        process.kill()
    chains = SqlChains(database)
    rows = list(chains.rows_down(entry_of("killed").id))
    assert heads[-1] in [str(row.hash) for row in rows]
    assert len(rows) % 3 == 1
    with database.read() as connection:
        assert len(connection.execute(select(outbox.c.id)).all()) == len(rows) // 3 + 1


def test_idle_workers_do_not_take_the_write_lock(file: Path, database: Database) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert SqlJobs(database).lease("w", now=NOW, lease_ms=1000) is None
        assert SqlDeliveries(database).lease_due("w", now=NOW, lease_ms=1000, limit=10) == []


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        (_READY[None].looked_at, "jobs_unfinished_idx"),
        (due_deliveries(NOW, NOW).limit(8), "deliveries_subscription_id_status_sequence_idx"),
        (select(outbox).where(outbox.c.done_at.is_(None)).order_by(outbox.c.id), "outbox_not_done_idx"),
    ],
)
def test_what_is_asked_all_the_time_uses_an_index(database: Database, statement: object, index: str) -> None:
    with database.read() as connection:
        compiled = statement.compile(connection.engine, compile_kwargs={"render_postcompile": True})  # type: ignore[attr-defined]
        parameters = tuple(1 for _ in compiled.positiontup)
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}", parameters).all()
    assert index in str(plan)


def test_the_tables_can_be_made_on_postgresql() -> None:
    dialect = postgresql.dialect()
    for table in metadata.sorted_tables:
        created = str(CreateTable(table).compile(dialect=dialect))
        assert "WITHOUT ROWID" not in created
        for index in table.indexes:
            assert str(CreateIndex(index).compile(dialect=dialect))
    assert 'COLLATE "C"' in str(CreateTable(metadata.tables["datasets"]).compile(dialect=dialect))
    assert "BIGSERIAL" in str(CreateTable(outbox).compile(dialect=dialect))
    partial = {i.name: str(CreateIndex(i).compile(dialect=dialect)) for i in jobs.indexes}
    assert partial["jobs_running_dataset_id_idx"].endswith("WHERE status = 'running'")


def test_leases_skip_what_others_hold_on_postgresql() -> None:
    dialect = postgresql.dialect()
    ready = str(_READY[None].locked.compile(dialect=dialect))
    assert ready.endswith("FOR UPDATE OF jobs SKIP LOCKED")


def test_a_statement_may_carry_as_many_rows_as_a_push_has_blocks(database: Database) -> None:
    chain = GrowingChain(SqlChains(database), entry_of("large"))
    chain.grow(20_000)
    records = [IdempotencyRecord(number.to_bytes(32, "big"), b"d" * 32, chain.blocks[0].hash) for number in range(500)]
    blocks = chain.next_blocks()
    chain.chains.append(
        chain.id, expected=chain.head, blocks=blocks, message=chain.message(blocks), idempotency=records
    )
    assert chain.chains.idempotency(chain.id, (499).to_bytes(32, "big")) == records[499]
