"""Requests of jobs as job rows keep them, of this release and of older ones.

Also what is wrong with damaged ones.
"""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import Corrupt
from odfabric.formats.jobs.compact_request import read_compact_request, write_compact_request
from odfabric.formats.jobs.envelope import read_envelope, read_objects
from odfabric.formats.jobs.index_request import read_index_request, write_index_request
from odfabric.formats.jobs.judge_request import read_judge_request, write_judge_request
from odfabric.formats.jobs.pull_request import read_pull_request, write_pull_request
from odfabric.formats.jobs.push_request import read_push_request, write_push_request
from odfabric.formats.jobs.send_request import read_send_request, write_send_request
from odfabric.formats.jobs.try_request import read_try_request, write_try_request
from odfabric.formats.jobs.verify_request import read_verify_request, write_verify_request
from odfabric.formats.jobs.why_request import read_why_request, write_why_request
from odfabric.model.file_shape import FileFormat, FileShape
from odfabric.model.identity import DatasetAlias, DatasetId, Name
from odfabric.model.instant import Instant
from odfabric.model.jobs.job import Job, JobKind, JobStatus
from odfabric.model.jobs.requests import (
    Asker,
    CompactRequest,
    DatasetToTry,
    Envelope,
    FileToFetch,
    IndexRequest,
    JudgeRequest,
    PullRequest,
    PushRequest,
    PushToTry,
    ReceivedFile,
    RequestObjects,
    SendRequest,
    SendWish,
    TryRequest,
    VerifyRequest,
    WhyJobRequest,
)
from odfabric.model.multihash import SHA3_256, Multihash
from odfabric.model.people.account import Visibility
from odfabric.model.why_request import WhyRequest

DIGEST = bytes(range(32))
D = DatasetId(DIGEST)
HEAD = Multihash(SHA3_256, DIGEST)
HEX = DIGEST.hex()
DID = f"did:odf:fed01{HEX}"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ANN = Envelope(by=Asker(name="ann"))
ALL_OF_ANN = Envelope(by=Asker(name="ann", token="t1", address="192.0.2.7", trace=TRACE))
FLOW = Envelope(flow="run-1")
BY = f'{{"name": "ann", "token": "t1", "address": "192.0.2.7", "trace": "{TRACE}"}}'
BY_SORTED = f'{{"address": "192.0.2.7", "name": "ann", "token": "t1", "trace": "{TRACE}"}}'
ALIAS = DatasetAlias(Name("ann"), Name("rows"))
SHAPE = FileShape(format=FileFormat.CSV, separator=";", header=False)
SHAPE_TEXT = '{"format": "csv", "separator": ";", "header": false}'


@dataclass(frozen=True)
class Codec:
    """The writer and the reader of one kind."""

    kind: JobKind
    write: Callable[[Any, Envelope], str]
    read: Callable[[Job], object]


CODECS = {
    PushRequest: Codec(JobKind.PUSH, write_push_request, read_push_request),
    PullRequest: Codec(JobKind.PULL, write_pull_request, read_pull_request),
    VerifyRequest: Codec(JobKind.VERIFY, write_verify_request, read_verify_request),
    IndexRequest: Codec(JobKind.INDEX, lambda request, _: write_index_request(request), read_index_request),
    JudgeRequest: Codec(JobKind.JUDGE, write_judge_request, read_judge_request),
    SendRequest: Codec(JobKind.SEND, write_send_request, read_send_request),
    CompactRequest: Codec(JobKind.COMPACT, write_compact_request, read_compact_request),
    TryRequest: Codec(JobKind.TRY, write_try_request, read_try_request),
    WhyJobRequest: Codec(JobKind.WHY, write_why_request, read_why_request),
}


def job_of(kind: JobKind, text: str) -> Job:
    return Job(
        id="j1",
        kind=kind,
        account="did:odf:x",
        dataset_id=None,
        request=text,
        dedup_key=None,
        status=JobStatus.QUEUED,
        progress=None,
        result=None,
        error=None,
        attempts=0,
        created_at=Instant(0),
        updated_at=Instant(0),
    )


