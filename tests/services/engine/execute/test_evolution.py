"""Changes of a transform: the verdict, and the migrating transaction (law L1)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfabric.errors import IncompatibleSchema, InvalidRequest, LimitExceeded, OdfError
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.model.engine import EvolutionVerdict, MigrateRequest, QueryInput, SliceFile, ValidateRequest
from odfabric.model.metadata import SqlQueryStep, TransformSql
from odfabric.model.offsets import OffsetRange
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.execute.evolution.migrate_query import migrate_query
from odfabric_engine_spark.execute.execute_transform import execute_transform
from odfabric_engine_spark.execute.validate_query import judge_query
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.sql.query_equivalence import says_the_same
from tests.services.engine.transforming import CF, CT, HOUR, A, Derivative, Input, R, input_schema

pytestmark = pytest.mark.spark

SCHEMA = input_schema(pa.field("k", pa.string()), pa.field("v", pa.int32()), pa.field("d", pa.float64()))
Row = tuple[Any, ...]


def transform(*queries: str) -> TransformSql:
    *early, last = queries
    steps = (*(SqlQueryStep(alias=f"s{n}", query=sql) for n, sql in enumerate(early)), SqlQueryStep(query=last))
    return TransformSql(engine="spark", queries=steps)


@pytest.fixture
def source(tmp_path: Path) -> Input:
    """Blocks with corrections, late rows and rows of every sign of zero."""
    one = Input(tmp_path, "a", SCHEMA)
    one.add([(A, HOUR, "x", 1, 0.5), (A, 2 * HOUR, "y", 2, -0.0), (A, 2 * HOUR, "y", 2, -0.0)], watermark=2 * HOUR)
    one.add([(CF, HOUR, "x", 1, 0.5), (CT, HOUR, "x", 7, 0.5), (A, 30 * HOUR, "z", 3, 0.0)], watermark=30 * HOUR)
    one.add([(R, 2 * HOUR, "y", 2, -0.0), (A, 49 * HOUR, None, None, None)], watermark=50 * HOUR)
    return one


LINEAR = "select event_time, k, v from a where v > 1"
LINEAR_NEXT = "select event_time, k, v * 10 as v from a where v > 2"
KEYED = "select max(event_time) event_time, k, sum(v) v from a group by k"
KEYED_NEXT = "select max(event_time) event_time, k, sum(v) * 2 v from a group by k having sum(v) > 2"
TIMED = "select window.start event_time, k, sum(v) v from a group by window(event_time, '1 day'), k"
TIMED_NEXT = "select window.start event_time, k, count(*) v from a group by window(event_time, '1 day'), k"
ZEROS = "select event_time, d from a"
ZEROS_NEXT = "select event_time, d + 0.0D as d from a"

CHANGES = [
    (LINEAR, LINEAR_NEXT),
    (KEYED, KEYED_NEXT),
    (TIMED, TIMED_NEXT),
    (KEYED, "select event_time, k, v + 1L v from a"),
    (LINEAR, "select event_time, k, v from a where false"),
    ("select event_time, k, v from a where false", LINEAR),
    (ZEROS, ZEROS_NEXT),
]


def net(records: list[Row]) -> Counter[Row]:
    """Rows as they are left; -0.0 and 0.0 are two values."""
    found: Counter[Row] = Counter()
    for operation, *row in records:
        found[tuple(repr(value) for value in row)] += -1 if operation in (R, CF) else 1
    return +found


def records_of(path: Path) -> list[Row]:
    """Records of a slice: operation, then the columns without the system's."""
    shown = pq.read_table(path).drop_columns(["offset", "system_time"])
    return list(zip(*(column.to_pylist() for column in shown.columns), strict=True)) if shown.num_rows else []


