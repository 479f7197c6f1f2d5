"""Reading any bytes as shapefiles: GeoJSON, exact attributes, damage refused."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from odfabric.errors import InvalidData, LimitExceeded
from odfabric.model.source import ReadStepEsriShapefile
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.ingest.ingesting import Dataset
from tests.services.engine.ingest.reading import ddl, read_rows, refusal, values
from tests.unit.engine_spark.ingest.shapefiles import POINT, archive_of, shapefile_of, zipped

pytestmark = pytest.mark.spark

COLUMNS = (
    ("NAME", "C", 20, 0),
    ("PEOPLE", "N", 10, 0),
    ("AREA", "N", 12, 3),
    ("SINCE", "D", 8, 0),
    ("OPEN", "L", 1, 0),
    ("LONG", "N", 25, 0),
)
RING = [[0, 0], [0, 1], [1, 1], [0, 0]]
HOLE = [[0.1, 0.2], [0.2, 0.3], [0.1, 0.3], [0.1, 0.2]]
ROWS: list[tuple[Any, list[Any]]] = [
    ({"type": "Polygon", "coordinates": [RING]}, ["Köln", 3, 1.25, date(2020, 2, 29), True, 10**24]),
    (
        {"type": "MultiPolygon", "coordinates": [[RING], [[[5, 5], [5, 6], [6, 6], [5, 5]]]]},
        ["b", None, None, None, None, None],
    ),
    (None, ["c", -1, 0, None, False, 1]),
]
PLACES = shapefile_of(COLUMNS, ROWS)
STEP = ReadStepEsriShapefile()


def points(count: int, name: str = "x") -> dict[str, bytes]:
    return shapefile_of([("name", "C", 9, 0)], [(POINT, [f"{name}{number}"]) for number in range(count)])


def test_attributes_have_their_types_and_shapes_are_geojson(engine_call: EngineCall) -> None:
    rows = read_rows(engine_call, STEP, archive_of("data/places", PLACES, readme=b"hello"))
    assert rows is not None
    assert rows.schema.equals(
        pa.schema(
            [
                ("AREA", pa.float64()),
                ("LONG", pa.decimal128(25, 0)),
                ("NAME", pa.string()),
                ("OPEN", pa.bool_()),
                ("PEOPLE", pa.int64()),
                ("SINCE", pa.date32()),
                ("geometry", pa.string()),
            ]
        )
    )
    found = values(engine_call, STEP, archive_of("places", PLACES))
    assert [[row[name] for name, *_ in COLUMNS] for row in found] == [
        ["Köln", 3, 1.25, date(2020, 2, 29), True, 10**24],
        ["b", None, None, None, None, None],
        ["c", -1, 0.0, None, False, 1],
    ]
    assert [json.loads(row["geometry"] or "null") for row in found] == [geometry for geometry, _ in ROWS]


def test_a_declared_schema_and_several_archives(engine_call: EngineCall) -> None:
    step = ReadStepEsriShapefile(schema=ddl("NAME STRING NOT NULL", "AREA DECIMAL(9, 2)", "geometry STRING"))
    archive = archive_of("places", PLACES)
    assert [row["NAME"] for row in values(engine_call, step, archive, b"", archive)] == ["Köln", "b", "c"] * 2
    assert values(engine_call, step, b"") == []
    assert read_rows(engine_call, STEP, b"") is None
    other = refusal(engine_call, STEP, archive, archive_of("p", points(1)))
    assert other.place.file == "f1"
    required = refusal(engine_call, ReadStepEsriShapefile(schema=ddl("geometry STRING NOT NULL")), archive)
    assert (required.place.file, required.place.row, required.place.field) == ("f0", 3, "geometry")


def test_heights_stay_and_measures_go(engine_call: EngineCall) -> None:
    line = {"type": "LineString", "coordinates": [[1, 2, 3], [4, 5, 6.5]]}
    given = [[*place, 99] for place in line["coordinates"]]
    content = archive_of("p", shapefile_of([("n", "N", 5, 0)], [(lambda writer: writer.linez([given]), [1])]))
    (row,) = values(engine_call, STEP, content)
    assert json.loads(row["geometry"]) == line


def test_which_shapefile_of_an_archive(engine_call: EngineCall) -> None:
    several = {
        f"{folder}/{folder}{ending}": content for folder in ("a", "b") for ending, content in points(1, folder).items()
    }
    archive = zipped({**several, "__MACOSX/a/._a.shp": b"x"})

    def read(sub_path: str | None) -> list[str]:
        return [row["name"] for row in values(engine_call, ReadStepEsriShapefile(sub_path=sub_path), archive)]

    assert [read("a/a.shp"), read("b/*.shp"), read("*/b.shp")] == [["a0"], ["b0"], ["b0"]]
    for sub_path, words in ((None, "there are 2"), ("*/*.shp", "there are 2"), ("c.shp", "there are 0")):
        error = refusal(engine_call, ReadStepEsriShapefile(sub_path=sub_path), archive)
        assert words in error.message
        assert "a/a.shp, b/b.shp" in (error.hint or "")
    none = refusal(engine_call, STEP, zipped({"a.txt": b""}))
    assert "there are 0" in none.message
    upper = {f"P{ending.upper()}": content for ending, content in points(2).items()}
    assert len(values(engine_call, STEP, zipped(upper))) == 2
    bare = points(1)
    del bare[".dbf"]
    assert "no table of attributes" in refusal(engine_call, STEP, archive_of("p", bare)).message


def test_texts_in_the_encoding_that_is_stated(engine_call: EngineCall) -> None:
    columns, rows = [("name", "C", 20, 0)], [(POINT, ["Žluťoučký"])]
    latin = shapefile_of(columns, rows, encoding="cp1250")
    for stated in (b"cp1250", b"1250", b"windows-1250\n"):
        assert values(engine_call, STEP, archive_of("p", {**latin, ".cpg": stated}))[0]["name"] == "Žluťoučký"
    by_driver = bytearray(latin[".dbf"])
    by_driver[29] = 0xC8
    assert values(engine_call, STEP, archive_of("p", {**latin, ".dbf": bytes(by_driver)}))[0]["name"] == "Žluťoučký"
    utf8 = shapefile_of(columns, rows)
    assert values(engine_call, STEP, archive_of("p", {**utf8, ".cpg": b"UTF-8"}))[0]["name"] == "Žluťoučký"
    error = refusal(engine_call, STEP, archive_of("p", latin))
    assert (error.place.file, error.place.row, error.place.field) == ("f0", 1, "name")
    assert ".cpg" in (error.hint or "")
    assert "not known" in refusal(engine_call, STEP, archive_of("p", {**latin, ".cpg": b"klingon"})).message


def with_cell(parts: dict[str, bytes], text: bytes) -> dict[str, bytes]:
    """The last cell of the table, which ends with a mark, with another text."""
    table = parts[".dbf"].removesuffix(b"\x1a")
    return {**parts, ".dbf": table[: -len(text)] + text}


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("N", b"     5", 5), ("N", b"******", None), ("N", b"   5.0", 5), ("N", b"  1e2 ", 100), ("N", b"5\x00\x00\x00\x00\x00", 5),
        ("F", b"  -1.5", -1.5), ("L", b"?", None), ("L", b"y", True), ("D", b"00000000", None), ("D", b"        ", None),
        ("C", b" a    ", " a"), ("C", b"      ", None),
    ],
)  # fmt: skip
def test_cells_that_others_write(engine_call: EngineCall, kind: str, text: bytes, value: object) -> None:
    parts = shapefile_of([("v", kind, len(text), 0)], [(POINT, [None])])
    assert values(engine_call, STEP, archive_of("p", with_cell(parts, text)))[0]["v"] == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("N", b" 5,5 "),
        ("N", b" 5.5 "),
        ("N", b"  nan"),
        ("F", b"  inf"),
        ("L", b"x"),
        ("D", b"20200230"),
        ("D", b"1.1.2020"),
    ],
)
def test_cells_that_are_no_value_are_refused_and_not_null(engine_call: EngineCall, kind: str, text: bytes) -> None:
    parts = shapefile_of([("v", kind, len(text), 0)], [(POINT, [None])])
    error = refusal(engine_call, STEP, archive_of("p", with_cell(parts, text)))
    assert isinstance(error, InvalidData)
    assert (error.place.file, error.place.row, error.place.field) == ("f0", 1, "v")


def test_deleted_rows_take_their_shapes_with_them(engine_call: EngineCall) -> None:
    parts = points(3)
    table = bytearray(parts[".dbf"])
    assert table.count(b" x1") == 1
    table[table.index(b" x1")] = ord("*")
    found = values(engine_call, STEP, archive_of("p", {**parts, ".dbf": bytes(table)}))
    assert [row["name"] for row in found] == ["x0", "x2"]


def damaged(parts: dict[str, bytes]) -> Iterator[bytes]:
    shapes, table = parts[".shp"], parts[".dbf"]
    yield b"not an archive"
    yield archive_of("p", parts)[:-30]
    yield archive_of("p", {**parts, ".shp": shapes[:-7]})
    yield archive_of("p", {**parts, ".dbf": table[:-10]})
    yield archive_of("p", {**parts, ".dbf": b""})
    yield archive_of("p", {**parts, ".shp": b""})
    yield archive_of("p", {**points(2), ".dbf": points(3)[".dbf"]})
    yield archive_of("p", {**points(3), ".dbf": points(2)[".dbf"]})
    yield archive_of("p", {**parts, ".shp": shapes[:104] + b"\xff\xff\xff\xfc" + shapes[108:]})
    yield archive_of("p", {**parts, ".shp": shapes[:104] + b"\x00\x00\x00\x00" + shapes[108:]})


def test_damage_is_refused(engine_call: EngineCall) -> None:
    for content in damaged(PLACES):
        error = refusal(engine_call, STEP, content)
        assert isinstance(error, InvalidData), error
        assert error.place.file == "f0"
        assert error.hint


def test_bytes_of_a_user_are_never_an_error_of_ours(engine_call: EngineCall) -> None:
    chance = random.Random(7)
    for _ in range(150):
        parts = dict(PLACES)
        ending = chance.choice([".shp", ".dbf"])
        content = bytearray(parts[ending])
        for _ in range(chance.choice([1, 4])):
            content[chance.randrange(min(len(content), 400))] = chance.randrange(256)
        parts[ending] = bytes(content)
        with suppress(InvalidData):
            read_rows(engine_call, STEP, archive_of("p", parts))


def test_what_unpacks_to_too_much_is_refused(engine_call: EngineCall) -> None:
    small = replace(engine_call, settings=replace(engine_call.settings, input_unpacked_bytes_max=1000))
    error = refusal(small, STEP, archive_of("p", points(100)))
    assert isinstance(error, LimitExceeded)
    assert (error.limit, error.place.file) == ("input_unpacked_bytes_max", "f0")


def test_later_pushes_are_read_as_the_dataset_has_its_columns(engine_call: EngineCall) -> None:
    dataset = Dataset(engine_call)
    archive = archive_of("places", PLACES)
    first, second = (dataset.ingest(STEP, archive) for _ in range(2))
    names = [name for name, *_ in COLUMNS] + ["geometry"]
    assert [[row[name] for name in names] for row in first] == [[row[name] for name in names] for row in second]
    narrower = archive_of("p", shapefile_of([("name", "C", 9, 0)], [(POINT, ["a"])]))
    with pytest.raises(InvalidData) as refused:
        dataset.ingest(STEP, narrower)
    assert (refused.value.place.file, refused.value.place.field) == ("file0", "name")
