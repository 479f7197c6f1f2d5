"""One run of the query for many worlds gives each what a run of its own gives.

`ODF_LAW_CASES` from 100 on and `ODF_LAW_ONLY` choose shapes as in `test_provenance_laws`.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from pyspark.errors import PySparkException

from odfabric.errors import OdfError
from odfabric.model.provenance import ProvenanceEffort
from odfabric_engine_spark.provenance import world_plan
from odfabric_engine_spark.provenance.world_plan import Numbered, Rewriting
from odfabric_engine_spark.spark.catalyst.plan_nodes import Plan, children, items, output_of
from tests.services.engine.laws.law_check import Lab, own_lab
from tests.services.engine.laws.shapes.general_shapes import shape_case
from tests.services.engine.provenance.explaining import Answer, explained
from tests.services.engine.provenance.provenance_laws import run_case
from tests.services.engine.provenance.test_provenance_laws import EACH_DAY, todays_cases
from tests.services.engine.provenance.world_laws import worlds_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(0)]


def differences(name: str, lab: Lab) -> list[str]:
    """Worlds whose rows are not those of the normal plan over their rows alone."""
    shape, _, number = name.rpartition(":")
    case = shape_case(shape, int(number))
    worlds = worlds_of(case, own_lab(lab), Random(name))
    try:
        alone = worlds.alone()
    except (OdfError, PySparkException):
        # A subquery has several rows where it may have one.
        worlds = worlds_of(case, own_lab(lab), Random(name), net=True)
        alone = worlds.alone()
    pairs = enumerate(zip(alone, worlds.together(), strict=True))
    return [f"{name}: world {at}: {one} but {other}" for at, (one, other) in pairs if one != other]


def test_worlds_do_not_meet(lab: Lab) -> None:
    """Rows of each world are those of the normal plan over its rows alone."""
    problems = []
    for name in todays_cases(EACH_DAY, shift=2 * EACH_DAY):
        try:
            problems += differences(name, lab)
        except Exception as error:  # noqa: BLE001 - one broken case must not hide the others
            problems.append(f"{name}: {type(error).__name__}: {error}")
        print(name, len(problems), flush=True)
    assert not problems, "\n\n".join(problems)


def _join_of_all_worlds(rewriting: Rewriting, plan: Plan) -> Numbered:
    left, right = (rewriting.of(child) for child in children(plan))
    node = rewriting.catalyst.logical.Join(left.plan, right.plan, plan.joinType(), plan.condition(), plan.hint())
    return Numbered(node, left.number)


def _group_of_all_worlds(rewriting: Rewriting, plan: Plan) -> Numbered:
    (child,) = children(plan)
    below, catalyst = rewriting.of(child), rewriting.catalyst
    first = catalyst.named(catalyst.parse_expression("0L"), "__odf_world")
    rows = catalyst.logical.Project(catalyst.seq([*output_of(child), first]), below.plan)
    groups = catalyst.seq([*items(plan.groupingExpressions()), first.toAttribute()])
    values = catalyst.seq([*items(plan.aggregateExpressions()), first.toAttribute()])
    return Numbered(catalyst.logical.Aggregate(groups, values, rows, plan.hint()), first.toAttribute())


def _group_that_needs_rows(rewriting: Rewriting, plan: Plan) -> Numbered:
    below, catalyst = rewriting.of(children(plan)[0]), rewriting.catalyst
    groups = catalyst.seq([*items(plan.groupingExpressions()), below.number])
    values = catalyst.seq([*items(plan.aggregateExpressions()), below.number])
    return Numbered(catalyst.logical.Aggregate(groups, values, below.plan, plan.hint()), below.number)


def _window_over_all_worlds(rewriting: Rewriting, plan: Plan) -> Numbered:
    below, catalyst = rewriting.of(children(plan)[0]), rewriting.catalyst
    node = catalyst.logical.Window(
        plan.windowExpressions(), plan.partitionSpec(), plan.orderSpec(), below.plan, plan.hint()
    )
    return Numbered(node, below.number)


@pytest.mark.parametrize(
    ("operator", "broken", "shape"),
    [
        ("Join", _join_of_all_worlds, "left"),
        ("Aggregate", _group_of_all_worlds, "extremes"),
        ("Window", _window_over_all_worlds, "running sum of rows"),
        ("Aggregate", _group_that_needs_rows, "global"),
    ],
)
def test_an_operator_that_forgets_worlds_is_caught(
    operator: str, broken: Callable[..., Any], shape: str, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Controls: without the number among the keys of one operator the law fails."""
    monkeypatch.setitem(world_plan.OPERATORS, operator, broken)  # type: ignore[arg-type]
    assert differences(f"{shape}:1", lab)


def _said(answer: Answer, offset: int) -> tuple[object, ...]:
    """All that an answer says of a record, but how much work it took."""
    one = answer.record(offset)
    derivations = [sorted(answer.witnesses(offset, term=term)) for term in range(one.alternatives)]
    verdict = (one.found, one.verified, one.minimal, one.alternatives, one.by_watermark, one.notes, one.how)
    return (*verdict, derivations, sorted(answer.trigger(offset)))


@pytest.mark.parametrize("effort", [ProvenanceEffort.VERIFIED, ProvenanceEffort.MINIMAL], ids=["verified", "minimal"])
def test_a_page_says_of_each_record_what_it_says_alone(lab: Lab, effort: ProvenanceEffort) -> None:
    """Verdicts, witnesses and triggers do not depend on what is asked with a record."""
    problems = []
    for name in todays_cases(2, shift=3 * EACH_DAY):
        shape, _, number = name.rpartition(":")
        try:
            checked = run_case(shape_case(shape, int(number)), own_lab(lab))
            for at, done in enumerate(checked.derivative.transactions):
                offsets = done.table.column("offset").to_pylist()[:4]
                page = explained(checked.derivative, at, offsets, effort=effort) if offsets else None
                for offset in offsets:
                    one = _said(explained(checked.derivative, at, [offset], effort=effort), offset)
                    other = _said(page, offset)
                    if one != other:
                        problems.append(f"{name}, transaction {at}, record {offset}: alone\n{one}\ntogether\n{other}")
        except Exception as error:  # noqa: BLE001 - one broken case must not hide the others
            problems.append(f"{name}: {type(error).__name__}: {error}")
        print(name, len(problems), flush=True)
    assert not problems, "\n\n".join(problems)