def migrated(
    derivative: Derivative, following: TransformSql, *, settings: dict[str, int] | None = None
) -> tuple[list[Row], str]:
    """The records of a migration after all transactions, and its checkpoint's path."""
    call = replace(derivative.call, settings=replace(derivative.call.settings, **(settings or {})))
    upto = list(derivative.taken)
    derivative.taken = [0] * len(derivative.inputs)
    request = replace(
        derivative.request(upto), transform=following, checkpoint_paths=(), new_data_path="m", new_checkpoint_path="mc"
    )
    derivative.taken = upto
    output = tuple(
        SliceFile(path=one.request.new_data_path, offsets=one.result.offsets)
        for one in derivative.transactions
        if one.result.offsets is not None
    )
    migrate_query(MigrateRequest(next=request, output=output), call)
    return records_of(call.exchange.root / "m"), "mc"


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_after_a_migration_the_net_output_is_that_of_the_new_query(
    engine_call: EngineCall, source: Input, before: str, after: str
) -> None:
    old = Derivative(before, [source], engine_call, name="old")
    for upto in (1, 2, 3):
        old.pull([upto])
    fresh = Derivative(after, [source], engine_call, name="fresh").pull()
    emitted = [record for one in old.transactions for record in one.records]
    records, _ = migrated(old, transform(after))
    assert net(emitted + records) == net(fresh.records)
    assert net(emitted + records) != net(emitted)  # otherwise these cases would show nothing


@pytest.mark.parametrize(("before", "after"), [(LINEAR, LINEAR_NEXT), (KEYED, KEYED_NEXT), (ZEROS, ZEROS_NEXT)])
def test_only_rows_that_differ_are_told_and_each_withdrawal_withdraws_a_row_that_is_there(
    engine_call: EngineCall, source: Input, before: str, after: str
) -> None:
    old = Derivative(before, [source], engine_call, name="old")
    old.pull()
    fresh = Derivative(after, [source], engine_call, name="fresh").pull()
    left = net(old.transactions[0].records)
    records, _ = migrated(old, transform(after))
    gone, come = left - net(fresh.records), net(fresh.records) - left
    assert len(records) == gone.total() + come.total()
    for operation, *row in records:
        name = tuple(repr(value) for value in row)
        assert operation == A or left[name] > 0
        left[name] += -1 if operation == R else 1


@pytest.mark.parametrize(("before", "after"), [(LINEAR, LINEAR_NEXT), (KEYED, KEYED_NEXT), (TIMED, TIMED_NEXT)])
def test_what_comes_after_a_migration_continues_from_its_checkpoint(
    engine_call: EngineCall, source: Input, before: str, after: str
) -> None:
    old = Derivative(before, [source], engine_call, name="old")
    old.pull([2])
    records, checkpoint = migrated(old, transform(after))
    emitted = [*old.transactions[0].records, *records]
    old.transform = transform(after)
    source.add([(A, 3 * HOUR, "x", 5, 1.0), (A, 100 * HOUR, "y", 9, 1.0)], watermark=99 * HOUR)
    request = replace(old.request(), checkpoint_paths=(checkpoint,), next_offset=len(emitted))
    execute_transform(request, engine_call)
    emitted += records_of(engine_call.exchange.root / request.new_data_path)
    fresh = Derivative(after, [source], engine_call, name="fresh").pull()
    assert net(emitted) == net(fresh.records)


def test_the_same_request_gives_the_same_bytes(engine_call: EngineCall, source: Input) -> None:
    old = Derivative(KEYED, [source], engine_call, name="old")
    old.pull()
    migrated(old, transform(KEYED_NEXT))
    root = engine_call.exchange.root
    first = (root / "m").read_bytes(), (root / "mc").read_bytes()
    migrated(old, transform(KEYED_NEXT))
    assert ((root / "m").read_bytes(), (root / "mc").read_bytes()) == first


def test_a_result_that_stays_the_same_says_nothing(engine_call: EngineCall, source: Input) -> None:
    old = Derivative(LINEAR, [source], engine_call, name="old")
    old.pull()
    records, _ = migrated(old, transform("select event_time, k, v from a where v >= 2"))
    assert records == []


OWING = [
    (LINEAR, "select event_time, k, v * 10 v from a where v > 1"),
    (KEYED, "select event_time, k, v + 1L v from a"),
    ("select event_time, k, v + 1L v from a", KEYED),
    ("select event_time, k, v from a", LINEAR),
]


