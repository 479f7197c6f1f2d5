"""Calls of table functions in texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.formats.engine_messages.table_calls import TABLE_FUNCTIONS, call_at, calls_in
from odfabric.model.table_function import TableCall

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="'\\\n"), max_size=20)


@given(
    name=st.sampled_from(sorted(TABLE_FUNCTIONS)),
    arguments=st.lists(WORDS, min_size=1, max_size=3),
    gap=st.sampled_from(["", " ", "\n\t"]),
)
def test_a_written_call_is_found_where_it_is(name: str, arguments: list[str], gap: str) -> None:
    written = f"{name.upper()}{gap}({gap}" + f"{gap},{gap}".join(f"'{each}'" for each in arguments) + f"{gap})"
    sql = f"SELECT 'é𝄞' FROM {written} AS t"
    (found,) = (each for each in calls_in(sql) if each.begin == sql.index(written))
    assert found.call == TableCall(name, tuple(arguments))
    assert sql[found.begin : found.end] == written
    assert call_at(sql, found.begin) == found


@pytest.mark.parametrize(
    "sql",
    ["as_at(a || 'b', 'c')", "as_at((select 1))", "x.as_at('a', 'b')", "my_as_at('a')", "as_at('it''s')", "as_at('a'"],
)
def test_anything_else_is_none(sql: str) -> None:
    assert list(calls_in(sql)) == []


def test_names_count_as_texts() -> None:
    calls = {each.call for each in calls_in("as_at(a, 1) as_at('a', '1') as_at(`a`, 1) as_at(\"a\", '1')")}
    assert calls == {TableCall("as_at", ("a", "1"))}
