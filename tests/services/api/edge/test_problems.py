"""The table from errors to statuses is complete, and so is its page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from odfabric.errors import (
    HeadMoved,
    InvalidData,
    InvalidQuery,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    OdfError,
    Place,
    Unauthenticated,
)
from odfabric.settings import Settings
from odfabric.usecases.jobs.problem import PROBLEM_TYPE_PREFIX, problem_document, problem_lines, query_refusal
from odfabric_api.problems import (
    HTTP_STATUS,
    LIMIT_STATUS,
    PROBLEM_MEDIA_TYPE,
    document_response,
    plain_problem,
    problem_response,
    status_of,
)

ROOT = Path(__file__).resolve().parents[4]
PAGE = (ROOT / "docs/problems.md").read_text()
# Of the engine and the adapters; their settings are not the node's.
LIMITS_ELSEWHERE = {"call_s_max"}


def leaves(error: type[OdfError]) -> set[type[OdfError]]:
    below = {leaf for child in error.__subclasses__() for leaf in leaves(child)}
    return below or {error}


def test_every_leaf_has_exactly_one_status() -> None:
    codes = [leaf.code for leaf in leaves(OdfError)]
    assert sorted(codes) == sorted(HTTP_STATUS)


def test_every_leaf_has_a_line_on_the_page_with_its_status() -> None:
    lines = dict(re.findall(r"^\| `([a-z-]+)` \| ([0-9, ]+) \|", PAGE, flags=re.MULTILINE))
    expected = {code: str(status) for code, status in HTTP_STATUS.items()}
    expected[LimitExceeded.code] = ", ".join(map(str, sorted({413, *LIMIT_STATUS.values()})))
    assert lines == expected


def test_codes_of_the_http_layer_are_on_the_page() -> None:
    source = "".join(path.read_text() for path in (ROOT / "services/api/src/odfabric_api").rglob("*.py"))
    named = set(re.findall(r'(?:Refused|plain_problem)\(\s*\d+,\s*"([a-z-]+)"', source))
    assert named >= {"malformed-request", "ambiguous-request", "internal-error"}
    assert [code for code in named if f"`{code}`" not in PAGE] == []


def test_only_what_is_ours_is_a_server_error() -> None:
    assert {code for code, status in HTTP_STATUS.items() if status >= 500} == {
        "corrupt",
        "unavailable",
        "outcome-unknown",
    }


def test_limits_with_a_status_of_their_own_are_settings() -> None:
    assert set(LIMIT_STATUS) - LIMITS_ELSEWHERE <= set(Settings.model_fields)


@pytest.mark.parametrize(
    ("limit", "status"),
    [("push_body_bytes_max", 413), ("body_wait_s_max", 408), ("requests_at_once_max", 429), ("query_wall_s_max", 422)],
)
def test_a_limit_has_the_status_of_its_kind(limit: str, status: int) -> None:
    document = problem_document(LimitExceeded("too much", limit=limit, maximum=1))
    assert status_of(document) == status
    # As it comes back out of a job row.
    assert status_of(json.loads(json.dumps(document))) == status


def test_a_code_that_nobody_knows_is_our_bug() -> None:
    assert status_of({"code": "surprise"}) == 500
    assert status_of({}) == 500


def test_a_problem_names_the_place_for_people_and_for_programs() -> None:
    place = Place(file="a.csv", line=3, column=7, field="price", row=2)
    document = problem_document(InvalidData("not a number", place=place, hint="use a point"))
    at = {"file": "a.csv", "line": 3, "column": 7, "field": "price", "row": 2}
    assert document == {
        "type": PROBLEM_TYPE_PREFIX + "invalid-data",
        "code": "invalid-data",
        "title": "invalid data",
        "detail": "a.csv, line 3, column 7, field price, row 2: not a number (use a point)",
        "message": "not a number",
        **at,
        "errors": [{**at, "message": "not a number"}],
        "hint": "use a point",
    }


def _refused(column: int, message: str, **more: str | None) -> InvalidQuery:
    found = InvalidQuery(message, place=Place(line=2, column=column, rule="r"), hint=more.get("hint"))
    found.suggestion = more.get("suggestion")
    return found


def test_all_that_is_wrong_with_a_query_is_told() -> None:
    error = _refused(4, "no such column", hint="did you mean b?")
    error.also = (_refused(9, "no such function", suggestion="select b\nfrom t"),)
    document = problem_document(error)
    assert (document["message"], document["column"], document["hint"]) == ("no such column", 4, "did you mean b?")
    assert document["detail"] == (
        "line 2, column 4, rule r: no such column (did you mean b?); line 2, column 9, rule r: no such function"
    )
    assert problem_lines(document) == [
        "line 2, column 4, rule r: no such column (did you mean b?)",
        "line 2, column 9, rule r: no such function",
        "    this is accepted:",
        "    select b",
        "    from t",
    ]
    errors = document["errors"]
    assert isinstance(errors, list)
    for entry, each in zip(errors, (error, *error.also), strict=True):
        again = query_refusal(entry)
        assert (str(again), again.place, again.suggestion) == (str(each), each.place, each.suggestion)


def test_what_a_command_adds_to_a_problem_is_a_line() -> None:
    document = {**problem_document(_refused(1, "no")), "hint": "created before it: a"}
    assert problem_lines(document)[1:] == ["created before it: a"]
    assert problem_lines({"code": "not-found", "detail": "a: not found"}) == ["a: not found"]


@pytest.mark.parametrize("errors", [None, [], ["text"], "text"])
def test_a_query_problem_of_another_node_may_have_no_list(errors: object) -> None:
    assert problem_lines({"code": "invalid-query", "detail": "no", "errors": errors}) == ["no"]


def test_a_problem_without_a_place_has_no_list() -> None:
    assert "errors" not in problem_document(NotFound("dataset", "a/b"))


def test_a_moved_head_tells_both_heads() -> None:
    document = problem_document(HeadMoved(expected="f1", actual="f2"))
    assert (document["expected"], document["actual"]) == ("f1", "f2")


def test_an_answer_has_status_and_media_type() -> None:
    answer = problem_response(InvalidRequest("no"))
    assert answer.media_type == PROBLEM_MEDIA_TYPE
    assert json.loads(bytes(answer.body))["status"] == answer.status_code == 400


def test_whoever_is_not_known_is_told_how_to_be() -> None:
    assert problem_response(Unauthenticated("who?")).headers["www-authenticate"] == "Bearer"


def test_what_may_be_repeated_says_when() -> None:
    busy = LimitExceeded("busy", limit="requests_at_once_max", maximum=1, retry_after_s=7)
    assert problem_response(busy).headers["retry-after"] == "7"
    assert document_response({"code": "unavailable"}).headers["retry-after"] == "1"
    assert "retry-after" not in problem_response(LimitExceeded("big", limit="x_bytes_max", maximum=1)).headers


def test_problems_of_the_http_layer_have_a_type_too() -> None:
    assert json.loads(bytes(plain_problem(405, "method-not-allowed", "no").body))["type"].startswith(
        PROBLEM_TYPE_PREFIX
    )
