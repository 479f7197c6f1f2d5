"""Choosing a source, and what a finished ingest commits."""

from __future__ import annotations

import codecs
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.chain.append import link_blocks
from odfabric.domain.chain.block_attributes import as_extra, attributes_of
from odfabric.domain.chain.state import ChainState
from odfabric.domain.ingestion.idempotency import (
    ATTRIBUTE,
    STATE_KIND,
    IdempotencyEntry,
    entries_digest,
    idempotency_key_hash,
    idempotency_records,
    sealed_attributes,
    sealed_state,
)
from odfabric.domain.ingestion.ingest_plan import (
    auto_push_source,
    plan_add_data,
    polling_source,
    push_source,
)
from odfabric.domain.ingestion.media_types import MEDIA_TYPES, best_effort_read_step, read_step_for
from odfabric.domain.ingestion.renamed_columns import ATTRIBUTE as RENAMED_ATTRIBUTE
from odfabric.domain.ingestion.renamed_columns import renamed_columns
from odfabric.domain.ingestion.watermark import ingest_watermark, transform_watermark
from odfabric.errors import IncompatibleSchema, SourceNotFound, UnsupportedMediaType
from odfabric.model.commit import IdempotencyRecord
from odfabric.model.data_schema import ExtraAttributes
from odfabric.model.engine import RenamedColumn
from odfabric.model.instant import Instant
from odfabric.model.metadata import AddData, DatasetKind, MetadataBlock, SetDataSchema, SetInfo, SourceState
from odfabric.model.source import (
    MergeStrategyAppend,
    ReadStep,
    ReadStepCsv,
    ReadStepEsriShapefile,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
    ReadStepParquet,
)
from odfabric.testing.chains import (
    START,
    ChainBuilder,
    example_checkpoint,
    example_polling_source,
    example_push_source,
    example_schema,
    example_slice,
    physical_hash,
    random_chain,
)

NOON = Instant.parse("2024-01-01T12:00:00Z")
LATER = Instant.parse("2024-01-01T13:00:00Z")
ETAG = SourceState(source_name="default", kind="odf/etag", value="one")
KEY = IdempotencyEntry(b"k" * 32, b"b" * 32)
OTHER_KEY = IdempotencyEntry(b"K" * 32, b"B" * 32)


def with_sources(*names: str) -> ChainState:
    chain = ChainBuilder()
    for name in names:
        chain.append(example_push_source(name))
    return chain.state


def polled() -> ChainBuilder:
    chain = ChainBuilder()
    chain.append(example_polling_source())
    return chain


def with_data(**members: object) -> ChainBuilder:
    """A root dataset of ten records with watermark noon, checkpoint and source state."""
    chain = ChainBuilder()
    chain.append(SetDataSchema(schema=example_schema()))
    said = {"new_watermark": NOON, "new_checkpoint": example_checkpoint("one"), "new_source_state": ETAG}
    chain.append(chain.next_add_data(10, **{**said, **members}))
    return chain


# --- sources ----------------------------------------------------------------------------------------------------------


def test_a_single_push_source_needs_no_name() -> None:
    assert push_source(with_sources("north"), None) == example_push_source("north")


def test_a_named_push_source_is_found_in_its_newest_definition() -> None:
    chain = ChainBuilder()
    chain.extend(
        [example_push_source("north"), example_push_source("south"), example_push_source("north", header=False)]
    )
    assert push_source(chain.state, "north") == example_push_source("north", header=False)


@pytest.mark.parametrize(
    ("state", "name", "text", "hint"),
    [
        (with_sources(), None, "The dataset has no push source", "add an AddPushSource event"),
        (with_sources(), "north", "Source 'north' not found", "the dataset has no push source"),
        (with_sources("south"), "north", "Source 'north' not found", "the dataset has: south"),
        (
            with_sources("north", "south"),
            None,
            "Explicit source name is required to pick between several active push sources",
            "name one of: north, south",
        ),
        (
            polled().state,
            "north",
            "Expected a named push source, but found polling source",
            "fetches its data by itself",
        ),
        (polled().state, None, "Expected a named push source, but found polling source", "fetches its data by itself"),
    ],
)
def test_a_push_that_no_single_source_fits_is_refused(
    state: ChainState, name: str | None, text: str, hint: str
) -> None:
    with pytest.raises(SourceNotFound) as refusal:
        push_source(state, name)
    assert refusal.value.message == text
    assert hint in (refusal.value.hint or "")


