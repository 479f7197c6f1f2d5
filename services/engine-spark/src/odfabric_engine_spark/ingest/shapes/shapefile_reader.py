"""Reading shapefiles: archives of users become rows as objects of JSON do.

Owns the way of several archives through the reader of objects, with the columns that their tables declare. Not here: what is in an archive
(`shapefile_archive`), what a shape and its attributes are (`shapefile_rows`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from odfabric.errors import InvalidData, Place
from odfabric.formats.files.time_formats import date_format, timestamp_format
from odfabric_engine_spark.ingest.dataset_columns import DatasetColumns
from odfabric_engine_spark.ingest.json.json_reader import GivenObjects, JsonReader, JsonRow
from odfabric_engine_spark.ingest.shapes.shapefile_archive import unpack
from odfabric_engine_spark.ingest.shapes.shapefile_rows import columns_of, rows_of
from odfabric_engine_spark.ingest.values.text_values import TextFormats
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.frames.read_rows import InputRows


def read_shapefiles(
    sub_path: str | None,
    files: Sequence[tuple[Path, str]],
    schema: pa.Schema | None,
    columns: DatasetColumns | None,
    call: EngineCall,
) -> InputRows | None:
    """The rows of all archives (path, name) in order.

    None if there is neither schema nor row.

    `columns` decide where no schema is declared.
    Raises InvalidData with the place of what is wrong, LimitExceeded, IncompatibleSchema.
    """
    given = [(path, name) for path, name in files if path.stat().st_size]
    parts = [unpack(path, name, sub_path, call, number=number) for number, (path, name) in enumerate(given)]
    own = [columns_of(each) for each in parts]
    for each, found in zip(parts, own, strict=True):
        if schema is None and columns is None and not found.equals(own[0]):
            raise InvalidData(f"The columns differ from those of {parts[0].name}", place=Place(file=each.name))

    def rows() -> Iterator[JsonRow]:
        for each in parts:
            yield from rows_of(each, call)

    formats = TextFormats(date_format(None), timestamp_format(None))
    objects = GivenObjects(own[0] if own else pa.schema([]), rows)
    return JsonReader(call, formats, schema, None, columns, given=objects).read([])
