"""Rows in time on stored chains are those of the domain, by index and chain."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfabric.domain.chain.projection import Record, as_at, as_of, rows
from odfabric.domain.chain.walk import data_slices_down
from odfabric.errors import Corrupt, InvalidRequest
from odfabric.formats.identifiers.dataset_layout import DATA, object_key
from odfabric.model.instant import Instant
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.testing.changelogs import C_FROM, C_TO, A, Change, R
from odfabric.usecases.chain.repository import SLICE_END_BYTES
from odfabric.usecases.state import held_rows
from odfabric.usecases.state.read_state import ReadState
from odfabric.wiring.node import Node
from tests.usecases.committed import SNAPSHOT, Committed

TIMES = [-61_000_000_000_000, -1, 0, 1_600_000_000_000, 1_700_000_000_000]
APPEND = SNAPSHOT.replace("{kind: Snapshot, primaryKey: [key]}", "{kind: Append}")

Wish = tuple[int, str, int, float]
steps = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from("abc"), st.sampled_from(TIMES), st.sampled_from([1.0, 2.0])),
    max_size=5,
)


class Travelled(Committed):
    """A changelog with event times, beside its records as the domain has them."""

    def __init__(self, folder: Path, manifest: str = SNAPSHOT) -> None:
        super().__init__(folder, manifest)
        self.records: list[Record] = []
        self._present: dict[str, tuple[int, float]] = {}

    def step(self, wishes: list[Wish]) -> None:
        changes: list[Change] = []
        times: list[int] = []

        def add(operation: object, key: str, row: tuple[int, float]) -> None:
            changes.append((operation, key, row[1]))  # type: ignore[arg-type]
            times.append(row[0])

        for action, key, time, value in wishes:
            if key not in self._present:
                self._present[key] = (time, value)
                add(A, key, self._present[key])
            elif action == 0:
                add(R, key, self._present.pop(key))
            else:
                add(C_FROM, key, self._present[key])
                self._present[key] = (time, value)
                add(C_TO, key, self._present[key])
        offset = len(self.records)
        self.commit(changes, event_times=times)
        block = self.heads[-1].sequence_number
        self.records += [
            Record(
                block=block,
                offset=offset + number,
                operation=operation,
                event_time=Instant.from_millis(time),
                key=key,
                row=(str(Instant.from_millis(time)), key, value),
            )
            for number, ((operation, key, value), time) in enumerate(zip(changes, times, strict=True))
        ]

    def steps(self, blocks: Iterable[tuple[list[Wish], bool]]) -> None:
        """Blocks of these wishes, the index brought forward after some."""
        for wishes, follow in blocks:
            self.step(wishes)
            if follow:
                self.node.indexes.bring_forward(self.entry, lambda _: None)

    def largest_slice(self) -> int:
        """Bytes of it."""
        prefix = object_key(self.entry.id, DATA, self.heads[-1].hash).rpartition("/")[0] + "/"
        stats = map(self.memory.objects.stat, self.memory.objects.keys(prefix))
        return max(each.size for each in stats if each is not None)

    def found(self, node: Node, **asked: object) -> Counter[object]:
        data = self.read(node, **asked)["data"]
        return Counter((row["event_time"], row["key"], row["value"]) for row in data)


@pytest.mark.parametrize("manifest", [SNAPSHOT, APPEND], ids=["keyed", "without-key"])
@pytest.mark.parametrize("later_share", [held_rows.LATER_SHARE_MAX, 1.0], ids=["chosen", "by-index"])
def test_rows_are_those_of_the_domain(manifest: str, later_share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_rows, "LATER_SHARE_MAX", later_share)

    @settings(max_examples=12, deadline=None)
    @given(blocks=st.lists(st.tuples(steps, st.booleans()), min_size=1, max_size=8), data=st.data())
    def holds(blocks: list[tuple[list[Wish], bool]], data: st.DataObject) -> None:
        with tempfile.TemporaryDirectory() as folder:
            travelled = Travelled(Path(folder), manifest)
            travelled.steps(blocks)
            moment = Instant.from_millis(data.draw(st.sampled_from([*TIMES, TIMES[0] - 1, TIMES[3] + 1])))
            for head in travelled.heads:
                known = as_at(travelled.records, head.sequence_number)
                keyed = manifest == SNAPSHOT
                for node in (travelled.node, travelled.plain):
                    assert travelled.found(node, as_at=head.hash) == rows(known, keyed=keyed)
                    held = travelled.found(node, as_at=head.hash, as_of=moment)
                    assert held == rows(as_of(known, moment), keyed=keyed)

    holds()


def test_states_near_the_head_are_found_by_taking_records_back(tmp_path: Path) -> None:
    travelled = Travelled(tmp_path)
    travelled.step([(1, key, 0, 1.0) for key in map(chr, range(ord("a"), ord("z")))])
    for number in range(8):
        travelled.step([(1, "abc"[number % 3], number, 2.0)])
    for number in range(8):
        travelled.step([(number % 2, "abc"[number % 3], number, 1.0)])
    travelled.node.indexes.bring_forward(travelled.entry, lambda _: None)
    sources = []
    for head in travelled.heads:
        found = travelled.read(travelled.node, as_at=head.hash)
        sources.append(found["source"])
        assert repr(found["data"]) == repr(travelled.read(travelled.plain, as_at=head.hash)["data"])
    # Far from the head, fewer records are before the block than between it and the index.
    assert sources[0] == "chain"
    assert sources[-8:] == ["index"] * 8


def test_rows_held_near_the_head_are_found_from_the_index(tmp_path: Path) -> None:
    travelled = Travelled(tmp_path)
    travelled.step([(1, key, 0, 1.0) for key in map(chr, range(ord("a"), ord("z")))])
    for number in range(1, 13):
        key = "abc"[number % 3]
        travelled.step([(0 if number % 5 == 0 else 1, key, 100 * number + at, 2.0) for at in range(2)])
    travelled.node.indexes.bring_forward(travelled.entry, lambda _: None)
    for time in (-1, 0, 150, 900, 1150, 1200, 10_000):
        moment = Instant.from_millis(time)
        found = travelled.read(travelled.node, as_of=moment)
        plain = travelled.read(travelled.plain, as_of=moment)
        assert repr(found["data"]) == repr(plain["data"])
        # Long ago, most records had not happened.
        assert (found["source"], plain["source"]) == ("index" if time >= 900 else "chain", "chain")


def test_slices_whose_records_all_happen_later_are_not_read(tmp_path: Path) -> None:
    travelled = Travelled(tmp_path)
    for number in range(4):
        travelled.step([(1, "abcd"[number], 100 * number, 1.0)])
    moment = Instant.from_millis(150)
    before = travelled.found(travelled.plain, as_of=moment)
    for data in list(data_slices_down(travelled.plain.repository.blocks(travelled.entry.id), travelled.heads[-1].hash))[
        :2
    ]:
        travelled.memory.objects.delete(object_key(travelled.entry.id, DATA, data.physical_hash))
    assert travelled.found(travelled.plain, as_of=moment) == before
    with pytest.raises(Corrupt):
        travelled.found(travelled.plain, as_of=Instant.from_millis(350))


class Counted:
    """A store that counts whole reads, and the bytes of ends."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self.whole: list[str] = []
        self.ends: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objects, name)

    def materialize(self, key: str, path: Path) -> None:
        self.whole.append(key)
        self._objects.materialize(key, path)

    def read_end(self, key: str, *, bytes_max: int) -> bytes:
        found = self._objects.read_end(key, bytes_max=bytes_max)
        self.ends.append(len(found))
        return found


