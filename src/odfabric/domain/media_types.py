"""Media types of pushed data and the read steps they mean.

Owns the table and the treatment of parameters: `charset` may only be UTF-8 (or its subset US-ASCII), other parameters are
ignored. Source: reference behaviour of ingest, "Media types for push", except that it refuses parameters altogether.
"""

from __future__ import annotations

from dataclasses import replace

from odfabric.errors import UnsupportedMediaType
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

_READERS: dict[str, ReadStep] = {
    "text/csv": ReadStepCsv(),
    "application/json": ReadStepJson(),
    "application/x-ndjson": ReadStepNdJson(),
    "application/geo+json": ReadStepGeoJson(),
    "application/x-ndgeojson": ReadStepNdGeoJson(),
    "application/vnd.apache.parquet": ReadStepParquet(),
    "application/vnd.shp": ReadStepEsriShapefile(),
    "x-gis/x-shapefile": ReadStepEsriShapefile(),
}
_CHARSETS = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})

MEDIA_TYPES = tuple(_READERS)


def read_step_for(declared: ReadStep, media_type: str | None) -> ReadStep:
    """How data of `media_type` is read by a source that declares `declared`.

    Without a media type, or with the declared format's, the source's own step with all its options. Otherwise a fresh step
    of that format with only the schema copied; a CSV without a schema must then have a header row, with one it must not.
    Raises UnsupportedMediaType.
    """
    if media_type is None:
        return declared
    reader = _reader_of(media_type)
    if type(reader) is type(declared):
        return declared
    fresh = replace(reader, schema=declared.schema, ddl_schema=declared.ddl_schema)
    if isinstance(fresh, ReadStepCsv):
        return replace(fresh, header=declared.schema is None and declared.ddl_schema is None)
    return fresh


def best_effort_read_step(media_type: str) -> ReadStep:
    """How data of `media_type` is read when no source says anything. Raises UnsupportedMediaType."""
    reader = _reader_of(media_type)
    return replace(reader, header=True, infer_schema=True) if isinstance(reader, ReadStepCsv) else reader


def _reader_of(media_type: str) -> ReadStep:
    essence, *parameters = (part.strip() for part in media_type.split(";"))
    reader = _READERS.get(essence.lower())
    if reader is None:
        raise UnsupportedMediaType(f"Unsupported media type: {essence!r}", hint=f"supported: {', '.join(MEDIA_TYPES)}")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        charset = value.strip().strip('"').lower()
        if name.strip().lower() == "charset" and charset not in _CHARSETS:
            raise UnsupportedMediaType(f"Unsupported charset: {charset}", hint="send UTF-8")
    return reader
