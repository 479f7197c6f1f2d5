"""Syntax errors: what the author probably means, in Spark SQL.

Owns the forms that people bring from other engines, and usual slips, known by the words around the place. Invariant: nothing is refused or
accepted by what is found here, it only makes the hint of a text that the parser has refused. Not here: functions of other engines
(`functions_of_other_engines`), whole queries of theirs (`dialects`), what the analyser refuses (`spark_errors`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from odfabric_engine_spark.sql.corrections.functions_of_other_engines import ELSEWHERE, TABLES_OF_WINDOWS
from odfabric_engine_spark.sql.refusal import shown
from odfabric_engine_spark.sql.source_positions import Word, line_and_column, offset_of, words_of

_RESULT = "its result is what the dataset gets"
_CREATE = (
    f"write the SELECT alone: {_RESULT}; a step between is an item of `queries` with an alias, or WITH x AS (SELECT ..)"
)
_CHANGE = (
    "a query changes no rows of its inputs: SELECT what they shall be, with CASE WHEN for values and WHERE for rows"
)
_ALONE = "leave it out: a statement is one query, SELECT .. or WITH .. SELECT .."
_STATEMENTS: Mapping[str, str] = {
    **dict.fromkeys(("create", "replace", "cache"), _CREATE),
    "insert": f"write the SELECT alone: {_RESULT}",
    **dict.fromkeys(("update", "delete", "merge"), _CHANGE),
    **dict.fromkeys(
        (
            "drop",
            "alter",
            "truncate",
            "set",
            "reset",
            "use",
            "show",
            "describe",
            "desc",
            "declare",
            "begin",
            "grant",
            "revoke",
        ),
        _ALONE,
    ),
    **dict.fromkeys(("refresh", "analyze", "load", "copy", "commit", "call", "execute", "msck", "optimize"), _ALONE),
    "explain": f"{_ALONE}; what it does is shown by `odf engine validate`",
}
"""Statements that are no queries, by their first word."""

_FIRST_ROWS = "take the first rows in FROM: select * from (select .. order by .. limit 10)"
_MATCHES = "write `text RLIKE 'pattern'` for a regular expression, `text LIKE 'x%'` for one with % and _"
_SIGNS = frozenset("<>=!")
_QUANTIFIERS = {"all": "all", "any": "any", "some": "any"}
_GROUPED = {
    **dict.fromkeys(("string_agg", "listagg", "group_concat"), "listagg(text, ',') WITHIN GROUP (ORDER BY ..)"),
    **dict.fromkeys(
        ("array_agg", "collect_list", "list"),
        "sort_array(collect_list(..)), or of another order array_sort(collect_list(struct(..)))",
    ),
}
"""Aggregate functions that take an order within their brackets elsewhere."""
_KEYWORDS = (
    *(
        "select",
        "from",
        "where",
        "group",
        "having",
        "order",
        "join",
        "inner",
        "outer",
        "left",
        "right",
        "cross",
        "union",
    ),
    *(
        "intersect",
        "except",
        "limit",
        "distinct",
        "between",
        "null",
        "case",
        "when",
        "then",
        "else",
        "values",
        "lateral",
    ),
    *("partition", "interval", "with", "qualify", "window", "exists", "like", "following", "preceding", "unbounded"),
)
_KEYWORD_LIKENESS_MIN = 0.75
_KEYWORD_CHARACTERS_MAX = 12
_BEHIND = frozenset(
    [
        "and",
        "or",
        "not",
        "by",
        "on",
        "where",
        "having",
        "in",
        "like",
        "between",
        "then",
        "when",
        "else",
        ",",
        "=",
        "<",
        ">",
        "+",
        "*",
        "from",
        "join",
    ]
)
"""Words that something follows."""
_CLAUSES = "clauses stand in this order, each once: SELECT, FROM, JOIN .. ON, WHERE, GROUP BY, HAVING, QUALIFY"
_OF_CLAUSES = frozenset({"select", "from", "join", "where", "group", "having", "qualify"})
_IF = "write if(condition, then, else), or CASE WHEN condition THEN value ELSE value END"
_COMPARISONS = {"=<": "<=", "=>": ">=", "><": "<>", "==": "="}
_NAME = re.compile(r"[a-z_]\w*")
_WORDS_BEFORE_THEN = 8
"""Among so many words before THEN a WHEN is looked for."""
_TYPES = {
    ("double", "precision"): "double",
    ("character", "varying"): "string",
    ("timestamp", "without"): "timestamp",
    ("timestamp", "with"): "timestamp",
}
"""The first two words of types of other engines, and the type of Spark."""


@dataclass(frozen=True, slots=True)
class _Stop:
    """Words of a statement, and where among them the parser stopped.

    Behind them all at its end.
    """

    text: str
    words: Sequence[Word]
    at: int

    def word(self, beside: int = 0) -> str:
        """A word so far behind the place, or before it; empty beyond both ends."""
        at = self.at + beside
        return self.words[at].known_by if 0 <= at < len(self.words) else ""

    def written(self, beside: int = 0) -> str:
        """The same as it is written."""
        at = self.at + beside
        return self.text[self.words[at].begin : self.words[at].end] if 0 <= at < len(self.words) else ""

    def function(self) -> str:
        """The name before the bracket that is open at the place."""
        opened = self.opened()
        return self.words[opened - 1].known_by if opened else ""

    def opened(self) -> int | None:
        """The word that opens the innermost bracket around the place."""
        depth = 0
        for at in range(min(self.at, len(self.words)) - 1, -1, -1):
            depth += {")": 1, "(": -1}.get(self.words[at].known_by, 0)
            if depth < 0:
                return at
        return None


def other_statement(text: str) -> tuple[Word, str] | None:
    """The word that makes a text no query, first or behind WITH, and the remedy."""
    depth, words = 0, list(words_of(text))
    for at, word in enumerate(words):
        begins = at == 0 or (words[0].known_by == "with" and depth == 0 and words[at - 1].known_by == ")")
        if begins and word.known_by in _STATEMENTS and text[word.begin] != "`":
            return word, _STATEMENTS[word.known_by]
        depth += {"(": 1, ")": -1}.get(word.known_by, 0)
    return None


def syntax_hint(text: str, line: int | None, column: int | None, relations: Collection[str] = ()) -> str | None:
    """What to write where the parser stopped, if that is known.

    `relations` are the names that FROM may have.
    """
    if line is None or column is None:
        return None
    offset = offset_of(text, line, column)
    words = list(words_of(text))
    stop = _Stop(text, words, next((at for at, word in enumerate(words) if word.end > offset), len(words)))
    found = (rule(stop) for rule in _RULES)
    return next((hint for hint in found if hint), None) or _slashed_table(stop, relations)


def _top(stop: _Stop) -> str | None:
    return ELSEWHERE["top"] if stop.word(-1) == "top" and stop.word(-2) in ("select", "distinct", "all") else None


def _double_quotes(stop: _Stop) -> str | None:
    for beside in (0, 1):
        written = stop.written(beside)
        if written[:1] == '"' and len(written) > 2 and written[-1] == '"':
            return f"a name that is quoted stands in backticks, `{shown(written[1:-1])}`: double quotes make a text"
    return None


def _quantified(stop: _Stop) -> str | None:
    """A comparison with all or any rows of a subquery."""
    quantifier = _QUANTIFIERS.get(stop.word(-1))
    signs = "".join(reversed(list(_signs_before(stop, -2))))
    if quantifier is None or not signs or stop.word() != "(":
        return None
    said = f"there is no {signs} {stop.word(-1).upper()}"
    if signs in ("=", "==") and quantifier == "any":
        return f"{said}: write IN (SELECT ..)"
    if signs in ("<>", "!=") and quantifier == "all":
        return f"{said}: write NOT IN (SELECT ..)"
    if signs[0] not in "<>" or signs == "<>":
        return f"{said}: compare with both (SELECT min(..) FROM ..) and (SELECT max(..) FROM ..)"
    extreme = "max" if (signs[0] == ">") == (quantifier == "all") else "min"
    if quantifier == "any":
        return f"{said}: write {signs} (SELECT {extreme}(..) FROM ..), which keeps the same rows"
    return (
        f"{said}: write {signs} (SELECT {extreme}(..) FROM ..); {extreme} passes over nulls, where ALL keeps no row, and is null of no "
        "rows, where ALL keeps every row: NOT EXISTS (SELECT 1 FROM .. WHERE (.. comparison ..) IS NOT TRUE) says the same as ALL"
    )


def _signs_before(stop: _Stop, beside: int) -> Iterator[str]:
    while (sign := stop.word(beside)) in _SIGNS:
        yield sign
        beside -= 1


def _windows(stop: _Stop) -> str | None:
    """Flink's tables of windows."""
    called = [stop.word(beside) for beside in (-1, 0) if stop.word(beside + 1) == "("]
    return next((ELSEWHERE[name] for name in (*called, stop.function()) if name in TABLES_OF_WINDOWS), None)


