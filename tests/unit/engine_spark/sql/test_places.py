"""Places of what Spark names without a place, and the ends of statements."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from odfabric_engine_spark.sql.source_positions import (
    line_and_column,
    place_of,
    place_within,
    second_statement,
    without_last_semicolon,
)
from tests.support.turns import examples

HIDING = ("'k; sum(v)'", '"k;"', "-- k; sum(v)\n", "/* k; ' */", "'it\\'s; k'", "r'k;\\'", " ", "\n")
"""Where no name is, whatever stands in it."""
WORDS = ("select", "event_time", "from", "a", "1", "+", "(", ")", ",", "`x y`", "vk", "k2", ".5")

ASIDE = st.lists(st.sampled_from((*HIDING, *WORDS)), max_size=12).map(lambda each: " ".join(each) + "\n")


@settings(max_examples=examples(300), deadline=None)
@given(before=ASIDE, after=ASIDE)
def test_a_name_is_found_where_it_is_one(before: str, after: str) -> None:
    text = f"{before}k {after}"
    assert place_of(text, 'The expression "k" is wrong.') == line_and_column(text, len(before))


@settings(max_examples=examples(300), deadline=None)
@given(text=st.text(alphabet="kv'\"`;-/* \n\\()+.r", max_size=40), message=st.text(alphabet='"`k v.()', max_size=20))
def test_a_place_is_always_within_the_text(text: str, message: str) -> None:
    line, column = place_of(text, message)
    lines = text.split("\n")
    assert 1 <= line <= len(lines)
    assert 1 <= column <= len(lines[line - 1]) + 1


@settings(max_examples=examples(300), deadline=None)
@given(text=ASIDE, end=st.sampled_from((";", " ;\n", "; -- k\n", ";/* ; */ ")))
def test_a_statement_ends_where_its_semicolon_is(text: str, end: str) -> None:
    assume(";" not in re.sub(r"'[^']*'|\"[^\"]*\"|--.*|/\*.*?\*/", "", text) and text.count("'") % 2 == 0)
    assert without_last_semicolon(text + end).rstrip(" ") == text.rstrip(" ")
    assert without_last_semicolon(text) == text
    assert second_statement(text + end) is None
    assert second_statement(f"{text};  select") == second_statement(f"{text};  ;") == len(text) + 3


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("select max(k), k from a", 'The expression "k" is', (1, 16)),
        ("select max(k) from a", 'The expression "k" is', (1, 12)),
        ("select 1 as k, a.k from a", "No such field `k`", (1, 16)),
        ("select x,\n  upper( q . k ) from q", 'The "upper(q.k)" is', (2, 3)),
        ("select x,\n  Upper(k) from q", 'The "(upper(k) + 1)" is', (2, 9)),
        ("select x\nfrom a where row_number() over (order by v) = 1", "no windows inside WHERE clause", (2, 8)),
        ("select `a b` from a", "No such column `a b`", (1, 8)),
        ("select window(t, '1 month') from a", "unlike '1 month'", (1, 18)),
        ("select lag(v) over () from a", "Window function lag requires", (1, 8)),
        ("\n -- first\n  select 1", "something is wrong", (3, 3)),
        ("", "something is wrong", (1, 1)),
    ],
)
def test_what_a_message_names_is_found(text: str, message: str, place: tuple[int, int]) -> None:
    assert place_of(text, message) == place


@settings(max_examples=examples(300), deadline=None)
@given(before=ASIDE, part=ASIDE, sign=st.sampled_from(("UNION", "EXCEPT", "INTERSECT ALL")), aside=st.booleans())
def test_a_place_in_a_part_is_a_place_in_the_text(before: str, part: str, sign: str, aside: bool) -> None:
    """A place in a part is a place in the text.

    Brackets of the part are left open or closed too often: then nothing is found, and the part itself is the place.
    """
    text = before + part
    line, column = line_and_column(text, len(before))
    message = f"{sign} can only be performed on .." if aside else 'The WHERE condition "(k > 3)" is wrong.'
    found = place_within(part, message, line=line, column=column)
    lines = text.split("\n")
    assert (line, column) <= found <= (len(lines), len(lines[-1]) + 1)
    assert found[1] <= len(lines[found[0] - 1]) + 1


@pytest.mark.parametrize(
    ("part", "message", "place"),
    [
        ("select k\nunion select k\nunion all select v", "UNION can only be performed on", (7, 1)),
        (
            "select k\nunion select 'union'\n  minus (select k except select k)",
            "EXCEPT can only be performed on",
            (7, 3),
        ),
        ("select k union select v", "UNION can only be performed on", (5, 18)),
        ("select k from a where k + v > 3", 'The WHERE condition "((k + v) > 3)" is', (5, 31)),
    ],
)
def test_a_clause_is_found_in_a_part(part: str, message: str, place: tuple[int, int]) -> None:
    assert place_within(part, message, line=5, column=9) == place
