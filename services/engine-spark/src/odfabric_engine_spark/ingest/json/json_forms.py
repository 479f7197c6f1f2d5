"""What is wrong with JSON that holds no row, and what to write instead.

Owns the texts of refusals that are about the form of an input: documents sent as lines and lines sent as documents, rows that are no
objects, tokens that JSON does not have. Not here: values that do not fit their column (`json_values`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odfabric.errors import InvalidData, Place
from odfabric.formats.slices.column_names import shown_name
from odfabric_engine_spark.ingest.json.json_values import JsonValue, kind_of, open_brackets
from odfabric_engine_spark.ingest.values.value_hints import column_in_sql

_ONE_A_LINE = (
    "each line of NdJson is one whole object: `jq -c .` writes them so;"
    " an array of objects, on however many lines, is read by `kind: Json`, application/json"
)


_BOM, _RECORD_SEPARATOR = "\ufeff", "\x1e"
_NAMES_SHOWN = 10


def bad_line(error: ValueError, text: str, place: Place) -> InvalidData:
    """The refusal of a line that is no JSON value."""
    reason, hint = f"Not a JSON value: {said(error)}", getattr(error, "hint", None)
    if hint is not None:
        return InvalidData(reason, place=place, hint=hint)
    if text.startswith(_BOM):
        hint = "a byte order mark stands here, as in files put together by cat: write the files together without it"
        return InvalidData(reason, place=place, hint=hint)
    if text.startswith(_RECORD_SEPARATOR):
        hint = "the line begins with the record separator U+001E: leave it out, as `tr -d '\\036'` does"
        return InvalidData(reason, place=place, hint=hint)
    if open_brackets(text) > 0:
        form = "array" if text.startswith("[") else "object"
        return InvalidData(f"{reason}; the {form} does not end on its line", place=place, hint=_ONE_A_LINE)
    if text.endswith(",") or text in ("]", "}"):
        return InvalidData(reason, place=place, hint=f"nothing stands between lines; {_ONE_A_LINE}")
    return InvalidData(reason, place=place, hint="keys and texts stand in double quotes, one value is on each line")


def said(error: ValueError) -> str:
    """What the decoder says.

    Line and file are ours to say, so it says the character of the line.
    """
    return f"{error.msg} (character {error.pos + 1})" if hasattr(error, "msg") and hasattr(error, "pos") else str(error)


def no_row(value: JsonValue, place: Place, *, line: bool) -> InvalidData:
    """The refusal of a value that is no object; `line`: it is one of NdJson."""
    message = f"A row must be an object, but this is {kind_of(value)}"
    if value is None:
        hint = (
            "a tombstone of Kafka says nothing that the delete before it did not say: leave such lines out before the push"
            " (`grep -vx null`; Debezium: tombstones.on.delete=false)"
        )
    elif not isinstance(value, list):
        hint = "a row has names: write the value as a member of an object"
    elif line and all(isinstance(item, dict) for item in value):
        hint = "an array of objects is read by `kind: Json`, application/json"
    elif value and all(isinstance(item, dict) for item in value):
        hint = "the rows stand in an array within the array: take it out before the push, as `jq '.[1]'` takes the second item"
    else:
        hint = (
            "give the values names, as members of an object (jq: `map({id: .[0], name: .[1]})`), or write them as CSV;"
            ' a preprocess query takes lists out of a column: wrap each array as `{"row": [..]}`'
        )
    return InvalidData(message, place=place, hint=hint)


def listed_names(names: Iterable[str]) -> str:
    """Names as messages list them, the first few."""
    found = list(names)
    more = f" and {len(found) - _NAMES_SHOWN} more" if len(found) > _NAMES_SHOWN else ""
    return (", ".join(f"`{shown_name(name)}`" for name in found[:_NAMES_SHOWN]) or "nothing") + more


def no_declared_field(members: Mapping[str, JsonValue], place: Place) -> InvalidData:
    """The refusal of a row with none of the declared fields, some being required."""
    objects = [name for name, value in members.items() if isinstance(value, dict)]
    within = objects[-1] if objects else None
    hint = "declare the fields as the rows have them by `odf set-source`"
    if within is not None:
        hint = (
            f"if the row is within `{shown_name(within)}`, declare that as a Struct with the fields as its members, and write "
            f"{column_in_sql(within)}.name for each in the preprocess query; or {hint}"
        )
    return InvalidData(f"The row has none of the declared fields, but {listed_names(members)}", place=place, hint=hint)
