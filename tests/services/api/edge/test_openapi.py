"""The committed document is the service's, and says enough to write a client from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from odfabric_api.app import application
from odfabric_api.openapi import document_text, main
from odfabric_api.problems import PROBLEM_MEDIA_TYPE

COMMITTED = Path(__file__).resolve().parents[4] / "docs/openapi.json"
DOCUMENT: dict[str, Any] = json.loads(COMMITTED.read_text())
OPERATIONS = [
    (f"{method.upper()} {path}", operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]
# Signing in needs no token; `validate` is asked whether one counts.
PUBLIC = {
    "GET /assets/runtime-config.json",
    "GET /.well-known/http-message-signatures-directory",
    "GET /.well-known/jwks.json",
    "GET /info",
    "GET /platform/token/validate",
    "GET /system/health",
    "POST /platform/login",
    "POST /platform/token/device",
    "POST /platform/token/device/authorization",
    "POST /session",
}


def test_the_committed_document_is_current(tmp_path: Path) -> None:
    """If not: python -m odfabric_api.openapi docs/openapi.json"""
    assert main([str(tmp_path / "made.json")]) == 0
    assert (tmp_path / "made.json").read_text() == COMMITTED.read_text() == document_text(application())


def test_the_service_serves_it(stranger: httpx.Client) -> None:
    assert stranger.get("/openapi.json").json() == DOCUMENT


def test_operation_ids_are_unique() -> None:
    ids = [operation["operationId"] for _, operation in OPERATIONS]
    assert sorted(set(ids)) == sorted(ids)


def references(value: object) -> set[str]:
    match value:
        case dict():
            found = {str(value["$ref"])} if "$ref" in value else set()
            return found.union(*(references(member) for member in value.values()))
        case list():
            return set().union(*(references(item) for item in value))
        case _:
            return set()


def test_every_reference_leads_somewhere_and_nothing_is_unused() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    found = references(DOCUMENT)
    assert found == {f"#/components/schemas/{name}" for name in schemas}


def test_every_schema_is_one() -> None:
    for schema in DOCUMENT["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(("name", "operation"), OPERATIONS, ids=[name for name, _ in OPERATIONS])
def test_every_operation_says_what_it_does_takes_and_answers(name: str, operation: dict[str, Any]) -> None:
    assert operation["summary"]
    assert operation["description"]
    assert operation["tags"]
    problem = operation["responses"]["default"]["content"]
    assert problem == {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for status, answer in operation["responses"].items():
        assert answer["description"] != "Successful Response"
        if status.startswith("2") and status != "204":
            assert all(content["schema"] for content in answer["content"].values())
            assert answer["content"]
        if status in ("204", "304"):
            assert "content" not in answer
    for parameter in operation.get("parameters", ()):
        assert parameter["schema"]
        if parameter["in"] in ("header", "path"):
            assert parameter["description"]
    if "requestBody" in operation:
        assert operation["requestBody"]["content"]
    assert bool(operation.get("security")) != (name in PUBLIC)


TAKES_NOTHING = "POST /{account}/{dataset}/key/rotate"


def test_posts_say_what_they_take() -> None:
    silent = [name for name, operation in OPERATIONS if name.startswith("POST") and "requestBody" not in operation]
    assert silent == [TAKES_NOTHING]


def test_the_token_is_a_security_scheme() -> None:
    assert DOCUMENT["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
