"""Catalyst, Spark's query planner: parse, read and build plans.

Owns every use of Spark's internal classes but execution. Trees are walked with their own `children` and `expressions`, the
same that Spark's analyser uses, so nothing that it could resolve stays unseen. Invariant: no function here runs a job.
Not here: which trees are allowed (`sql`), what they mean for increments (`compile`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce
from typing import TYPE_CHECKING, Any, TypeAlias

from py4j.java_gateway import GatewayClient, JavaClass, JavaObject
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from odfabric.model.instant import SECONDS_PER_DAY
from odfabric_engine_spark.spark.catalyst.tree_reader import KnownObject, TreeReader, reader_of

if TYPE_CHECKING:
    pass

# Objects of the JVM have no Python types; these names say which Scala type is meant.
Plan: TypeAlias = Any
Expression: TypeAlias = Any
Attribute: TypeAlias = Any
TreeNode: TypeAlias = Any

_ROUNDS_MAX = 100
"""Most times that rules of the optimizer are applied to a plan; those that we use settle in as many rounds as it has levels."""
_MICROS_PER_DAY = SECONDS_PER_DAY * 1_000_000
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
OWN_PREFIX = "__odf_"
"""How names of columns begin that the engine has made. Neither inputs nor queries have such names."""
_MEMBER_NAME = re.compile(r'"name":"(?:[^"\\]|\\.)*",')
_CHILDLESS = frozenset(
    {"Literal", "AttributeReference", "UnresolvedAttribute", "UnresolvedStar", "NamedLambdaVariable"}
)
_PLAN_HOLDERS = frozenset({"ScalarSubquery", "Exists", "ListQuery", "LateralSubquery"})


class Catalyst:
    """The planner of one session.

    Its parser follows that session's settings, whatever ran on the thread before.
    """

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self.jvm: Any = session._jvm
        self._java_session: Any = session._jsparkSession
        sql = self.jvm.org.apache.spark.sql
        self.logical: Any = sql.catalyst.plans.logical
        self.expressions: Any = sql.catalyst.expressions
        self._sessions: Any = sql.classic.SparkSession
        known = _KNOWN[self._java_session._gateway_client]
        self._companions = known.companions
        self._replaceable = known.replaceable

    def parse(self, sql: str) -> Plan:
        """The parsed plan of exactly one query.

        Raises Spark's ParseException for anything else.
        """
        return self.parser.parseQuery(sql)

    def parse_expression(self, sql: str) -> Expression:
        """An unresolved expression."""
        return self.parser.parseExpression(sql)

    @property
    def parser(self) -> Any:
        """The session's parser.

        It reads the settings of the session that is active on its thread.
        """
        self._sessions.setActiveSession(self._java_session)
        return self._java_session.sessionState().sqlParser()

    def data_frame(self, plan: Plan) -> DataFrame:
        """A plan as DataFrame; what is unresolved in it is resolved.

        Raises Spark's AnalysisException.
        """
        self._sessions.setActiveSession(self._java_session)
        return DataFrame(
            self.companion("org.apache.spark.sql.classic.Dataset").ofRows(self._java_session, plan), self.session
        )

    def empty_table(self, schema: StructType) -> DataFrame:
        """A table without rows; names, types, nullability and metadata as given."""
        java_schema = self.jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json())
        attributes = self.companion("org.apache.spark.sql.catalyst.types.DataTypeUtils").toAttributes(java_schema)
        return self.data_frame(self.local_relation(attributes))

    def local_relation(self, attributes: Any, rows: Any = None) -> Plan:
        """A scan for a Scala Seq of attributes.

        `rows` is a Scala Seq of rows of Spark, by default without any.
        """
        none = self.companion("scala.None")
        return self.logical.LocalRelation(attributes, self.seq([]) if rows is None else rows, False, none)

    def instant(self, micros: int, *, like: Expression | None = None) -> Expression:
        """An instant as TIMESTAMP; its day as DATE if `like` is one."""
        if like is not None and is_date(like):
            return self.expressions.DateFromUnixDate(self.parse_expression(f"{micros // _MICROS_PER_DAY}"))
        return self.expressions.MicrosToTimestamp(self.parse_expression(f"{micros}L"))

    def all_of(self, conditions: Sequence[Expression]) -> Expression:
        """One condition for all of some; TRUE for none."""
        return reduce(self.expressions.And, conditions) if conditions else self.literal_true()

    def literal_true(self) -> Expression:
        """The constant TRUE."""
        return self.companion("org.apache.spark.sql.catalyst.expressions.Literal").TrueLiteral()

    def null_literal(self, data_type: Any) -> Expression:
        """The constant NULL of a type."""
        return self.companion("org.apache.spark.sql.catalyst.expressions.Literal").create(None, data_type)

    def named(self, value: Expression, name: str, *, like: Attribute | None = None) -> Expression:
        """A value under a name; it takes the column id of `like`, else a new one."""
        ids = self.companion("org.apache.spark.sql.catalyst.expressions.NamedExpression")
        own_id = ids.newExprId() if like is None else like.exprId()
        none, nothing = self.companion("scala.None"), self.companion("scala.collection.immutable.Nil")
        return self.expressions.Alias(value, name, own_id, nothing, none, nothing)

    def as_columns(self, values: Sequence[Expression], columns: Sequence[Attribute]) -> Any:
        """A Scala Seq of row values under the names, ids and types of a scan's columns.

        Rows that come by Arrow have all types but two that they left with: intervals of days are such of days to seconds, which have
        the same values, but other texts, and times without zone have that of the session, UTC.
        """
        return self._reader.as_columns(values, columns)

    def member(self, struct: Expression, index: int) -> Expression:
        """A member of a struct by position."""
        return self.expressions.GetStructField(struct, index, self.companion("scala.None"))

    def struct(self, values: Sequence[Expression]) -> Expression:
        """Values in one, which is never null, by position."""
        literal = self.companion("org.apache.spark.sql.catalyst.expressions.Literal")
        members = [part for at, value in enumerate(values) for part in (literal.apply(f"c{at}"), value)]
        return self.expressions.CreateNamedStruct(self.seq(members))

    def companion(self, name: str) -> Any:
        """The companion object of a Scala class, given in full."""
        if name not in self._companions:
            self._companions[name] = getattr(JavaClass(f"{name}$", self._java_session._gateway_client), "MODULE$")
        return self._companions[name]

    def settled(self, plan: Plan, *rules: str) -> Plan:
        """A plan under Spark's own named optimizer rules, to a fixed point."""
        own = [self.companion(f"org.apache.spark.sql.catalyst.optimizer.{rule}") for rule in rules]
        for _ in range(_ROUNDS_MAX):
            changed = reduce(lambda node, rule: rule.apply(node), own, plan)
            if changed.fastEquals(plan):
                break
            plan = changed
        return plan

    def seq(self, values: Iterable[Any]) -> Any:
        """A Scala Seq."""
        known = list(values)
        if all(isinstance(value, JavaObject) for value in known):
            return self._reader.seq(known)
        found = self.companion("scala.collection.immutable.Nil")
        for value in reversed(known):
            found = found.prepended(value)
        return found

    def with_inlined_ctes(self, plan: Plan) -> Plan:
        """A plan with the relations of WITH in the places where they are read.

        What makes a column keeps its id.
        """
        return self.jvm.org.apache.spark.sql.catalyst.optimizer.InlineCTE(True, False, False).apply(plan)

    def is_orderable(self, data_type: Any) -> bool:
        """Whether values of a type have an order; maps have none."""
        orderings = self.companion(f"{_EXPRESSIONS}RowOrdering")
        # A struct is a list of fields too, which would be taken for a list of expressions; an array has the order of its items.
        array_of = self.companion("org.apache.spark.sql.types.ArrayType")
        return bool(orderings.isOrderable(array_of.apply(data_type)))

    def is_a(self, value: Any, class_name: str) -> bool:
        """Whether a JVM object is an instance of a class or trait."""
        return self._reader.is_a(value, class_name)

    def is_replaceable(self, expression: Expression) -> bool:
        """Whether the optimizer puts another expression, its `replacement`, in its place."""
        name = class_name(expression)
        if name not in self._replaceable:
            self._replaceable[name] = self.is_a(expression, f"{_EXPRESSIONS}RuntimeReplaceable")
        return self._replaceable[name]

    @property
    def _reader(self) -> TreeReader:
        return reader_of(self._java_session._gateway_client)


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of one JVM: Scala objects, and replaced expression classes.

    Which classes of expressions the optimizer replaces, by full names.
    """

    companions: dict[str, Any] = field(default_factory=dict)
    replaceable: dict[str, bool] = field(default_factory=dict)


_KNOWN: defaultdict[GatewayClient, _Known] = defaultdict(_Known)


def analysed(frame: DataFrame) -> Plan:
    """The analysed plan of a DataFrame."""
    return frame._jdf.queryExecution().analyzed()


def items(seq: Any) -> list[Any]:
    """Members of a Scala Seq."""
    return reader_of(seq._gateway_client).items(seq)


def class_name(node: TreeNode) -> str:
    """The full class name of a node, without the sign of Scala's singletons."""
    known = node.class_name if isinstance(node, KnownObject) else None
    name: str = _class_namer(node._gateway_client)(node) if known is None else known
    return name.rstrip("$")


