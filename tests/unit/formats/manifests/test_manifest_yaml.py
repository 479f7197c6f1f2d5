"""Manifests: every rule of form, every error's place, and hostile texts."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import InvalidInput, InvalidManifest, LimitExceeded, OdfError
from odfabric.formats.blocks.block_tables import DATA_TYPE, METADATA_EVENT, UNIONS
from odfabric.formats.manifests.manifest_events import (
    data_schema_from_value,
    event_from_value,
    event_to_value,
    merge_strategy_from_value,
    noun_to_value,
    read_step_from_value,
    transform_from_value,
)
from odfabric.formats.manifests.manifest_schema import find_flaws
from odfabric.formats.manifests.manifest_yaml import (
    MANIFEST_LIMITS,
    BlockManifest,
    block_to_manifest,
    dump_yaml,
    event_to_manifest,
    parse_block_manifests,
    parse_blocks,
    parse_event,
    parse_snapshots,
    snapshot_to_manifest,
)
from odfabric.formats.manifests.yaml_documents import TextLimits
from odfabric.model.data_schema import (
    DataSchema,
    DataTypeDecimal,
    DataTypeList,
    DataTypeOption,
    DataTypeString,
    DataTypeTimestamp,
    DataTypeUInt8,
    ExtraAttributes,
    TimeUnit,
)
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.manifest import DatasetSnapshot
from odfabric.model.metadata import (
    AddData,
    AddPushSource,
    DatasetKind,
    MetadataBlock,
    MetadataEvent,
    SetInfo,
    SetPollingSource,
    SetTransform,
    TransformInput,
    TransformSql,
)
from odfabric.model.source import (
    EventTimeSourceFromMetadata,
    FetchStepUrl,
    MergeStrategyLedger,
    ReadStepNdJson,
    SourceCachingForever,
)
from odfabric.testing.events import blocks, events, snapshots

WEATHER = """\
kind: DatasetSnapshot
version: 1
content:
  name: alice/weather            # account part optional
  kind: Root
  metadata:
  - kind: AddPushSource
    sourceName: default
    read:
      kind: NdJson
      schema:
        fields:
        - name: event_time
          type: Timestamp        # short form
        - name: city
          type: {kind: Option, inner: String}
        - name: temp
          type: {kind: Decimal, precision: 6, scale: 2}
    merge:
      kind: Ledger
      primaryKey: [event_time, city]
  - kind: SetInfo
    description: Demo
    keywords: [weather]
