"""The gate: from the SQL of somebody else to a DataFrame that may run.

Owns the order of the two gates: parse, judge the parsed plan, resolve it against typed empty tables in a session of its own,
judge the analysed plan, and only then bind rows. Invariant: no row is touched for a query that is refused, and nothing of a
query is left in the caller's session. Not here: incremental execution (`compile`).
Source: docs/engine.md#what-sql-may-run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from odfabric.model.metadata import SqlQueryStep, TransformSql
from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, analysed, rehomed
from odfabric_engine_spark.spark.settings import EngineSettings
from odfabric_engine_spark.sql.analysed_plan_rules import AnalysedGate
from odfabric_engine_spark.sql.constants.times_without_day import with_days
from odfabric_engine_spark.sql.corrections.unknown_names import KnownNames
from odfabric_engine_spark.sql.output_column_rules import column_problems, name_problems, refusals
from odfabric_engine_spark.sql.parsed_plan_rules import Mode, ParsedGate
from odfabric_engine_spark.sql.refusal import Refused, refusal, same_name, shown
from odfabric_engine_spark.sql.spark_errors import spark_refused

ENGINE_NAME = "spark"

GATE_CONF = {
    # VALUES stay visible as they were written instead of as rows that the parser evaluated.
    "spark.sql.parser.eagerEvalOfUnresolvedInlineTable": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.variable.substitute": "false",
    "spark.sql.runSQLOnFiles": "false",
    # How to compute is the engine's to choose: a plan is run over other rows than its author has seen.
    "spark.sql.optimizer.disableHints": "true",
}


def run_gated_steps(
    session: SparkSession,
    transform: TransformSql,
    tables: Mapping[str, DataFrame],
    *,
    mode: Mode,
    settings: EngineSettings,
) -> DataFrame:
    """The result of the last step over `tables`, lazily.

    Every step may read the tables and earlier steps.

    Raises InvalidQuery with line, column and rule within the step that is wrong, LimitExceeded.
    """
    steps = steps_of(transform)
    if transform.temporal_tables:
        raise refusal("temporal-tables", "only a transform has temporal tables", hint="leave out temporalTables")
    try:
        empty = {name: frame.schema for name, frame in tables.items()}
        judged = OneOffQueryGate(session, mode=mode, settings=settings)
        for name, schema in empty.items():
            judged.add_table(name, Catalyst(judged.session).empty_table(schema))
        result = judged.run_steps(steps)
        found = name_problems(result.schema) if mode is Mode.QUERY else column_problems(result.schema)
        problems = refusals(found, analysed(result))
        if problems:
            raise Refused(problems, step=len(steps) - 1)
        gate = OneOffQueryGate(session, mode=mode, settings=settings, with_data=True)
        for name, frame in tables.items():
            gate.add_table(name, frame)
        catalyst = Catalyst(session)
        return catalyst.data_frame(with_days(catalyst, analysed(gate.run_steps(steps))))
    except Refused as refused:
        raise refused.error([step.query for step in steps]) from None


def steps_of(transform: TransformSql) -> tuple[SqlQueryStep, ...]:
    """The statements of a transform, the output last.

    Raises InvalidQuery for another engine or a malformed list.
    """
    if transform.engine.lower() != ENGINE_NAME:
        raise refusal(
            "engine",
            f"this node has no engine {shown(transform.engine)}",
            hint=f"write the query for `engine: {ENGINE_NAME}`",
        )
    steps = transform.queries or ()
    if transform.query is not None:
        if steps:
            raise refusal("steps", "a transform has either `query` or `queries`", hint="leave out one of them")
        steps = (SqlQueryStep(query=transform.query),)
    if not steps:
        raise refusal("steps", "the transform has no query", hint="give it one as `query`")
    if steps[-1].alias is not None:
        raise refusal("steps", "the last query is the output and has no alias", hint=f"remove `{steps[-1].alias}`")
    if any(not step.alias for step in steps[:-1]):
        raise refusal("steps", "every query but the last has an alias", hint="name each by `alias`: later ones read it")
    return steps


def temporal_tables_of(transform: TransformSql) -> dict[str, tuple[str, ...]]:
    """The primary key of each temporal table by its name.

    Raises InvalidQuery for a malformed list.
    """
    found: dict[str, tuple[str, ...]] = {}
    for table in transform.temporal_tables or ():
        if table.name in found:
            message = f"the temporal table {shown(table.name)} is declared twice"
            raise refusal("temporal-tables", message, hint="leave out one of them")
        if not table.primary_key:
            message = f"the temporal table {shown(table.name)} has no primary key"
            raise refusal(
                "temporal-tables", message, hint="name the columns that tell its rows apart: `primaryKey: [..]`"
            )
        found[table.name] = tuple(table.primary_key)
    return found


def gated_session(session: SparkSession, *, mode: Mode) -> SparkSession:
    """A session of its own with a parser that hides nothing."""
    own = session.newSession()
    for name, value in GATE_CONF.items():
        own.conf.set(name, value)
    if mode is Mode.QUERY:
        # As in standard SQL and in the reference: "account/name" is a name.
        own.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    return own


class OneOffQueryGate:
    """Judges statements of one request, in a session of its own that ends with it.

    Steps of a transform pass the same two gates in `plan.resolution`.
    """

    def __init__(self, session: SparkSession, *, mode: Mode, settings: EngineSettings, with_data: bool = False) -> None:
        self.session = gated_session(session, mode=mode)
        self._catalyst = Catalyst(self.session)
        self._parsed = ParsedGate(self._catalyst, mode=mode, settings=settings)
        self._analysed = AnalysedGate(self._catalyst, mode=mode, settings=settings)
        self._with_data = with_data
        self._relations: set[str] = set()
        self._columns: dict[str, None] = {}  # of all relations, in the order in which they came

    def add_table(self, name: str, frame: DataFrame) -> None:
        """Makes a table known. Raises Refused if the name is taken."""
        if name in self._relations:
            raise Refused([same_name(name)])
        quoted = f"`{name.replace('`', '``')}`"
        rehomed(frame, self.session).createTempView(quoted)
        self._relations.add(name)
        self._columns |= dict.fromkeys(frame.columns)

    def run_steps(self, steps: Sequence[SqlQueryStep]) -> DataFrame:
        """The lazy result of the last statement. Raises Refused, LimitExceeded."""
        for number, step in enumerate(steps):
            try:
                frame = self.run(step.query)
                if step.alias is None:
                    return frame
                self.add_table(step.alias, frame)
            except Refused as refused:
                raise Refused(refused.problems, step=number) from None
        raise ValueError("the last statement has no alias")

    def run(self, sql: str) -> DataFrame:
        """The lazy result of one statement that passes both gates.

        Raises Refused, LimitExceeded.
        """
        parsed = self._parsed.parse(sql, relations=self._relations)
        try:
            frame = self._catalyst.data_frame(parsed.plan)
        except (PySparkException, Py4JError) as error:
            known = KnownNames(tuple(self._columns), parsed.aliases, parsed.tables, parsed.sql)
            raise spark_refused(error, known) from error
        self._analysed.check(analysed(frame), with_data=self._with_data)
        return frame
