"""Queries that were written for another engine, in Spark SQL.

Owns which constructs of Flink, RisingWave and DataFusion mean the same in Spark, and how windows of event time are written there.
Invariant: only constructs on the list are translated, anything else is named and left to the author; nothing here runs, and anyone who
offers a translation has it judged first (`validate_query`). Where the meaning differs in a corner, a note says so.
Source: docs/engine.md#operator-classes; docs/engine.md#why-not-structured-streaming.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import sqlglot
from sqlglot import exp, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, SqlglotError

from odfabric_engine_spark.sql.refusal import shown

TEXT_BYTES_MAX = 64 * 1024
"""Longest statement that is translated; longer ones are asked to be rewritten by hand."""


class Flink(Dialect):
    """Standard SQL with names in backticks."""

    class Tokenizer(tokens.Tokenizer):
        """Double quotes are no names in Flink."""

        IDENTIFIERS: ClassVar = ["`"]


DIALECTS: dict[str, str | type[Dialect]] = {"flink": Flink, "risingwave": "risingwave", "datafusion": "postgres"}
"""Engines of the ecosystem beside Spark, and the grammar that reads their queries."""

# fmt: off
_SAME = frozenset([
    "Select", "Union", "From", "Join", "Where", "Having", "Group", "CTE", "With", "Table", "TableAlias",
    "Subquery", "Column", "Identifier", "Star", "Alias", "Paren", "Tuple", "Literal", "Boolean", "Null",
    "Interval", "Var", "DataType", "DataTypeParam", "Cast", "Case", "If", "Neg", "Not", "And", "Or", "EQ", "NEQ",
    "GT", "GTE", "LT", "LTE", "NullSafeEQ", "NullSafeNEQ", "Is", "Between", "In", "Like", "ILike", "Add", "Sub",
    "Mul", "DPipe", "Distinct", "Filter", "Window", "WindowSpec", "Partition", "Order", "Ordered", "Sum", "Count",
    "Min", "Max", "Avg", "Coalesce", "Nullif", "Abs", "Upper", "Lower", "Length", "Substring", "Trim", "Floor",
    "Ceil", "Greatest", "Least", "RowNumber", "Rank", "DenseRank", "Lag", "Lead", "TimestampTrunc", "DateTrunc",
    "Extract",
])
# fmt: on
"""Constructs that mean the same there and in Spark, by their classes in sqlglot."""
_EXTRACTED = frozenset({"YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE"})
_REASONS = {
    "Div": "a division of integers gives a fraction in Spark: write `a div b`, or cast one side",
    "Mod": "the sign of a remainder is another one in some engines: write it for Spark",
    "Concat": "concat of NULL is NULL in Spark: write it with coalesce",
    "Limit": "LIMIT over all rows cannot run incrementally",
    "Lateral": "a temporal join is written JOIN LATERAL (SELECT .. ORDER BY event_time DESC LIMIT 1) in Spark",
    "Version": "a temporal join is written JOIN LATERAL (SELECT .. ORDER BY event_time DESC LIMIT 1) in Spark",
}
_GROUP_WINDOWS = ("TUMBLE", "HOP")
_CALENDAR = frozenset({"MONTH", "QUARTER", "YEAR"})
_WINDOW_COLUMNS = {"window_start": "START", "window_end": "END", "window_time": "ROWTIME"}
_MONTH_NOTE = "windows of months are groups that are corrected as they grow, not emitted once when the month is over"
_AVG_NOTES = {
    "flink": "avg of integers gives a fraction in Spark",
    "risingwave": "avg of integers gives a floating point number in Spark, not a decimal",
}
_TEXT_NOTE = (
    "floating point numbers, decimals, times and truth values may be other texts in Spark: 1.0 rather than 1, no zeros behind seconds,"
    " true rather than TRUE"
)
_DECIMAL_NOTE = "a number with a point is a decimal in Spark, not a floating point number: 1.1 is written 1.1D for that"
_FLOOR_NOTE = "floor and ceil give whole numbers in Spark, of floating point numbers too"
_SESSION = "sessions are written session_window(event_time, '30 minutes') in GROUP BY in Spark, and session_window.start and .end in SELECT"
_LOOK_UP_NOTE = "the table of versions stands in `temporalTables` with its primary key, and its event time has the name of the time it is joined by"
_MADE_HERE = "made here"
"""A mark of nodes that are Spark's already."""
_ROUNDED_NOTE = "a fraction that is cast to an integer is cut in Spark, not rounded"
_WHOLE_NOTE = "the result is that over all rows of the inputs, not over one interval at a time"


