"""GeoJSON features as rows.

Owns what becomes of a feature: a row of its properties, and the column `geometry` with the geometry's text. Invariant: numbers of a
geometry keep the digits with which they were written; a feature without a place has null, and one without properties has nulls. `id`, `bbox` and members that GeoJSON does not define are left out, as in the
reference. Source: RFC 7946, sections 3.2 and 3.3; specification, "Data Ingestion".
"""

from __future__ import annotations

from odfabric.errors import InvalidData, Place
from odfabric_engine_spark.ingest.json.json_values import JsonValue, json_text, kind_of

GEOMETRY = "geometry"
FEATURES = "features"
_FEATURE = "Feature"
_COLLECTION = "FeatureCollection"
_AS_JSON = f"read the file by `kind: Json` with `subPath: {FEATURES}`, and push it as application/json"


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
    for name in ("properties", GEOMETRY):
        member = value.get(name)
        if not isinstance(member, dict) and not (member is None and name in value):
            what = f"this is {kind_of(member)}" if name in value else "there is none"
            raise InvalidData(
                f"The {name} of a Feature must be an object or null, but {what}",
                place=_within(place, name),
                hint=f'write `"{name}": null` where there is none, or {_AS_JSON}',
            )
    properties, geometry = value["properties"] or {}, value[GEOMETRY]
    assert isinstance(properties, dict)
    if GEOMETRY in properties:
        raise InvalidData(
            f"A property is called `{GEOMETRY}`, as the column of the geometry is",
            place=_within(place, f"properties.{GEOMETRY}"),
            hint=f"rename the property, or {_AS_JSON}",
        )
    return {**properties, GEOMETRY: None if geometry is None else json_text(geometry)}


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