SMALL_PUSH = PushRequest(dataset=D, staged=None, digest=DIGEST, size=3, file_name="body")
UPLOADED = JudgeRequest(upload="staging/u1", file_name="a.csv", file=ReceivedFile(size=9, digest=DIGEST))
TO_FETCH = JudgeRequest(upload="staging/u1", file_name="a.csv", file=FileToFetch(url="https://x.example/a.csv"))
TRIED = TryRequest(
    upload="staging/00ff",
    digest=DIGEST,
    size=70000,
    file_name="a.csv",
    target=PushToTry(dataset=D, media_type="text/csv"),
)

VECTORS = {
    "push": (
        SMALL_PUSH,
        ANN,
        f'{{"dataset": "{DID}", "staged": null, "digest": "{HEX}", "size": 3, "fileName": "body", "sourceName": null, '
        '"mediaType": null, "eventTime": null, "keyHash": null, "by": {"name": "ann"}}',
    ),
    "push-all": (
        PushRequest(
            dataset=D,
            staged="staging/00ff",
            digest=DIGEST,
            size=70000,
            file_name="zahlen é.csv",
            source_name="feed",
            media_type="text/csv",
            event_time=Instant.parse("2026-03-01T10:00:00.123Z"),
            key_hash=DIGEST,
            if_match=HEAD,
            allow_shrink=True,
        ),
        ALL_OF_ANN,
        f'{{"dataset": "{DID}", "staged": "staging/00ff", "digest": "{HEX}", "size": 70000, '
        '"fileName": "zahlen \\u00e9.csv", "sourceName": "feed", "mediaType": "text/csv", '
        f'"eventTime": "2026-03-01T10:00:00.123Z", "keyHash": "{HEX}", "by": {BY}, "ifMatch": "f1620{HEX}", '
        '"allowShrink": true}',
    ),
    "pull": (
        PullRequest(dataset=D, alias=ALIAS),
        ANN,
        f'{{"account": "ann", "allowShrink": false, "by": {{"name": "ann"}}, "dataset": "{DID}", "fetchAgain": false, '
        '"fetchUncacheable": false, "folderOfUser": null, "name": "rows", "recursive": false, "url": null}',
    ),
    "pull-all": (
        PullRequest(
            dataset=None,
            alias=ALIAS,
            url="https://node.example/a/b",
            recursive=True,
            fetch_uncacheable=True,
            allow_shrink=True,
            fetch_again=True,
            folder_of_user=Path("/data/ann"),
        ),
        ALL_OF_ANN,
        f'{{"account": "ann", "allowShrink": true, "by": {BY_SORTED}, "dataset": null, "fetchAgain": true, '
        '"fetchUncacheable": true, "folderOfUser": "/data/ann", "name": "rows", "recursive": true, '
        '"url": "https://node.example/a/b"}',
    ),
    "pull-of-a-flow": (
        PullRequest(dataset=D, alias=ALIAS, fetch_uncacheable=True),
        FLOW,
        f'{{"account": "ann", "allowShrink": false, "dataset": "{DID}", "fetchAgain": false, "fetchUncacheable": true, '
        '"flow": "run-1", "folderOfUser": null, "name": "rows", "recursive": false, "url": null}',
    ),
    "pull-forced": (
        PullRequest(dataset=D, alias=ALIAS, force=True),
        ANN,
        f'{{"account": "ann", "allowShrink": false, "by": {{"name": "ann"}}, "dataset": "{DID}", "fetchAgain": false, '
        '"fetchUncacheable": false, "folderOfUser": null, "force": true, "name": "rows", "recursive": false, "url": null}',
    ),
    "pull-recomputed": (
        PullRequest(dataset=D, alias=ALIAS, recompute=True),
        FLOW,
        f'{{"account": "ann", "allowShrink": false, "dataset": "{DID}", "fetchAgain": false, "fetchUncacheable": false, '
        '"flow": "run-1", "folderOfUser": null, "name": "rows", "recompute": true, "recursive": false, "url": null}',
    ),
    "compact": (
        CompactRequest(dataset=D),
        ANN,
        f'{{"by": {{"name": "ann"}}, "dataset": "{DID}", "metadataOnly": false, "sliceBytesMax": null, '
        '"sliceRecordsMax": null}',
    ),
    "compact-all": (
        CompactRequest(dataset=D, metadata_only=True, slice_bytes_max=1000, slice_records_max=7),
        ALL_OF_ANN,
        f'{{"by": {BY_SORTED}, "dataset": "{DID}", "metadataOnly": true, "sliceBytesMax": 1000, "sliceRecordsMax": 7}}',
    ),
    "send": (
        SendRequest(D, SendWish()),
        ANN,
        f'{{"by": {{"name": "ann"}}, "dataset": "{DID}", "force": false, "to": null}}',
    ),
    "send-all": (
        SendRequest(D, SendWish(to="shelf/ann/rows", force=True, visibility=Visibility.PUBLIC)),
        ALL_OF_ANN,
        f'{{"by": {BY_SORTED}, "dataset": "{DID}", "force": true, "to": "shelf/ann/rows", "visibility": "public"}}',
    ),
    "why": (
        WhyJobRequest(dataset=D, asked=WhyRequest(offsets=(17,))),
        ANN,
        f'{{"after": null, "by": {{"name": "ann"}}, "columns": [], "dataset": "{DID}", "depth": "all", '
        '"effort": "verified", "kinds": ["witnesses", "trigger", "cells", "how"], "limit": 100, "offsets": [17], '
        '"values": false, "whole": false}',
    ),
    "why-all": (
        WhyJobRequest(
            dataset=D,
            asked=WhyRequest(
                offsets=(0, 2**63 - 1),
                columns=("größe",),
                kinds=("trigger",),
                depth="2",
                effort="minimal",
                limit=7,
                after="00ff-7",
                values=True,
                whole=True,
            ),
        ),
        ALL_OF_ANN,
        f'{{"after": "00ff-7", "by": {BY_SORTED}, "columns": ["gr\\u00f6\\u00dfe"], "dataset": "{DID}", "depth": "2", '
        '"effort": "minimal", "kinds": ["trigger"], "limit": 7, "offsets": [0, 9223372036854775807], "values": true, '
        '"whole": true}',
    ),
    "verify": (
        VerifyRequest(dataset=D, data=True, replay=False, head=HEAD),
        ALL_OF_ANN,
        f'{{"by": {BY_SORTED}, "data": true, "dataset": "{DID}", "head": "f1620{HEX}", "replay": false}}',
    ),
    "verify-of-a-flow": (
        VerifyRequest(dataset=D, data=True, replay=False, head=HEAD),
        FLOW,
        f'{{"data": true, "dataset": "{DID}", "flow": "run-1", "head": "f1620{HEX}", "replay": false}}',
    ),
    "verify-and-fetch": (
        VerifyRequest(dataset=D, data=True, replay=False, head=HEAD, fetch=True),
        FLOW,
        f'{{"data": true, "dataset": "{DID}", "fetch": true, "flow": "run-1", "head": "f1620{HEX}", "replay": false}}',
    ),
    "index": (IndexRequest(D), Envelope(), f'{{"dataset": "{DID}"}}'),
    "judge": (
        UPLOADED,
        ALL_OF_ANN,
        f'{{"upload": "staging/u1", "fileName": "a.csv", "size": 9, "digest": "{HEX}", "by": {BY}}}',
    ),
    "judge-url": (
        TO_FETCH,
        ANN,
        '{"upload": "staging/u1", "fileName": "a.csv", "url": "https://x.example/a.csv", "by": {"name": "ann"}}',
    ),
    "judge-again": (
        replace(UPLOADED, shape=SHAPE),
        ANN,
        f'{{"upload": "staging/u1", "fileName": "a.csv", "size": 9, "digest": "{HEX}", "shape": {SHAPE_TEXT}, '
        '"by": {"name": "ann"}}',
    ),
    "judge-url-again": (
        JudgeRequest(
            upload="staging/u1",
            file_name="a.csv",
            file=ReceivedFile(size=9, digest=DIGEST, url="https://x.example/a.csv"),
            shape=SHAPE,
        ),
        ANN,
        f'{{"upload": "staging/u1", "fileName": "a.csv", "size": 9, "digest": "{HEX}", '
        f'"url": "https://x.example/a.csv", "shape": {SHAPE_TEXT}, "by": {{"name": "ann"}}}}',
    ),
    "try": (
        TRIED,
        ANN,
        f'{{"upload": "staging/00ff", "digest": "{HEX}", "size": 70000, "fileName": "a.csv", "shown": {{}}, '
        f'"by": {{"name": "ann"}}, "dataset": "{DID}", "sourceName": null, "mediaType": "text/csv"}}',
    ),
    "try-new": (
        replace(TRIED, target=DatasetToTry("kind: DatasetSnapshot\n"), shown={"name": "rows", "n": [1, None]}),
        ALL_OF_ANN,
        f'{{"upload": "staging/00ff", "digest": "{HEX}", "size": 70000, "fileName": "a.csv", '
        f'"shown": {{"name": "rows", "n": [1, null]}}, "by": {BY}, "manifest": "kind: DatasetSnapshot\\n"}}',
    ),
}


