"""The committed JSON Schema validates manifests, as ordinary validators do."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from odfabric.formats.blocks.block_tables import METADATA_EVENT, TABLES, UNIONS
from odfabric.formats.manifests.manifest_events import event_to_value
from odfabric.formats.manifests.manifest_meanings import DEFAULTS, MEANINGS
from odfabric.formats.manifests.manifest_schema import find_flaws, manifest_schema, manifest_schema_text
from odfabric.formats.manifests.manifest_yaml import block_to_manifest, snapshot_to_manifest
from odfabric.model.manifest import DatasetSnapshot
from odfabric.model.metadata import MetadataBlock, MetadataEvent
from odfabric.testing.events import blocks, events, snapshots

COMMITTED = Path(__file__).parents[2] / "docs" / "manifest.schema.json"
ORDINARY = Draft202012Validator(manifest_schema())
ORDINARY_EVENT = Draft202012Validator({**manifest_schema(), "oneOf": [{"$ref": "#/$defs/MetadataEvent"}]})


def test_the_committed_file_is_current() -> None:
    rewrite = "python -m odfabric.formats.manifests.manifest_schema > docs/manifest.schema.json"
    assert COMMITTED.read_text() == manifest_schema_text(), f"write it again: {rewrite}"


def test_it_is_a_schema_of_everything() -> None:
    Draft202012Validator.check_schema(manifest_schema())
    definitions = manifest_schema()["$defs"]
    hidden = {"Manifest", "PrepStepWrapper"}
    assert {table.name for table in TABLES.values()} - hidden <= definitions.keys()
    assert {union.name for union in UNIONS} <= definitions.keys()


@given(blocks())
def test_written_blocks_are_valid_everywhere(block: MetadataBlock) -> None:
    manifest = block_to_manifest(block)
    assert find_flaws(manifest, "MetadataBlockManifest") == []
    assert ORDINARY.is_valid(manifest)


@given(snapshots())
def test_written_snapshots_are_valid_everywhere(snapshot: DatasetSnapshot) -> None:
    manifest = snapshot_to_manifest(snapshot)
    assert find_flaws(manifest, "DatasetSnapshotManifest") == []
    assert ORDINARY.is_valid(manifest)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for step, member in steps for place in places(member, (*path, step)))]


def spoil(value: Any, path: tuple[Any, ...], how: str) -> Any:
    """The value with one change at the path, which may make it invalid."""
    if not path:
        return {"null": None, "text": "x", "number": -1, "list": []}.get(how, {"kind": "Unknown"})
    spoiled = copy.deepcopy(value)
    holder = spoiled
    for step in path[:-1]:
        holder = holder[step]
    last = path[-1]
    match how:
        case "remove":
            del holder[last]
        case "add" if isinstance(holder, dict):
            holder["unknownField"] = 1
        case "lower" if isinstance(holder[last], str):
            holder[last] = holder[last].lower()
        case _:
            holder[last] = spoil(None, (), how)
    return spoiled


@given(events(), st.data())
def test_ordinary_validators_judge_as_ours_does(event: MetadataEvent, data: st.DataObject) -> None:
    value = event_to_value(event)
    path = data.draw(st.sampled_from(places(value)))
    how = data.draw(st.sampled_from(["null", "text", "number", "list", "map", "remove", "add", "lower"]))
    spoiled = spoil(value, path, how)
    assert (find_flaws(spoiled, METADATA_EVENT.name) == []) == ORDINARY_EVENT.is_valid(spoiled)


@pytest.mark.parametrize("number", [1.0, 1e3])
def test_only_ours_refuses_whole_numbers_written_as_fractions(number: float) -> None:
    """JSON Schema has one type of numbers; the reference's reader has not."""
    value = {"kind": "AddData", "prevOffset": number}
    assert ORDINARY_EVENT.is_valid(value)
    [flaw] = find_flaws(value, METADATA_EVENT.name)
    assert flaw.message == f"expected an integer, found the number {number}"


def test_every_member_says_what_it_means() -> None:
    definitions = {
        name: definition["properties"]
        for name, definition in manifest_schema()["$defs"].items()
        if "properties" in definition and not name.endswith("Manifest")
    }
    silent = [
        f"{name}.{member}"
        for name, members in definitions.items()
        for member, schema in members.items()
        if "description" not in schema and not (member == "kind" and "enum" in schema)
    ]
    assert silent == [], "say it in formats/manifests/manifest_meanings.py"
    told = {(name, member) for table in (MEANINGS, DEFAULTS) for name, members in table.items() for member in members}
    assert [one for one in told if one[1] not in definitions.get(one[0], {})] == []
