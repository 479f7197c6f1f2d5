"""SQL over rows in time: by the index of a dataset as by all its records."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfabric.domain.chain.append import link_blocks
from odfabric.domain.chain.projection import as_at, as_of, rows
from odfabric.domain.chain.state import ChainState
from odfabric.domain.ingestion.ingest_plan import plan_add_data
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.formats.slices.slice_parquet import SliceWriter
from odfabric.model.engine import QueryInput, QueryRequest, QueryResult
from odfabric.model.instant import Instant
from odfabric.model.metadata import MetadataEvent, SetDataSchema
from odfabric.model.offsets import OffsetRange
from odfabric.ports.engine import Engine, ProgressListener
from odfabric.testing.changelogs import SLICE_COLUMNS, A
from odfabric.usecases.chain.commit import PlannedCommit
from odfabric.usecases.chain.store_slice import store_slice
from odfabric.usecases.queries.first_rows import first_rows
from odfabric.usecases.queries.query_data import QueryData
from odfabric.usecases.queries.query_document import QueryForm
from odfabric.usecases.queries.query_tables import names_records
from odfabric.usecases.state import held_rows
from odfabric.wiring.node import Node
from tests.usecases.committed import SNAPSHOT
from tests.usecases.test_time_travel import APPEND, TIMES, Travelled, Wish, steps

COLUMNS = "select event_time, key, value from"


class Watched:
    """The engine of a node, which keeps the inputs of each query."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.inputs: list[tuple[QueryInput, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def query(self, request: QueryRequest, *, progress: ProgressListener) -> QueryResult:
        self.inputs.append(request.inputs)
        return self._engine.query(request, progress=progress)


def watched(travelled: Travelled) -> tuple[Node, Watched]:
    engine = Watched(travelled.node.ports.engine)
    return Node(replace(travelled.node.ports, engine=engine), travelled.node.settings), engine


def asked(node: Node, sql: str, **given: Any) -> list[dict[str, Any]]:
    document: Any = node.rows.query_document(QueryData(sql=sql, **{"limit": 1000, **given}), QueryForm())
    found: list[dict[str, Any]] = document["output"]["data"]
    return found


def counted(found: Sequence[dict[str, Any]]) -> Counter[object]:
    return Counter((row["event_time"], row["key"], row["value"]) for row in found)


def by_index(engine: Watched) -> bool:
    """Whether the last query got rows."""
    (one,) = engine.inputs[-1]
    return one.projection is not None and one.projection.rows_path is not None


@pytest.mark.parametrize("manifest", [SNAPSHOT, APPEND], ids=["keyed", "without-key"])
@pytest.mark.parametrize("later_share", [held_rows.LATER_SHARE_MAX, 1.0], ids=["chosen", "by-index"])
def test_rows_are_those_of_the_domain(manifest: str, later_share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_rows, "LATER_SHARE_MAX", later_share)

    @settings(max_examples=8, deadline=None)
    @given(blocks=st.lists(st.tuples(steps, st.booleans()), min_size=1, max_size=6), data=st.data())
    def holds(blocks: list[tuple[list[Wish], bool]], data: st.DataObject) -> None:
        with tempfile.TemporaryDirectory() as folder:
            travelled = Travelled(Path(folder), manifest)
            travelled.steps(blocks)
            moment = Instant.from_millis(data.draw(st.sampled_from([*TIMES, TIMES[0] - 1, TIMES[3] + 1])))
            head = data.draw(st.sampled_from(travelled.heads))
            known = as_at(travelled.records, head.sequence_number)
            if not known:
                return  # no columns yet
            keyed = manifest == SNAPSHOT
            for node in (travelled.node, travelled.plain):
                found = asked(node, f"{COLUMNS} as_at('readings', '{head.hash}')")
                assert counted(found) == rows(known, keyed=keyed)
                held = rows(as_of(known, moment), keyed=keyed)
                assert counted(asked(node, f"{COLUMNS} as_of('readings', '{moment}', '{head.hash}')")) == held
                assert counted(asked(node, f"{COLUMNS} readings", as_at=head.hash, as_of=moment)) == held
                for name in ("event_time, key, value, op", "*"):
                    whole = asked(node, f"select {name} from as_of('readings', '{moment}', '{head.hash}')")
                    assert counted(whole) == held

    holds()