@dataclass(frozen=True, slots=True)
class Translation:
    """A statement in Spark SQL, and where it differs in meaning."""

    query: str
    notes: tuple[str, ...]


class Untranslatable(Exception):
    """Why there is no sound translation; line and column from 1 where known."""

    def __init__(self, reason: str, *, line: int | None = None, column: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.column = column


def translate(query: str, engine: str, *, plain: Collection[str] = ()) -> Translation:
    """The statement in Spark SQL. Raises Untranslatable; `engine` is one of DIALECTS.

    `plain` are columns of tables that have the same texts everywhere, texts and integers: they need no note.
    """
    if len(query.encode("utf-8", "replace")) > TEXT_BYTES_MAX:
        raise Untranslatable(f"only statements of up to {TEXT_BYTES_MAX} bytes are translated")
    dialect = Dialect.get_or_raise(DIALECTS[engine])
    try:
        statements = sqlglot.parse(_plain_window_tables(query, dialect), read=dialect)
        if len(statements) != 1 or not isinstance(statements[0], exp.Query):
            raise Untranslatable("one query, SELECT .. or WITH .. SELECT .., is translated")
        tree = statements[0]
        notes = list(dict.fromkeys([*_rewritten(tree), *_looked_up(tree)]))
        _check(tree)
        _check_corners(tree, engine)
        notes += _notes(tree, engine, plain)
        text = tree.sql(dialect="spark", pretty=True, unsupported_level=ErrorLevel.RAISE)
        return Translation(text, tuple(notes))
    except SqlglotError as error:
        if any(word.upper() == "SESSION" and behind == "(" for word, behind in pairwise(_words(query, dialect))):
            raise Untranslatable(_SESSION) from None
        first = (getattr(error, "errors", None) or [{}])[0]
        raise Untranslatable(
            f"it cannot be read: {first.get('description') or 'a syntax error'}",
            line=first.get("line"),
            column=first.get("col"),
        ) from None
    except RecursionError:
        raise Untranslatable("it is nested too deeply") from None


def _notes(tree: exp.Query, engine: str, plain: Collection[str]) -> Iterator[str]:
    """Where constructs on the list differ in a corner."""
    casts = list(tree.find_all(exp.Cast))
    if engine == "risingwave" and any(each.to.is_type(*exp.DataType.INTEGER_TYPES) for each in casts):
        yield _ROUNDED_NOTE
    made_here = {each.alias for each in tree.find_all(exp.Alias)}
    made_here |= {column.name for each in tree.find_all(exp.TableAlias) for column in each.columns}
    if not all(_reads_the_same(each, set(plain) - made_here) for each in _made_texts(tree, engine)):
        yield _TEXT_NOTE
    if engine == "datafusion" and any(True for _ in tree.find_all(exp.Join, exp.Group, exp.AggFunc, exp.Window)):
        yield _WHOLE_NOTE
    if engine == "datafusion" and any(_is_decimal(each) for each in tree.find_all(exp.Literal)):
        yield _DECIMAL_NOTE
    if engine in _AVG_NOTES and tree.find(exp.Avg):
        yield _AVG_NOTES[engine]
    if tree.find(exp.Floor, exp.Ceil):
        yield _FLOOR_NOTE


def _made_texts(tree: exp.Query, engine: str) -> Iterator[exp.Expr]:
    """Values that become texts. `||` of Flink takes texts only."""
    for each in tree.find_all(exp.Cast, exp.DPipe):
        if isinstance(each, exp.DPipe):
            yield from () if engine == "flink" else (each.left, each.right)
        elif isinstance(each, exp.Cast) and each.to.is_type(*exp.DataType.TEXT_TYPES):
            yield each.this


def _reads_the_same(value: exp.Expr, plain: Collection[str]) -> bool:
    """Whether a value is the same text in all engines.

    False where its type is not known.
    """
    match value:
        case exp.Literal():
            return bool(value.is_string or value.name.isdecimal())
        case exp.Null() | exp.Count() | exp.Length():
            return True
        case exp.Column():
            return value.name in plain
        case exp.Cast() if not value.to.is_type(*exp.DataType.TEXT_TYPES):
            return bool(value.to.is_type(*exp.DataType.INTEGER_TYPES))
        case exp.Cast() | exp.Paren() | exp.Neg() | exp.Upper() | exp.Lower() | exp.Substring() | exp.Trim():
            return _reads_the_same(value.this, plain)
        case exp.DPipe() | exp.Coalesce():
            parts = (value.this, value.args.get("expression"), *value.expressions)
            return all(_reads_the_same(each, plain) for each in parts if each is not None)
        case _:
            return False


def _is_decimal(number: exp.Literal) -> bool:
    return not number.is_string and "." in number.name and "E" not in number.name.upper()


def _words(query: str, dialect: Dialect) -> list[str]:
    try:
        return [token.text for token in dialect.tokenize(query)]
    except SqlglotError:
        return []


def _plain_window_tables(query: str, dialect: Dialect) -> str:
    """Flink's `TABLE(TUMBLE(TABLE t, DESCRIPTOR(time), ..))` as a plain call."""
    found = dialect.tokenize(query)
    words = [token.text.upper() for token in found]
    dropped: set[int] = set()
    for place, word in enumerate(words):
        if word in _GROUP_WINDOWS and words[place - 2 : place] == ["TABLE", "("]:
            dropped |= {place - 2, place - 1, _closing(words, place + 1) + 1}
        elif word == "TABLE" and words[place - 1 : place] == ["("] and words[place - 2] in _GROUP_WINDOWS:
            dropped.add(place)
        elif word == "DESCRIPTOR" and words[place + 1 : place + 2] == ["("] and words[place + 3 : place + 4] == [")"]:
            dropped |= {place, place + 1, place + 3}
    if not dropped:
        return query
    kept = list(query)
    for place in dropped:
        if place < len(found):
            for position in range(found[place].start, found[place].end + 1):
                kept[position] = " "
    return "".join(kept)


def _closing(words: Sequence[str], opening: int) -> int:
    """The parenthesis that closes the one at `opening`, or the end."""
    depth = 0
    for place in range(opening, len(words)):
        depth += {"(": 1, ")": -1}.get(words[place], 0)
        if depth == 0:
            return place
    return len(words)


def _rewritten(tree: exp.Query) -> Iterator[str]:
    """Puts Spark's windows into the place of group windows and window tables.

    Yields notes.
    """
    for select in list(tree.find_all(exp.Select)):
        calls = [each for each in select.find_all(exp.Anonymous) if each.parent_select is select]
        for call in calls:
            name = str(call.this).upper()
            kind, _, bound = name.partition("_")
            if kind not in _GROUP_WINDOWS:
                continue
            if isinstance(call.parent, exp.Table):
                yield from _window_table(select, call.parent, call, kind)
            else:
                text, notes = _window(call.expressions, kind, bound)
                call.replace(text)
                yield from notes


def _window_table(select: exp.Select, table: exp.Table, call: exp.Anonymous, kind: str) -> Iterator[str]:
    """`FROM tumble(t, time, size) GROUP BY window_start`: the table by a window."""
    source, *arguments = call.expressions
    group = select.args.get("group") or exp.Group()
    keys = list(group.expressions)
    windows = [key for key in keys if isinstance(key, exp.Column) and key.name.lower() in _WINDOW_COLUMNS]
    if not windows or not isinstance(source, exp.Column | exp.Table):
        raise Untranslatable("a window table is translated where the query groups by window_start or window_end")
    window, notes = _window(arguments, kind, "")
    group.set("expressions", [window, *(key for key in keys if key not in windows)])
    for column in list(select.find_all(exp.Column)):
        bound = _WINDOW_COLUMNS.get(column.name.lower())
        if bound is not None and column.parent_select is select:
            value, _ = _window(arguments, kind, bound)
            named = isinstance(column.parent, exp.Select)
            column.replace(exp.alias_(value, column.name) if named else value)
    alias = table.args.get("alias")
    table.replace(exp.Table(this=source.this.copy(), alias=alias.copy() if alias else None))
    yield from notes


def _window(arguments: Sequence[exp.Expr], kind: str, bound: str) -> tuple[exp.Expr, list[str]]:
    """Spark's expression for a window (`bound` empty), or its start, end, last ms."""
    sizes = [_interval(each) for each in arguments[1:]]
    if len(sizes) != len(_GROUP_WINDOWS[: _GROUP_WINDOWS.index(kind) + 1]):
        raise Untranslatable(f"{kind} with other arguments than a time and its intervals is not translated")
    time = arguments[0].sql(dialect="spark")
    number, unit = sizes[-1]
    if unit in _CALENDAR:
        if kind != "TUMBLE" or number != "1":
            raise Untranslatable(f"Spark has no windows of {number} {unit.lower()}")
        start, notes = f"date_trunc('{unit}', {time})", [_MONTH_NOTE]
        end = f"{start} + INTERVAL '{1 if unit != 'QUARTER' else 3}' {unit if unit != 'QUARTER' else 'MONTH'}"
    else:
        # TUMBLE has a size; HOP has a slide, then a size, which Spark wants the other way round.
        texts = ", ".join(f"'{n} {u.lower()}'" for n, u in reversed(sizes))
        start, end, notes = "window.start", "window.end", []
        if not bound:
            return sqlglot.parse_one(f"window({time}, {texts})", read="spark"), notes
    forms = {"": start, "START": start, "END": end, "ROWTIME": f"{end} - INTERVAL '1' MILLISECOND"}
    if bound not in forms:
        raise Untranslatable(f"{kind}_{bound} has no form in Spark")
    return sqlglot.parse_one(forms[bound], read="spark"), notes


def _interval(value: exp.Expr) -> tuple[str, str]:
    """The number and the unit of an interval that is a constant."""
    if not isinstance(value, exp.Interval) or not isinstance(value.this, exp.Literal):
        raise Untranslatable("the size of a window is a constant interval")
    number, _, rest = str(value.this.this).strip().partition(" ")
    unit = (value.text("unit") or rest).upper().rstrip("S")
    if not number.isdecimal() or unit not in {"SECOND", "MINUTE", "HOUR", "DAY", "WEEK", *_CALENDAR}:
        raise Untranslatable(f"an interval of {shown(_written(value))} is not translated")
    return number, unit


def _looked_up(tree: exp.Query) -> Iterator[str]:
    """Puts temporal joins in the place of joins FOR SYSTEM_TIME AS OF; yields notes.

    Whether they compare the primary key is judged later.
    """
    for join in list(tree.find_all(exp.Join)):
        table, condition = join.this, join.args.get("on")
        version = table.args.get("version")
        if version is None:
            continue
        if not isinstance(version.expression, exp.Column) or str(version.args.get("kind")).upper() != "AS OF":
            raise Untranslatable(_REASONS["Version"])
        if join.side.upper() not in ("", "LEFT") or condition is None or not _compares_columns(condition):
            raise Untranslatable(f"{_REASONS['Version']}; only keys that are equal are looked up")
        name = exp.to_identifier(table.alias_or_name, quoted=True)
        plain = exp.Table(this=table.this.copy(), alias=exp.TableAlias(this=name.copy()))
        own_time = exp.Column(this=version.expression.this.copy(), table=name.copy())
        versions = exp.select("*").from_(plain).where(condition.copy(), own_time <= version.expression.copy())
        versions = versions.order_by(own_time.desc()).limit(1)
        lateral = exp.Lateral(this=exp.Subquery(this=versions), alias=exp.TableAlias(this=name))
        lateral.meta[_MADE_HERE] = True
        join.set("this", lateral)
        join.set("on", exp.true())
        yield _LOOK_UP_NOTE


def _compares_columns(condition: exp.Expr) -> bool:
    """Whether a condition only equates columns of named tables."""
    if isinstance(condition, exp.And):
        return _compares_columns(condition.left) and _compares_columns(condition.right)
    sides = (condition.left, condition.right) if isinstance(condition, exp.EQ) else ()
    return bool(sides) and all(isinstance(each, exp.Column) and each.table for each in sides)


def _check(tree: exp.Query) -> None:
    """Raises Untranslatable for the first construct not known to be equivalent."""
    for node in tree.walk(prune=lambda each: _MADE_HERE in each.meta):
        if _MADE_HERE in node.meta:
            continue
        name = type(node).__name__
        if name in _REASONS:
            raise Untranslatable(_REASONS[name])
        if (isinstance(node, exp.Anonymous) and str(node.this).lower() == "window") or isinstance(node, exp.Dot):
            continue
        if name not in _SAME:
            raise Untranslatable(f"{shown(_written(node))} is not known to mean the same in Spark")
        if isinstance(node, exp.Extract) and node.name.upper() not in _EXTRACTED:
            raise Untranslatable(f"EXTRACT({node.name} ..) counts otherwise in Spark")


def _check_corners(tree: exp.Query, engine: str) -> None:
    """Raises Untranslatable for listed functions that differ for some arguments."""
    for node in tree.walk():
        if engine == "flink" and isinstance(node, exp.Greatest | exp.Least):
            raise Untranslatable(
                f"{shown(_written(node))} is NULL in Flink if any argument is, which Spark passes over"
            )
        if engine != "flink" and isinstance(node, exp.Substring) and not _counts_from_one(node):
            raise Untranslatable(
                f"{shown(_written(node))} counts from the end in Spark where the start is below 1: write it with a number above 0"
            )


def _counts_from_one(text: exp.Substring) -> bool:
    start = text.args.get("start")
    return isinstance(start, exp.Literal) and not start.is_string and start.this.isdecimal() and int(start.this) > 0


def _written(node: exp.Expr) -> str:
    return node.sql(unsupported_level=ErrorLevel.IGNORE) or type(node).__name__