"""


def wrong(text: str, *, file: str | None = "weather.yaml") -> InvalidManifest:
    with pytest.raises(InvalidManifest) as caught:
        parse_snapshots(text, file=file)
    return caught.value


def replaced(old: str, new: str) -> str:
    assert WEATHER.count(old) == 1
    return WEATHER.replace(old, new)


class TestReading:
    def test_the_sample_of_the_specification(self) -> None:
        [snapshot] = parse_snapshots(WEATHER)
        assert (snapshot.name, snapshot.kind) == (DatasetAlias(Name("alice"), Name("weather")), DatasetKind.ROOT)
        source, info = snapshot.metadata
        assert info == SetInfo(description="Demo", keywords=("weather",))
        assert isinstance(source, AddPushSource)
        assert source.merge == MergeStrategyLedger(primary_key=("event_time", "city"))
        assert isinstance(source.read, ReadStepNdJson)
        assert source.read.schema is not None
        assert [field.type for field in source.read.schema.fields] == [
            DataTypeTimestamp(),
            DataTypeOption(inner=DataTypeString()),
            DataTypeDecimal(precision=6, scale=2),
        ]

    def test_several_documents_empty_ones_left_out(self) -> None:
        text = f"---\n{WEATHER}---\n---\n{WEATHER.replace('weather ', 'other   ')}...\n"
        assert [str(snapshot.name) for snapshot in parse_snapshots(text)] == ["alice/weather", "alice/other"]

    def test_json_alone_in_an_array_and_one_after_the_other(self) -> None:
        [snapshot] = parse_snapshots(WEATHER)
        manifest = snapshot_to_manifest(snapshot)
        for text in (json.dumps(manifest), json.dumps([manifest], indent="\t"), json.dumps(manifest) + "\n\n"):
            assert parse_snapshots(text) == [snapshot]
        assert parse_snapshots(f"{json.dumps(manifest)}\n---\n{WEATHER}") == [snapshot, snapshot]
        assert parse_snapshots(f"\ufeff{json.dumps(manifest)}\n{json.dumps(manifest)}") == [snapshot, snapshot]

    @pytest.mark.parametrize("union", UNIONS, ids=lambda union: union.name)
    def test_tags_have_three_spellings(self, union: Any) -> None:
        """Which fields are missing or unknown is another matter: the tag is known or not."""
        for tag in union.tags:
            for spelling in {tag, tag[0].lower() + tag[1:], tag.lower()}:
                assert "variant" not in self.problem(union, spelling)
            for spelling in {tag.upper(), tag[:-1] + tag[-1].upper(), f" {tag}"} - {tag}:
                assert f"unknown variant `{spelling}`" in self.problem(union, spelling)

    def problem(self, union: Any, tag: str) -> str:
        """What is wrong with a value of the union that has nothing but a tag."""
        return " ".join(flaw.message for flaw in find_flaws({"kind": tag}, union.name))

    @pytest.mark.parametrize("spelling", ["UInt8", "uInt8", "uint8"])
    def test_unsigned_types_have_three_spellings(self, spelling: str) -> None:
        schema = data_schema_from_value({"fields": [{"name": "a", "type": {"kind": "list", "itemType": spelling}}]})
        assert schema.fields[0].type == DataTypeList(item_type=DataTypeUInt8())

    def test_enum_values_have_three_spellings(self) -> None:
        for unit in ("Millisecond", "millisecond"):
            schema = data_schema_from_value({"fields": [{"name": "a", "type": {"kind": "Timestamp", "unit": unit}}]})
            assert schema.fields[0].type == DataTypeTimestamp(unit=TimeUnit.MILLISECOND)

    def test_short_forms_of_sources(self) -> None:
        fetch = {"kind": "Url", "url": "http://x", "eventTime": "fromMetadata", "cache": "forever"}
        event = event_from_value(
            {"kind": "SetPollingSource", "fetch": fetch, "read": {"kind": "csv"}, "merge": {"kind": "append"}}
        )
        assert isinstance(event, SetPollingSource)
        assert event.fetch == FetchStepUrl(
            url="http://x", event_time=EventTimeSourceFromMetadata(), cache=SourceCachingForever()
        )

    def test_null_is_absence(self) -> None:
        assert event_from_value({"kind": "SetInfo", "description": None, "keywords": None}) == SetInfo()
        assert event_from_value({"kind": "AddData", "newData": None, "extra": None, "prevOffset": None}) == AddData()

    @pytest.mark.parametrize(
        ("kind", "field"),
        [("AddData", "newWatermark"), ("ExecuteTransform", "newWatermark"), ("SetDataSchema", "rawArrowSchema")],
    )
    def test_two_fields_know_no_null(self, kind: str, field: str) -> None:
        with pytest.raises(InvalidManifest, match="expected a string, found null") as caught:
            event_from_value(
                {"kind": kind, field: None, "queryInputs": []}
                if kind == "ExecuteTransform"
                else {"kind": kind, field: None}
            )
        assert caught.value.place.field == field

    def test_identities_become_canonical_aliases_stay(self) -> None:
        identity = "did:odf:z6MkmgVreHBu2ABaD59Jq1J2JneXwzpsUWwEWXS4kLhjb4V4"
        event = event_from_value(
            {
                "kind": "SetTransform",
                "inputs": [{"datasetRef": identity}, {"datasetRef": "Acme/Foo"}],
                "transform": {"kind": "Sql", "engine": "spark", "query": "select 1"},
            }
        )
        assert isinstance(event, SetTransform)
        first, second = event.inputs
        assert first.dataset_ref.startswith("did:odf:fed01")
        assert second == TransformInput(dataset_ref="Acme/Foo")
        assert event.transform == TransformSql(engine="spark", query="select 1")

    def test_hashes_are_read_in_any_base(self) -> None:
        event = event_from_value(
            {"kind": "AddData", "prevCheckpoint": "zW1a3CNT52HXiJNniLkWMeev3CPRy9QiNRMWGyTrVNg4hY8"}
        )
        written = event_to_value(event)["prevCheckpoint"]
        assert written == "f162008c3792b2a4deed1bd7ea2328fb5de5531eccf0fbfa04a7d800cdc267137c635"

    @pytest.mark.parametrize(
        ("text", "written"),
        [
            ("2020-01-01T12:00:00+02:00", "2020-01-01T10:00:00Z"),
            ("2020-01-01T12:00:00.100Z", "2020-01-01T12:00:00.100Z"),
            ("2020-01-01T12:00:00.1234Z", "2020-01-01T12:00:00.123400Z"),
            ("2020-01-01T12:00:00.000000001Z", "2020-01-01T12:00:00.000000001Z"),
            ("+52020-01-01T00:00:00Z", "+52020-01-01T00:00:00Z"),
        ],
    )
    def test_times_are_written_in_utc_with_the_shortest_exact_fraction(self, text: str, written: str) -> None:
        assert event_to_value(event_from_value({"kind": "AddData", "newWatermark": text}))["newWatermark"] == written

    def test_attributes_are_sorted_and_empty_ones_dropped(self) -> None:
        event = event_from_value({"kind": "AddData", "extra": {"b": [1.5, 1e-05, {"z": 1, "é": None}], "a": "x"}})
        assert event == AddData(extra=ExtraAttributes(entries='{"a":"x","b":[1.5,0.00001,{"z":1,"é":null}]}'))
        assert event_from_value({"kind": "AddData", "extra": {}}) == AddData()

    def test_parts_of_events_are_read_alone(self) -> None:
        assert read_step_from_value({"kind": "ndjson"}) == ReadStepNdJson()
        assert merge_strategy_from_value({"kind": "Ledger", "primaryKey": ["a"]}) == MergeStrategyLedger(
            primary_key=("a",)
        )
        assert transform_from_value({"kind": "Sql", "engine": "spark"}) == TransformSql(engine="spark")
        assert noun_to_value(ReadStepNdJson()) == {"kind": "NdJson"}
        assert data_schema_from_value({"fields": []}) == DataSchema(fields=())


class TestLaws:
    @given(blocks(), st.sampled_from([2, 3]))
    def test_blocks_come_back_from_yaml_and_json(self, block: MetadataBlock, version: int) -> None:
        manifest = block_to_manifest(block, version=version)
        assert parse_block_manifests(dump_yaml(manifest)) == [BlockManifest(version, block)]
        assert parse_blocks(json.dumps(manifest)) == [block]

    @given(events())
    def test_events_come_back(self, event: MetadataEvent) -> None:
        assert event_from_value(event_to_value(event)) == event
        assert parse_event(dump_yaml(event_to_manifest(event))) == event
        assert next(iter(event_to_value(event))) == "kind"

    @given(snapshots(), snapshots())
    def test_snapshots_come_back_in_order(self, one: DatasetSnapshot, other: DatasetSnapshot) -> None:
        text = "---\n".join(dump_yaml(snapshot_to_manifest(snapshot)) for snapshot in (one, other))
        assert parse_snapshots(text) == [one, other]


PLACES = [
    # old, new, line, column, field, message, hint
    (
        "primaryKey:",
        "primarykey:",
        21,
        7,
        "merge.primarykey",
        "unknown field `primarykey`",
        "did you mean `primaryKey`?",
    ),
    ("primaryKey: [event_time, city]", "other: 1", 21, 7, "merge.other", "unknown field `other`", "allowed: `kind`"),
    ("      primaryKey: [event_time, city]\n", "", 20, 7, "merge", "missing field `primaryKey`", None),
    ("[event_time, city]", "city", 21, 19, "merge.primaryKey", "expected a list, found the string 'city'", None),
    (
        "[event_time, city]",
        "[a, 1.0]",
        21,
        23,
        "merge.primaryKey[1]",
        "expected a string, found the number 1.0",
        "quotes",
    ),
    ("[event_time, city]", "[a, true]", 21, 23, "merge.primaryKey[1]", "expected a string, found true", "quotes"),
    ("type: Timestamp ", "type: Timestmp ", 14, 17, "read.schema.fields[0].type", "unknown variant `Timestmp`", None),
    ("type: Timestamp ", "type: Decimal ", 14, 17, "read.schema.fields[0].type", "missing fields `precision`", None),
    ("type: Timestamp ", "type: 5 ", 14, 17, "read.schema.fields[0].type", "expected a map or a string", None),
    ("inner: String", "inner: Strin", 16, 39, "read.schema.fields[1].type.inner", "unknown variant `Strin`", None),
    ("kind: NdJson", "kind: nDjson", 10, 13, "read.kind", "unknown variant `nDjson`, expected one of `Csv`", None),
    ("kind: NdJson", "kind: 7", 10, 13, "read.kind", "expected a string, found the number 7", "quotes"),
    ("kind: NdJson", "type: NdJson", 10, 7, "read", "missing field `kind`", None),
    ("precision: 6", "precision: -6", 18, 44, "read.schema.fields[2].type.precision", "-6 is outside of 0 to", None),
    ("precision: 6", "precision: 6.0", 18, 44, "read.schema.fields[2].type.precision", "expected an integer", None),
    (
        "precision: 6",
        "precision: '6'",
        18,
        44,
        "read.schema.fields[2].type.precision",
        "found the string '6'",
        "quotes",
    ),
    ("precision: 6", "precision: 4294967296", 18, 44, "read.schema.fields[2].type.precision", "is outside of", None),
]


class TestPlaces:
    @pytest.mark.parametrize(("old", "new", "line", "column", "field", "message", "hint"), PLACES)
    def test_of_events(
        self, old: str, new: str, line: int, column: int, field: str, message: str, hint: str | None
    ) -> None:
        error = wrong(replaced(old, new))
        place = error.place
        assert (place.file, place.line, place.column) == ("weather.yaml", line, column)
        assert place.field == f"content.metadata[0].{field}"
        assert message in error.message
        assert hint is None or hint in (error.hint or "")

    @pytest.mark.parametrize(
        ("old", "new", "line", "column", "message"),
        [
            (
                "version: 1",
                "version: 2",
                2,
                10,
                "Unsupported version: manifest has version 2 while maximum supported version is 1",
            ),
            (
                "version: 1",
                "version: 0",
                2,
                10,
                "Obsolete version: manifest has version 0 while minimum supported version is 1",
            ),
            ("version: 1", "version: one", 2, 10, "expected an integer, found the string 'one'"),
            ("version: 1", "version: true", 2, 10, "expected an integer, found true"),
            ("version: 1\n", "", 1, 1, "missing field `version`"),
            (
                "kind: DatasetSnapshot",
                "kind: MetadataEvent",
                1,
                7,
                "expected a manifest of kind `DatasetSnapshot`, found",
            ),
            ("content:", "spec:", 3, 1, "unknown field `spec`"),
            ("kind: Root", "kind: Leaf", 5, 9, "unknown variant `Leaf`, expected one of `Root`, `Derivative`"),
            ("alice/weather ", "alice//weather ", 4, 9, "Value 'alice//weather' is not a valid DatasetAlias"),
            ("name: alice/weather", "name: b\n  name: a", 5, 3, "the key `name` occurs twice, first in line 4"),
            ("Demo", "&a Demo", 23, 18, "anchors and aliases are not supported"),
            ("Demo", "*a", 23, 18, "anchors and aliases are not supported"),
            ("Demo", "!!str Demo", 23, 18, "tags are not supported"),
            ("Demo", "!x", 23, 18, "tags are not supported"),
            ("Demo", ".inf", 23, 18, ".inf is not a number that JSON can hold"),
            ("Demo", "1e999", 23, 18, "1e999 is not a number that JSON can hold"),
            ("Demo", "18446744073709551616", 23, 18, "an integer must be within"),
            ("Demo", '"\\ud800"', 23, 18, "half of a surrogate pair"),
            ("Demo", "a: b", 23, 19, "not YAML: mapping values are not allowed here"),
            ("[weather]", "[weather", 25, 1, "not YAML: expected ',' or ']'"),
            ("    description:", "\tdescription:", 23, 1, "not YAML: found character '\\t'"),
            ("    description:", "    1: x\n    description:", 23, 5, "a key must be a string"),
            ("    description:", "    ? [a]\n    : b\n    description:", 23, 7, "a key must be a string"),
            ("Demo", "\x07", 23, 18, "not YAML: the character U+0007 is not allowed"),
        ],
    )
    def test_of_everything_else(self, old: str, new: str, line: int, column: int, message: str) -> None:
        error = wrong(replaced(old, new))
        assert message in error.message
        assert (error.place.line, error.place.column) == (line, column)

    @pytest.mark.parametrize("directive", ["%YAML 1.1", "%TAG ! tag:example.org,2020:"])
    def test_of_directives(self, directive: str) -> None:
        assert "only the directive %YAML 1.2" in wrong(f"{directive}\n---\n{WEATHER}").message
        assert parse_snapshots(f"%YAML 1.2\n---\n{WEATHER}") == parse_snapshots(WEATHER)

    def test_in_later_documents(self) -> None:
        error = wrong(f"{WEATHER}---\n{replaced('kind: Ledger', 'kind: Ledge')}")
        assert (error.place.line, error.place.column) == (WEATHER.count("\n") + 1 + 20, 13)

    def test_in_json(self) -> None:
        text = json.dumps(snapshot_to_manifest(parse_snapshots(WEATHER)[0]), indent=2)
        error = wrong(text.replace('"Ledger"', '"Ledge"'))
        assert error.place.field == "content.metadata[0].merge.kind"
        line = text.splitlines()[(error.place.line or 0) - 1]
        assert line[(error.place.column or 0) - 1 :] == '"Ledger",'
        error = wrong(text.replace('"sourceName"', '"sourcename"'))
        line = text.splitlines()[(error.place.line or 0) - 1]
        assert line[(error.place.column or 0) - 1 :].startswith('"sourceName"')

    def test_in_arrays_of_manifests(self) -> None:
        manifest = json.dumps(snapshot_to_manifest(parse_snapshots(WEATHER)[0]))
        error = wrong(f"[{manifest},\n {manifest.replace('Ledger', 'Ledge')}]")
        assert (error.place.line, error.place.field) == (2, "[1].content.metadata[0].merge.kind")

    def test_in_json_one_after_the_other(self) -> None:
        manifest = json.dumps(snapshot_to_manifest(parse_snapshots(WEATHER)[0]))
        assert wrong(f"{manifest}\n{manifest}\n{manifest[:-1]}").place.line == 3
        assert wrong(f'{manifest}\n{{"a": 1, "a": 2}}').place.line == 2
        assert wrong(f"{manifest}\n{manifest.replace('Ledger', 'Ledge')}").place.line == 2

    def test_an_unknown_field_comes_before_what_is_missing_because_of_it(self) -> None:
        assert "unknown field `primarykey`" in str(wrong(replaced("primaryKey", "primarykey")))

    @pytest.mark.parametrize("text", ["", "\n", "# nothing", "---\n", "[]", "~"])
    def test_texts_without_a_manifest(self, text: str) -> None:
        assert "holds no manifest" in wrong(text).message

    def test_one_event_and_not_two(self) -> None:
        text = dump_yaml(event_to_manifest(SetInfo()))
        with pytest.raises(InvalidManifest, match="expected one manifest, found 2"):
            parse_event(f"{text}---\n{text}")

    @pytest.mark.parametrize("version", [1, 4])
    def test_versions_of_blocks(self, version: int) -> None:
        text = json.dumps({"kind": "MetadataBlock", "version": version, "content": {}})
        word = "Obsolete" if version < 2 else "Unsupported"
        limit = "minimum supported version is 2" if version < 2 else "maximum supported version is 3"
        with pytest.raises(InvalidManifest, match=f"{word} version: manifest has version {version} while {limit}"):
            parse_blocks(text)


class TestValuesWithoutLines:
    @pytest.mark.parametrize(
        ("value", "message", "field"),
        [
            (None, "expected a map, found null", None),
            ([], "expected a map, found a list", None),
            ({}, "missing field `kind`", None),
            ({"kind": "SetInf"}, "unknown variant `SetInf`", "kind"),
            ({"kind": "SetInfo", "x" * 500: 1}, "unknown field", "x" * 60),
            ({"kind": "AddData", "prevOffset": -1}, "-1 is outside of 0 to 18446744073709551615", "prevOffset"),
            ({"kind": "AddData", "prevOffset": True}, "expected an integer, found true", "prevOffset"),
            ({"kind": "AddData", "prevOffset": 2**64}, "an integer is outside of", None),
            ({"kind": "AddData", "prevCheckpoint": "f1620"}, "is not a valid Multihash", "prevCheckpoint"),
            ({"kind": "AddData", "newWatermark": "2020-01-01"}, "not an RFC 3339 timestamp", "newWatermark"),
            ({"kind": "AddData", "newWatermark": "2020-02-30T00:00:00Z"}, "day is out of range", "newWatermark"),
            ({"kind": "AddData", "extra": []}, "expected a map, found a list", "extra"),
            (
                {"kind": "Seed", "datasetId": "did:key:z6Mk", "datasetKind": "Root"},
                "not a valid DatasetID",
                "datasetId",
            ),
            ({"kind": "SetDataSchema"}, "exactly one of `schema` and `rawArrowSchema`", None),
            ({"kind": "SetDataSchema", "rawArrowSchema": "DAA"}, "not base64 with padding", "rawArrowSchema"),
            ({"kind": "SetDataSchema", "rawArrowSchema": "DA-_"}, "not base64 with padding", "rawArrowSchema"),
            ({"kind": "SetDataSchema", "rawArrowSchema": "DB=="}, "unused bits", "rawArrowSchema"),
            ({"kind": "SetInfo", "description": "\ud800"}, "half of a surrogate pair", "description"),
            ({"kind": "SetInfo", "keywords": ["a", "\ud800"]}, "half of a surrogate pair", "keywords[1]"),
        ],
    )
    def test_errors_name_the_field(self, value: Any, message: str, field: str | None) -> None:
        with pytest.raises(InvalidManifest) as caught:
            event_from_value(value)
        assert message in caught.value.message
        assert caught.value.place.field == field

    def test_columns_of_older_manifests_are_told_where_they_stand_now(self) -> None:
        read = {"kind": "NdJson", "schema": ["id BIGINT"]}
        with pytest.raises(InvalidManifest) as caught:
            event_from_value({"kind": "AddPushSource", "sourceName": "a", "read": read, "merge": {"kind": "Append"}})
        assert caught.value.place.field == "read.schema"
        assert "`ddlSchema`" in (caught.value.hint or "")

    def test_deep_values_are_refused(self) -> None:
        value: Any = "Bool"
        for _ in range(2000):
            value = {"kind": "List", "itemType": value}
        with pytest.raises(InvalidManifest, match="nested deeper than 64"):
            data_schema_from_value({"fields": [{"name": "a", "type": value}]})


HOSTILE = {
    "brackets": "[" * 100_000,
    "braces": '{"a":' * 50_000,
    "dashes": "- " * 100_000,
    "questions": "? " * 100_000,
    "indents": "\n".join(" " * i + "a:" for i in range(1, 1200)),
    "laughs": "a: &a [x]\nb: &b [*a,*a]\nc: [*b,*b]\n",
    "json laughs": "[" + "[]," * 400_000 + "[]]",
    "values": "- a\n" * 200_000,
    "flow values": "[" + "a," * 200_000 + "a]",
    "merge": "<<: {a: 1}",
    "python": "!!python/object/apply:os.system ['true']",
    "directive": "%YAML 1.1\n---\na: 1",
    "tag directive": "%TAG ! tag:x,2000:\n---\na: 1",
    "long integer": "a: " + "1" * 100_000,
    "long json integer": '{"a": ' + "1" * 100_000 + "}",
    "hexadecimal": "a: 0x" + "f" * 100_000,
    "escape": 'a: "\\UFFFFFFFF"',
    "escape of a surrogate": 'a: "\\ud83d"',
    "raw surrogate": "a: \ud83d",
    "nul": "\0",
    "nan": '{"a": NaN}',
    "keys": '{"' + '":1,"'.join(f"k{i}" for i in range(60_000)) + '":1}',
    "many wrong values": '{"kind": "DatasetSnapshot", "version": 1, "content": {"name": "a", "kind": "Root", "metadata": ['
    + "1," * 99_000
    + "1]}}",
}


class TestHostileTexts:
    @pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
    def test_they_are_refused_soon(self, text: str) -> None:
        started = time.monotonic()
        with pytest.raises(OdfError) as caught:
            parse_snapshots(text)
        assert isinstance(caught.value, InvalidInput | LimitExceeded)
        assert time.monotonic() - started < 30

    @given(st.text(max_size=60) | st.text(alphabet="ab:-?[]{},&*!|>'\"%@ \n\t#0.", max_size=60))
    def test_random_texts_are_refused(self, text: str) -> None:
        with pytest.raises((InvalidManifest, LimitExceeded)):
            parse_snapshots(text)

    @given(st.data())
    def test_changed_manifests_are_read_or_refused(self, data: st.DataObject) -> None:
        text = list(WEATHER)
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(text) - 1))
            text[at] = data.draw(st.sampled_from("ab:-?[]{},&*!|>'\"%@ \n\t#0.~\\") | st.characters())
        try:
            snapshots = parse_snapshots("".join(text))
        except (InvalidManifest, LimitExceeded):
            return
        assert parse_snapshots(dump_yaml(snapshot_to_manifest(snapshots[0])))[:1] == snapshots[:1]

    def test_limits_hold_on_both_sides(self) -> None:
        size = len(WEATHER.encode())
        assert parse_snapshots(WEATHER, limits=TextLimits(size, 64, 1000))
        for limits, name in (
            (TextLimits(size - 1, 64, 1000), "manifest_bytes_max"),
            (TextLimits(size, 5, 1000), "manifest_depth_max"),
            (TextLimits(size, 64, 20), "manifest_nodes_max"),
        ):
            with pytest.raises(LimitExceeded) as caught:
                parse_snapshots(WEATHER, limits=limits)
            assert caught.value.limit == name

    def test_the_deepest_manifest_that_is_read_can_be_validated(self) -> None:
        value: Any = "Bool"
        for _ in range(MANIFEST_LIMITS.depth_max - 8):
            value = {"kind": "Option", "inner": value}
        event = {"kind": "SetDataSchema", "schema": {"fields": [{"name": "a", "type": value}]}}
        manifest = json.dumps({"kind": "MetadataEvent", "version": 1, "content": event})
        assert parse_event(manifest)


def test_names_of_events_are_those_of_the_model() -> None:
    assert METADATA_EVENT.tags == tuple(member.__name__ for member in METADATA_EVENT.members)
    assert len(METADATA_EVENT.tags) == 13
    assert len(DATA_TYPE.tags) == 24
