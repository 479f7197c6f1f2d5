"""Migrations give the schema in the code, up and down, at concurrent starts."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.datasets.chains import SqlChains
from odfabric.adapters.sql.jobs.jobs import SqlJobs
from odfabric.adapters.sql.tables.every_table import metadata
from odfabric.adapters.sql.tables.schema import SCHEMA_REVISION
from odfabric.adapters.sql.upgrade import MIGRATIONS, REVISION_TABLE, downgrade, upgrade
from odfabric.errors import Corrupt, Determinate
from odfabric.formats.jobs.send_request import write_send_request
from odfabric.model.jobs.requests import Envelope, SendRequest, SendWish
from odfabric.testing.conformance.examples import entry_of, hashes_down, new_chain
from odfabric.testing.conformance.together import outcomes_of_processes, outcomes_of_threads


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "node.db"


@pytest.fixture
def url(file: Path) -> str:
    return f"sqlite:///{file}"


def definitions(file: Path) -> dict[str, list[str]]:
    """Every table and index as created, column by column, without Alembic's table."""
    with closing(sqlite3.connect(file)) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {name: sorted(parts(sql)) for name, sql in rows if name not in {REVISION_TABLE, "sqlite_sequence"}}


def parts(sql: str) -> list[str]:
    """Columns and constraints of a statement, and what is around them.

    A column that was added later stands on no line of its own.
    """
    head, _, rest = " ".join(sql.split()).partition("(")
    inside, _, tail = rest.rpartition(")")
    found, depth = [""], 0
    for sign in inside:
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            found.append("")
        else:
            found[-1] += sign
    return [head.strip(), tail.strip(), *(part.strip() for part in found)]


def is_of_schema(_: object, name: str | None, kind: str, *others: object) -> bool:
    """Word search uses FTS5's own tables on SQLite, an index only on PostgreSQL."""
    return not (name or "").startswith("search_words") and (kind, name) != ("index", "search_documents_words_idx")


def scripts() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return ScriptDirectory.from_config(config)


def test_the_upgraded_schema_is_the_one_in_the_code(file: Path, url: str, tmp_path: Path) -> None:
    upgrade(url)
    by_metadata = create_engine(f"sqlite:///{tmp_path}/metadata.db", poolclass=NullPool)
    metadata.create_all(by_metadata)
    assert definitions(file) == definitions(tmp_path / "metadata.db")
    with create_engine(url, poolclass=NullPool).connect() as connection:
        context = MigrationContext.configure(connection, opts={"include_object": is_of_schema})
        assert compare_metadata(context, metadata) == []


def test_the_newest_migration_is_the_one_that_the_code_needs() -> None:
    directory = scripts()
    assert directory.get_heads() == [SCHEMA_REVISION]
    revisions = [script.revision for script in directory.walk_revisions()]
    assert revisions == sorted(revisions, reverse=True)


def test_files_are_named_by_date_number_step_and_subject() -> None:
    for script in scripts().walk_revisions():
        year, month, day, number, step, *subject = Path(script.path).stem.split("_")
        assert (len(year), len(month), len(day)) == (4, 2, 2)
        assert (number, step in {"expand", "backfill", "contract"}) == (script.revision, True)
        assert subject


def test_the_template_limits_waiting() -> None:
    template = (MIGRATIONS / "script.py.mako").read_text()
    assert template.count("limit_migration(lock_s=5, statement_s=60)") == 2


def test_every_migration_limits_waiting() -> None:
    for script in scripts().walk_revisions():
        assert Path(script.path).read_text().count("limit_migration(") == 2


def test_down_and_up_again(file: Path, url: str) -> None:
    upgrade(url)
    whole = definitions(file)
    downgrade(url, to="base")
    assert definitions(file) == {}
    upgrade(url)
    assert definitions(file) == whole


