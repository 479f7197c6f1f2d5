"""State expiry: what leaves a state under a finite lateness, and when.

Owns the rules. The bound is an instant: rows of an input that were final then or before are not taken any more. Invariant: what
is removed can neither change what was given nor be looked at by a row that may still come, so results are the same before and
after a transaction whether it is there or not. Reach: rows that are in time may change what ended a little before the bound, for
a row in several windows is in time until the last of them closes. Not here: dropping rows (`late_data`), the states (`state`).
Source: docs/engine.md#lateness-and-state-expiry; docs/engine.md#steps-and-slicing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from odfabric_engine_spark.operators.expiry.delays import delay_of
from odfabric_engine_spark.operators.expiry.finality import InputInstant, instants_of_inputs
from odfabric_engine_spark.plan.partitioning.partition_keys import (
    IntervalJoinRows,
    SessionRows,
    StageScan,
    Subplan,
    TimeBoundedPart,
)
from odfabric_engine_spark.plan.partitioning.stages import GroupStage, RowsStage, Stage
from odfabric_engine_spark.plan.time.event_times import WINDOW_END, EventTimes
from odfabric_engine_spark.rows.row_expressions import RowExpressions
from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, Expression, Plan, children, items, simple_name


@dataclass(frozen=True, slots=True)
class SessionRule:
    """Removes a session once its end is `reach_us` before the bound.

    Its end is the instant at which its rows close.
    """

    scans: tuple[StageScan, ...]
    gap_us: int
    reach_us: int


@dataclass(frozen=True, slots=True)
class VersionRule:
    """A version is removed once a later one of its key is `reach_us` before the bound.

    `values` are its key, then whether it can be found at all.
    """

    scan: StageScan
    values: RowExpressions
    reach_us: int


@dataclass(slots=True)
class StageExpiry:
    """When rows of scans, or groups, of one stage are removed by their instant alone.

    The values say how long before the bound they must close.
    """

    groups_us: int | None = None
    rows_us: dict[StageScan, int] = field(default_factory=dict)
    sessions: list[SessionRule] = field(default_factory=list)
    versions: list[VersionRule] = field(default_factory=list)

    def rows_at(self, scans: Sequence[StageScan], reach_us: int) -> None:
        """Rows of scans that are removed by their instant.

        Of two reaches the longer one counts.
        """
        for scan in scans:
            self.rows_us[scan] = max(reach_us, self.rows_us.get(scan, reach_us))

    @property
    def anything(self) -> bool:
        return self.groups_us is not None or bool(self.rows_us or self.sessions or self.versions)


def state_expiry(
    catalyst: Catalyst,
    times: EventTimes,
    stages: Sequence[Stage],
    final_instants: Mapping[StageScan, Sequence[Expression]],
) -> dict[int, StageExpiry]:
    """By the number of a stage, for those that can remove.

    `final_instants` has the instants of each use of an input.
    """
    rules = _Rules(catalyst, times, stages, final_instants)
    found = {number: rules.of(stage) for number, stage in enumerate(stages)}
    return {number: each for number, each in found.items() if each.anything}


class _Rules:
    def __init__(
        self,
        catalyst: Catalyst,
        times: EventTimes,
        stages: Sequence[Stage],
        final_instants: Mapping[StageScan, Sequence[Expression]],
    ) -> None:
        self._catalyst = catalyst
        self._times = times
        self._stages = stages
        self._final_instants = final_instants

    def of(self, stage: Stage) -> StageExpiry:
        found = StageExpiry()
        if isinstance(stage, GroupStage):
            found.groups_us = self._of_groups(stage)
        elif isinstance(stage, RowsStage):
            for bounded_part in stage.bounded_parts:
                self._add_bounded_part(found, bounded_part)
            for subplan in stage.subplans:
                reach_us = self._reach(subplan.scans) if _ends_by_key(subplan) else None
                if reach_us is not None:
                    found.rows_at(subplan.scans, reach_us)
        return found

    def _of_groups(self, stage: GroupStage) -> int | None:
        if stage.window is None:
            return None
        window = items(stage.aggregate.groupingExpressions())[stage.window]
        inputs = [each for scan in stage.scans for each in self._inputs_of(scan)]
        end = self._catalyst.member(window, WINDOW_END)
        return self._reach_of(end, children(stage.aggregate)[0], inputs)

    def _add_bounded_part(self, found: StageExpiry, bounded_part: TimeBoundedPart) -> None:
        if isinstance(bounded_part, SessionRows):
            reach_us = self._reach(bounded_part.scans)
            if reach_us is not None:
                found.sessions.append(
                    SessionRule(bounded_part.scans, bounded_part.gap_us, reach_us + bounded_part.gap_us)
                )
        elif isinstance(bounded_part, IntervalJoinRows):
            self._add_interval_join(found, bounded_part)
        else:
            reach_us = self._reach((*bounded_part.rows, bounded_part.versions))
            if reach_us is not None:
                found.rows_at(bounded_part.rows, reach_us)
                values = RowExpressions.of(
                    self._catalyst,
                    bounded_part.versions.columns,
                    (
                        *bounded_part.keys,
                        self._catalyst.all_of(list(bounded_part.conditions) or [self._catalyst.literal_true()]),
                    ),
                )
                found.versions.append(VersionRule(bounded_part.versions, values, reach_us))

    def _add_interval_join(self, found: StageExpiry, bounded_part: IntervalJoinRows) -> None:
        """A row is needed while it, or a partner of it, is in time."""
        (left, right), (left_waits_us, right_waits_us) = bounded_part.sides, bounded_part.waits_us
        left_us, right_us = self._reach(left), self._reach(right)
        if left_us is None or right_us is None:
            return
        found.rows_at(left, max(left_us, right_us + right_waits_us))
        found.rows_at(right, max(right_us, left_us + left_waits_us))

    def _reach(self, scans: Sequence[StageScan]) -> int | None:
        """How long before the bound rows of scans may be final and yet in time.

        None if that is not known.
        """
        found = [
            self._reach_of(scan.ends[0], scan.plan, self._inputs_of(scan)) if scan.ends else None for scan in scans
        ]
        known = [each for each in found if each is not None]
        return max(known) if known and len(known) == len(found) else None

    def _reach_of(self, final: Expression, plan: Plan, inputs: Sequence[StageScan]) -> int | None:
        """Of rows of a plan that are final at an instant.

        `inputs` are the uses of inputs in it.
        """
        own: dict[StageScan, list[InputInstant]] = defaultdict(list)
        for found in instants_of_inputs(self._catalyst, final, plan, self._times):
            own[inputs[found.number]].append(found)
        reaches = [
            self._reach_at(own[scan], self._final_instants.get(scan, ())) if scan in own else None for scan in inputs
        ]
        known = [each for each in reaches if each is not None]
        return max(known) if known and len(known) == len(reaches) else None

    def _reach_at(self, own: Sequence[InputInstant], final_instants: Sequence[Expression]) -> int | None:
        """How much later than its least `own` instant an input row is final, at most."""
        if len(final_instants) == 1 and all(
            each.earlier_us == 0 and each.instant.semanticEquals(final_instants[0]) for each in own
        ):
            return 0
        firsts = [delay_of(self._catalyst, each.instant) for each in own]
        lasts = [delay_of(self._catalyst, each) for each in final_instants]
        if not lasts or None in firsts or None in lasts:
            return None
        most_us = max(each.most_us for each in lasts if each is not None)
        least_us = min(
            each.least_us - one.earlier_us for one, each in zip(own, firsts, strict=True) if each is not None
        )
        return max(most_us - least_us, 0)

    def _inputs_of(self, scan: StageScan) -> list[StageScan]:
        """The uses of inputs that make a scan's rows, from left to right."""
        if scan.kind == "stage":
            return [each for below in self._stages[int(scan.source)].scans for each in self._inputs_of(below)]
        return [scan] if scan.kind == "input" else []


def _ends_by_key(subplan: Subplan) -> bool:
    """Whether a key part is its rows' final instant, or a window ending then."""
    if subplan.wholes or any(len(scan.ends) != 1 for scan in subplan.scans):
        return False
    if subplan.components is None:
        return True  # each row is a key of its own
    return any(all(_is_end(scan.ends[0], each[scan]) for scan in subplan.scans) for each in subplan.components)


def _is_end(instant: Expression, key: Expression) -> bool:
    is_end = simple_name(instant) == "GetStructField" and instant.ordinal() == WINDOW_END
    return bool(instant.semanticEquals(key)) or (is_end and bool(instant.child().semanticEquals(key)))
