"""Slices whose statistics lie: rows of one file under the footer of another.

Both are written without compression, dictionaries and page headers that depend on values, so pages of values of equal size have equal places.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def write_lying(rows: pa.Table, stated: pa.Table, path: Path) -> None:
    """`rows` with the statistics of `stated`, a table of the same schema and shape."""
    pages, _ = _parts(rows, path)
    other, footer = _parts(stated, path)
    assert len(pages) == len(other), "values of equal size are needed"
    path.write_bytes(pages + footer)


def _parts(table: pa.Table, path: Path) -> tuple[bytes, bytes]:
    # Statistics in page headers would have to be swapped as well.
    pq.write_table(
        table, path, compression="NONE", use_dictionary=False, write_page_checksum=False, data_page_version="1.0"
    )
    data = path.read_bytes()
    size = struct.unpack("<I", data[-8:-4])[0] + 8
    return data[:-size], data[-size:]