@pytest.fixture
def travelled(tmp_path: Path) -> Travelled:
    """25 rows, of which 12 blocks then correct or withdraw a few."""
    found = Travelled(tmp_path)
    found.step([(1, key, 0, 1.0) for key in map(chr, range(ord("a"), ord("z")))])
    for number in range(1, 13):
        key = "abc"[number % 3]
        found.step([(0 if number % 5 == 0 else 1, key, 100 * number + at, 2.0) for at in range(2)])
    found.node.indexes.bring_forward(found.entry, lambda _: None)
    return found


def test_near_the_head_no_slices_are_read(travelled: Travelled) -> None:
    node, engine = watched(travelled)
    near = travelled.heads[-2].hash
    for sql in (
        f"{COLUMNS} to_table('readings')",
        f"{COLUMNS} as_at('readings', '{near}')",
        f"{COLUMNS} as_of('readings', '1970-01-01T00:00:01.150Z')",
        f"{COLUMNS} as_of('readings', '1970-01-01T00:00:01.150Z', '{near}')",
    ):
        found = asked(node, sql)
        assert by_index(engine), sql
        assert counted(found) == counted(asked(travelled.plain, sql))
    # Long ago, most records had not happened, or were not known.
    for sql in (
        f"{COLUMNS} as_of('readings', '1970-01-01T00:00:00.150Z')",
        f"{COLUMNS} as_at('readings', '{travelled.heads[1].hash}')",
    ):
        found = asked(node, sql)
        assert not by_index(engine), sql
        assert counted(found) == counted(asked(travelled.plain, sql))


def test_the_engine_asks_for_records_if_rows_do_not_suffice(
    travelled: Travelled, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, engine = watched(travelled)
    sql = "select key, op, offset from to_table('readings')"
    expected = asked(node, sql)
    assert len(engine.inputs) == 1
    # The guess from the text does not decide what is right.
    monkeypatch.setattr("odfabric.usecases.queries.query_data.names_records", lambda _: False)
    assert asked(node, sql) == expected
    assert [bool(one.slices) for (one,) in engine.inputs[1:]] == [False, True]


def test_more_rows_than_a_state_may_have_are_left_to_the_engine(travelled: Travelled) -> None:
    node, engine = watched(travelled)
    node = Node(node.ports, node.settings.model_copy(update={"state_rows_max": 5}))
    assert len(asked(node, f"{COLUMNS} to_table('readings')")) > 5
    assert not by_index(engine)


def test_slices_whose_records_all_happen_later_are_not_given(tmp_path: Path) -> None:
    travelled = Travelled(tmp_path, APPEND)
    for number in range(4):
        travelled.step([(1, "abcd"[number], 100 * number, 1.0)])
    node, engine = watched(travelled)
    assert len(asked(node, "select * from as_of('readings', '1970-01-01T00:00:00.150Z')")) == 2
    ((one,),) = engine.inputs
    assert len(one.slices) == 2


def test_changes_read_the_slices_of_their_blocks_alone(travelled: Travelled) -> None:
    node, engine = watched(travelled)
    first, second = (str(travelled.heads[number].hash) for number in (4, 6))
    assert asked(node, f"select * from changes('readings', '{first}', '{second}')")
    ((one,),) = engine.inputs
    assert len(one.slices) == 2


def add_row_with_city(travelled: Travelled) -> None:
    """A column more, and a block with a row that has it."""
    columns = SLICE_COLUMNS.append(pa.field("city", pa.string()))
    schema, dataset, node = arrow_to_data_schema(columns), travelled.entry.id, travelled.node

    def commit(*events: MetadataEvent) -> ChainState:
        _, state = node.repository.current(dataset)
        blocks = tuple(link_blocks(state, events, system_time=Instant.parse("2031-01-01T00:00:00Z")))
        node.commits.commit(dataset, lambda _: PlannedCommit(blocks))
        return node.repository.current(dataset)[1]

    state = commit(SetDataSchema(schema=schema))
    path, offsets = travelled.memory.folder / "with-city", OffsetRange(state.next_offset, state.next_offset + 1)
    row = {"offset": offsets.begin, "op": int(A), "system_time": 0, "event_time": 5000, "key": "new", "city": "Kyiv"}
    with SliceWriter(path, columns) as writer:
        writer.write(pa.RecordBatch.from_pylist([row], schema=columns))
    data = store_slice(dataset, path, offsets, objects=travelled.memory.objects)
    commit(*plan_add_data(state, data_schema=schema, new_data=data, max_event_time=None))


def test_rows_and_columns_are_those_of_the_block(travelled: Travelled) -> None:
    before = travelled.heads[-1].hash
    add_row_with_city(travelled)
    node, engine = watched(travelled)
    for follow in (False, True):
        if follow:
            travelled.node.indexes.bring_forward(travelled.entry, lambda _: None)
        then = asked(node, f"select key, value, city from as_at('readings', '{before}')")
        assert by_index(engine)
        assert {tuple(row) for row in then} == {("key", "value")}
        now = asked(node, "select key, value, city from to_table('readings')")
        assert by_index(engine)
        assert sorted(row["city"] or "" for row in now)[-2:] == ["", "Kyiv"]
        assert len(now) == len(then) + 1


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("select k from to_table('d')", False),
        ("select count(*) from to_table('d')", False),
        ("select sum(a * b) from to_table('d')", False),
        ("select operator, offsets from to_table('d')", False),
        ("SELECT * FROM to_table('d')", True),
        ("select distinct * from to_table('d')", True),
        ("select t.* from to_table('d') t", True),
        ("select 1, * from to_table('d')", True),
        ("select \"offset\" from to_table('d')", True),
        ("select k from to_table('d') where OP = 0", True),
    ],
)
def test_the_text_says_what_is_tried_first(sql: str, named: bool) -> None:
    assert names_records(sql) == named


