"""The committed AsyncAPI document is the service's, and valid AsyncAPI 3.

The schema below is written from the specification's tables of fixed fields, for what the document uses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from jsonschema import Draft202012Validator

from odfabric.formats.webhooks.event_catalogue import CATALOGUE, control_schemas
from odfabric_api.asyncapi import document_text, main

COMMITTED = Path(__file__).resolve().parents[4] / "docs/asyncapi.json"
DOCUMENT: dict[str, Any] = json.loads(COMMITTED.read_text())

REFERENCE = {"type": "object", "required": ["$ref"], "properties": {"$ref": {"type": "string"}}, "maxProperties": 1}
STRUCTURE = {
    "type": "object",
    "required": ["asyncapi", "info"],
    "additionalProperties": False,
    "properties": {
        "asyncapi": {"const": "3.0.0"},
        "info": {
            "type": "object",
            "required": ["title", "version"],
            "additionalProperties": False,
            "properties": {
                "title": {"type": "string"},
                "version": {"type": "string"},
                "description": {"type": "string"},
            },
        },
        "defaultContentType": {"type": "string"},
        "channels": {
            "additionalProperties": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "address": {"type": ["string", "null"]},
                    "description": {"type": "string"},
                    "messages": {"additionalProperties": REFERENCE},
                },
            }
        },
        "operations": {
            "additionalProperties": {
                "type": "object",
                "required": ["action", "channel"],
                "additionalProperties": False,
                "properties": {
                    "action": {"enum": ["send", "receive"]},
                    "channel": REFERENCE,
                    "summary": {"type": "string"},
                    "bindings": {"type": "object"},
                    "messages": {"type": "array", "items": REFERENCE},
                },
            }
        },
        "components": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "messages": {
                    "additionalProperties": {
                        "type": "object",
                        "required": ["name", "payload"],
                        "additionalProperties": False,
                        "properties": {
                            "name": {"type": "string"},
                            "title": {"type": "string"},
                            "description": {"type": "string"},
                            "contentType": {"type": "string"},
                            "headers": {"type": "object", "properties": {"type": {"const": "object"}}},
                            "payload": {"type": "object"},
                        },
                    }
                }
            },
        },
    },
}


def test_the_committed_document_is_current(tmp_path: Path) -> None:
    """If not: python -m odfabric_api.asyncapi docs/asyncapi.json"""
    assert main([str(tmp_path / "made.json")]) == 0
    assert (tmp_path / "made.json").read_text() == COMMITTED.read_text() == document_text()


def test_the_service_serves_it_to_everybody(stranger: httpx.Client) -> None:
    assert stranger.get("/asyncapi.json").json() == DOCUMENT


def test_it_has_the_structure_of_asyncapi() -> None:
    Draft202012Validator.check_schema(STRUCTURE)
    Draft202012Validator(STRUCTURE).validate(DOCUMENT)


def references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        for member in value.values():
            yield from references(member)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def test_every_reference_leads_somewhere() -> None:
    found = list(references(DOCUMENT))
    assert found
    for reference in found:
        place: Any = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            place = place[part]


def test_every_type_has_a_message() -> None:
    names = {each.name for each in CATALOGUE.values()} | set(control_schemas())
    assert set(DOCUMENT["components"]["messages"]) == names
    for name, message in DOCUMENT["components"]["messages"].items():
        assert message["payload"]["properties"]["type"] == {"const": name}
