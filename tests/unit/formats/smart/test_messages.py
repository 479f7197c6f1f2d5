"""Messages of the Smart protocol: literal texts, a round-trip law, evil texts.

The literal texts are those of the facts page; the law is of writing and reading.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import InvalidRequest
from odfabric.formats.smart.close_reason import REASON_BYTES_MAX, close_reason
from odfabric.formats.smart.pull_messages import (
    read_blocks_wanted,
    read_downloads,
    read_objects_wanted,
    read_pull_begin,
    read_pull_plan,
    read_pulled_blocks,
    write_blocks_wanted,
    write_downloads,
    write_objects_wanted,
    write_pull_begin,
    write_pull_plan,
    write_pulled_blocks,
)
from odfabric.formats.smart.push_messages import (
    read_empty,
    read_progress,
    read_push_accepted,
    read_push_begin,
    read_push_objects,
    read_pushed_blocks,
    read_uploads,
    write_nothing,
    write_progress,
    write_push_accepted,
    write_push_begin,
    write_push_objects,
    write_pushed_blocks,
    write_uploads,
)
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash, sha3_256_multihash
from odfabric.model.people.account import Visibility
from odfabric.model.transfer.smart import (
    BlocksBatch,
    InternalFailure,
    InvalidHead,
    InvalidInterval,
    NameCollision,
    ObjectDownload,
    ObjectFile,
    ObjectKind,
    ObjectUpload,
    ObjectUrl,
    Phase,
    PullBegin,
    PushBegin,
    PushObjects,
    RefCollision,
    Refusal,
    SeedOverwriteRestricted,
    TransferPlan,
    UploadProgress,
)

A, B = sha3_256_multihash(b"a" * 32), sha3_256_multihash(b"b" * 32)
DATASET = DatasetId(b"k" * 32)
PLAN = TransferPlan(num_blocks=5, num_objects=3, num_records=30, bytes_in_raw_blocks=1500, bytes_in_raw_objects=9000)
PLAN_TEXT = '{"num_blocks":5,"num_objects":3,"num_records":30,"bytes_in_raw_blocks":1500,"bytes_in_raw_objects":9000}'
SLICE = ObjectFile(ObjectKind.DATA_SLICE, A, 123)
POINT = ObjectFile(ObjectKind.CHECKPOINT, B, 5)
SLICE_TEXT = f'{{"object_type":"DataSlice","physical_hash":"{A}","size":123}}'
POINT_TEXT = f'{{"object_type":"Checkpoint","physical_hash":"{B}","size":5}}'
URL = ObjectUrl(
    url="https://node.example/x",
    headers=(("x-odf-smtp-version", "1"),),
    expires_at=Instant.parse("2026-01-01T00:00:00Z"),
)
URL_TEXT = (
    '{"url":"https://node.example/x","headers":[{"name":"x-odf-smtp-version","value":"1"}],'
    '"expires_at":"2026-01-01T00:00:00Z"}'
)
BATCH_TEXT = '{"num_blocks":5,"media_type":"application/tar+gzip","encoding":"raw","payload":[31,139,8]}'
BATCH = BlocksBatch(5, bytes([31, 139, 8]))

VECTORS: list[tuple[str, Callable[..., str], Callable[[str], object], object, str]] = [
    (
        "pull-begin",
        write_pull_begin,
        read_pull_begin,
        PullBegin(begin_after=A),
        f'{{"begin_after":"{A}","stop_at":null,"force_update_if_diverged":false}}',
    ),
    ("pull-plan", write_pull_plan, read_pull_plan, PLAN, f'{{"Ok":{{"transfer_plan":{PLAN_TEXT}}}}}'),
    (
        "pull-interval",
        write_pull_plan,
        read_pull_plan,
        InvalidInterval(A, B),
        f'{{"Err":{{"InvalidInterval":{{"head":"{A}","tail":"{B}"}}}}}}',
    ),
    (
        "pull-internal",
        write_pull_plan,
        read_pull_plan,
        InternalFailure(Phase.PULL_INITIAL, "no"),
        '{"Err":{"Internal":{"phase":{"Pull":"InitialRequest"},"error_message":"no"}}}',
    ),
    (
        "pull-seed",
        write_pull_plan,
        read_pull_plan,
        SeedOverwriteRestricted(),
        '{"Err":{"SeedBlockOverwriteRestricted":{}}}',
    ),
    ("pull-blocks", write_pulled_blocks, read_pulled_blocks, BATCH, f'{{"blocks":{BATCH_TEXT}}}'),
    (
        "pull-objects",
        write_objects_wanted,
        read_objects_wanted,
        (SLICE, POINT),
        f'{{"object_files":[{SLICE_TEXT},{POINT_TEXT}]}}',
    ),
    (
        "pull-downloads",
        write_downloads,
        read_downloads,
        (ObjectDownload(SLICE, URL),),
        f'{{"object_transfer_strategies":[{{"object_file":{SLICE_TEXT},"pull_strategy":"HttpDownload",'
        f'"download_from":{URL_TEXT}}}]}}',
    ),
    (
        "push-begin",
        write_push_begin,
        read_push_begin,
        PushBegin(current_head=None, plan=PLAN, visibility=Visibility.PUBLIC),
        f'{{"current_head":null,"transfer_plan":{PLAN_TEXT},"force_update_if_diverged":false,'
        '"visibility_for_created_dataset":"Public"}',
    ),
    ("push-accepted", write_push_accepted, read_push_accepted, None, '{"Ok":{}}'),
    (
        "push-head",
        write_push_accepted,
        read_push_accepted,
        InvalidHead(said=A, servers=B),
        f'{{"Err":{{"InvalidHead":{{"actual_head":"{A}","expected_head":"{B}"}}}}}}',
    ),
    ("push-blocks", write_pushed_blocks, read_pushed_blocks, BATCH, f'{{"new_blocks":{BATCH_TEXT}}}'),
    (
        "push-objects",
        write_push_objects,
        read_push_objects,
        PushObjects((SLICE,), is_truncated=True),
        f'{{"object_files":[{SLICE_TEXT}],"is_truncated":true}}',
    ),
    (
        "push-uploads",
        write_uploads,
        read_uploads,
        (ObjectUpload(SLICE, None), ObjectUpload(POINT, URL)),
        f'{{"Ok":{{"object_transfer_strategies":[{{"object_file":{SLICE_TEXT},"push_strategy":"SkipUpload",'
        f'"upload_to":null}},{{"object_file":{POINT_TEXT},"push_strategy":"HttpUpload","upload_to":{URL_TEXT}}}]}}}}',
    ),
    (
        "push-ref",
        write_uploads,
        read_uploads,
        RefCollision(DATASET),
        f'{{"Err":{{"RefCollision":{{"dataset_id":"{DATASET}"}}}}}}',
    ),
    (
        "push-name",
        write_uploads,
        read_uploads,
        NameCollision("a/b"),
        '{"Err":{"NameCollision":{"dataset_alias":"a/b"}}}',
    ),
    (
        "push-running",
        write_progress,
        read_progress,
        UploadProgress(2),
        '{"details":{"Running":{"uploaded_objects_count":2}}}',
    ),
    ("push-complete", write_progress, read_progress, UploadProgress(None), '{"details":"Complete"}'),
    (
        "push-failed",
        write_push_accepted,
        read_push_accepted,
        InternalFailure(Phase.PUSH_COMPLETE, "Internal error"),
        '{"Err":{"Internal":{"phase":{"Push":"CompleteRequest"},"error_message":"Internal error"}}}',
    ),
]


@pytest.mark.parametrize(
    ("write", "read", "value", "text"), [each[1:] for each in VECTORS], ids=[v[0] for v in VECTORS]
)
def test_texts_of_the_protocol(
    write: Callable[[object], str], read: Callable[[str], object], value: object, text: str
) -> None:
    assert write(value) == text
    assert read(text) == value


def test_empty_messages() -> None:
    assert write_blocks_wanted() == write_nothing() == "{}"
    read_blocks_wanted("{}")
    read_empty('{"of_a_newer_version":1}')


@pytest.mark.parametrize("text", ["Private", "private"])
def test_visibility_in_either_case(text: str) -> None:
    sent = write_push_begin(PushBegin(current_head=None, plan=PLAN)).replace("Private", text)
    assert read_push_begin(sent).visibility is Visibility.PRIVATE


hashes = st.binary(min_size=32, max_size=32).map(sha3_256_multihash)
numbers = st.integers(0, 2**63 - 1)
plans = st.builds(
    TransferPlan,
    num_blocks=numbers,
    num_objects=numbers,
    num_records=numbers,
    bytes_in_raw_blocks=numbers,
    bytes_in_raw_objects=numbers,
)
files = st.builds(ObjectFile, st.sampled_from(ObjectKind), hashes, numbers)
urls = st.builds(
    ObjectUrl,
    url=st.text(max_size=50),
    headers=st.lists(st.tuples(st.text(max_size=20), st.text(max_size=20)), max_size=3).map(tuple),
    expires_at=st.none() | st.integers(0, 10**10).map(lambda second: Instant(second * 10**9)),
)
refusals: st.SearchStrategy[Refusal] = st.one_of(
    st.builds(InvalidInterval, hashes, hashes),
    st.builds(InvalidHead, said=st.none() | hashes, servers=st.none() | hashes),
    st.builds(RefCollision, st.binary(min_size=32, max_size=32).map(DatasetId)),
    st.builds(NameCollision, st.text(max_size=300)),
    st.just(SeedOverwriteRestricted()),
    st.builds(InternalFailure, st.sampled_from(Phase), st.text(max_size=300)),
)
batches = st.builds(BlocksBatch, numbers, st.binary(max_size=100))


@given(
    begin=st.builds(PullBegin, begin_after=st.none() | hashes, stop_at=st.none() | hashes, force=st.booleans()),
    plan=plans | refusals,
    batch=batches,
    wanted=st.lists(files, max_size=3).map(tuple),
    downloads=st.lists(st.builds(ObjectDownload, files, urls), max_size=3).map(tuple),
)
def test_what_is_written_for_a_pull_is_read(
    begin: PullBegin,
    plan: TransferPlan | Refusal,
    batch: BlocksBatch,
    wanted: tuple[ObjectFile, ...],
    downloads: tuple[ObjectDownload, ...],
) -> None:
    assert read_pull_begin(write_pull_begin(begin)) == begin
    assert read_pull_plan(write_pull_plan(plan)) == plan
    assert read_pulled_blocks(write_pulled_blocks(batch)) == batch
    assert read_objects_wanted(write_objects_wanted(wanted)) == wanted
    assert read_downloads(write_downloads(downloads)) == downloads


@given(
    begin=st.builds(
        PushBegin,
        current_head=st.none() | hashes,
        plan=plans,
        force=st.booleans(),
        visibility=st.sampled_from(Visibility),
    ),
    refusal=st.none() | refusals,
    batch=batches,
    objects=st.builds(PushObjects, st.lists(files, max_size=3).map(tuple), st.booleans()),
    uploads=st.lists(st.builds(ObjectUpload, files, st.none() | urls), max_size=3).map(tuple) | refusals,
    progress=st.builds(UploadProgress, st.none() | numbers),
)
def test_what_is_written_for_a_push_is_read(
    begin: PushBegin,
    refusal: Refusal | None,
    batch: BlocksBatch,
    objects: PushObjects,
    uploads: tuple[ObjectUpload, ...] | Refusal,
    progress: UploadProgress,
) -> None:
    assert read_push_begin(write_push_begin(begin)) == begin
    assert read_push_accepted(write_push_accepted(refusal)) == refusal
    assert read_pushed_blocks(write_pushed_blocks(batch)) == batch
    assert read_push_objects(write_push_objects(objects)) == objects
    assert read_uploads(write_uploads(uploads)) == uploads
    assert read_progress(write_progress(progress)) == progress


@given(refusals)
def test_reasons_are_whole_and_short(refusal: Refusal) -> None:
    reason = close_reason(refusal)
    assert len(reason.encode()) <= REASON_BYTES_MAX
    if reason:
        assert isinstance(read_push_accepted(reason), type(refusal) | InternalFailure)
        assert "Err" in json.loads(reason)


def test_every_ordinary_refusal_fits_as_it_is() -> None:
    for refusal in (RefCollision(DATASET), NameCollision("account/dataset"), SeedOverwriteRestricted()):
        assert read_uploads(close_reason(refusal)) == refusal


READERS = [each[2] for each in VECTORS] + [read_blocks_wanted, read_empty]
EVIL = {
    "empty": "",
    "no-json": "{",
    "deep": "[" * 200_000,
    "deep-object": '{"a":' * 200_000,
    "number": "1",
    "nan": '{"size":NaN}',
    "long-number": "1" * 10_000,
    "list": "[]",
    "text": '"Ok"',
    "null": "null",
}


@pytest.mark.parametrize("name", EVIL)
def test_evil_texts_are_one_typed_error(name: str) -> None:
    for read in READERS:
        with pytest.raises(InvalidRequest):
            read(EVIL[name])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["Ok", "Err", "Internal", "phase", "blocks", "details", "Running", "payload", "object_files"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=10,
)


@given(json_values)
def test_any_json_is_read_or_refused(value: object) -> None:
    for read in READERS:
        try:
            read(json.dumps(value))
        except InvalidRequest:
            continue


@pytest.mark.parametrize(
    ("read", "text", "field"),
    [
        (read_pulled_blocks, f'{{"blocks":{BATCH_TEXT.replace("139", "256")}}}', "blocks.payload"),
        (read_pulled_blocks, f'{{"blocks":{BATCH_TEXT.replace("139", "-1")}}}', "blocks.payload"),
        (read_pulled_blocks, f'{{"blocks":{BATCH_TEXT.replace("139", "1.5")}}}', "blocks.payload"),
        (read_pulled_blocks, f'{{"blocks":{BATCH_TEXT.replace("139", "true")}}}', "blocks.payload"),
        (read_pulled_blocks, f'{{"blocks":{BATCH_TEXT.replace("raw", "base64")}}}', "blocks.encoding"),
        (read_pull_plan, '{"Err":{"Unheard":{}}}', "Err"),
        (read_pull_plan, '{"Maybe":{}}', "message"),
        (read_progress, '{"details":"Nearly"}', "details"),
        (
            read_objects_wanted,
            f'{{"object_files":[{SLICE_TEXT},{SLICE_TEXT.replace("DataSlice", "Link")}]}}',
            "object_files[1].object_type",
        ),
        (read_pull_begin, '{"begin_after":"f16","stop_at":null,"force_update_if_diverged":false}', "begin_after"),
    ],
)
def test_the_place_is_named(read: Callable[[str], object], text: str, field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(text)
    assert refused.value.place.field == field


def test_hashes_of_other_algorithms_name_nothing() -> None:
    other = Multihash(0x12, b"a" * 32)
    with pytest.raises(InvalidRequest):
        read_pull_begin(f'{{"begin_after":"{other}","stop_at":null,"force_update_if_diverged":false}}')