def test_each_kind_of_job_has_a_codec_and_a_vector() -> None:
    assert {codec.kind for codec in CODECS.values()} == set(JobKind)
    assert {type(request) for request, _, _ in VECTORS.values()} == set(CODECS)


@pytest.mark.parametrize("name", VECTORS)
def test_texts_are_those_that_job_rows_have(name: str) -> None:
    request, envelope, text = VECTORS[name]
    codec = CODECS[type(request)]
    job = job_of(codec.kind, text)
    assert codec.write(request, envelope) == text
    assert codec.read(job) == request
    assert read_envelope(job) == envelope


def without(name: str, *members: str) -> Job:
    request, _, text = VECTORS[name]
    values = {member: value for member, value in json.loads(text).items() if member not in members}
    return job_of(CODECS[type(request)].kind, json.dumps(values))


def test_requests_of_older_releases_are_read() -> None:
    pull = without("pull", "allowShrink", "fetchAgain")
    assert read_pull_request(pull) == PullRequest(dataset=D, alias=ALIAS)
    verify = without("verify", "head", "by")
    assert read_verify_request(verify) == VerifyRequest(dataset=D, data=True, replay=False)
    assert read_envelope(verify) == Envelope()
    assert read_push_request(without("push", "by")) == SMALL_PUSH