def test_a_dataset_without_a_polling_source_has_none() -> None:
    assert polling_source(with_sources("north")) is None
    assert polling_source(polled().state) == example_polling_source()


def test_a_source_made_for_a_file_appends_what_it_can_infer() -> None:
    source = auto_push_source("text/csv")
    assert (source.source_name, source.merge) == ("auto", MergeStrategyAppend())
    assert source.read == ReadStepCsv(header=True, infer_schema=True)
    assert auto_push_source("application/x-ndjson").read == ReadStepNdJson()


# --- media types ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("media_type", "reader"),
    [
        ("text/csv", ReadStepCsv),
        ("application/json", ReadStepJson),
        ("application/x-ndjson", ReadStepNdJson),
        ("application/geo+json", ReadStepGeoJson),
        ("application/x-ndgeojson", ReadStepNdGeoJson),
        ("application/vnd.apache.parquet", ReadStepParquet),
        ("application/vnd.shp", ReadStepEsriShapefile),
        ("x-gis/x-shapefile", ReadStepEsriShapefile),
        ("Text/CSV; charset=utf-8", ReadStepCsv),
        ('text/csv ;charset="UTF-8"', ReadStepCsv),
        ("text/csv;charset=us-ascii;header=present", ReadStepCsv),
    ],
)
def test_a_media_type_names_a_reader(media_type: str, reader: type[ReadStep]) -> None:
    assert isinstance(best_effort_read_step(media_type), reader)


@pytest.mark.parametrize(
    ("media_type", "text"),
    [
        ("text/plain", "Unsupported media type: 'text/plain'"),
        ("", "Unsupported media type: ''"),
        ("text/csv; charset=klingon", "Unsupported charset: 'klingon'"),
        ("application/json;CHARSET=", "Unsupported charset: ''"),
        ("text/csv; charset=utf-8; charset=latin1", "The media type names two charsets"),
        (
            "application/geo+json; charset=utf-16",
            "The charset `utf-16` of the media type is not UTF-8, which it must be",
        ),
    ],
)
def test_other_media_types_and_charsets_are_refused(media_type: str, text: str) -> None:
    with pytest.raises(UnsupportedMediaType) as refusal:
        read_step_for(ReadStepCsv(), media_type)
    assert refusal.value.message == text
    assert refusal.value.hint


_STEPS = {"text/csv": ReadStepCsv, "application/json": ReadStepJson, "application/x-ndjson": ReadStepNdJson}


@pytest.mark.parametrize("media_type", list(_STEPS))
@pytest.mark.parametrize("own", [None, "utf8", "windows-1252", "utf-16", "iso-8859-1"])
@pytest.mark.parametrize("sent", ["UTF-8", "Windows-1252", "us-ascii", "utf-16", "latin1"])
def test_the_charset_is_the_encoding_of_the_source_or_refused(media_type: str, own: str | None, sent: str) -> None:
    step, sent_name = _STEPS[media_type](encoding=own), codecs.lookup(sent).name
    is_same = sent_name == codecs.lookup(own or "utf-8").name
    if is_same or (sent == "us-ascii" and own != "utf-16"):
        assert read_step_for(step, f"{media_type}; charset={sent}") == step
    elif own is None:
        assert read_step_for(step, f"{media_type}; charset={sent}") == _STEPS[media_type](encoding=sent_name)
    else:
        with pytest.raises(UnsupportedMediaType) as refusal:
            read_step_for(step, f"{media_type}; charset={sent}")
        assert sent_name in refusal.value.message
        assert f"`{own}`, the encoding of the source" in refusal.value.message
        assert "encoding" in str(refusal.value.hint)


def test_the_charset_of_another_format_is_its_own() -> None:
    declared = ReadStepNdJson(encoding="utf-16")
    assert read_step_for(declared, "text/csv; charset=windows-1252") == ReadStepCsv(header=True, encoding="cp1252")
    assert best_effort_read_step("application/json; charset=utf-16") == ReadStepJson(encoding="utf-16")
    assert read_step_for(ReadStepParquet(), "application/vnd.apache.parquet; charset=latin1") == ReadStepParquet()


