"""Refusals of names that came later than the moment of a query."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from odfabric.errors import InvalidQuery, Place
from odfabric.model.engine import QueryRequest, QueryResult
from odfabric.model.instant import Instant
from odfabric.ports.engine import Engine, ProgressListener
from odfabric.testing.changelogs import A
from odfabric.usecases.queries.query_data import QueryData
from odfabric.usecases.queries.query_document import QueryForm
from odfabric.wiring.node import Node
from tests.usecases.committed import Committed
from tests.usecases.manifests import ROOT


class Finding:
    """An engine that does not find a name."""

    def __init__(self, engine: Engine, message: str) -> None:
        self._engine = engine
        self._message = message

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def query(self, request: QueryRequest, *, progress: ProgressListener) -> QueryResult:
        raise InvalidQuery(self._message, place=Place(line=1, column=8), hint="as the engine has it")


@pytest.fixture
def committed(tmp_path: Path) -> Committed:
    found = Committed(tmp_path)
    found.commit([(A, "a", 1.0)])
    found.memory.add(ROOT.replace("readings", "nothing"))
    return found


def hint_of(committed: Committed, message: str, sql: str, **given: Any) -> str | None:
    ports = replace(committed.node.ports, engine=Finding(committed.node.ports.engine, message))
    with pytest.raises(InvalidQuery) as refused:
        Node(ports, committed.node.settings).rows.query_document(QueryData(sql=sql, **given), QueryForm())
    assert refused.value.place.column == 8
    return refused.value.hint


@pytest.mark.parametrize("name", ["readings", "local/readings"])
def test_a_dataset_that_came_later(committed: Committed, name: str) -> None:
    sql = f'select key from "{name}"'
    hint = hint_of(committed, f"unknown table {name}", sql, as_at=Instant(0))
    assert hint is not None
    assert hint.startswith("local/readings came later: give ")
    assert hint_of(committed, "unknown table others", sql, as_at=Instant(0)) == "as the engine has it"


def test_a_column_that_came_later(committed: Committed) -> None:
    seed = committed.heads[0]
    sql = f"select key from as_at('readings', '{seed.hash}')"
    hint = hint_of(committed, "unknown column `key`", sql)
    assert hint == (
        f"it came to local/readings after block {seed.sequence_number}, of which the query reads rows and columns"
    )
    assert hint_of(committed, "unknown column `other`", sql) == "as the engine has it"
    assert hint_of(committed, "the column key is wrong", sql) == "as the engine has it"
    assert hint_of(committed, "unknown column `key`", "select key from readings") == "as the engine has it"


def test_a_dataset_without_data(committed: Committed) -> None:
    hint = hint_of(committed, "unknown column `city`", "select city from to_table('nothing')")
    assert hint == "local/nothing has no data yet, and gets its columns with it"
