"""Checkpoints: files that are equal for equal states, and refusals of all others."""

from __future__ import annotations

import json
import struct
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from odfabric.errors import InvalidData
from odfabric.model.instant import Instant
from odfabric_engine_spark.execute.changed_input_columns import columns_text
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.state.checkpoint import (
    Checkpoint,
    InputPosition,
    StoredCheckpoint,
    bases_of,
    read_checkpoint,
    write_checkpoint,
)
from odfabric_engine_spark.state.checkpoint_file import MAGIC
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.run import HASH, WEIGHT
from odfabric_engine_spark.state.stored_runs import StateWork
from tests.services.engine.state.checkpoint_states import groups_of
from tests.services.engine.transforming import CT, A, Derivative, Input, R, input_schema

INPUTS = (
    InputPosition(dataset_id="did:odf:fed01aa", next_offset=7, watermark=Instant(-1_500_000)),
    InputPosition(dataset_id="did:odf:fed01bb", next_offset=0, watermark=None),
)
ROWS = pa.schema([pa.field("text", pa.string()), pa.field("items", pa.list_(pa.string()))])
SCHEMA = input_schema(pa.field("k", pa.string()), pa.field("v", pa.int32()))
KEYED = "select max(event_time) event_time, k, sum(v) s from a group by k"


def rows_of(path: Path, kept: StoredCheckpoint | None = None) -> RowState:
    work = StateWork(scratch=path.parent, piece_rows=100, added_bytes_max=1 << 20, check=lambda: None)
    if kept is None:
        return RowState(ROWS, timed=False, work=work)
    return kept.rows("left", ROWS, timed=False, work=work)


def added(state: RowState, hashes: range) -> RowState:
    columns = [list(hashes), [1] * len(hashes), [f"text {each}" for each in hashes], [["a", None]] * len(hashes)]
    state.add_run(state.as_run(pa.table(columns, schema=state.schema)))
    return state


def written(path: Path, state: RowState, after: StoredCheckpoint | None = None) -> Path:
    checkpoint = Checkpoint(fingerprint="f" * 64, inputs=INPUTS, watermark=None, states={"left": state})
    write_checkpoint(path, checkpoint, after=after)
    return path


def header_of(path: Path) -> dict[str, object]:
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[8:16])
    header: dict[str, object] = json.loads(data[16 : 16 + length])
    return header