def test_all_supported_media_types_are_listed() -> None:
    with pytest.raises(UnsupportedMediaType) as refusal:
        best_effort_read_step("text/plain")
    assert all(media_type in (refusal.value.hint or "") for media_type in MEDIA_TYPES)


def test_the_sources_own_reader_keeps_its_options() -> None:
    declared = ReadStepCsv(separator=";", header=True)
    assert read_step_for(declared, "text/csv; charset=utf-8") == declared
    assert read_step_for(declared, None) == declared


def test_another_format_is_read_with_the_schema_alone() -> None:
    schema = example_schema()
    declared = ReadStepNdJson(schema=schema, date_format="x")
    assert read_step_for(declared, "application/json") == ReadStepJson(schema=schema)
    assert read_step_for(declared, "text/csv") == ReadStepCsv(schema=schema, header=False)
    assert read_step_for(ReadStepNdJson(), "text/csv") == ReadStepCsv(header=True)
    ddl = ReadStepNdJson(ddl_schema=("city STRING",))
    assert read_step_for(ddl, "text/csv") == ReadStepCsv(ddl_schema=("city STRING",), header=False)


# --- watermarks -------------------------------------------------------------------------------------------------------

INSTANTS = st.integers(min_value=0, max_value=100).map(Instant)
MAYBE = st.none() | INSTANTS


@given(MAYBE, MAYBE, MAYBE)
def test_a_watermark_never_goes_back_and_never_disappears(
    previous: Instant | None, found: Instant | None, explicit: Instant | None
) -> None:
    for result in (
        ingest_watermark(previous, max_event_time=found, explicit=explicit),
        transform_watermark(previous, computed=found),
    ):
        assert previous is None or (result is not None and result >= previous)


def test_an_explicit_watermark_beats_event_times() -> None:
    assert ingest_watermark(None, max_event_time=LATER, explicit=NOON) == NOON
    assert ingest_watermark(START, max_event_time=NOON) == NOON
    assert ingest_watermark(NOON, max_event_time=None) == NOON


# --- events of an ingest ----------------------------------------------------------------------------------------------


def test_the_first_data_comes_with_its_schema() -> None:
    events = plan_add_data(
        ChainBuilder().state, data_schema=example_schema(), new_data=example_slice(0, 3), max_event_time=NOON
    )
    assert events == [
        SetDataSchema(schema=example_schema()),
        AddData(new_data=example_slice(0, 3), new_watermark=NOON),
    ]


def test_later_data_repeats_what_is_still_relevant() -> None:
    chain = with_data()
    (event,) = plan_add_data(
        chain.state, data_schema=example_schema(), new_data=example_slice(10, 1), max_event_time=START
    )
    assert event == AddData(
        prev_checkpoint=example_checkpoint("one").physical_hash,
        prev_offset=9,
        new_data=example_slice(10, 1),
        new_checkpoint=example_checkpoint("one"),
        new_watermark=NOON,
        new_source_state=ETAG,
    )


def test_a_watermark_alone_keeps_the_source_state() -> None:
    chain = with_data()
    (event,) = plan_add_data(
        chain.state, data_schema=None, new_data=None, max_event_time=None, explicit_watermark=LATER
    )
    assert isinstance(event, AddData)
    assert (event.new_watermark, event.new_source_state, event.prev_offset) == (LATER, ETAG, 9)


def test_a_new_source_state_alone_is_recorded() -> None:
    two = replace(ETAG, value="two")
    (event,) = plan_add_data(with_data().state, data_schema=None, new_data=None, max_event_time=None, source_state=two)
    assert isinstance(event, AddData)
    assert event.new_source_state == two


@pytest.mark.parametrize("explicit", [None, NOON, START])
def test_nothing_new_makes_no_event(explicit: Instant | None) -> None:
    assert (
        plan_add_data(
            with_data().state,
            data_schema=example_schema(),
            new_data=None,
            max_event_time=None,
            explicit_watermark=explicit,
            source_state=ETAG,
        )
        == []
    )