@pytest.mark.parametrize(("before", "after"), OWING)
def test_unmatched_retractions_cancel_inserts_after_a_migration_too(
    engine_call: EngineCall, source: Input, before: str, after: str
) -> None:
    source.add([(R, 5 * HOUR, "owed", 9, 1.0), (R, 5 * HOUR, "owed", 1, 1.0)])
    old = Derivative(before, [source], engine_call, name="old")
    old.pull()
    records, checkpoint = migrated(old, transform(after))
    emitted = [*old.transactions[0].records, *records]
    old.transform = transform(after)
    source.add([(A, 5 * HOUR, "owed", 9, 1.0), (A, 5 * HOUR, "owed", 1, 1.0), (A, 0, "owed", 2, 1.0)])
    request = replace(old.request(), checkpoint_paths=(checkpoint,), checkpoint_hashes=(), next_offset=len(emitted))
    execute_transform(request, engine_call)
    emitted += records_of(engine_call.exchange.root / request.new_data_path)
    fresh = Derivative(after, [source], engine_call, name="fresh").pull()
    assert net(emitted) == net(fresh.records)


def test_a_column_that_is_new_is_null_in_earlier_rows(engine_call: EngineCall, source: Input) -> None:
    old = Derivative("select event_time, k from a", [source], engine_call, name="old")
    old.pull()
    wider = [*list(old.transactions[0].table.schema)[:4], pa.field("k", pa.string()), pa.field("v", pa.int32())]
    following = transform("select event_time, k, nullif(v, 2) v from a")
    last = old.transactions[-1]
    old.transactions[-1] = replace(
        last, result=replace(last.result, data_schema=arrow_to_data_schema(pa.schema(wider)))
    )
    records, _ = migrated(old, following)
    fresh = Derivative("select event_time, k, nullif(v, 2) v from a", [source], engine_call, name="fresh").pull()
    emitted = [(*record, None) for record in last.records]
    assert net(emitted + records) == net(fresh.records)
    assert ("y", None) not in {record[2:] for record in records}


def test_an_output_that_does_not_fit_is_refused(engine_call: EngineCall, source: Input) -> None:
    old = Derivative(LINEAR, [source], engine_call, name="old")
    old.pull()
    with pytest.raises(IncompatibleSchema):
        migrated(old, transform("select event_time, k from a"))


def test_a_comparison_that_is_too_large_names_its_limit(engine_call: EngineCall, source: Input) -> None:
    old = Derivative(LINEAR, [source], engine_call, name="old")
    old.pull()
    with pytest.raises(LimitExceeded) as refused:
        migrated(old, transform(LINEAR_NEXT), settings={"migration_rows_max": 1})
    assert refused.value.limit == "migration_rows_max"
    assert not [path for path in (engine_call.exchange.root / "m", engine_call.exchange.root / "mc") if path.exists()]


def test_a_migration_that_does_not_start_at_the_beginning_is_refused(engine_call: EngineCall, source: Input) -> None:
    old = Derivative(LINEAR, [source], engine_call, name="old")
    old.pull([1])
    with pytest.raises(InvalidRequest):
        migrate_query(MigrateRequest(next=old.request(), output=()), engine_call)
    backwards = tuple(SliceFile(path="x", offsets=OffsetRange(begin, begin + 1)) for begin in (1, 0))
    old.taken = [0]
    request = replace(old.request([1]), checkpoint_paths=(), new_data_path="m", new_checkpoint_path="mc")
    with pytest.raises(InvalidRequest):
        migrate_query(MigrateRequest(next=request, output=backwards), engine_call)


REWRITTEN = "-- the same in other words\nSELECT  max(event_time) AS event_time, k, sum(v) v\nFROM a GROUP BY (k)"


