"""Manifests as a page, from their JSON Schema: what a dataset is declared with, member by member."""

from __future__ import annotations

from collections.abc import Iterator

from site_pages.markup import code, plain, section
from site_pages.schema_tables import Schema, linker, members_table

LINK = linker("manifest")
BEGINS_WITH = "DatasetSnapshot"
"""What people write; the page goes from here to all that it refers to."""


def manifest_text(schema: Schema) -> str:
    """Each definition that a manifest of a dataset can use, in the order in which they are met."""
    definitions = schema["$defs"]
    return "".join(_definition(name, definitions[name]) for name in _met(definitions))


def _met(definitions: dict[str, Schema]) -> list[str]:
    found: dict[str, None] = {}
    waiting = [BEGINS_WITH]
    while waiting:
        name = waiting.pop(0)
        if name not in found:
            found[name] = None
            waiting[:0] = [one for one in dict.fromkeys(_references(definitions[name])) if one not in found]
    return list(found)


def _references(part: object) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"].rpartition("/")[2]
        for key, value in part.items():
            if key != "discriminator":
                yield from _references(value)
    elif isinstance(part, list):
        for value in part:
            yield from _references(value)


def _definition(name: str, definition: Schema) -> str:
    about = plain(definition.get("description", ""))
    if "oneOf" in definition:
        body = "One of: " + ", ".join(LINK(one) for one in dict.fromkeys(_references(definition["oneOf"]))) + "."
        if "string" in definition.get("type", []):
            body += " One without required members may be written as its bare kind."
    elif "enum" in definition:
        body = "One of: " + ", ".join(code(value) for value in _canonical(definition["enum"])) + "."
    else:
        body = members_table(_with_one_kind(definition), LINK)
    return section(2, name, f"manifest-{name.lower()}", about, body)


def _with_one_kind(definition: Schema) -> Schema:
    members = dict(definition.get("properties", {}))
    if "enum" in members.get("kind", {}):
        members["kind"] = {**members["kind"], "enum": _canonical(members["kind"]["enum"])}
    return {**definition, "properties": members}


def _canonical(spellings: list[str]) -> list[str]:
    """Of the three ways to write a value the first, which manifests are written with."""
    kept: dict[str, str] = {}
    for value in spellings:
        kept.setdefault(value.lower(), value)
    return list(kept.values())
