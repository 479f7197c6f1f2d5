"""Restore deleted blobs, from a store that keeps what is deleted.

Owns the order: first the rollup that the newest version names, for without it no version can be read. What an old version names and
a collection removed stays removed, as far as no live version reads it. Source: ADR 0017.
"""

from __future__ import annotations

from odfabric_persist.encoding import decode_diff
from odfabric_persist.machine import Machine


def restore_blobs(machine: Machine) -> int:
    """Restore every blob that a live version of the shard needs; how many it needs.

    Raises Determinate if the store cannot bring one back.
    """
    head = machine.retried(lambda: machine.consensus.head(machine.shard))
    if head is None:
        return 0
    _, first = decode_diff(head.data).rollup
    machine.blob.restore(first)
    restored = {first}
    for key in sorted(set(machine.newest().rollups.values()) - restored):
        machine.blob.restore(key)
        restored.add(key)
    for state in machine.states_from(0):
        for key in sorted({key for batch in state.batches for key in batch.blob_keys} - restored):
            machine.blob.restore(key)
            restored.add(key)
    return len(restored)
