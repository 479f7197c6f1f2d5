"""Frontiers: how far something is known.

A frontier is a time, or None for the empty frontier: nothing more will ever come (an upper), nothing can be read any more (a
since). None is therefore the greatest of all. Times are integers from 0 on and totally ordered; there is nothing more general here
on purpose. Source: ADR 0014.
"""

from __future__ import annotations

from typing import TypeAlias

Frontier: TypeAlias = int | None

MINIMUM = 0
TIME_MAX = 2**63 - 1


def at_most(one: Frontier, other: Frontier) -> bool:
    """Whether `one` is not beyond `other`."""
    return other is None or (one is not None and one <= other)


def before(one: Frontier, other: Frontier) -> bool:
    """Whether `one` is less far than `other`."""
    return one != other and at_most(one, other)


def later(one: Frontier, other: Frontier) -> Frontier:
    """The further of two."""
    return other if at_most(one, other) else one


def earliest(frontiers: list[Frontier]) -> Frontier:
    """The least far of all; None if there are none."""
    known = [frontier for frontier in frontiers if frontier is not None]
    return min(known) if known else None