def test_a_checkpoint_continues_under_a_transform_that_says_the_same(engine_call: EngineCall, source: Input) -> None:
    old = Derivative(KEYED, [source], engine_call, name="old")
    old.pull([1])
    whole = Derivative(KEYED, [source], engine_call, name="whole")
    whole.pull([1])
    expected = whole.pull()
    request = replace(old.request(), transform=transform(REWRITTEN))
    with pytest.raises(OdfError, match="another query"):
        execute_transform(request, engine_call)
    execute_transform(replace(request, previous=old.transform), engine_call)
    assert records_of(engine_call.exchange.root / request.new_data_path) == expected.records
    other = replace(request, transform=transform(KEYED_NEXT), previous=old.transform)
    with pytest.raises(OdfError, match="another query"):
        execute_transform(other, engine_call)


LISTED, NUMBERS = ", ".join(f"'x{number}'" for number in range(30)), ", ".join(map(str, range(30)))
NAMED = ", ".join(f"c{number}" for number in range(30))
DIFFERENT = [
    ("select cast(k as int) x from a", "select try_cast(k as int) x from a"),
    ("select v + 1 x from a", "select try_add(v, 1) x from a"),
    ("select 1 x from a", "select 1L x from a"),
    ("select '1' x from a", "select 1 x from a"),
    ("select v from a union all select v from b", "select v from a union select v from b"),
    ("select v from a join b on a.k = b.k", "select v from a left join b on a.k = b.k"),
    ("select k from a where k like 'x' escape '!'", "select k from a where k like 'x'"),
    (
        "select k, sum(v) from a group by grouping sets ((k), ())",
        "select k, sum(v) from a group by grouping sets ((k))",
    ),
    ("select * except (k) from a", "select * except (v) from a"),
    ("select v from a where k in (select k from b)", "select v from a where k in (select v from b)"),
    ("select /*+ lateness('1 day') */ v from a", "select /*+ lateness('2 days') */ v from a"),
    (
        "select sum(v) over (partition by k order by v) from a",
        "select sum(v) over (partition by k order by v desc) from a",
    ),
    ("with x as (select 1 y) select y from x", "with x as (select 2 y) select y from x"),
    (
        "select sum(v) over w from a window w as (partition by k = '1')",
        "select sum(v) over w from a window w as (partition by k = 1)",
    ),
    ("select 1 x from a where k = '#1'", "select 1 x from a where k = '#2'"),
    ("select v / 3.0 x from a", "select v / 3.0D x from a"),
    (f"select 1 x from a where k like any ({LISTED}, 'y')", f"select 1 x from a where k like any ({LISTED}, 'z')"),
    (f"select try_cast(k as int) in ({NUMBERS}) x from a", f"select cast(k as int) in ({NUMBERS}) x from a"),
    (
        f"with x({NAMED}, p, q) as (select * from b) select p from x",
        f"with x({NAMED}, q, p) as (select * from b) select p from x",
    ),
    (f"select p from (select * from b) x({NAMED}, p, q)", f"select p from (select * from b) x({NAMED}, q, p)"),
    ("select v from a where exists (select 1 from b)", "select v from a where exists (select 2 from b)"),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_means_something_else_never_says_the_same(engine_call: EngineCall, one: str, other: str) -> None:
    assert not says_the_same(engine_call.session, transform(one), transform(other))
    assert says_the_same(engine_call.session, transform(one), transform(f"/* again */ {one}\n"))


def test_what_a_long_query_says_is_told_once(engine_call: EngineCall) -> None:
    chain, branches = " || ".join(["k"] * 60), " union all ".join(["select v from a"] * 30)
    cases = "coalesce(" * 30 + "v" + ", 1)" * 30
    one = transform(f"select event_time, {chain} x, {cases} y from a where v in (select v from ({branches}))")
    other = transform(f"select event_time,  {chain} x, {cases} y from a where v in (select v from ({branches}))")
    assert says_the_same(engine_call.session, one, other)


def test_names_of_steps_and_their_number_are_part_of_the_meaning(engine_call: EngineCall) -> None:
    one = transform("select * from a", "select * from s0")
    renamed = TransformSql(
        engine="spark",
        queries=(SqlQueryStep(alias="t0", query="select * from a"), SqlQueryStep(query="select * from s0")),
    )
    assert not says_the_same(engine_call.session, one, renamed)
    assert not says_the_same(engine_call.session, one, transform("select * from s0"))
    assert not says_the_same(engine_call.session, transform("select ("), transform("select ( "))


VERDICTS = [
    (LINEAR, f"  {LINEAR} -- as before", EvolutionVerdict.COMPATIBLE, "say the same"),
    (LINEAR, LINEAR_NEXT, EvolutionVerdict.MIGRATION, "computes the result anew"),
    (LINEAR, "select event_time, k, v, d from a", EvolutionVerdict.MIGRATION, "`d` is new"),
    ("select event_time, nope from a", LINEAR, EvolutionVerdict.MIGRATION, "has changed"),
    (LINEAR, "select event_time, k, d, v from a", EvolutionVerdict.REFUSED, "in another order"),
    (LINEAR, "select event_time, v, k from a", EvolutionVerdict.REFUSED, "in another order"),
    (LINEAR, "select event_time, k from a", EvolutionVerdict.REFUSED, "column `v` is gone"),
    (LINEAR, "select event_time, k, v * 1L v from a", EvolutionVerdict.REFUSED, "column `v` has another type"),
    (LINEAR, "select event_time, k, v, 1 one from a", EvolutionVerdict.REFUSED, "`one` is never null"),
    (LINEAR, "select event_time, k, coalesce(v, 0) v from a", EvolutionVerdict.MIGRATION, "has changed"),
    (
        "select event_time, coalesce(v, 0) v from a",
        "select event_time, v from a",
        EvolutionVerdict.REFUSED,
        "another type",
    ),
]


@pytest.mark.parametrize(("before", "after", "verdict", "said"), VERDICTS)
def test_the_verdict_on_a_change_says_why(
    engine_call: EngineCall, before: str, after: str, verdict: EvolutionVerdict, said: str
) -> None:
    names = DatasetVocabulary()
    table = QueryInput(alias="a", vocabulary=names, data_schema=arrow_to_data_schema(SCHEMA))
    request = ValidateRequest(vocabulary=names, transform=transform(after), inputs=(table,), previous=transform(before))
    found = judge_query(request, engine_call)
    assert found.problems == ()
    assert found.evolution is not None
    assert found.evolution.verdict is verdict
    assert said in found.evolution.reason
    assert (found.evolution.hint is not None) == (verdict is EvolutionVerdict.REFUSED)


def test_a_change_to_what_is_refused_has_problems_and_no_verdict(engine_call: EngineCall) -> None:
    names = DatasetVocabulary()
    table = QueryInput(alias="a", vocabulary=names, data_schema=arrow_to_data_schema(SCHEMA))
    request = ValidateRequest(
        vocabulary=names,
        transform=transform("select event_time, nope from a"),
        inputs=(table,),
        previous=transform(LINEAR),
    )
    found = judge_query(request, engine_call)
    assert found.problems
    assert found.evolution is None


def widened(source: Input) -> None:
    """The input gets a column that may be null; blocks of before do not have it."""
    source.schema = pa.schema([*source.schema, pa.field("note", pa.string())])


def test_a_new_column_of_an_input_is_nothing_to_a_query_that_does_not_name_it(
    engine_call: EngineCall, source: Input
) -> None:
    derivative = Derivative(KEYED, [source], engine_call)
    derivative.pull()
    widened(source)
    source.add([(A, 60 * HOUR, "z", 4, 1.0, "new")], watermark=60 * HOUR)
    assert [record[2:] for record in derivative.pull().records] == [("z", 3), ("z", 7)]


def test_a_changed_query_may_take_a_new_column_of_an_input_up(engine_call: EngineCall, source: Input) -> None:
    old = Derivative(LINEAR, [source], engine_call, name="old")
    old.pull()
    widened(source)
    source.add([(A, 60 * HOUR, "z", 4, 1.0, "new")], watermark=60 * HOUR)
    old.taken = [len(source.steps)]
    following = "select event_time, coalesce(note, k) k, v from a where v > 1"
    records, _ = migrated(old, transform(following))
    fresh = Derivative(following, [source], engine_call, name="fresh").pull()
    assert net(old.transactions[0].records + records) == net(fresh.records)
    assert [record[2:] for record in records] == [("new", 4)]
