"""Output records of a staged query: correction pairs and their order.

Owns which new row takes the place of which old one, and the order of records. Invariant (laws L3, L4): what did not change is not
reported; of each identity exactly one row gone and one row new are a pair, `-C` directly followed by `+C`; all else is `-R` and `+A`.
Source: docs/engine.md#the-law-of-transforms; docs/engine.md#order-of-the-output; docs/engine.md#row-identity-and-pairs.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from odfabric.formats.slices.canonical_rows import one_array, table_bytes
from odfabric.model.operation import OperationType
from odfabric_engine_spark.arrays.array_types import Longs
from odfabric_engine_spark.arrays.equal_runs import run_starts
from odfabric_engine_spark.arrays.stable_order import order_by
from odfabric_engine_spark.rows.change_records import Records, interleaved
from odfabric_engine_spark.rows.delta import net_weights

_NO_IDENTITY = -1


def records(rows: pa.Table, weights: Longs, identities: pa.Array | None, event_time: str) -> Records:
    """Records of changed rows.

    `identities` are longs, null for a row that has none; `rows` are those of the output.
    """
    if (weights == 1).all():
        return _all_new(rows, event_time)
    positions, signs = _net(rows, weights)
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


def _all_new(rows: pa.Table, event_time: str) -> Records:
    """Records of rows that are all new, as in a first run: no comparison, no copy."""
    operations = np.full(rows.num_rows, int(OperationType.APPEND), dtype=np.int32)
    return Records.ordered(operations, rows, _order(rows, None, operations, event_time))


def _net(rows: pa.Table, weights: Longs) -> tuple[Longs, Longs]:
    """Positions and signs of the rows that change, as often as they do."""
    if (weights > 0).all():
        positions, net = np.arange(len(weights)), weights
    else:
        positions, (net,) = net_weights(rows, [weights])
    return np.repeat(positions, np.abs(net)), np.repeat(np.sign(net), np.abs(net))


def _pairs(positions: Longs, signs: Longs, identities: pa.Array | None) -> tuple[Longs, Longs]:
    """Places of the old and the new row of each pair."""
    nothing = np.zeros(0, dtype=np.int64)
    if identities is None or not (signs < 0).any() or not (signs > 0).any():
        return nothing, nothing
    own = identities.take(pa.array(positions))
    known = np.nonzero(own.is_valid().to_numpy(zero_copy_only=False))[0]
    values = own.fill_null(_NO_IDENTITY).to_numpy()[known]
    order = order_by(values, signs[known])
    places, values = known[order], values[order]
    starts = run_starts(values)
    lengths = np.diff(np.append(starts, len(values)))
    two = starts[lengths == 2]
    two = two[(signs[places[two]] < 0) & (signs[places[two + 1]] > 0)]
    return places[two], places[two + 1]


def _order(rows: pa.Table, leads: Longs | None, operations: Longs, event_time: str) -> Longs:
    """By event time, nulls first, then by the row.

    What is withdrawn before what is added. `leads` None: all rows.
    """
    if not len(operations):
        return np.zeros(0, dtype=np.int64)
    times = one_array(rows.column(event_time))
    times = times if leads is None else times.take(pa.array(leads))
    at = times.cast(pa.int32() if types.is_date32(times.type) else pa.int64()).fill_null(0).to_numpy().astype(np.int64)
    known = times.is_valid().to_numpy(zero_copy_only=False)
    adds = operations != int(OperationType.RETRACT)
    # What all rows have alike orders nothing: of a first run that is all but the time.
    keys = [key for key in (adds, at, known) if key is at or (key.any() and not key.all())]
    order = order_by(*reversed(keys))
    differs = np.zeros(len(order) - 1, dtype=bool)
    for key in (adds, at, known):
        if key is at or not key.all():
            differs |= np.diff(key[order]) != 0
    # Most rows have a time of their own, and encoding rows in order to compare them costs more than all the rest.
    tied = np.nonzero(np.append(False, ~differs) | np.append(~differs, False))[0]
    if len(tied):
        groups = np.append(0, np.cumsum(differs))[tied]
        places = order[tied] if leads is None else leads[order[tied]]
        order[tied] = order[tied[_by_row(rows.take(pa.array(places)), groups)]]
    return order


def _by_row(rows: pa.Table, groups: Longs) -> Longs:
    """The order of rows within their groups; rows of a group stand together."""
    table = pa.table({"group": groups, "row": table_bytes(rows)})
    found: Longs = pc.sort_indices(table, sort_keys=[("group", "ascending"), ("row", "ascending")]).to_numpy()
    return found.astype(np.int64)
