"""Nouns of the model as the values that YAML and JSON hold, and back.

Owns the form of every noun in manifests: camelCase fields in schema order, `kind` first, absent fields left out, texts of
hashes, identities and times. Reading takes the structure from the JSON Schema and adds what a schema cannot say. Invariant:
reading a written value gives the noun again. Not here: envelopes, files and lines (`formats.manifests.manifest_yaml`).
Source: specification, "Metadata reference".
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, NoReturn, TypeAlias

from odfabric.errors import InvalidManifest, InvalidName, Place
from odfabric.formats.blocks.block_tables import (
    ENUMS,
    MERGE_STRATEGY,
    METADATA_EVENT,
    READ_STEP,
    TABLES,
    TRANSFORM,
    UNIONS,
    EnumStorage,
    Kind,
    Slot,
    Union,
)
from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.formats.identifiers.references import parse_dataset_alias, parse_dataset_ref
from odfabric.formats.json_values.canonical_json import JsonValue, canonical_json, check_json_value, parse_json_object
from odfabric.formats.manifests.manifest_schema import (
    SHOWN_CHARACTERS_MAX,
    SNAPSHOT,
    Flaw,
    enum_names,
    find_flaws,
    spellings,
)
from odfabric.model.data_schema import DataSchema, ExtraAttributes
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.manifest import DatasetSnapshot
from odfabric.model.metadata import DatasetKind, MetadataEvent, SetDataSchema, Transform
from odfabric.model.multihash import Multihash
from odfabric.model.source import MergeStrategy, ReadStep

VALUE_DEPTH_MAX = 64
"""Deepest nesting of a manifest, in maps and lists."""

Path: TypeAlias = tuple[str | int, ...]

_TAGS = {member: tag for union in UNIONS for member, tag in zip(union.members, union.tags, strict=True)}
_MEMBERS = {
    union: {
        spelling: member for member, tag in zip(union.members, union.tags, strict=True) for spelling in spellings(tag)
    }
    for union in UNIONS
}
_ENUM_TEXTS: dict[Enum, str] = {
    member: name for enum in ENUMS for member, name in zip(enum.type, enum_names(enum), strict=True)
}
_DATASET_KINDS = {spelling: kind for kind in DatasetKind for spelling in spellings(_ENUM_TEXTS[kind])}
_ENUM_MEMBERS: dict[type[Enum], dict[str, Enum]] = {
    enum.type: {spelling: member for member in enum.type for spelling in spellings(_ENUM_TEXTS[member])}
    for enum in ENUMS
}


class Flawed(ValueError):
    """A value is not the form of a noun. `flaws` is not empty and in no order."""

    def __init__(self, flaws: list[Flaw]) -> None:
        super().__init__(flaws[0].message)
        self.flaws = flaws


def noun_to_value(noun: object) -> dict[str, JsonValue]:
    """The manifest form of any noun of `formats.blocks.block_tables`.

    A member of a union has its `kind` first.
    """
    if isinstance(noun, ExtraAttributes):
        return parse_json_object(noun.entries)
    kind = _TAGS.get(type(noun))
    value: dict[str, JsonValue] = {} if kind is None else {"kind": kind}
    for slot in TABLES[type(noun)].slots:
        member = getattr(noun, slot.name)
        if member is not None:
            value[slot.camel_name] = _member_to_value(member)
    return value


def event_to_value(event: MetadataEvent) -> dict[str, JsonValue]:
    """The manifest form of an event."""
    return noun_to_value(event)


def snapshot_to_value(snapshot: DatasetSnapshot) -> dict[str, JsonValue]:
    """The manifest form of a snapshot, without its envelope."""
    return {
        "name": str(snapshot.name),
        "kind": _ENUM_TEXTS[snapshot.kind],
        "metadata": [noun_to_value(event) for event in snapshot.metadata],
    }


def event_from_value(value: object) -> MetadataEvent:
    """The event in a JSON value, which has no lines.

    Raises InvalidManifest that names the field.
    """
    event: MetadataEvent = _from_value(value, METADATA_EVENT.name)
    return event


def data_schema_from_value(value: object) -> DataSchema:
    """The schema in a JSON value. Raises InvalidManifest that names the field."""
    schema: DataSchema = _from_value(value, DataSchema.__name__)
    return schema


def read_step_from_value(value: object) -> ReadStep:
    """The read step in a JSON value. Raises InvalidManifest that names the field."""
    step: ReadStep = _from_value(value, READ_STEP.name)
    return step


def merge_strategy_from_value(value: object) -> MergeStrategy:
    """The merge strategy in a JSON value. Raises InvalidManifest that names the field."""
    strategy: MergeStrategy = _from_value(value, MERGE_STRATEGY.name)
    return strategy


def transform_from_value(value: object) -> Transform:
    """The transform in a JSON value. Raises InvalidManifest that names the field."""
    transform: Transform = _from_value(value, TRANSFORM.name)
    return transform


def build_noun(value: JsonValue, definition: str, *, path: Path) -> Any:
    """The noun in a value which the schema's definition of that name admits.

    `path` leads to it. Raises Flawed.
    """
    return _DEFINITIONS[definition](value, path)


def flaw_field(path: Path) -> str | None:
    """A path as `Place.field` shows it: `metadata[2].read.kind`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step[:SHOWN_CHARACTERS_MAX]}" for step in path)
    return text.removeprefix(".") or None


