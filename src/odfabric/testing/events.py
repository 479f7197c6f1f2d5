"""Random nouns of the specification for property tests.

Owns Hypothesis strategies for everything that a metadata block can hold. Values are well formed (each has bytes and a manifest),
nothing more: which of them a chain admits is decided elsewhere. They follow the tables of `formats.blocks.block_tables`.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from hypothesis import strategies as st

from odfabric.formats.blocks.block_tables import (
    DATA_TYPE,
    METADATA_EVENT,
    TABLES,
    EnumStorage,
    Kind,
    Slot,
    Union,
)
from odfabric.formats.blocks.engine_contract_tables import ENGINE_TABLES
from odfabric.formats.json_values.canonical_json import JSON_INT_MAX, JSON_INT_MIN, JsonValue, canonical_json
from odfabric.model.data_schema import (
    DataField,
    DataSchema,
    DataType,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeStruct,
    ExtraAttributes,
)
from odfabric.model.identity import DatasetAlias, DatasetId, Name
from odfabric.model.instant import Instant
from odfabric.model.manifest import DatasetSnapshot
from odfabric.model.metadata import DatasetKind, MetadataBlock, MetadataEvent, SetDataSchema
from odfabric.model.multihash import ARROW0_SHA3_256, DIGEST_BYTES_MAX, SHA2_256, SHA3_256, Multihash

_YEAR_NS = 31_556_952 * 10**9
_NESTING = (DataTypeList, DataTypeMap, DataTypeOption, DataTypeStruct)


def instants(*, years: int = 2_000_000_000) -> st.SearchStrategy[Instant]:
    """Instants of this century, and all within a block's range, in years from 1970."""
    far = years * _YEAR_NS
    near = st.integers(0, 130 * _YEAR_NS)
    return st.one_of(near, near.map(lambda ns: ns // 10**6 * 10**6), st.integers(-far, far)).map(Instant)


def multihashes() -> st.SearchStrategy[Multihash]:
    """SHA3-256 digests for the most part; other known codecs and shorter digests too."""
    digest = st.binary(min_size=DIGEST_BYTES_MAX, max_size=DIGEST_BYTES_MAX)
    usual = st.builds(Multihash, st.sampled_from([SHA3_256, ARROW0_SHA3_256]), digest)
    short = st.builds(Multihash, st.sampled_from([SHA2_256, SHA3_256]), st.binary(max_size=DIGEST_BYTES_MAX))
    return st.one_of(usual, usual, short)


def dataset_ids() -> st.SearchStrategy[DatasetId]:
    """Identities with any 32 bytes for a key."""
    return st.builds(DatasetId, st.binary(min_size=32, max_size=32))


def dataset_aliases() -> st.SearchStrategy[DatasetAlias]:
    """Aliases with and without an account."""
    names = st.from_regex(r"[A-Za-z0-9]{1,8}(-[a-z0-9]{1,4})?(\.[A-Za-z0-9]{1,4})?", fullmatch=True).map(Name)
    return st.builds(DatasetAlias, st.none() | names, names)


def json_objects() -> st.SearchStrategy[dict[str, JsonValue]]:
    """Non-empty objects that attribute maps can hold."""
    scalars = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(JSON_INT_MIN, JSON_INT_MAX),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=8),
    )
    values: st.SearchStrategy[Any] = st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=6,
    )
    return st.dictionaries(st.text(max_size=12), values, min_size=1, max_size=3)


def extra_attributes() -> st.SearchStrategy[ExtraAttributes]:
    """Attribute maps in their canonical text."""
    return json_objects().map(lambda value: ExtraAttributes(entries=canonical_json(value)))