def _brackets(stop: _Stop) -> str | None:
    if stop.word() != "[":
        return None
    return f"a name that is quoted stands in backticks: `{shown(stop.word(1))}`; a list is array(..)"


def _comments(stop: _Stop) -> str | None:
    if stop.word() == "#":
        return "a comment begins with --"
    if stop.word() == "/" and "/" in (stop.word(-1), stop.word(1)):
        return "a comment begins with --; whole numbers are divided by `a div b`"
    return None


def _operators(stop: _Stop) -> str | None:
    around = (stop.word(-1), stop.word(), stop.word(1))
    if stop.word() == "&" and "&" in (around[0], around[2]):
        return "write AND"
    if stop.word() in (">", "-") and around[0] in (">", "-"):
        return "a member of a text that holds JSON is get_json_object(text, '$.member'), one of a struct s.member"
    if stop.word() in ("~", "similar", "glob", "regexp_like") or around[:2] == ("~", "*"):
        return _MATCHES
    return None


def _limits(stop: _Stop) -> str | None:
    if "fetch" in (stop.word(), stop.word(-1)) and {"first", "next"} & {stop.word(), stop.word(1)}:
        return f"there is no FETCH: {_FIRST_ROWS}"
    if stop.word() == "," and stop.word(-2) == "limit":
        return f"LIMIT takes one number. Rows have no place in a result: {_FIRST_ROWS}"
    return None


