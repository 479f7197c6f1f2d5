"""Marks of columns that keep JSON as text: where they are, and on what."""

from __future__ import annotations

import pytest

from odfabric.errors import InvalidManifest
from odfabric.formats.json_values.json_columns import json_members
from odfabric.formats.manifests.manifest_events import data_schema_from_value

MARK = {"odfabric.dev/type": {"kind": "Json"}}


def test_columns_and_members_within_anything_are_found() -> None:
    member = {"name": "raw", "type": {"kind": "Option", "inner": "String"}, "extra": {**MARK, "note": "kept"}}
    struct = {"kind": "Struct", "fields": [{"name": "n", "type": "Int64"}, member]}
    fields = [
        {"name": "id", "type": "Int64"},
        {"name": "payload", "type": "String", "extra": MARK},
        {"name": "described", "type": "String", "extra": {"opendatafabric.org/description": "a text"}},
        {"name": "after", "type": {"kind": "Option", "inner": struct}},
        {"name": "items", "type": {"kind": "List", "itemType": struct}},
        {"name": "by_key", "type": {"kind": "Map", "keyType": "String", "valueType": struct}},
    ]
    within = {"raw": None}
    assert json_members(data_schema_from_value({"fields": fields})) == {
        "payload": None,
        "after": within,
        "items": within,
        "by_key": within,
    }


@pytest.mark.parametrize(
    ("kind", "extra", "words"),
    [
        ("Int64", MARK, "is of kind Json and no String"),
        ("String", {"odfabric.dev/type": {"kind": "Xml"}}, "unknown kind"),
        ("String", {"odfabric.dev/type": "Json"}, "unknown kind"),
    ],
)
def test_a_mark_that_means_nothing_is_refused_with_its_place(kind: str, extra: object, words: str) -> None:
    inner = {"kind": "Struct", "fields": [{"name": "b", "type": kind, "extra": extra}]}
    with pytest.raises(InvalidManifest, match=words) as refused:
        json_members(data_schema_from_value({"fields": [{"name": "a", "type": inner}]}))
    assert refused.value.place.field == "a.b"
    assert refused.value.hint
