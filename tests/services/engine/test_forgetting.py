"""Forgetting changes nothing: random queries under a finite lateness, with what they may forget and with all rows kept.

`ODF_FORGET_CASES` says how many compositions run (default 12) beside every named shape of each sixth; `ODF_FORGET_SEED` moves
them to other numbers, `ODF_FORGET_ONLY` runs one, such as `composed:123`. What is dropped is the same in both runs; that it is the
right thing is for `test_lateness` to say.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from odfabric.errors import InvalidQuery
from odfabric_engine_spark.kept_plans import KeptPlans
from odfabric_engine_spark.stages import lateness
from tests.services.engine.general_cases import GeneralCase
from tests.services.engine.general_check import inputs_of
from tests.services.engine.general_shapes import SHAPES
from tests.services.engine.law_check import Lab, own_lab
from tests.services.engine.test_general_laws import case_named
from tests.services.engine.transforming import Derivative, Transaction

pytestmark = [pytest.mark.spark, pytest.mark.timeout(0)]

CASES = int(os.environ.get("ODF_FORGET_CASES", "12"))
SEED = int(os.environ.get("ODF_FORGET_SEED", "0"))
ONLY = os.environ.get("ODF_FORGET_ONLY")
SHAPES_EVERY = 1 if CASES >= 100 else 6
"""Of so many shapes one is run."""


@dataclass
class Tally:
    """`forgot` counts queries that have something to forget, `refused` those in which nothing ends."""

    forgot: int = 0
    kept_all: int = 0
    refused: int = 0
    dropped: int = 0
    operators: Counter[str] = field(default_factory=Counter)
    """Of queries that have something to forget."""


def _names() -> list[str]:
    if ONLY is not None:
        return ONLY.split(";")
    shapes = [f"{name}:{SEED}" for name in list(SHAPES)[SEED % SHAPES_EVERY :: SHAPES_EVERY]]
    chance = Random(f"forgetting {SEED}")
    composed = (f"composed:{chance.getrandbits(32)}" for _ in itertools.count())
    return [*shapes, *itertools.islice((name for name in composed if case_named(name).query.timed), CASES)]


def _limited(case: GeneralCase, minutes: int) -> list[tuple[str | None, str]]:
    *steps, (_, text) = case.query.statements
    return [*steps, (None, text.replace("SELECT", f"SELECT /*+ lateness('{minutes} minutes') */", 1))]


def _derivative(case: GeneralCase, minutes: int, lab: Lab) -> Derivative:
    call = replace(lab.call, plans=KeptPlans())
    return Derivative(
        _limited(case, minutes),
        inputs_of(case, lab),
        call,
        settings=case.sizes,
        temporal_tables=case.query.temporal,
    )


def _pulled(derived: Derivative, case: GeneralCase) -> list[Transaction]:
    return [derived.pull(cut) for cut in case.cuts]


def _check(name: str, lab: Lab, tally: Tally, patch: pytest.MonkeyPatch) -> None:
    case = case_named(name)
    minutes = Random(name).choice([0, 1, 30, 90])
    forgetful: list[bool] = []
    rules_of = lateness.forgetting

    def known(*given: object) -> object:
        rules = rules_of(*given)  # type: ignore[arg-type]
        forgetful.append(bool(rules))
        return rules

    patch.setattr(lateness, "forgetting", known)
    try:
        forgetting = _pulled(_derivative(case, minutes, own_lab(lab)), case)
    except InvalidQuery as refused:
        if refused.place is None or refused.place.rule != "hint":
            raise
        tally.refused += 1
        return
    patch.setattr(lateness, "forgetting", lambda *_: {})
    keeping = _pulled(_derivative(case, minutes, own_lab(lab)), case)
    for one, other in zip(forgetting, keeping, strict=True):
        assert one.records == other.records, f"{name}, {minutes} minutes\n{case}"
        assert one.result == other.result, f"{name}, {minutes} minutes\n{case}"
    tally.dropped += sum(one.result.late_rows_dropped for one in forgetting)
    tally.forgot += any(forgetful)
    tally.kept_all += not any(forgetful)
    if any(forgetful):
        tally.operators.update(case.query.operators)


def test_forgetting_changes_nothing(lab: Lab) -> None:
    tally = Tally()
    problems: list[str] = []
    for name in _names():
        with pytest.MonkeyPatch.context() as patch:
            try:
                _check(name, lab, tally, patch)
            except Exception as error:  # noqa: BLE001 - one broken case must not hide the others
                problems.append(f"{name}: {type(error).__name__}: {error}")
    print(tally)
    assert not problems, "\n\n".join([f"{len(problems)} problems", *problems])
    assert ONLY is not None or (tally.forgot and tally.dropped)
