"""JSON Schema of manifests from the tables of blocks, and validation by it.

Owns the structure of manifests: fields, types, spellings of tags and enum values, ranges of numbers, where null may stand.
Invariant: `docs/manifest.schema.json` is this schema, for editors and other programs (a test compares them); unions carry
`discriminator` as OpenAPI has it, by which validation goes straight to the member named by `kind`. Not here: the texts of
hashes, identities, names and times (`formats.manifests.manifest_events`). Source: specification, "Metadata reference"; JSON Schema
2020-12.
"""

from __future__ import annotations

import difflib
import inspect
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any, TypeAlias

from jsonschema import Draft202012Validator, ValidationError, validators

from odfabric.formats.blocks.block_tables import (
    ENUMS,
    METADATA_BLOCK,
    METADATA_EVENT,
    TABLES,
    UNIONS,
    EnumStorage,
    Kind,
    Manifest,
    PrepStepWrapper,
    Slot,
    Table,
    Union,
)
from odfabric.formats.json_values.canonical_json import JsonValue
from odfabric.formats.manifests.manifest_meanings import DEFAULTS, MEANINGS
from odfabric.model.data_schema import ExtraAttributes
from odfabric.model.metadata import DatasetKind

Schema: TypeAlias = dict[str, Any]

SNAPSHOT = "DatasetSnapshot"
"""The definition of what a manifest of a dataset to be created holds."""

MANIFEST_VERSIONS = {SNAPSHOT: (1,), METADATA_BLOCK.name: (2, 3), METADATA_EVENT.name: (1,)}
"""Kinds of manifests that are read, and the versions of each, oldest first; the last is written. `content` is the noun."""

SHOWN_CHARACTERS_MAX = 60
"""Longest part of a wrong name or text that an error repeats."""

FLAWS_MAX = 20
"""More are not looked for: each has to be found again in the text."""

_REF = "#/$defs/"
_TYPE_NAMES = {
    "object": "a map",
    "array": "a list",
    "string": "a string",
    "integer": "an integer",
    "boolean": "true or false",
}
_INT32_MAX, _UINT32_MAX, _UINT64_MAX = 2**31 - 1, 2**32 - 1, 2**64 - 1
_SIMPLE: dict[Kind, Schema] = {
    Kind.BOOL: {"type": "boolean"},
    Kind.INT32: {"type": "integer", "minimum": -_INT32_MAX - 1, "maximum": _INT32_MAX},
    Kind.UINT32: {"type": "integer", "minimum": 0, "maximum": _UINT32_MAX},
    Kind.UINT64: {"type": "integer", "minimum": 0, "maximum": _UINT64_MAX},
    Kind.INSTANT: {"type": "string", "format": "date-time"},
    Kind.TEXT: {"type": "string"},
    Kind.DATASET_REF: {"type": "string"},
    Kind.BYTES: {"type": "string", "contentEncoding": "base64"},
    Kind.HASH: {"type": "string"},
    Kind.DATASET_ID: {"type": "string"},
    Kind.TEXTS: {"type": "array", "items": {"type": "string"}},
}
# The reference's reader of these two has no word for null.
_NEVER_NULL = frozenset({Kind.INSTANT, Kind.BYTES})


def spellings(name: str) -> list[str]:
    """Three spellings of a tag or enum value: `NdJson` (written), `ndJson`, `ndjson`."""
    return list(dict.fromkeys([name, name[0].lower() + name[1:], name.lower()]))


def enum_names(enum: EnumStorage) -> list[str]:
    """The written names of an enum's values, in order."""
    return ["".join(word.capitalize() for word in member.name.split("_")) for member in enum.type]


@cache
def manifest_schema() -> Schema:
    """The whole schema: a manifest of any kind that is read."""
    definitions: Schema = {enum.type.__name__: _enum_schema(enum) for enum in ENUMS}
    members = {member: union for union in UNIONS for member in union.members}
    for table in TABLES.values():
        if table.type not in (Manifest, PrepStepWrapper, ExtraAttributes):
            definitions[table.name] = _table_schema(table, members.get(table.type))
    definitions |= {union.name: _union_schema(union) for union in UNIONS}
    definitions["ExtraAttributes"] = {"type": "object", "description": _description(ExtraAttributes)}
    definitions[SNAPSHOT] = _snapshot_schema()
    definitions |= {f"{kind}Manifest": _envelope_schema(kind) for kind in MANIFEST_VERSIONS}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Open Data Fabric manifest",
        "oneOf": [{"$ref": f"{_REF}{kind}Manifest"} for kind in MANIFEST_VERSIONS],
        "$defs": definitions,
    }