LIMITED = (
    ("select key from to_table('readings') limit 3", 3),
    ("SELECT key, value AS v\nFROM as_at('readings', 13) AS r LIMIT 3 ;", 3),
    ("select key from to_table('readings')", 7),
    ("select key from to_table('readings') limit 30", 7),
    ("select r.key from to_table('readings') r limit 0", 0),
)
ALL_ROWS = (
    "select count(key) from to_table('readings')",
    "select distinct key from to_table('readings') limit 3",
    "select key from to_table('readings') order by key limit 3",
    "select key from to_table('readings') where key = 'y' limit 3",
    "select key from to_table('readings') limit all",
    "select key from to_table('readings') limit 1 + 2",
    "select key from to_table('readings') union select key from to_table('readings') limit 3",
    "select key from (select key from to_table('readings') limit 3)",
    "select key from to_table('readings') cross join as_at('readings', 13) limit 3",
    "select key /* from x limit 1 */ from to_table('readings')",
    "select key from readings except select key from readings limit 3",
)


@pytest.mark.parametrize(("sql", "count"), LIMITED, ids=range(len(LIMITED)))
def test_a_limit_alone_reads_so_many_rows(sql: str, count: int) -> None:
    assert first_rows(sql, 7) == count


@pytest.mark.parametrize("sql", ALL_ROWS, ids=range(len(ALL_ROWS)))
def test_what_looks_at_several_rows_reads_all(sql: str) -> None:
    assert first_rows(sql, 7) is None


@pytest.mark.parametrize(
    "text", ["select{}(", "select a from d{}(", "select a from to_table({}x", "select a from as_at({}"]
)
def test_long_texts_of_blanks_are_read_in_time(text: str) -> None:
    """Sharing out blanks in each possible way would take longer than a test may."""
    assert first_rows(text.format(" " * 1_000_000), 7) is None


def test_the_first_rows_of_the_index_suffice_for_a_limit(travelled: Travelled) -> None:
    """Also where the state has more rows than may be sorted for an answer."""
    node, engine = watched(travelled)
    few = Node(node.ports, node.settings.model_copy(update={"state_rows_max": 10}))
    whole = asked(node, f"{COLUMNS} to_table('readings')")
    assert len(whole) == 25
    assert by_index(engine)
    found = asked(few, f"{COLUMNS} to_table('readings')", skip=2, limit=4)
    assert by_index(engine)
    assert (len(found), counted(found) <= counted(whole)) == (4, True)
    first, second = (asked(few, f"{COLUMNS} to_table('readings')", skip=at, limit=5) for at in (0, 5))
    assert not counted(first) & counted(second), "pages do not overlap"
    assert len(asked(few, f"{COLUMNS} to_table('readings')")) == 25
    assert not by_index(engine)
