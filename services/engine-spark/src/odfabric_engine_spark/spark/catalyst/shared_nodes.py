"""Nodes of Spark's planner of which a JVM has one each, for all queries.

Owns the list of them. A node knows the text that was being parsed when it was made, and the position in it; of one that is made once that would be
the query of the call that came first, which messages for others would show. Invariant: they are made before any query, so they know none.
Not here: how a place in a query is reported (`sql.refusal`).
"""

from __future__ import annotations

from py4j.java_gateway import JavaGateway

_CATALYST = "org.apache.spark.sql.catalyst."
_EXPRESSIONS = f"{_CATALYST}expressions."
SHARED_NODES = (
    f"{_CATALYST}analysis.CurrentNamespace",
    f"{_CATALYST}analysis.UnresolvedSeed",
    f"{_CATALYST}analysis.UnresolvedWithinGroup",
    f"{_EXPRESSIONS}ArraySort",
    f"{_EXPRESSIONS}CounterDiffExpressionBuilder",
    f"{_EXPRESSIONS}CurrentRow",
    f"{_EXPRESSIONS}LambdaFunction",
    f"{_EXPRESSIONS}Literal",
    f"{_EXPRESSIONS}NamePlaceholder",
    f"{_EXPRESSIONS}SizeBasedWindowFunction",
    f"{_EXPRESSIONS}UnboundedFollowing",
    f"{_EXPRESSIONS}UnboundedPreceding",
    f"{_EXPRESSIONS}UnspecifiedFrame",
    f"{_EXPRESSIONS}VirtualColumn",
    f"{_EXPRESSIONS}aggregate.NoOp",
    f"{_EXPRESSIONS}codegen.EmptyBlock",
    "org.apache.spark.sql.execution.command.ClearCacheCommand",
)
"""Scala's singletons that are such nodes, or hold some."""


def make_shared_nodes(gateway: JavaGateway) -> None:
    """Makes them in a JVM that has seen no query yet."""
    for name in SHARED_NODES:
        gateway.jvm.java.lang.Class.forName(f"{name}$")
