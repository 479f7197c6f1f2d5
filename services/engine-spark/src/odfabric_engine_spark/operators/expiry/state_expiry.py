"""What a stage may forget under a finite lateness, and when.

Owns the rules. The bound is an instant: rows of an input that were final then or before are not taken any more. Invariant: what
is forgotten can neither change what was given nor be looked at by a row that may still come, so results are the same before and
after a transaction whether it is there or not. Reach: rows that are in time may change what ended a little before the bound, for
a row in several windows is in time until the last of them closes. Not here: dropping rows (`late_data`), the states (`state`).
Source: rulings on steps and on lateness.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from odfabric_engine_spark.operators.expiry.delays import delay_of
from odfabric_engine_spark.operators.expiry.finality import InputInstant, instants_of_inputs
from odfabric_engine_spark.plan.partitioning.partition_keys import Core, Island, PartnerRows, SessionRows, StageLeaf
from odfabric_engine_spark.plan.partitioning.stages import GroupStage, RowsStage, Stage
from odfabric_engine_spark.plan.time.event_times import WINDOW_END, EventTimes
from odfabric_engine_spark.rows.row_expressions import RowExpressions
from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, Expression, Plan, children, items, simple_name


@dataclass(frozen=True, slots=True)
class SessionRule:
    """A session is forgotten once its end, which its rows close at, is `reach_us` before the bound."""

    leaves: tuple[StageLeaf, ...]
    gap_us: int
    reach_us: int


@dataclass(frozen=True, slots=True)
class VersionRule:
    """A version is forgotten once a later one of its key is `reach_us` before the bound.

    `values` are its key, then whether it can be found at all.
    """

    leaf: StageLeaf
    values: RowExpressions
    reach_us: int


@dataclass(slots=True)
class StageForgets:
    """Of one stage: how long before the bound rows of leaves, or groups, must close to be forgotten by that alone."""

    groups_us: int | None = None
    rows_us: dict[StageLeaf, int] = field(default_factory=dict)
    sessions: list[SessionRule] = field(default_factory=list)
    versions: list[VersionRule] = field(default_factory=list)

    def rows_at(self, leaves: Sequence[StageLeaf], reach_us: int) -> None:
        """Rows of leaves that are forgotten by their instant; of two reaches the longer one counts."""
        for leaf in leaves:
            self.rows_us[leaf] = max(reach_us, self.rows_us.get(leaf, reach_us))

    @property
    def anything(self) -> bool:
        return self.groups_us is not None or bool(self.rows_us or self.sessions or self.versions)


def forgetting(
    catalyst: Catalyst,
    times: EventTimes,
    stages: Sequence[Stage],
    closings: Mapping[StageLeaf, Sequence[Expression]],
) -> dict[int, StageForgets]:
    """By the number of a stage, for those that can forget; `closings` has the instants of each use of an input."""
    rules = _Rules(catalyst, times, stages, closings)
    found = {number: rules.of(stage) for number, stage in enumerate(stages)}
    return {number: each for number, each in found.items() if each.anything}


class _Rules:
    def __init__(
        self,
        catalyst: Catalyst,
        times: EventTimes,
        stages: Sequence[Stage],
        closings: Mapping[StageLeaf, Sequence[Expression]],
    ) -> None:
        self._catalyst = catalyst
        self._times = times
        self._stages = stages
        self._closings = closings

    def of(self, stage: Stage) -> StageForgets:
        found = StageForgets()
        if isinstance(stage, GroupStage):
            found.groups_us = self._of_groups(stage)
        elif isinstance(stage, RowsStage):
            for core in stage.cores:
                self._add_core(found, core)
            for island in stage.islands:
                reach_us = self._reach(island.leaves) if _ends_by_key(island) else None
                if reach_us is not None:
                    found.rows_at(island.leaves, reach_us)
        return found

    def _of_groups(self, stage: GroupStage) -> int | None:
        if stage.window is None:
            return None
        window = items(stage.aggregate.groupingExpressions())[stage.window]
        inputs = [each for leaf in stage.leaves for each in self._inputs_of(leaf)]
        end = self._catalyst.member(window, WINDOW_END)
        return self._reach_of(end, children(stage.aggregate)[0], inputs)

    def _add_core(self, found: StageForgets, core: Core) -> None:
        if isinstance(core, SessionRows):
            reach_us = self._reach(core.leaves)
            if reach_us is not None:
                found.sessions.append(SessionRule(core.leaves, core.gap_us, reach_us + core.gap_us))
        elif isinstance(core, PartnerRows):
            self._add_partners(found, core)
        else:
            reach_us = self._reach((*core.rows, core.versions))
            if reach_us is not None:
                found.rows_at(core.rows, reach_us)
                values = RowExpressions.of(
                    self._catalyst,
                    core.versions.columns,
                    (*core.keys, self._catalyst.all_of(list(core.conditions) or [self._catalyst.literal_true()])),
                )
                found.versions.append(VersionRule(core.versions, values, reach_us))

    def _add_partners(self, found: StageForgets, core: PartnerRows) -> None:
        """A row is needed while it, or a partner of it, is in time."""
        (left, right), (left_waits_us, right_waits_us) = core.sides, core.waits_us
        left_us, right_us = self._reach(left), self._reach(right)
        if left_us is None or right_us is None:
            return
        found.rows_at(left, max(left_us, right_us + right_waits_us))
        found.rows_at(right, max(right_us, left_us + left_waits_us))

    def _reach(self, leaves: Sequence[StageLeaf]) -> int | None:
        """How long before the bound rows of leaves may be final and yet in time; None if that is not known."""
        found = [
            self._reach_of(leaf.ends[0], leaf.plan, self._inputs_of(leaf)) if leaf.ends else None for leaf in leaves
        ]
        known = [each for each in found if each is not None]
        return max(known) if known and len(known) == len(found) else None

    def _reach_of(self, final: Expression, plan: Plan, inputs: Sequence[StageLeaf]) -> int | None:
        """Of rows of a plan that are final at an instant; `inputs` are the uses of inputs in it."""
        own: dict[StageLeaf, list[InputInstant]] = defaultdict(list)
        for found in instants_of_inputs(self._catalyst, final, plan, self._times):
            own[inputs[found.number]].append(found)
        reaches = [self._reach_at(own[leaf], self._closings.get(leaf, ())) if leaf in own else None for leaf in inputs]
        known = [each for each in reaches if each is not None]
        return max(known) if known and len(known) == len(reaches) else None

    def _reach_at(self, own: Sequence[InputInstant], closings: Sequence[Expression]) -> int | None:
        """How much later than the least of its `own` instants a row of an input is final at most."""
        if len(closings) == 1 and all(
            each.earlier_us == 0 and each.instant.semanticEquals(closings[0]) for each in own
        ):
            return 0
        firsts = [delay_of(self._catalyst, each.instant) for each in own]
        lasts = [delay_of(self._catalyst, each) for each in closings]
        if not lasts or None in firsts or None in lasts:
            return None
        most_us = max(each.most_us for each in lasts if each is not None)
        least_us = min(
            each.least_us - one.earlier_us for one, each in zip(own, firsts, strict=True) if each is not None
        )
        return max(most_us - least_us, 0)

    def _inputs_of(self, leaf: StageLeaf) -> list[StageLeaf]:
        """The uses of inputs that make a leaf's rows, from left to right."""
        if leaf.kind == "stage":
            return [each for below in self._stages[int(leaf.source)].leaves for each in self._inputs_of(below)]
        return [leaf] if leaf.kind == "input" else []


def _ends_by_key(island: Island) -> bool:
    """Whether some part of the key is the instant at which its rows are final, or the window that ends then."""
    if island.wholes or any(len(leaf.ends) != 1 for leaf in island.leaves):
        return False
    if island.components is None:
        return True  # each row is a key of its own
    return any(all(_is_end(leaf.ends[0], each[leaf]) for leaf in island.leaves) for each in island.components)


def _is_end(instant: Expression, key: Expression) -> bool:
    is_end = simple_name(instant) == "GetStructField" and instant.ordinal() == WINDOW_END
    return bool(instant.semanticEquals(key)) or (is_end and bool(instant.child().semanticEquals(key)))
