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

from odfabric.formats.files.time_formats import RFC3339
from odfabric.formats.files.time_guess import epoch_function, formats_of, is_day_serial
from odfabric_engine_spark.ingest.values.text_values import TextFormats
from odfabric_engine_spark.spark.frames.spark_types import spark_type

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
        "0000-00-00",
        "0000-00-00 00:00:00",
        "infinity",
        "-infinity",
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
_SHEET_ERROR = re.compile(r"#[^\d\s#][^\s#]{0,15}")
"""What spreadsheets write where a formula failed, in any language: #DIV/0!, #REF!, #WERT!."""
_TOO_NARROW = re.compile(r"#{2,}")
_CORE = re.compile(r"\d(?:[\d.,'’_ \u00a0\u202f\u2009]*\d)?", re.ASCII)
_NUMBER_WITH_MORE = re.compile(r"[^\d]{0,8}\d[\d.,' \u00a0\u202f]*[^\d]{0,8}", re.ASCII)
_ZONE_IN_BRACKETS = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.]+(?P<offset>Z|[+-]\d\d:?\d\d)?\[[A-Za-z0-9_+/-]+\]", re.ASCII)
_NAMED_ZONE = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)? ?(?:[A-Z][A-Za-z_]*/[A-Za-z0-9_+/-]+|(?![AP]M)[A-Z]{2,5})",
    re.ASCII,
)
_LEAP_SECOND = re.compile(r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:60(?:\D|$)", re.ASCII)
_LATE_HOUR = re.compile(r" ?(?:2[4-9]|[3-9]\d):\d\d(?::\d\d)?", re.ASCII)
_TRUTHS = frozenset("t f y n yes no 1 0".split())  # noqa: SIM905
_DIGITS_MAX = 38
_SCALE_SHOWN = 4


def value_hint(text: str, arrow: pa.DataType, formats: TextFormats, *, name: str, null: str) -> str:
    """How a text is read that is no value of a type in the column `name`.

    `null` is the text of the step that means null.
    """
    words = _Words(text, arrow, formats, name, null)
    return next(chain(words.ways(), [words.left_out()]))


def column_in_sql(name: str) -> str:
    """A column or member as a query names it."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else "`" + name.replace("`", "``") + "`"


class _Words:
    """The ways out for one text, the fitting one first."""

    def __init__(self, text: str, arrow: pa.DataType, formats: TextFormats, name: str, null: str) -> None:
        self.text = text
        self.arrow = arrow
        self.formats = formats
        self.null = null
        self.column = column_in_sql(name)
        self.sql_type = spark_type(arrow, name).simpleString().upper()

    def ways(self) -> Iterator[str]:
        """Hints, the most likely first."""
        if self.text.strip() != self.text and self.text.strip():
            yield f"spaces stand around the value: {self.by_query(self._trimmed())}"
        if _TOO_NARROW.fullmatch(self.text.strip()):
            yield "spreadsheets show this where a column is too narrow for its value: widen the column and export the file again"
        if self._seems_null():
            yield self._null()
        if types.is_boolean(self.arrow):
            yield self._truth()
        elif types.is_date(self.arrow) or types.is_timestamp(self.arrow):
            yield from self._time()
        else:
            yield from self._number()

    def _seems_null(self) -> bool:
        text = self.text.strip()
        return not text or text.lower() in NULL_WORDS or _SHEET_ERROR.fullmatch(text) is not None

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
        """Advice to leave out rows that are no data, for texts that nothing else explains."""
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
        if _NUMBER_WITH_MORE.fullmatch(self.text) and (core := _CORE.search(self.text)):
            yield from self._with_more(core[0])

    def _with_more(self, core: str) -> Iterator[str]:
        """A number `core` among other signs.

        What these mean for its value is kept where it is a minus.
        """
        sense = "look at what the signs mean (currency, percent)"
        source = self.column
        if "(" in self.text and ")" in self.text:
            source, sense = f"replace({source}, '(', '-')", "parentheses are read as a minus"
        elif self.text.rstrip().endswith(("-", "\u2212")):
            source = f"regexp_replace({source}, '^(.*)[-\u2212]$', '-$1')"
            sense = "a minus at the end is read as one in front"
        kept = f"regexp_replace({source}, '[^0-9.-]', '')"
        comma = f"replace(regexp_replace({source}, '[^0-9,-]', ''), ',', '.')"
        only_comma = "," in core and "." not in core
        if only_comma and re.fullmatch(r"\d{1,3},\d{3}", core):
            yield (
                f"more than a number: if the comma separates thousands, {self.by_query(kept, self._decimal_type())}; "
                f"if it is a decimal comma, {self.by_query(comma, self._more_decimal())}; {sense}"
            )
        is_comma = core.rfind(",") > core.rfind(".") and core.count(",") == 1
        expression = comma if is_comma else kept
        if core.count(".") > 1:
            expression = comma
        yield f"more than a number: {self.by_query(expression, self._more_decimal())}, and {sense}"

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
        if types.is_integer(self.arrow) and re.search(r"\d[eE][+-]?\d+$", self.text):
            return "DOUBLE"
        if (
            types.is_integer(self.arrow)
            and re.search(r"[.,]\d+$", self.text)
            and len(re.findall("[.,]", self.text)) == 1
        ):
            return f"DECIMAL(18, {_SCALE_SHOWN})"
        return str(self.sql_type)

    def _more_decimal(self) -> str:
        fraction = re.search(r"[.,]\d+\D*$", self.text)
        return f"DECIMAL(18, {_SCALE_SHOWN})" if types.is_integer(self.arrow) and fraction else str(self.sql_type)

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
        yield from self._time_with_more()
        yield from time_ways(self.text, self.formats, is_date=is_date)
        yield from self._part_of_time()
        if epoch := epoch_function(self.text):
            count = f"{epoch}(CAST({self.column} AS BIGINT))"
            option = (
                "" if is_date or epoch != "timestamp_seconds" else "write `timestampFormat: '%s'` in the read step, or "
            )
            yield f"a count since 1970: {option}{self._as_time(count)}"
        if re.fullmatch(r"-?\d{18,19}", self.text, re.ASCII):
            yield f"a count of nanoseconds since 1970: {self._as_time(f'timestamp_micros(CAST({self.column} AS BIGINT) DIV 1000)')}"
        elif re.fullmatch(r"-?\d{9,11}\.\d+", self.text, re.ASCII):
            yield f"a count since 1970: {self._as_time(f'timestamp_seconds(CAST({self.column} AS DECIMAL(20, 6)))')}"
        if is_day_serial(self.text):
            day = f"timestamp_seconds(round((CAST({self.column} AS DOUBLE) - 25569) * 86400))"
            yield f"a day as spreadsheets count them: {self._as_time(day)}"
        option = "dateFormat" if is_date else "timestampFormat"
        if re.search(r"\d", self.text):
            yield f"say how times look by `{option}`, with directives such as '%d.%m.%Y'; {self.left_out()}"

    def _time_with_more(self) -> Iterator[str]:
        """Times with a named zone, or with seconds and hours that calendars rarely have."""
        column = self.column
        if types.is_date(self.arrow):
            return
        if found := _ZONE_IN_BRACKETS.fullmatch(self.text):
            plain = f"split_part({column}, '[', 1)" if found["offset"] else f"translate({column}, '[]', ' ')"
            yield f"the zone has a name: {self._as_time(f'CAST({plain} AS TIMESTAMP)')}"
        elif _NAMED_ZONE.fullmatch(self.text):
            yield f"the zone has a name: {self._as_time(f'CAST({column} AS TIMESTAMP)')}, which reads UTC, CET and Europe/Paris"
        elif _LEAP_SECOND.search(self.text):
            expression = f"regexp_replace({column}, ':60', ':59')"
            yield f"a leap second, which no timestamp has: {self._as_time(f'CAST({expression} AS TIMESTAMP)')}"
        elif _LATE_HOUR.fullmatch(self.text):
            yield "an hour from 24 on belongs to the next day, and no day is named: declare the column as String"

    def _part_of_time(self) -> Iterator[str]:
        """Years, months, quarters and weeks are read as their first day."""
        column, text = self.column, self.text
        first = None
        if re.fullmatch(r"(?:1[5-9]|2[01])\d\d(?:-(?:0[1-9]|1[0-2]))?", text, re.ASCII):
            kind, first = ("a month" if "-" in text else "a year"), f"CAST({column} AS DATE)"
        elif re.fullmatch(r"\d{4}-?Q[1-4]", text, re.ASCII):
            kind, first = (
                "a quarter",
                f"make_date(CAST(left({column}, 4) AS INT), 3 * CAST(right({column}, 1) AS INT) - 2, 1)",
            )
        elif re.fullmatch(r"\d{4}-?W(?:0[1-9]|[1-4]\d|5[0-3])", text, re.ASCII):
            kind = "an ISO week"
            first = (
                f"date_add(trunc(make_date(CAST(left({column}, 4) AS INT), 1, 4), 'WEEK'), "
                f"7 * (CAST(right({column}, 2) AS INT) - 1))"
            )
        if first is not None:
            cast = first if types.is_date(self.arrow) else f"CAST({first} AS TIMESTAMP)"
            yield f"{kind}, not a day: to take its first day, {self._as_text(cast)}"

    def _as_text(self, expression: str) -> str:
        return f"declare the column as String, and write {expression} AS {self.column} in the preprocess query"

    def _as_time(self, expression: str) -> str:
        cast = f"CAST({expression} AS DATE)" if types.is_date(self.arrow) else expression
        return f"declare the column as String, and write {cast} AS {self.column} in the preprocess query"


def time_ways(text: str, formats: TextFormats, *, is_date: bool) -> Iterator[str]:
    """Hints on a text in a date or timestamp column that looks like another format."""
    option, own = ("dateFormat", formats.date) if is_date else ("timestampFormat", formats.timestamp)
    found = formats_of(text, is_date=is_date)
    if len(found) == 1:
        yield f"`{option}: '{found[0]}'` in the read step reads it"
    elif found:
        yield f"`{option}` in the read step reads it: " + ", or ".join(f"'{each}'" for each in found)
    elif is_date and (formats_of(text, is_date=False) or formats.timestamp.millis(text) is not None):
        yield "the text has a time of day: declare the column as Timestamp"
    if not found and own.text == RFC3339 and re.match(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
        yield (
            "no such time is read; if the row shall stay, declare the column as String and try_cast it in the preprocess query, "
            "which makes it null"
        )


def json_time_hint(arrow: pa.DataType, formats: TextFormats, path: str, value: object) -> str | None:
    """How a JSON value is read that is no time of the column or member at `path`.

    None if nothing is known of it.
    """
    is_date = types.is_date(arrow)
    if isinstance(value, str):
        return next(time_ways(value, formats, is_date=is_date), None)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    if is_date and (calendar := _calendar_number(value, path)):
        return calendar
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


def _calendar_number(value: int | float | Decimal, path: str) -> str | None:
    """How to read an integer that looks like a date, year or day count, else None."""
    text = str(value)
    if formats_of(text, is_date=True):
        expression, kind = f"to_date(CAST({path} AS STRING), 'yyyyMMdd')", "a date without separators"
    elif re.fullmatch(r"(?:19|20)\d\d", text):
        expression, kind = f"make_date({path}, 1, 1)", "a year"
    elif re.fullmatch(r"-?\d{1,5}", text):
        expression, kind = f"date_from_unix_date(CAST({path} AS INT))", "a count of days since 1970"
    else:
        return None
    return f"{kind}: declare it as Int64, and write {expression} AS {path} in the preprocess query"


def _literal(text: str) -> str:
    """A text as Spark's SQL has it; signs that do not print are escaped."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + "".join(sign if sign.isprintable() else f"\\u{ord(sign):04x}" for sign in escaped) + "'"


def _yaml(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
