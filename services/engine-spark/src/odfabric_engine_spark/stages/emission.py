"""The records of a staged query's output: pairs and order.

Owns which new row takes the place of which old one, and the order of records. Invariant (laws L3, L4): what did not change is not
told; of each identity exactly one row gone and one row new are a pair, `-C` directly followed by `+C`; all else is `-R` and `+A`.
Source: semantics of transforms, sections 2 and 5; rulings on pairs and order.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odfabric.model.operation import OperationType
from odfabric_engine_spark.incremental.canonical import one_array, table_bytes
from odfabric_engine_spark.incremental.changes import Records, interleaved
from odfabric_engine_spark.incremental.exact import Longs
from odfabric_engine_spark.stages.delta import net_weights

_NO_IDENTITY = -1


def records(rows: pa.Table, weights: Longs, identities: pa.Array | None, event_time: str) -> Records:
    """Records of changed rows. `identities` are longs, null for a row that has none; `rows` are those of the output."""
    positions, (net,) = net_weights(rows, [weights])
    positions, net = positions[net != 0], net[net != 0]
    positions, signs = np.repeat(positions, np.abs(net)), np.repeat(np.sign(net), np.abs(net))
    old, new = _pairs(positions, signs, identities)
    paired = np.isin(np.arange(len(positions)), np.concatenate([old, new]))
    single = np.nonzero(~paired)[0]
    leads = np.concatenate([positions[single], positions[new]])
    partners = np.concatenate([np.full(len(single), -1, dtype=np.int64), positions[old]])
    operations = np.concatenate(
        [
            np.where(signs[single] > 0, int(OperationType.APPEND), int(OperationType.RETRACT)),
            np.full(len(new), int(OperationType.CORRECT_TO)),
        ]
    )
    order = _order(rows, leads, operations, event_time)
    return interleaved(rows, leads[order], partners[order], operations[order])


def _pairs(positions: Longs, signs: Longs, identities: pa.Array | None) -> tuple[Longs, Longs]:
    """Places of the old and the new row of each pair."""
    nothing = np.zeros(0, dtype=np.int64)
    if identities is None or not len(positions):
        return nothing, nothing
    own = identities.take(pa.array(positions))
    known = np.nonzero(own.is_valid().to_numpy(zero_copy_only=False))[0]
    values = own.fill_null(_NO_IDENTITY).to_numpy()[known]
    order = np.lexsort((signs[known], values))
    places, values = known[order], values[order]
    starts = np.nonzero(np.append(True, values[1:] != values[:-1]))[0] if len(values) else nothing
    lengths = np.diff(np.append(starts, len(values)))
    two = starts[lengths == 2]
    two = two[(signs[places[two]] < 0) & (signs[places[two + 1]] > 0)]
    return places[two], places[two + 1]


def _order(rows: pa.Table, leads: Longs, operations: Longs, event_time: str) -> Longs:
    """By event time, nulls first, then by the row; what is withdrawn before what is added."""
    at = pa.array(leads)
    chosen = rows.take(at)
    columns = {
        "event_time": one_array(chosen.column(event_time)),
        "adds": pa.array(operations != int(OperationType.RETRACT)),
        "row": table_bytes(chosen) if len(leads) else pa.array([], pa.binary()),
    }
    keys = [(name, "ascending", "at_start") for name in columns]
    found: Longs = pc.sort_indices(pa.table(columns), sort_keys=keys).to_numpy().astype(np.int64)
    return found
