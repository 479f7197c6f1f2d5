"""What every test shares: property-test effort, and markers by folder."""

import atexit
import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.servers.postgres import PostgresServer, postgres_server
from tests.support.servers.s3 import S3Server, s3_server
from tests.support.servers.valkey import RedisServer, redis_server
from tests.support.turns import BY_DAY, todays

TESTS = Path(__file__).parent

# Thousands of tests and modules stay until the end: collections while they are made take half of the time and find nothing.
gc.disable()
# Classes of extension modules report leaks if the last collection, at the end of the interpreter, does not see them.
atexit.register(gc.unfreeze)

# No deadline per example: two cores are shared with other processes, and a slow example is not a wrong one.
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci" if os.environ.get("CI") else "dev")


LONG_FILES = (
    *("acceptance/test_served_node.py", "acceptance/test_readme.py"),
    *("acceptance/test_engine_death.py", "acceptance/test_demo.py"),
    *("services/engine/laws/test_general_controls.py", "services/engine/laws/test_general_laws.py"),
    *("services/engine/laws/test_transform_laws.py", "services/engine/laws/test_determinism.py"),
    *(
        "services/engine/process/test_server.py",
        "services/engine/process/test_sandbox.py",
        "services/engine/ingest/merge/test_merge_laws.py",
    ),
)
"""Files that take a minute and more, in the order in which they begin, before all others: one at the end would leave a core idle."""

STARTS_ENGINES = ("services/engine", "acceptance")
"""Folders of tests marked `spark` or `alone`: `./odf test` looks for them nowhere else."""


IN_TURN = {"services/engine/": 7, "unit/engine_spark/": 7, "persist/": 7, "acceptance/": 3}
"""Folders of which one in so many files runs by day, where a stage of `./odf test` asks: they cost most and change least."""

EVERY_DAY = frozenset(
    (
        *(f"acceptance/test_{name}.py" for name in ("node_story", "package", "readme")),
        *(
            f"services/engine/{name}.py"
            for name in (
                *(
                    "serve/test_engine_contract",
                    "ingest/test_ingest",
                    "ingest/merge/test_merge_cases",
                    "ingest/test_raw_query",
                ),
                *("process/test_sandbox", "process/test_server", "sql/test_sql_gate", "laws/test_transform_laws"),
                "sql/test_validate_query",
            )
        ),
    )
)
"""Files of these folders that run every day all the same."""

EVERY_DAY_TEST = "test_hostile_parquet.py::test_an_engine_survives_bombs_and_takes_the_next_push_at_once"
"""One that wants the machine for itself: a stage without any test is taken for a mistake in a marker."""

TESTS_IN_TURN = {
    f"{place}.py": 3
    for place in (
        *(
            "conformance/stores/test_object_store",
            "conformance/database/test_people",
            "conformance/database/test_sharing_nodes",
        ),
        *(
            "conformance/stores/test_storage",
            "services/api/rights/test_changes_of_rights",
            "services/api/rights/test_hiding",
        ),
        *("services/api/rights/test_matrix", "services/api/accounts/test_people_commands"),
    )
}
"""Files of which one in so many tests runs by day: the same question of each route and role, or the same contract of each adapter."""

LONG_TABLE = 12
"""Cases of one test of the engine from which on they take turns, too: each starts queries of its own, a second or more."""

TABLE_TURNS = {True: 5, False: 3}
"""For files of every day and for others. Turns of files and turns within them have no common divisor, so that everything comes round."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Folders whose tests share a need mark them, so that nobody can forget it.

    Long files come first.

    Where a stage of `./odf test` asks by day, files and long tables of the engine take turns; who names a file has all of it.
    """
    for item in items:
        place = _place(item)
        if place.startswith(("acceptance/", "perf/")):
            item.add_marker(place.partition("/")[0])
        if not place.startswith(STARTS_ENGINES) and any(map(item.get_closest_marker, ("spark", "alone"))):
            raise pytest.UsageError(f"{item.nodeid} would not be run: no stage looks for its marker there")
    if BY_DAY:
        waiting = for_another_day(items)
        config.hook.pytest_deselected(items=list(waiting))
        items[:] = [item for item in items if item not in waiting]
    rank = {place: number for number, place in enumerate(LONG_FILES)}
    items.sort(key=lambda item: rank.get(_place(item), len(rank)))


def pytest_collection_finish() -> None:
    """Collections of garbage, from here on, leave out what was made to this point."""
    gc.freeze()
    gc.enable()


def for_another_day(items: list[pytest.Item]) -> set[pytest.Item]:
    waiting: set[pytest.Item] = set()
    for folder, parts in IN_TURN.items():
        rotating = [item for item in items if _place(item).startswith(folder) and _place(item) not in EVERY_DAY]
        todays_files = set(todays(sorted({_place(item) for item in rotating}), parts=parts))
        waiting |= {item for item in rotating if _place(item) not in todays_files}
    for place, parts in TESTS_IN_TURN.items():
        cases = [item for item in items if _place(item) == place]
        waiting |= set(cases) - set(todays(cases, parts=parts))
    tables: dict[str, list[pytest.Item]] = {}
    for item in items:
        if _place(item).startswith("services/engine/") and item not in waiting:
            tables.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tables.values():
        if len(cases) >= LONG_TABLE:
            waiting |= set(cases) - set(todays(cases, parts=TABLE_TURNS[_place(cases[0]) in EVERY_DAY]))
    return {item for item in waiting if not item.nodeid.endswith(EVERY_DAY_TEST)}


def _place(item: pytest.Item) -> str:
    return item.path.relative_to(TESTS).as_posix() if item.path.is_relative_to(TESTS) else ""


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real PostgreSQL server."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> str:
    """`postgresql://` URL of an empty database."""
    return postgres.create_database()


@pytest.fixture(scope="session")
def redis_of_tests() -> Iterator[RedisServer]:
    """A real Valkey or Redis server, shared by tests: names have a random part."""
    with redis_server() as server:
        yield server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """A real S3 server."""
    with s3_server() as server:
        yield server


@pytest.fixture
def bucket(s3: S3Server) -> str:
    """Name of an empty bucket."""
    return s3.create_bucket()
