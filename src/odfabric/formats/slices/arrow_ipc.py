"""Reading Arrow IPC files and streams: engine answers, tables to digest.

Owns telling the two forms apart and errors that name the file. Source: Arrow columnar format, IPC.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from odfabric.formats.parquet.parquet_reading import Source, readable

_FILE_MAGIC = b"ARROW1"


@dataclass(frozen=True, slots=True)
class IpcReader:
    """An open file or stream; `batches` can be walked once."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


@contextmanager
def open_ipc(source: Source) -> Iterator[IpcReader]:
    """An Arrow IPC file or stream.

    Raises InvalidData if it is neither or turns out damaged while it is read.
    """
    opened = pa.OSFile(str(source)) if isinstance(source, Path) else pa.PythonFile(source, "r")
    with readable(source, "Arrow IPC"), opened as stream:
        magic = stream.read(len(_FILE_MAGIC))
        stream.seek(0)
        if magic == _FILE_MAGIC:
            file = pa.ipc.open_file(stream)
            yield IpcReader(file.schema, (file.get_batch(index) for index in range(file.num_record_batches)))
        else:
            reader = pa.ipc.open_stream(stream)
            yield IpcReader(reader.schema, iter(reader))
