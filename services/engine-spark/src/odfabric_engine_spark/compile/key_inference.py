"""Key inference: cut a plan into the largest parts whose inputs share a key.

Owns the interpretation of every node of a normal plan over abstract values (`partition_keys`). Where no key survives, what is below
becomes a stage of its own, whose changes are the input of the rest. Invariant: a node that is not listed here is refused, so
no plan runs by a rule that nobody thought about. Source: docs/engine.md#keys-and-stages; docs/engine.md#where-naive-rules-are-wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from odfabric_engine_spark.compile.time_bounded_parts import bounded_parts_of, note_times_of_key
from odfabric_engine_spark.operators.bounded_window.bounded_frames import bounded_window
from odfabric_engine_spark.operators.cumulative_window.cumulative_frames import cumulative_window
from odfabric_engine_spark.operators.expiry.finality import is_temporal_join
from odfabric_engine_spark.operators.interval_join.side_finality import interval_join_rows
from odfabric_engine_spark.operators.session.session_gaps import session_rows
from odfabric_engine_spark.operators.temporal_join.version_finality import version_rows
from odfabric_engine_spark.operators.temporal_join.version_lookup import TemporalJoinSides
from odfabric_engine_spark.operators.top_n.top_n_scan import Ranking, ranking_of
from odfabric_engine_spark.operators.touched_keys.ordered_scan import OrderedRows, places_below
from odfabric_engine_spark.plan.aggregates.accumulable import can_accumulate
from odfabric_engine_spark.plan.input_tables import marked_scan, scan_alias
from odfabric_engine_spark.plan.join_keys import (
    JOINS,
    LEFT_KEPT,
    RIGHT_KEPT,
    EqualPair,
    equal_pairs,
    join_kind,
)
from odfabric_engine_spark.plan.joins.outer_interval_join import Bound, bounds_of_join
from odfabric_engine_spark.plan.partitioning.partition_keys import (
    Component,
    IntervalJoinRows,
    Node,
    StageScan,
    Subplan,
    TimeBoundedPart,
    Tracer,
    Value,
)
from odfabric_engine_spark.plan.partitioning.stages import GroupStage, LinearStage, RowsStage, Stage
from odfabric_engine_spark.plan.partitioning.storable_types import can_be_kept
from odfabric_engine_spark.plan.time.event_times import EventTimes
from odfabric_engine_spark.plan.time.timed_filters import TimedFilter, timed_filter
from odfabric_engine_spark.plan.time.tumbling_and_hopping_windows import is_session_window
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Attribute,
    Catalyst,
    Expression,
    Plan,
    children,
    expr_id,
    has_inner_plan,
    is_attribute,
    items,
    output_of,
    references,
    simple_name,
    without_alias,
)
from odfabric_engine_spark.sql.refusal import PLAIN_FORMS, Refused, refusal

_CONSTANTS = frozenset({"LocalRelation", "OneRowRelation", "Range"})

_Pair = tuple[EqualPair, Component | None, Component | None]


class Inference:
    """Interprets one plan; `stages` are cut off so far, `inputs` its uses of inputs."""

    def __init__(
        self, catalyst: Catalyst, times: EventTimes, *, limited: bool, copied: Collection[int] = frozenset()
    ) -> None:
        """`limited`: finite lateness; what ends by event time gets stages of its own.

        `copied` are columns of uses of inputs of which there are copies: each keeps the event time, by which all of them drop rows.
        """
        self.stages: list[Stage] = []
        self.inputs: list[StageScan] = []
        self._catalyst = catalyst
        self._tables = times.tables
        self._limited = times if limited else None
        self._copied = copied if limited else frozenset()
        self._rankings: dict[int, Ranking] = {}
        self._tracer = Tracer(catalyst)

    def run(self, plan: Plan) -> tuple[Stage, ...]:
        """The stages of a plan, its result last. Raises Refused."""
        node, value = self._of(plan)
        self._add_stage(node, value, tuple(output_of(plan)))
        return tuple(self.stages)

    def _of(self, plan: Plan, needed: Sequence[Attribute] | None = None) -> tuple[Node, Value]:
        """`needed` are the columns that are read of a scan, None for all."""
        name = simple_name(plan)
        alias = scan_alias(plan)
        if has_inner_plan(plan):
            raise Refused(
                [refusal("subquery", "this subquery cannot run incrementally", at=plan, hint="write it as a join")]
            )
        if alias is not None:
            return self._scan("input", alias, plan, needed)
        if name in _CONSTANTS:
            return self._scan("constant", name, self._with_a_column(plan), None)
        match name:
            case "Project":
                return self._project(plan)
            case "Filter":
                return self._filter(plan, needed)
            case "Generate":
                return self._generate(plan)
            case "Expand":
                return self._expand(plan)
            case "Aggregate":
                return self._aggregate(plan, None)
            case "Window":
                return self._window(plan)
            case "Union":
                return self._union(plan)
            case "Join" if join_kind(plan) in JOINS:
                return self._join(plan)
            case _:
                raise Refused([refusal("operator", f"{name} cannot run incrementally", at=plan, hint=PLAIN_FORMS)])

    def _scan(self, kind: str, source: str | int, plan: Plan, needed: Sequence[Attribute] | None) -> tuple[Node, Value]:
        wanted = None if needed is None else {expr_id(attribute) for attribute in needed}
        output = output_of(plan)
        if wanted is not None and kind == "input" and any(expr_id(each) in self._copied for each in output):
            event_time = self._tables[str(source)].vocabulary.event_time
            wanted |= {expr_id(each) for each in output if str(each.name()) == event_time}
        columns = tuple(each for each in output if wanted is None or expr_id(each) in wanted)
        if not columns:
            # Rows of which nothing is read are still counted, so one column is kept: one that a row and its withdrawal share.
            own = self._tables[str(source)].hidden if kind == "input" else frozenset()
            columns = (next((each for each in output if str(each.name()) not in own), output[0]),)
        scan = StageScan(kind, source, plan, columns)
        if kind == "input":
            self.inputs.append(scan)
        known: dict[int, Component] = {expr_id(attribute): {scan: attribute} for attribute in columns}
        return Node(plan, [], scan), Value([Subplan([scan], None)], known)

    def _with_a_column(self, plan: Plan) -> Plan:
        """A relation of constants with a column; SELECT without FROM has none."""
        if not plan.output().isEmpty():
            return plan
        one = self._catalyst.named(self._catalyst.literal_true(), "one")
        return self._catalyst.logical.Project(self._catalyst.seq([one]), plan)

    def _cut(self, node: Node, value: Value) -> tuple[Node, Value]:
        """What is below becomes a stage; what reads it sees a scan with the same columns."""
        if node.scan is not None and not node.scan.closes:
            return node, value
        self._add_stage(node, value, tuple(output_of(node.plan)))
        return self._scan("stage", len(self.stages) - 1, node.plan, None)

    def _add_stage(self, node: Node, value: Value, output: tuple[Attribute, ...]) -> None:
        if self._absorbed(node, output):
            return
        if self._limited is not None:
            for subplan in value.subplans:
                note_times_of_key(self._catalyst, self._limited, subplan)
        if value.free and not _closes(node):
            self.stages.append(LinearStage(self._plan_of(node), node.scans(), output))
        else:
            self.stages.append(
                RowsStage(self._plan_of(node), node.scans(), output, value.subplans, bounded_parts_of(node))
            )

    def _plan_of(self, node: Node) -> Plan:
        """The plan of a stage, a marked relation in the place of each scan."""
        if node.scan is not None:
            return marked_scan(self._catalyst, node.scan.columns)
        below = [self._plan_of(child) for child in node.children]
        return node.plan.withNewChildren(self._catalyst.seq(below))

    def _absorbed(self, node: Node, output: tuple[Attribute, ...]) -> bool:
        """Projections and filters of groups, put into the latest aggregate's stage."""
        above: list[Plan] = []
        while node.scan is None:
            if simple_name(node.plan) not in ("Project", "Filter") or timed_filter(node.plan) is not None:
                return False
            above.append(node.plan)
            node = node.children[0]
        stage = self.stages[-1] if self.stages and node.scan.source == len(self.stages) - 1 else None
        if node.scan.kind != "stage" or not isinstance(stage, GroupStage) or node.scan.closes:
            return False
        for plan in reversed(above):
            stage.above = plan.withNewChildren(self._catalyst.seq([stage.above]))
        stage.output = output
        return True

    def _project(self, plan: Plan) -> tuple[Node, Value]:
        (child,) = children(plan)
        named = items(plan.projectList())
        node, value = self._of(child, [column for each in named for column in references(each)])
        columns: dict[int, Component] = {}
        for each in named:
            found = self._tracer.column(each, value)
            if found is not None:
                columns[expr_id(each)] = found
        shown = {expr_id(each) for each in named if is_attribute(each)}
        carried = [
            (expression, component)
            for expression, component in value.carried
            if all(expr_id(column) in shown for column in references(expression))
        ]
        return Node(plan, [node]), Value(value.subplans, columns, carried)

    def _filter(self, plan: Plan, needed: Sequence[Attribute] | None) -> tuple[Node, Value]:
        (child,) = children(plan)
        self._note_ranks(plan)
        timed = timed_filter(plan)
        if timed is not None and simple_name(child) == "Aggregate" and timed.closes_groups(self._catalyst, child):
            return self._aggregate(child, timed)
        node, value = self._of(child, None if needed is None else [*needed, *references(plan.condition())])
        if timed is None:
            return Node(plan, [node]), value
        if not self._close(timed.instant, value):
            node, value = self._cut(node, value)
            self._close(timed.instant, value)
        return Node(plan, [node]), value

    def _close(self, instant: Expression, value: Value) -> bool:
        """Notes on the scans when their rows become final.

        False if some row cannot tell, or waits for something else already.
        """
        component = self._tracer.column(instant, value)
        if component is None:
            # A row without a partner, in which the instant is null, does not wait.
            component = self._tracer.column(instant, Value(value.subplans, value.partly))
        if component is None or any(scan.closes or _is_final_at_another(scan, component[scan]) for scan in component):
            return False
        for subplan in value.subplans:
            if not any(scan in component for scan in subplan.scans):
                return False
        for scan, expression in component.items():
            scan.closes.append(expression)
        return True

    def _generate(self, plan: Plan) -> tuple[Node, Value]:
        (child,) = children(plan)
        node, value = self._of(child)
        return Node(plan, [node]), Value(value.subplans, value.columns, value.carried)

    def _expand(self, plan: Plan) -> tuple[Node, Value]:
        """A row becomes several; what is the same in all of them is still known."""
        (child,) = children(plan)
        node, value = self._of(child)
        projections = [items(projection) for projection in items(plan.projections())]
        columns: dict[int, Component] = {}
        for position, attribute in enumerate(output_of(plan)):
            first = projections[0][position]
            if all(each[position].semanticEquals(first) for each in projections):
                found = self._tracer.column(first, value)
                if found is not None:
                    columns[expr_id(attribute)] = found
        return Node(plan, [node]), Value(value.subplans, columns)

    def _union(self, plan: Plan, *, mapped: bool = False) -> tuple[Node, Value]:
        """Branches keep their own keys; a column is known if it is in all of them.

        `mapped`: in each of them rows are mapped alone.
        """
        branches = children(plan)
        found = [self._of(child) for child in branches]
        found = [self._mapped(*each) for each in found] if mapped else found
        columns: dict[int, Component] = {}
        outputs = [output_of(child) for child in branches]
        for position, attribute in enumerate(output_of(plan)):
            parts = [
                value.columns.get(expr_id(output[position])) for (_, value), output in zip(found, outputs, strict=True)
            ]
            if all(part is not None for part in parts):
                columns[expr_id(attribute)] = {scan: over for part in parts for scan, over in (part or {}).items()}
        subplans = [subplan for _, value in found for subplan in value.subplans]
        return Node(plan, [node for node, _ in found]), Value(subplans, columns)

    def _aggregate(self, plan: Plan, timed: TimedFilter | None) -> tuple[Node, Value]:
        node, value = self._of(children(plan)[0])
        if self._accumulates(plan):
            return self._group_stage(plan, node, value, timed)
        by_sessions = timed is not None and any(map(is_session_window, items(plan.groupingExpressions())))
        if timed is not None and _closes(node):
            node, value = self._cut(node, value)
        elif by_sessions and self._limited is not None:
            node, value = self._mapped(node, value)
        grouping = items(plan.groupingExpressions())
        if timed is None and grouping and self._limited is None:
            node, value = self._ordered(node, value, ranking_of(self._catalyst, plan, ()))
        keys = [each for each in grouping if not is_session_window(each)]
        node, value, traced = self._keyed(node, value, keys)
        if timed is not None and not self._close(timed.below(self._catalyst, plan), value):
            node, value, traced = self._keyed(*self._cut(node, value), keys)
            self._close(timed.below(self._catalyst, plan), value)
        subplan = _joined(value, [component for _, component in traced], always=not grouping)
        columns: dict[int, Component] = {}
        for named in items(plan.aggregateExpressions()):
            found = self._of_keys(named, traced, subplan)
            if found is not None:
                columns[expr_id(named)] = found
        own = Node(plan, [node])
        if timed is not None:
            own = Node(timed.plan, [own])
        if timed is not None and by_sessions and self._limited is not None:
            own.bounded_part = session_rows(self._catalyst, timed, Value([subplan], {}))
        return own, Value([subplan], columns)

    def _accumulates(self, plan: Plan) -> bool:
        """Whether an aggregate keeps statistics of its groups instead of rows."""
        return can_accumulate(plan)

    def _group_stage(self, plan: Plan, node: Node, value: Value, timed: TimedFilter | None) -> tuple[Node, Value]:
        if not value.free or _closes(node):
            node, value = self._cut(node, value)
        window = None if timed is None else timed.position_of_window(self._catalyst, plan)
        always = plan.groupingExpressions().isEmpty()
        output = tuple(output_of(plan))
        self.stages.append(GroupStage(self._plan_of(node), node.scans(), plan, plan, output, window, always))
        return self._scan("stage", len(self.stages) - 1, plan, None)

    def _window(self, plan: Plan) -> tuple[Node, Value]:
        (below,) = children(plan)
        joins_versions = self._limited is not None and is_temporal_join(plan)
        node, value, bounded_part = self._looked_up(plan, below) if joins_versions else (*self._of(below), None)
        ranking = self._rankings.get(expr_id(items(plan.windowExpressions())[0]))
        if self._limited is None:
            node, value = self._ordered(node, value, ranking or bounded_window(plan) or cumulative_window(plan))
        sides = TemporalJoinSides(self._catalyst, plan, node, value) if is_temporal_join(plan) else None
        node, value, traced = self._keyed(node, value, items(plan.partitionSpec()))
        if sides is not None and node is sides.below:
            sides.note()
        columns = dict(value.columns)
        for key, component in traced:
            if is_attribute(key):
                columns[expr_id(key)] = component
        subplan = _joined(value, [component for _, component in traced], always=False)
        return Node(plan, [node], bounded_part=bounded_part if node.scan is None else None), Value([subplan], columns)

    def _note_ranks(self, plan: Plan) -> None:
        """Notes the window below a filter if it takes only its first rows.

        Of rows that come only so late it is known what they need.
        """
        above: list[Plan] = []
        while simple_name(plan) in ("Filter", "Project"):
            above.append(plan)
            (plan,) = children(plan)
        ranking = ranking_of(self._catalyst, plan, above) if simple_name(plan) == "Window" else None
        if self._limited is None and ranking is not None:
            self._rankings[expr_id(items(plan.windowExpressions())[0])] = ranking

    def _ordered(self, node: Node, value: Value, rows: OrderedRows | None) -> tuple[Node, Value]:
        """Rows of which but few are looked at.

        Those that are mapped alone become a scan, whose state can be in the order of these.
        """
        if rows is None or not value.free or not rows.can_read:
            return node, value
        between: list[Plan] = []
        below = node
        while len(below.children) == 1:
            between.append(below.plan)
            (below,) = below.children
        places = (
            None
            if below.scan is None
            else places_below(self._catalyst, between, below.scan.columns, must_not_fail=rows.hides_rows)
        )
        if places is not None and rows.reads(places):
            return node, value
        return self._cut(node, value) if can_be_kept(output_of(node.plan)) else (node, value)

    def _looked_up(self, plan: Plan, below: Plan) -> tuple[Node, Value, TimeBoundedPart | None]:
        """The union of rows and versions below a temporal join, perhaps projected."""
        if simple_name(below) == "Project":
            node, value, bounded_part = self._looked_up(plan, children(below)[0])
            return Node(below, [node]), value, bounded_part
        if simple_name(below) != "Union":
            return (*self._of(below), None)
        node, value = self._union(below, mapped=True)
        return node, value, version_rows(self._catalyst, plan, node, value)

    def _keyed(
        self, node: Node, value: Value, keys: Sequence[Expression]
    ) -> tuple[Node, Value, list[tuple[Expression, Component]]]:
        """The keys that survive below an operator over whole groups of rows.

        If none does, what is below is cut off.
        """
        if self._limited is not None and bounded_parts_of(node):
            node, value = self._cut(node, value)
        traced = self._traced(keys, value)
        if not traced and (keys or not value.free):
            node, value = self._cut(node, value)
            traced = self._traced(keys, value)
        for scan in value.scans:
            scan.linear = False
        return node, value, traced

    def _traced(self, keys: Sequence[Expression], value: Value) -> list[tuple[Expression, Component]]:
        found = ((key, self._tracer.key(key, value)) for key in keys)
        return [(key, component) for key, component in found if component is not None]

    def _of_keys(
        self, named: Expression, traced: Sequence[tuple[Expression, Component]], subplan: Subplan
    ) -> Component | None:
        """A result that is made of keys alone."""
        expression = without_alias(named)
        found = {scan: self._rewritten(expression, traced, scan) for scan in subplan.scans}
        if not references(expression) or any(each is None for each in found.values()):
            return None
        return {scan: each for scan, each in found.items() if each is not None}

    def _rewritten(
        self, expression: Expression, traced: Sequence[tuple[Expression, Component]], scan: StageScan
    ) -> Expression | None:
        for key, component in traced:
            if expression.semanticEquals(key):
                return component[scan]
        if is_attribute(expression) or simple_name(expression) == "AggregateExpression":
            return None  # what a function makes of many rows is no key of one, also where its argument is one
        below = children(expression)
        if not below:
            return expression
        replaced = [self._rewritten(child, traced, scan) for child in below]
        if any(each is None for each in replaced):
            return None
        return expression.withNewChildren(self._catalyst.seq(replaced))

    def _join(self, plan: Plan) -> tuple[Node, Value]:
        left, right = (self._of(child) for child in children(plan))
        if self._limited is None:
            return self._sides_joined(plan, left, right, None)
        bounds = bounds_of_join(self._catalyst, plan, self._limited)
        if bounds is None:
            return self._sides_joined(plan, self._apart(*left), self._apart(*right), None)
        return self._sides_joined(plan, self._mapped(*left), self._mapped(*right), bounds)

    def _apart(self, node: Node, value: Value) -> tuple[Node, Value]:
        """A time-bounded part keeps its stage for itself."""
        return self._cut(node, value) if bounded_parts_of(node) else (node, value)

    def _mapped(self, node: Node, value: Value) -> tuple[Node, Value]:
        """A relation of which each row is mapped alone in this stage."""
        return (node, value) if value.free else self._cut(node, value)

    def _sides_joined(
        self,
        plan: Plan,
        left_side: tuple[Node, Value],
        right_side: tuple[Node, Value],
        bounds: tuple[Bound, Bound] | None,
    ) -> tuple[Node, Value]:
        kind = join_kind(plan)
        (left, left_value), (right, right_value) = left_side, right_side
        pairs = equal_pairs(plan)
        traced = self._pairs(pairs, left_value, right_value)
        if not _whole(traced) and pairs:
            if not any(own for _, own, _ in traced):
                left, left_value = self._cut(left, left_value)
            if not any(own for _, _, own in self._pairs(pairs, left_value, right_value)):
                right, right_value = self._cut(right, right_value)
            traced = self._pairs(pairs, left_value, right_value)
            if not _whole(traced):
                left, left_value = self._cut(left, left_value)
                right, right_value = self._cut(right, right_value)
                traced = self._pairs(pairs, left_value, right_value)
        mark_linear(kind, left_value, right_value)
        whole = _whole(traced)
        if not whole:
            return self._join_without_key(plan, (left, left_value), (right, right_value), bounds)
        components = [{**one, **other} for _, one, other in whole]
        subplans = [*left_value.subplans, *right_value.subplans]
        subplan = _joined(Value(subplans, {}), components, always=False)
        if self._limited is None:
            subplan.matched = tuple(
                at for at, each in enumerate(components) if not whole[at][0].of_nulls and is_matched(each, subplans)
            )
        columns: dict[int, Component] = {}
        if kind in LEFT_KEPT:
            columns.update(left_value.columns)
        if kind in RIGHT_KEPT:
            columns.update(right_value.columns)
        carried: list[tuple[Expression, Component]] = []
        for (pair, _, _), component in zip(whole, components, strict=True):
            carried += self.carried_keys(kind, pair, component, columns)
        bounded_part = self._bounded_part(bounds, left_value, right_value)
        partly = {**left_value.columns, **right_value.columns}
        return Node(plan, [left, right], bounded_part=bounded_part), Value([subplan], columns, carried, partly)

    def _bounded_part(self, bounds: tuple[Bound, Bound] | None, left: Value, right: Value) -> IntervalJoinRows | None:
        return None if bounds is None else interval_join_rows(self._tracer, bounds, left, right)

    def _pairs(self, pairs: Sequence[EqualPair], left: Value, right: Value) -> list[_Pair]:
        comparable = [pair for pair in pairs if can_be_compared(pair)]
        return [(pair, self._tracer.key(pair.left, left), self._tracer.key(pair.right, right)) for pair in comparable]

    def carried_keys(
        self, kind: str, pair: EqualPair, component: Component, columns: dict[int, Component]
    ) -> list[tuple[Expression, Component]]:
        """Expressions over the result that have the key's value."""
        kept = [side for side, kinds in ((pair.left, LEFT_KEPT), (pair.right, RIGHT_KEPT)) if kind in kinds]
        for side in kept:
            if is_attribute(side):
                columns[expr_id(side)] = component
        if kind == "FullOuter" and is_attribute(pair.left) and is_attribute(pair.right):
            # Of plain columns only: any other expression may have a value for a row that is all nulls.
            make = self._catalyst.expressions.Coalesce
            sides = [pair.left, pair.right]
            return [(make(self._catalyst.seq(order)), component) for order in (sides, sides[::-1])]
        return [(side, component) for side in kept]

    def _join_without_key(
        self,
        plan: Plan,
        left: tuple[Node, Value],
        right: tuple[Node, Value],
        bounds: tuple[Bound, Bound] | None,
    ) -> tuple[Node, Value]:
        """A join without key: one side is kept whole, the other side keeps its keys."""
        kind = join_kind(plan)
        if kind == "FullOuter":
            value = Value([*left[1].subplans, *right[1].subplans], {})
            # Of a side that has a row without any input there is one, whether it meets another or not.
            always = any(subplan.always for subplan in value.subplans)
            bounded_part = self._bounded_part(bounds, left[1], right[1])
            partly = {**left[1].columns, **right[1].columns}
            subplan = _joined(value, [], always=always)
            return Node(plan, [left[0], right[0]], bounded_part=bounded_part), Value([subplan], {}, partly=partly)
        kept, other = (left, right) if kind in LEFT_KEPT else (right, left)
        node, value = self._cut(*other)
        wholes = node.scans()
        for scan in wholes:
            scan.whole = True
        subplans = [
            Subplan(subplan.scans, subplan.components, [*subplan.wholes, *wholes], subplan.always, subplan.matched)
            for subplan in kept[1].subplans
        ]
        sides = [(kept[0], kept[1]), (node, value)] if kind in LEFT_KEPT else [(node, value), (kept[0], kept[1])]
        bounded_part = self._bounded_part(bounds, *(value for _, value in sides))
        return Node(plan, [side for side, _ in sides], bounded_part=bounded_part), Value(
            subplans, kept[1].columns, kept[1].carried
        )


