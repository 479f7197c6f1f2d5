"""Names that are not there: which one is meant, and how it is written.

Owns the reading of what Spark says of them, and the search for the name that is meant. Invariant: what is to be written in the place of a
name is reported as such only if it is the one that differs in upper and lower case, or in quotes, and nothing else is like it. Not here: how a
text is corrected (`collect_errors`), forms of grammar (`syntax_hints`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from odfabric_engine_spark.sql.refusal import CASE, CASE_BEHIND
from odfabric_engine_spark.sql.source_positions import queries_out

Parts = tuple[str, ...]
"""A name with dots, without quotes."""

_UNKNOWN = re.compile(r"with name (`.*`) cannot be resolved")
_SUGGESTIONS = re.compile(r"\s*Did you mean one of the following\? \[([^\]]*)\]")
_QUOTED = re.compile(r"`((?:[^`]|``)*)`")
_WINDOW = (
    "group by window(event_time, '1 hour'); a slide is not longer than the window, a start not longer than the slide"
)
_LATER = "WHERE and ON do not know yet what SELECT names"
_ONE_OUT = "the query around this one, it cannot be seen: join it here, or hand the column on in the query between"
_ALIAS = f"{_LATER}: write the expression again, or a query around this one"
_MISSPELT = 0.8
"""How near a name must be to that of a column to be taken for it, misspelt."""
_TIME_UNITS = frozenset({"second", "minute", "hour", "day", "week", "month", "quarter", "year"})


_CALLED = {
    "window_start": "window.start",
    "window_end": "window.end",
    "count": "count(*)",
    "now": "another time: a query does not know when it runs",
    "rownum": "row_number() over (partition by .. order by ..)",
}
"""Names that stand for something elsewhere."""


@dataclass(frozen=True, slots=True)
class KnownNames:
    """Known names: columns of all tables, names in SELECT, and its tables.

    `text` is the query, `place` where in it the name stands that is not there.
    """

    columns: tuple[str, ...] = ()
    aliases: frozenset[str] = frozenset()
    tables: frozenset[str] = frozenset()
    text: str = ""
    place: tuple[int, int] | None = None

    def how_far_out(self, table: str) -> int:
        """0 if there is no query further out that names it, or if the place is not known."""
        return (queries_out(self.text, *self.place, table) if self.place else None) or 0


@dataclass(frozen=True, slots=True)
class Told:
    """A report on an unknown name, and its replacement where that is certain."""

    message: str
    hint: str | None = None
    instead: tuple[Parts, Parts] | None = None


def quoted(parts: Sequence[str]) -> str:
    """A name as a hint shows it."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)


def parts_of(text: str) -> Parts:
    """The parts of names in backticks."""
    return tuple(part.replace("``", "`") for part in _QUOTED.findall(text))


def in_another_case(name: str, names: Iterable[str]) -> list[str]:
    """Names that differ from one in upper and lower case only, each once."""
    return list(dict.fromkeys(each for each in names if each != name and each.casefold() == name.casefold()))


def other_case(message: str, written: Parts, meant: Parts) -> Told:
    """What is said where a name is there in another case, or with other quotes."""
    same = ".".join(written).casefold() == ".".join(meant).casefold() and written != meant
    case = f": {CASE_BEHIND}" if same and ".".join(written) != ".".join(meant) else ""
    return Told(message, f"write {quoted(meant)}{case}", (written, meant))


def unknown_column(message: str, known: KnownNames) -> Told:
    """What is said of a column that is not there, by Spark's message about it."""
    unknown, suggestions = _UNKNOWN.search(message), _SUGGESTIONS.search(message)
    if unknown is None:
        return Told(message)
    written = parts_of(unknown[1])
    told = f"unknown column {unknown[1]}"
    visible = [] if suggestions is None else [parts_of(each) for each in suggestions[1].split(", ")]
    if len(written) > 1 and written[0] == "window":
        return Told(told, _WINDOW)
    if len(written) > 1:
        return _of_table(told, written, visible, known)
    return _plain(told, written[0], visible, known)