def test_the_objects_of_a_job_are_found_whatever_its_kind() -> None:
    found = {name: read_objects(without(name)) for name in VECTORS}
    assert found["push-all"] == RequestObjects(staged="staging/00ff")
    assert found["judge"] == RequestObjects(upload="staging/u1")
    assert found["try"] == RequestObjects(upload="staging/00ff")
    assert {name for name, objects in found.items() if not objects.keys} == {
        "push",
        "pull",
        "pull-all",
        "pull-of-a-flow",
        "pull-forced",
        "pull-recomputed",
        "compact",
        "compact-all",
        "send",
        "send-all",
        "verify",
        "verify-of-a-flow",
        "verify-and-fetch",
        "index",
        "why",
        "why-all",
    }


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "7", "null", "[" * 100_000])
@pytest.mark.parametrize("read", [codec.read for codec in CODECS.values()], ids=[c.kind.value for c in CODECS.values()])
def test_what_is_no_object_is_damaged(read: Callable[[Job], object], text: str) -> None:
    with pytest.raises(Corrupt) as refused:
        read(job_of(JobKind.PUSH, text))
    assert refused.value.object_name == "job j1"


@pytest.mark.parametrize(
    ("name", "member", "value", "problem"),
    [
        ("push", "digest", "xy", "digest has a wrong form"),
        ("why", "offsets", 17, "offsets is int, not list"),
        ("why", "offsets", [True], "offsets has a bool among its values, not int"),
        ("push", "size", True, "size is bool, not int"),
        ("push", "fileName", None, "fileName is NoneType, not str"),
        ("push-all", "eventTime", "yesterday", "eventTime has a wrong form"),
        ("push-all", "ifMatch", "f00", "ifMatch has a wrong form"),
        ("pull", "dataset", "did:odf:x", "dataset has a wrong form"),
        ("pull", "name", "no/name", "name has a wrong form"),
        ("pull", "recursive", "yes", "recursive is str, not bool"),
        ("verify", "data", 1, "data is int, not bool"),
        ("judge-again", "shape", {"format": "xls"}, "shape.format has a wrong form"),
        ("judge-again", "shape", {"format": "csv"}, "shape.separator is missing"),
        ("try", "shown", [], "shown is list, not dict"),
    ],
)
def test_a_damaged_member_is_named(name: str, member: str, value: object, problem: str) -> None:
    request, _, text = VECTORS[name]
    codec = CODECS[type(request)]
    damaged = job_of(codec.kind, json.dumps({**json.loads(text), member: value}))
    message = f"the request of a {codec.kind.value} job is damaged: {problem}"
    with pytest.raises(Corrupt, match=re.escape(message)):
        codec.read(damaged)


