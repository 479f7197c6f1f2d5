"""Does a register keep its word? Asked once, before anything is entrusted to it.

Owns a few compare-and-sets under one key. Some stores that look like S3 accept conditional writes and ignore the condition: as
a register they would let two writers win, and nobody would notice for a long time. Source: ADR 0018.
"""

from __future__ import annotations

import uuid

from odfabric_persist.errors import Determinate, UsageError
from odfabric_persist.location.consensus import Consensus, Version

PROBE_KEY = "probe"
_ATTEMPTS_MAX = 100


def probe(consensus: Consensus) -> None:
    """Raises UsageError (`conditions-ignored`) for a store that is no register.

    Location errors pass through.

    Several processes may probe one store at once.
    """
    ours = uuid.uuid4().bytes
    for _ in range(_ATTEMPTS_MAX):
        head = consensus.head(PROBE_KEY)
        expected = None if head is None else head.seqno
        new = Version(0 if expected is None else expected + 1, ours)
        if consensus.compare_and_set(PROBE_KEY, expected, new):
            break
    else:
        raise Determinate("too many others probe this store")
    # No matter who came meanwhile, the version that we followed is no longer the newest.
    for seqno in (new.seqno, new.seqno + 1):
        if consensus.compare_and_set(PROBE_KEY, expected, Version(seqno, ours)):
            raise UsageError(
                "conditions-ignored", "this store changes a head whatever the writer expects: it is no register"
            )
    found = consensus.scan(PROBE_KEY, new.seqno, 1)
    if found and found[0].seqno == new.seqno and found[0].data != ours:
        raise UsageError("conditions-ignored", "this store does not give back what was written")
    consensus.truncate(PROBE_KEY, new.seqno)