@cache
def _class_namer(client: GatewayClient) -> Any:
    """The JVM's class name of an object in one call, since plan walks ask often."""
    return JavaClass("org.apache.commons.lang3.ClassUtils", client).getName


def simple_name(node: TreeNode) -> str:
    """The class name of a node without its package."""
    return class_name(node).rsplit(".", 1)[-1]


def is_expression_class(name: str) -> bool:
    """Whether a full class name is one of Catalyst's own resolved expressions."""
    return name.startswith(_EXPRESSIONS)


def children(node: TreeNode) -> list[TreeNode]:
    """Children of a plan or an expression."""
    return reader_of(node._gateway_client).children(node)


def children_of(node: TreeNode, name: str) -> list[TreeNode]:
    """Children of a node by its simple class name, without a call for leaves.

    It saves asking those that never have any.
    """
    return [] if name in _CHILDLESS else children(node)


def expressions_of(plan: Plan) -> list[Expression]:
    """Expressions that a plan node holds itself."""
    return reader_of(plan._gateway_client).expressions(plan)


def output_of(plan: Plan) -> list[Attribute]:
    """The columns that a plan gives."""
    return reader_of(plan._gateway_client).output(plan)


def column_names(columns: Iterable[Attribute]) -> tuple[str, ...]:
    """The names of columns.

    Each is a question to the JVM: ask when a query is compiled.
    """
    return tuple(str(column.name()) for column in columns)