def test_a_damaged_envelope_is_named() -> None:
    for text, problem in (('{"by": "ann"}', "by is str"), ('{"by": {"token": 7}}', "by.token is int")):
        with pytest.raises(Corrupt, match=problem):
            read_envelope(job_of(JobKind.PULL, text))


texts = st.text(max_size=20)
digests = st.binary(min_size=32, max_size=32)
datasets = digests.map(DatasetId)
heads = digests.map(lambda digest: Multihash(SHA3_256, digest))
sizes = st.integers(min_value=0, max_value=2**50)
instants = st.integers(min_value=0, max_value=2**61).map(Instant)
names = st.from_regex(r"[a-z][a-z0-9]{0,10}", fullmatch=True).map(Name)
askers = st.builds(
    Asker, name=st.none() | texts, token=st.none() | texts, address=st.none() | texts, trace=st.none() | texts
)
envelopes = st.one_of(st.builds(Envelope, by=askers), st.builds(Envelope, flow=texts))
received = st.builds(ReceivedFile, size=sizes, digest=digests, url=st.none() | texts)
shapes = st.builds(FileShape, format=st.sampled_from(FileFormat), separator=texts, header=st.booleans())
requests: st.SearchStrategy[object] = st.one_of(
    st.builds(
        PushRequest,
        dataset=datasets,
        staged=st.none() | texts,
        digest=digests,
        size=sizes,
        file_name=texts,
        source_name=st.none() | texts,
        media_type=st.none() | texts,
        event_time=st.none() | instants,
        key_hash=st.none() | digests,
        if_match=st.none() | heads,
        allow_shrink=st.booleans(),
    ),
    st.builds(
        PullRequest,
        dataset=st.none() | datasets,
        alias=st.builds(DatasetAlias, st.none() | names, names),
        url=st.none() | texts,
        recursive=st.booleans(),
        fetch_uncacheable=st.booleans(),
        allow_shrink=st.booleans(),
        fetch_again=st.booleans(),
        force=st.booleans(),
        recompute=st.booleans(),
        folder_of_user=st.none() | texts.map(Path),
    ),
    st.builds(VerifyRequest, dataset=datasets, data=st.booleans(), replay=st.booleans(), head=st.none() | heads),
    st.builds(IndexRequest, datasets),
    st.builds(
        CompactRequest,
        dataset=datasets,
        metadata_only=st.booleans(),
        slice_bytes_max=st.none() | sizes,
        slice_records_max=st.none() | sizes,
    ),
    st.builds(
        SendRequest,
        datasets,
        st.builds(SendWish, to=st.none() | texts, force=st.booleans(), visibility=st.sampled_from(Visibility)),
    ),
    st.builds(
        JudgeRequest,
        upload=texts,
        file_name=texts,
        file=received | st.builds(FileToFetch, url=texts),
        shape=st.none() | shapes,
    ),
    st.builds(
        TryRequest,
        upload=texts,
        digest=digests,
        size=sizes,
        file_name=texts,
        target=st.builds(DatasetToTry, texts)
        | st.builds(PushToTry, dataset=datasets, source_name=st.none() | texts, media_type=st.none() | texts),
        shown=st.dictionaries(texts, texts | st.integers() | st.none(), max_size=3),
    ),
)


@given(request=requests, envelope=envelopes)
def test_what_is_written_is_read_again(request: object, envelope: Envelope) -> None:
    codec = CODECS[type(request)]
    job = job_of(codec.kind, codec.write(request, envelope))
    assert codec.read(job) == request
    assert read_envelope(job) == (Envelope() if isinstance(request, IndexRequest) else envelope)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=5,
)


@given(name=st.sampled_from(sorted(VECTORS)), data=st.data())
def test_a_damaged_request_is_read_or_is_corrupt(name: str, data: st.DataObject) -> None:
    request, _, text = VECTORS[name]
    members = json.loads(text)
    members[data.draw(st.sampled_from(sorted(members)))] = data.draw(values)
    codec = CODECS[type(request)]
    for read in (codec.read, read_envelope, read_objects):
        with suppress(Corrupt):
            read(job_of(codec.kind, json.dumps(members)))
