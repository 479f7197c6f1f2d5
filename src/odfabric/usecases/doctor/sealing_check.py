"""Does the node's key open what the database keeps sealed?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odfabric.errors import OdfError
from odfabric.model.node.finding import Finding, Outcome
from odfabric.ports.node.sealing import SealedRow, Sealing
from odfabric.usecases.doctor.diagnose import Check


def sealing_check(sealing: Sealing, samples: Callable[[], Sequence[SealedRow]], *, key_name: str) -> Check:
    """`samples` are some sealed secrets; what they hold is opened and forgotten.

    Makes no key where there is none.
    """

    def look() -> Sequence[Finding]:
        rows = samples()
        if not rows:
            return [_finding(Outcome.OK, "nothing is sealed yet")]
        try:
            for row in rows:
                sealing.open(row.data, context=row.context)
        except OdfError as error:
            remedy = error.hint or f"put {key_name} back from the backup that belongs to this database"
            return [
                _finding(Outcome.BROKEN, f"{key_name} does not open secrets of the database: {error.message}", remedy)
            ]
        return [_finding(Outcome.OK, f"{key_name} opens secrets of the database")]

    return Check("sealing-key", look, "the database must answer first", failed=Outcome.WARNING)


def _finding(outcome: Outcome, seen: str, remedy: str | None = None) -> Finding:
    return Finding(name="sealing-key", outcome=outcome, seen=seen, remedy=remedy)
