"""Find records of the output among rows that a query gives.

Owns when a row is a record: by the bytes of equal rows, floats to nine digits, for a float may have been added in another order.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from odfabric.formats.slices.canonical_rows import one_array, row_bytes
from odfabric_engine_spark.arrays.array_types import Longs, Mask

_DIGITS = 1e-9


def places_of(records: pa.Table, rows: pa.Table) -> list[Longs]:
    """For each record the positions of equal rows; both have the same columns."""
    exact = [name for name in records.column_names if not types.is_floating(records.schema.field(name).type)]
    floats = [name for name in records.column_names if name not in exact]
    if not rows.num_rows:
        return [np.zeros(0, np.int64) for _ in range(records.num_rows)]
    wanted, have = _bytes(records, exact), _bytes(rows, exact)
    values = pc.unique(wanted)
    groups = pc.fill_null(pc.index_in(have, values), -1).to_numpy()
    by_group: dict[int, list[int]] = defaultdict(list)
    for place in np.flatnonzero(groups >= 0).tolist():
        by_group[int(groups[place])].append(place)
    found = []
    for record, group in enumerate(pc.index_in(wanted, values).to_pylist()):
        places = np.array(by_group.get(group, []), np.int64)
        for name in floats:
            places = places[_close(records.column(name)[record], rows.column(name).take(pa.array(places)))]
        found.append(places)
    return found


def _bytes(rows: pa.Table, names: list[str]) -> pa.Array:
    if not names:
        return pa.array([b""] * rows.num_rows, pa.binary())
    return row_bytes([one_array(rows.column(name)) for name in names])


def _close(wanted: pa.Scalar, values: pa.ChunkedArray) -> Mask:
    array = one_array(values)
    nulls: Mask = array.is_null().to_numpy(zero_copy_only=False)
    if wanted.as_py() is None:
        return nulls
    numbers = array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
    close: Mask = np.isclose(numbers, float(wanted.as_py()), rtol=_DIGITS, atol=0, equal_nan=True)
    return ~nulls & close