def _plain(told: str, name: str, visible: list[Parts], known: KnownNames) -> Told:
    """Of a column without its table."""
    same = in_another_case(name, (each[-1] for each in visible)) or in_another_case(name, known.columns)
    there = list(dict.fromkeys(each for each in visible if each[-1] in same))
    if len(same) == 1 and len(there) < 2:
        return other_case(told, (name,), (same[0],))
    if same:
        choice = there or [(each,) for each in same]
        return Told(told, f"write {' or '.join(map(quoted, choice))}: {CASE_BEHIND}")
    if name in known.aliases:
        near = difflib.get_close_matches(name, [each[-1] for each in visible], n=1, cutoff=_MISSPELT)
        return Told(told, f"did you mean `{near[0]}`? {_ALIAS}" if near else _ALIAS)
    given = in_another_case(name, known.aliases)
    if len(given) == 1:
        hint = f"SELECT calls it {quoted(given)}. {CASE}, and {_LATER}"
        return Told(told, hint, ((name,), (given[0],)))
    if any(each[-1] == name for each in visible):
        return Told(told, f"did you mean {quoted(next(each for each in visible if each[-1] == name))}?")
    if name.casefold() in _CALLED:
        return Told(told, f"write {_CALLED[name.casefold()]}")
    if name.casefold() in _TIME_UNITS:
        return Told(told, f"a unit of time is a text for most functions: date_trunc('{name.upper()}', ..)")
    return Told(told, _nearest(name, visible))


def _of_table(told: str, written: Parts, visible: list[Parts], known: KnownNames) -> Told:
    """Of a column with its table, or of a member of a column."""
    meant = _meant(written, visible, known)
    if meant is not None and meant != written:
        return other_case(told, written, meant)
    if meant is None:
        near = [each for each in visible if each[-1] == written[-1]]
        rather = _nearest(written[-1], near or visible)
        return Told(told, f"no table here is called {quoted(written[:1])}: {rather}" if rather else None)
    if written[-1] in known.columns and known.how_far_out(written[0]) > 1:
        return Told(told, f"{quoted(written[:1])} stands further out than {_ONE_OUT}")
    return Told(told, _nearest(written[-1], visible))


def _meant(written: Parts, visible: list[Parts], known: KnownNames) -> Parts | None:
    """The intended name, the same if only its column is unknown, None if the table is."""
    for length in range(len(written) - 1, 0, -1):
        table = ".".join(written[:length])
        found = [table] if table in known.tables else in_another_case(table, known.tables)
        found = found or [each for each in known.tables if length == 1 and _ends_with(each, table)]
        if len(found) == 1:
            column, *members = written[length:]
            of_table = [each[1] for each in visible if len(each) > 1 and each[0] == found[0]]
            same = in_another_case(column, of_table) or in_another_case(column, known.columns)
            known_so = column in of_table or (table != found[0] and column in known.columns)
            return (found[0], same[0] if len(same) == 1 and not known_so else column, *members)
        if found:
            return written
    column, *members = written
    columns = [each[-1] for each in visible] + list(known.columns)
    same = in_another_case(column, columns)
    if column in columns:
        return written
    return (same[0], *members) if len(same) == 1 else None


def _ends_with(table: str, name: str) -> bool:
    """Whether a name is the last part of that of a table."""
    parts = re.split(r"[./]", table)
    return len(parts) > 1 and parts[-1].casefold() == name.casefold()


def _nearest(name: str, visible: list[Parts]) -> str | None:
    """A question for names that are there, the nearest first."""
    if not visible:
        return None
    near = difflib.get_close_matches(name, [each[-1] for each in visible], n=1)
    first = [each for each in visible if near and each[-1] == near[0]]
    ordered = [*first, *(each for each in visible if each not in first)]
    return f"did you mean {', '.join(map(quoted, ordered))}?"