def test_an_empty_first_result_still_sets_the_schema() -> None:
    events = plan_add_data(ChainBuilder().state, data_schema=example_schema(), new_data=None, max_event_time=None)
    assert events == [SetDataSchema(schema=example_schema())]


def test_data_of_another_schema_is_refused() -> None:
    other = replace(example_schema(), fields=example_schema().fields[:-1])
    with pytest.raises(IncompatibleSchema) as refusal:
        plan_add_data(with_data().state, data_schema=other, new_data=example_slice(10, 1), max_event_time=NOON)
    assert refusal.value.place.field == "city"


def test_a_keyed_push_without_rows_makes_a_block() -> None:
    chain = with_data()
    (event,) = plan_add_data(
        chain.state, data_schema=None, new_data=None, max_event_time=None, source_name="north", idempotency=[KEY]
    )
    assert isinstance(event, AddData)
    assert event.new_source_state == SourceState(
        source_name="north", kind="odfabric/idempotency", value=str(entries_digest([KEY]))
    )
    assert event.extra == ExtraAttributes(
        entries='{"odfabric.dev/idempotency":[{"body":"' + "62" * 32 + '","key":"' + "6b" * 32 + '"}]}'
    )


def test_a_keyed_push_to_an_empty_dataset_makes_a_block() -> None:
    chain = ChainBuilder()
    events = plan_add_data(chain.state, data_schema=None, new_data=None, max_event_time=None, idempotency=[KEY])
    (block,) = link_blocks(chain.state, events, system_time=LATER)
    assert idempotency_records(block.hash, block.block) == (IdempotencyRecord(b"k" * 32, b"b" * 32, block.hash),)


def test_a_keyless_push_repeats_the_seal_but_not_the_keys() -> None:
    chain = with_data()
    for keys in ([KEY], []):
        chain.extend(
            plan_add_data(
                chain.state,
                data_schema=example_schema(),
                new_data=example_slice(chain.state.next_offset, 1),
                max_event_time=NOON,
                idempotency=keys,
            )
        )
    keyed, keyless = chain.blocks[-2], chain.blocks[-1]
    assert isinstance(keyless.block.event, AddData)
    assert keyless.block.event.new_source_state == sealed_state([KEY], source_name="default")
    assert len(idempotency_records(keyed.hash, keyed.block)) == 1
    assert idempotency_records(keyless.hash, keyless.block) == ()


RENAMED = st.builds(RenamedColumn, name=st.text(max_size=5), stored_as=st.text(max_size=5))


@given(st.randoms(use_true_random=False), st.integers(min_value=1, max_value=15), st.data())
def test_whatever_is_planned_the_chain_admits(chance: Random, blocks: int, data: st.DataObject) -> None:
    chain = random_chain(chance, kind=DatasetKind.ROOT, blocks=blocks)
    schema = chain.state.schema.event.schema if chain.state.schema else example_schema()
    rows = data.draw(st.integers(min_value=0, max_value=2))
    keys = data.draw(st.lists(st.binary(min_size=32, max_size=32), max_size=2, unique=True))
    entries = [IdempotencyEntry(key, key) for key in keys]
    renamed = data.draw(st.lists(RENAMED, max_size=2).map(tuple))
    events = plan_add_data(
        chain.state,
        data_schema=schema,
        new_data=example_slice(chain.state.next_offset, rows) if rows else None,
        max_event_time=data.draw(st.none() | st.sampled_from([START, NOON])),
        explicit_watermark=data.draw(st.none() | st.sampled_from([START, LATER])),
        source_state=data.draw(st.none() | st.just(ETAG)),
        idempotency=entries,
        renamed=renamed,
    )
    before = len(chain.blocks)
    chain.extend(events)
    sealed = [
        record for encoded in chain.blocks[before:] for record in idempotency_records(encoded.hash, encoded.block)
    ]
    assert [record.key_hash for record in sealed] == keys
    told = [event.extra for event in events if isinstance(event, AddData)]
    assert [renamed_columns(attributes_of(extra)) for extra in told] == [renamed] * len(told)
    again = plan_add_data(chain.state, data_schema=schema, new_data=None, max_event_time=None)
    assert again == []


