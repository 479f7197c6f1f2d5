"""Tables of JSON Schemas: members, their types in words, what they mean.

Owns how a type of OpenAPI, AsyncAPI or JSON Schema reads. References become links to `PREFIX-NAME` in small letters.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from site_pages.markup import code, plain, table

Schema = Mapping[str, Any]
Link = Callable[[str], str]

VALUES_MAX = 12
"""Values of an enumeration that a cell lists."""


def linker(prefix: str) -> Link:
    """Links to schemas of one contract."""
    return lambda name: f"[{name}](#{prefix}-{name.lower()})"


def members_table(schema: Schema, link: Link) -> str:
    """The members of an object, those that are required in bold."""
    required = schema.get("required", [])
    rows = [
        (f"**{code(name)}**" if name in required else code(name), type_text(member, link), meaning(member))
        for name, member in schema.get("properties", {}).items()
    ]
    return table(("member", "type", "meaning"), rows)


def meaning(member: Schema) -> str:
    """Description, limits and default of a member or parameter."""
    said = [plain(member["description"]).rstrip(".")] if member.get("description") else []
    for key, words in _LIMITS.items():
        if key in member:
            said.append(f"{words} {member[key]}")
    if member.get("default") is not None:
        said.append(f"default {code(_literal(member['default']))}")
    return "; ".join(said)


def type_text(schema: Schema, link: Link) -> str:
    """A type in words, `list of string or null`."""
    if "$ref" in schema:
        return link(schema["$ref"].rpartition("/")[2])
    if "const" in schema:
        return code(_literal(schema["const"]))
    if "enum" in schema:
        values = [code(_literal(value)) for value in schema["enum"]]
        return ", ".join(values[:VALUES_MAX]) + (", ..." if len(values) > VALUES_MAX else "")
    for union in ("anyOf", "oneOf", "allOf"):
        if union in schema:
            return " or ".join(dict.fromkeys(type_text(one, link) for one in _null_last(schema[union])))
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return " or ".join(type_text({**schema, "type": one}, link) for one in kind)
    match kind:
        case "array":
            return f"list of {type_text(schema.get('items', {}), link)}"
        case "object":
            return _object_text(schema, link)
        case "string" if schema.get("format") == "date-time":
            return "time"
        case _:
            return str(kind)


def _object_text(schema: Schema, link: Link) -> str:
    if schema.get("properties"):
        inner = (f"{code(name)}: {type_text(member, link)}" for name, member in schema["properties"].items())
        return f"object ({', '.join(inner)})"
    values = schema.get("additionalProperties")
    return f"map to {type_text(values, link)}" if isinstance(values, Mapping) and values else "object"


def _null_last(branches: list[Schema]) -> list[Schema]:
    return sorted(branches, key=lambda branch: branch.get("type") == "null")


def _literal(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_LIMITS = {
    "minimum": "at least",
    "maximum": "at most",
    "minLength": "characters at least",
    "maxLength": "characters at most",
    "maxItems": "entries at most",
}
