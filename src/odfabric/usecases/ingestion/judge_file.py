"""Judge a file: its format, columns, types of all rows, and why no other types.

Owns what a judging job does and the JSON of its result. Invariant: every row is looked at, and memory does not grow with their number. Of a Parquet
file the schema is taken as it is. A file of a URL is fetched here, as a polling source fetches it, and kept as an upload is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from odfabric.domain.ingestion.column_guess import ColumnGuess, GuessedColumn
from odfabric.errors import Corrupt, InvalidData, LimitExceeded
from odfabric.formats.files.file_rows import BrokenRow, FileRows, RowLimits
from odfabric.formats.files.file_shape_value import shape_value
from odfabric.formats.identifiers.physical_hash import physical_hash
from odfabric.formats.jobs.judge_request import read_judge_request
from odfabric.formats.parquet.parquet_reading import arrow_schema_of, open_parquet
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.formats.slices.type_names import type_name
from odfabric.model.data_schema import DataField, DataTypeDate, DataTypeOption, DataTypeTimestamp
from odfabric.model.engine import EngineProgress
from odfabric.model.file_shape import FileFormat, FileShape
from odfabric.model.jobs.job import Job
from odfabric.model.jobs.requests import FileToFetch
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.sources.egress import HttpSource
from odfabric.usecases.jobs.job_run import JobRun

LISTED_MAX = 20
"""Wrong rows that are reported one by one; of the others only how many."""
_HEAD_BYTES = 64 * 1024
_ENDINGS = {
    "csv": FileFormat.CSV,
    "tsv": FileFormat.CSV,
    "txt": FileFormat.CSV,
    "ndjson": FileFormat.NDJSON,
    "jsonl": FileFormat.NDJSON,
    "json": FileFormat.JSON,
    "parquet": FileFormat.PARQUET,
}
_SEPARATORS = (",", ";", "\t", "|")
_PARQUET_BEGINS = b"PAR1"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePorts:
    """What jobs about files work with."""

    objects: ObjectStore
    exchange: Exchange
    http: HttpSource
    limits: RowLimits


def run_judge(job: Job, run: JobRun, *, ports: FilePorts) -> Mapping[str, object]:
    """What the file says.

    Raises InvalidData with the line of what ends the reading, LimitExceeded, NotFound, Corrupt.
    """
    request = read_judge_request(job)
    with ports.exchange.session() as folder:
        path = folder / "file"
        if isinstance(request.file, FileToFetch):
            _fetch(request.file.url, request.upload, path, run=run, ports=ports)
            fetched, size = physical_hash(path)
            digest = fetched.digest
        else:
            digest, size = request.file.digest, request.file.size
            take_upload(request.upload, digest, path, objects=ports.objects)
        shape = request.shape or guessed_shape(path, request.file_name)
        found = (
            _of_parquet(path, ports.limits)
            if shape.format is FileFormat.PARQUET
            else _of_rows(path, shape, size, run, ports)
        )
    return {"shape": shape_value(shape), "size": size, "digest": digest.hex(), **found}


def take_upload(key: str, digest: bytes, path: Path, *, objects: ObjectStore) -> None:
    """Make an upload readable at `path`. Raises NotFound, Corrupt."""
    objects.materialize(key, path)
    if physical_hash(path)[0].digest != digest:
        raise Corrupt("the uploaded file is damaged", object_name=key)


def guessed_shape(path: Path, name: str) -> FileShape:
    """How a file is written, by its name and its first bytes."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    text = head.decode(errors="replace").lstrip("\ufeff").lstrip()
    found = _ENDINGS.get(name.rpartition(".")[2].lower())
    if head.startswith(_PARQUET_BEGINS):
        found = FileFormat.PARQUET
    elif text.startswith("["):
        found = FileFormat.JSON if found is not FileFormat.CSV else found
    elif text.startswith("{"):
        found = FileFormat.NDJSON if found is not FileFormat.CSV else found
    first = text.partition("\n")[0]
    separator = max(_SEPARATORS, key=first.count)
    return FileShape(format=found or FileFormat.CSV, separator=separator if separator in first else ",")


def progress_of(run: JobRun, *, stage: str, size: int) -> Callable[[int], None]:
    """What informs anyone who watches how many bytes of a file were read."""
    return lambda done: run.report(EngineProgress(stage=stage, done=min(done, size), total=size))


def broken_value(row: BrokenRow) -> dict[str, object]:
    """A row that is none, as JSON."""
    return {"line": row.line, "message": row.message, "hint": row.hint}


def _fetch(url: str, key: str, path: Path, *, run: JobRun, ports: FilePorts) -> None:
    run.report(EngineProgress(stage="fetch", done=0, total=0))
    if ports.objects.stat(key) is None:
        ports.http.fetch(url, headers=(), etag=None, last_modified=None, into=path)
        ports.objects.put_file(key, path)
    else:
        ports.objects.materialize(key, path)  # fetched by an attempt before


def _of_rows(path: Path, shape: FileShape, size: int, run: JobRun, ports: FilePorts) -> dict[str, object]:
    rows = FileRows(path, shape, ports.limits, progress_of(run, stage="read rows", size=size))
    cells = shape.format is FileFormat.CSV
    guess = ColumnGuess(rows.names() if cells else (), cells=cells)
    broken: list[dict[str, object]] = []
    count = 0
    for one in rows.batches():
        if isinstance(one, BrokenRow):
            count += 1
            if len(broken) < LISTED_MAX:
                broken.append(broken_value(one))
            continue
        guess.add(one)
        if guess.width > ports.limits.columns_max:
            _too_wide(guess.width, ports.limits)
    if not guess.width:
        if broken:
            raise InvalidData(str(broken[0]["message"]), hint=str(broken[0]["hint"]))
        raise InvalidData("the file has no rows", hint="choose one that has, or write a manifest")
    return {
        "rows": guess.rows + count,
        "columns": [_column_value(column) for column in guess.columns()],
        "broken": broken,
        "brokenCount": count,
    }


def _column_value(column: GuessedColumn) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type.value,
        "values": column.values,
        "missing": column.missing,
        "misfits": [
            {"type": misfit.type.value, "count": misfit.count, "line": misfit.line, "value": misfit.value}
            for misfit in column.misfits
        ],
    }


def _of_parquet(path: Path, limits: RowLimits) -> dict[str, object]:
    with open_parquet(path) as file:
        schema, rows = arrow_to_data_schema(arrow_schema_of(file)), file.metadata.num_rows
    if len(schema.fields) > limits.columns_max:
        _too_wide(len(schema.fields), limits)
    return {"rows": rows, "columns": list(map(_declared_value, schema.fields)), "broken": [], "brokenCount": 0}


def _declared_value(field: DataField) -> dict[str, Any]:
    is_optional = isinstance(field.type, DataTypeOption)
    inner = field.type.inner if isinstance(field.type, DataTypeOption) else field.type
    is_time = isinstance(inner, DataTypeDate | DataTypeTimestamp)
    return {"name": field.name, "type": type_name(inner), "isOptional": is_optional, "isTime": is_time}


def _too_wide(width: int, limits: RowLimits) -> NoReturn:
    raise LimitExceeded(
        f"the file has {width} columns; write a manifest", limit="judged_columns_max", maximum=limits.columns_max
    )
