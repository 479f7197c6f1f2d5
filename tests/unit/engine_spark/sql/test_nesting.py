"""How deeply SQL is nested is read from its text, without a parser."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric_engine_spark.sql.nesting_depth import too_deep

ORDINARY = """
    WITH r AS (SELECT k, window.end AS until, v FROM a WHERE v > 3 AND map < 4 -- (((((
      AND note NOT IN ('((((', "((((", r'\\', `((`) /* (((( */)
    SELECT k, CASE WHEN v > 1 THEN 1 ELSE CASE v WHEN 2 THEN 2 END END c, cast(l AS array<struct<x: map<int, int>>>) l
    FROM r JOIN LATERAL (SELECT max(w) FROM b WHERE b.k = r.k AND b.until < r.until) ON true
"""
"""Five levels: brackets, and types in the brackets of a cast."""


def test_ordinary_sql_is_as_deep_as_it_is() -> None:
    assert too_deep(ORDINARY, 4) is None
    assert too_deep(ORDINARY, 3) is not None


def test_what_is_said_one_after_the_other_is_not_deep() -> None:
    one = "case when (a > b) and map < 3 then array(1)[0] end, cast(x as array<array<int>>), w.end >> 1, "
    assert too_deep("select " + one * 1000 + "1", 4) is None


@pytest.mark.parametrize("opens", ["(", "[", "case when ", "array<", "STRUCT <a: ", "map<int, ", "f(", "/*+ ("])
def test_levels_are_counted_and_the_place_is_told(opens: str) -> None:
    assert too_deep("select\n  " + opens * 100, 100) is None
    problem = too_deep("select\n  " + opens * 101, 100)
    assert problem is not None
    assert (problem.place.rule, problem.place.line) == ("too-deep", 2)
    assert problem.place.column is not None
    assert problem.place.column >= 3 + 100 * len(opens)
    assert "100 levels" in problem.message


@pytest.mark.parametrize("hides", ["'{}'", '"{}"', "`{}`", "-- {}\n", "/* {} */", "r'{}'", "'\\'{}'"])
def test_what_is_no_sql_does_not_count(hides: str) -> None:
    assert too_deep("select 1 " + hides.format("(" * 200), 100) is None


@pytest.mark.parametrize("hides", ["r'\\' {}", "'' {} ''", "-- \n {}", "/* */ {} /* */", "/*+ {} */", "'\\\\' {} '"])
def test_what_only_looks_like_a_text_counts(hides: str) -> None:
    assert too_deep(hides.format("(" * 101), 100) is not None


@pytest.mark.parametrize(
    "hostile", ["/*", "'\\", "\\'", '"\\', "r'", "`", "--", "array <", "map ", ")", "end", "/*+", "case end "]
)
def test_a_hostile_text_takes_no_longer_than_another(hostile: str) -> None:
    text = hostile * ((1 << 20) // len(hostile))
    for each in (text, f"{text}'", f"'{text}", f"/* {text}"):
        too_deep(each, 1 << 20)


@given(st.recursive(st.sampled_from(["a", "1", "'('"]), lambda inner: st.lists(inner, min_size=1, max_size=3)))
def test_brackets_are_counted_as_they_are(tree: object) -> None:
    def written(node: object) -> tuple[str, int]:
        if not isinstance(node, list):
            return str(node), 0
        parts = [written(each) for each in node]
        return f"({', '.join(text for text, _ in parts)})", 1 + max(depth for _, depth in parts)

    text, depth = written(tree)
    assert too_deep(text, depth) is None
    assert depth == 0 or too_deep(text, depth - 1) is not None
