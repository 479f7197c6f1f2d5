"""Normal plans over random rows, and plain Spark's result of the same query."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.model.metadata import SqlQueryStep
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.plan.input_tables import InputTable, scan_alias
from odfabric_engine_spark.plan.normal_plan import NormalQuery, normal_plan
from odfabric_engine_spark.plan.resolution import resolve_steps
from odfabric_engine_spark.plan.time.wait_for_watermark import WATERMARK
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    analysed,
    children,
    items,
    simple_name,
)
from odfabric_engine_spark.spark.catalyst.plan_rebuild import map_expressions
from odfabric_engine_spark.spark.settings import EngineSettings
from tests.services.engine.transforming import input_schema

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
COLUMNS: dict[str, list[pa.Field]] = {
    "a": [
        pa.field("k", pa.int32()),
        pa.field("z", pa.string()),
        pa.field("v", pa.int64()),
        pa.field("d", pa.float64()),
        pa.field("n", pa.int32(), nullable=False),
        pa.field("l", pa.list_(pa.int32())),
    ],
    "b": [
        pa.field("k", pa.int32()),
        pa.field("z", pa.string()),
        pa.field("w", pa.int64()),
        pa.field("n", pa.int32(), nullable=False),
    ],
    "c": [pa.field("z", pa.string()), pa.field("x", pa.int32())],
    "m": [pa.field("k", pa.int32()), pa.field("mp", pa.map_(pa.string(), pa.int32()))],
}
VALUES: dict[str, list[Any]] = {
    "k": [1, 2, 3, None],
    "z": ["x", "y", None],
    "v": [0, 1, 2, 5, None],
    "w": [0, 1, 4, None],
    "x": [7, 8, None],
    "d": [0.3, -0.0, 0.0, 1e15, float("nan"), None],
    "n": [1, 2, 3],
    "l": [[], [1], [1, 2, 2], None],
    "mp": [None],
}
HOURS = [-3, -2, -1, 0, 1, 2, None]
"""Event times in half hours around 1970."""

Rows = Mapping[str, Sequence[tuple[Any, ...]]]


def tables() -> dict[str, InputTable]:
    """The inputs; event times may be null."""
    time = pa.field("event_time", pa.timestamp("ms", "UTC"))
    return {
        alias: InputTable.of(alias, DatasetVocabulary(), arrow_to_data_schema(input_schema(*columns, event_time=time)))
        for alias, columns in COLUMNS.items()
    }


def at(half_hours: int | None) -> dt.datetime | None:
    return None if half_hours is None else EPOCH + dt.timedelta(minutes=30 * half_hours)


def random_rows(seed: int, *, count: int = 40) -> Rows:
    """Few values, many ties and duplicates; rows are event time and columns."""
    random = Random(seed)
    found = {}
    for alias, columns in COLUMNS.items():
        rows = [
            (at(random.choice(HOURS)), *(random.choice(VALUES[column.name]) for column in columns))
            for _ in range(count)
        ]
        found[alias] = [*rows, *random.choices(rows, k=6)]
    return found


class Queries:
    """Makes and runs normal plans, or the statements themselves, on the same rows."""

    def __init__(self, session: SparkSession, settings: EngineSettings, rows: Rows) -> None:
        self._session = session
        self._settings = settings
        self.rows = rows
        self._frames = {alias: self._frame(alias, rows[alias]) for alias in rows}
        for alias, frame in self._frames.items():
            frame.createTempView(alias)

    def normal(
        self,
        sql: str,
        *steps: tuple[str, str],
        temporal: Mapping[str, tuple[str, ...]] | None = None,
    ) -> NormalQuery:
        queries = [*(SqlQueryStep(alias=alias, query=text) for alias, text in steps), SqlQueryStep(query=sql)]
        known = temporal or {}
        resolved = resolve_steps(
            self._session,
            queries,
            tables(),
            settings=self._settings,
            temporal_tables=known,
        )
        return normal_plan(resolved, tables(), known)

    def rows_of(self, query: NormalQuery, *, watermark: int | None = None) -> Counter[Any]:
        """The rows of a normal plan, the watermark in half hours."""
        literal = _timestamp(query.catalyst, watermark)
        return counted(query.catalyst.data_frame(_bound(query.catalyst, query.plan, self._frames, literal)))

    def plain(self, sql: str) -> Counter[Any]:
        """What Spark makes of a statement."""
        return counted(self._session.sql(sql))

    def _frame(self, alias: str, rows: Sequence[tuple[Any, ...]]) -> DataFrame:
        table = tables()[alias]
        shown = [field for field in table.spark_arrow if field.name not in table.hidden]
        columns = list(zip(*rows, strict=True)) if rows else [[] for _ in shown]
        arrays = [pa.array(list(values), field.type) for values, field in zip(columns, shown, strict=True)]
        return self._session.createDataFrame(pa.Table.from_arrays(arrays, schema=pa.schema(shown)))


def counted(frame: DataFrame) -> Counter[Any]:
    """Rows as a multiset; floats by text: two zeros, one NaN."""
    return Counter(tuple(_value(value) for value in row) for row in frame.collect())


def _value(value: Any) -> Any:
    if isinstance(value, float):
        return repr(value + 0.0)
    if isinstance(value, list):
        return tuple(_value(each) for each in value)
    return tuple(_value(each) for each in value) if isinstance(value, tuple) else value


def _timestamp(catalyst: Catalyst, half_hours: int | None) -> Expression:
    if half_hours is None:
        return catalyst.null_literal(catalyst.companion("org.apache.spark.sql.types.TimestampType"))
    time = EPOCH + dt.timedelta(minutes=30 * half_hours)
    return catalyst.parse_expression(f"timestamp'{time:%Y-%m-%d %H:%M:%S}'")


def _bound(catalyst: Catalyst, node: Plan, frames: Mapping[str, DataFrame], watermark: Expression) -> Plan:
    alias = scan_alias(node)
    if alias is not None:
        return _scan(catalyst, node, analysed(frames[alias]))
    below = [_bound(catalyst, child, frames, watermark) for child in children(node)]
    node = node.withNewChildren(catalyst.seq(below)) if below else node

    def replace(part: Expression) -> Expression | None:
        is_watermark = simple_name(part) == "AttributeReference" and str(part.name()) == WATERMARK
        return watermark if is_watermark else None

    return map_expressions(catalyst, node, replace) if simple_name(node) == "Filter" else node


def _scan(catalyst: Catalyst, scan: Plan, source: Plan) -> Plan:
    have = {str(column.name()): column for column in items(source.output())}
    named = []
    for column in items(scan.output()):
        value = have.get(str(column.name()), catalyst.null_literal(column.dataType()))
        named.append(catalyst.named(value, str(column.name()), like=column))
    return catalyst.logical.Project(catalyst.seq(named), source)
