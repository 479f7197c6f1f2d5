"""Inputs of a query as Spark tables: columns, types, and what `*` leaves out.

Owns how a dataset appears in SQL. In a transform, offset, op and system time can be named but do not belong to `*`: they
hide behind it the way Spark's own metadata columns do. Invariant: each use of an input in a query is a scan of its own, recognised
by a mark on its columns. Not here: reading rows (`input_rows`), what a query may do with them (`sql`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import to_arrow_schema

from odfabric.formats.slices.arrow_schema import data_schema_to_arrow
from odfabric.model.data_schema import DataSchema
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.spark.catalyst.plan_nodes import Attribute, Catalyst, Plan, output_of, simple_name
from odfabric_engine_spark.spark.frames.spark_types import spark_type

_MARK = "odf.input"
_HIDDEN_MARK = "__metadata_col"


@dataclass(frozen=True, slots=True)
class InputTable:
    """One input: what its rows look like in slices and in Spark."""

    alias: str
    vocabulary: DatasetVocabulary
    arrow: pa.Schema
    spark: spark_types.StructType

    @classmethod
    def of(cls, alias: str, vocabulary: DatasetVocabulary, schema: DataSchema) -> InputTable:
        """From a dataset's schema.

        Raises IncompatibleSchema naming a column whose type Spark does not have.
        """
        arrow = data_schema_to_arrow(schema, encodings=False)
        fields = [_declared_field(field, field.name) for field in arrow]
        return cls(alias, vocabulary, arrow, marked_schema(spark_types.StructType(fields), alias))

    @property
    def spark_arrow(self) -> pa.Schema:
        """The Arrow schema in which rows are handed to Spark."""
        return to_arrow_schema(self.spark, timezone="UTC")

    @property
    def no_rows(self) -> pa.Table:
        """An empty table in which any column may be null: columns that are not read are."""
        return pa.schema([field.with_nullable(True) for field in self.spark_arrow]).empty_table()

    @property
    def hidden(self) -> frozenset[str]:
        """Columns that `*` leaves out in a transform."""
        names = self.vocabulary
        return frozenset({names.offset, names.operation_type, names.system_time})

    def scan(self, catalyst: Catalyst) -> Plan:
        """A fresh scan that shows all columns but the hidden ones, which can be named."""
        relation = marked_relation(catalyst, self.spark)
        attributes = output_of(relation)
        visible = [attribute for attribute in attributes if attribute.name() not in self.hidden]
        hidden = [_hide(catalyst, attribute) for attribute in attributes if attribute.name() in self.hidden]
        shown = catalyst.logical.Project(catalyst.seq(visible), relation)
        hide_columns(catalyst, shown, hidden)
        return shown


def marked_schema(schema: spark_types.StructType, mark: str) -> spark_types.StructType:
    """The same columns, which a scan made of them will be known by."""
    return spark_types.StructType(
        [spark_types.StructField(field.name, field.dataType, field.nullable, {_MARK: mark}) for field in schema.fields]
    )


def marked_relation(catalyst: Catalyst, schema: spark_types.StructType) -> Plan:
    """A scan without rows to which rows can be bound."""
    java_schema = catalyst.jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json())
    attributes = catalyst.companion("org.apache.spark.sql.catalyst.types.DataTypeUtils").toAttributes(java_schema)
    return catalyst.local_relation(attributes)


def marked_scan(catalyst: Catalyst, attributes: Sequence[Attribute]) -> Plan:
    """A scan without rows that has given columns, ids included."""
    first, *others = attributes
    marked = first.withMetadata(catalyst.jvm.org.apache.spark.sql.types.MetadataBuilder().putString(_MARK, "").build())
    return catalyst.local_relation(catalyst.seq([marked, *others]))


def hide_columns(catalyst: Catalyst, project: Plan, hidden: list[object]) -> None:
    """Sets which columns of a projection can be named though it does not show them."""
    tag = catalyst.companion("org.apache.spark.sql.catalyst.plans.logical.Project").hiddenOutputTag()
    project.setTagValue(tag, catalyst.seq(hidden))


def scan_alias(node: Plan) -> str | None:
    """The input that a scan of a plan stands for, None for any other node."""
    if simple_name(node) != "LocalRelation":
        return None
    output = node.output()
    if output.isEmpty():
        return None
    metadata = output.head().metadata()
    return str(metadata.getString(_MARK)) if metadata.contains(_MARK) else None


def _hide(catalyst: Catalyst, attribute: object) -> object:
    builder = catalyst.jvm.org.apache.spark.sql.types.MetadataBuilder()
    named: object = attribute.withMetadata(builder.putString(_HIDDEN_MARK, attribute.name()).build())  # type: ignore[attr-defined]
    return named


def _declared_field(field: pa.Field, path: str) -> spark_types.StructField:
    return spark_types.StructField(field.name, _declared_type(field.type, path), field.nullable)


def _declared_type(arrow: pa.DataType, path: str) -> spark_types.DataType:
    """As `spark_type`, with nulls within nested types only where the schema has them."""
    if types.is_list(arrow) or types.is_large_list(arrow) or types.is_fixed_size_list(arrow):
        item = arrow.value_field
        return spark_types.ArrayType(_declared_type(item.type, f"{path}[]"), item.nullable)
    if types.is_struct(arrow):
        return spark_types.StructType([_declared_field(member, f"{path}.{member.name}") for member in arrow])
    if types.is_map(arrow):
        key = _declared_type(arrow.key_type, f"{path}{{key}}")
        return spark_types.MapType(key, _declared_type(arrow.item_type, f"{path}{{value}}"), arrow.item_field.nullable)
    return spark_type(arrow, path)
