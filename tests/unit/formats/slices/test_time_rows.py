"""AS OF on Arrow columns: event times are compared in the unit of their column."""

from __future__ import annotations

import pyarrow as pa
import pytest

from odfabric.formats.slices.time_rows import split_by_moment
from odfabric.model.instant import Instant

DAY = 86_400_000


@pytest.mark.parametrize(
    ("kind", "times", "moment", "held"),
    [
        (pa.timestamp("s", "UTC"), [-1, 0, 1], -1, [-1]),
        (pa.timestamp("ms", "UTC"), [-1, 0, 1, None], 0, [-1, 0]),
        (pa.timestamp("us", "UTC"), [-1_001, -1_000, -999, None], -1, [-1_001, -1_000]),
        (pa.timestamp("us", "UTC"), [999, 1_000, 1_001], 1, [999, 1_000]),
        (pa.timestamp("ns", "UTC"), [999_999, 1_000_000, 1_000_001], 1, [999_999, 1_000_000]),
        (pa.date32(), [-1, 0, 1, None], -1, [-1]),
        (pa.date32(), [-1, 0, 1], DAY - 1, [-1, 0]),
        (pa.date32(), [-1, 0, 1], DAY, [-1, 0, 1]),
        (pa.timestamp("ms", "UTC"), [], 0, []),
    ],
)
def test_rows_are_split_at_a_moment(kind: pa.DataType, times: list[int | None], moment: int, held: list[int]) -> None:
    storage = pa.int32() if pa.types.is_date(kind) else pa.int64()
    table = pa.table({"t": pa.array(times, storage).cast(kind)})
    by_then, later = split_by_moment(table, "t", Instant.from_millis(moment))
    assert by_then.column("t").cast(storage).to_pylist() == held
    assert later.num_rows == len(times) - len(held)