def _from_value(value: Any, definition: str) -> Any:
    try:
        check_json_value(value, depth_max=VALUE_DEPTH_MAX)
        flaws = find_flaws(value, definition)
        if flaws:
            raise Flawed(flaws)
        return build_noun(value, definition, path=())
    except Flawed as error:
        flaw = min(error.flaws, key=lambda flaw: (not flaw.at_key, len(flaw.path)))
        raise InvalidManifest(flaw.message, place=Place(field=flaw_field(flaw.path)), hint=flaw.hint) from None
    except ValueError as error:
        raise InvalidManifest(str(error)) from None


def _member_to_value(member: Any) -> JsonValue:
    match member:
        case bool() | int() | str():
            return member
        case tuple():
            return [_member_to_value(item) for item in member]
        case Enum():
            return _ENUM_TEXTS[member]
        case Instant() | Multihash() | DatasetId():
            return str(member)
        case bytes():
            return base64.b64encode(member).decode("ascii")
        case _:
            return noun_to_value(member)


def _refuse(path: Path, message: str, hint: str | None = None) -> NoReturn:
    raise Flawed([Flaw(path, message, hint)])


def _table(noun: type, value: dict[str, Any], path: Path) -> Any:
    members: dict[str, Any] = {}
    for slot in TABLES[noun].slots:
        member = value.get(slot.camel_name)
        if member is not None:
            members[slot.name] = _member(slot, member, (*path, slot.camel_name))
    found = noun(**members)
    if isinstance(found, SetDataSchema) and (found.schema is None) == (found.raw_arrow_schema is None):
        _refuse(path, "exactly one of `schema` and `rawArrowSchema` must be given")
    return found


def _union(union: Union, value: Any, path: Path) -> Any:
    if isinstance(value, str):
        return _MEMBERS[union][value]()
    return _table(_MEMBERS[union][value["kind"]], value, path)


def _member(slot: Slot, value: Any, path: Path) -> Any:
    if slot.kind in _TEXT_READERS:
        return _read_text(_TEXT_READERS[slot.kind], value, path)
    match slot:
        case Slot(kind=Kind.TEXTS):
            return tuple(_read_text(_unicode, item, (*path, index)) for index, item in enumerate(value))
        case Slot(enum=EnumStorage() as enum):
            return _ENUM_MEMBERS[enum.type][value]
        case Slot(kind=Kind.UNION, union=Union() as union):
            return _union(union, value, path)
        case Slot(kind=Kind.UNIONS, union=Union() as union):
            return tuple(_union(union, item, (*path, index)) for index, item in enumerate(value))
        case Slot(table=type() as table) if table is ExtraAttributes:
            return _attributes(value, path)
        case Slot(kind=Kind.TABLE, table=type() as table):
            return _table(table, value, path)
        case Slot(kind=Kind.TABLES, table=type() as table):
            return tuple(_table(table, item, (*path, index)) for index, item in enumerate(value))
        case _:
            return value


def _attributes(value: dict[str, JsonValue], path: Path) -> ExtraAttributes | None:
    """An empty map means no attributes: writers leave it out."""
    try:
        return ExtraAttributes(entries=canonical_json(value)) if value else None
    except ValueError as error:
        _refuse(path, str(error))


def _read_text(read: Callable[[str], Any], value: str, path: Path) -> Any:
    try:
        return read(value)
    except InvalidName as error:
        _refuse(path, error.message, error.hint)
    except ValueError as error:
        _refuse(path, str(error))


def _unicode(text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("the text holds half of a surrogate pair") from None
    return text


def _dataset_ref(text: str) -> str:
    """An identity in its canonical spelling, an alias as typed."""
    return str(parse_dataset_ref(text))


def _base64(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64 with padding: {error}") from None
    if base64.b64encode(data).decode("ascii") != text:
        raise ValueError("not base64 with padding: unused bits are set")
    return data


_TEXT_READERS: dict[Kind, Callable[[str], Any]] = {
    Kind.TEXT: _unicode,
    Kind.HASH: parse_multihash,
    Kind.DATASET_ID: parse_dataset_id,
    Kind.DATASET_REF: _dataset_ref,
    Kind.INSTANT: Instant.parse,
    Kind.BYTES: _base64,
}


def _snapshot(value: dict[str, Any], path: Path) -> DatasetSnapshot:
    events = value["metadata"]
    return DatasetSnapshot(
        name=_read_text(parse_dataset_alias, value["name"], (*path, "name")),
        kind=_DATASET_KINDS[value["kind"]],
        metadata=tuple(_union(METADATA_EVENT, event, (*path, "metadata", index)) for index, event in enumerate(events)),
    )


def _definitions() -> dict[str, Callable[[Any, Path], Any]]:
    tables = {table.name: partial(_table, table.type) for table in TABLES.values()}
    return {**tables, **{union.name: partial(_union, union) for union in UNIONS}, SNAPSHOT: _snapshot}


_DEFINITIONS = _definitions()
