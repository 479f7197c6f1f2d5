"""Problems in a text of a page, with places, as `parts.problems` lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odfabric.errors import InvalidQuery, OdfError
from odfabric.usecases.jobs.problem import problem_document

_MEMBERS = ("field", "row", "message", "hint", "suggestion")


def places_of(error: OdfError | None, *, in_query: bool = False) -> list[dict[str, Any]]:
    """The problems of an error, in the order of the text.

    `in_query` counts lines of the query, not of its manifest.
    """
    return [] if error is None else places_in(problem_document(error), in_query=in_query)


def places_in(document: Mapping[str, Any], *, in_query: bool = False) -> list[dict[str, Any]]:
    """The problems of a problem document: one, or all that is wrong with a query."""
    listed = document.get("errors") if document.get("code") == InvalidQuery.code else None
    found: list[Mapping[str, Any]] = listed if isinstance(listed, list) and listed else [document]
    problems = [_place(each, in_query=in_query) for each in found]
    hint = document.get("hint")
    if hint and not any(each["hint"] == hint for each in problems):
        problems[0]["hint"] = problems[0]["hint"] or hint
    return problems


def _place(members: Mapping[str, Any], *, in_query: bool) -> dict[str, Any]:
    line, column = members.get("line"), members.get("column")
    if in_query and "queryLine" in members:
        line, column = members["queryLine"], members.get("queryColumn")
    found = {"line": line, "column": column, **{name: members.get(name) for name in _MEMBERS}}
    # Of a query that stands alone everybody sees which one it is.
    return {**found, "field": None} if in_query and line is not None else found
