"""The laws of provenance over the engine's law shapes.

`ODF_LAW_CASES` from 100 on runs every shape, once per hundred; below, six shapes a day and more at night, others each day.
`ODF_LAW_ONLY` runs the named cases, for instance `left:4;top of each:5`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from random import Random

import pytest

from odfabric_engine_spark.provenance import conditions, explained_records
from odfabric_engine_spark.provenance.conditions import Rules
from tests.services.engine.laws.law_check import Lab, own_lab
from tests.services.engine.laws.shapes.general_shapes import SHAPES, shape_case
from tests.services.engine.provenance.explaining import explained
from tests.services.engine.provenance.provenance_laws import Tally, check_laws, run_case, sampled
from tests.support.turns import NIGHTLY, today

pytestmark = [pytest.mark.spark, pytest.mark.timeout(0)]

CASES = int(os.environ.get("ODF_LAW_CASES", "8"))
ONLY = os.environ.get("ODF_LAW_ONLY")
EACH_DAY = 24 if NIGHTLY else 6
RECORDS = 4 if CASES >= 100 or NIGHTLY else 3


def todays_cases(count: int, *, shift: int = 0) -> Sequence[str]:
    """Names of cases: a stretch of the shapes that moves on each day."""
    if ONLY is not None:
        return ONLY.split(";")
    names = list(SHAPES)
    if CASES >= 100:
        return [f"{name}:{number}" for number in range(CASES // 100) for name in names]
    begin = (today() * EACH_DAY + shift) % len(names)
    return [f"{(names + names)[begin + at]}:{today() % 5}" for at in range(count)]


def test_laws_hold(lab: Lab) -> None:
    """Every answer is judged by engines that know nothing of provenance."""
    tally = Tally()
    for name in todays_cases(EACH_DAY):
        shape, _, number = name.rpartition(":")
        try:
            check_laws(run_case(shape_case(shape, int(number)), own_lab(lab)), tally, Random(name), count=RECORDS)
        except Exception as error:  # noqa: BLE001 - one broken case must not hide the others
            tally.problems.append(f"{name}: {type(error).__name__}: {error}")
        print(name, tally, flush=True)
    assert not tally.problems, "\n\n".join([str(tally), *tally.problems])


def test_rows_of_keys_have_the_witnesses_of_all_rows(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """RESTRICTED: conditions leave out nothing that a record is made of."""
    plain = conditions.rules_of
    for name in todays_cases(EACH_DAY // 2, shift=EACH_DAY):
        shape, _, number = name.rpartition(":")
        checked = run_case(shape_case(shape, int(number)), own_lab(lab))
        for transaction, offset, _, _ in sampled(checked, Random(name), 2):
            monkeypatch.setattr(explained_records, "rules_of", plain)
            some = explained(checked.derivative, transaction, [offset])
            monkeypatch.setattr(explained_records, "rules_of", lambda query, _: Rules(tuple(() for _ in query.uses)))
            every = explained(checked.derivative, transaction, [offset])
            assert some.record(offset).found == every.record(offset).found, name
            if some.record(offset).verified and every.record(offset).verified:
                assert some.witnesses(offset) == every.witnesses(offset), (name, transaction, offset)


def test_broken_rules_are_caught(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Controls: without inspected cells, and without the roles of cells, WHERE fails."""
    for broken in ("inspected_cells", "cells_behind"):
        tally = Tally()
        with monkeypatch.context() as patch:
            patch.setattr(explained_records, broken, lambda *_: [])
            for number in range(2):
                case = shape_case("inner", number)
                check_laws(run_case(case, own_lab(lab)), tally, Random(number), count=4)
        assert tally.held["WHERE"] < tally.judged["WHERE"], broken