@pytest.mark.parametrize(
    "entries",
    [
        "",
        "no JSON",
        "[" * 5000,
        "7",
        "{}",
        f'{{"{RENAMED_ATTRIBUTE}":7}}',
        f'{{"{RENAMED_ATTRIBUTE}":[7]}}',
        f'{{"{RENAMED_ATTRIBUTE}":[{{"from":"a"}}]}}',
        f'{{"{RENAMED_ATTRIBUTE}":[{{"from":"a","to":"b"}},{{"from":1,"to":"b"}}]}}',
    ],
)
def test_renamed_columns_of_another_form_say_nothing(entries: str) -> None:
    assert renamed_columns(attributes_of(ExtraAttributes(entries=entries))) == ()
    assert renamed_columns(attributes_of(None)) == ()


# --- idempotency ------------------------------------------------------------------------------------------------------


def test_key_hashes_tell_all_three_parts_apart() -> None:
    parts = [("a", "b", "c"), ("ab", "", "c"), ("", "ab", "c"), ("a", "bc", ""), ("A", "b", "c"), ("abc", "", "")]
    hashes = {idempotency_key_hash(account=account, route=route, key=key) for account, route, key in parts}
    assert len(hashes) == len(parts)
    assert idempotency_key_hash(account="local", route="/local/flights/ingest", key="k1").hex() == (
        "fcfd0b0c53b1393fbcfd878cd1fa5aa9a4fe17b480704f598605466232ddfe86"
    )


@given(st.text(), st.text(), st.text(), st.text(), st.text(), st.text())
def test_key_hashes_are_equal_only_for_equal_parts(a: str, b: str, c: str, d: str, e: str, f: str) -> None:
    one = idempotency_key_hash(account=a, route=b, key=c)
    other = idempotency_key_hash(account=d, route=e, key=f)
    assert (one == other) == ((a, b, c) == (d, e, f))


def test_digests_have_one_length() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        IdempotencyEntry(b"short", b"b" * 32)


def block_of(event: AddData | SetInfo) -> MetadataBlock:
    return MetadataBlock(system_time=START, sequence_number=5, prev_block_hash=physical_hash("x"), event=event)


def sealed(*entries: IdempotencyEntry) -> AddData:
    return AddData(
        new_source_state=sealed_state(entries, source_name="default"),
        extra=as_extra(sealed_attributes(entries)),
        new_watermark=NOON,
    )


def test_records_come_back_in_order() -> None:
    name = physical_hash("block")
    assert idempotency_records(name, block_of(sealed(OTHER_KEY, KEY))) == (
        IdempotencyRecord(OTHER_KEY.key_hash, OTHER_KEY.body_digest, name),
        IdempotencyRecord(KEY.key_hash, KEY.body_digest, name),
    )


@pytest.mark.parametrize(
    "event",
    [
        SetInfo(),
        AddData(new_watermark=NOON),
        replace(sealed(KEY), extra=None),
        replace(sealed(KEY), extra=as_extra(sealed_attributes([OTHER_KEY]))),
        replace(sealed(KEY), extra=as_extra({ATTRIBUTE: []})),
        replace(sealed(KEY), new_source_state=None),
        replace(sealed(KEY), new_source_state=replace(sealed_state([KEY], source_name="x"), kind="odf/etag")),
        *(
            replace(sealed(KEY), extra=ExtraAttributes(entries=text))
            for text in (
                "{}",
                "[]",
                "not json",
                "[" * 100_000,
                f'{{"{ATTRIBUTE}":7}}',
                f'{{"{ATTRIBUTE}":[7]}}',
                f'{{"{ATTRIBUTE}":[{{"key":"6b","body":"62"}}]}}',
                f'{{"{ATTRIBUTE}":[{{"key":"{"6B" * 32}","body":"{"62" * 32}"}}]}}',
            )
        ),
    ],
)
def test_a_list_that_is_not_sealed_counts_as_none(event: AddData | SetInfo) -> None:
    assert idempotency_records(physical_hash("block"), block_of(event)) == ()


def test_the_seal_has_its_own_kind() -> None:
    assert sealed_state([KEY], source_name="default").kind == STATE_KIND == "odfabric/idempotency"
