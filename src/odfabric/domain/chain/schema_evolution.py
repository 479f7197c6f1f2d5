"""How schemas of a dataset may differ.

Between two SetDataSchema events, and between a new slice and the dataset.

Owns the comparison of schemas in meaning: an absent member equals its documented default (`Timestamp` is `Timestamp(ms,
UTC)`), attributes are compared as JSON values. Both decisions are taken from one list of differences, so they cannot
disagree about what differs. Types of the remaining fields are compared even where fields were added, removed or moved.
Source: specification, "Schema evolution"; RFC-016. Not here: Arrow, encodings (`formats.slices.arrow_schema`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from odfabric.errors import IncompatibleSchema, InvalidBlock, Place
from odfabric.formats.slices.arrow_schema import upgrade_legacy_schema, with_explicit_defaults
from odfabric.model.data_schema import (
    DataField,
    DataSchema,
    DataType,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeStruct,
    ExtraAttributes,
    TimeUnit,
)
from odfabric.model.metadata import SetDataSchema
from odfabric.model.vocabulary import DatasetVocabulary

RULE = "C13"


class FieldChange(Enum):
    """One way in which a field of the new schema differs from the current one."""

    ADDED_OPTIONAL = "was added"
    ADDED_REQUIRED = "was added and is not optional"
    REMOVED = "was removed"
    DUPLICATED = "appears more than once"
    REORDERED = "has its members in another order"
    ATTRIBUTES = "has other attributes"
    BECAME_OPTIONAL = "became optional"
    BECAME_REQUIRED = "became required"
    TYPE_CHANGED = "changed its type"


_ACCEPTED_IN_EVOLUTION = frozenset({FieldChange.ADDED_OPTIONAL, FieldChange.REORDERED, FieldChange.ATTRIBUTES})
# Arrow's nullability flag was not always meant when a chain still had the legacy form.
_ACCEPTED_FROM_LEGACY = _ACCEPTED_IN_EVOLUTION | {FieldChange.BECAME_OPTIONAL, FieldChange.BECAME_REQUIRED}
_ACCEPTED_IN_OUTPUT = _ACCEPTED_IN_EVOLUTION | {FieldChange.BECAME_REQUIRED}
"""What makes new rows may come to make these. A column that is never null any more stays optional in the dataset, which it fits."""
# Rows of before have no such member: only whole columns are added to them.
_ACCEPTED_OF_COLUMNS = frozenset({FieldChange.ADDED_OPTIONAL, FieldChange.REORDERED})
# A slice may promise more than the dataset asks for, never less.
_ACCEPTED_IN_SLICE = frozenset({FieldChange.BECAME_REQUIRED, FieldChange.ATTRIBUTES})


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """A difference between schemas and its place.

    Dotted names, `[]` for list items, `{key}` and `{value}` for maps, empty for the whole.
    """

    path: str
    change: FieldChange
    detail: str = ""

    def __str__(self) -> str:
        subject = f"field '{self.path}'" if self.path else "the schema"
        return f"{subject} {self.change.value}{f' ({self.detail})' if self.detail else ''}"


class SchemaBlock(Protocol):
    """A block of a chain that set a schema."""

    @property
    def event(self) -> SetDataSchema: ...


class ChainSchema(Protocol):
    """The state of a chain as far as schemas go.

    `domain.chain` asks this module, so this module cannot name its class.
    """

    @property
    def schema(self) -> SchemaBlock | None: ...


def current_schema(state: ChainSchema) -> DataSchema | None:
    """The data schema in force, the legacy form upgraded.

    Raises what `upgrade_legacy_schema` raises.
    """
    return None if state.schema is None else schema_of_event(state.schema.event)


def schema_of_event(event: SetDataSchema) -> DataSchema:
    """The schema that an event sets, in ODF form.

    Raises ValueError if it has neither form.
    """
    if event.schema is not None:
        return event.schema
    if event.raw_arrow_schema is None:
        raise ValueError("SetDataSchema carries no schema")
    return upgrade_legacy_schema(event.raw_arrow_schema)


def check_evolution(event: SetDataSchema, previous: SetDataSchema) -> None:
    """Refuse a SetDataSchema that its predecessor does not admit.

    Events in legacy form are not judged.

    Raises InvalidBlock: NoOpEvent if nothing differs at all, InvalidEvent if data written so far would not fit.
    """
    if event.schema is None:
        return
    current = schema_of_event(previous)
    differences = schema_differences(current, event.schema)
    if not differences:
        raise InvalidBlock(
            "No-op event: New schema is identical to the current: SetDataSchema", kind="NoOpEvent", rule=RULE
        )
    accepted = _ACCEPTED_IN_EVOLUTION if previous.schema is not None else _ACCEPTED_FROM_LEGACY
    refused = [difference for difference in differences if difference.change not in accepted]
    if refused:
        raise InvalidBlock(
            "Invalid event: New schema is not compatible with the current schema. "
            f"{_listed(refused)}. Current: {schema_text(current)}. New: {schema_text(event.schema)}: SetDataSchema",
            kind="InvalidEvent",
            rule=RULE,
            hint="only optional fields may be added; attributes and order may change",
        )


def check_slice_schema(dataset: DataSchema, new: DataSchema) -> None:
    """Refuse data whose schema is not the dataset's.

    Same columns in the same order, equal types, nothing less required.

    Raises IncompatibleSchema with the first field in `place.field`.
    """
    refused = [found for found in schema_differences(dataset, new) if found.change not in _ACCEPTED_IN_SLICE]
    if refused:
        raise IncompatibleSchema(
            "Schema of the new slice is not compatible with the schema defined by SetDataSchema event: "
            + _listed(refused),
            place=Place(field=refused[0].path or None),
            hint=f"the dataset has {schema_text(dataset)}",
        )


def evolved_schema(current: DataSchema, given: DataSchema, *, of: str, hint: str) -> DataSchema:
    """A dataset's schema where new rows have the columns `given`.

    What it has, then new optional columns; `current` if none is new.

    `of` is for people what gives the columns. Raises IncompatibleSchema for any other difference, naming the first, with the hint.
    """
    whole = {"", *(field.name for field in given.fields)}
    refused = [
        found
        for found in schema_differences(current, given)
        if found.change not in _ACCEPTED_IN_OUTPUT or (found.change in _ACCEPTED_OF_COLUMNS and found.path not in whole)
    ]
    if refused:
        raise IncompatibleSchema(
            f"{of} does not fit the dataset: {_listed(refused)}", place=Place(field=refused[0].path or None), hint=hint
        )
    known = {field.name for field in current.fields}
    added = tuple(field for field in given.fields if field.name not in known)
    return DataSchema(fields=(*current.fields, *added), extra=current.extra) if added else current


def check_same_order(schema: DataSchema, given: DataSchema, vocabulary: DatasetVocabulary, *, of: str) -> None:
    """Raises IncompatibleSchema where columns of these names stand in another order.

    `of` is for people what gives them.
    """
    if [field.name for field in given.fields] != [field.name for field in schema.fields]:
        own = (vocabulary.offset, vocabulary.operation_type, vocabulary.system_time)
        named = [f"`{field.name}`" for field in schema.fields if field.name not in own]
        raise IncompatibleSchema(
            f"{of} has its columns in another order", hint=f"name them, new ones last: {', '.join(named)}"
        )


def schema_differences(current: DataSchema, new: DataSchema) -> tuple[SchemaDifference, ...]:
    """All differences in meaning, in the order of the current schema.

    None for schemas that mean the same.
    """
    current, new = with_explicit_defaults(current), with_explicit_defaults(new)
    same_attributes = _attributes(current.extra) == _attributes(new.extra)
    whole = () if same_attributes else (SchemaDifference("", FieldChange.ATTRIBUTES),)
    return (*whole, *_fields_differ("", current.fields, new.fields))


def schema_text(schema: DataSchema) -> str:
    """One line for people: `{a: Int64, b: String?}`, `?` for optional."""
    return _struct_text(with_explicit_defaults(schema).fields)


def _fields_differ(path: str, current: Sequence[DataField], new: Sequence[DataField]) -> Iterator[SchemaDifference]:
    old_by_name = {field.name: field for field in current}
    new_by_name = {field.name: field for field in new}
    for name, count in Counter(field.name for field in new).items():
        if count > 1:
            yield SchemaDifference(_joined(path, name), FieldChange.DUPLICATED)
    for name, old in old_by_name.items():
        if name in new_by_name:
            yield from _field_differs(_joined(path, name), old, new_by_name[name])
        else:
            yield SchemaDifference(_joined(path, name), FieldChange.REMOVED)
    for name, field in new_by_name.items():
        if name not in old_by_name:
            optional = isinstance(field.type, DataTypeOption)
            change = FieldChange.ADDED_OPTIONAL if optional else FieldChange.ADDED_REQUIRED
            yield SchemaDifference(_joined(path, name), change)
    if [name for name in old_by_name if name in new_by_name] != [name for name in new_by_name if name in old_by_name]:
        yield SchemaDifference(path, FieldChange.REORDERED)


def _field_differs(path: str, current: DataField, new: DataField) -> Iterator[SchemaDifference]:
    if _attributes(current.extra) != _attributes(new.extra):
        yield SchemaDifference(path, FieldChange.ATTRIBUTES)
    yield from _type_differs(path, current.type, new.type)


def _type_differs(path: str, current: DataType, new: DataType) -> Iterator[SchemaDifference]:
    was_optional, is_optional = isinstance(current, DataTypeOption), isinstance(new, DataTypeOption)
    if was_optional != is_optional:
        change = FieldChange.BECAME_OPTIONAL if is_optional else FieldChange.BECAME_REQUIRED
        yield SchemaDifference(path, change)
    old_inner = current.inner if isinstance(current, DataTypeOption) else current
    new_inner = new.inner if isinstance(new, DataTypeOption) else new
    match old_inner, new_inner:
        case DataTypeStruct(fields=old_fields), DataTypeStruct(fields=new_fields):
            yield from _fields_differ(path, old_fields, new_fields)
        case DataTypeList() as old, DataTypeList() as now if old.fixed_length == now.fixed_length:
            yield from _type_differs(f"{path}[]", old.item_type, now.item_type)
        case DataTypeMap() as old, DataTypeMap() as now if old.keys_sorted == now.keys_sorted:
            yield from _type_differs(f"{path}{{key}}", old.key_type, now.key_type)
            yield from _type_differs(f"{path}{{value}}", old.value_type, now.value_type)
        case old, now if old != now:
            yield SchemaDifference(path, FieldChange.TYPE_CHANGED, f"{_type_text(old)} to {_type_text(now)}")
        case _:
            pass


def _attributes(extra: ExtraAttributes | None) -> str:
    """Attributes as canonical text: spacing and key order do not count, types do.

    So `1` and `true` differ.
    """
    if extra is None:
        return "{}"
    try:
        return json.dumps(json.loads(extra.entries), sort_keys=True)
    except (ValueError, RecursionError):
        return extra.entries


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _listed(differences: Sequence[SchemaDifference]) -> str:
    return "; ".join(str(difference) for difference in differences)


def _struct_text(fields: Sequence[DataField]) -> str:
    return "{" + ", ".join(f"{field.name}: {_type_text(field.type)}" for field in fields) + "}"


def _type_text(data_type: DataType) -> str:
    match data_type:
        case DataTypeOption(inner=inner):
            return _type_text(inner) + "?"
        case DataTypeStruct(fields=fields):
            return "Struct" + _struct_text(fields)
        case DataTypeList(item_type=item, fixed_length=length):
            return f"List<{_type_text(item)}{'' if length is None else f'; {length}'}>"
        case DataTypeMap(key_type=key, value_type=value, keys_sorted=keys_sorted):
            return f"Map<{_type_text(key)}, {_type_text(value)}{'; sorted' if keys_sorted else ''}>"
        case _:
            return _leaf_text(data_type)


def _leaf_text(data_type: DataType) -> str:
    """Class name and members, e.g. `Decimal(10, 2)`."""
    members = [getattr(data_type, name) for name in data_type.__dataclass_fields__]
    shown = [
        str(member.name).lower() if isinstance(member, TimeUnit) else str(member)
        for member in members
        if member is not None
    ]
    return type(data_type).__name__.removeprefix("DataType") + (f"({', '.join(shown)})" if shown else "")
