"""Options of reading CSV, with defaults filled and checked."""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.formats.files.csv_grammar import CsvDialect
from odfabric.formats.files.csv_options import csv_dialect
from odfabric.formats.files.time_formats import date_format, timestamp_format
from odfabric.model.source import ReadStepCsv
from odfabric_engine_spark.ingest.encodings import known_encoding
from odfabric_engine_spark.ingest.values.text_values import TextFormats


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvOptions:
    """What a read step says. `null` is the text that means null when it is not quoted."""

    dialect: CsvDialect
    encoding: str
    header: bool
    infer: bool
    null: str
    formats: TextFormats

    @classmethod
    def of(cls, step: ReadStepCsv) -> CsvOptions:
        """The options of a step.

        Raises InvalidManifest for characters, encodings and formats that make no sense.
        """
        return cls(
            dialect=csv_dialect(step),
            encoding=known_encoding(step.encoding),
            header=bool(step.header),
            infer=bool(step.infer_schema),
            null=step.null_value or "",
            formats=TextFormats(date_format(step.date_format), timestamp_format(step.timestamp_format)),
        )

    @property
    def watched(self) -> str:
        """Characters whose presence decides how a file is parsed."""
        return (self.dialect.quote or "") + (self.dialect.escape or "")
