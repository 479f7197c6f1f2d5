"""Queries in time: parameters, table functions, pins, and what the answer says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from odfabric.domain.people.access import Subject
from odfabric.errors import InvalidQuery, InvalidRequest, NotFound, OdfError
from odfabric.model.instant import Instant
from odfabric.model.moment import SystemMoment
from odfabric.testing.changelogs import C_FROM, C_TO, A
from odfabric.usecases.queries.query_data import PinnedDataset, QueryData
from odfabric.usecases.queries.query_document import QueryForm
from odfabric.usecases.queries.table_functions import without_calls
from tests.usecases.committed import Committed
from tests.usecases.manifests import ROOT

YEAR = 31_536_000_000


@pytest.fixture
def committed(tmp_path: Path) -> Committed:
    """Station `a` is `1.0` from 1970, `2.0` from 1972; `b` comes last."""
    found = Committed(tmp_path)
    found.commit([(A, "a", 1.0)], event_times=[0])
    found.commit([(C_FROM, "a", 1.0), (C_TO, "a", 2.0)], event_times=[0, 2 * YEAR])
    found.commit([(A, "b", 5.0)], event_times=[YEAR])
    return found


def asked(committed: Committed, sql: str, **given: Any) -> dict[str, Any]:
    form = QueryForm(include=("Input",))
    by: Subject | None = given.pop("by", None)
    return committed.memory.node.rows.query_document(QueryData(sql=sql, **given), form, by=by)


def found(committed: Committed, sql: str, **given: Any) -> list[tuple[str, float]]:
    data: Any = asked(committed, sql, **given)["output"]["data"]
    return [(row["key"], row["value"]) for row in data]


def test_functions_give_rows_and_changes(committed: Committed) -> None:
    second, third = (str(head.hash) for head in committed.heads[2:])
    time = committed.times[2]
    assert found(committed, "select * from to_table('readings')") == [("a", 2.0), ("b", 5.0)]
    assert found(committed, f"select * from as_at('local/readings', '{time}')") == [("a", 2.0)]
    assert found(committed, f"select * from as_at(readings, '{committed.heads[1].hash}')") == [("a", 1.0)]
    assert found(committed, "select * from as_of('readings', '1971-06-01T00:00:00Z')") == [("a", 1.0), ("b", 5.0)]
    assert found(committed, f"select * from as_of('readings', '1971-06-01T00:00:00Z', '{second}')") == [("a", 1.0)]
    assert found(committed, f"select * from changes('readings', '{second}', '{third}')") == [("b", 5.0)]
    assert len(found(committed, "select * from changes('readings', '1970-01-01T00:00:00Z')")) == 4


@pytest.mark.parametrize("number", range(4))
def test_a_parameter_is_a_function_for_all(committed: Committed, number: int) -> None:
    at: SystemMoment
    for at in (committed.times[number], committed.heads[number].hash, committed.heads[number].sequence_number):
        named = found(committed, f"select * from as_at('readings', '{at}')")
        assert found(committed, "select * from to_table('readings')", as_at=at) == named
        for year in ("1969", "1970", "1972", "9999"):
            moment = Instant.parse(f"{year}-06-01T00:00:00Z")
            held = found(committed, f"select * from as_of('readings', '{moment}', '{at}')")
            assert found(committed, "select * from readings", as_at=at, as_of=moment) == held
            assert found(committed, f"select * from as_at('readings', '{at}')", as_of=moment) == held


def test_the_answer_says_what_it_read_and_can_be_repeated(committed: Committed) -> None:
    sql = f"select * from as_at('readings', '{committed.times[1]}')"
    document: Any = asked(committed, sql)
    (pin,) = document["input"]["datasets"]
    assert (pin["alias"], pin["blockHash"]) == ("readings", str(committed.heads[-1].hash))
    (call,) = document["input"]["tableFunctions"]
    assert (call["id"], call["blockHash"]) == (str(committed.entry.id), str(committed.heads[1].hash))
    pins = (PinnedDataset(id=committed.entry.id, alias="readings", block_hash=committed.heads[-1].hash),)
    committed.commit([(A, "c", 1.0)])
    assert asked(committed, sql, datasets=pins)["output"] == document["output"]
    assert found(committed, "select * from to_table('readings')", datasets=pins) == [("a", 2.0), ("b", 5.0)]


def test_a_query_reads_nothing_newer_than_its_pins(committed: Committed) -> None:
    pins = (PinnedDataset(id=committed.entry.id, alias="r", block_hash=committed.heads[1].hash),)
    assert found(committed, "select * from as_at('r', '9999-01-01T00:00:00Z')", datasets=pins) == [("a", 1.0)]
    with pytest.raises(InvalidQuery, match=r"block \d+ of local/readings is after block \d+"):
        found(committed, f"select * from as_at('r', '{committed.heads[2].hash}')", datasets=pins)
    with pytest.raises(InvalidQuery, match="dataset not found: readings"):
        found(committed, "select * from to_table('readings')", datasets=pins)


WRONG = [
    ("select * from to_table('nothing')", "dataset not found: nothing", "to_table('account/dataset')"),
    ("select * from to_table('!')", "to_table", ""),
    ("select * from as_at('readings')", "as_at has 2 arguments, not 1", "as_at('account/dataset'"),
    ("select * from as_at('readings', 'yesterday')", "neither an RFC 3339 time nor a block", "12 or f1620.."),
    ("select * from as_at('readings', '2026-01-31')", "not an RFC 3339 time", "2026-01-31T12:00:00Z"),
    (f"select * from as_at('readings', 'f1620{'0' * 64}')", "block not found", "odf log"),
    (
        "select * from as_at('readings', '#99')",
        "block not found: number 99",
        "numbered 0 to 5: `odf log local/readings`",
    ),
    (
        "select * from as_at('readings', '1970-01-01T00:00:00Z')",
        "came later",
        "the time of its first block, or a later one",
    ),
    ("select * from changes('readings', '9999-01-01T00:00:00Z', '2030-01-01T00:00:01Z')", "", "earlier moment first"),
]


@pytest.mark.parametrize(("sql", "message", "hint"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_with_a_call_is_said_at_its_place(
    committed: Committed, sql: str, message: str, hint: str
) -> None:
    with pytest.raises(InvalidQuery) as refused:
        found(committed, sql)
    told = f"{refused.value.message} {refused.value.hint}"
    assert message in told
    assert hint in told
    assert (refused.value.place.line, refused.value.place.column) == (1, 15)


def test_who_may_not_read_a_dataset_sees_none(committed: Committed) -> None:
    sql = "select * from to_table('local/readings')"
    problems = []
    for text in (sql, sql.replace("readings", "nothing")):
        with pytest.raises(OdfError) as refused:
            found(committed, text, by=Subject())
        problems.append(str(refused.value).replace("readings", "nothing"))
    assert problems[0] == problems[1]


def test_moments_of_a_whole_query_are_judged(committed: Committed) -> None:
    for moment in (Instant(0), committed.times[0]):
        with pytest.raises(InvalidQuery):
            found(committed, "select * from changes('readings', '2030-01-01T00:00:00Z')", as_of=moment)
    # What came later was not there.
    with pytest.raises(InvalidQuery):
        found(committed, "select * from readings", as_at=Instant(0))
    pins = (PinnedDataset(id=committed.entry.id, alias="r"),)
    with pytest.raises(NotFound):
        found(committed, "select * from r", datasets=pins, as_at=Instant(0))
    other = committed.memory.add(ROOT.replace("readings", "others"))
    for block in (committed.heads[1].hash, committed.heads[1].sequence_number):
        with pytest.raises(InvalidRequest, match="the query reads several"):
            found(committed, "select * from readings, others", as_at=block)
    with pytest.raises(InvalidRequest, match="the query reads several"):
        found(committed, "select * from to_table('readings'), to_table('others')", as_at=1)
    pins = (*pins, PinnedDataset(id=other.id, alias="o"))
    with pytest.raises(InvalidRequest, match="the query reads several"):
        found(committed, "select * from r, o", datasets=pins, as_at=1)


def test_the_columns_are_those_of_the_block(committed: Committed) -> None:
    first = asked(committed, f"select * from as_at('readings', '{committed.heads[0].hash}')")
    assert first["output"] == {"data": [], "dataFormat": "JsonAoS"}


def test_names_within_calls_are_no_tables() -> None:
    assert without_calls("select * from as_at('a/b', 'x') join c").split() == ["select", "*", "from", "join", "c"]
