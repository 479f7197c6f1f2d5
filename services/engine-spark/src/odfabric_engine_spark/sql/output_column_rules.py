"""Rules for the columns that SQL gives back.

Owns what a name and a type must be to become a column of a dataset. Invariant: what passes has exactly one form in the format,
and no column hides a system column. Not here: whether the columns fit an existing dataset (`formats.slices.slice_schema`).
Source: docs/engine.md#what-sql-may-run; specification, "Engine Contract"; docs/engine.md#types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pyspark.sql import types as spark_types

from odfabric.errors import InvalidQuery
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Expression,
    Plan,
    children,
    expr_id,
    expressions_of,
    output_of,
    simple_name,
)
from odfabric_engine_spark.sql.refusal import CASE, at_select, is_placed, placed_part, refusal, shown

_PLAIN = (
    spark_types.BooleanType
    | spark_types.ByteType
    | spark_types.ShortType
    | spark_types.IntegerType
    | spark_types.LongType
    | spark_types.FloatType
    | spark_types.DoubleType
    | spark_types.DecimalType
    | spark_types.StringType
    | spark_types.BinaryType
    | spark_types.DateType
    | spark_types.TimestampType
)
_INSTEAD: dict[type[spark_types.DataType], str] = {
    spark_types.DayTimeIntervalType: "count it: timestampdiff(SECOND, .., ..), or unix_micros(..) - unix_micros(..)",
    spark_types.YearMonthIntervalType: "count it: timestampdiff(MONTH, .., ..)",
    spark_types.VariantType: "take out what is wanted as columns of their own",
}


_TIME_FROM_TEXT = "cast it: cast(.. as timestamp); in double quotes it is a text, a name in quotes stands in backticks"
MEMBERS_APART = "name them apart: named_struct('a', .., 'b', ..)"


@dataclass(frozen=True, slots=True)
class ColumnProblem:
    """What is wrong with a column of a result."""

    column: str
    rule: str
    message: str
    hint: str


def refusals(problems: Iterable[ColumnProblem], plan: Plan) -> list[InvalidQuery]:
    """Errors of a plan's result, each where its column is made, or at the start."""
    found = list(problems)
    places = _places(plan) if found else {}
    begin = placed_part(plan)
    return [_placed(each, places.get(each.column), begin) for each in found]


def _placed(problem: ColumnProblem, made: Expression | None, begin: Plan) -> InvalidQuery:
    placed = refusal(problem.rule, problem.message, at=begin if made is None else made, hint=problem.hint)
    return at_select(placed, begin) if made is None and simple_name(begin) == "Aggregate" else placed


def _places(plan: Plan) -> dict[str, Expression]:
    """Columns of the result that have a name of their own.

    The place of one that is only passed on may be another mention of it.
    """
    made: dict[int, Expression] = {}
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        named = [each for each in expressions_of(node) if simple_name(each) == "Alias" and is_placed(each)]
        made.update({expr_id(each): each for each in named})
        waiting += children(node)
    columns = {str(column.name()): made.get(expr_id(column)) for column in output_of(plan)}
    return {name: place for name, place in columns.items() if place is not None}


def column_problems(schema: spark_types.StructType) -> Iterator[ColumnProblem]:
    """Rules for result columns: names and types that a dataset can store."""
    yield from name_problems(schema)
    for field in schema.fields:
        yield from _type_problems(field.name, field.dataType, field.name, nullable=field.nullable)


def name_problems(schema: spark_types.StructType) -> Iterator[ColumnProblem]:
    """Names that are empty or doubled: rules for every result."""
    seen: dict[str, str] = {}
    twice: list[str] = []
    for name in schema.names:
        if not name.strip():
            yield ColumnProblem(name, "column-name", "a column has no name", hint="name it with AS")
        elif name.lower() in seen:
            other = seen[name.lower()]
            if other == name:
                twice.append(name)
            else:
                message = f"two columns are named {shown(name)} and {shown(other)}, which differ in case only"
                hint = f"rename one with AS, or leave it out: t.* EXCEPT ({name})"
                yield ColumnProblem(name, "column-name", message, hint=hint)
        seen.setdefault(name.lower(), name)
    if twice:
        yield _doubled(list(dict.fromkeys(twice)))
    for field in schema.fields:
        doubled = doubled_member(field.dataType)
        if doubled is not None:
            message = f"the column {shown(field.name)} has a struct with two members named {shown(doubled)}"
            yield ColumnProblem(field.name, "column-name", message, hint=MEMBERS_APART)


def _doubled(names: list[str]) -> ColumnProblem:
    """Columns that are there twice, as of `*` over a join: reported together."""
    listed = shown(", ".join(names))
    if not all(name.isidentifier() for name in names):
        return ColumnProblem(names[0], "column-name", f"two columns are named {listed}", hint="name one with AS")
    if len(names) == 1:
        hint = f"rename one with AS, or leave it out: t.* EXCEPT ({listed})"
        return ColumnProblem(names[0], "column-name", f"two columns are named {listed}", hint=hint)
    hint = f"rename one of each with AS, or leave them out: t.* EXCEPT ({listed})"
    return ColumnProblem(names[0], "column-name", f"of each of these there are two columns: {listed}", hint=hint)


