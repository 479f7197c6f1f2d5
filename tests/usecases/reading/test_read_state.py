"""Reading a state: by block or time, from index or chain, the same rows."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfabric.errors import InvalidRequest, LimitExceeded, NotFound
from odfabric.model.instant import Instant
from odfabric.testing.chains import physical_hash as hash_of_text
from odfabric.testing.changelogs import A, R, well_formed
from odfabric.wiring.node import Node
from tests.usecases.committed import SECOND, SNAPSHOT, Committed


@pytest.fixture
def committed(tmp_path: Path) -> Committed:
    return Committed(tmp_path)


wishes = st.lists(
    st.tuples(st.sampled_from([None, "a", "b", "c"]), st.sampled_from([None, -0.0, 0.0, 1.5, float("nan")])), max_size=4
)


@settings(max_examples=15, deadline=None)
@given(blocks=st.lists(st.tuples(wishes, st.booleans()), min_size=1, max_size=12))
def test_index_and_chain_tell_the_same_rows(blocks: list[tuple[list[tuple[str | None, float | None]], bool]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        committed = Committed(Path(folder))
        present: dict[str | None, float | None] = {}
        for wished, follow in blocks:
            committed.commit(well_formed(wished, present))
            if follow:
                committed.node.indexes.bring_forward(committed.entry, lambda _: None)
        for head in committed.heads:
            with_index = committed.read(committed.node, as_at=head.hash)
            without = committed.read(committed.plain, as_at=head.hash)
            assert repr(with_index["data"]) == repr(without["data"])
            assert without["source"] == "chain"
            assert committed.rows(committed.plain, head.hash) == committed.net(head.sequence_number)


def test_the_index_tells_what_it_can(committed: Committed) -> None:
    for number in range(6):
        committed.commit([(A, f"k{number}", float(number))])
    committed.node.indexes.bring_forward(committed.entry, lambda _: None)
    committed.commit([(R, "k0", 0.0)])
    sources = [committed.read(committed.node, as_at=head.hash)["source"] for head in committed.heads]
    assert sources == ["chain"] * 4 + ["index"] * 4
    assert committed.read(committed.node)["rows"] == 5


def test_a_time_means_the_last_block_at_or_before_it(committed: Committed) -> None:
    for number in range(5):
        committed.commit([(A, f"k{number}", 1.0)])
    for head, time in zip(committed.heads, committed.times, strict=True):
        late = Instant(time.epoch_ns + SECOND // 2)
        assert committed.read(committed.node, as_at=time)["block"] == str(head.hash)
        assert committed.read(committed.node, as_at=late)["block"] == str(head.hash)
    with pytest.raises(NotFound):
        committed.read(committed.node, as_at=Instant(0))


def test_rows_come_in_order_of_key_and_in_portions(committed: Committed) -> None:
    committed.commit([(A, key, 1.0) for key in ("d", "a", None, "c", "b")])
    found = committed.read(committed.node, skip=1, limit=3, schema_format="OdfJson")
    assert [row["key"] for row in found["data"]] == ["a", "b", "c"]
    assert list(found["data"][0]) == ["event_time", "key", "value"]
    assert (found["rows"], found["schemaFormat"]) == (5, "OdfJson")
    assert committed.read(committed.node, skip=2**70)["data"] == []


def test_an_ill_formed_changelog_is_told_as_far_as_it_goes(committed: Committed) -> None:
    committed.commit([(A, "a", 1.0)])
    committed.commit([(A, "a", 1.0), (A, "b", 1.0), (R, "never", 1.0)])
    committed.node.indexes.bring_forward(committed.entry, lambda _: None)
    report = committed.node.indexes.inspect(committed.entry)
    assert "'a'" in (report.reason or "") or "key = a" in (report.reason or "")
    assert committed.node.indexes.verify(committed.entry).problem is None
    found = committed.read(committed.node)
    assert [row["key"] for row in found["data"]] == ["a", "a", "b"]
    assert found["source"] == "chain"
    assert committed.read(committed.node, as_at=committed.heads[1].hash)["source"] == "index"


def test_what_cannot_be_asked_is_refused(committed: Committed) -> None:
    committed.commit([(A, key, 1.0) for key in ("a", "b", "c")])
    with pytest.raises(InvalidRequest):
        committed.read(committed.node, skip=-1)
    with pytest.raises(NotFound):
        committed.read(committed.node, as_at=hash_of_text("nothing"))
    with pytest.raises(LimitExceeded, match="too many rows"):
        committed.read(committed.node, limit=10_001)
    small = Node(committed.node.ports, committed.node.settings.model_copy(update={"state_rows_max": 2}))
    with pytest.raises(LimitExceeded, match="more than 2 rows"):
        committed.read(small)


def test_a_dataset_that_only_grows_has_a_state_too(tmp_path: Path) -> None:
    committed = Committed(tmp_path, SNAPSHOT.replace("{kind: Snapshot, primaryKey: [key]}", "{kind: Append}"))
    assert committed.read(committed.node)["data"] == []
    committed.commit([(A, "b", 1.0), (A, "a", 1.0), (A, "b", 1.0)])
    assert [row["key"] for row in committed.read(committed.node)["data"]] == ["a", "b", "b"]