def unknown_table(written: Parts, names: Collection[str]) -> Told:
    """What is said of a table that is not there."""
    dotted = ".".join(written)
    told = f"unknown table {dotted}"
    if len(written) == 1:
        same = in_another_case(dotted, sorted(names))
        if len(same) == 1:
            return other_case(told, written, (same[0],))
    folded = [part.casefold() for part in written]
    whole = [each for each in sorted(names) if re.split(r"[./]", each.casefold()) == ".".join(folded).split(".")]
    called = "tables are called by their alias, in backticks if it has dots"
    if len(whole) == 1:
        return Told(told, f"{called}: write {quoted(whole)}", (written, (whole[0],)))
    last = [each for each in sorted(names) if re.split(r"[./]", each.casefold())[-1] == folded[-1].split(".")[-1]]
    if last:
        return Told(told, f"{called}: did you mean {' or '.join(quoted([each]) for each in last)}?")
    if not names:
        return Told(told, "name an input of the transform, or a dataset that is here")
    near = difflib.get_close_matches(dotted, sorted(names), n=1, cutoff=_MISSPELT)
    if near:
        return Told(told, f"did you mean {quoted(near)}?")
    there = ", ".join(quoted([each]) for each in sorted(names))
    return Told(told, f"known: {there}" if len(written) == 1 else f"{called}: {there}")


def unknown_star(message: str, known: KnownNames) -> Told:
    """What is said of `t.*` where there is no `t`, by Spark's message about it."""
    found = re.match(r"Cannot resolve (`.*`)\.\* given", message)
    if found is None:
        return Told(message)
    written = parts_of(found[1])
    told = f"no table here is called {found[1]}"
    same = in_another_case(written[0], known.tables) if len(written) == 1 else []
    if len(same) != 1:
        there = ", ".join(quoted([each]) for each in sorted(known.tables))
        return Told(told, f"the query reads {there}" if there else None)
    return Told(told, f"write {quoted(same)}.*: {CASE_BEHIND}", (written, (same[0],)))


def ambiguous(message: str, known: KnownNames) -> Told:
    """What is said of a column that several tables have, by Spark's message about it."""
    found = re.match(r"Reference (`.*`) is ambiguous, could be: \[(.*)\]", message)
    if found is None:
        return Told(message)
    written = parts_of(found[1])
    same = in_another_case(written[0], known.tables) if len(written) > 1 else []
    if len(same) == 1:  # what was taken for a column is a table
        columns = [] if written[1] in known.columns else in_another_case(written[1], known.columns)
        column = columns[0] if len(columns) == 1 else written[1]
        return other_case(f"unknown column {found[1]}", written, (same[0], column, *written[2:]))
    names = list(dict.fromkeys(found[2].split(", ")))
    hint = f"write {' or '.join(names)}" if len(names) > 1 else "give one of the two an alias: .. as q"
    return Told(f"{found[1]} is of several tables", hint)


def unknown_member(message: str, _: KnownNames) -> Told:
    """The report on an unknown struct member, by Spark's message."""
    found = re.match(r"No such struct field (`.*?`) in (.*?)\.?$", message)
    if found is None:
        return Told(message)
    name, told = parts_of(found[1])[-1], f"no member {found[1]}"
    same = in_another_case(name, parts_of(found[2]))
    if len(same) == 1:
        return other_case(told, (name,), (same[0],))
    return Told(told, f"there are {found[2]}{f'. {CASE}' if same else ''}")


def unknown_using_column(message: str, _: KnownNames) -> Told:
    """The report on a USING column that one side lacks, by Spark's message."""
    found = re.match(r"USING column (`.*?`) cannot be resolved on the (\w+) side.*?columns: \[(.*)\]", message)
    if found is None:
        return Told(message)
    name, told = parts_of(found[1])[-1], f"the {found[2]} side of the join has no column {found[1]}"
    same = in_another_case(name, parts_of(found[3]))
    return other_case(told, (name,), (same[0],)) if len(same) == 1 else Told(told)