def doubled_member(data_type: spark_types.DataType) -> str | None:
    """A name that two members of a struct within a type have."""
    match data_type:
        case spark_types.ArrayType():
            return doubled_member(data_type.elementType)
        case spark_types.MapType():
            return doubled_member(data_type.keyType) or doubled_member(data_type.valueType)
        case spark_types.StructType():
            doubled = (name for at, name in enumerate(data_type.names) if name in data_type.names[:at])
            within = (doubled_member(member.dataType) for member in data_type.fields)
            return next(doubled, None) or next((name for name in within if name is not None), None)
        case _:
            return None


def transform_column_problems(
    schema: spark_types.StructType, vocabulary: DatasetVocabulary, *, op_allowed: bool
) -> Iterator[ColumnProblem]:
    """Rules for transform output beyond `column_problems`: event time, system columns."""
    names = {field.name: field.dataType for field in schema.fields}
    event_time = vocabulary.event_time
    if event_time not in names:
        yield _no_event_time(list(names), event_time)
    elif not isinstance(names[event_time], spark_types.DateType | spark_types.TimestampType):
        yield ColumnProblem(
            event_time,
            "event-time",
            f"the column {event_time} must be DATE or TIMESTAMP, not {names[event_time].simpleString()}",
            hint=_TIME_FROM_TEXT
            if isinstance(names[event_time], spark_types.StringType)
            else "cast it: cast(.. as timestamp)",
        )
    reserved = {vocabulary.offset.lower(), vocabulary.system_time.lower()}
    operation = vocabulary.operation_type
    for name, data_type in names.items():
        if name.lower() in reserved:
            message = f"the column {name} is set by the system"
            yield ColumnProblem(name, "system-column", message, hint="leave it out or rename it")
        elif name.lower() == operation.lower():
            yield from _operation_problems(name, operation, data_type, op_allowed=op_allowed)


def _no_event_time(names: list[str], event_time: str) -> ColumnProblem:
    """The error of a missing event time, with a hint at a similar column.

    One in another case, without a name of its own, or pivoted.
    """
    hint = f"select the event time, for example max({event_time}) as {event_time}, or window.start as {event_time}"
    column = event_time
    for name in names:
        if name.casefold() == event_time.casefold():
            column, hint = name, f"name {shown(name)} so: .. as {event_time}. {CASE}"
        elif name.endswith(f"({event_time})"):
            column, hint = name, f"name it: {shown(name)} as {event_time}"
    pivoted = [name for name in names if name.endswith(f"_{event_time}")]
    if len(pivoted) > 1:
        hint = f"select the event time: greatest({shown(', '.join(pivoted))}) as {event_time}"
    return ColumnProblem(column, "event-time", f"the result has no column {event_time}", hint=hint)


def _operation_problems(
    name: str, operation: str, data_type: spark_types.DataType, *, op_allowed: bool
) -> Iterator[ColumnProblem]:
    small = spark_types.ByteType | spark_types.ShortType | spark_types.IntegerType
    if name != operation or not op_allowed:
        yield ColumnProblem(
            name,
            "system-column",
            f"the column {name} is set by the system",
            hint="name it otherwise: only a query that maps each row alone gives it, to say what each record is",
        )
    elif not isinstance(data_type, small):
        message = f"the column {name} must be INT, not {data_type.simpleString()}"
        yield ColumnProblem(name, "system-column", message, hint="select it as the input has it")


def _type_problems(
    column: str, data_type: spark_types.DataType, path: str, *, nullable: bool
) -> Iterator[ColumnProblem]:
    match data_type:
        case spark_types.ArrayType():
            yield from _type_problems(column, data_type.elementType, f"{path}[]", nullable=data_type.containsNull)
        case spark_types.MapType():
            yield from _type_problems(column, data_type.keyType, f"{path}{{key}}", nullable=False)
            yield from _type_problems(
                column, data_type.valueType, f"{path}{{value}}", nullable=data_type.valueContainsNull
            )
        case spark_types.StructType():
            yield from _struct_problems(column, data_type, path, nullable=nullable)
        case spark_types.NullType():
            message = f"the column {shown(path)} is NULL in every row"
            yield ColumnProblem(column, "column-type", message, hint="cast it to a type")
        case spark_types.TimestampNTZType():
            yield ColumnProblem(
                column,
                "column-type",
                f"the column {shown(path)} is a timestamp without time zone",
                hint="cast it to timestamp, which takes it as UTC",
            )
        case _:
            if not isinstance(data_type, _PLAIN):
                yield ColumnProblem(
                    column,
                    "column-type",
                    f"the column {shown(path)} has the type {data_type.simpleString()}, which has no form",
                    hint=_INSTEAD.get(type(data_type), "cast it to a type of the format, such as STRING"),
                )


def _struct_problems(
    column: str, struct: spark_types.StructType, path: str, *, nullable: bool
) -> Iterator[ColumnProblem]:
    for member in struct.fields:
        if nullable and member.nullable:
            yield ColumnProblem(
                column,
                "column-type",
                f"the column {shown(path)} is a struct that can be null with a member {member.name} that can be null",
                hint="the hash of such a column depends on its reader: select its members as columns of their own",
            )
            return
        yield from _type_problems(column, member.dataType, f"{path}.{member.name}", nullable=member.nullable)
