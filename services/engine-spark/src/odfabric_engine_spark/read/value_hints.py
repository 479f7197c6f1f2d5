"""What to write so that a text which is no value of its column is read.

Owns the way out of every refusal of a cell: which kind of text it seems to be, and the option or the preprocess query that reads
it. Invariant: nothing is read by a guess, and a hint names what a person can write in the manifest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from itertools import chain

import pyarrow as pa
from pyarrow import types

from odfabric.formats.time_formats import RFC3339
from odfabric.formats.time_guess import epoch_function, formats_of, is_day_serial
from odfabric_engine_spark.read.text_values import TextFormats
from odfabric_engine_spark.spark_types import spark_type

NULL_WORDS = frozenset(
    [
        "na",
        "n/a",
        "#n/a",
        "n.a.",
        "null",
        "(null)",
        "<null>",
        "none",
        "nil",
        "nan",
        "nat",
        "missing",
        "unknown",
        "undefined",
        "tbd",
        "-",
        "--",
        "---",
        "–",
        "—",
        "?",
        ".",
        "..",
        "…",
        "*",
        "x",
    ]
) | {"\\n"}
"""Texts that writers put where there is no value, in lower case."""

_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?", re.ASCII)
_GROUPS = re.compile(
    r"[+-]?\d{1,3}(?P<group>[,.'’_ \u00a0\u202f\u2009])\d{2,3}(?:(?P=group)\d{2,3})*(?P<rest>[.,]\d+)?", re.ASCII
)
_FRACTION = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+)", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_EXPONENT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)[eE][+-]?\d{1,4}", re.ASCII)
_HEXADECIMAL = re.compile(r"[+-]?0[xX][0-9a-fA-F]+", re.ASCII)
_NUMBER_WITH_MORE = re.compile(r"[^\d]{0,8}\d[\d.,' \u00a0\u202f]*[^\d]{0,8}", re.ASCII)
_TRUTHS = frozenset("t f y n yes no 1 0".split())  # noqa: SIM905
_DIGITS_MAX = 38
_SCALE_SHOWN = 4


def value_hint(text: str, arrow: pa.DataType, formats: TextFormats, *, name: str, null: str) -> str:
    """How a text is read that is no value of a type in the column `name`; `null` is the text of the step that means null."""
    words = _Words(text, arrow, formats, name, null)
    return next(chain(words.ways(), [words.left_out()]))


class _Words:
    """The ways out for one text, the fitting one first."""

    def __init__(self, text: str, arrow: pa.DataType, formats: TextFormats, name: str, null: str) -> None:
        self.text = text
        self.arrow = arrow
        self.formats = formats
        self.null = null
        self.column = name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else "`" + name.replace("`", "``") + "`"
        self.sql_type = spark_type(arrow, name).simpleString().upper()

    def ways(self) -> Iterator[str]:
        """Hints, the most likely first."""
        if self.text.strip() != self.text and self.text.strip():
            yield f"spaces stand around the value: {self.by_query(self._trimmed())}"
        if self.text.strip().lower() in NULL_WORDS or not self.text.strip():
            yield self._null()
        if types.is_boolean(self.arrow):
            yield self._truth()
        elif types.is_date(self.arrow) or types.is_timestamp(self.arrow):
            yield from self._time()
        else:
            yield from self._number()

    def by_query(self, expression: str, sql_type: str | None = None) -> str:
        """The sentence that reads the column by an expression over its text."""
        cast = f"CAST({expression} AS {sql_type or self.sql_type})"
        return f"declare the column as String, and write {cast} AS {self.column} in the preprocess query"

    def _trimmed(self) -> str:
        around = self.text.replace(self.text.strip(), "")
        if not around.strip(" "):
            return f"trim({self.column})"
        return f"trim(BOTH {_literal(''.join(sorted(set(around))))} FROM {self.column})"

    def left_out(self) -> str:
        """The sentence about rows that are no data, and about texts that nothing else is known of."""
        cast = f"try_cast({self.column} AS {self.sql_type})"
        return (
            "if the row is no data (units, a total, a remark), declare String columns and leave it out in the preprocess query: "
            f"SELECT {cast} AS {self.column}, .. FROM input WHERE {cast} IS NOT NULL"
        )

    def _null(self) -> str:
        cast = f"try_cast({self.column} AS {self.sql_type})"
        several = (
            f"declare the column as String, and write {cast} AS {self.column} in the preprocess query: "
            "every text that is no value becomes null"
        )
        if self.null or not self.text.strip():
            return f"only one text means null (`nullValue`, here {_yaml(self.null)}, and an empty cell): {several}"
        return f"if this means null, write `nullValue: {_yaml(self.text)}` in the read step; if several texts do, {several}"

    def _truth(self) -> str:
        if self.text.strip().lower() in _TRUTHS:
            return f"{self.by_query(self.column)}, which reads t, f, y, n, yes, no, 1 and 0"
        case = f"CASE {self.column} WHEN {_literal(self.text)} THEN true WHEN .. THEN false END"
        return f"declare the column as String, and write {case} AS {self.column} in the preprocess query"

    def _number(self) -> Iterator[str]:
        decimal = self._decimal_type()
        groups = _GROUPS.fullmatch(self.text)
        if groups is not None and groups["rest"] and groups["rest"][0] != groups["group"]:
            yield self._grouped(groups["group"], comma=groups["rest"][0] == ",")
        elif groups is not None and groups["group"] == "," and self.text.count(",") == 1:
            yield (
                f"if the comma separates thousands, {self.by_query(self._without(','))}; "
                f"if it is a decimal comma, {self.by_query(self._with_point(), decimal)}"
            )
        elif groups is not None and (groups["group"] != "." or self.text.count(".") > 1):
            yield self._grouped(groups["group"], comma=False)
        if _DECIMAL_COMMA.fullmatch(self.text):
            yield f"a decimal comma: {self.by_query(self._with_point(), decimal)}"
        yield from self._exact()
        if "\u2212" in self.text:
            yield f"the minus sign is U+2212: {self.by_query(self._replaced(chr(0x2212), '-'))}"
        if _HEXADECIMAL.fullmatch(self.text):
            yield f"a hexadecimal number: {self.by_query(f'conv(substring({self.column}, 3), 16, 10)')}"
        if _NUMBER_WITH_MORE.fullmatch(self.text) and not self.text.isspace():
            expression = f"regexp_replace({self.column}, '[^0-9.-]', '')"
            yield (
                f"more than a number: {self.by_query(expression, decimal)}, and look at what the signs mean "
                "(currency, percent, parentheses for a minus)"
            )

    def _exact(self) -> Iterator[str]:
        """Texts that are numbers, but none of the type."""
        column, whole = self.column, types.is_integer(self.arrow)
        if whole and (_FRACTION.fullmatch(self.text) or _EXPONENT.fullmatch(self.text)):
            rounded = self.by_query(f"round(CAST({column} AS DOUBLE))")
            yield f"the column holds integers: declare it as Float64 or Decimal, or, to round, {rounded}"
        elif whole and _WHOLE.fullmatch(self.text):
            yield "the number is out of range: declare a larger type, such as Int64 or Decimal, or String if it is a name"
        elif types.is_decimal(self.arrow) and _EXPONENT.fullmatch(self.text):
            yield f"an exponent: {self.by_query(f'CAST({column} AS DOUBLE)')}, which may round, or declare Float64"
        elif types.is_decimal(self.arrow) and (_FRACTION.fullmatch(self.text) or _WHOLE.fullmatch(self.text)):
            yield (
                f"declare the column as {self._digits()}, or, to round, declare it as String and write "
                f"CAST({column} AS {self.sql_type}) AS {column} in the preprocess query"
            )
        elif types.is_floating(self.arrow) and (_EXPONENT.fullmatch(self.text) or _WHOLE.fullmatch(self.text)):
            yield "the number is too large for the type: declare Decimal, or String"

    def _grouped(self, group: str, *, comma: bool) -> str:
        kind = {",": "commas", ".": "points"}.get(group, "spaces or other signs")
        expression = self._without(group)
        if comma:
            expression = f"replace({expression}, ',', '.')"
            kind += ", with a decimal comma"
        return f"thousands are separated by {kind}: {self.by_query(expression, self._decimal_type())}"

    def _without(self, sign: str) -> str:
        return f"replace({self.column}, {_literal(sign)}, '')"

    def _with_point(self) -> str:
        return self._replaced(",", ".")

    def _replaced(self, sign: str, by: str) -> str:
        return f"replace({self.column}, {_literal(sign)}, {_literal(by)})"

    def _decimal_type(self) -> str:
        """The type of the column where it takes what stands after a point, else a decimal."""
        if (
            types.is_integer(self.arrow)
            and re.search(r"[.,]\d+$", self.text)
            and len(re.findall("[.,]", self.text)) == 1
        ):
            return f"DECIMAL(18, {_SCALE_SHOWN})"
        return str(self.sql_type)

    def _digits(self) -> str:
        number = Decimal(self.text).as_tuple()
        scale = -int(number.exponent)
        whole = max(len(number.digits) - scale, 1)
        needed = max(scale, self.arrow.scale)
        precision = max(whole, self.arrow.precision - self.arrow.scale) + needed
        if precision > _DIGITS_MAX:
            return "String"
        return f"Decimal of precision {precision} and scale {needed}"

    def _time(self) -> Iterator[str]:
        is_date = types.is_date(self.arrow)
        yield from time_ways(self.text, self.formats, is_date=is_date)
        if epoch := epoch_function(self.text):
            count = f"{epoch}(CAST({self.column} AS BIGINT))"
            option = (
                "" if is_date or epoch != "timestamp_seconds" else "write `timestampFormat: '%s'` in the read step, or "
            )
            yield f"a count since 1970: {option}{self._as_time(count)}"
        if is_day_serial(self.text):
            day = f"timestamp_seconds(round((CAST({self.column} AS DOUBLE) - 25569) * 86400))"
            yield f"a day as spreadsheets count them: {self._as_time(day)}"
        option = "dateFormat" if is_date else "timestampFormat"
        if re.search(r"\d", self.text):
            yield f"say how times look by `{option}`, with directives such as '%d.%m.%Y'; {self.left_out()}"

    def _as_time(self, expression: str) -> str:
        cast = f"CAST({expression} AS DATE)" if types.is_date(self.arrow) else expression
        return f"declare the column as String, and write {cast} AS {self.column} in the preprocess query"


def time_ways(text: str, formats: TextFormats, *, is_date: bool) -> Iterator[str]:
    """Hints about a text in a column of dates or timestamps that seems to be a time in another format."""
    option, own = ("dateFormat", formats.date) if is_date else ("timestampFormat", formats.timestamp)
    found = formats_of(text, is_date=is_date)
    if len(found) == 1:
        yield f"`{option}: '{found[0]}'` in the read step reads it"
    elif found:
        yield f"`{option}` in the read step reads it: " + ", or ".join(f"'{each}'" for each in found)
    elif is_date and (formats_of(text, is_date=False) or formats.timestamp.millis(text) is not None):
        yield "the text has a time of day: declare the column as Timestamp"
    if not found and own.text == RFC3339 and re.match(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
        yield "no such time exists; if the row shall stay, declare the column as String and try_cast it in the preprocess query"


def json_time_hint(arrow: pa.DataType, formats: TextFormats, path: str, value: object) -> str | None:
    """How a JSON value is read that is no time of the column or member at `path`; None if nothing is known of it."""
    is_date = types.is_date(arrow)
    if isinstance(value, str):
        return next(time_ways(value, formats, is_date=is_date), None)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    function = epoch_function(str(value).partition(".")[0]) or "timestamp_seconds"
    count = f"{function}({path if isinstance(value, int) else f'CAST({path} AS BIGINT)'})"
    cast = f"CAST({count} AS DATE)" if is_date else count
    other = "timestamp_seconds" if function == "timestamp_millis" else "timestamp_millis"
    kind = "Int64" if isinstance(value, int) else "Float64"
    option = "" if is_date else "; seconds are also read by `timestampFormat: '%s'` in the read step"
    return (
        f"a count since 1970: declare it as {kind}, and write {cast} AS {path} in the preprocess query "
        f"({other}, if it counts so){option}"
    )


def _literal(text: str) -> str:
    """A text as Spark's SQL has it; signs that do not print are escaped."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + "".join(sign if sign.isprintable() else f"\\u{ord(sign):04x}" for sign in escaped) + "'"


def _yaml(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