@cache
def data_types() -> st.SearchStrategy[DataType]:
    """Data types of every kind, nested some levels deep."""
    leaves = st.one_of([nouns(member) for member in DATA_TYPE.members if member not in _NESTING])

    def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        fields = st.builds(DataField, name=st.text(max_size=8), type=inner, extra=st.none() | extra_attributes())
        return st.one_of(
            st.builds(DataTypeList, item_type=inner, fixed_length=st.none() | st.integers(0, 2**64 - 1)),
            st.builds(DataTypeMap, key_type=inner, value_type=inner, keys_sorted=st.none() | st.booleans()),
            st.builds(DataTypeOption, inner=inner),
            st.builds(DataTypeStruct, fields=st.lists(fields, max_size=3).map(tuple)),
        )

    return st.recursive(leaves, nested, max_leaves=5)


def data_schemas() -> st.SearchStrategy[DataSchema]:
    """Schemas of some columns; names may repeat."""
    found: st.SearchStrategy[DataSchema] = nouns(DataSchema)
    return found


def events() -> st.SearchStrategy[MetadataEvent]:
    """Events of all 13 kinds, each as likely as any other."""
    return st.one_of([nouns(member) for member in METADATA_EVENT.members])


def blocks() -> st.SearchStrategy[MetadataBlock]:
    """Single blocks, which no chain connects."""
    found: st.SearchStrategy[MetadataBlock] = nouns(MetadataBlock)
    return found


def snapshots() -> st.SearchStrategy[DatasetSnapshot]:
    """Snapshots with any events."""
    return st.builds(
        DatasetSnapshot,
        name=dataset_aliases(),
        kind=st.sampled_from(DatasetKind),
        metadata=st.lists(events(), max_size=3).map(tuple),
    )


@cache
def nouns(noun: type) -> st.SearchStrategy[Any]:
    """Values of a class that has a table."""
    if noun is ExtraAttributes:
        return extra_attributes()
    if noun is SetDataSchema:
        modern = st.builds(SetDataSchema, schema=data_schemas())
        return modern | st.builds(SetDataSchema, raw_arrow_schema=st.binary(max_size=64))
    members = {slot.name: _slot(slot) for slot in (TABLES | ENGINE_TABLES)[noun].slots}
    return st.builds(partial(_make, noun), st.fixed_dictionaries(members))


def _make(noun: type, members: dict[str, Any]) -> Any:
    return noun(**members)


def _slot(slot: Slot) -> st.SearchStrategy[Any]:
    found = st.deferred(lambda: _slot_value(slot))
    return found if slot.required else st.none() | found


def _slot_value(slot: Slot) -> st.SearchStrategy[Any]:
    match slot:
        case Slot(enum=EnumStorage() as enum):
            return st.sampled_from(enum.type)
        case Slot(kind=Kind.UNION, union=Union() as union):
            return _union(union)
        case Slot(kind=Kind.UNIONS, union=Union() as union):
            return st.lists(_union(union), max_size=3).map(tuple)
        case Slot(kind=Kind.TABLE, table=type() as table):
            return nouns(table)
        case Slot(kind=Kind.TABLES, table=type() as table):
            return st.lists(nouns(table), max_size=3).map(tuple)
        case _:
            return _simple(slot.kind)


def _union(union: Union) -> st.SearchStrategy[Any]:
    return data_types() if union is DATA_TYPE else st.one_of([nouns(member) for member in union.members])


@cache
def _simple(kind: Kind) -> st.SearchStrategy[Any]:
    found: dict[Kind, st.SearchStrategy[Any]] = {
        Kind.BOOL: st.booleans(),
        Kind.INT32: st.integers(-(2**31), 2**31 - 1),
        Kind.UINT32: st.integers(0, 2**32 - 1),
        Kind.UINT64: st.one_of(st.integers(0, 10), st.integers(0, 2**64 - 1)),
        Kind.INSTANT: instants(),
        Kind.TEXT: st.text(max_size=24),
        Kind.TEXTS: st.lists(st.text(max_size=12), max_size=3).map(tuple),
        Kind.DATASET_REF: st.one_of(dataset_ids().map(str), dataset_aliases().map(str)),
        Kind.HASH: multihashes(),
        Kind.DATASET_ID: dataset_ids(),
    }
    return found[kind]
