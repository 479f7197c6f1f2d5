"""Percentiles as a query states them.

Owns reading their shares and order from the analysed plan. Invariant: what has ranks here is made of values at places alone: each row counts once,
and the shares are constants. Not here: which types of values have places (`aggregate_calls`).
"""

from __future__ import annotations

from odfabric_engine_spark.arrays.percentile_ranks import Rank
from odfabric_engine_spark.spark.catalyst.plan_nodes import Expression, children, simple_name

PERCENTILES = frozenset({"Median", "Percentile", "PercentileCont", "PercentileDisc"})
"""Class names of the functions."""
_MIDDLE = Rank(0.5, discrete=False, falling=False)
_ONCE = "1"


def has_ranks(function: Expression) -> bool:
    """Whether a percentile is one of values at places."""
    name, arguments = simple_name(function), children(function)
    if name == "Median":
        return True
    if not arguments[1].foldable():
        return False
    if name == "Percentile":
        return str(arguments[2]) == _ONCE
    # What Spark did before version 4 takes other places.
    return name == "PercentileCont" or not function.legacyCalculation()


def ranks_of(function: Expression) -> tuple[Rank, ...]:
    """The places of such a percentile, several for a list."""
    name = simple_name(function)
    if name == "Median":
        return (_MIDDLE,)
    shares = children(function)[1].eval(None)
    discrete, falling = name == "PercentileDisc", bool(function.reverse())
    listed = [float(shares)] if isinstance(shares, float) else list(shares.toDoubleArray())
    return tuple(Rank(share, discrete, falling) for share in listed)