def can_be_compared(pair: EqualPair) -> bool:
    """Both sides of an equality have one type, so equal values have equal bytes."""
    return bool(pair.left.dataType().sameType(pair.right.dataType()))


def _joined(value: Value, components: list[Component], *, always: bool) -> Subplan:
    """One subplan of all scans, under the given keys."""
    wholes = [scan for subplan in value.subplans for scan in subplan.wholes]
    return Subplan(value.scans, components, wholes, always)


def _whole(traced: Sequence[_Pair]) -> list[tuple[EqualPair, Component, Component]]:
    return [(pair, one, other) for pair, one, other in traced if one is not None and other is not None]


def is_matched(component: Component, subplans: Sequence[Subplan]) -> bool:
    """Whether rows in which it is null meet none below either.

    Each is mapped alone there, or is matched by the same.
    """
    return all(
        subplan.components is None
        or any(
            all(subplan.components[at][scan].semanticEquals(component[scan]) for scan in subplan.scans)
            for at in subplan.matched
        )
        for subplan in subplans
    )


def mark_linear(kind: str, left: Value, right: Value) -> None:
    """Mark sides whose rows are not mapped one by one.

    A row may be shown though it meets none, or hidden because it does.
    """
    for value, alone in ((left, kind in LEFT_KEPT), (right, kind in RIGHT_KEPT)):
        if not alone:
            for scan in value.scans:
                scan.linear = False


def _is_final_at_another(scan: StageScan, instant: Expression) -> bool:
    """Whether a state keeps another final instant with the rows already.

    A row may have partners for longer than it waits for a version.
    """
    return scan.final is not None and not scan.final.semanticEquals(instant)


def _closes(node: Node) -> bool:
    return any(scan.closes for scan in node.scans())