def test_an_upgrade_keeps_rows_and_is_done_once(file: Path, url: str) -> None:
    upgrade(url)
    database = Database(url)
    chain = new_chain(SqlChains(database), blocks=3)
    before = file.stat().st_mtime_ns
    upgrade(url)
    upgrade(url)
    assert file.stat().st_mtime_ns == before
    assert len(hashes_down(SqlChains(database), chain.id)) == 3
    database.close()


def test_a_database_of_a_newer_release_is_left_alone(file: Path, url: str) -> None:
    upgrade(url)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"UPDATE {REVISION_TABLE} SET version_num = '9999'")
        connection.execute("CREATE TABLE of_the_future (id INTEGER)")
        connection.commit()
    upgrade(url)
    assert "of_the_future" in definitions(file)


def test_the_file_is_for_its_owner_and_logs_ahead(file: Path, url: str) -> None:
    upgrade(url)
    assert file.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_pushes_elsewhere_of_before_name_their_dataset(file: Path, url: str) -> None:
    dataset = entry_of("flights").id
    requests = {
        "whole": write_send_request(SendRequest(dataset, SendWish(to='say "dataset": "did:odf:fed01')), Envelope()),
        "damaged": "{" + str(dataset)[:60],
    }
    upgrade(url)
    downgrade(url, to="0017")
    with closing(sqlite3.connect(file)) as connection:
        for name, request in requests.items():
            connection.execute(
                "INSERT INTO jobs (id, kind, account, request, status, attempts, due_at, fence, created_at, updated_at)"
                " VALUES (?, 'send', 'local', ?, 'succeeded', 1, 0, 1, 0, 0)",
                (name, request),
            )
        connection.commit()
    upgrade(url)
    database = Database(url)
    assert [job.id for job in SqlJobs(database).page(about=dataset, limit=9)] == ["whole"]
    assert [job.id for job in SqlJobs(database).page(limit=9)] == ["damaged", "whole"]
    database.close()


class Upgrading:
    """Upgrades in another process; what it opens is the moment to begin."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self) -> Callable[[], None]:
        return self.upgrade

    def upgrade(self) -> None:
        upgrade(self.url)


def begin(act: Callable[[], None], number: int) -> str:
    act()
    return "upgraded"


def test_processes_that_start_together_upgrade_once(file: Path, url: str, tmp_path: Path) -> None:
    assert outcomes_of_processes(Upgrading(url), begin) == ["upgraded"] * 4
    single = f"sqlite:///{tmp_path}/single.db"
    upgrade(single)
    assert definitions(file) == definitions(tmp_path / "single.db")


def test_threads_that_start_together_upgrade_once(file: Path, url: str) -> None:
    assert outcomes_of_threads(lambda _: upgrade(url), count=8) == [None] * 8
    assert "jobs" in definitions(file)


def test_threads_upgrade_databases_of_their_own(tmp_path: Path) -> None:
    urls = [f"sqlite:///{tmp_path}/{number}.db" for number in range(8)]
    assert outcomes_of_threads(lambda number: upgrade(urls[number]), count=8) == [None] * 8
    assert all("jobs" in definitions(tmp_path / f"{number}.db") for number in range(8))


def test_a_migration_that_fails_leaves_the_old_schema(file: Path, url: str) -> None:
    file.parent.mkdir()
    with closing(sqlite3.connect(file)) as connection:
        # In the way of the last table of the first migration.
        connection.execute("CREATE TABLE jobs (id INTEGER)")
        connection.commit()
    with pytest.raises(Determinate):
        upgrade(url)
    assert list(definitions(file)) == ["jobs"]


def test_a_locked_database_is_told(file: Path, url: str) -> None:
    upgrade(url)
    downgrade(url, to="base")
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(Determinate):
            upgrade(url, busy_s_max=0.2)


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Determinate):
        upgrade(f"sqlite:///{tmp_path}/file/node.db")


def test_a_file_that_is_no_database_is_alarming(tmp_path: Path) -> None:
    (tmp_path / "node.db").write_bytes(b"not a database at all" * 1000)
    with pytest.raises(Corrupt):
        upgrade(f"sqlite:///{tmp_path}/node.db")
