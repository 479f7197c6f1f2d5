"""Reading planner trees: one answer says what the objects themselves say."""

from __future__ import annotations

import gc
import time
from typing import Any

import pytest
from py4j.java_gateway import JavaObject

from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    children,
    class_name,
    elements_of,
    expr_id,
    expressions_of,
    items,
    output_of,
    walk_expression,
    with_elements,
)
from odfabric_engine_spark.spark.catalyst.tree_reader import Kind, KnownObject
from odfabric_engine_spark.spark.session import SparkProcess

pytestmark = pytest.mark.spark

SQL = "select a + 1 as b, array(a, 'x') c, exists(array(a), x -> x > 1) d from values (1), (2) t(a) where a is not null and a < 7"
GIVEN_BACK_S = 30.0


@pytest.fixture(scope="module")
def plan(spark: SparkProcess) -> Any:
    return spark.session.sql(SQL)._jdf.queryExecution().analyzed()


def one_by_one(seq: Any) -> list[Any]:
    return [seq.apply(at) for at in range(seq.size())]


def same(told: list[Any], asked: list[Any]) -> bool:
    return len(told) == len(asked) and all(
        one.equals(other) if isinstance(one, JavaObject) else one == other
        for one, other in zip(told, asked, strict=True)
    )


def nodes_of(plan: Any) -> list[Any]:
    return [plan, *(node for child in children(plan) for node in nodes_of(child))]


def test_what_is_told_is_what_each_object_says(plan: Any) -> None:
    nodes = nodes_of(plan)
    assert len(nodes) >= 3
    for node in nodes:
        assert same(children(node), one_by_one(node.children()))
        assert same(output_of(node), one_by_one(node.output()))
        assert same(expressions_of(node), one_by_one(node.expressions()))
        assert same(elements_of(node), [node.productElement(at) for at in range(node.productArity())])
        for each in [*output_of(node), *expressions_of(node)]:
            assert class_name(each) == each.getClass().getName()
            if isinstance(each, KnownObject) and each.column_id is not None:
                assert expr_id(each) == each.exprId().id()


def test_an_expression_is_walked_parents_first_from_left_to_right(plan: Any) -> None:
    def walked(node: Any) -> list[str]:
        return [str(node), *(text for child in one_by_one(node.children()) for text in walked(child))]

    for expression in expressions_of(plan):
        assert [str(each) for each in walk_expression(expression)] == walked(expression)


def test_values_that_are_no_references_are_told_as_they_are(spark: SparkProcess) -> None:
    catalyst = Catalyst(spark.session)
    texts = catalyst.seq(["x", "", "y z"])
    assert items(texts) == ["x", "", "y z"]
    literal = catalyst.parse_expression("5")
    assert elements_of(literal)[0] == 5
    assert items(catalyst.seq([])) == []
    expressions = [catalyst.parse_expression(text) for text in ("a", "b + 1")]
    listed = items(catalyst.seq(expressions))
    assert [str(each) for each in listed] == [str(each) for each in expressions]
    assert [each.kind for each in listed] == [Kind.EXPRESSION] * 2


def test_a_copy_has_what_was_changed(spark: SparkProcess) -> None:
    catalyst = Catalyst(spark.session)
    sum_, other = catalyst.parse_expression("a + 1"), catalyst.parse_expression("c")
    assert str(with_elements(sum_, {0: other})) == str(catalyst.parse_expression("c + 1"))
    assert str(sum_) == str(catalyst.parse_expression("a + 1"))


def test_values_become_columns_by_name_id_and_type(spark: SparkProcess) -> None:
    catalyst = Catalyst(spark.session)

    def columns(sql: str) -> list[Any]:
        return output_of(spark.session.sql(sql)._jdf.queryExecution().analyzed())

    wide = columns(
        "select interval '2' day + interval '0' second as x, 'a' as y, array(interval '2' hour + interval '0' second) as z"
    )
    own = columns("select interval '1' day as a, 'b' as b, array(interval '1' hour) as c")
    named = items(catalyst.as_columns(wide, own))
    assert [each.name() for each in named] == ["a", "b", "c"]
    assert [expr_id(each) for each in named] == [expr_id(each) for each in own]
    assert [each.dataType().simpleString() for each in named] == ["interval day", "string", "array<interval hour>"]
    assert [class_name(each.child()).rpartition(".")[2] for each in named] == ["Cast", "AttributeReference", "Cast"]


def test_what_nobody_holds_is_given_back(spark: SparkProcess, plan: Any) -> None:
    bindings = spark.session.sparkContext._gateway.java_gateway_server.getGateway().getBindings()
    kept = children(plan)
    held = [expressions_of(plan) for _ in range(1_000)]
    ids = [each._get_object_id() for told in held for each in told]
    assert all(bindings.containsKey(one) for one in (ids[0], ids[-1]))
    del held
    deadline = time.monotonic() + GIVEN_BACK_S
    while any(bindings.containsKey(one) for one in ids[::100]) and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.05)
    assert not any(bindings.containsKey(one) for one in ids)
    assert class_name(children(kept[0])[0]), "what is held stays"