def with_header(path: Path, **changes: object) -> Path:
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[8:16])
    text = json.dumps({**json.loads(data[16 : 16 + length]), **changes}).encode()
    changed = path.with_name("changed")
    start = (MAGIC + struct.pack("<Q", len(text)) + text).ljust(-(-(16 + len(text)) // 64) * 64, b"\0")
    changed.write_bytes(start + data[-(-(16 + length) // 64) * 64 :])
    return changed


def as_version_1(path: Path) -> None:
    """The file in version 1: states are compressed tables, one after the other."""
    header, groups, sink = header_of(path), groups_of(path), pa.BufferOutputStream()
    assert groups is not None
    with pa.ipc.new_stream(sink, groups.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(groups)
    body = sink.getvalue().to_pybytes()
    kept = {name: header[name] for name in ("format", "query", "watermark", "inputs")}
    parts = [{"name": "groups", "bytes": len(body)}]
    text = json.dumps({**kept, "version": 1, "bases": [], "parts": parts}).encode()
    path.write_bytes(MAGIC + struct.pack("<Q", len(text)) + text + body)


class History:
    """Transactions one after the other, each adding some keys.

    Files are known by their names.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, Path] = {}
        self.last = ""

    def kept(self) -> StoredCheckpoint | None:
        return self.read(self.last, self.last) if self.files else None

    def read(self, name: str, own_hash: str | None) -> StoredCheckpoint:
        return read_checkpoint(self.files[name], name=name, own_hash=own_hash, bases=self.files)

    def add(self, hashes: range) -> Path:
        kept = self.kept()
        self.last = f"h{len(self.files)}"
        path = self.folder / self.last
        self.files[self.last] = written(path, added(rows_of(path, kept), hashes), kept)
        return path

    def texts(self, kept: StoredCheckpoint) -> list[str]:
        state = rows_of(self.folder / "any", kept)
        return [text for piece in state.everything(10) for text in piece.column("text").to_pylist()]


@pytest.fixture
def _deltas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odfabric_engine_spark.state.checkpoint.SMALL_BYTES", 0)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "c", added(rows_of(tmp_path / "c"), range(5)))
    kept = read_checkpoint(path, name="c")
    assert (kept.fingerprint, kept.inputs, kept.watermark, kept.state_names) == ("f" * 64, INPUTS, None, ["left"])
    found = rows_of(path, kept).of_keys(pa.array([4, 9, 1], pa.uint64()))
    assert found.select([HASH, WEIGHT, "text", "items"]).to_pylist() == [
        {HASH: key, WEIGHT: 1, "text": f"text {key}", "items": ["a", None]} for key in (1, 4)
    ]


def test_the_header_describes_the_file(tmp_path: Path) -> None:
    header = header_of(written(tmp_path / "c", added(rows_of(tmp_path / "c"), range(5))))
    assert (header["format"], header["version"], header["bases"]) == ("odfabric-checkpoint", 2, [])
    assert header["inputs"] == [
        {"datasetId": "did:odf:fed01aa", "nextOffset": 7, "watermark": -1_500_000},
        {"datasetId": "did:odf:fed01bb", "nextOffset": 0, "watermark": None},
    ]
    assert header["states"] == [
        {"name": "left", "droppedTo": None, "runs": [{"file": "", "name": "left/0", "rows": [5], "never": True}]}
    ]


@pytest.mark.usefixtures("_deltas")
def test_a_delta_builds_on_earlier_files_and_is_small(tmp_path: Path) -> None:
    history = History(tmp_path)
    first, second = history.add(range(10_000)), history.add(range(10_000, 10_010))
    assert bases_of(second, name="second") == ["h0"]
    assert second.stat().st_size < first.stat().st_size / 50
    kept = history.kept()
    assert kept is not None
    assert len(history.texts(kept)) == 10_010
    assert kept.since_full == 1


@pytest.mark.usefixtures("_deltas")
def test_no_file_is_far_from_a_full_one(tmp_path: Path) -> None:
    history = History(tmp_path)
    first = bases_of(history.add(range(10_000, 15_000)), name="c")
    bases = [first, *(bases_of(history.add(range(at * 100, at * 100 + 100)), name="c") for at in range(39))]
    assert [at for at, each in enumerate(bases) if not each] == [0, 16, 32]
    assert max(map(len, bases)) < 16
    assert len(history.texts(history.read("h39", None))) == 8_900


@pytest.mark.usefixtures("_deltas")
def test_a_file_whose_hash_nobody_told_is_not_built_on(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.add(range(1_000))
    kept = history.read("h0", None)
    path = written(tmp_path / "alone", added(rows_of(tmp_path / "x", kept), range(1_000, 1_001)), kept)
    assert bases_of(path, name="alone") == []
    assert len(history.texts(read_checkpoint(path, name="alone"))) == 1_001


def test_small_states_stand_alone(tmp_path: Path) -> None:
    history = History(tmp_path)
    assert [bases_of(history.add(range(at, at + 1)), name="c") for at in range(5)] == [[]] * 5


@pytest.mark.usefixtures("_deltas")
def test_a_missing_base_is_refused(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.add(range(10))
    history.add(range(10, 20))
    with pytest.raises(InvalidData, match="builds on h0, which is missing") as caught:
        read_checkpoint(history.files["h1"], name="c", own_hash="h1", bases={})
    assert caught.value.place.rule == "checkpoint-incomplete"


@pytest.mark.parametrize(
    "data", [b"", b"PK\x03\x04 a tar or zip of another engine", b"ODFCKPT", MAGIC, MAGIC + bytes(8)]
)
def test_foreign_files_are_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "c").write_bytes(data)
    with pytest.raises(InvalidData) as caught:
        read_checkpoint(tmp_path / "c", name="checkpoints/c")
    assert caught.value.place.file == "checkpoints/c"
    assert caught.value.place.rule in ("checkpoint-foreign", "checkpoint-damaged")
    assert caught.value.hint


def test_newer_versions_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "c", rows_of(tmp_path / "c"))
    for changes in ({"version": 3}, {"version": None}, {"version": 1, "bases": ["f16..."]}):
        with pytest.raises(InvalidData) as caught:
            read_checkpoint(with_header(path, **changes), name="c")
        assert caught.value.place.rule == "checkpoint-version"


@pytest.mark.parametrize(
    "changes",
    [
        {"states": [{"name": "left", "droppedTo": "x", "runs": []}]},
        {"states": [{"name": "left", "droppedTo": None, "runs": [{"file": "", "name": "right/0"}]}]},
        {"states": 7},
        {"parts": [{"name": "left/0/hashes", "at": 0, "bytes": 1 << 60}]},
        {"parts": [{"name": "left/0/hashes", "at": -64, "bytes": 8}]},
        {"parts": [{"name": "left/0/hashes", "at": 1, "bytes": 8}]},
        {"inputs": [{}]},
        {"bases": 3},
        {"query": None, "watermark": []},
    ],
    ids=str,
)
def test_headers_that_make_no_sense_are_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    path = written(tmp_path / "c", added(rows_of(tmp_path / "c"), range(5)))
    with pytest.raises(InvalidData) as caught:
        rows_of(path, read_checkpoint(with_header(path, **changes), name="c"))
    assert caught.value.place.rule == "checkpoint-damaged"


def test_every_cut_of_a_file_is_refused(tmp_path: Path) -> None:
    whole = written(tmp_path / "c", added(rows_of(tmp_path / "c"), range(20))).read_bytes()
    end = max(part["at"] + part["bytes"] for part in header_of(tmp_path / "c")["parts"])
    for length in [*range(0, 600, 7), *range(600, len(whole) - 64, 97)]:
        (tmp_path / "cut").write_bytes(whole[:length])
        with pytest.raises(InvalidData):
            read_checkpoint(tmp_path / "cut", name="cut")
    assert end > 600


def test_damage_never_leads_out_of_the_file(tmp_path: Path) -> None:
    """Each byte turned over: refused, or another answer, but never a fault of memory."""
    path = written(tmp_path / "c", added(rows_of(tmp_path / "c"), range(20)))
    whole, refused = path.read_bytes(), 0
    wanted = pa.array(range(20), pa.uint64())
    for at in range(0, len(whole), 3):
        changed = bytearray(whole)
        changed[at] ^= 0xFF
        path.write_bytes(changed)
        try:
            rows_of(path, read_checkpoint(path, name="c")).of_keys(wanted)
        except InvalidData:
            refused += 1
    assert refused > 100


@pytest.mark.spark
def test_files_of_version_1_are_still_read(engine_call: EngineCall, tmp_path: Path) -> None:
    one = Input(tmp_path, "a", SCHEMA).add([(A, 0, "x", 1), (A, 0, "y", 2)])
    derived = Derivative(KEYED, [one], engine_call)
    first = derived.pull()
    as_version_1(first.checkpoint_path)
    one.add([(A, 0, "x", 5)])
    assert [row[2:] for row in derived.pull().records] == [("x", 1), ("x", 6)]


@pytest.mark.spark
@pytest.mark.usefixtures("_deltas")
def test_transactions_continue_over_deltas(engine_call: EngineCall, tmp_path: Path) -> None:
    """Transactions continue over deltas with the result of one transaction.

    Groups, and a join with a group, whose state is never written whole.
    """
    left = Input(tmp_path, "a", SCHEMA)
    joined = "select a.event_time, a.k, a.v, t.s from a join (select k, sum(v) s from a group by k) t on a.k = t.k"
    sliced = [Derivative(query, [left], engine_call, name=f"n{at}") for at, query in enumerate((KEYED, joined))]
    net: list[Counter[tuple[object, ...]]] = [Counter(), Counter()]
    for number in range(5):
        left.add([(R if number == 3 else A, 0, "xyz"[each % 3], each) for each in range(6)])
        for derivative, found in zip(sliced, net, strict=True):
            for op, *row in derivative.pull().records:
                found[tuple(row)] += 1 if op in (A, CT) else -1
    bases = [bases_of(each.checkpoint_path, name="c") for derivative in sliced for each in derivative.transactions]
    assert [len(each) > 0 for each in bases] == [False, True, True, True, True] * 2
    whole = [Derivative(query, [left], engine_call, name=f"w{at}") for at, query in enumerate((KEYED, joined))]
    assert [+found for found in net] == [Counter(tuple(row[1:]) for row in each.pull().records) for each in whole]


@pytest.mark.spark
def test_a_linear_query_keeps_positions_and_watermarks_only(engine_call: EngineCall, tmp_path: Path) -> None:
    one = Input(tmp_path, "a", SCHEMA).add([(A, 0, "x", 1)], watermark=3)
    found = Derivative("select event_time, v from a", [one], engine_call).pull()
    kept = read_checkpoint(found.checkpoint_path, name="c")
    assert kept.state_names == []
    mark, columns = Instant.from_millis(3), columns_text(one.data_schema)
    assert kept.inputs == (InputPosition(dataset_id=str(one.id), next_offset=1, watermark=mark, columns=columns),)


@pytest.mark.spark
def test_a_checkpoint_of_another_query_is_refused(engine_call: EngineCall, tmp_path: Path) -> None:
    one = Input(tmp_path, "a", SCHEMA).add([(A, 0, "x", 1)])
    first = Derivative(KEYED, [one], engine_call)
    first.pull()
    other = Derivative(KEYED.replace("sum(v)", "sum(v + 0)"), [one], engine_call, name="other")
    other.transactions, other.taken = first.transactions, first.taken
    with pytest.raises(InvalidData, match="another query"):
        other.pull()


@pytest.mark.spark
def test_rows_that_do_not_continue_the_checkpoint_are_refused(engine_call: EngineCall, tmp_path: Path) -> None:
    one = Input(tmp_path, "a", SCHEMA).add([(A, 0, "x", 1)]).add([(A, 0, "y", 1)]).add([(A, 0, "z", 1)])
    derived = Derivative(KEYED, [one], engine_call)
    derived.pull([1])
    derived.taken = [2]
    with pytest.raises(InvalidData, match="continues at offset 1, not at 2"):
        derived.pull()


@pytest.mark.spark
def test_an_aggregate_cannot_begin_in_the_middle_but_a_linear_query_can(
    engine_call: EngineCall, tmp_path: Path
) -> None:
    one = Input(tmp_path, "a", SCHEMA).add([(A, 0, "x", 1)]).add([(A, 0, "y", 2)])
    keyed, linear = Derivative(KEYED, [one], engine_call), Derivative("select event_time, v from a", [one], engine_call)
    keyed.taken, linear.taken = [1], [1]
    with pytest.raises(InvalidData, match="without a checkpoint"):
        keyed.pull()
    assert [row[2] for row in linear.pull().records] == [2]
