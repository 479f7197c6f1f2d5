"""Texts with a time but no day, which Spark would give the day of the run.

Owns the guard around each cast of a text to TIMESTAMP. Invariant: the result of a plan with guards does not depend on the day. A text
without a day is no timestamp there: a cast fails as for any text that is none, `try_cast` gives null. Functions that ask only for the
time of day take such texts as Spark does. Not here: constants (`sql.constants.current_time_texts`). Source:
docs/engine.md#what-sql-may-run; docs/engine.md#the-law-of-transforms.
"""

from __future__ import annotations

from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    children,
    simple_name,
    walk_expression,
)
from odfabric_engine_spark.spark.catalyst.plan_rebuild import (
    map_expression,
    map_expressions,
    map_inner_plans,
    with_children,
)
from odfabric_engine_spark.spark.catalyst.sql_templates import from_template
from odfabric_engine_spark.sql.constants.current_time_texts import TIME_OF_DAY

_PATTERNS = ("CAST", "RUNTIME_REPLACEABLE")
_OF_DAY = frozenset({"Hour", "Minute", "Second", "SecondWithFraction"})
"""Functions of which the day of their argument is no part."""
_GUARD = f"if(rlike(text, '^{TIME_OF_DAY}'), concat('without a day: ', text), text)"


def with_days(catalyst: Catalyst, plan: Plan) -> Plan:
    """An analysed plan whose timestamps from texts have the day of the text."""
    return _Guards(catalyst).plan(plan)


class _Guards:
    """Sets guards into plans."""

    def __init__(self, catalyst: Catalyst) -> None:
        self._catalyst = catalyst
        patterns = catalyst.companion("org.apache.spark.sql.catalyst.trees.TreePattern")
        self._patterns = [getattr(patterns, name)() for name in _PATTERNS]

    def plan(self, plan: Plan) -> Plan:
        """A plan with all its guards."""
        if not any(plan.containsPattern(pattern) for pattern in self._patterns):
            return plan
        node = with_children(self._catalyst, plan, [self.plan(child) for child in children(plan)])
        node = map_expressions(self._catalyst, node, self._guarded)
        return map_inner_plans(self._catalyst, node, lambda _, inside: self.plan(inside))

    def _guarded(self, part: Expression) -> Expression | None:
        """What a part becomes; None if it is for its parts to change."""
        name = simple_name(part)
        if name in _OF_DAY:
            (value,) = children(part)
            return part.withNewChildren(self._catalyst.seq([self._bare(value)])) if _reads_text(value) else None
        if _reads_text(part):
            cast = self._bare(part)
            (text,) = children(cast)
            guarded = from_template(self._catalyst, _GUARD, {"text": text})
            return cast.withNewChildren(self._catalyst.seq([guarded]))
        if self._catalyst.is_replaceable(part):
            replacement = part.replacement()
            if _casts(replacement) > sum(map(_casts, children(part))):
                return map_expression(self._catalyst, replacement, self._guarded)
        return None

    def _bare(self, cast: Expression) -> Expression:
        """A cast without a guard of its own, but with those of what it casts."""
        (text,) = children(cast)
        changed = map_expression(self._catalyst, text, self._guarded)
        return cast if changed is text else cast.withNewChildren(self._catalyst.seq([changed]))


def _casts(expression: Expression) -> int:
    return sum(_reads_text(part) for part in walk_expression(expression))


def _reads_text(part: Expression) -> bool:
    """Whether a part casts a non-constant text to TIMESTAMP.

    Constants have been judged.
    """
    if simple_name(part) != "Cast" or str(part.dataType().typeName()) != "timestamp":
        return False
    child = part.child()
    return str(child.dataType().typeName()).startswith("string") and not child.foldable()
