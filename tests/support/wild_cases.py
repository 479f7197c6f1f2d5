"""Inputs of people and due answers of a node, as in `tests/cases/wild-cases.json`.

A case is a manifest and steps. A step pushes bytes, or lets a source answer and pulls it, and then says what is expected: the rows of the
state, the words of a refusal, what an answer mentions. Here is what "as expected" means; who sends and asks is the test's own affair.
`ODF_WILD_CASES` names another file of the same form.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

OWN_COPY = Path(__file__).parents[1] / "cases" / "wild-cases.json"
SYSTEM_COLUMNS = frozenset({"offset", "op", "system_time", "event_time"})
PLACE = ("file", "line", "column", "field", "row")


def wild_cases() -> list[dict[str, Any]]:
    """All of them, in the order of the file."""
    found: list[dict[str, Any]] = json.loads(Path(os.environ.get("ODF_WILD_CASES", OWN_COPY)).read_text())["cases"]
    return found


def content_of(given: Mapping[str, str]) -> bytes:
    """The bytes of a body or a file."""
    return base64.b64decode(given["base64"]) if "base64" in given else given.get("text", "").encode()


@dataclass(frozen=True)
class Answered:
    """A node's response to a step: an answer, or a problem with its status if any."""

    taken: bool
    document: Any
    status: int | None = None
    requests: int = 0
    rows: Sequence[Mapping[str, Any]] = field(default_factory=list)
    """Net rows after the step, with system columns."""


def what_differs(expected: Mapping[str, Any], answered: Answered) -> str | None:
    """Why an answer is not what was expected; None if it is."""
    if "anyOf" in expected:
        reasons = [what_differs(one, answered) for one in expected["anyOf"]]
        return None if None in reasons else " | ".join(str(reason) for reason in reasons)
    said = _wrong_words(expected, answered)
    if said is not None:
        return said
    if answered.requests > expected.get("requestsAtMost", answered.requests):
        return f"{answered.requests} requests"
    if "rows" in expected:
        return _wrong_rows(expected, answered.rows)
    if expected.get("eventTimes") == "notLaterThanNow":
        soon = (datetime.now(UTC) + timedelta(minutes=1)).isoformat()
        late = [row["event_time"] for row in answered.rows if row["event_time"] > soon]
        return f"event times in the future: {late}" if late else None
    return None


def _wrong_words(expected: Mapping[str, Any], answered: Answered) -> str | None:
    refused = expected.get("refused")
    if refused is None:
        if not answered.taken:
            return f"refused with {answered.status}: {answered.document}"
        text = json.dumps(answered.document, ensure_ascii=False).lower()
        missing = [word for word in expected.get("tells", ()) if word.lower() not in text]
        either = expected.get("tellsAny", ())
        if either and not any(word.lower() in text for word in either):
            missing.append(f"any of {either}")
        return f"does not mention {missing}: {text}" if missing else None
    if answered.taken:
        return f"taken: {answered.rows}"
    if answered.status is not None and answered.status not in refused["status"]:
        return f"status {answered.status}: {answered.document}"
    text = _read_by_people(answered.document)
    missing = [word for word in refused.get("mentions", ()) if word.lower() not in text]
    either = refused.get("suggests", ())
    if either and not any(word.lower() in text for word in either):
        missing.append(f"any of {either}")
    misleading = [word for word in refused.get("avoids", ()) if word.lower() in text]
    return f"mentions {misleading}, does not mention {missing}: {text}" if missing or misleading else None


def _read_by_people(problem: Mapping[str, Any]) -> str:
    """Message, hint and places of a problem in lower case."""
    places = [problem, *problem.get("errors", [])]
    named = (f"{member} {place[member]}" for place in places for member in PLACE if member in place)
    message = problem.get("message") or problem.get("detail")
    return " ".join([str(message), str(problem.get("hint") or ""), *named]).lower()


def _wrong_rows(expected: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str | None:
    hidden = SYSTEM_COLUMNS - set(expected.get("with", ()))
    as_json = expected.get("jsonColumns", ())
    left = [
        {
            name: json.loads(value) if name in as_json and isinstance(value, str) else value
            for name, value in row.items()
            if name not in hidden
        }
        for row in rows
    ]
    for wanted in expected["rows"]:
        found = next((index for index, row in enumerate(left) if _same(wanted, row)), None)
        if found is None:
            return f"the row {wanted} is not among {left}"
        del left[found]
    return f"rows that are not expected: {left}" if left else None


def _same(wanted: Any, found: Any) -> bool:
    """Numbers are equal as numbers; everything else is of one type and equal."""
    match wanted:
        case dict():
            return (
                isinstance(found, dict)
                and wanted.keys() == found.keys()
                and all(_same(wanted[name], found[name]) for name in wanted)
            )
        case list():
            return isinstance(found, list) and len(wanted) == len(found) and all(map(_same, wanted, found))
        case bool():
            return found is wanted
        case int() | float():
            return isinstance(found, int | float) and _number(wanted) == _number(found)
        case _:
            return type(wanted) is type(found) and bool(wanted == found)


def _number(value: float) -> Decimal | None:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return None