def meaning_of(plan: Plan, *, parsed: bool = False) -> str:
    """A text shared by plans of the same meaning.

    Parsed ones word by word, others over what they read of their inputs.
    """
    return reader_of(plan._gateway_client).meaning(plan, parsed=parsed)


def elements_of(product: Any) -> list[Any]:
    """Elements of a Scala product: what a node is made of, in the order of its class."""
    return reader_of(product._gateway_client).elements(product)


def with_elements(node: TreeNode, changed: Mapping[int, Any]) -> TreeNode:
    """A node with some of its elements replaced, by position."""
    return reader_of(node._gateway_client).copied(node, changed)


def inner_plan(expression: Expression, name: str | None = None) -> Plan | None:
    """The plan within a subquery expression.

    `name` is its simple class name if that is known.
    """
    return expression.plan() if (name or simple_name(expression)) in _PLAN_HOLDERS else None


def walk_expression(expression: Expression) -> Iterator[Expression]:
    """An expression and all below it, parents first.

    Plans in subqueries are not entered.
    """
    yield expression
    if simple_name(expression) not in _CHILDLESS:
        yield from reader_of(expression._gateway_client).below(expression)[1:]


def walk_plan(plan: Plan) -> list[Plan]:
    """A plan and all below it, parents first; plans in subqueries are not entered."""
    return reader_of(plan._gateway_client).below(plan)


def without_alias(expression: Expression) -> Expression:
    """The value of a named expression."""
    return expression.child() if simple_name(expression) == "Alias" else expression


def conjuncts(condition: Expression) -> list[Expression]:
    """The parts of a condition that must all hold, from left to right."""
    if simple_name(condition) != "And":
        return [condition]
    return [part for side in children(condition) for part in conjuncts(side)]


def is_attribute(expression: Expression) -> bool:
    """Whether an expression is a plain column reference."""
    return simple_name(expression) == "AttributeReference"


def rehomed(frame: DataFrame, session: SparkSession) -> DataFrame:
    """The same plan in another session."""
    return Catalyst(session).data_frame(analysed(frame))


def type_text(expression: Expression) -> str:
    """Spark's JSON text of a type without member names.

    Names may be those of types: what is in it has these quotes.
    """
    return _MEMBER_NAME.sub("", str(expression.dataType().json()))


def is_date(expression: Expression) -> bool:
    """Whether the values of an expression are days."""
    return str(expression.dataType().typeName()) == "date"


def is_time(expression: Expression) -> bool:
    """Whether the values of an expression are instants or days."""
    return str(expression.dataType().typeName()) in ("date", "timestamp", "timestamp_ntz")


def constant_us(time: Expression) -> int | None:
    """The instant of a constant in microseconds, of a day its beginning.

    None for null. Raises what Spark raises on computing it.
    """
    found: Any = time.eval(None)
    return None if found is None else int(found) * (_MICROS_PER_DAY if is_date(time) else 1)


def expr_id(named: Expression) -> int:
    """The identity of a column within a plan."""
    return reader_of(named._gateway_client).column_id(named)


def references(expression: Expression) -> list[Attribute]:
    """Columns that an expression reads."""
    return items(expression.references().toSeq())


def has_inner_plan(node: Plan) -> bool:
    """Whether a node has a subquery in one of its expressions."""
    parts = (part for expression in expressions_of(node) for part in walk_expression(expression))
    return any(inner_plan(part) is not None for part in parts)
