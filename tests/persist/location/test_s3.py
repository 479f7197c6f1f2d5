"""Particulars of stores in a bucket: conditions, lost answers, parts, pages.

Answers may be repeated, values stored in parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ConnectionClosedError, EndpointConnectionError, ReadTimeoutError

from odfabric_persist.client import PersistClient
from odfabric_persist.errors import Corrupt, Determinate, Indeterminate, UsageError
from odfabric_persist.location.consensus import Version
from odfabric_persist.location.postgres_consensus import PostgresConsensus
from odfabric_persist.location.s3_access import MIB, S3Place, s3_client
from odfabric_persist.location.s3_blob import S3Blob
from odfabric_persist.location.s3_consensus import S3Consensus
from tests.persist.scenario import CODEC, updates_of
from tests.persist.stores import fresh_place
from tests.support.loopback_http import LoopbackServer, reply


@pytest.fixture
def place(request: pytest.FixtureRequest) -> S3Place:
    return fresh_place(request)


@pytest.fixture
def client(place: S3Place) -> Iterator[Any]:
    with closing(s3_client(place)) as opened:
        yield opened


@pytest.fixture
def consensus(place: S3Place, client: Any) -> S3Consensus:
    return S3Consensus(place, client=client)


def once(client: Any, event: str, act: Callable[..., None]) -> None:
    """Let the next request meet `act`."""

    def handler(**context: Any) -> None:
        client.meta.events.unregister(event, handler)
        act(**context)

    client.meta.events.register(event, handler)


def raising(error: Exception) -> Callable[..., None]:
    def act(**_: object) -> None:
        raise error

    return act


def requests_counted(client: Any) -> list[str]:
    """Names of the requests from now on."""
    found: list[str] = []
    client.meta.events.register("before-call.s3", lambda model, **_: found.append(model.name))
    return found


def test_a_store_that_ignores_conditions_is_refused(place: S3Place) -> None:
    for ignored in (("IfMatch", "IfNoneMatch"), ("IfMatch",), ("IfNoneMatch",)):
        with closing(s3_client(place)) as client:

            def drop(params: dict[str, Any], names: tuple[str, ...] = ignored, **_: object) -> None:
                for name in names:
                    params.pop(name, None)

            client.meta.events.register("provide-client-params.s3.PutObject", drop)
            with pytest.raises(UsageError, match="conditions-ignored"):
                S3Consensus(place, client=client)
            assert list(S3Blob(place, client=s3_client(place)).list("")) == [], "the probe stayed behind"


def test_a_change_is_one_request_while_nobody_else_writes(client: Any, consensus: S3Consensus) -> None:
    assert consensus.compare_and_set("k", None, Version(0, b""))
    counted = requests_counted(client)
    for seqno in range(1, 5):
        assert consensus.compare_and_set("k", seqno - 1, Version(seqno, b""))
    assert counted == ["PutObject"] * 4


def test_a_version_that_landed_without_an_answer_is_found_again(client: Any, consensus: S3Consensus) -> None:
    lost = ReadTimeoutError(endpoint_url="x")
    once(client, "after-call.s3.PutObject", raising(lost))
    assert consensus.compare_and_set("k", None, Version(0, b"0"))
    once(client, "after-call.s3.PutObject", raising(lost))
    assert consensus.compare_and_set("k", 0, Version(1, b"1"))
    assert [one.seqno for one in consensus.scan("k", 0, 9)] == [0, 1]


def test_a_request_that_was_repeated_on_the_way_and_refused_the_second_time_has_won(
    client: Any, consensus: S3Consensus
) -> None:
    def refuse(http_response: Any, parsed: dict[str, Any], **_: object) -> None:
        http_response.status_code = 412
        parsed["Error"] = {"Code": "PreconditionFailed"}

    once(client, "after-call.s3.PutObject", refuse)
    assert consensus.compare_and_set("k", None, Version(0, b"0"))
    assert not consensus.compare_and_set("k", None, Version(1, b"other"))


def test_an_attempt_that_may_still_be_on_its_way_is_not_called_lost(client: Any, consensus: S3Consensus) -> None:
    assert consensus.compare_and_set("k", None, Version(0, b"0"))
    once(client, "before-send.s3.PutObject", raising(ConnectionClosedError(endpoint_url="x")))
    with pytest.raises(Indeterminate, match="ConnectionClosedError"):
        consensus.compare_and_set("k", 0, Version(1, b"1"))


def test_an_attempt_that_somebody_else_overtook_is_lost(place: S3Place, client: Any, consensus: S3Consensus) -> None:
    assert consensus.compare_and_set("k", None, Version(0, b"0"))
    other = S3Consensus(place)

    def overtake(**_: object) -> None:
        assert other.compare_and_set("k", 0, Version(2, b"other"))
        raise ConnectionClosedError(endpoint_url="x")

    once(client, "before-send.s3.PutObject", overtake)
    assert not consensus.compare_and_set("k", 0, Version(1, b"1"))
    other.close()


def test_what_was_never_sent_or_was_refused_surely_did_not_happen(client: Any, consensus: S3Consensus) -> None:
    once(client, "before-send.s3.PutObject", raising(EndpointConnectionError(endpoint_url="x")))
    with pytest.raises(Determinate, match="EndpointConnectionError"):
        consensus.compare_and_set("k", None, Version(0, b"0"))

    def conflict(http_response: Any, parsed: dict[str, Any], **_: object) -> None:
        http_response.status_code = 409
        parsed["Error"] = {"Code": "ConditionalRequestConflict"}

    once(client, "after-call.s3.PutObject", conflict)
    with pytest.raises(Determinate, match="ConditionalRequestConflict"):
        consensus.compare_and_set("other", None, Version(0, b"0"))


def test_truncation_by_another_does_not_refuse_a_writer(place: S3Place, consensus: S3Consensus) -> None:
    for seqno in range(3):
        assert consensus.compare_and_set("k", seqno - 1 if seqno else None, Version(seqno, b""))
    other = S3Consensus(place)
    assert other.truncate("k", 2) == 2
    assert consensus.compare_and_set("k", 2, Version(3, b""))
    assert [one.seqno for one in other.scan("k", 0, 9)] == [2, 3]
    other.close()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-1], "damaged"),
        (lambda data: data + b"x", "damaged"),
        (lambda data: b"{" + data, "damaged"),
        (lambda data: data.replace(b'"format":1', b'"format":2'), "reads up to 1"),
    ],
)
def test_a_damaged_window_is_refused(
    place: S3Place, client: Any, consensus: S3Consensus, damage: Callable[[bytes], bytes], message: str
) -> None:
    assert consensus.compare_and_set("k", None, Version(0, b"data"))
    blob = S3Blob(place, client=client)
    data = blob.get("k")
    assert data is not None
    blob.set("k", damage(data))
    with pytest.raises(Corrupt, match=message):
        consensus.head("k")


def test_a_large_value_is_sent_in_parts_that_show_together(place: S3Place, client: Any) -> None:
    blob = S3Blob(replace(place, multipart_bytes=5 * MIB), client=client)
    value = bytes(range(256)) * (11 * MIB // 256) + b"end"
    counted = requests_counted(client)
    blob.set("large", value)
    assert sorted(counted) == ["CompleteMultipartUpload", "CreateMultipartUpload", *["UploadPart"] * 3]
    assert blob.get("large") == value
    once(client, "before-send.s3.UploadPart", raising(ConnectionClosedError(endpoint_url="x")))
    with pytest.raises(Determinate):
        blob.set("large", value[::-1])
    once(client, "after-call.s3.CompleteMultipartUpload", raising(ReadTimeoutError(endpoint_url="x")))
    with pytest.raises(Indeterminate):
        blob.set("other", value)
    assert blob.get("large") == value
    left = client.list_multipart_uploads(Bucket=place.bucket, Prefix=place.prefix)
    assert not left.get("Uploads"), "parts of a failed upload stayed behind"


def test_keys_are_listed_page_by_page(place: S3Place, client: Any) -> None:
    blob = S3Blob(replace(place, page_keys=2), client=client)
    for number in range(5):
        blob.set(f"k{number}", b"1")
    client.put_object(Bucket=place.bucket, Key=f"{place.prefix}.hidden", Body=b"not ours")
    counted = requests_counted(client)
    entries = blob.list("k")
    assert next(entries).key == "k0"
    assert len(counted) == 1
    assert [entry.key for entry in entries] == ["k1", "k2", "k3", "k4"]
    assert [entry.key for entry in blob.list("")] == [f"k{number}" for number in range(5)]


def test_a_value_that_was_deleted_twice_comes_back(request: pytest.FixtureRequest) -> None:
    place = fresh_place(request, keeps_versions=True)
    with closing(s3_client(place)) as client:
        blob = S3Blob(place, client=client)
        blob.set("k", b"1")
        for _ in range(2):
            client.delete_object(Bucket=place.bucket, Key=f"{place.prefix}k")
        blob.restore("k")
        assert blob.get("k") == b"1"
        with pytest.raises(Determinate, match="no version"):
            blob.restore("never")


def test_a_missing_bucket_is_not_a_missing_value(place: S3Place) -> None:
    nowhere = replace(place, bucket="no-such-bucket-here")
    with closing(S3Blob(nowhere)) as blob, pytest.raises(Determinate, match="NoSuchBucket"):
        blob.get("k")


def test_a_server_that_is_not_there_surely_did_nothing(place: S3Place) -> None:
    nowhere = replace(place, endpoint="http://127.0.0.1:1")
    with closing(S3Blob(nowhere)) as blob, pytest.raises(Determinate, match="EndpointConnectionError"):
        blob.set("k", b"1")


def test_answers_that_are_cut_off_or_errors_of_the_store_are_told_apart(place: S3Place) -> None:
    answers: list[bytes | Iterator[bytes]] = []
    with LoopbackServer(lambda _: answers.pop(0)).serving() as server:
        nowhere = replace(place, endpoint=server.url("").rstrip("/"))
        with closing(S3Blob(nowhere)) as blob:
            answers.append(iter([b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", b"half"]))
            with pytest.raises(Determinate):
                blob.get("k")
            answers.append(reply(503, b"<Error><Code>SlowDown</Code></Error>"))
            with pytest.raises(Determinate, match="SlowDown"):
                blob.set("k", b"1")
            answers.append(reply(500, b"<Error><Code>InternalError</Code></Error>"))
            with pytest.raises(Indeterminate, match="InternalError"):
                blob.set("k", b"1")
            answers.append(iter([b""]))
            with pytest.raises(Indeterminate, match="ConnectionClosed"):
                blob.set("k", b"1")
        assert [one.method for one in server.seen] == ["GET", "PUT", "PUT", "PUT"], "a request was tried again"


def test_moves_of_frontiers_ask_nothing_of_the_bucket(place: S3Place, client: Any, postgres_url: str) -> None:
    with closing(PostgresConsensus(postgres_url)) as consensus:
        shard = PersistClient(S3Blob(place, client=client), consensus).open("s", CODEC)
        writer, reader = shard.open_writer(), shard.open_reader()
        counted = requests_counted(client)
        for upper in range(1, 21):
            writer.compare_and_append(updates_of([["a", upper - 1, 1]]), upper - 1, upper)
            reader.downgrade_since(upper - 1)
            reader.heartbeat()
        assert counted == [], "small rows and frontiers are versions only"


def test_a_place_keeps_its_secret_and_its_limits(place: S3Place) -> None:
    assert (place.secret_key or "?") not in repr(place)
    with pytest.raises(UsageError, match="invalid-place"):
        place.below("x" * 125)
    with pytest.raises(UsageError, match="invalid-place"):
        s3_client(replace(place, endpoint="no address"))
