"""Errors of Spark's parser and analyser as refusals.

Owns the reading of their errors: which condition it is, what of the message is for users, and what to write instead. Invariant: a
message holds no plan, no inner id and no address of a page; each has a hint. Not here: refusals of ours (`parsed_plan_rules`, `analysed_plan_rules`),
failures of queries that run (`odfabric_engine_spark.spark.failures`), places that Spark does not tell (`source_positions`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException, PySparkException

from odfabric.errors import InvalidQuery, Place
from odfabric_engine_spark.spark.failures import MESSAGE_CHARACTERS_MAX, spark_text
from odfabric_engine_spark.sql.allowed_functions import NONE_OF_USERS
from odfabric_engine_spark.sql.corrections.syntax_hints import other_statement, syntax_hint
from odfabric_engine_spark.sql.corrections.unknown_names import (
    KnownNames,
    Told,
    ambiguous,
    unknown_column,
    unknown_member,
    unknown_star,
    unknown_using_column,
)
from odfabric_engine_spark.sql.refusal import PLAIN_FORMS, Refused, place_told, refusal
from odfabric_engine_spark.sql.source_positions import line_and_column, place_within

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]\s*(.*?)(?:\s*SQLSTATE: [0-9A-Z]{5}|\n|$)", re.DOTALL)
_ADVICE = re.compile(
    r"\s*(?:Please, refer to|Please check|Please specify|For more information|Please ensure that|Please use|You need to add|For example:|Add GROUP BY or|Use `try|If necessary|Set .spark\.).*",
    re.DOTALL,
)
_POSITION = re.compile(r"[;,]?\s*\(?line \d+,? pos(?:ition)? \d+\)?.*", re.DOTALL)
_QUERY = re.compile(r"(?:select|from|with|values|table)\b", re.IGNORECASE)
_INNER = {"listquery()": "subquery", "scalarsubquery()": "subquery", "commonexpressionref()": ".."}
"""How Spark writes what it has no text for."""

_OF_GRAMMAR = frozenset({"parse-syntax-error", "invalid-sql-syntax", "unsupported-typed-literal"})
"""Rules of texts at which the parser stops."""

_UNNAMED = "STATEMENT"
"""What Spark raises without a condition."""

_CAST = "make them of one type: cast(.. as ..)"
_LOOK_UP = "join lateral (select .. from d where d.k = a.k and d.event_time <= a.event_time order by d.event_time desc limit 1)"
_AS_OF = f"name it in temporalTables, and look up: {_LOOK_UP}"
_NEAREST_BEFORE = f"write {_LOOK_UP}; left join lateral (..) on true keeps rows that find none"
NO_NAMES = KnownNames()
_ADDED = re.compile(r'resolve "(?:\([^"<>=]* [+-] |date_add\()')
"""A sum or difference, which of a day is a function."""
_MORE = "write all that it is made of, as in count(*) or coalesce(a, b)"
_OF_A_LIST = re.compile(r'resolve "[^"]*\[\w+\]".*requires the "INTEGRAL" type')
_OF_SEVERAL = {
    "isnull": ("1 argument", "coalesce(value, otherwise)"),
    "max": ("1 argument", "greatest(a, b) for the greater one of two columns"),
    "min": ("1 argument", "least(a, b) for the lesser one of two columns"),
    "percentile_cont": ("1 argument", "percentile_cont(0.5) WITHIN GROUP (ORDER BY value), or percentile(value, 0.5)"),
    "percentile_disc": ("1 argument", "percentile_disc(0.5) WITHIN GROUP (ORDER BY value)"),
}
"""Functions that take several arguments elsewhere: how many here, and what to write."""
_TYPES_ELSEWHERE = {
    **dict.fromkeys(("text", "uuid", "json", "jsonb", "varchar2", "nvarchar", "clob", "enum", "str"), "string"),
    **dict.fromkeys(("datetime", "datetime2", "timestamptz", "timestamp_tz", "smalldatetime"), "timestamp"),
    **dict.fromkeys(("number", "money", "bignumeric"), "decimal(38, 2), or as many digits as there are"),
    **dict.fromkeys(("int8", "int64", "uint32", "hugeint", "serial"), "bigint"),
    **dict.fromkeys(("int4", "int32", "uint16", "mediumint", "signed"), "int"),
    **dict.fromkeys(("int2", "int16"), "smallint"),
    **dict.fromkeys(("float8", "float64"), "double"),
    **dict.fromkeys(("float4", "float32"), "float"),
    **dict.fromkeys(("bytea", "blob", "bytes", "varbinary"), "binary"),
    **dict.fromkeys(("bool", "bit"), "boolean"),
}
"""Types of other engines, and those of Spark."""
_NUMBER = "write the column instead of its number"
_HINTS: Mapping[str, str] = {
    "AMBIGUOUS_REFERENCE": "say of which table it is",
    "ASSIGNMENT_ARITY_MISMATCH": "give as many names as there are columns",
    "CANNOT_PARSE_INTERVAL": "write an interval such as '1 day' or '90 minutes'",
    "DATATYPE_MISMATCH": "give it values of the types that it takes: cast(.. as ..)",
    "DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES": _CAST,
    "DATATYPE_MISMATCH.BINARY_OP_WRONG_TYPE": _CAST,
    "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION": "no cast leads there: take a member, or make it by a function",
    "DATATYPE_MISMATCH.DATA_DIFF_TYPES": _CAST,
    "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN": "write a condition, such as a comparison",
    "DATATYPE_MISMATCH.IN_SUBQUERY_LENGTH_MISMATCH": "select as many columns in the subquery as stand before IN",
    "DATATYPE_MISMATCH.NON_FOLDABLE_INPUT": "write a constant there",
    "DATATYPE_MISMATCH.SPECIFIED_WINDOW_FRAME_DIFF_TYPES": "write both bounds in the same units: interval '30 00:00:00' day to second"
    " preceding and interval '0 00:00:01' day to second preceding",
    "DATATYPE_MISMATCH.SPECIFIED_WINDOW_FRAME_WRONG_COMPARISON": "write the earlier bound first",
    "DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE": "write a value within that range",
    "DATATYPE_MISMATCH.RANGE_FRAME_INVALID_TYPE": "write an interval: range between interval '1' hour preceding and current row",
    "DATATYPE_MISSING_SIZE": "write string, or the size: varchar(10)",
    "DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION": "write at most 38 digits: decimal(38, 2)",
    "DISTINCT_WINDOW_FUNCTION_UNSUPPORTED": "take the members of a set: size(collect_set(..) over (partition by ..)) for count,"
    " array_join(sort_array(collect_set(..) over (..)), ',') for listagg",
    "GROUP_BY_AGGREGATE": "aggregate twice: select n, sum(v) .. from (select count(*) n, .. group by ..) group by n",
    "GROUP_BY_POS_AGGREGATE": _NUMBER,
    "GROUP_BY_POS_OUT_OF_RANGE": _NUMBER,
    "INCOMPLETE_TYPE_DEFINITION": "write what it holds: array<int>, map<string, int>, struct<a: int, b: string>",
    "INCOMPATIBLE_COLUMN_TYPE": "cast the columns of all branches to one type",
    "INVALID_AGGREGATE_FILTER": "write a condition on columns: filter (where v > 1)",
    "INVALID_EXTRACT_BASE_FIELD_TYPE": "leave out what follows: it has no members",
    "INVALID_EXTRACT_FIELD": "there are YEAR, QUARTER, MONTH, WEEK, DAY, DAYOFWEEK, DOY, HOUR, MINUTE and SECOND; seconds since 1970 are"
    " unix_seconds(time)",
    "INVALID_IDENTIFIER": "a name with signs other than letters, digits and _ stands in backticks",
    "INVALID_INLINE_TABLE": "write rows of as many values as there are columns",
    "INVALID_INLINE_TABLE.FAILED_SQL_EXPRESSION_EVALUATION": "no row can help: write another constant",
    "INVALID_LAMBDA_FUNCTION_CALL": "write as many names before -> as the function gives values",
    "INVALID_PARAMETER_VALUE.DATETIME_UNIT": "write the unit without quotes: date_diff(DAY, earlier, later), date_add(DAY, 1, time)",
    "INVALID_SUBQUERY_EXPRESSION": "select one column in the subquery; a second one needs a subquery of its own, or a join",
    "INVALID_TYPED_LITERAL": "write one that there is: DATE '2026-02-28', TIMESTAMP '2026-02-28 12:00:00', INTERVAL '1' DAY",
    "INVALID_WHERE_CONDITION": "write what is asked of aggregates behind HAVING, or in a query around this one",
    "INVALID_WINDOW_SPEC_FOR_AGGREGATION_FUNC": "leave out ORDER BY and the frame, or join the rows of the frame and group",
    "JOIN_CONDITION_IS_NOT_BOOLEAN_TYPE": "write a condition, such as a comparison: on a.x = b.y",
    "MISSING_AGGREGATION": "add it to GROUP BY, or aggregate it: max(..), or max_by(.., event_time) for the latest",
    "MISSING_GROUP_BY": "add GROUP BY, or aggregate all columns",
    "MISSING_WINDOW_SPECIFICATION": "define it behind the last clause: WINDOW w AS (PARTITION BY .. ORDER BY ..)",
    "NESTED_AGGREGATE_FUNCTION": "aggregate twice: select sum(n) .. from (select count(*) n .. group by ..)",
    "NON_LITERAL_PIVOT_VALUES": "write the values themselves: for k in ('x', 'y')",
    "NUM_COLUMNS_MISMATCH": "all branches of UNION, EXCEPT or INTERSECT have the same columns",
    "PARSE_SYNTAX_ERROR": "one query in Spark SQL: SELECT .. or WITH .. SELECT ..",
    "SCALAR_SUBQUERY_IS_IN_GROUP_BY_OR_AGGREGATE_FUNCTION": "take its maximum: max((select ..)), or join its rows before grouping",
    "TABLE_OR_VIEW_NOT_FOUND": "a query reads its declared inputs and earlier steps by their alias",
    "TRAILING_COMMA_IN_SELECT": "leave out the comma before this word",
    "UDTF_ALIAS_NUMBER_MISMATCH": "give as many names as there are columns",
    "UNRESOLVED_COLUMN": "name a column of the tables in FROM",
    "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION": "there are no columns there; a function in FROM that reads those of a table stands behind"
    " LATERAL: from a, lateral explode(list) as t(x)",
    "UNRESOLVED_ROUTINE": f"write it with other functions of Spark SQL: {NONE_OF_USERS}",
    "UNRESOLVED_USING_COLUMN_FOR_JOIN": "write ON with a column of each side: on a.x = b.y",
    "UNSUPPORTED_DATATYPE": "write a type of Spark SQL: int, bigint, double, decimal(12, 2), string, date, timestamp, ..",
    "UNSUPPORTED_EXPR_FOR_OPERATOR": "aggregate in a query of its own, and join its rows",
    "UNSUPPORTED_FEATURE.ASOF_JOIN": _NEAREST_BEFORE,
    "UNSUPPORTED_GROUPING_EXPRESSION": "group by rollup(..), cube(..) or grouping sets (..)",
    "UNSUPPORTED_TIME_TYPE": "of dates and times take numbers and cast back: timestamp_seconds(median(unix_seconds(..))), or unix_date(..)",
    "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY": "join its rows, or write it in SELECT, WHERE or HAVING",
    "UNSUPPORTED_TYPED_LITERAL": "write a number such as 0.19BD, or cast('0.19' as decimal(10, 2))",
    "WINDOW_FUNCTION_FRAME_NOT_ORDERED": "order the window: over (partition by .. order by ..)",
    "WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE": "write it behind QUALIFY, or in a query around this one",
    "WINDOW_FUNCTION_WITHOUT_OVER_CLAUSE": "write over (partition by .. order by ..) behind it",
}
"""By condition, or by the first part of its name. Where the message says what is there, `_TOLD` makes a better one."""


def spark_refused(error: PySparkException | Py4JError, known: KnownNames = NO_NAMES) -> BaseException:
    """What Spark's analyser refused; the same error if it is of another kind.

    `known` are the names that there are.
    """
    problem = _problem(error, known)
    return error if problem is None else Refused([problem])


def parser_refused(error: PySparkException | Py4JError, sql: str, *, relations: Collection[str]) -> BaseException:
    """What Spark's parser refused of a text; the same error if it is of another kind.

    `relations` are the names that FROM may have.
    """
    other = other_statement(sql)
    if other is not None:
        word, hint = other
        line, column = line_and_column(sql, word.begin)
        place = Place(line=line, column=column, rule="statement")
        return Refused([InvalidQuery(f"{word.known_by.upper()} is no query", place=place, hint=hint)])
    problem = _problem(error, NO_NAMES)
    if problem is None:
        return error
    if problem.place.rule in _OF_GRAMMAR:
        meant = syntax_hint(sql, problem.place.line, problem.place.column, relations)
        problem = InvalidQuery(problem.message, place=problem.place, hint=meant or problem.hint)
    return Refused([problem])


def _problem(error: PySparkException | Py4JError, known_names: KnownNames) -> InvalidQuery | None:
    text = spark_text(error)
    known = _CONDITION.search(text)
    if known is None and "java.lang.StackOverflowError" in text:
        return refusal("too-deep", "the query is nested too deeply", hint="write it with fewer levels")
    if known is None and not isinstance(error, AnalysisException | ParseException | IllegalArgumentException):
        return None
    condition, message = (_UNNAMED, text.lstrip().partition("\n")[0]) if known is None else known.groups()
    line, column = place_told(text)
    part = _query_told(error)
    if line is not None and column is not None and part:
        line, column = place_within(part, message, line=line, column=column)
    place = None if line is None or column is None else (line, column)
    told = _told(condition, message, replace(known_names, place=place))
    message = told.message
    for inner, shown in _INNER.items():
        message = message.replace(inner, shown)
    problem = InvalidQuery(
        re.sub(r"\.{2,}$|:$", ".", _ADVICE.sub("", _POSITION.sub("", message)).strip())[:MESSAGE_CHARACTERS_MAX],
        place=Place(line=line, column=column, rule=condition.partition(".")[0].lower().replace("_", "-")),
        hint=told.hint or _HINTS.get(condition) or _HINTS.get(condition.partition(".")[0]) or PLAIN_FORMS,
    )
    problem.instead = told.instead
    return problem


def _query_told(error: PySparkException | Py4JError) -> str:
    """The whole query that Spark refuses for one of its clauses, empty otherwise."""
    contexts = error.getQueryContext() if isinstance(error, AnalysisException) else []
    part = str(contexts[0].fragment()) if contexts else ""
    return part if _QUERY.match(part) else ""


def _told(condition: str, message: str, known: KnownNames) -> Told:
    """The message, and a hint where it can be made of what the message says."""
    main = condition.partition(".")[0]
    if main in _OF_NAMES:
        return _OF_NAMES[main](message, known)
    return Told(*_TOLD[main](message)) if main in _TOLD else Told(message)


def _number_of_arguments(message: str) -> tuple[str, str | None]:
    found = re.match(r"The `([^`]+)` requires (.+) parameters but the actual number is (\d+)", message)
    if found is None:
        return message, None
    name, wanted, given = found.groups()
    if name in _OF_SEVERAL and int(given) > 1:
        return f"`{name}` takes {_OF_SEVERAL[name][0]}, not {given}", f"write {_OF_SEVERAL[name][1]}"
    if wanted.startswith("2n"):
        return f"`{name}` takes arguments in pairs, not {given}", f"write {name}(name, value, ..)"
    if ">" in wanted:
        least = wanted.strip("[]>= ")
        return f"`{name}` takes at least {least} argument{'' if least == '1' else 's'}, not {given}", _MORE
    counts = wanted.strip("[]").replace(" ", "").split(",")
    several = " or ".join(filter(None, [", ".join(counts[:-1]), counts[-1]]))
    plural = "" if counts == ["1"] else "s"
    arguments = f"{several} argument{plural}"
    return f"`{name}` takes {arguments}, not {given}", f"write {name}(..) with {arguments}"


def _mismatch(message: str) -> tuple[str, str | None]:
    """Types that do not fit each other: what is meant of times, dates and conditions."""
    times = re.search(r'"\(?(?:TIMESTAMP|DATE)\b', message)
    if times and _ADDED.search(message) and re.search(r'"(?:INT|STRING|INTERVAL)"', message):
        return message, "add an interval to a time: t + INTERVAL '1' DAY, t - INTERVAL '90' MINUTE"
    if times and '"INT"' in message and "binary operator" in message:
        return message, "write a time in quotes: DATE '2024-01-31', TIMESTAMP '2024-01-31 12:00:00'"
    if '"BOOLEAN"' in message and '"INT"' in message:
        return message, "write a condition, such as a comparison: n <> 0"
    if _OF_A_LIST.search(message):
        return (
            message,
            "members of a list have numbers from 0: list[0]; of structs in a list take transform(list, x -> x.member)",
        )
    return message, None


def _type_of_others(message: str) -> tuple[str, str | None]:
    found = re.match(r'Unsupported data type "(\w+)', message)
    name = None if found is None else _TYPES_ELSEWHERE.get(found[1].casefold())
    return message, None if name is None else f"write {name}"


def _not_grouped(message: str) -> tuple[str, str | None]:
    found = re.match(r'The non-aggregating expression (".*") is based on', message)
    hint = (
        "write window.end - interval 1 millisecond, or call it in a query around this one"
        if "window_time(" in message
        else None
    )
    return (message if found is None else f"{found[1]} is neither grouped by nor aggregated"), hint


def _unnamed(message: str) -> tuple[str, str | None]:
    if message.startswith("Invalid time travel spec"):
        return "an input cannot be read as of the time of a row", _AS_OF
    if message.startswith("The duration and time inputs to window"):
        return message, "write it as a text: window(event_time, '1 hour')"
    if message.startswith("Operation not allowed: Values must be specified"):
        return message, "leave it out: a table takes no options"
    found = re.search(r"Intervals greater than a month is not supported \((.*)\)", message)
    if found is None:
        return message, None
    return (
        f"a window lasts as long everywhere, unlike '{found[1]}'",
        "group by date_trunc('month', ..), or give it days",
    )


def _failed(_: str) -> tuple[str, str | None]:
    return "Spark fails on this query by itself", "write it in another way, with a query in FROM for what one builds on"


_TOLD: Mapping[str, Callable[[str], tuple[str, str | None]]] = {
    "DATATYPE_MISMATCH": _mismatch,
    "INTERNAL_ERROR": _failed,
    "MISSING_AGGREGATION": _not_grouped,
    "UNSUPPORTED_DATATYPE": _type_of_others,
    _UNNAMED: _unnamed,
    "WRONG_NUM_ARGS": _number_of_arguments,
}
_OF_NAMES: Mapping[str, Callable[[str, KnownNames], Told]] = {
    "AMBIGUOUS_REFERENCE": ambiguous,
    "CANNOT_RESOLVE_STAR_EXPAND": unknown_star,
    "FIELD_NOT_FOUND": unknown_member,
    "UNRESOLVED_COLUMN": unknown_column,
    "UNRESOLVED_USING_COLUMN_FOR_JOIN": unknown_using_column,
}
