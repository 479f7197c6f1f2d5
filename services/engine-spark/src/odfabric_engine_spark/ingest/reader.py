"""From a read step to rows.

Owns which reader serves which step, the schema of a step, and the rule of empty inputs: no bytes at all are an empty frame if
the step has a schema, and no frame otherwise. Not here: defaults that depend on the dataset (`preprocess`).
Source: specification, "Data Ingestion".
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

import pyarrow as pa

from odfabric.errors import InvalidManifest, Place
from odfabric.formats.files.time_formats import date_format, timestamp_format
from odfabric.formats.json_values.json_columns import JsonMembers, json_members
from odfabric.formats.manifests.ddl_schema import ddl_to_schema
from odfabric.formats.slices.arrow_schema import data_schema_to_arrow
from odfabric.formats.slices.slice_schema import check_readable, check_storable
from odfabric.model.intake import FieldContract
from odfabric.model.source import (
    ReadStep,
    ReadStepCsv,
    ReadStepEsriShapefile,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
    ReadStepParquet,
)
from odfabric_engine_spark.ingest.csv.csv_header import other_kind
from odfabric_engine_spark.ingest.csv.csv_options import CsvOptions
from odfabric_engine_spark.ingest.csv.csv_reader import CsvReader
from odfabric_engine_spark.ingest.dataset_columns import DatasetColumns
from odfabric_engine_spark.ingest.encodings import Utf8File, as_utf8, known_encoding
from odfabric_engine_spark.ingest.json.geojson import GEOMETRY
from odfabric_engine_spark.ingest.json.json_reader import JsonReader
from odfabric_engine_spark.ingest.parquet.parquet_reader import ParquetReader
from odfabric_engine_spark.ingest.shapes.shapefile_reader import read_shapefiles
from odfabric_engine_spark.ingest.values.slice_types import slice_field
from odfabric_engine_spark.ingest.values.text_values import TextFormats
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.frames.read_rows import InputRows, check_names
from odfabric_engine_spark.spark.frames.spark_types import spark_schema


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file of the exchange folder and what its user calls it."""

    path: Path
    name: str


def read_input(
    step: ReadStep,
    files: tuple[InputFile, ...],
    call: EngineCall,
    columns: DatasetColumns | None = None,
    *,
    contract: FieldContract | None = None,
    preprocessed: bool = False,
) -> InputRows | None:
    """The rows of all files in order, None if there is no frame.

    `columns` decide where the step has no schema.

    `preprocessed`: a query makes other columns of these, so they may have types that no slice holds. `contract`: what becomes of fields that
    the schema does not declare.
    Raises InvalidData with the place of what is wrong, InvalidManifest for options that make no sense, IncompatibleSchema for
    types that are not supported, LimitExceeded.
    """
    match step:
        case ReadStepCsv():
            return csv_reader(step, call, preprocessed, columns, contract).read(texts_of(step, files, call))
        case ReadStepNdJson() | ReadStepJson():
            return json_reader(step, call, preprocessed, columns, contract).read(texts_of(step, files, call))
        case ReadStepGeoJson() | ReadStepNdGeoJson():
            schema, formats = _schema(step, call, preprocessed), TextFormats(date_format(None), timestamp_format(None))
            sub_path = "" if isinstance(step, ReadStepGeoJson) else None
            texts = _texts(files, known_encoding(None), "", call)
            marked = {name: within for name, within in _marked(step).items() if name != GEOMETRY}  # it is text already
            return JsonReader(call, formats, schema, sub_path, columns, marked, geo=True).read(texts)
        case ReadStepParquet():
            return ParquetReader(call, _schema(step, call, preprocessed), columns).read(
                [(file.path, file.name) for file in files]
            )
        case ReadStepEsriShapefile():
            schema = _schema(step, call, preprocessed)
            return read_shapefiles(step.sub_path, [(file.path, file.name) for file in files], schema, columns, call)
        case _ as never:
            assert_never(never)


def csv_reader(
    step: ReadStepCsv,
    call: EngineCall,
    preprocessed: bool,
    columns: DatasetColumns | None = None,
    contract: FieldContract | None = None,
) -> CsvReader:
    """The reader of a step. Raises InvalidManifest, IncompatibleSchema."""
    return CsvReader(call, CsvOptions.of(step), _schema(step, call, preprocessed), columns, contract)


def json_reader(
    step: ReadStepNdJson | ReadStepJson,
    call: EngineCall,
    preprocessed: bool,
    columns: DatasetColumns | None = None,
    contract: FieldContract | None = None,
) -> JsonReader:
    """The reader of a step. Raises InvalidManifest, IncompatibleSchema."""
    formats = TextFormats(date_format(step.date_format), timestamp_format(step.timestamp_format))
    sub_path = (step.sub_path or "") if isinstance(step, ReadStepJson) else None
    schema = _schema(step, call, preprocessed)
    return JsonReader(call, formats, schema, sub_path, columns, _marked(step), contract=contract)


def texts_of(
    step: ReadStepCsv | ReadStepNdJson | ReadStepJson, files: tuple[InputFile, ...], call: EngineCall
) -> list[Utf8File]:
    """The files with content as UTF-8.

    Raises InvalidData for bytes that are not of the encoding, or a page instead of JSON.
    """
    if isinstance(step, ReadStepCsv):
        options = CsvOptions.of(step)
        return _texts(files, options.encoding, options.watched, call)
    texts = _texts(files, known_encoding(step.encoding), "", call)
    if problem := next(filter(None, map(other_kind, texts)), None):
        raise problem
    return texts


def _schema(step: ReadStep, call: EngineCall, preprocessed: bool) -> pa.Schema | None:
    if step.schema is not None and step.ddl_schema is not None:
        raise InvalidManifest("schema and ddlSchema exclude each other", place=Place(field="read"))
    declared = step.schema
    if declared is None and step.ddl_schema is not None:
        declared = ddl_to_schema(step.ddl_schema)
    if declared is None:
        return None
    (check_readable if preprocessed else check_storable)(declared)
    schema = pa.schema([slice_field(field) for field in data_schema_to_arrow(declared, encodings=False)])
    check_names(schema, settings=call.settings, file=None)
    spark_schema(schema)  # refuses types that Spark would change
    return schema


def _marked(step: ReadStep) -> JsonMembers:
    return json_members(step.schema) if step.schema is not None else {}


def _texts(files: tuple[InputFile, ...], encoding: str, watched: str, call: EngineCall) -> list[Utf8File]:
    return [
        as_utf8(file.path, file.name, encoding=encoding, scratch=call.scratch, watched=watched)
        for file in files
        if file.path.stat().st_size
    ]
