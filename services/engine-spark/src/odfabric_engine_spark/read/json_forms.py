"""What is wrong with JSON that holds no row, and what to write instead.

Owns the texts of refusals that are about the form of an input: documents sent as lines and lines sent as documents, rows that are no
objects, tokens that JSON does not have. Not here: values that do not fit their column (`json_values`).
"""

from __future__ import annotations

from odfabric.errors import InvalidData, Place
from odfabric_engine_spark.read.json_values import JsonValue, kind_of, open_brackets

_ONE_A_LINE = (
    "each line of NdJson is one whole object: `jq -c .` writes them so;"
    " an array of objects, on however many lines, is read by `kind: Json`, application/json"
)


def bad_line(error: ValueError, text: str, place: Place) -> InvalidData:
    """The refusal of a line that is no JSON value."""
    reason, hint = f"Not a JSON value: {said(error)}", getattr(error, "hint", None)
    if hint is not None:
        return InvalidData(reason, place=place, hint=hint)
    if open_brackets(text) > 0:
        form = "array" if text.startswith("[") else "object"
        return InvalidData(f"{reason}; the {form} does not end on its line", place=place, hint=_ONE_A_LINE)
    if text.endswith(",") or text in ("]", "}"):
        return InvalidData(reason, place=place, hint=f"nothing stands between lines; {_ONE_A_LINE}")
    return InvalidData(reason, place=place, hint="keys and texts stand in double quotes, one value is on each line")


def said(error: ValueError) -> str:
    """What the decoder says; line and file are ours to say, so it says the character of the line."""
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
    else:
        hint = (
            "give the values names, as members of an object (jq: `map({id: .[0], name: .[1]})`), or write them as CSV;"
            ' a preprocess query takes lists out of a column: wrap each array as `{"row": [..]}`'
        )
    return InvalidData(message, place=place, hint=hint)
