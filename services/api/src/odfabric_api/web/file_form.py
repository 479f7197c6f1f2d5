"""The form of a new dataset from a file: chosen columns, and what its rows say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from odfabric.domain.ingestion.column_guess import GuessedType
from odfabric.errors import InvalidRequest, Place
from odfabric.model.file_shape import FileFormat, FileShape
from odfabric.model.identity import DatasetAlias
from odfabric.usecases.ingestion.draft_source import DraftColumn, Merge, SourceDraft
from odfabric.usecases.ingestion.uploads import Upload
from odfabric_api.web.new_dataset import OWNER_FIELDS

SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
SHAPE_FIELDS = frozenset({"format", "header", "separator"})

ChoiceT = TypeVar("ChoiceT", bound=Enum)

_COLUMN_FIELDS = ("name", "type", "null", "key")
_OWN_FIELDS = frozenset({"name", "action", "event_time", "merge"}) | OWNER_FIELDS | SHAPE_FIELDS
_FIELD_BYTES_MAX = 2048
_TIMES = (GuessedType.TIMESTAMP.value, GuessedType.DATE.value)


@dataclass(frozen=True, slots=True)
class FormColumn:
    """A row of the table of columns: what was chosen for it, and what all rows say.

    The type of a Parquet file is its own.
    """

    name: str
    type: str
    is_optional: bool
    is_key: bool
    is_time: bool
    found: Mapping[str, Any]


def form_fields(columns: int) -> frozenset[str]:
    """The fields of a form over so many columns."""
    return _OWN_FIELDS | {f"c{number}_{field}" for number in range(columns) for field in _COLUMN_FIELDS}


def form_bytes_max(columns: int) -> int:
    """Longest form over so many columns, as it is sent."""
    return (columns + len(_OWN_FIELDS)) * _FIELD_BYTES_MAX


def shape_of_form(form: Mapping[str, str]) -> FileShape:
    """How the file is said to be written. Raises InvalidRequest."""
    separator = SEPARATORS.get(form.get("separator", "comma"))
    if separator is None:
        raise InvalidRequest("an unknown separator", place=Place(field="separator"))
    return FileShape(
        format=_choice(form, "format", FileFormat, FileFormat.CSV),
        separator=separator,
        header=form.get("header", "yes") == "yes",
    )


def shape_values(shape: FileShape | None) -> dict[str, str]:
    """Fields that say so, as the form begins."""
    chosen = shape or FileShape(format=FileFormat.CSV)
    separator = next(name for name, sign in SEPARATORS.items() if sign == chosen.separator)
    return {"format": chosen.format.value, "separator": separator, "header": "yes" if chosen.header else "no"}


def chosen_columns(upload: Upload, form: Mapping[str, str]) -> list[FormColumn]:
    """The columns of a judged file with what was chosen for them.

    Or what its rows say before anything was. Raises InvalidRequest.

    Columns that hold a time in every row need one; all others may be null to begin with: the next file may lack what this one has.
    """
    of = _chosen_column if "c0_type" in form or "merge" in form else _found_column
    return [of(upload, number, found, form) for number, found in enumerate(upload.found["columns"])]


def may_rename(upload: Upload) -> bool:
    """Whether columns are known by their place, so that their names are free."""
    return upload.shape.format is FileFormat.CSV and not upload.shape.header


def draft_of(upload: Upload, form: Mapping[str, str], name: DatasetAlias, columns: list[FormColumn]) -> SourceDraft:
    """All choices as one. Raises InvalidRequest."""
    tells_itself = upload.shape.format is FileFormat.PARQUET
    event_time = form.get("event_time", "") or None
    if tells_itself and event_time is not None and event_time not in times_of(columns):
        raise InvalidRequest(f"`{event_time[:100]}` holds no times", place=Place(field="event_time"))
    declared = tuple(
        DraftColumn(each.name, GuessedType(each.type), each.is_optional) for each in columns if not tells_itself
    )
    return SourceDraft(
        name=name,
        shape=upload.shape,
        url=upload.url,
        columns=declared,
        event_time=event_time,
        key=tuple(each.name for each in columns if each.is_key),
        merge=_choice(form, "merge", Merge, Merge.APPEND),
    )


def times_of(columns: list[FormColumn]) -> list[str]:
    """Names of the columns that hold times."""
    return [each.name for each in columns if each.is_time]


def form_values(upload: Upload, form: Mapping[str, str], columns: list[FormColumn]) -> dict[str, Any]:
    """Values of the template: the form as it was sent, or as it begins."""
    times = times_of(columns)
    stem = upload.file_name.partition(".")[0].lower()
    suggested = "-".join(
        part for part in "".join(sign if sign.isascii() and sign.isalnum() else " " for sign in stem).split()
    )
    return {
        "name": form.get("name", suggested),
        "merge": form.get("merge", Merge.APPEND.value),
        "event_time": form.get("event_time", times[0] if times else ""),
        "columns": columns,
        "times": times,
        "types": [kind.value for kind in GuessedType],
        "may_rename": may_rename(upload),
    }


def _found_column(upload: Upload, number: int, found: Mapping[str, Any], form: Mapping[str, str]) -> FormColumn:
    if upload.shape.format is FileFormat.PARQUET:
        return FormColumn(found["name"], found["type"], found["isOptional"], False, found["isTime"], found)
    is_time = found["type"] in _TIMES
    is_full = found["type"] == GuessedType.TIMESTAMP.value and not found["missing"]
    return FormColumn(found["name"], found["type"], not is_full, False, is_time, found)


def _chosen_column(upload: Upload, number: int, found: Mapping[str, Any], form: Mapping[str, str]) -> FormColumn:
    is_key = f"c{number}_key" in form
    if upload.shape.format is FileFormat.PARQUET:
        return FormColumn(found["name"], found["type"], found["isOptional"], is_key, found["isTime"], found)
    name = form.get(f"c{number}_name", "").strip() if may_rename(upload) else found["name"]
    kind = _choice(form, f"c{number}_type", GuessedType, GuessedType.STRING).value
    return FormColumn(name, kind, f"c{number}_null" in form, is_key, kind in _TIMES, found)


def _choice(form: Mapping[str, str], field: str, choices: type[ChoiceT], default: ChoiceT) -> ChoiceT:
    try:
        return choices(form.get(field, default.value))
    except ValueError:
        raise InvalidRequest(f"{form[field][:60]!r} is no choice", place=Place(field=field)) from None
