"""Calls of row-by-row aggregate functions, in words of engine and judges.

Owns how ties are described to a judge: the engine breaks them by what is chosen, a judge is asked to. Invariant: as in `general_grammar`;
moments are of numbers that are not large, for with infinities those of Spark depend on the order of rows.
"""

from __future__ import annotations

from tests.services.engine.laws.grammar.dialects import either, then
from tests.services.engine.laws.grammar.general_grammar import Composer, Item, Relation


def greatest_by(value: str, order: str, *, function: str = "max_by", condition: str = "") -> str:
    """The value of the row that is greatest (least, by `min_by`) by another column.

    Rows without that do not count.
    """
    return either(f"{function}({value}, if({order} IS NULL, NULL, struct({order}{then(value)}))){condition}", None)


def listed(value: str, order: str) -> str:
    """Texts in the order of another column."""
    return either(
        f"listagg({value}, '-') WITHIN GROUP (ORDER BY {order}{then(value)})",
        f"string_agg({value}, '-' ORDER BY {order}, {value})",
    )


def small(column: str) -> str:
    """A double that is not large, else null."""
    return f"CASE WHEN {column} BETWEEN -10 AND 10 THEN {column} END"


def quantiles(column: str) -> str:
    """Both kinds of quantiles of a number."""
    both = either(f"percentile_cont(0.5) WITHIN GROUP (ORDER BY {column})", f"quantile_cont({column}, 0.5)")
    return f"{both} AS pc, {either(f'percentile_disc(0.4) WITHIN GROUP (ORDER BY {column})', None)} AS pd"


def of_two_columns(c: Composer, x: Relation) -> list[Item]:
    """Moments of two columns, and one's value in the row with the other's greatest."""
    found: list[Item] = []
    numbers = x.of("int", "decimal", "double")
    if numbers:
        one, other = (f"q.{c.r.choice(numbers)}" for _ in range(2))
        found.append((f"covar_pop({small(one)}, {small(other)})", "approx"))
        of_one = c.r.choice(["skewness({0})", "kurtosis({0})", "corr({0}, {1})", "regr_slope({0}, {1})", "stddev({0})"])
        found.append((either(of_one.format(small(one), small(other)), None), "approx"))
    if x.firm:
        (value, kind), (order, _) = (c.r.choice(x.firm) for _ in range(2))
        found.append((greatest_by(f"q.{value}", f"q.{order}", function=c.r.choice(["max_by", "min_by"])), kind))
    for text in x.of("string"):
        found.append((listed(f"q.{text}", f"q.{c.r.choice(x.firm)[0]}"), "string"))
    return found


MOMENTS = ", ".join(
    f"{call.format(x=small('d'), y='v')} AS m{number}"
    for number, call in enumerate(
        [
            "skewness({x})",
            "kurtosis({x})",
            "corr({x}, {y})",
            "regr_slope({x}, {y})",
            "regr_syy({x}, {y})",
            "regr_avgx({y}, {x})",
        ]
    )
)
"""Moments of the double `d` and the number `v`; what DuckDB makes of a constant is another thing."""

BOTH_KNOW = (
    "covar_pop(v, k) AS cp, covar_samp(v, k) AS cs, regr_avgx(v, k) AS ax, regr_avgy(v, k) AS ay, regr_count(v, k) AS rc, "
    "bit_and(v) AS ba, bit_or(v) AS bo, bit_xor(v) AS bx, bool_and(v > 0) AS every, bool_or(v > 2) AS any, "
    f"{either('count_if(v > 1)', 'count(*) FILTER (WHERE v > 1)')} AS ci"
)
"""What Spark and DuckDB say alike of the numbers `k` and `v`."""

LISTS = (
    "sort_array(collect_list(v)) AS lv, array_sort(collect_set(z)) AS sz, size(collect_list(v)) AS n, "
    "sort_array(collect_list(d)) AS ld, array_max(array_distinct(collect_list(v))) AS hi"
)
