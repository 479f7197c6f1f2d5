"""A shard gets columns: null in old rows, and unaware clients are notified."""

from __future__ import annotations

import pyarrow as pa
import pytest

from odfabric_persist.batch import BatchLimits
from odfabric_persist.client import PersistClient, PersistSettings
from odfabric_persist.compact import apply, compact
from odfabric_persist.errors import Corrupt, UsageError
from odfabric_persist.location.memory import MemoryBlob, MemoryConsensus
from odfabric_persist.rows import DIFF, TIME, RowCodec
from odfabric_persist.verify import verify

KEY, COUNT = pa.field("key", pa.string()), pa.field("count", pa.int64())
LABELS = pa.field("labels", pa.list_(pa.string()))
OLD, NEW = RowCodec(pa.schema([KEY]), ("key",)), RowCodec(pa.schema([KEY, COUNT, LABELS]), ("key",))


@pytest.fixture(params=[0, 4096], ids=["blobs", "in the state"])
def client(request: pytest.FixtureRequest) -> PersistClient:
    settings = PersistSettings(limits=BatchLimits(inline_bytes_max=request.param))
    return PersistClient(MemoryBlob(), MemoryConsensus(), settings, wait=lambda _: None)


def other(client: PersistClient) -> PersistClient:
    """Another process."""
    return PersistClient(client.blob, client.consensus, client.settings, wait=lambda _: None)


def old_rows(time: int, *keys: str, diff: int = 1) -> pa.Table:
    return pa.table({"key": list(keys), TIME: [time] * len(keys), DIFF: [diff] * len(keys)}, OLD.update_schema)


def new_rows(time: int, *rows: tuple[str, int | None, list[str] | None, int]) -> pa.Table:
    names = ("key", "count", "labels", DIFF)
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    return pa.table({**columns, TIME: [time] * len(rows)}).select(NEW.update_schema.names).cast(NEW.update_schema)


def test_old_rows_have_null_in_new_columns_and_can_be_taken_back(client: PersistClient) -> None:
    client.open("s", OLD).open_writer("w").compare_and_append(old_rows(0, "a", "b"), 0, 1)
    stale = other(client).open("s", OLD).open_writer("late")
    shard = client.compare_and_evolve_schema("s", OLD, NEW)
    shard.open_writer("w").compare_and_append(new_rows(1, ("a", None, None, -1), ("a", 3, ["x"], 1)), 1, 2)
    wanted = [("a", 3, ["x"]), ("b", None, None)]
    for _ in range(2):
        found = other(client).open("s", NEW).snapshot(1)
        assert [(row["key"], row["count"], row["labels"]) for row in found.to_pylist()] == wanted
        inputs = shard.newest().batches
        assert apply(shard.parts, inputs, compact(shard.parts, inputs, 0, 2, 0))
    assert verify(shard.machine).problems == []
    with pytest.raises(UsageError, match="codec-mismatch"):
        stale.compare_and_append(old_rows(2, "c"), 2, 3)
    with pytest.raises(UsageError, match="codec-mismatch"):
        other(client).open("s", OLD)


def test_a_part_without_times_or_diffs_is_damaged_not_null(client: PersistClient) -> None:
    shard = client.open("s", NEW)
    for column in (TIME, DIFF):
        part = shard.parts.write(old_rows(0, "a").drop_columns([column]))
        with pytest.raises(Corrupt, match=column):
            shard.parts.read(part)


def test_done_already_is_done_and_one_of_two_changes_wins(client: PersistClient) -> None:
    client.open("s", OLD)
    first = client.compare_and_evolve_schema("s", OLD, NEW)
    seqno = first.newest().seqno
    assert other(client).compare_and_evolve_schema("s", OLD, NEW).newest().seqno == seqno
    another = RowCodec(pa.schema([KEY, pa.field("name", pa.string())]), ("key",))
    with pytest.raises(UsageError, match="codec-mismatch"):
        other(client).compare_and_evolve_schema("s", OLD, another)


@pytest.mark.parametrize(
    "fields",
    [
        [COUNT],
        [COUNT, KEY],
        [pa.field("key", pa.large_string()), COUNT],
        [pa.field("id", pa.string()), COUNT],
        [KEY, COUNT.with_nullable(False)],
    ],
    ids=["dropped", "put before", "another type", "renamed", "never null"],
)
def test_anything_else_is_refused(client: PersistClient, fields: list[pa.Field]) -> None:
    client.open("s", OLD)
    schema = pa.schema(fields)
    codec = RowCodec(schema, ("key",) if "key" in schema.names else (schema.names[0],))
    with pytest.raises(UsageError, match="incompatible-schema"):
        client.compare_and_evolve_schema("s", OLD, codec)
    with pytest.raises(UsageError, match="incompatible-schema"):
        client.compare_and_evolve_schema("s", OLD, RowCodec(NEW.schema, ("key", "count")))
    assert client.open("s", OLD).newest().codec == OLD.name