def _envelope_schema(kind: str) -> Schema:
    return {
        "type": "object",
        "properties": {
            "kind": {"enum": [kind]},
            "version": {
                "type": "integer",
                "minimum": MANIFEST_VERSIONS[kind][0],
                "maximum": MANIFEST_VERSIONS[kind][-1],
            },
            "content": {"$ref": _REF + kind},
        },
        "required": ["kind", "version", "content"],
        "additionalProperties": False,
    }


def _snapshot_schema() -> Schema:
    return {
        "description": "A dataset to be created: its alias, kind and first events.",
        "type": "object",
        "properties": _explained(
            SNAPSHOT,
            {
                "name": {"type": "string"},
                "kind": {"$ref": _REF + DatasetKind.__name__},
                "metadata": {"type": "array", "items": {"$ref": _REF + METADATA_EVENT.name}},
            },
        ),
        "required": ["name", "kind", "metadata"],
        "additionalProperties": False,
    }


def _enum_schema(enum: EnumStorage) -> Schema:
    names = [spelling for name in enum_names(enum) for spelling in spellings(name)]
    return {"description": _description(enum.type), "type": "string", "enum": names}


def _table_schema(table: Table, union: Union | None) -> Schema:
    properties: Schema = {}
    required = [slot.camel_name for slot in table.slots if slot.required]
    if union is not None:
        properties["kind"] = {"enum": spellings(union.tags[union.members.index(table.type)])}
        required = ["kind", *required]
    properties |= {slot.camel_name: _slot_schema(slot) for slot in table.slots}
    properties = _explained(table.name, properties)
    return {
        "description": _description(table.type),
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _union_schema(union: Union) -> Schema:
    branches: list[Schema] = [{"$ref": _REF + member.__name__} for member in union.members]
    mapping = {
        spelling: _REF + member.__name__
        for member, tag in zip(union.members, union.tags, strict=True)
        for spelling in spellings(tag)
    }
    if union.short_form:
        bare = [
            spelling
            for member, tag in zip(union.members, union.tags, strict=True)
            for spelling in spellings(tag)
            if not any(slot.required for slot in TABLES[member].slots)
        ]
        branches.insert(0, {"type": "string", "enum": bare})
    return {
        "type": ["object", "string"] if union.short_form else "object",
        "oneOf": branches,
        "discriminator": {"propertyName": "kind", "mapping": mapping},
    }


def _explained(definition: str, properties: Schema) -> Schema:
    """The members with what they mean and what an absent one stands for."""
    meanings, defaults = MEANINGS.get(definition, {}), DEFAULTS.get(definition, {})
    return {
        name: schema
        | ({"description": meanings[name]} if name in meanings else {})
        | ({"default": defaults[name]} if name in defaults else {})
        for name, schema in properties.items()
    }


def _slot_schema(slot: Slot) -> Schema:
    schema = _slot_value_schema(slot)
    if slot.required or slot.kind in _NEVER_NULL:
        return schema
    if "$ref" in schema:
        return {"oneOf": [{"type": "null"}, schema]}
    return schema | {"type": [schema["type"], "null"]}


def _slot_value_schema(slot: Slot) -> Schema:
    match slot.kind:
        case Kind.ENUM if slot.enum is not None:
            return {"$ref": _REF + slot.enum.type.__name__}
        case Kind.UNION if slot.union is not None:
            return {"$ref": _REF + slot.union.name}
        case Kind.UNIONS if slot.union is not None:
            return {"type": "array", "items": {"$ref": _REF + slot.union.name}}
        case Kind.TABLE if slot.table is not None:
            return {"$ref": _REF + slot.table.__name__}
        case Kind.TABLES if slot.table is not None:
            return {"type": "array", "items": {"$ref": _REF + slot.table.__name__}}
        case kind:
            return _SIMPLE[kind]


def _description(noun: type) -> str:
    return (inspect.getdoc(noun) or "").partition("\n")[0].replace("`", "")


@dataclass(frozen=True, slots=True)
class Flaw:
    """One flaw of a value: where, and whether its key is meant, not the value."""

    path: tuple[str | int, ...]
    message: str
    hint: str | None = None
    at_key: bool = False


def find_flaws(value: object, definition: str) -> list[Flaw]:
    """At most 20 flaws of a value by the schema's definition of that name, unordered.

    The nesting of the value must be limited by the caller: validation takes several frames of the stack for each level.
    """
    validator = _validator().evolve(schema={"$ref": _REF + definition})
    return [_flaw(error) for error in islice(validator.iter_errors(value), FLAWS_MAX)]


@cache
def _validator() -> Any:
    checker = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    kind = validators.extend(Draft202012Validator, {"$ref": _follow, "oneOf": _choose}, type_checker=checker)
    return kind(manifest_schema())


def _follow(validator: Any, ref: str, instance: Any, _schema: Schema) -> Iterator[ValidationError]:
    """All references are to definitions of the one schema."""
    yield from validator.descend(instance, manifest_schema()["$defs"][ref.removeprefix(_REF)], schema_path=ref)


def _choose(validator: Any, branches: list[Schema], instance: Any, schema: Schema) -> Iterator[ValidationError]:
    """The one branch that is meant, so that errors are about it and not all of them."""
    if "discriminator" not in schema:
        if instance is not None:
            yield from validator.descend(instance, branches[1])
        return
    mapping = schema["discriminator"]["mapping"]
    if isinstance(instance, dict):
        if "kind" not in instance:
            yield ValidationError("missing field `kind`", validator="kind", instance=instance)
        elif not isinstance(instance["kind"], str):
            yield from validator.descend(instance["kind"], {"type": "string"}, path="kind")
        elif instance["kind"] not in mapping:
            yield ValidationError(unknown_variant(instance["kind"], list(mapping)), path=["kind"], validator="kind")
        else:
            yield from validator.descend(instance, {"$ref": mapping[instance["kind"]]})
    elif isinstance(instance, str) and isinstance(schema["type"], list):
        if instance not in mapping:
            yield ValidationError(unknown_variant(instance, list(mapping)), validator="kind")
        elif instance not in branches[0]["enum"]:
            yield from validator.descend({"kind": instance}, {"$ref": mapping[instance]})


def _flaw(error: ValidationError) -> Flaw:
    path = tuple(error.absolute_path)
    match error.validator:
        case "additionalProperties":
            known = list(error.schema["properties"])
            unknown = next(name for name in error.instance if name not in error.schema["properties"])
            return Flaw(
                (*path, unknown),
                f"unknown field `{unknown[:SHOWN_CHARACTERS_MAX]}`",
                _known_fields(unknown, known),
                at_key=True,
            )
        case "required":
            missing = [name for name in error.validator_value if name not in error.instance]
            return Flaw(path, f"missing field{'s' if len(missing) > 1 else ''} {_quoted(missing)}")
        case "type":
            return Flaw(
                path, f"expected {_expected(error.validator_value)}, found {_found(error.instance)}", _type_hint(error)
            )
        case "enum":
            return Flaw(path, unknown_variant(str(error.instance), error.validator_value))
        case "minimum" | "maximum":
            low, high = error.schema["minimum"], error.schema["maximum"]
            return Flaw(path, f"{error.instance} is outside of {low} to {high}")
        case _:
            return Flaw(path, error.message)


def unknown_variant(found: str, spelled: list[str]) -> str:
    """The message for a tag or an enum value that is none of these.

    Of their spellings only the written ones are named.
    """
    written = [name for name in spelled if name[:1].isupper()]
    return f"unknown variant `{found[:SHOWN_CHARACTERS_MAX]}`, expected one of {_quoted(written)}"


def _known_fields(unknown: str, names: list[str]) -> str:
    near = difflib.get_close_matches(unknown[:SHOWN_CHARACTERS_MAX], names, n=1)
    allowed = f"allowed: {_quoted(names)}" if names else "no field is allowed here"
    return f"did you mean `{near[0]}`? {allowed}" if near else allowed


def _quoted(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _expected(types: str | list[str]) -> str:
    return " or ".join(_TYPE_NAMES[name] for name in ([types] if isinstance(types, str) else types) if name != "null")


def _found(value: JsonValue) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the string {value[:SHOWN_CHARACTERS_MAX]!r}"
        case list():
            return "a list"
        case _:
            return "a map"


def _type_hint(error: ValidationError) -> str | None:
    if "string" in error.validator_value and isinstance(error.instance, int | float | bool):
        return "put it in quotes"
    if isinstance(error.instance, list) and tuple(error.absolute_path)[-2:] == ("read", "schema"):
        return "columns as texts (`id BIGINT`) stand in `ddlSchema` since version 0.38 of the specification"
    if error.validator_value == "integer" and isinstance(error.instance, str):
        return "write the number without quotes"
    if error.instance is None and error.absolute_path and isinstance(error.absolute_path[-1], str):
        return "leave the field out"
    return None


def manifest_schema_text() -> str:
    """The schema as it stands in `docs/manifest.schema.json`."""
    return json.dumps(manifest_schema(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(manifest_schema_text())
