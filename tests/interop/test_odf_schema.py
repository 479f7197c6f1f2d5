"""`proto/odf.fbs` and `proto/odf-engine.fbs` agree with the codec's tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from odfabric.formats.blocks.block_tables import ENUMS, TABLES, UNIONS, EnumStorage, Kind, Slot, Table, Union
from odfabric.formats.blocks.engine_contract_tables import ENGINE_TABLES, ENGINE_UNIONS
from odfabric.formats.manifests.manifest_schema import enum_names


def text_of(name: str) -> str:
    return re.sub(r"//[^\n]*", "", (Path(__file__).parents[2] / "proto" / name).read_text())


def tables_in(text: str) -> dict[str, list[tuple[str, str]]]:
    return {
        name: [
            (field.strip(), declared.strip())
            for field, declared in (line.split(":", 1) for line in re.findall(r"([^;{}]+);", body))
        ]
        for name, body in re.findall(r"table (\w+) \{([^}]*)\}", text)
    }


def unions_in(text: str) -> dict[str, list[str]]:
    return {
        name: [member.strip() for member in body.split(",")]
        for name, body in re.findall(r"union (\w+) \{([^}]*)\}", text)
    }


TEXT, ENGINE_TEXT = text_of("odf.fbs"), text_of("odf-engine.fbs")
DECLARED_TABLES = tables_in(TEXT) | tables_in(ENGINE_TEXT)
DECLARED_ENUMS = {
    name: (storage, [value.strip() for value in body.split(",")])
    for name, storage, body in re.findall(r"enum (\w+): (\w+) \{([^}]*)\}", TEXT)
}
_TEXTS = frozenset({Kind.TEXT, Kind.DATASET_REF, Kind.JSON_OBJECT})
_BYTES = frozenset({Kind.BYTES, Kind.HASH, Kind.DATASET_ID})
_SCALARS = frozenset({Kind.BOOL, Kind.INT32, Kind.UINT32, Kind.INT64, Kind.UINT64, Kind.ENUM})


def declaration(slot: Slot) -> str:
    match slot:
        case Slot(enum=EnumStorage() as enum):
            text = enum.type.__name__
        case Slot(kind=Kind.UNION, union=Union() as union):
            text = union.name
        case Slot(kind=Kind.TABLE, table=type() as table):
            text = table.__name__
        case Slot(kind=Kind.TABLES | Kind.UNIONS, table=type() as table):
            text = f"[{table.__name__}]"
        case _ if slot.kind in _TEXTS:
            text = "string"
        case _ if slot.kind in _BYTES:
            text = "[ubyte]"
        case _:
            text = slot.kind.value
    if slot.kind in _SCALARS:
        return text if slot.required else f"{text} = null"
    return f"{text} (required)" if slot.required else text


def test_the_file_declares_all_tables_and_no_other() -> None:
    assert sorted(tables_in(TEXT)) == sorted(table.name for table in TABLES.values())
    assert sorted(tables_in(ENGINE_TEXT)) == sorted(table.name for table in ENGINE_TABLES.values())


@pytest.mark.parametrize("table", (TABLES | ENGINE_TABLES).values(), ids=lambda table: table.name)
def test_slots_agree(table: Table) -> None:
    assert DECLARED_TABLES[table.name] == [(slot.name, declaration(slot)) for slot in table.slots]


def test_unions_and_enums_agree() -> None:
    for unions, text in ((UNIONS, TEXT), (ENGINE_UNIONS, ENGINE_TEXT)):
        assert {union.name: [member.__name__ for member in union.members] for union in unions} == unions_in(text)
    assert {enum.type.__name__: (enum.fbs_type, enum_names(enum)) for enum in ENUMS} == DECLARED_ENUMS
    assert [member.value for enum in ENUMS for member in enum.type] == [
        number for enum in ENUMS for number in range(len(enum.type))
    ]


def test_the_moment_is_the_struct_that_the_codec_packs() -> None:
    [body] = re.findall(r"struct Timestamp \{([^}]*)\}", TEXT)
    assert [line.strip() for line in body.split(";")[:-1]] == [
        "year: int",
        "ordinal: ushort",
        "seconds_from_midnight: uint",
        "nanoseconds: uint",
    ]
    assert "root_type Manifest;" in TEXT
