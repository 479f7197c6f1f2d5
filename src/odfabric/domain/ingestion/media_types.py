"""Media types of pushed data and the read steps they mean.

Owns the table and the treatment of parameters. Invariant: bytes are read in the encoding that their sender names: `charset` is that
of the source, or the source names none, or the data is refused. Parameters but `charset` are ignored. Source:
specification, "Data Ingestion".
"""

from __future__ import annotations

from dataclasses import replace

from odfabric.errors import UnsupportedMediaType
from odfabric.formats.files.text_encodings import check_encoding, encoding_name
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
_WIDE = frozenset({"utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"})
"""Encodings in which ASCII has other bytes."""
_UTF_8 = "utf-8"
_ASCII = "ascii"

_ENCODED = ReadStepCsv | ReadStepJson | ReadStepNdJson

MEDIA_TYPES = tuple(_READERS)


def read_step_for(declared: ReadStep, media_type: str | None) -> ReadStep:
    """How data of `media_type` is read by a source that declares `declared`.

    Without a media type, or with the declared format's, the source's own step with all its options. Otherwise a fresh step
    of that format with only the schema copied; a CSV without a schema must then have a header row, with one it must not.
    Raises UnsupportedMediaType, also for a `charset` that is not the encoding of the source.
    """
    if media_type is None:
        return declared
    reader, charset = _reader_of(media_type)
    if type(reader) is type(declared):
        return _in_charset(declared, charset)
    fresh = replace(reader, schema=declared.schema, ddl_schema=declared.ddl_schema)
    if isinstance(fresh, ReadStepCsv):
        fresh = replace(fresh, header=declared.schema is None and declared.ddl_schema is None)
    return _in_charset(fresh, charset)


def best_effort_read_step(media_type: str) -> ReadStep:
    """How data of `media_type` is read when no source says anything.

    Raises UnsupportedMediaType.
    """
    reader, charset = _reader_of(media_type)
    reader = replace(reader, header=True, infer_schema=True) if isinstance(reader, ReadStepCsv) else reader
    return _in_charset(reader, charset)


def _reader_of(media_type: str) -> tuple[ReadStep, str | None]:
    """The step of a media type without options; `charset` becomes `encoding_name`."""
    essence, *parameters = (part.strip() for part in media_type.split(";"))
    reader = _READERS.get(essence.lower())
    if reader is None:
        raise UnsupportedMediaType(f"Unsupported media type: {essence!r}", hint=f"supported: {', '.join(MEDIA_TYPES)}")
    charsets = {_charset(parameter) for parameter in parameters} - {None}
    if len(charsets) > 1:
        raise UnsupportedMediaType("The media type names two charsets", hint="name one")
    return reader, charsets.pop() if charsets else None


def _charset(parameter: str) -> str | None:
    name, _, value = parameter.partition("=")
    if name.strip().lower() != "charset":
        return None
    charset = value.strip().strip('"')
    problem = check_encoding(charset)
    if problem is not None or not charset:
        raise UnsupportedMediaType(f"Unsupported charset: {charset!r}", hint=problem.hint if problem else "send UTF-8")
    return encoding_name(charset)


def _in_charset(step: ReadStep, charset: str | None) -> ReadStep:
    """The step for bytes whose sender says that they are of `charset`.

    Raises UnsupportedMediaType.
    """
    if charset is None or isinstance(step, ReadStepParquet | ReadStepEsriShapefile):
        return step
    encoding = encoding_name(step.encoding) if isinstance(step, _ENCODED) else _UTF_8
    if encoding is None or charset == encoding or (charset == _ASCII and encoding not in _WIDE):
        return step
    if isinstance(step, _ENCODED) and step.encoding is None:
        return replace(step, encoding=charset)
    source = (
        f"`{step.encoding}`, the encoding of the source" if isinstance(step, _ENCODED) else "UTF-8, which it must be"
    )
    raise UnsupportedMediaType(
        f"The charset `{charset}` of the media type is not {source}",
        hint=f"send the data in the encoding `{encoding}`, with this charset or without one",
    )
