"""GeoJSON features as rows.

Owns what becomes of a feature: a row of its properties, and the column `geometry` with the geometry's text. Invariant: numbers of a
geometry keep the digits with which they were written. `id`, `bbox` and members that GeoJSON does not define are left out, as in the
reference. Source: RFC 7946, sections 3.2 and 3.3; specification facts, "Ingestion" 5.
"""

from __future__ import annotations

from odfabric.errors import InvalidData, Place
from odfabric_engine_spark.read.json_values import JsonValue, json_text, kind_of

GEOMETRY = "geometry"
FEATURES = "features"
_FEATURE = "Feature"
_COLLECTION = "FeatureCollection"


def row_of_feature(value: JsonValue, place: Place) -> dict[str, JsonValue]:
    """Properties and geometry of a feature. Raises InvalidData."""
    if not isinstance(value, dict):
        raise InvalidData(f"A Feature must be an object, but this is {kind_of(value)}", place=place)
    if value.get("type") != _FEATURE:
        raise InvalidData(
            f"Expected a {_FEATURE}, but {_type_of(value)}",
            place=place,
            hint="a FeatureCollection is read by `kind: GeoJson`, application/geo+json; features, one a line,"
            " by `kind: NdGeoJson`, application/x-ndgeojson",
        )
    properties, geometry = (value.get(name) for name in ("properties", GEOMETRY))
    for name, member in (("properties", properties), (GEOMETRY, geometry)):
        if not isinstance(member, dict):
            raise InvalidData(
                f"The {name} of a Feature must be an object, but this is {kind_of(member)}",
                place=_within(place, name),
                hint=f"leave out features without {name}, or read the file by `kind: Json` with `subPath: {FEATURES}`",
            )
    assert isinstance(properties, dict)
    if GEOMETRY in properties:
        raise InvalidData(
            f"A property is called `{GEOMETRY}`, as the column of the geometry is",
            place=_within(place, f"properties.{GEOMETRY}"),
            hint=f"rename the property, or read the file by `kind: Json` with `subPath: {FEATURES}`",
        )
    return {**properties, GEOMETRY: json_text(geometry)}


def check_collection(kind: JsonValue, *, has_type: bool, place: Place) -> None:
    """Raises InvalidData for a document whose `type` is not FeatureCollection."""
    if kind != _COLLECTION:
        raise InvalidData(
            f"Expected a {_COLLECTION}, but {_type_of({'type': kind} if has_type else {})}",
            place=place,
            hint="features, one a line, are read by `kind: NdGeoJson`, application/x-ndgeojson; other documents by `kind: Json`",
        )


def _type_of(value: dict[str, JsonValue]) -> str:
    if "type" not in value:
        return "the object has no `type`"
    kind = value["type"]
    return f"this is a {kind[:40]}" if isinstance(kind, str) else f"its type is {kind_of(kind)}"


def _within(place: Place, field: str) -> Place:
    return Place(file=place.file, line=place.line, field=field)
