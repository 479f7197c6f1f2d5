"""Run checks so that none can stop another.

Invariant: each check has at least one finding, also if it raises or hangs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from odfabric.errors import OdfError
from odfabric.model.node.finding import Finding, Outcome
from odfabric.ports.node.surroundings import Bounded


@dataclass(frozen=True, slots=True)
class Check:
    """A check by name.

    `remedy` is what helps when `look` raises or hangs and the error has no hint.

    `failed` is the outcome then: a warning where another check says what is broken, and this one cannot be made without it.
    """

    name: str
    look: Callable[[], Sequence[Finding]]
    remedy: str
    failed: Outcome = Outcome.BROKEN


def diagnose(checks: Sequence[Check], *, bounded: Bounded, within_s: float) -> Sequence[Finding]:
    """All findings in the order of the checks, each of which has `within_s` seconds."""
    results = bounded.results([check.look for check in checks], within_s=within_s)
    found: list[Finding] = []
    for check, result in zip(checks, results, strict=True):
        if isinstance(result, Exception):
            found.append(_failed(check, result, within_s))
        else:
            found += result
    return found


def is_broken(findings: Sequence[Finding]) -> bool:
    """Whether something does not work."""
    return any(finding.outcome is Outcome.BROKEN for finding in findings)


def _failed(check: Check, error: Exception, within_s: float) -> Finding:
    remedy = check.remedy
    if isinstance(error, OdfError):
        seen, remedy = error.message, error.hint or remedy
    elif isinstance(error, TimeoutError):
        seen = f"no answer within {within_s:g} s"
    elif isinstance(error, OSError):
        seen = error.strerror or type(error).__name__
    else:
        seen = f"the check itself failed ({type(error).__name__})"  # its text may hold what the check has read
    return Finding(name=check.name, outcome=check.failed, seen=seen, remedy=remedy)
