"""Options of reading CSV, with defaults filled and checked."""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.errors import InvalidManifest, Place
from odfabric.formats.csv_grammar import CsvDialect
from odfabric.formats.time_formats import date_format, timestamp_format
from odfabric.model.source import ReadStepCsv
from odfabric_engine_spark.read.encodings import known_encoding
from odfabric_engine_spark.read.text_values import TextFormats


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
        """The options of a step. Raises InvalidManifest for characters, encodings and formats that make no sense."""
        separator = _character(step.separator, ",", "separator")
        quote = _character(step.quote, '"', "quote")
        escape = _character(step.escape, "\\", "escape")
        if separator is None or separator in (quote, escape):
            raise InvalidManifest(
                "The separator is missing, or is also quote or escape", place=Place(field="separator")
            )
        return cls(
            dialect=CsvDialect(separator=separator, quote=quote, escape=escape),
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


def _character(value: str | None, default: str, option: str) -> str | None:
    character = default if value is None else value
    if len(character.encode()) > 1 or character in ("\r", "\n", "\0"):
        raise InvalidManifest(
            f"{option} `{character}` must be one ASCII character other than a line end", place=Place(field=option)
        )
    return character or None
