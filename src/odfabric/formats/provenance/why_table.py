"""The table of the SQL function `why`.

A row for each input record behind a record. Owns its columns and their types. Source: docs/reference/why.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from odfabric.formats.slices.slice_schema import TIMESTAMP_TYPE

WHY_SCHEMA = pa.schema(
    [
        pa.field("depth", pa.int32(), nullable=False),
        pa.field("of_dataset", pa.string()),
        pa.field("of_offset", pa.int64()),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("dataset", pa.string(), nullable=False),
        pa.field("offset", pa.int64()),
        pa.field("op", pa.int32()),
        pa.field("system_time", TIMESTAMP_TYPE),
        pa.field("block", pa.string()),
        pa.field("role", pa.string()),
        pa.field("columns", pa.string()),
        pa.field("records", pa.int64(), nullable=False),
        pa.field("verified", pa.bool_()),
        pa.field("reason", pa.string()),
        pa.field("message", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyRow:
    """A record behind another, or how many there are that are not shown.

    `system_time` in milliseconds; `records` is 1 where `offset` is known.
    """

    depth: int
    of_dataset: str | None = None
    of_offset: int | None = None
    kind: str
    dataset: str
    offset: int | None = None
    op: int | None = None
    system_time: int | None = None
    block: str | None = None
    role: str | None = None
    columns: str | None = None
    records: int = 1
    verified: bool | None = None
    reason: str | None = None
    message: str | None = None


def write_why_rows(path: Path, rows: Sequence[WhyRow]) -> None:
    """Write rows in their order."""
    pq.write_table(pa.Table.from_pylist([asdict(row) for row in rows], schema=WHY_SCHEMA), path)