def _of_aggregates(stop: _Stop) -> str | None:
    if stop.word() == "order" and stop.word(1) == "by" and stop.function():
        return _GROUPED.get(stop.function(), "write WITHIN GROUP (ORDER BY ..) behind the brackets")
    if stop.word() in ("ignore", "respect") and stop.word(1) == "nulls":
        return f"write it behind the brackets: {shown(stop.function() or 'last_value')}(..) {stop.word().upper()} NULLS"
    return None


def _comparisons(stop: _Stop) -> str | None:
    if "is" in (stop.word(), stop.word(-1)) or (stop.word(-2), stop.word(-1)) == ("is", "not"):
        return "IS stands before NULL, TRUE, FALSE and DISTINCT FROM: compare with = or <>"
    if stop.word(-1) == "distinct" and stop.function():
        return f"write DISTINCT once: {shown(stop.function())}(DISTINCT a, b)"
    return None


def _of_stars(stop: _Stop) -> str | None:
    if "exclude" in (stop.word(), stop.word(-1)):
        return "write * EXCEPT (..)"
    return None


def _frames(stop: _Stop) -> str | None:
    if stop.word(-2) in ("rows", "range") and stop.word() == ")":
        return f"write {stop.word(-2)} between {shown(stop.word(-1))} preceding and current row"
    return None


def _texts(stop: _Stop) -> str | None:
    written = stop.written()
    if written[:1] in ("'", '"') and (len(written) == 1 or written[-1] != written[0]):
        return f"the text that begins here has no end: close it by {written[0]}"
    before = stop.written(-1)
    touching = bool(before) and stop.at < len(stop.words) and stop.words[stop.at - 1].end == stop.words[stop.at].begin
    if touching and before[-1] == "'" and re.match(r"\w", written):
        return "write an apostrophe within a text twice: 'it''s'"
    return None


def _types(stop: _Stop) -> str | None:
    for beside in (-1, -2):
        name = _TYPES.get((stop.word(beside), stop.word(beside + 1)))
        if name is not None and (stop.function() in ("cast", "try_cast") or stop.word(beside - 1) == ":"):
            return f"the type is called {name}"
    return None


def _versions(stop: _Stop) -> str | None:
    if (stop.word(-2), stop.word(-1)) == ("as", "of") or "asof" in (stop.word(-1), stop.word()):
        return "a version of a table is looked up: join lateral (select .. from d where d.k = a.k and d.event_time <= a.event_time order by d.event_time desc limit 1)"
    if stop.word(-1) == "emit" or stop.word() == "emit":
        return "leave it out: rows of windows come when the watermark says that they are final"
    return None


