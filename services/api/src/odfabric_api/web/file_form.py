"""The form of a new dataset from a file: what was chosen, and the columns that a sample shows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from odfabric.domain.column_guess import GuessedColumn, GuessedType, csv_rows, guess_columns, json_rows
from odfabric.errors import InvalidRequest, LimitExceeded, Place
from odfabric.model.identity import DatasetAlias
from odfabric.usecases.draft_source import DraftColumn, FileFormat, Merge, SourceDraft
from odfabric_api.web.new_dataset import OWNER_FIELDS

SAMPLE_BYTES_MAX = 64 * 1024
COLUMNS_MAX = 200
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}

ChoiceT = TypeVar("ChoiceT", bound=Enum)

_COLUMN_FIELDS = ("name", "type", "null", "key")
FIELDS = (
    frozenset({"name", "format", "header", "separator", "sample", "action", "event_time", "merge", "keys"})
    | OWNER_FIELDS
    | {f"c{number}_{field}" for number in range(COLUMNS_MAX) for field in _COLUMN_FIELDS}
)
FIELDS_MAX = len(FIELDS)
FORM_BYTES_MAX = SAMPLE_BYTES_MAX * 4 + COLUMNS_MAX * 1024


@dataclass(frozen=True, slots=True)
class FormColumn:
    """A row of the table of columns: what was chosen for it, and what the sample says."""

    name: str
    type: GuessedType
    is_optional: bool
    is_key: bool
    guessed: GuessedColumn | None


def format_of(form: dict[str, str]) -> FileFormat:
    """The chosen format. Raises InvalidRequest."""
    return _choice(form, "format", FileFormat, FileFormat.CSV)


def merge_of(form: dict[str, str]) -> Merge:
    """The chosen way of merging. Raises InvalidRequest."""
    return _choice(form, "merge", Merge, Merge.APPEND)


def guessed_columns(form: dict[str, str]) -> list[FormColumn]:
    """What the sample shows, as a choice to begin with: every column but those that hold times may be null, for a sample proves little.

    Raises InvalidData with the line, InvalidRequest without a sample, LimitExceeded.
    """
    return [
        FormColumn(found.name, found.type, found.missing > 0 or found.type is not GuessedType.TIMESTAMP, False, found)
        for found in _guess(form)
    ]


def chosen_columns(form: dict[str, str]) -> list[FormColumn]:
    """The rows of the table as they were sent, with what the sample says of each, none if there is no table yet. Raises InvalidRequest."""
    numbers = [number for number in range(COLUMNS_MAX) if f"c{number}_name" in form]
    guessed = _guess(form) if numbers and form.get("sample", "").strip() else []
    columns = []
    for number in numbers:
        columns.append(
            FormColumn(
                form[f"c{number}_name"].strip(),
                _choice(form, f"c{number}_type", GuessedType, GuessedType.STRING),
                f"c{number}_null" in form,
                f"c{number}_key" in form,
                guessed[number] if number < len(guessed) else None,
            )
        )
    return columns


def draft_of(form: dict[str, str], name: DatasetAlias, columns: list[FormColumn]) -> SourceDraft:
    """All choices as one. Keys of a file that tells its columns itself are typed, with commas between. Raises InvalidRequest."""
    typed = tuple(part.strip() for part in form.get("keys", "").split(",") if part.strip())
    return SourceDraft(
        name=name,
        format=format_of(form),
        separator=_separator(form),
        header=_has_header(form),
        columns=tuple(DraftColumn(each.name, each.type, each.is_optional) for each in columns),
        event_time=form.get("event_time", "").strip() or None,
        key=tuple(each.name for each in columns if each.is_key) if columns else typed,
        merge=merge_of(form),
    )


def form_values(form: dict[str, str], columns: list[FormColumn]) -> dict[str, Any]:
    """Values of the template: the form as it was sent, or as it begins."""
    times = [each.name for each in columns if each.type in (GuessedType.TIMESTAMP, GuessedType.DATE)]
    first_time = times[0] if times else ""
    return {
        "name": form.get("name", ""),
        "format": form.get("format", FileFormat.CSV.value),
        "header": form.get("header", "yes"),
        "separator": form.get("separator", "comma"),
        "sample": form.get("sample", ""),
        "merge": form.get("merge", Merge.APPEND.value),
        "keys": form.get("keys", ""),
        "event_time": form.get("event_time", first_time),
        "columns": columns,
        "times": times,
        "types": list(GuessedType),
    }


def _guess(form: dict[str, str]) -> list[GuessedColumn]:
    chosen, sample = format_of(form), _sample(form)
    if not sample.strip():
        raise InvalidRequest(
            "there is no sample", place=Place(field="sample"), hint="paste the first lines of the file"
        )
    if chosen is FileFormat.CSV:
        names, rows = csv_rows(sample, separator=_separator(form), header=_has_header(form))
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise InvalidRequest(f"two columns are called `{repeated}`", place=Place(field="sample"))
        found = guess_columns(rows, names)
    else:
        found = guess_columns(json_rows(sample))
    if not found:
        raise InvalidRequest("the sample has no columns", place=Place(field="sample"))
    if len(found) > COLUMNS_MAX:
        raise LimitExceeded(
            f"the sample has {len(found)} columns; write a manifest", limit="form_columns_max", maximum=COLUMNS_MAX
        )
    return found


def _sample(form: dict[str, str]) -> str:
    """The sample; of one that is longer than is looked at, the lines that are whole."""
    data = form.get("sample", "").encode()
    if len(data) <= SAMPLE_BYTES_MAX:
        return data.decode()
    return data[: data.rfind(b"\n", 0, SAMPLE_BYTES_MAX) + 1].decode()


def _separator(form: dict[str, str]) -> str:
    found = SEPARATORS.get(form.get("separator", "comma"))
    if found is None:
        raise InvalidRequest("an unknown separator", place=Place(field="separator"))
    return found


def _has_header(form: dict[str, str]) -> bool:
    return form.get("header", "yes") == "yes"


def _choice(form: dict[str, str], field: str, choices: type[ChoiceT], default: ChoiceT) -> ChoiceT:
    try:
        return choices(form.get(field, default.value))
    except ValueError:
        raise InvalidRequest(f"{form[field][:60]!r} is no choice", place=Place(field=field)) from None
