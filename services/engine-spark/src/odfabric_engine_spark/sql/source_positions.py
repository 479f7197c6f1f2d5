"""Source positions: line and column of what Spark names without a place.

Owns a look at the words of a text: names, texts, numbers, signs; nothing of what they mean. Invariant: a place lies within the
statement, at the beginning of a word, and nothing is refused by what is found here: comments within comments are not distinguished. Not
here: places of nodes, which Spark knows (`refusal`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# A text or comment without an end takes all that follows: the parser refuses it by itself.
_WORDS = re.compile(
    r"""
      (?P<skipped> \s++ | --(?:\\\n|[^\n])*+ | /\*(?:[^*]|\*(?!/))*+(?:\*/|\Z) )
    | (?P<text> \br'[^']*+(?:'|\Z) | \br"[^"]*+(?:"|\Z) | '(?:[^'\\]|\\.)*+(?:'|\\?\Z) | "(?:[^"\\]|\\.)*+(?:"|\\?\Z) )
    | (?P<quoted> `[^`]*+(?:`|\Z) )
    | (?P<plain> [\w$]++ )
    | (?P<sign> . )
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_MENTIONED = re.compile(r"""\"((?:[^"]|"")*)\"|`((?:[^`]|``)*)`|('[^']*')|\bfunction (\w+)""")
"""What a message of Spark is about: an expression, a name or a text in quotes, or a function."""
_CLAUSES = re.compile(r"\b(WHERE|HAVING|QUALIFY|USING|PIVOT|UNPIVOT|GROUP BY|ORDER BY|OVER|FILTER|LATERAL VIEW)\b")
_AGGREGATES = re.compile(r"max|min|sum|avg|count|\w*_agg|collect_\w+|max_by|min_by|any_value", re.IGNORECASE)


_SET_OPERATION = re.compile(r"(UNION|EXCEPT|INTERSECT)\b")
"""How a message about branches that do not fit begins."""
_SET_SIGNS = frozenset({"union", "intersect", "except", "minus"})
_OF_QUERIES = frozenset({"select", "with", "from"})
"""How a query in brackets begins."""
_OF_RELATIONS = frozenset({"from", "join"})
_BEHIND_RELATIONS = frozenset({"on", "where", "group", "having", "qualify", "order", "limit", "window"})
_MINUS = {"except": "minus"}
_OF_CONDITIONS = "Filter expression"
_DEPTH = {"(": 1, ")": -1}


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text: its begin and end, and its normal form.

    In small letters, names without backticks.
    """

    begin: int
    end: int
    known_by: str


def line_and_column(text: str, at: int) -> tuple[int, int]:
    """Of an offset, both from 1."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def offset_of(text: str, line: int, column: int) -> int:
    """Of a place, the other way round."""
    return sum(len(each) + 1 for each in text.split("\n")[: line - 1]) + column - 1


def without_last_semicolon(text: str) -> str:
    """A statement up to its closing semicolon, if nothing follows that."""
    end = None
    for word in words_of(text):
        end = word.begin if word.known_by == ";" else None
    return text[:end]


def second_statement(text: str) -> int | None:
    """Where another statement, be it empty, begins or ends behind a semicolon.

    None if there is none.
    """
    ended = False
    for word in words_of(text):
        if ended:
            return word.begin
        ended = word.known_by == ";"
    return None


def place_within(part: str, message: str, *, line: int, column: int) -> tuple[int, int]:
    """As `place_of`, for a part of a text that stands at a place.

    Of branches that do not fit, the sign between them.

    Spark joins branches from the left, so that the last sign outside of brackets is that of the whole part.
    """
    sign = _SET_OPERATION.match(message)
    if sign is None:
        found = place_of(part, message)
    else:
        name = sign[1].casefold()
        at = [word.begin for word in _outside_brackets(part) if word.known_by in (name, _MINUS.get(name))]
        found = line_and_column(part, at[-1]) if at else (1, 1)
    below, beside = found
    return line + below - 1, beside if below > 1 else column + beside - 1


def _outside_brackets(text: str) -> Iterator[Word]:
    depth = 0
    for word in words_of(text):
        depth += _DEPTH.get(word.known_by, 0)
        if depth == 0:
            yield word


def place_of(text: str, message: str) -> tuple[int, int]:
    """Line and column of a message's subject: its name, clause, or statement."""
    words = list(words_of(text))
    if message.find(_OF_CONDITIONS) >= 0:  # what is wrong with it may stand in SELECT as well
        words = next((words[at + 1 :] for at, word in enumerate(words) if word.known_by in ("where", "having")), words)
    mentioned = [_mentioned(each) for each in _MENTIONED.finditer(message)]
    for wanted in [*mentioned, *(_known_by(clause[0]) for clause in _CLAUSES.finditer(message))]:
        at = _find(words, wanted)
        if at is not None:
            return line_and_column(text, at)
    return line_and_column(text, words[0].begin if words else 0)


def select_before(text: str, at: int) -> int | None:
    """Where the SELECT begins to which a clause at an offset belongs.

    None if there is none, as before `|>`.
    """
    depth = 0
    for word in reversed([word for word in words_of(text) if word.begin < at]):
        depth -= _DEPTH.get(word.known_by, 0)
        if depth < 0 or (depth == 0 and word.known_by == "|"):
            return None
        if depth == 0 and word.known_by == "select":
            return word.begin
    return None


def queries_out(text: str, line: int, column: int, table: str) -> int | None:
    """How many queries out a table of this name is in FROM: 0 for this, or None."""
    words, offset = list(words_of(text)), offset_of(text, line, column)
    at: int | None = next((number for number, word in enumerate(words) if word.end > offset), None)
    queries = 0
    while at is not None:
        opened = _opening(words, at)
        begins = 0 if opened is None else opened + 1
        if opened is None or words[begins].known_by in _OF_QUERIES:
            if table.casefold() in _relations_around(words, begins, at):
                return queries
            queries += 1
        at = opened
    return None


def _opening(words: Sequence[Word], at: int) -> int | None:
    """The bracket that is open at a word."""
    depth = 0
    for number in range(at - 1, -1, -1):
        depth += _DEPTH.get(words[number].known_by, 0)
        if depth > 0:
            return number
    return None


def _relations_around(words: Sequence[Word], begins: int, at: int) -> set[str]:
    """Words of FROM around a word, in its branch: tables and their aliases.

    In the query that begins at another word.
    """
    found: set[str] = set()
    depth, in_from = 0, False
    for number in range(begins, len(words)):
        word = words[number].known_by
        if depth == 0 and word in _SET_SIGNS:
            if number > at:
                break
            found, in_from = set(), False
        depth += _DEPTH.get(word, 0)
        if depth < 0:
            break
        if depth == 0:
            in_from = (in_from or word in _OF_RELATIONS) and word not in _BEHIND_RELATIONS
            if in_from and (number + 1 == len(words) or words[number + 1].known_by != "."):
                found.add(word)
    return found


def _mentioned(found: re.Match[str]) -> list[str]:
    """The words of something that a message names; a name in backticks is one."""
    expression, name, text, function = found.groups()
    return [name.casefold()] if name else _known_by(expression or text or function or "")


def _known_by(text: str) -> list[str]:
    return [word.known_by for word in words_of(text)]


def words_of(text: str) -> Iterator[Word]:
    """The words of a statement, without blanks and comments."""
    for found in _WORDS.finditer(text):
        if found.lastgroup == "skipped":
            continue
        word = found[0].strip("`") if found.lastgroup == "quoted" else found[0]
        yield Word(found.start(), found.end(), word.casefold())


def _find(words: Sequence[Word], wanted: Sequence[str]) -> int | None:
    """Where these words stand one after the other, with the table before a column.

    Rather not within an aggregate function.

    Spark puts brackets around operations, and leaves out tables or adds them: the longest part of what is wanted is looked for.
    """
    wanted = [word for word in wanted if word not in _DEPTH]
    if not wanted:
        return None
    known = [word.known_by for word in words]
    outside = [at for at, word in enumerate(known) if word not in _DEPTH]
    places = [
        outside[first]
        for first in range(len(outside) - len(wanted) + 1)
        if [known[at] for at in outside[first : first + len(wanted)]] == wanted
    ]
    if not places:
        names = [word for word in wanted if _is_name(word)]
        if len(names) == len(wanted) == 1:
            return None
        return next((found for name in names[::-1] if (found := _find(words, [name])) is not None), None)
    at = next((at for at in places if not _is_aggregated(known, at)), places[0])
    while at >= 2 and known[at - 1] == "." and _is_name(known[at - 2]):
        at -= 2
    return words[at].begin


def _is_name(word: str) -> bool:
    return word[:1].isalpha() or word[:1] == "_"


def _is_aggregated(known: Sequence[str], at: int) -> bool:
    """Whether a word is an aggregate function's argument, or an alias."""
    if at and known[at - 1] == "as":
        return True
    return at >= 2 and known[at - 1] == "(" and _AGGREGATES.fullmatch(known[at - 2]) is not None
