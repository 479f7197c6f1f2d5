"""Options of a CSV read step: valid characters, encodings, formats; corrections.

Owns the judgement, which needs no data. Not here: reading (`odfabric_engine_spark.ingest.csv.csv_reader`).
"""

from __future__ import annotations

from odfabric.errors import InvalidManifest, Place
from odfabric.formats.files.csv_grammar import CsvDialect
from odfabric.formats.files.text_encodings import check_encoding
from odfabric.formats.files.time_formats import check_date_format, check_timestamp_format
from odfabric.model.source import ReadStepCsv

WHOLE_LINES = (
    "read whole lines as one column (separator: \"\\u0001\", quote: '', escape: '', header: false, one String column `line`) "
    "and cut them in the preprocess query"
)
"""The way of files that are no plain CSV."""

_TABS = frozenset({"\\t", "tab", "t", "\t\t"})
_DOUBLED = frozenset({'""', "''", '\\"', "\\'", "\\\\"})


def check_csv_step(step: ReadStepCsv) -> InvalidManifest | None:
    """The first option that cannot work, with what to write instead; None if all can."""
    try:
        csv_dialect(step)
    except InvalidManifest as problem:
        return problem
    return (
        check_encoding(step.encoding)
        or check_date_format(step.date_format)
        or check_timestamp_format(step.timestamp_format)
    )


def csv_dialect(step: ReadStepCsv) -> CsvDialect:
    """The characters of a step, with defaults.

    Raises InvalidManifest naming the option.
    """
    separator = _character(step.separator, ",", "separator")
    quote = _character(step.quote, '"', "quote")
    escape = _character(step.escape, "\\", "escape")
    if separator is None:
        raise InvalidManifest(
            "The separator is missing", place=Place(field="separator"), hint=f"for one column, {WHOLE_LINES}"
        )
    for option, character in (("quote", quote), ("escape", escape)):
        if separator == character:
            raise InvalidManifest(
                f"The separator {separator!r} is also the {option}",
                place=Place(field="separator"),
                hint=f"write {option}: '' if the file has none",
            )
    return CsvDialect(separator=separator, quote=quote, escape=escape)


def _character(value: str | None, default: str, option: str) -> str | None:
    character = default if value is None else value
    if len(character.encode("utf-8", "surrogatepass")) <= 1 and character not in ("\r", "\n", "\0"):
        return character or None
    raise InvalidManifest(
        f"{option} {character!r} must be one ASCII character other than a line end",
        place=Place(field=option),
        hint=_instead(character, option),
    )


def _instead(character: str, option: str) -> str:
    if character.strip(" ").lower() in _TABS and option == "separator":
        return 'write a tab in double quotes: separator: "\\t"'
    if character in _DOUBLED and option != "separator":
        return (
            f"write one character: {option}: {_yaml(character[-1])}; quotes that are doubled are read without an escape"
        )
    if option == "separator":
        return f"{WHOLE_LINES}: split(line, '..') or from_csv"
    return f"write {option}: '' and take such characters off in the preprocess query"


def _yaml(text: str) -> str:
    return '"\'"' if text == "'" else f"'{text}'"
