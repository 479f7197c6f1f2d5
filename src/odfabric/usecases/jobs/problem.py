"""Problem documents (RFC 9457): errors in job rows, answers, on terminals.

Owns the members and their names; which status a leaf has is decided by each edge. Members of the place (file, line, column, field,
row, rule, queryLine, queryColumn) stand at the top, for people who read one error, and again in `errors`, for programs that read a list: all that is
wrong with a query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields

from odfabric.errors import HeadMoved, InUse, InvalidBlock, InvalidQuery, LimitExceeded, OdfError, Place

PROBLEM_TYPE_PREFIX = "https://odfabric.dev/problems/"
_MEMBERS = {"query_line": "queryLine", "query_column": "queryColumn"}


def problem_document(error: OdfError) -> dict[str, object]:
    """`type`, `code`, `title`, `detail`, `message`, and what else is known.

    Whatever of place, errors, hint, limit, kind, heads and users is known.
    """
    document: dict[str, object] = {
        "type": PROBLEM_TYPE_PREFIX + error.code,
        "code": error.code,
        "title": error.code.replace("-", " "),
        "detail": "; ".join(map(str, _all_of(error))),
        "message": error.message,
    }
    place = _members(error.place)
    if place:
        document |= {**place, "errors": [_entry(each) for each in _all_of(error)]}
    if error.hint:
        document["hint"] = error.hint
    match error:
        case LimitExceeded():
            document.update(limit=error.limit, maximum=error.maximum)
        case InvalidBlock():
            document["kind"] = error.kind
        case InUse():
            document["usedBy"] = list(error.users)
        case HeadMoved():
            document.update(expected=error.expected, actual=error.actual)
        case _:
            pass
    return document


def retry_document(pause_s: float, attempt: int, attempts_max: int) -> dict[str, object]:
    """Member `retry` of the problem of a job that is tried again.

    Its members are `pauseS` in seconds, `attempt` and `of`.
    """
    return {"pauseS": round(pause_s, 3), "attempt": attempt, "of": attempts_max}


def retry_line(document: Mapping[str, object]) -> str | None:
    """Such a problem as a line of progress; None if nothing is tried again."""
    retry = document.get("retry")
    if not isinstance(retry, dict):
        return None
    pause_s = retry.get("pauseS")
    pause = f"{pause_s:g}" if isinstance(pause_s, int | float) else "some"
    return f"trying again in {pause} s, attempt {retry.get('attempt')} of {retry.get('of')}: {document.get('message')}"


def query_refusal(members: Mapping[str, object]) -> InvalidQuery:
    """A refused query's error again, from an entry of `errors` or a document."""
    names = {_MEMBERS.get(each.name, each.name): each.name for each in fields(Place)}
    place = {name: members[member] for member, name in names.items() if isinstance(members.get(member), int | str)}
    hint, suggestion = members.get("hint"), members.get("suggestion")
    refusal = InvalidQuery(
        str(members.get("message")),
        place=Place(**place),  # type: ignore[arg-type]
        hint=hint if isinstance(hint, str) else None,
    )
    refusal.suggestion = suggestion if isinstance(suggestion, str) else None
    return refusal


def problem_lines(document: Mapping[str, object]) -> list[str]:
    """A document as lines for people: all faults of a query, and valid alternatives."""
    errors = document.get("errors") if document.get("code") == InvalidQuery.code else None
    refusals = [query_refusal(one) for one in errors if isinstance(one, dict)] if isinstance(errors, list) else []
    if not refusals:
        return [str(document.get("detail") or document.get("message") or dict(document))]
    found: list[str] = []
    for each in refusals:
        found += [str(each), *suggestion_lines(each.suggestion)]
    hint = document.get("hint")
    if isinstance(hint, str) and not any(hint in line for line in found):
        found.append(hint)  # what the command adds
    return found


def suggestion_lines(suggestion: str | None) -> list[str]:
    """What is accepted instead of a query, as lines below what is wrong with it."""
    return [f"    {line}" for line in ("this is accepted:", *suggestion.splitlines())] if suggestion else []


def _all_of(error: OdfError) -> list[OdfError]:
    return [error, *error.also] if isinstance(error, InvalidQuery) else [error]


def _entry(error: OdfError) -> dict[str, object]:
    found: dict[str, object] = {**_members(error.place), "message": error.message}
    if isinstance(error, InvalidQuery):
        more = {"hint": error.hint, "suggestion": error.suggestion}
        found |= {name: text for name, text in more.items() if text}
    return found


def _members(place: Place) -> dict[str, object]:
    return {_MEMBERS.get(key, key): value for key, value in asdict(place).items() if value is not None}


def internal_problem(bug: Exception) -> dict[str, object]:
    """The document of a failure that is no leaf of the tree: a bug.

    It names the kind of exception and nothing else.
    """
    message = f"Internal error ({type(bug).__name__})"
    return {
        "type": PROBLEM_TYPE_PREFIX + "internal-error",
        "code": "internal-error",
        "title": "internal error",
        "detail": message,
        "message": message,
        "hint": "the log of the node says more",
    }
