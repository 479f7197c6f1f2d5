"""The gate: permitted SQL, by attacks, ordinary queries and refusal texts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType, _parse_datatype_string

from odfabric.errors import InvalidQuery, LimitExceeded
from odfabric.model.metadata import SqlQueryStep, TransformSql
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst
from odfabric_engine_spark.spark.session import SparkProcess
from odfabric_engine_spark.sql.allowed_functions import Verdict, functions
from odfabric_engine_spark.sql.corrections.functions_of_other_engines import ELSEWHERE
from odfabric_engine_spark.sql.gate import OneOffQueryGate, run_gated_steps, steps_of
from odfabric_engine_spark.sql.lateness_hint import parse_lateness
from odfabric_engine_spark.sql.parsed_plan_rules import Mode
from odfabric_engine_spark.sql.refusal import Refused

CASES = Path(__file__).parents[3] / "cases" / "sql_gate"
LEGITIMATE_SHARE_MIN = 0.98

SYSTEM = "offset bigint not null, op int not null, system_time timestamp not null, event_time timestamp not null, "
DATA = (
    "k string, v int, d double, m decimal(10,2), b boolean, t timestamp, y date, arr array<int>, "
    "s struct<x:int not null,y:string not null> not null, mp map<string,int>, bin binary"
)
NAMES = (
    "`now` int, `user` int, `date` int, current_date_ int, uuid int, rand int, first int, current_timestamp_x int, "
    "count int, sum int, max int, window_ int, `order` int, `limit` int, `group` int"
)
OTHER_TABLE_FUNCTIONS = {
    "range",
    "variant_explode",
    "variant_explode_outer",
    "python_worker_logs",
    "collations",
    "sql_keywords",
}
TABLES = {"input": DATA, "flights.daily": DATA, "acc/data": DATA, "names": NAMES}


def cases(name: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads((CASES / f"{name}.json").read_text(encoding="utf-8"))
    return found


def schema(columns: str) -> StructType:
    parsed = _parse_datatype_string(SYSTEM + columns)
    assert isinstance(parsed, StructType)
    return parsed


def gated(call: EngineCall, mode: Mode) -> OneOffQueryGate:
    """A gate with the tables of the cases, all empty."""
    session = OneOffQueryGate(call.session, mode=mode, settings=call.settings)
    catalyst = Catalyst(session.session)
    for name, columns in TABLES.items():
        session.add_table(name, catalyst.empty_table(schema(columns)))
    return session


def refusals(call: EngineCall, mode: Mode, sql: str, gate: OneOffQueryGate | None = None) -> tuple[InvalidQuery, ...]:
    try:
        (gate or gated(call, mode)).run_steps([SqlQueryStep(query=sql)])
    except Refused as refused:
        return refused.problems
    return ()


def refused(call: EngineCall, sql: str, mode: Mode = Mode.TRANSFORM) -> InvalidQuery:
    problems = refusals(call, mode, sql)
    assert problems, f"accepted: {sql}"
    return problems[0]


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_every_attack_is_refused_with_a_rule(engine_call: EngineCall) -> None:
    accepted, without_rule = [], []
    gates = {mode: gated(engine_call, mode) for mode in Mode}
    for case in cases("attacks"):
        problems = refusals(engine_call, Mode(case["mode"]), case["sql"], gates[Mode(case["mode"])])
        if not problems:
            accepted.append(case)
        elif any(not problem.place.rule or not problem.message for problem in problems):
            without_rule.append(case)
    assert (accepted, without_rule) == ([], [])


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_ordinary_sql_stays_usable(engine_call: EngineCall) -> None:
    blocked = {}
    gates = {mode: gated(engine_call, mode) for mode in Mode}
    for case in cases("legitimate"):
        problems = refusals(engine_call, Mode(case["mode"]), case["sql"], gates[Mode(case["mode"])])
        if problems:
            blocked[case["sql"]] = str(problems[0])
    assert len(blocked) <= (1 - LEGITIMATE_SHARE_MIN) * len(cases("legitimate")), blocked


def test_the_sets_are_large_and_apart() -> None:
    attacks, legitimate = ({case["sql"] for case in cases(name)} for name in ("attacks", "legitimate"))
    assert len(attacks) >= 150
    assert len(legitimate) >= 150
    assert not attacks & legitimate


@pytest.mark.spark
def test_every_function_of_this_spark_is_classified(spark: SparkProcess) -> None:
    names = {row.function.lower() for row in spark.session.sql("SHOW ALL FUNCTIONS").collect()}
    known = functions()
    listed = known.allowed | known.decided_on_the_plan | set(known.refused)
    assert {name for name in names - listed if name[0].isalpha()} == {"case"} | OTHER_TABLE_FUNCTIONS
    assert not set(ELSEWHERE) & (names | listed), "names of other engines that are Spark's as well"


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_documented_examples_of_allowed_functions_pass(engine_call: EngineCall) -> None:
    """Spark's own example of each allowed function.

    What is refused in them is another function, or a type.
    """
    gate = gated(engine_call, Mode.QUERY)
    catalog = gate.session._jsparkSession.sessionState().catalog()
    identifier = gate.session._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    allowed = {
        "function-clock",
        "function-session",
        "function-type",
        "function-random",
        "special-time",
        "table-function",
    }
    blocked, tried = {}, 0
    for name in sorted(functions().allowed):
        text = catalog.lookupFunctionInfo(identifier(name)).getExamples()
        example = next((line.split("> ", 1)[1] for line in text.splitlines() if "> SELECT" in line), "")
        if not example.rstrip().endswith(";"):
            continue
        tried += 1
        try:
            gate.run(example.rstrip().removesuffix(";"))
        except Refused as problem:
            if problem.problems[0].place.rule not in allowed:
                blocked[example] = str(problem.problems[0])
    assert tried > 350
    assert len(blocked) <= (1 - LEGITIMATE_SHARE_MIN) * tried, blocked


PLACES: list[tuple[str, str, int | None, int | None]] = [
    ("select now() from input", "function-clock", 1, 8),
    ("select v,\n  rand() r\nfrom input", "function-random", 2, 3),
    ("select v from input\nwhere t > 'now'", "special-time", 2, 7),
    ("select date 'today' d from input", "special-time", 1, 8),
    ("select *\nfrom parquet.`/etc/passwd`", "relation", 2, 6),
    ("select nope from input", "unresolved-column", 1, 8),
    ("select v from nothing", "relation", 1, 15),
    ("select v, from input", "trailing-comma-in-select", 1, 11),
    ("select v from input where v >", "parse-syntax-error", 1, 30),
    ("select v from input order by v", "order-by", 1, 21),
    ("select v from input limit 3", "limit", 1, 21),
    ("select `current_date` d from input", "function-clock", 1, 8),
    ("select first(v) f, k from input group by k", "function-order", 1, 8),
    ("select 'é😀', now() from input", "function-clock", 1, 14),
]


@pytest.mark.spark
@pytest.mark.parametrize(("sql", "rule", "line", "column"), PLACES)
def test_a_refusal_names_the_place(
    engine_call: EngineCall, sql: str, rule: str, line: int | None, column: int | None
) -> None:
    place = refused(engine_call, sql).place
    assert (place.rule, place.line, place.column) == (rule, line, column)


@pytest.mark.spark
def test_all_problems_of_a_statement_are_told_at_once(engine_call: EngineCall) -> None:
    problems = refusals(engine_call, Mode.TRANSFORM, "select rand() a, now() b\nfrom nothing\nlimit 3")
    assert [problem.place.rule for problem in problems] == ["function-random", "function-clock", "relation", "limit"]


@pytest.mark.spark
def test_hints_say_what_to_do(engine_call: EngineCall) -> None:
    assert refused(engine_call, "select kk from input").hint == "did you mean `k`, `v`, `d`, `b`, `t`?" or "`k`" in str(
        refused(engine_call, "select kk from input").hint
    )
    assert (
        refused(engine_call, "select abss(v) from input").hint
        == "did you mean abs? Else there are no functions of users"
    )
    assert "`input`" in str(refused(engine_call, "select v from inptu").hint)
    assert "sort_array" in str(refused(engine_call, "select collect_list(v) c, k from input group by k").hint)


def frame(call: EngineCall) -> Any:
    return call.session.createDataFrame([("a", 1), ("b", 2)], "k string, v int")


def gated_rows(call: EngineCall, sql: str, mode: Mode = Mode.PREPROCESS, name: str = "input") -> list[tuple[Any, ...]]:
    transform = TransformSql(engine="spark", query=sql)
    result = run_gated_steps(call.session, transform, {name: frame(call)}, mode=mode, settings=call.settings)
    return sorted(tuple(row) for row in result.collect())


@pytest.mark.spark
def test_steps_build_on_each_other(engine_call: EngineCall) -> None:
    steps = (
        SqlQueryStep(alias="big", query="select * from input where v > 1"),
        SqlQueryStep(query="select k from big"),
    )
    transform = TransformSql(engine="spark", queries=steps)
    tables = {"input": frame(engine_call)}
    result = run_gated_steps(
        engine_call.session, transform, tables, mode=Mode.PREPROCESS, settings=engine_call.settings
    )
    assert [row.k for row in result.collect()] == ["b"]


@pytest.mark.spark
def test_the_wrong_statement_of_several_is_named(engine_call: EngineCall) -> None:
    steps = (SqlQueryStep(alias="one", query="select * from input"), SqlQueryStep(query="select rand() r from one"))
    transform = TransformSql(engine="spark", queries=steps)
    with pytest.raises(InvalidQuery) as caught:
        run_gated_steps(
            engine_call.session,
            transform,
            {"input": frame(engine_call)},
            mode=Mode.QUERY,
            settings=engine_call.settings,
        )
    assert (caught.value.place.field, caught.value.place.line, caught.value.place.column) == ("queries[1]", 1, 8)


@pytest.mark.spark
def test_nothing_of_a_query_stays_in_the_callers_session(engine_call: EngineCall) -> None:
    before = dict(engine_call.session.conf.getAll)
    assert gated_rows(engine_call, "with x as (select k from input) select k from x") == [("a",), ("b",)]
    assert engine_call.session.catalog.listTables() == []
    assert dict(engine_call.session.conf.getAll) == before


@pytest.mark.spark
def test_variables_of_the_environment_are_text(engine_call: EngineCall) -> None:
    assert gated_rows(engine_call, "select '${env:PATH}' p from input where v = 1") == [("${env:PATH}",)]


@pytest.mark.spark
@pytest.mark.parametrize("name", ["acc/data", "a b", "x`y", "select", "a.b"])
def test_any_name_can_be_quoted(engine_call: EngineCall, name: str) -> None:
    quoted = "`" + name.replace("`", "``") + "`"
    assert gated_rows(engine_call, f"select k from {quoted} where v = 2", name=name) == [("b",)]


@pytest.mark.spark
def test_double_quotes_are_names_in_queries_and_texts_in_transforms(engine_call: EngineCall) -> None:
    assert gated_rows(engine_call, 'select "k" from "acc/data" where v = 1', Mode.QUERY, "acc/data") == [("a",)]
    assert gated_rows(engine_call, 'select "k" x from input where v = 1') == [("k",)]


COLUMNS = [
    ("select k, k from input", "column-name"),
    ("select k, v as K from input", "column-name"),
    ("select v as `` from input", "parse-empty-statement"),
    ("select v as ` ` from input", "column-name"),
    ("select null as x from input", "column-type"),
    ("select interval 1 day as x from input", "column-type"),
    ("select timestamp_ntz '2020-01-01 00:00:00' as x from input", "column-type"),
    ("select parse_json(k) as x from input", "column-type"),
    ("select if(v > 1, named_struct('a', if(v > 1, 1, null)), null) as x from input", "column-type"),
]


@pytest.mark.spark
@pytest.mark.parametrize(("sql", "rule"), COLUMNS)
def test_columns_without_a_form_are_refused(engine_call: EngineCall, sql: str, rule: str) -> None:
    with pytest.raises(InvalidQuery) as caught:
        gated_rows(engine_call, sql)
    assert caught.value.place.rule == rule or rule.startswith("parse")


@pytest.mark.spark
def test_the_text_of_a_query_is_limited(engine_call: EngineCall) -> None:
    sql = "select k from input where v = 1"
    exact = replace(engine_call, settings=replace(engine_call.settings, query_bytes_max=len(sql)))
    assert gated_rows(exact, sql) == [("a",)]
    with pytest.raises(LimitExceeded, match="too long"):
        gated_rows(exact, sql + " ")


@pytest.mark.spark
def test_the_plan_of_a_query_is_limited(engine_call: EngineCall) -> None:
    small = replace(engine_call, settings=replace(engine_call.settings, plan_nodes_max=40))
    assert len(gated_rows(small, "select v + 1 + 1 x from input")) == 2
    with pytest.raises(LimitExceeded, match="too large"):
        gated_rows(small, "select v" + " + 1" * 60 + " x from input")
    many = "select count(*) n from input group by window(timestamp '2026-01-01', '1 day', '1 minute')"
    with pytest.raises(LimitExceeded, match="in 1,440 windows"):
        gated_rows(engine_call, many)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("expression", "rules"),
    [
        ("(" * 20_000 + "v" + ")" * 20_000, ("too-deep",)),
        ("cast(v as " + "array<" * 20_000 + "int" + ">" * 20_000 + ")", ("too-deep",)),
        ("- " * 20_000 + "v", ("too-deep", "failed-to-parse-too-complex")),
    ],
    ids=["brackets", "types", "signs"],
)
def test_deep_nesting_is_refused_and_the_engine_lives(
    engine_call: EngineCall, expression: str, rules: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidQuery) as caught:
        gated_rows(engine_call, f"select {expression} x from input")
    assert caught.value.place.rule in rules
    assert len(gated_rows(engine_call, "select v from input")) == 2


@pytest.mark.parametrize(
    ("transform", "rule"),
    [
        (TransformSql(engine="flink", query="select 1"), "engine"),
        (TransformSql(engine="datafusion", query="select 1"), "engine"),
        (TransformSql(engine="spark"), "steps"),
        (TransformSql(engine="spark", queries=(SqlQueryStep(alias="a", query="select 1"),)), "steps"),
        (TransformSql(engine="spark", queries=(SqlQueryStep(query="x"), SqlQueryStep(query="y"))), "steps"),
        (TransformSql(engine="spark", query="x", queries=(SqlQueryStep(query="y"),)), "steps"),
    ],
)
def test_other_engines_and_malformed_lists_are_refused(transform: TransformSql, rule: str) -> None:
    with pytest.raises(InvalidQuery) as caught:
        steps_of(transform)
    assert caught.value.place.rule == rule
    assert caught.value.message


def test_the_engine_name_is_taken_in_any_case() -> None:
    assert [step.query for step in steps_of(TransformSql(engine="Spark", query="select 1"))] == ["select 1"]


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1 day", 86_400_000_000),
        ("90 minutes", 5_400_000_000),
        (" 1 Hour 30 minutes ", 5_400_000_000),
        ("0 seconds", 0),
    ],
)
def test_a_lateness_is_read(text: str, micros: int) -> None:
    assert parse_lateness([text]) == micros


@pytest.mark.parametrize(
    "parameters", [[], ["1"], ["1 month"], ["-1 day"], ["1 day", "2 days"], [1], ["1.5 days"], ["day"]]
)
def test_a_lateness_that_says_nothing_is_refused(parameters: list[object]) -> None:
    assert parse_lateness(parameters) is None


def test_what_is_on_no_list_is_refused() -> None:
    assert functions().verdict("a_function_of_the_next_release") == (Verdict.REFUSED, "unknown")
