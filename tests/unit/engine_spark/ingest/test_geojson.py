"""GeoJSON features as rows: what is kept as written, what is refused and why."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import InvalidData, Place
from odfabric_engine_spark.ingest.json.geojson import row_of_feature
from odfabric_engine_spark.ingest.json.json_document import JsonDocument
from odfabric_engine_spark.ingest.json.json_values import JsonParser

POINT = {"type": "Point", "coordinates": [1.5, 2]}
names = st.text(max_size=4).filter(lambda name: name != "geometry")
features = st.builds(
    lambda properties, geometry: {"type": "Feature", "id": 7, "properties": properties, "geometry": geometry},
    st.dictionaries(names, st.none() | st.integers() | st.text(max_size=3), max_size=3),
    st.fixed_dictionaries(
        {"type": st.just("Point"), "coordinates": st.lists(st.floats(-180, 180), min_size=2, max_size=3)}
    ),
)


def rows_of(text: str) -> list[dict[str, Any]]:
    document = JsonDocument(text, JsonParser(exact_numbers=True, depth_max=20), file="f")
    return [row_of_feature(value, Place(file="f", line=line)) for value, line, _ in document.features()]


@given(given=st.lists(features, max_size=4), before=st.booleans(), indent=st.none() | st.just(2))
def test_properties_are_columns_and_the_geometry_is_text(given: list[Any], before: bool, indent: int | None) -> None:
    members = [("type", "FeatureCollection"), ("features", given)]
    document = dict((members if before else members[::-1]) + [("bbox", [1, 2])])
    found = rows_of(json.dumps(document, indent=indent))
    assert [{**row, "geometry": json.loads(row["geometry"])} for row in found] == [
        {**feature["properties"], "geometry": feature["geometry"]} for feature in given
    ]


def test_a_geometry_has_the_digits_that_were_written() -> None:
    text = '{"type": "FeatureCollection", "features": [{"type": "Feature", "properties": {}, "geometry": '
    text += '{"type": "Point", "coordinates": [ 1.50, 2.0, -0.10000000000000000001 ]}}]}'
    assert rows_of(text) == [{"geometry": '{"type":"Point","coordinates":[1.50,2.0,-0.10000000000000000001]}'}]


def feature(**members: Any) -> dict[str, Any]:
    return {"type": "Feature", "properties": {}, "geometry": POINT} | members


@pytest.mark.parametrize(
    ("value", "words", "field"),
    [
        (None, "this is null", None),
        (POINT, "this is a Point", None),
        ({"type": "FeatureCollection", "features": []}, "this is a FeatureCollection", None),
        ({"properties": {}}, "no `type`", None),
        ({"type": 5}, "its type is the number 5", None),
        (
            {"type": "Feature", "properties": {}},
            "The geometry of a Feature must be an object or null, but there",
            "geometry",
        ),
        ({"type": "Feature", "geometry": POINT}, "properties of a Feature must be an object or null", "properties"),
        (feature(geometry="POINT (1 2)"), "this is the text 'POINT (1 2)'", "geometry"),
        (feature(properties={"geometry": 1}), "as the column of the geometry is", "properties.geometry"),
    ],
)
def test_what_is_no_feature_is_refused(value: Any, words: str, field: str | None) -> None:
    with pytest.raises(InvalidData) as refused:
        row_of_feature(value, Place(file="f", line=2))
    assert words in refused.value.message
    assert refused.value.place == Place(file="f", line=2, field=field)


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        (json.dumps(feature()), "Expected a FeatureCollection, but this is a Feature", 1),
        ('{"features":\n []}', "but the object has no `type`", None),
        ('{"features": [],\n"type": "Topology"}', "this is a Topology", 2),
        ('{"type": "FeatureCollection"}', "Sub-path not found: features", None),
        ('{"type": "FeatureCollection", "features": {}}', "does not specify an array", None),
        ("[]", "the document is an array", 1),
        ('{"type": "FeatureCollection", "features": []} {}', "more after the end", 1),
        ('{"type": "FeatureCollection", "type": "FeatureCollection", "features": []}', "appears twice", 1),
    ],
)
def test_documents_that_are_no_collection_are_refused(text: str, words: str, line: int | None) -> None:
    with pytest.raises(InvalidData) as refused:
        rows_of(text)
    assert words in refused.value.message
    assert (refused.value.place.file, refused.value.place.line) == ("f", line)


def test_a_document_of_spaces_has_no_rows() -> None:
    assert rows_of(" \n") == []


def test_null_is_a_feature_without_a_place_or_without_properties() -> None:
    place = Place(file="f", line=1)
    assert row_of_feature(feature(geometry=None, properties={"a": 1}), place) == {"a": 1, "geometry": None}
    row = row_of_feature(feature(properties=None), place)
    assert json.loads(str(row.pop("geometry"))) == POINT
    assert not row
