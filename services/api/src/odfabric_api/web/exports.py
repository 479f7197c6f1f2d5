"""The answer of a query as a file to keep."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from fastapi import Request
from starlette.responses import Response

from odfabric.errors import InvalidRequest, Place
from odfabric.formats.json_values.json_rows import DataFormat, rows_document
from odfabric.ports.engine import ProgressListener
from odfabric.usecases.queries.query_data import QueryData
from odfabric_api.auth import Subject, node_of


@dataclass(frozen=True, slots=True)
class Export:
    """A file format: display name, media type, extension, and writer."""

    name: str
    media_type: str
    extension: str
    write: Callable[[pa.Table], bytes]


def export_answer(
    request: Request, caller: Subject, asked: QueryData, *, kind: str, listener: ProgressListener
) -> Response:
    """Run a query and answer with a file of `kind`, one of EXPORTS.

    Raises what a query raises, InvalidRequest for another kind.
    """
    export = EXPORTS.get(kind)
    if export is None:
        raise InvalidRequest(
            f"no file of kind {kind!r} is made", place=Place(field="export"), hint=f"one of {', '.join(EXPORTS)}"
        )
    with (
        node_of(request).rows.query(asked, listener, by=caller) as answer,
        pa.memory_map(str(answer.path)) as source,
        pa.ipc.open_stream(source) as stream,
    ):
        written = export.write(stream.read_all())
    headers = {"content-disposition": f'attachment; filename="result.{export.extension}"'}
    return Response(written, media_type=export.media_type, headers=headers)


def _csv(table: pa.Table) -> bytes:
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow(table.column_names)
    writer.writerows(_values(table, DataFormat.JSON_AOA))
    return written.getvalue().encode()


def _json(table: pa.Table) -> bytes:
    return json.dumps(_values(table, DataFormat.JSON_AOS), ensure_ascii=False).encode()


def _values(table: pa.Table, data_format: DataFormat) -> Any:
    return rows_document(table, data_format)["data"]


def _parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue().to_pybytes())


def _arrow(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


EXPORTS = {
    "csv": Export("CSV", "text/csv; charset=utf-8", "csv", _csv),
    "json": Export("JSON", "application/json", "json", _json),
    "parquet": Export("Parquet", "application/vnd.apache.parquet", "parquet", _parquet),
    "arrow": Export("Arrow", "application/vnd.apache.arrow.file", "arrow", _arrow),
}

EXPORT_NAMES = {kind: export.name for kind, export in EXPORTS.items()}
"""What people call the kinds, for buttons."""