def test_the_first_question_of_a_process_reads_ends_of_slices_alone(tmp_path: Path) -> None:
    travelled = Travelled(tmp_path)
    rows, slices = 20_000, 6
    for number in range(slices):
        changes: list[Change] = [(A, f"{number}/{at}", at * 0.1) for at in range(rows)]
        travelled.commit(changes, event_times=[number * 1000 + at % 1000 for at in range(rows)])
    objects = Counted(travelled.memory.objects)
    node = Node(replace(travelled.plain.ports, objects=objects), travelled.plain.settings)
    asked = ReadState(limit=1, as_of=Instant.from_millis(1_999))
    assert node.rows.state(travelled.entry, asked)["rows"] == 2 * rows
    # One request a slice, and the two slices that are read as a whole.
    assert len(objects.ends) == slices
    assert max(objects.ends) <= SLICE_END_BYTES < travelled.largest_slice()
    assert len(objects.whole) == 2
    node.rows.state(travelled.entry, asked)
    assert len(objects.ends) == slices


def test_a_slice_without_a_footer_is_corrupt(tmp_path: Path) -> None:
    travelled = Travelled(tmp_path)
    travelled.step([(1, "a", 0, 1.0)])
    ((data),) = data_slices_down(travelled.plain.repository.blocks(travelled.entry.id), travelled.heads[-1].hash)
    key = object_key(travelled.entry.id, DATA, data.physical_hash)
    whole = travelled.memory.objects.read_bytes(key, size_max=1 << 20)
    for wrong in (whole[:-1], b"", whole[-8:]):
        travelled.memory.objects.delete(key)
        travelled.memory.objects.put_bytes(key, wrong)
        with pytest.raises(Corrupt, match=str(data.physical_hash)):
            travelled.found(travelled.plain, as_of=Instant.from_millis(0))


def test_an_event_time_that_is_no_time_is_refused(tmp_path: Path) -> None:
    from odfabric.model.data_schema import DataField, DataSchema, DataTypeInt32
    from odfabric.usecases.state.read_state import check_event_time

    schema = DataSchema(fields=(DataField(name="year", type=DataTypeInt32()),))
    with pytest.raises(InvalidRequest, match="`year` is of type Int32, which is no time"):
        check_event_time(schema, "year", field="asOf")
    with pytest.raises(InvalidRequest, match="`when` is of type Nothing"):
        check_event_time(schema, "when", field="asOf")
