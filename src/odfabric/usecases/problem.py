"""Problem documents (RFC 9457): how an error of the closed tree looks in a job row, an HTTP answer or on a terminal.

Owns the members and their names; which status a leaf has is decided by each edge. Members of the place (file, line, column, field,
row, rule, queryLine, queryColumn) stand at the top, for people who read one error, and again in `errors`, for programs that read a list.
"""

from __future__ import annotations

from dataclasses import asdict

from odfabric.errors import HeadMoved, InUse, InvalidBlock, LimitExceeded, OdfError

PROBLEM_TYPE_PREFIX = "https://odfabric.dev/problems/"
_MEMBERS = {"query_line": "queryLine", "query_column": "queryColumn"}


def problem_document(error: OdfError) -> dict[str, object]:
    """`type`, `code`, `title`, `detail`, `message`, and whatever of place, errors, hint, limit, kind, heads and users is known."""
    document: dict[str, object] = {
        "type": PROBLEM_TYPE_PREFIX + error.code,
        "code": error.code,
        "title": error.code.replace("-", " "),
        "detail": str(error),
        "message": error.message,
    }
    place = {_MEMBERS.get(key, key): value for key, value in asdict(error.place).items() if value is not None}
    if place:
        document |= {**place, "errors": [{**place, "message": error.message}]}
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


def internal_problem(bug: Exception) -> dict[str, object]:
    """The document of a failure that is no leaf of the tree: a bug. It names the kind of exception and nothing else."""
    message = f"Internal error ({type(bug).__name__})"
    return {
        "type": PROBLEM_TYPE_PREFIX + "internal-error",
        "code": "internal-error",
        "title": "internal error",
        "detail": message,
        "message": message,
        "hint": "the log of the node says more",
    }