def _misspelt(stop: _Stop) -> str | None:
    for beside in (0, -1, -2):
        word = stop.word(beside)
        if not 3 <= len(word) <= _KEYWORD_CHARACTERS_MAX or word in _KEYWORDS or stop.written(beside)[:1] == "`":
            continue
        near = difflib.get_close_matches(word, _KEYWORDS, n=1, cutoff=_KEYWORD_LIKENESS_MIN)
        if near and abs(len(near[0]) - len(word)) <= 1:
            return f"did you mean {near[0].upper()} instead of {stop.written(beside)}?"
    return None


def _unfinished(stop: _Stop) -> str | None:
    known = [word.known_by for word in stop.words]
    opened = stop.opened()
    if known.count("case") > known.count("end"):
        return "CASE needs an END: CASE WHEN condition THEN value ELSE value END"
    if stop.word() == "then" and "when" not in known[max(0, stop.at - _WORDS_BEFORE_THEN) : stop.at]:
        return "write WHEN before the condition: CASE WHEN condition THEN value ELSE value END"
    if opened is not None and stop.word() in ("", "from"):
        return _unclosed(stop, opened)
    if stop.word() == ")" and opened is None:
        return "leave this bracket out: none is open there"
    if known and known[-1] in _BEHIND and stop.at >= len(known) - 1:
        return f"write what belongs behind {known[-1].upper()}, or leave it out"
    return None


def _unclosed(stop: _Stop, opened: int) -> str:
    line, column = line_and_column(stop.text, stop.words[opened].begin)
    return f"close the bracket of line {line}, column {column}"


def _left_out(stop: _Stop) -> str | None:
    """A word that is missing, doubled or in another place."""
    before, word = stop.word(-1), stop.word()
    if before in ("group", "order", "partition") and word != "by":
        return f"write BY behind {before.upper()}"
    if before in ("inner", "left", "right", "full", "cross", "outer", "semi", "anti"):
        return f"write JOIN behind {before.upper()}"
    if before in ("and", "or") and stop.word(-2) in ("where", "on", "having"):
        return f"leave {before.upper()} out"
    if stop.word(-3) == "," and stop.word(-2) in ("where", "from"):
        return f"leave out the comma before {stop.word(-2).upper()}"
    if word == "." and "join" in (stop.word(-3), stop.word(-4), stop.word(-5)):
        return "write ON before the condition of a join: on a.x = b.y"
    if "if" in (before, stop.word(-2)) and word != "(":
        return _IF
    return _CLAUSES if word in _OF_CLAUSES else None


def _signs(stop: _Stop) -> str | None:
    """A comparison or placeholder that is written otherwise."""
    for beside in (0, -1):
        meant = _COMPARISONS.get(stop.word(beside) + stop.word(beside + 1))
        if meant is not None:
            return f"write {meant}"
    if stop.word() == "," and stop.word(-2) == "between":
        return "write BETWEEN least AND greatest"
    if stop.word()[:1] in ("$", "@", "{", "%"):
        return "a statement has no placeholders and variables: write the value itself"
    return None


def _side_by_side(stop: _Stop) -> str | None:
    """Two names with nothing between them, and a bracket that nothing closes."""
    before, word = stop.word(-1), stop.word()
    if _NAME.fullmatch(before) and _NAME.fullmatch(word) and not {before, word} & {*_KEYWORDS, *_OF_CLAUSES, "as"}:
        written = f"{stop.written(-1)} {stop.written()}"
        return f"write a comma between the two, or `{shown(written)}` if it is one name"
    opened: list[int] = []
    for at, each in enumerate(stop.words):
        if each.known_by == "(":
            opened.append(at)
        elif each.known_by == ")" and opened:
            opened.pop()
    return _unclosed(stop, opened[-1]) if opened else None


def _slashed_table(stop: _Stop, relations: Collection[str]) -> str | None:
    """A name such as account/name, which only backticks make one word."""
    if stop.word() not in ("/", "-") or not stop.word(1):
        return None
    name = f"{stop.written(-1)}{stop.word()}{stop.written(1)}"
    known = next((each for each in relations if each.casefold() == name.casefold()), None)
    if known is not None or stop.word(-2) in ("from", "join", ","):
        return f"a name with such a sign stands in backticks: `{shown(known or name)}`"
    return None


_RULES: tuple[Callable[[_Stop], str | None], ...] = (
    _top,
    _texts,
    _double_quotes,
    _quantified,
    _windows,
    _brackets,
    _comments,
    _operators,
    _limits,
    _of_aggregates,
    _of_stars,
    _frames,
    _types,
    _versions,
    _signs,
    _unfinished,
    _misspelt,
    _comparisons,
    _left_out,
    _side_by_side,
)
