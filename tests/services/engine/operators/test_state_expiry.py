"""State expiry changes nothing.

Random queries under a finite lateness run with what they may remove and with all rows kept.

`ODF_FORGET_CASES` says how many compositions run (default 6) beside each eighth named shape; `ODF_FORGET_SEED` moves
them to other numbers, `ODF_FORGET_ONLY` runs one, such as `composed:123`. What is dropped is the same in both runs; that it is the
right thing is for `test_lateness` to say.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

import pyarrow as pa
import pytest

from odfabric.errors import InvalidQuery
from odfabric.model.metadata import TemporalTable
from odfabric_engine_spark.operators.expiry import late_data
from odfabric_engine_spark.spark.calls.plan_cache import KeptPlans
from tests.services.engine.laws.general_check import inputs_of
from tests.services.engine.laws.grammar.general_cases import GeneralCase
from tests.services.engine.laws.law_check import Lab, exact, own_lab
from tests.services.engine.laws.shapes.general_shapes import SHAPES
from tests.services.engine.laws.test_general_laws import case_named
from tests.services.engine.transforming import CT, HOUR, A, Derivative, Input, Transaction, input_schema
from tests.support.turns import todays

pytestmark = [pytest.mark.spark, pytest.mark.timeout(0)]

CASES = int(os.environ.get("ODF_FORGET_CASES", "6"))
SEED = int(os.environ.get("ODF_FORGET_SEED", "0"))
ONLY = os.environ.get("ODF_FORGET_ONLY")
SHAPES_EVERY = 1 if CASES >= 100 else 8
"""Of so many shapes one is run."""


@dataclass
class Tally:
    """Counts of queries by what they have to remove.

    `expired` counts queries that have something to remove, `refused` those in which nothing ends.
    """

    expired: int = 0
    kept_all: int = 0
    refused: int = 0
    dropped: int = 0
    operators: Counter[str] = field(default_factory=Counter)
    """Of queries that have something to remove."""


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
    expiring: list[bool] = []
    rules_of = late_data.state_expiry

    def known(*given: object) -> object:
        rules = rules_of(*given)  # type: ignore[arg-type]
        expiring.append(bool(rules))
        return rules

    patch.setattr(late_data, "state_expiry", known)
    try:
        state_expiry = _pulled(_derivative(case, minutes, own_lab(lab)), case)
    except InvalidQuery as refused:
        if refused.place is None or refused.place.rule != "hint":
            raise
        tally.refused += 1
        return
    patch.setattr(late_data, "state_expiry", lambda *_: {})
    keeping = _pulled(_derivative(case, minutes, own_lab(lab)), case)
    for one, other in zip(state_expiry, keeping, strict=True):
        assert exact(one.records) == exact(other.records), f"{name}, {minutes} minutes\n{case}"
        assert one.result == other.result, f"{name}, {minutes} minutes\n{case}"
    tally.dropped += sum(one.result.late_rows_dropped for one in state_expiry)
    tally.expired += any(expiring)
    tally.kept_all += not any(expiring)
    if any(expiring):
        tally.operators.update(case.query.operators)


SCHEMA = input_schema(pa.field("k", pa.string()), pa.field("v", pa.int32()))
MINUTE = HOUR // 60
VERSIONS_OF_D = (TemporalTable(name="d", primary_key=("k",)),)
VERSION = "(select v from d where d.k = s.k and d.event_time <= s.event_time order by d.event_time desc limit 1)"
LATEST = "(select * from (select event_time, k, v, row_number() over (partition by k order by event_time desc) p from a) where p = 1)"
Feed = tuple[str, list[tuple[int, int, str, int]], int]
"""An input, rows that it gets, and its watermark then."""


def _sessions(bound: str) -> str:
    return (
        f"(select session_window.{bound} as event_time, k, count(*) n from a"
        " group by session_window(event_time, '40 minutes'), k)"
    )


LONG_SESSION: list[Feed] = [("a", [(A, half * HOUR // 2, "y", 1)], half * HOUR // 2) for half in range(1, 13)]
OLD_AND_NEW: list[Feed] = [
    ("a", [(A, 0, "x", 1), (A, 1, "y", 1)], 0),
    ("a", [], 10 * HOUR),
    ("a", [(A, 10 * HOUR, "x", 2)], 12 * HOUR),
    ("a", [], 20 * HOUR),
]


def _beside(feeds: list[Feed], alias: str, *, versions: bool) -> list[Feed]:
    """After each feed one of another input, whose watermark is as far."""
    found: list[Feed] = []
    for number, (own, rows, watermark) in enumerate(feeds):
        version = [(A, watermark + 1, "y", 100 + number)] if versions else []
        found += [(own, rows, watermark), (alias, version, watermark + 2)]
    return found


FAR_REACHING: dict[str, tuple[str, tuple[TemporalTable, ...], list[Feed]]] = {
    "the latest row of a key, by the hour": (
        f"select window.start as event_time, count(*) n from {LATEST} group by window(event_time, '1 hour')",
        (),
        OLD_AND_NEW,
    ),
    "the next row, by the hour": (
        "select window.start as event_time, median(distinct l) n from (select event_time, k, lead(v) over (partition by k order by event_time) l"
        " from a) group by window(event_time, '1 hour')",
        (),
        OLD_AND_NEW,
    ),
    "sessions of latest rows": (
        f"select session_window.start as event_time, k, count(*) n from {LATEST} group by session_window(event_time, '40 minutes'), k",
        (),
        OLD_AND_NEW,
    ),
    "hours of starts of sessions": (
        f"select window.start as event_time, count(*) n from {_sessions('start')} group by window(event_time, '1 hour')",
        (),
        [("a", [(A, 10 * MINUTE, "x", 1), (A, 20 * MINUTE, "y", 1)], 0), *LONG_SESSION, ("a", [], 20 * HOUR)],
    ),
    "versions at starts of sessions": (
        f"select s.event_time, s.k, s.n, i.v from {_sessions('start')} s left join lateral {VERSION} i on true",
        VERSIONS_OF_D,
        [
            ("d", [(A, 0, "y", 7)], 0),
            ("a", [(A, 20 * MINUTE, "y", 1)], 0),
            *_beside(LONG_SESSION, "d", versions=True),
            ("a", [], 20 * HOUR),
            ("d", [], 20 * HOUR),
        ],
    ),
    "pairs with starts of sessions": (
        f"select s.event_time, s.k, s.n, d.v from {_sessions('start')} s join d on d.k = s.k"
        " and d.event_time between s.event_time and s.event_time + interval '1' hour",
        (),
        [
            ("d", [(A, 30 * MINUTE, "y", 7)], 0),
            ("a", [(A, 20 * MINUTE, "y", 1)], 0),
            *_beside(LONG_SESSION, "d", versions=False),
            ("a", [], 20 * HOUR),
            ("d", [], 20 * HOUR),
        ],
    ),
    "versions at ends of sessions": (
        f"select s.event_time, s.k, s.n, i.v from {_sessions('end')} s left join lateral {VERSION} i on true",
        VERSIONS_OF_D,
        [
            ("a", [(A, 0, "y", 1)], 0),
            ("d", [(A, 0, "y", 7)], 105 * MINUTE),
            ("a", [], 105 * MINUTE),
            ("a", [(A, 30 * MINUTE, "y", 2)], 105 * MINUTE),
            ("a", [], 20 * HOUR),
            ("d", [], 20 * HOUR),
        ],
    ),
    "ten minutes of ends of sessions": (
        f"select window.start as event_time, count(*) n, sum(n) s from {_sessions('end')} group by window(event_time, '10 minutes')",
        (),
        [
            ("a", [(A, 0, "y", 1), (A, 1, "z", 1)], 0),
            ("a", [], 125 * MINUTE),
            ("a", [(A, 30 * MINUTE, "y", 2)], 125 * MINUTE),
            ("a", [], 20 * HOUR),
        ],
    ),
    "versions at pairs": (
        "select s.event_time, s.k, s.v, s.partner, i.v as version from (select a.event_time, a.k, a.v, e.v as partner from a join e"
        " on a.k = e.k and e.event_time between a.event_time - interval '30' minutes and a.event_time + interval '1' hour) s"
        f" left join lateral {VERSION} i on true",
        VERSIONS_OF_D,
        [
            ("a", [(A, 0, "y", 1)], 0),
            ("d", [(A, 0, "y", 5)], 0),
            ("e", [], 0),
            *((alias, [], 130 * MINUTE) for alias in "ade"),
            ("e", [(A, 50 * MINUTE, "y", 3)], 130 * MINUTE),
            *((alias, [], 30 * HOUR) for alias in "ade"),
        ],
    ),
}
"""Where a row in time changes what has long ended, by a query, its temporal tables, and what its inputs get."""


def _fed(name: str, lab: Lab) -> tuple[Counter[tuple[object, ...]], int]:
    """The rows that are there in the end, and how many came too late."""
    sql, lookups, feeds = FAR_REACHING[name]
    inputs = {alias: Input(lab.folder, alias, SCHEMA, at + 1) for at, alias in enumerate(sorted({f[0] for f in feeds}))}
    limited = sql.replace("select", "select /*+ lateness('1 hour') */", 1)
    call = replace(lab.call, plans=KeptPlans())
    derived = Derivative(limited, list(inputs.values()), call, temporal_tables=lookups)
    for at, (alias, rows, watermark) in enumerate(feeds):
        inputs[alias].add(rows, watermark=watermark, at=at)
        derived.pull()
    found: Counter[tuple[object, ...]] = Counter()
    for transaction in derived.transactions:
        for op, *row in transaction.records:
            found[tuple(row)] += 1 if op in (A, CT) else -1
    left = Counter({row: count for row, count in found.items() if count})
    return left, sum(each.result.late_rows_dropped for each in derived.transactions)


@pytest.mark.parametrize("name", todays([*FAR_REACHING], parts=2))
def test_what_a_row_in_time_can_change_is_kept(name: str, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    state_expiry = _fed(name, own_lab(lab))
    monkeypatch.setattr(late_data, "state_expiry", lambda *_: {})
    assert state_expiry == _fed(name, own_lab(lab))
    assert state_expiry[0]


def test_state_expiry_changes_nothing(lab: Lab) -> None:
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
    assert ONLY is not None or (tally.expired and tally.dropped)
