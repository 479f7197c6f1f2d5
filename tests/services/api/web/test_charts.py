"""Charts keep to their frame and to the figures of the answer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric_api.web.charts import (
    BOTTOM,
    HEIGHT,
    KINDS,
    LEFT,
    RIGHT,
    SPREAD_BAR,
    SPREAD_HEIGHT,
    SPREAD_WIDTH,
    TOP,
    WIDTH,
    draw_chart,
    draw_spread,
    numeric_columns,
)

finite = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12)
values = st.one_of(st.none(), st.integers(-(10**12), 10**12), finite)


@given(st.lists(st.tuples(st.text(max_size=30).map("n{}".format), values), max_size=50), st.sampled_from(KINDS))
def test_everything_is_drawn_within_the_frame(rows: list[tuple[str, object]], kind: str) -> None:
    chart = draw_chart(["name", "value"], [list(row) for row in rows], kind=kind, x="name", y="value")
    numbers = [value for _, value in rows if value is not None]
    if not numbers:
        assert chart is None
        return
    assert chart is not None
    assert len(chart.marks) == len(numbers)
    for mark in chart.marks:
        assert LEFT <= mark.x <= WIDTH - RIGHT
        assert TOP - 1 <= mark.y <= HEIGHT - BOTTOM + 1
        assert TOP - 1 <= mark.base <= HEIGHT - BOTTOM + 1
    assert sum(len(line.split()) for line in chart.lines) == len(numbers)
    assert len(chart.up) >= 2
    order = sorted(zip(numbers, chart.marks, strict=True), key=lambda pair: pair[0])  # type: ignore[arg-type,return-value]
    heights = [mark.y for _, mark in order]
    assert heights == sorted(heights, reverse=True)


def test_without_a_wish_the_last_number_stands_over_the_first_other_column() -> None:
    chart = draw_chart(["city", "n", "mean"], [["Ulm", 2, "1.50"], ["Bonn", 3, "2.25"]])
    assert chart is not None
    assert (chart.x, chart.y, chart.kind) == ("city", "mean", "bar")
    assert [mark.text for mark in chart.marks] == ["Ulm: 1.5", "Bonn: 2.25"]


@pytest.mark.parametrize("value", ["x", True, {"a": 1}, [1]])
def test_columns_of_other_values_are_no_numbers(value: object) -> None:
    assert numeric_columns(["a", "b"], [[1, value], [None, value]]) == ["a"]


@given(st.lists(st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 10**12)), max_size=20))
def test_a_spread_is_drawn_within_its_frame(bins: list[tuple[float, int]]) -> None:
    bars = draw_spread(json.dumps([{"x": x, "y": y} for x, y in bins]))
    assert len(bars) == len(bins)
    for bar in bars:
        assert 0 <= bar.x <= SPREAD_WIDTH - SPREAD_BAR
        assert 0 <= bar.y <= bar.base == SPREAD_HEIGHT
    if bins:
        highest = max(range(len(bins)), key=lambda place: bins[place][1])
        assert bars[highest].y == 0


def test_what_has_no_numbers_has_no_spread() -> None:
    assert draw_spread(None) == draw_spread("[]") == ()
