"""The whole write path's result in plain Python, for cases of level `writer`.

Reads the CSV, casts by the DDL, merges by `merge_oracle`, fills event times, gives offsets. A preprocess is known by the words in
which the case describes it; a case with other words needs a line here and fails until it has one.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from typing import Any

from odfabric.errors import IncompatibleSchema, InvalidData, OdfError
from odfabric.formats.manifests.ddl_schema import ddl_to_schema
from odfabric.model.data_schema import (
    DataField,
    DataSchema,
    DataTypeDate,
    DataTypeFloat32,
    DataTypeFloat64,
    DataTypeOption,
    DataTypeString,
    DataTypeTimestamp,
)
from odfabric.model.engine import IngestRequest
from odfabric.model.instant import Instant
from odfabric.model.metadata import SqlQueryStep, TransformSql
from odfabric.model.source import ReadStepCsv
from tests.services.engine.ingest.ingesting import Dataset
from tests.services.engine.ingest.merge import merge_oracle

Row = dict[str, Any]

PREPROCESS = {
    "two chained SQL steps over `input`: population*10, then +1": (
        TransformSql(
            engine="spark",
            queries=(
                SqlQueryStep(alias="tenfold", query="SELECT city, population * 10 AS population FROM input"),
                SqlQueryStep(query="SELECT city, population + 1 AS population FROM tenfold"),
            ),
        ),
        lambda row: {**row, "population": row["population"] * 10 + 1},
    )
}
APPENDING = re.compile(r"commit SetDataSchema appending optional column (\w+) \(String\?\)")


@dataclass(frozen=True)
class Refused:
    """The round must fail with this error, whose text holds the message."""

    error: type[OdfError]
    message: str = ""


class WriterOracle:
    """A dataset in plain Python."""

    def __init__(self, case: Row) -> None:
        self.case = case
        self.names = case["vocab"]
        self.changelog: list[Row] = []
        self.columns: dict[str, bool] | None = None
        self.watermark: Instant | None = None
        self._ddl = ""
        self._rounds = 0

    def schema_of(self, given: Row) -> DataSchema:
        """The read schema of a round."""
        if given["readSchemaDdl"] != "same":
            self._ddl = given["readSchemaDdl"]
        text = self._ddl.partition("(all NOT NULL)")[0]
        elements = [element.strip() for element in text.split(",")]
        return ddl_to_schema([f"{element} NOT NULL" if "(all" in self._ddl else element for element in elements])

    def request(self, dataset: Dataset, given: Row) -> IngestRequest:
        """The same round for the engine."""
        preprocess = PREPROCESS[self.case["preprocess"]][0] if self.case.get("preprocess") else None
        return dataset.request(
            ReadStepCsv(header=True, schema=self.schema_of(given)),
            given["inputCsv"].encode(),
            preprocess=preprocess,
            system_time=instant(given["systemTime"]),
            source_time=instant(given["sourceEventTime"]),
        )

    def between_rounds(self, dataset: Dataset) -> None:
        """What the case commits between rounds."""
        text = self.case.get("betweenRounds")
        if text is None:
            return
        match = APPENDING.fullmatch(text)
        assert match, f"not known: {text}"
        added = DataField(name=match[1], type=DataTypeOption(inner=DataTypeString()))
        assert dataset.data_schema
        if added not in dataset.data_schema.fields:
            dataset.data_schema = replace(dataset.data_schema, fields=(*dataset.data_schema.fields, added))

    def round(self, given: Row) -> list[Row] | Refused:
        """Rows that the round must add, or why it must fail."""
        self._rounds += 1
        schema = self.schema_of(given)
        if self._rounds > 1 and self.columns is not None and self.case.get("betweenRounds"):
            match = APPENDING.fullmatch(self.case["betweenRounds"])
            assert match
            self.columns.setdefault(match[1], True)
        new = self._read(given["inputCsv"], schema)
        if self.case.get("preprocess"):
            new = [PREPROCESS[self.case["preprocess"]][1](row) for row in new]
        refused = self._refused(schema, new)
        if refused:
            return refused
        event_time = self.names["eventTime"]
        is_date = any(field.name == event_time and _inner(field) == DataTypeDate() for field in schema.fields)
        for row in new:
            row.setdefault(event_time, None)
        columns = list(dict.fromkeys((*(field.name for field in schema.fields), event_time)))
        prev = self.changelog or None
        try:
            merged = merge_oracle.merge(self.case["strategy"], columns, new, prev, event_time)
        except merge_oracle.Refusal:
            return Refused(InvalidData)
        return self._written(merged, given, is_date=is_date)

    def _refused(self, schema: DataSchema, new: list[Row]) -> Refused | None:
        nullable = {field.name: isinstance(field.type, DataTypeOption) for field in schema.fields}
        if self.columns is None:
            self.columns = nullable
        elif list(nullable) != list(self.columns):
            return Refused(IncompatibleSchema)
        for name, optional in self.columns.items():
            nulls = sum(row[name] is None for row in new)
            if nulls and not (optional and nullable[name]) and name != self.names["eventTime"]:
                return Refused(InvalidData, f"Column `{name}` contains {nulls} null values while none were expected")
        return None

    def _read(self, text: str, schema: DataSchema) -> list[Row]:
        rows = list(csv.reader(io.StringIO(text)))[1:]
        return [
            {field.name: _value(cell, field) for field, cell in zip(schema.fields, row, strict=True)} for row in rows
        ]

    def _written(self, merged: list[Row], given: Row, *, is_date: bool) -> list[Row]:
        names = self.names
        source = instant(given["sourceEventTime"]).to_datetime()
        for row in merged:
            if row[names["eventTime"]] is None:
                row[names["eventTime"]] = source.date() if is_date else source
        if self.case["strategy"]["kind"] in ("Append", "Ledger"):
            merged = sorted(merged, key=lambda row: row[names["eventTime"]])
        result = []
        for row in merged:
            system = {
                names["offset"]: len(self.changelog),
                names["systemTime"]: instant(given["systemTime"]).to_datetime(),
            }
            result.append({**row, **system})
            self.changelog.append(result[-1])
        times = [_instant_of(row[names["eventTime"]]) for row in result]
        if times:
            self.watermark = max([*times, *([self.watermark] if self.watermark else [])])
        return result


def instant(text: str) -> Instant:
    return Instant.parse(text)


def comparable(row: Row) -> Row:
    """A row with times as texts of one form, no matter who wrote it."""
    return {name: _text(value) for name, value in sorted(row.items())}


def _text(value: Any) -> Any:
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d(T.*)?", value):
        return str(_instant_of(datetime.fromisoformat(value.replace("Z", "+00:00"))))
    if isinstance(value, date):
        return str(_instant_of(value))
    return value


def _instant_of(value: date | datetime) -> Instant:
    moment = value if isinstance(value, datetime) else datetime.combine(value, time())
    return Instant.from_datetime(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _inner(field: DataField) -> Any:
    return field.type.inner if isinstance(field.type, DataTypeOption) else field.type


def _value(cell: str, field: DataField) -> Any:
    if cell == "":
        return None
    match _inner(field):
        case DataTypeString():
            return cell
        case DataTypeDate():
            return date.fromisoformat(cell)
        case DataTypeTimestamp():
            moment = datetime.fromisoformat(cell.replace("Z", "+00:00"))
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        case DataTypeFloat32() | DataTypeFloat64():
            return float(cell)
        case _:
            return int(cell)
