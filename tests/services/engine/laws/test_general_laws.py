"""The laws L1 to L5 of transforms over all operators.

`ODF_LAW_CASES` says how many random compositions run (default 15 at night, 8 by day). From 100 on every named shape of `general_shapes` runs too, once
per hundred, and both judges judge every transaction; below, a third of the shapes runs at night and half of
that by day, others each day. `ODF_LAW_SEED` moves all to
other numbers, and what is not reported by it are those of one of three days: these find what a change broke, long runs find what is new. A
failure names its case; `ODF_LAW_ONLY` runs that alone, for instance `composed:123` or
`left:4;left:5`. A case is 2 to 6 transactions. `ODF_LAW_HISTORIES` gives each query so many changelogs (two where there is little time), each a case
(`composed:123+4` is the fourth after the first): judging a query takes longer than a case of it. `ODF_LAW_FROM` goes on with a run that was
ended after so many cases.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random
from time import monotonic

import pytest

from odfabric_engine_spark.operators.aggregate import percentile_values
from odfabric_engine_spark.operators.touched_keys import hash_joins, old_rows, partial_read
from odfabric_engine_spark.sql import gate
from tests.services.engine.laws.general_check import Tally, check_general, run_again
from tests.services.engine.laws.grammar.general_cases import GeneralCase, sizes_of
from tests.services.engine.laws.grammar.general_operators import composed_case
from tests.services.engine.laws.law_check import Lab, own_lab
from tests.services.engine.laws.shapes.general_shapes import SHAPES, shape_case
from tests.services.engine.transforming import Derivative
from tests.support.turns import NIGHTLY, today, todays

pytestmark = [pytest.mark.spark, pytest.mark.timeout(0)]

CASES = int(os.environ.get("ODF_LAW_CASES", "15" if NIGHTLY else "8"))
SHAPES_EVERY = 3
"""Of so many shapes one is run where there is little time."""

SEED = int(os.environ.get("ODF_LAW_SEED", today() % SHAPES_EVERY))
HISTORIES = int(os.environ.get("ODF_LAW_HISTORIES", "2" if CASES < 100 else "1"))
BEGIN = int(os.environ.get("ODF_LAW_FROM", "0")) // HISTORIES
ONLY = os.environ.get("ODF_LAW_ONLY")
THOROUGH = CASES >= 100 or ONLY is not None

BATCH = 12
AT_ONCE = 2
"""Cases that run side by side: one alone leaves half of two cores idle."""

PLANNED = "spark.sql.execution.arrow.localRelationThreshold"
"""Whether rows are part of Spark's plan or lie beside it."""

AGAIN_EVERY = max(4, HISTORIES)
"""Of so many cases one is run again for L5, of each query no more than one: its plan is made again for that."""


def case_named(name: str) -> GeneralCase:
    """The case of a name: `composed:5`, or `composed:5+3` for another history."""
    kind, _, numbers = name.rpartition(":")
    number, _, history = numbers.partition("+")
    if kind == "composed":
        return composed_case(int(number), int(history or 0))
    return shape_case(kind, int(number), int(history or 0))


@dataclass(frozen=True)
class _Done:
    """A case that was run: its lab and derivative, or what is wrong with it."""

    name: str
    lab: Lab
    derivative: Derivative | None
    problem: str | None


def _check_named(name: str, lab: Lab, tally: Tally) -> _Done:
    case, own = case_named(name), own_lab(lab)
    try:
        return _Done(name, own, check_general(case, own, tally, thorough=THOROUGH), None)
    except Exception as error:  # noqa: BLE001 - one broken case must not hide the others
        return _Done(name, own, None, f"{name}: {type(error).__name__}: {error}\n{case}")


def _check_histories(name: str, lab: Lab, tally: Tally) -> list[_Done]:
    """One after the other, so that only the first waits for the plan of the query."""
    return [_check_named(f"{name}+{history}" if history else name, lab, tally) for history in range(HISTORIES)]


def _again(done: _Done, sizes: dict[str, int]) -> str | None:
    assert done.derivative is not None
    try:
        run_again(done.derivative, done.lab, sizes)
    except Exception as error:  # noqa: BLE001 - as above
        return f"{done.name}: {type(error).__name__}: {error}\n{case_named(done.name)}"
    return None


def _problems(names: Sequence[str], lab: Lab, tally: Tally) -> Iterator[str]:
    """Problems of cases run in batches, some again under other partitions.

    Each batch has a number of partitions of its own.
    """
    chance = Random(SEED + BEGIN)
    started, anomalies = monotonic(), 0
    for begin in range(BEGIN, len(names), BATCH):
        with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(AT_ONCE) as pool:
            patch.setitem(gate.GATE_CONF, "spark.sql.shuffle.partitions", str(chance.randint(1, 3)))
            patch.setitem(gate.GATE_CONF, PLANNED, "1m")
            patch.setattr(hash_joins, "ROWS_MIN", chance.choice((0, hash_joins.ROWS_MIN)))
            patch.setattr(partial_read, "LEFT_OUT_MIN", chance.choice((0, partial_read.LEFT_OUT_MIN)))
            patch.setattr(percentile_values, "WHOLE_ROWS_MAX", chance.choice((0, percentile_values.WHOLE_ROWS_MAX)))
            patch.setattr(old_rows, "LEFT_OUT_EACH", 0)
            found_by_query = pool.map(lambda name: _check_histories(name, lab, tally), names[begin : begin + BATCH])
            done = [one for each in found_by_query for one in each]
            found = [one.problem for one in done if one.problem is not None]
            patch.setitem(gate.GATE_CONF, "spark.sql.shuffle.partitions", str(chance.randint(4, 6)))
            patch.setitem(gate.GATE_CONF, PLANNED, "0b")
            sizes = sizes_of(chance)
            well = [one for one in done if one.derivative is not None][::AGAIN_EVERY]
            found += filter(None, pool.map(_again, well, itertools.repeat(sizes)))
        yield from found
        anomalies += len(found)
        took = monotonic() - started
        print(
            f"{BEGIN * HISTORIES + tally.cases} of {len(names) * HISTORIES} cases, {took:.0f} s, {anomalies} anomalies",
            *found,
            sep="\n",
            flush=True,
        )


def _names() -> list[str]:
    if ONLY is not None:
        return ONLY.split(";")
    some = list(SHAPES)
    if CASES < 100:
        third = some[SEED % SHAPES_EVERY :: SHAPES_EVERY]
        some = third if "ODF_LAW_SEED" in os.environ else [*todays(third, parts=2)]
    shapes = [f"{name}:{SEED + number}" for number in range(max(1, CASES // 100)) for name in some]
    chance = Random(SEED)
    return [*shapes, *(f"composed:{chance.getrandbits(32)}" for _ in range(CASES))]


def test_laws_hold(lab: Lab) -> None:
    tally = Tally()
    problems = list(_problems(_names(), lab, tally))
    kinds = Counter(problem.split(": ")[1] for problem in problems)
    print(f"{tally}; {len(problems)} anomalies {dict(kinds)}")
    assert not problems, "\n\n".join([f"{len(problems)} of {tally.cases} cases", *problems])
